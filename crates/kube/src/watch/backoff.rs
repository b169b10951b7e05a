//! How long to wait before a request is retried.

use std::time::Duration;

use tokio::time::Instant;

/// How fast failed requests are retried, and related timeouts. Shorter in tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The first pause.
    pub shortest: Duration,
    /// The longest pause; pauses double up to it.
    pub longest: Duration,
    /// After this time without a retry, pauses start with the shortest again.
    pub forget_after: Duration,
    /// The minimum length of a watch; the maximum is twice that.
    pub watch_for: Duration,
    /// How long a streaming list may send nothing before plain lists are used instead.
    pub list_silence: Duration,
    /// How long to wait for a kind that is forbidden or missing, before scheduling starts without it.
    pub wait_for_kind: Duration,
}

impl Default for Pace {
    /// As in tools/cache/reflector.go: 0.8 s to 30 s, reset after 2 min; watches of 5 to 10 min.
    fn default() -> Self {
        Pace {
            shortest: Duration::from_millis(800),
            longest: Duration::from_secs(30),
            forget_after: Duration::from_mins(2),
            watch_for: Duration::from_mins(5),
            list_silence: Duration::from_secs(30),
            wait_for_kind: Duration::from_secs(30),
        }
    }
}

/// Pauses that grow exponentially.
#[derive(Debug)]
pub(crate) struct Backoff {
    pace: Pace,
    next: Duration,
    last: Option<Instant>,
}

impl Backoff {
    pub(crate) fn new(pace: Pace) -> Self {
        Backoff { pace, next: pace.shortest, last: None }
    }

    /// The next pause: once to twice the current step, so that clients do not retry all at once.
    pub(crate) fn next(&mut self) -> Duration {
        let now = Instant::now();
        if self.last.is_some_and(|last| self.pace.forget_after < now - last) {
            self.next = self.pace.shortest;
        }
        let step = self.next;
        self.next = (step * 2).min(self.pace.longest);
        let wait = step.mul_f64(1.0 + rand::random::<f64>());
        self.last = Some(now + wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_the_longest_and_are_reset_after_a_quiet_time() {
        let mut backoff = Backoff::new(Pace::default());
        for step in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
            let wait = backoff.next().as_secs_f64();
            assert!((step..=2.0 * step).contains(&wait), "{wait} for {step}");
        }
        tokio::time::advance(Duration::from_mins(4)).await;
        assert!(backoff.next() <= Duration::from_millis(1600));
    }
}
