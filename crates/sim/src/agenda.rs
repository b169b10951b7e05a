//! Scheduled items.

use std::collections::BTreeMap;

use plimsoll_framework::Time;

/// Scheduled items, ordered by time, and at the same time by insertion.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    items: BTreeMap<(Time, u64), T>,
    noted: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Agenda { items: BTreeMap::new(), noted: 0 }
    }
}

impl<T> Agenda<T> {
    /// Schedules `item` for `at`.
    pub(crate) fn note(&mut self, at: Time, item: T) {
        self.items.insert((at, self.noted), item);
        self.noted += 1;
    }

    /// Takes the next item that is due at `now`.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<T> {
        let first = self.items.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the next item is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.items.first_key_value().map(|((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_at_their_time_and_in_the_order_in_which_they_were_noted() {
        let mut agenda = Agenda::default();
        for (at, item) in [(5, "late"), (1, "first"), (1, "second")] {
            agenda.note(Time::from_millis(at), item);
        }
        assert_eq!(agenda.next(), Some(Time::from_millis(1)));
        assert_eq!(agenda.take_due(Time::ZERO), None);
        let now = Time::from_millis(4);
        assert_eq!(agenda.take_due(now), Some("first"));
        assert_eq!(agenda.take_due(now), Some("second"));
        assert_eq!(agenda.take_due(now), None);
    }
}
