//! The heartbeat of the engine's thread, which shows that it makes progress.
//!
//! A thread can be stuck in a plugin that never returns, or in a lock that is never released. It then
//! decides nothing, while other tasks keep renewing the lease, so no other instance takes over.
//! Therefore the thread beats, and if there is no beat for too long it counts as stuck. It beats
//! between any two steps, within a decision whenever a plugin or an extension point begins or ends, and
//! from time to time while it is idle. The total time of a decision does not matter, nor whether this
//! instance leads.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// The number of checks within the time after which a thread without a beat counts as stuck. What
/// counts is the number of checks without a beat: a process that was suspended makes only one check
/// when it resumes.
const LOOKS: u32 = 20;

/// The shortest interval between checks. A shorter limit counts as that many checks at this interval:
/// an engine that had to beat more often would do nothing else, and no timer is that precise.
const LOOK_MIN: Duration = Duration::from_millis(1);

/// The longest interval between beats of an idle thread, which otherwise beats twice between two
/// checks.
const REST_MAX: Duration = Duration::from_secs(1);

thread_local! {
    /// The heartbeat of the engine on this thread.
    static OWN: RefCell<Option<Heartbeat>> = const { RefCell::new(None) };
}

/// The heartbeat of one engine. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    beats: Arc<AtomicU64>,
    /// After this time without a beat it counts as stuck; zero for never.
    limit: Duration,
}

impl Heartbeat {
    pub(crate) fn new(limit: Duration) -> Self {
        Heartbeat { beats: Arc::default(), limit }
    }

    /// From now on, [`beat`] on this thread beats this heartbeat.
    pub(crate) fn adopt(&self) {
        OWN.with_borrow_mut(|own| *own = Some(self.clone()));
    }

    /// Signals progress.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// How long an idle thread may go without a beat.
    pub(crate) fn rest(&self) -> Duration {
        if self.limit.is_zero() { Duration::MAX } else { (self.look() / 2).min(REST_MAX) }
    }

    /// The interval between two checks.
    fn look(&self) -> Duration {
        (self.limit / LOOKS).max(LOOK_MIN)
    }

    /// Waits until there was no beat for longer than allowed; forever if there is no limit.
    pub(crate) async fn stops(&self) {
        if self.limit.is_zero() {
            return std::future::pending().await;
        }
        let mut look = interval(self.look());
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut seen, mut in_vain) = (None, 0);
        while in_vain <= LOOKS {
            look.tick().await;
            let beats = Some(self.beats.load(Ordering::Relaxed));
            in_vain = if beats == seen { in_vain + 1 } else { 0 };
            seen = beats;
        }
    }
}

/// Signals progress of the engine on this thread, if there is one.
pub(crate) fn beat() {
    OWN.with_borrow(|own| {
        if let Some(heartbeat) = own {
            heartbeat.beat();
        }
    });
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_that_stops_is_noticed_after_as_long_as_is_allowed() {
        let heartbeat = Heartbeat::new(LIMIT);
        let beating = heartbeat.clone();
        let begun = Instant::now();
        let beats = tokio::spawn(async move {
            for _ in 0..500 {
                beating.beat();
                sleep(beating.rest()).await;
            }
        });
        heartbeat.stops().await;
        assert!(beats.is_finished());
        let silent = begun.elapsed().saturating_sub(heartbeat.rest() * 500);
        assert!(LIMIT <= silent + heartbeat.rest() && silent < LIMIT * 2, "{silent:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_was_stopped_for_an_hour_is_not_taken_for_stuck() {
        let heartbeat = Heartbeat::new(LIMIT);
        let watch = heartbeat.stops();
        tokio::pin!(watch);
        assert!(futures::poll!(watch.as_mut()).is_pending());
        // Neither the engine nor the check ran meanwhile.
        tokio::time::advance(Duration::from_hours(1)).await;
        assert!(futures::poll!(watch.as_mut()).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_no_clock_can_measure_is_no_bug() {
        for limit in [Duration::from_nanos(1), Duration::from_nanos(19), Duration::from_micros(1)] {
            let heartbeat = Heartbeat::new(limit);
            assert!(!heartbeat.rest().is_zero(), "an engine that never rests does nothing else");
            let begun = Instant::now();
            heartbeat.stops().await;
            assert!(begun.elapsed() < Duration::from_secs(1), "{limit:?}: {:?}", begun.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nothing_is_stuck() {
        let heartbeat = Heartbeat::new(Duration::ZERO);
        assert!(tokio::time::timeout(Duration::from_hours(100), heartbeat.stops()).await.is_err());
    }

    #[test]
    fn only_the_engine_of_a_thread_beats_on_it() {
        let heartbeat = Heartbeat::new(LIMIT);
        let beats = || heartbeat.beats.load(Ordering::Relaxed);
        beat();
        assert_eq!(beats(), 0);
        heartbeat.adopt();
        beat();
        std::thread::spawn(beat).join().expect("it does not panic");
        assert_eq!(beats(), 1);
    }
}
