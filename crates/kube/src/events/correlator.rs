//! Finds repetitions of events.
//!
//! As in event_broadcaster.go: an event that differs from a recent one only in its note and its time is
//! a repetition of it. The first repetition is written at once. Further ones are counted, and the count
//! is written when the series ends, and every half hour.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use plimsoll_api::Pod;
use tokio::time::Instant;

use super::wire::{Repeats, WireEvent, name_of};
use super::{Dialect, EventObject, Occurrence};

/// A series ends after this time without a repetition.
pub(super) const FINISHED_AFTER: Duration = Duration::from_mins(6);

/// The reason of an event that happens once in the life of a pod, so it need not be remembered.
const RECORDED_ONCE: &str = "Scheduled";

/// At most this many events are remembered; each takes a few bytes. A repetition of a forgotten one is
/// a new event.
const EVENTS_MAX: usize = 50_000;
/// At most this many series are counted, and they take at most this many bytes: each keeps the text of
/// its event and the object.
const SERIES_MAX: usize = 10_000;
const SERIES_BYTES: usize = 16 << 20;

/// The events of the last minutes.
#[derive(Debug, Default)]
pub(super) struct EventCorrelator {
    hasher: RandomState,
    /// By a hash of the fields that must be equal.
    recent: HashMap<u64, RecentEvent>,
    /// Events that happened once, oldest first. Some may have been repeated since.
    once: VecDeque<(u64, Instant)>,
    n_repeated: usize,
    /// The size of the series.
    bytes: usize,
}

/// An event that was written.
#[derive(Debug)]
enum RecentEvent {
    /// It happened once.
    Once(Once),
    /// It happened again, last at this moment.
    Again(WireEvent, Repeats, Instant),
}

/// An event that happened once.
#[derive(Debug)]
struct Once {
    at: Timestamp,
    seen: Instant,
    /// Its name, if it cannot be derived.
    name: Option<Box<str>>,
}

impl EventCorrelator {
    /// Adds an occurrence, and returns what to write, if anything.
    pub(super) fn record(
        &mut self,
        occurrence: Occurrence,
        dialect: Dialect,
        now: Timestamp,
    ) -> Option<WireEvent> {
        let seen = Instant::now();
        let dialect = occurrence.regarding.dialect(dialect);
        let name = name_of(&occurrence.regarding, now);
        let occurrence = Arc::new(occurrence);
        let event = WireEvent { name, at: now, series: None, occurrence };
        if event.occurrence.reason == RECORDED_ONCE {
            return Some(event);
        }
        let key = self.key(&event.occurrence, dialect);
        match self.recent.get_mut(&key) {
            None => {
                self.remember(key, &event, seen);
                Some(event)
            }
            Some(RecentEvent::Again(first, repeats, last_seen)) => {
                *last_seen = seen;
                repeats.count = repeats.count.saturating_add(1);
                repeats.last = now;
                // The correlator of the core API writes every count.
                let series = Some(*repeats);
                (dialect == Dialect::Core).then(|| WireEvent { series, ..first.clone() })
            }
            Some(recent @ RecentEvent::Once(..)) => {
                let bytes = bytes_of(&event.occurrence);
                if SERIES_MAX <= self.n_repeated || SERIES_BYTES < self.bytes + bytes {
                    return Some(event);
                }
                let repeats = Repeats { count: 2, last: now };
                let event = WireEvent { series: Some(repeats), ..recent.first(event) };
                // Otherwise the series would keep the whole pod in memory.
                let occurrence = Arc::new(event.occurrence.without_bodies());
                *recent =
                    RecentEvent::Again(WireEvent { occurrence, ..event.clone() }, repeats, seen);
                self.n_repeated += 1;
                self.bytes += bytes;
                Some(event)
            }
        }
    }

    /// Removes events and series that have ended, and returns the final counts to write.
    pub(super) fn finish(&mut self) -> Vec<WireEvent> {
        while let Some(&(key, seen)) = self.once.front()
            && FINISHED_AFTER < seen.elapsed()
        {
            self.once.pop_front();
            self.forget(key, seen);
        }
        let over = |recent: &RecentEvent| match recent {
            RecentEvent::Once(_) => false,
            RecentEvent::Again(_, _, last_seen) => FINISHED_AFTER < last_seen.elapsed(),
        };
        let over = self.recent.extract_if(|_, recent| over(recent));
        let events: Vec<WireEvent> = over.filter_map(|(_, recent)| recent.counted()).collect();
        self.n_repeated -= events.len();
        self.bytes -= events.iter().map(|event| bytes_of(&event.occurrence)).sum::<usize>();
        events
    }

    /// The counts of all series, to be written again so that the events do not expire on the API
    /// server.
    pub(super) fn refresh(&self) -> Vec<WireEvent> {
        self.recent.values().filter_map(RecentEvent::counted).collect()
    }

    fn remember(&mut self, key: u64, event: &WireEvent, seen: Instant) {
        while EVENTS_MAX <= self.once.len()
            && let Some((oldest, seen)) = self.once.pop_front()
        {
            self.forget(oldest, seen);
        }
        let follows = name_of(&event.occurrence.regarding, event.at) == event.name;
        let name = (!follows).then(|| event.name.clone());
        self.recent.insert(key, RecentEvent::Once(Once { at: event.at, seen, name }));
        self.once.push_back((key, seen));
    }

    /// Forgets an event that happened once.
    fn forget(&mut self, key: u64, seen: Instant) {
        if matches!(self.recent.get(&key), Some(RecentEvent::Once(once)) if once.seen == seen) {
            self.recent.remove(&key);
        }
    }

    fn key(&self, occurrence: &Occurrence, dialect: Dialect) -> u64 {
        let Occurrence { controller, regarding, related, kind, reason, action, note } = occurrence;
        let related = related.as_ref().map(super::EventObject::reference);
        // The correlator of the core API distinguishes texts.
        let text = (dialect == Dialect::Core).then_some(note);
        let regarding = regarding.reference();
        self.hasher.hash_one((controller, regarding, related, kind, reason, action, text))
    }
}

/// The approximate size of a series of this event.
fn bytes_of(occurrence: &Occurrence) -> usize {
    let Occurrence { controller, regarding, related, note, .. } = occurrence;
    let subject = |subject: &EventObject| {
        let reference = subject.reference();
        let texts =
            [reference.namespace, reference.name, reference.uid, reference.resource_version];
        let body = match subject {
            EventObject::Pod(_) => size_of::<Pod>(),
            EventObject::Lease { .. } => 0,
        };
        body + texts.iter().map(|text| text.len()).sum::<usize>()
    };
    let fixed = size_of::<(u64, RecentEvent)>() + size_of::<Occurrence>();
    let related = related.as_ref().map_or(0, subject);
    fixed + controller.len() + note.len() + subject(regarding) + related
}

impl RecentEvent {
    /// The first occurrence of the repeated `event`.
    fn first(&mut self, event: WireEvent) -> WireEvent {
        match self {
            RecentEvent::Once(once) => {
                let name = once.name.take();
                let name = name.unwrap_or_else(|| name_of(&event.occurrence.regarding, once.at));
                WireEvent { name, at: once.at, ..event }
            }
            RecentEvent::Again(first, ..) => first.clone(),
        }
    }

    /// A series with its count.
    fn counted(&self) -> Option<WireEvent> {
        match self {
            RecentEvent::Once(_) => None,
            RecentEvent::Again(event, repeats, _) => {
                Some(WireEvent { series: Some(*repeats), ..event.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::tests::failed;

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let mut correlator = EventCorrelator::default();
        for i in 0..EVENTS_MAX + 10 {
            let event = failed(&format!("p{i}"), "1");
            assert!(correlator.record(event, Dialect::Events, Timestamp::UNIX_EPOCH).is_some());
        }
        assert_eq!((correlator.recent.len(), correlator.once.len()), (EVENTS_MAX, EVENTS_MAX));
        // Every event is repeated: up to the limit they are counted, and all others are written each
        // time.
        for i in 10..EVENTS_MAX + 10 {
            let event = failed(&format!("p{i}"), "1");
            correlator.record(event, Dialect::Events, Timestamp::UNIX_EPOCH);
        }
        assert_eq!(correlator.refresh().len(), SERIES_MAX);
        tokio::time::advance(FINISHED_AFTER * 2).await;
        assert_eq!(correlator.finish().len(), SERIES_MAX);
        assert_eq!((correlator.recent.len(), correlator.once.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn series_of_long_texts_about_large_pods_stay_within_the_limit() {
        let mut correlator = EventCorrelator::default();
        let large = |i: usize| {
            let mut event = failed(&format!("p{i}-{}", "x".repeat(200)), "1");
            let EventObject::Pod(pod) = &mut event.regarding else { panic!("it is about a pod") };
            Arc::make_mut(pod).labels =
                (0..100).map(|i| (format!("l{i}"), "v".repeat(63))).collect();
            Occurrence { note: "y".repeat(1024), ..event }
        };
        for i in 0..SERIES_MAX {
            for _ in 0..2 {
                let event = correlator.record(large(i), Dialect::Events, Timestamp::UNIX_EPOCH);
                assert!(event.is_some(), "what is not counted is written each time");
            }
        }
        let kept = correlator.refresh();
        assert!(1000 < kept.len() && kept.len() < SERIES_MAX, "{}", kept.len());
        assert!(correlator.bytes <= SERIES_BYTES);
        for event in &kept {
            let EventObject::Pod(pod) = &event.occurrence.regarding else {
                panic!("it is about a pod")
            };
            assert!(pod.labels.is_empty(), "the pod itself is not kept");
        }
        tokio::time::advance(FINISHED_AFTER * 2).await;
        assert_eq!((correlator.finish().len(), correlator.bytes), (kept.len(), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bound_pod_costs_no_memory() {
        let mut correlator = EventCorrelator::default();
        let event = Occurrence { reason: RECORDED_ONCE, ..failed("p", "1") };
        assert!(correlator.record(event, Dialect::Events, Timestamp::UNIX_EPOCH).is_some());
        assert_eq!((correlator.recent.len(), correlator.once.len()), (0, 0));
    }

    #[test]
    fn an_event_about_an_object_with_a_long_name_has_another_name() {
        let follows = |length| {
            let event = failed(&"x".repeat(length), "1");
            name_of(&event.regarding, Timestamp::UNIX_EPOCH).starts_with("xxx")
        };
        assert!(follows(200) && !follows(253));
    }
}
