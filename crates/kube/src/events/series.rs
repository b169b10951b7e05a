//! Which events are the same again.
//!
//! As in event_broadcaster.go: an event that differs from one of the last minutes in nothing but its note
//! and its time is a repetition of that one. The first repetition is written at once; those that follow are
//! counted, and the count is written when they end, or every half hour.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use plimsoll_api::Pod;
use tokio::time::Instant;

use super::wire::{Event, Repeats, name_of};
use super::{Dialect, Occurrence, Subject};

/// After so long without a repetition a series is over.
pub(super) const FINISHED_AFTER: Duration = Duration::from_mins(6);

/// An event that is told once in the life of a pod: it needs not be remembered.
const TOLD_ONCE: &str = "Scheduled";

/// The most events that are remembered, each in a few words. A repetition of one that was forgotten is a new
/// event.
const EVENTS_MAX: usize = 50_000;
/// The most series that are counted, and the most bytes that they may take: each keeps the text of its event and
/// what that is about.
const SERIES_MAX: usize = 10_000;
const SERIES_BYTES: usize = 16 << 20;

/// The events of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Series {
    hasher: RandomState,
    /// By a digest of what makes them equal.
    known: HashMap<u64, Known>,
    /// Events that happened once, the oldest first. Some have happened again since.
    once: VecDeque<(u64, Instant)>,
    n_repeated: usize,
    /// What the series take.
    bytes: usize,
}

/// An event that was written.
#[derive(Debug)]
enum Known {
    /// It happened once.
    Once(Once),
    /// It happened again, last at this moment.
    Again(Event, Repeats, Instant),
}

/// An event that happened once.
#[derive(Debug)]
struct Once {
    at: Timestamp,
    seen: Instant,
    /// Its name, where that does not follow.
    name: Option<Box<str>>,
}

impl Series {
    /// Takes in what happened; what is to be written, if anything.
    pub(super) fn take_in(
        &mut self,
        occurrence: Occurrence,
        dialect: Dialect,
        now: Timestamp,
    ) -> Option<Event> {
        let seen = Instant::now();
        let dialect = occurrence.regarding.dialect(dialect);
        let name = name_of(&occurrence.regarding, now);
        let occurrence = Arc::new(occurrence);
        let event = Event { name, at: now, series: None, occurrence };
        if event.occurrence.reason == TOLD_ONCE {
            return Some(event);
        }
        let key = self.key(&event.occurrence, dialect);
        match self.known.get_mut(&key) {
            None => {
                self.remember(key, &event, seen);
                Some(event)
            }
            Some(Known::Again(first, repeats, last_seen)) => {
                *last_seen = seen;
                repeats.count = repeats.count.saturating_add(1);
                repeats.last = now;
                // The correlator of the core API writes every count.
                let series = Some(*repeats);
                (dialect == Dialect::Core).then(|| Event { series, ..first.clone() })
            }
            Some(known @ Known::Once(..)) => {
                let bytes = bytes_of(&event.occurrence);
                if SERIES_MAX <= self.n_repeated || SERIES_BYTES < self.bytes + bytes {
                    return Some(event);
                }
                let repeats = Repeats { count: 2, last: now };
                let event = Event { series: Some(repeats), ..known.first(event) };
                // The whole pod would live on for as long as the series does.
                let occurrence = Arc::new(event.occurrence.without_bodies());
                *known = Known::Again(Event { occurrence, ..event.clone() }, repeats, seen);
                self.n_repeated += 1;
                self.bytes += bytes;
                Some(event)
            }
        }
    }

    /// Forgets what is over; the last counts, to be written.
    pub(super) fn finish(&mut self) -> Vec<Event> {
        while let Some(&(key, seen)) = self.once.front()
            && FINISHED_AFTER < seen.elapsed()
        {
            self.once.pop_front();
            self.forget(key, seen);
        }
        let over = |known: &Known| match known {
            Known::Once(_) => false,
            Known::Again(_, _, last_seen) => FINISHED_AFTER < last_seen.elapsed(),
        };
        let over = self.known.extract_if(|_, known| over(known));
        let events: Vec<Event> = over.filter_map(|(_, known)| known.counted()).collect();
        self.n_repeated -= events.len();
        self.bytes -= events.iter().map(|event| bytes_of(&event.occurrence)).sum::<usize>();
        events
    }

    /// The counts of all series, to be written so that the API server does not forget them.
    pub(super) fn refresh(&self) -> Vec<Event> {
        self.known.values().filter_map(Known::counted).collect()
    }

    fn remember(&mut self, key: u64, event: &Event, seen: Instant) {
        while EVENTS_MAX <= self.once.len()
            && let Some((oldest, seen)) = self.once.pop_front()
        {
            self.forget(oldest, seen);
        }
        let follows = name_of(&event.occurrence.regarding, event.at) == event.name;
        let name = (!follows).then(|| event.name.clone());
        self.known.insert(key, Known::Once(Once { at: event.at, seen, name }));
        self.once.push_back((key, seen));
    }

    /// Forgets an event that happened once.
    fn forget(&mut self, key: u64, seen: Instant) {
        if matches!(self.known.get(&key), Some(Known::Once(once)) if once.seen == seen) {
            self.known.remove(&key);
        }
    }

    fn key(&self, occurrence: &Occurrence, dialect: Dialect) -> u64 {
        let Occurrence { controller, regarding, related, kind, reason, action, note } = occurrence;
        let related = related.as_ref().map(super::Subject::reference);
        // The correlator of the core API tells texts apart.
        let text = (dialect == Dialect::Core).then_some(note);
        let regarding = regarding.reference();
        self.hasher.hash_one((controller, regarding, related, kind, reason, action, text))
    }
}

/// About how much a series of this event takes.
fn bytes_of(occurrence: &Occurrence) -> usize {
    let Occurrence { controller, regarding, related, note, .. } = occurrence;
    let subject = |subject: &Subject| {
        let reference = subject.reference();
        let texts =
            [reference.namespace, reference.name, reference.uid, reference.resource_version];
        let body = match subject {
            Subject::Pod(_) => size_of::<Pod>(),
            Subject::Lease { .. } => 0,
        };
        body + texts.iter().map(|text| text.len()).sum::<usize>()
    };
    let fixed = size_of::<(u64, Known)>() + size_of::<Occurrence>();
    let related = related.as_ref().map_or(0, subject);
    fixed + controller.len() + note.len() + subject(regarding) + related
}

impl Known {
    /// The first of what happened again as `event`.
    fn first(&mut self, event: Event) -> Event {
        match self {
            Known::Once(once) => {
                let name = once.name.take();
                let name = name.unwrap_or_else(|| name_of(&event.occurrence.regarding, once.at));
                Event { name, at: once.at, ..event }
            }
            Known::Again(first, ..) => first.clone(),
        }
    }

    /// A series with its count.
    fn counted(&self) -> Option<Event> {
        match self {
            Known::Once(_) => None,
            Known::Again(event, repeats, _) => {
                Some(Event { series: Some(*repeats), ..event.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::tests::failed;

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let mut series = Series::default();
        for i in 0..EVENTS_MAX + 10 {
            let event = failed(&format!("p{i}"), "1");
            assert!(series.take_in(event, Dialect::Events, Timestamp::UNIX_EPOCH).is_some());
        }
        assert_eq!((series.known.len(), series.once.len()), (EVENTS_MAX, EVENTS_MAX));
        // Every one happens again: so many are counted, and of the others each is told.
        for i in 10..EVENTS_MAX + 10 {
            let event = failed(&format!("p{i}"), "1");
            series.take_in(event, Dialect::Events, Timestamp::UNIX_EPOCH);
        }
        assert_eq!(series.refresh().len(), SERIES_MAX);
        tokio::time::advance(FINISHED_AFTER * 2).await;
        assert_eq!(series.finish().len(), SERIES_MAX);
        assert_eq!((series.known.len(), series.once.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn series_of_long_texts_about_large_pods_take_no_more_than_they_may() {
        let mut series = Series::default();
        let large = |i: usize| {
            let mut event = failed(&format!("p{i}-{}", "x".repeat(200)), "1");
            let Subject::Pod(pod) = &mut event.regarding else { panic!("it is about a pod") };
            Arc::make_mut(pod).labels =
                (0..100).map(|i| (format!("l{i}"), "v".repeat(63))).collect();
            Occurrence { note: "y".repeat(1024), ..event }
        };
        for i in 0..SERIES_MAX {
            for _ in 0..2 {
                let event = series.take_in(large(i), Dialect::Events, Timestamp::UNIX_EPOCH);
                assert!(event.is_some(), "what is not counted is told each time");
            }
        }
        let kept = series.refresh();
        assert!(1000 < kept.len() && kept.len() < SERIES_MAX, "{}", kept.len());
        assert!(series.bytes <= SERIES_BYTES);
        for event in &kept {
            let Subject::Pod(pod) = &event.occurrence.regarding else {
                panic!("it is about a pod")
            };
            assert!(pod.labels.is_empty(), "the pod itself is let go of");
        }
        tokio::time::advance(FINISHED_AFTER * 2).await;
        assert_eq!((series.finish().len(), series.bytes), (kept.len(), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bound_pod_costs_no_memory() {
        let mut series = Series::default();
        let event = Occurrence { reason: TOLD_ONCE, ..failed("p", "1") };
        assert!(series.take_in(event, Dialect::Events, Timestamp::UNIX_EPOCH).is_some());
        assert_eq!((series.known.len(), series.once.len()), (0, 0));
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
