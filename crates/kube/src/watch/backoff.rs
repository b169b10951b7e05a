//! How long to wait before a server is asked again.

use std::time::Duration;

use tokio::time::Instant;

/// How fast things are tried again. Shorter in tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The first wait.
    pub shortest: Duration,
    /// The longest wait, up to which it doubles.
    pub longest: Duration,
    /// After so long without a wait, the next is the shortest again.
    pub forget_after: Duration,
    /// How long one watch lasts at least; at most twice that.
    pub watch_for: Duration,
    /// How long a streaming list may be silent before lists are asked for instead.
    pub list_silence: Duration,
    /// How long a kind that we may not read, or that the server has not, keeps others waiting; then it is
    /// gone on without it.
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

/// Waits that become longer.
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

    /// How long to wait now: between once and twice the step, so that clients do not come all at once.
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
    async fn waits_double_up_to_the_longest_and_are_forgotten_after_a_quiet_time() {
        let mut backoff = Backoff::new(Pace::default());
        for step in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
            let wait = backoff.next().as_secs_f64();
            assert!((step..=2.0 * step).contains(&wait), "{wait} for {step}");
        }
        tokio::time::advance(Duration::from_mins(4)).await;
        assert!(backoff.next() <= Duration::from_millis(1600));
    }
}
