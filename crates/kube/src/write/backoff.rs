//! How long to wait before something is tried again.

use std::time::Duration;

/// The longest `Retry-After` that is respected.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// Growing pauses with jitter, so that many failed requests are not all retried at the same time.
#[derive(Debug)]
pub(crate) struct RetryBackoff {
    next: Duration,
    max: Duration,
    left: u32,
}

impl RetryBackoff {
    /// Starts with `first`, and triples the pause each time up to `max`, for this many retries.
    pub(crate) fn new(first: Duration, max: Duration, times: u32) -> Self {
        RetryBackoff { next: first, max, left: times }
    }

    /// The next pause, at least as long as the API server asks for; `None` after the last retry.
    pub(crate) fn next(&mut self, retry_after: Option<Duration>) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        let mean = self.next;
        self.next = (mean * 3).min(self.max);
        let wait = mean.mul_f64(rand::random_range(0.5..1.5));
        Some(wait.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_end() {
        let (first, max) = (Duration::from_millis(100), Duration::from_millis(400));
        let mut backoff = RetryBackoff::new(first, max, 4);
        for mean in [100, 300, 400, 400] {
            let wait = backoff.next(None).expect("it is not yet over");
            let around = Duration::from_millis(mean / 2)..Duration::from_millis(mean * 3 / 2);
            assert!(around.contains(&wait), "{wait:?} around {mean} ms");
        }
        assert_eq!(backoff.next(None), None);
    }

    #[test]
    fn the_api_server_can_make_us_wait_but_not_for_ever() {
        let mut backoff = RetryBackoff::new(Duration::from_millis(1), Duration::from_millis(1), 2);
        let (second, hour) = (Duration::from_secs(1), Duration::from_hours(1));
        assert_eq!(backoff.next(Some(second)), Some(second));
        assert_eq!(backoff.next(Some(hour)), Some(RETRY_AFTER_MAX));
    }
}
