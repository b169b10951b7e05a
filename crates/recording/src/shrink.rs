//! Makes a recording of an audit difference as small as possible.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_api::{KindRef, Node, ObjectKey, Pod};
use plimsoll_engine::{AuditDifference, Event, Observation, Recorder, Scheduler};

use crate::decode::Entry;

/// A small recording that shows a difference.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// What is left: events, answers and steps.
    pub entries: Vec<Entry>,
    /// The difference that it shows.
    pub difference: AuditDifference,
    /// How many replays it took.
    pub replays: u64,
}

/// How much may be done to make a recording small. The result is not the smallest if that does not suffice.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// At most so many entries are replayed, in all replays together. The first replay is not limited.
    pub entries: u64,
    /// At most so much time passes. If it ends before the first replay has found a difference, there is no result.
    pub time: Duration,
}

/// Leaves out whatever is not needed for an audit to find a difference: first everything after it, then whole objects,
/// then single entries, in ever smaller groups (delta debugging, as Zeller's `ddmin`). `scheduler` makes new schedulers
/// that audit every decision. `None` if no audit finds a difference.
pub fn shrink(
    entries: Vec<Entry>,
    scheduler: &dyn Fn() -> Scheduler,
    effort: Effort,
) -> Option<Shrunk> {
    let until = Instant::now().checked_add(effort.time);
    let mut shrinking = Shrinking { scheduler, left: effort.entries, until, replays: 0 };
    let entries = entries.into_iter().flat_map(single).collect();
    let mut best = shrinking.cut(entries)?;
    best = shrinking.without_objects(best);
    best = shrinking.without_entries(best);
    let (entries, difference) = best;
    Some(Shrunk { entries, difference, replays: shrinking.replays })
}

impl Shrunk {
    /// Replays it and shows it to `recorder`.
    pub fn record(&self, mut scheduler: Scheduler, recorder: Box<dyn Recorder>) {
        scheduler.record_to(recorder);
        for entry in &self.entries {
            play(&mut scheduler, entry);
        }
    }
}

/// The entry as single steps. What is compared or only marks something is left out.
fn single(entry: Entry) -> Vec<Entry> {
    match entry {
        Entry::Steps(now, steps) => (0..steps).map(|_| Entry::Steps(now, 1)).collect(),
        Entry::Event(..) | Entry::WindUp(_) | Entry::Waiting(_) => vec![entry],
        _ => Vec::new(),
    }
}

fn play(scheduler: &mut Scheduler, entry: &Entry) {
    let mut effects = Vec::new();
    match entry {
        Entry::Event(now, event) => scheduler.observe(*now, event.clone()),
        Entry::Steps(now, _) => drop(scheduler.step(*now, &mut effects)),
        Entry::WindUp(now) => scheduler.wind_up(*now, &mut effects),
        Entry::Waiting(decision) => scheduler.decide_waiting_pod(decision.clone()),
        _ => {}
    }
}

/// Entries that show a difference, the last one first.
type Shows = (Vec<Entry>, AuditDifference);

struct Shrinking<'a> {
    scheduler: &'a dyn Fn() -> Scheduler,
    /// How many entries may still be replayed.
    left: u64,
    /// Until when they may.
    until: Option<Instant>,
    replays: u64,
}

impl Shrinking<'_> {
    /// Whether nothing more may be replayed.
    fn is_over(&self) -> bool {
        self.left == 0 || self.is_late()
    }

    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }

    /// The entries up to the first difference; `None` if there is none, or no time to find it.
    fn cut(&mut self, mut entries: Vec<Entry>) -> Option<Shows> {
        let mut scheduler = (self.scheduler)();
        self.replays += 1;
        for index in 0..entries.len() {
            self.left = self.left.saturating_sub(1);
            if self.is_late() {
                return None;
            }
            play(&mut scheduler, &entries[index]);
            if let Some(difference) = scheduler.audit().differences.first() {
                let difference = difference.clone();
                entries.truncate(index + 1);
                return Some((entries, difference));
            }
        }
        None
    }

    /// Leaves out all events of objects.
    fn without_objects(&mut self, best: Shows) -> Shows {
        let mut groups: BTreeMap<(KindRef, ObjectKey), Vec<usize>> = BTreeMap::new();
        for (index, entry) in best.0.iter().enumerate() {
            if let Some(object) = object_of(entry) {
                groups.entry(object).or_default().push(index);
            }
        }
        self.without(best, groups.into_values().collect())
    }

    /// Leaves out single entries, until none can be left out.
    fn without_entries(&mut self, mut best: Shows) -> Shows {
        loop {
            let before = best.0.len();
            let groups = (0..before).map(|index| vec![index]).collect();
            best = self.without(best, groups);
            if best.0.len() == before || self.is_over() {
                return best;
            }
        }
    }

    /// Leaves out as many groups of entries as possible, half of them at a time, then a quarter, and so on.
    fn without(&mut self, mut best: Shows, mut groups: Vec<Vec<usize>>) -> Shows {
        let mut size = groups.len().div_ceil(2);
        while 0 < size {
            let mut at = 0;
            while at < groups.len() {
                if self.is_over() {
                    return best;
                }
                let end = groups.len().min(at + size);
                let mut keeps = vec![true; best.0.len()];
                for &index in groups[at..end].iter().flatten() {
                    keeps[index] = false;
                }
                let kept = best.0.iter().zip(&keeps).filter(|(_, keeps)| **keeps);
                match self.cut(kept.map(|(entry, _)| entry.clone()).collect()) {
                    Some(smaller) => {
                        groups.drain(at..end);
                        groups = renumbered(groups, &keeps, smaller.0.len());
                        best = smaller;
                    }
                    None => at = end,
                }
            }
            size /= 2;
        }
        best
    }
}

/// The groups with the indices of what is kept, of which there are `n`.
fn renumbered(groups: Vec<Vec<usize>>, keeps: &[bool], n: usize) -> Vec<Vec<usize>> {
    let mut next = 0;
    let numbers: Vec<usize> = keeps
        .iter()
        .map(|keeps| {
            let number = next;
            next += usize::from(*keeps);
            number
        })
        .collect();
    let of = |group: Vec<usize>| -> Vec<usize> {
        group.into_iter().map(|index| numbers[index]).filter(|index| *index < n).collect()
    };
    groups.into_iter().map(of).filter(|group| !group.is_empty()).collect()
}

/// The object that an event is about.
fn object_of(entry: &Entry) -> Option<(KindRef, ObjectKey)> {
    let Entry::Event(_, event) = entry else { return None };
    Some(match event {
        Event::Pod(Observation::Is(pod)) => (KindRef::of::<Pod>(), pod.key.clone()),
        Event::Pod(Observation::Gone(key)) => (KindRef::of::<Pod>(), key.clone()),
        Event::Node(seen) => {
            let name = match &**seen {
                Observation::Is(node) => &node.name,
                Observation::Gone(name) => name,
            };
            (KindRef::of::<Node>(), ObjectKey::new("", name.clone()))
        }
        Event::Object(Observation::Is(object)) => (object.kind(), object.key()),
        Event::Object(Observation::Gone((kind, key))) => (*kind, key.clone()),
        Event::Done(..) | Event::Extended(..) => return None,
    })
}
