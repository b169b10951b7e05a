//! How long a pod waits after a failed attempt.

use std::time::Duration;

use plimsoll_framework::Time;

/// Backoff ends at whole multiples of this span, so that pods whose backoff ends together are taken in
/// the order of the queue. As in backoff_queue.go, backoffQOrderingWindowDuration.
const WINDOW: Duration = Duration::from_secs(1);

/// The first and the longest backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure (`podInitialBackoffSeconds`).
    pub initial: Duration,
    /// At most (`podMaxBackoffSeconds`); zero switches backoff off.
    pub max: Duration,
}

impl Default for Backoff {
    /// 1 s to 10 s.
    fn default() -> Self {
        Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(10) }
    }
}

impl Backoff {
    /// The duration after `failures` failures in a row, which doubles each time.
    pub(crate) fn span(self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u32.checked_shl(doublings).filter(|&factor| factor != 0);
        factor.and_then(|factor| self.initial.checked_mul(factor)).unwrap_or(self.max).min(self.max)
    }

    /// When the backoff of a pod that failed at `since` ends; `None` if it has none. As in
    /// backoff_queue.go, isPodBackingoff: it lasts to the end of the [`WINDOW`] in which the duration
    /// ends.
    pub(crate) fn end(self, since: Time, failures: u32) -> Option<Time> {
        let any = 0 < failures && !self.max.is_zero();
        any.then(|| align(since + self.span(failures)) + WINDOW)
    }
}

/// The start of the window that contains `time`.
fn align(time: Time) -> Time {
    let window = i64::try_from(WINDOW.as_millis()).expect("a window is short");
    Time::from_millis(time.millis().div_euclid(window) * window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_from_one_to_ten_seconds() {
        let spans: Vec<u64> = (0..7).map(|n| Backoff::default().span(n).as_secs()).collect();
        assert_eq!(spans, [0, 1, 2, 4, 8, 10, 10]);
        assert_eq!(Backoff::default().span(u32::MAX).as_secs(), 10);
    }

    #[test]
    fn it_lasts_to_the_end_of_the_window_in_which_its_span_ends() {
        let end = |since| Backoff::default().end(Time::from_millis(since), 1);
        assert_eq!(end(2_700), Some(Time::from_millis(4_000)));
        assert_eq!(end(3_000), Some(Time::from_millis(5_000)));
    }

    #[test]
    fn without_a_failure_or_with_a_longest_span_of_zero_there_is_none() {
        assert_eq!(Backoff::default().end(Time::ZERO, 0), None);
        let off = Backoff { max: Duration::ZERO, ..Backoff::default() };
        assert_eq!(off.end(Time::ZERO, 3), None);
    }
}
