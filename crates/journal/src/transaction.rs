//! What is written to the file, each time in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{CompositePodGroup, Kind, PodGroup, PodKey, Str};
use plimsoll_framework::Time;
use rusqlite::{Connection, Transaction, params};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::entry::{Attempt, Details, EndingEntry, Entries, GroupEntry};
use crate::names::NewNames;
use crate::pods::{LeftPods, PodChange, PodChanges, PodRef, Slowest};
use crate::rows::{Columns, Values};
use crate::sequences::Sequences;

/// An hour, in milliseconds.
pub(crate) const HOUR: i64 = 3_600_000;
/// At most so many texts are remembered with their numbers.
const MOST_TEXTS: usize = 100_000;

/// What has changed of a pod by attempts: its names, the number of the last one, how many there were, when it was first ready, and the
/// id of the last one.
const WRITE_POD: &str = "INSERT INTO pods (namespace, name, uid, attempts, ready_at, last_attempt) VALUES (?1, ?2, ?3, ?4, ?6, ?7) \
     ON CONFLICT (name, namespace, uid) DO UPDATE SET attempts = attempts + ?5, ready_at = coalesce(ready_at, ?6), last_attempt = \
     max(last_attempt, ?7)";
/// That pods were bound: a JSON object of the attempts that placed them, and when. For each statement SQLite copies the pages that it
/// changes, so one statement for all pods takes less time than one for each.
const BIND_PODS: &str = "INSERT INTO pods (namespace, name, uid, attempts, ready_at, bound_at, waited, last_attempt) SELECT namespace, \
     name, uid, number, ready_at, value, value - ready_at, attempts.id FROM json_each(?1) CROSS JOIN attempts ON attempts.id = \
     CAST(key AS INTEGER) WHERE true ON CONFLICT (name, namespace, uid) DO UPDATE SET bound_at = excluded.bound_at, waited = \
     coalesce(excluded.bound_at - ready_at, waited)";
/// That a pod was evicted: the attempt that placed it, and when.
const EVICT_POD: &str = "INSERT INTO pods (namespace, name, uid, attempts, ready_at, bound_at, waited, evicted_at, last_attempt) SELECT \
     namespace, name, uid, number, ready_at, iif(error IS NULL, answered_at, NULL), iif(error IS NULL, answered_at, NULL) - ready_at, ?2, \
     id FROM attempts LEFT JOIN bindings ON attempt = id WHERE id = ?1 ON CONFLICT (name, namespace, uid) DO UPDATE SET evicted_at = \
     excluded.evicted_at RETURNING bound_at IS NULL";
/// Attempts.
const ATTEMPTS: Columns = Columns {
    insert: "INSERT INTO attempts (id, at, namespace, name, uid, number, profile, result, node, message, nominated, woken_by, \
     ready_at, queued_at, judged, feasible, margin)",
    row: "NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?",
    width: 16,
};
/// Texts that may be there already.
const TEXTS: Columns =
    Columns { insert: "INSERT OR IGNORE INTO texts (id, text)", row: "NULL, ?", width: 1 };
/// The ends of binding cycles.
const BINDINGS: Columns = Columns {
    insert: "INSERT OR IGNORE INTO bindings (attempt, answered_at, error)",
    row: "?, ?, ?",
    width: 3,
};

const INSERT_GROUP: &str = "INSERT INTO group_attempts (at, kind, namespace, name, number, result, message, placement, pods, scheduled) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

/// What is remembered of the file from one transaction to the next.
#[derive(Debug)]
pub(crate) struct Remembered {
    texts: FxHashMap<Str, i64>,
    left: LeftPods,
    sequences: Sequences,
    /// The attempts whose pods are in `pods` although they are the first ones, if their binding cycles have not ended.
    in_pods: FxHashSet<i64>,
}

impl Remembered {
    /// What is in a journal that others have written.
    pub(crate) fn load(on: &Connection) -> rusqlite::Result<Self> {
        let (texts, sequences, in_pods) = <_>::default();
        Ok(Remembered { texts, left: LeftPods::load(on)?, sequences, in_pods })
    }

    /// Forgets the attempts so far: others get their ids.
    pub(crate) fn forget_attempts(&mut self) {
        self.sequences.clear();
        self.in_pods.clear();
    }

    /// Forgets attempts with a lower id.
    pub(crate) fn forget_before(&mut self, id: i64) {
        self.sequences.forget_before(id);
        self.in_pods.retain(|attempt| id <= *attempt);
    }
}

/// The ends of binding cycles, by the ids of the attempts that began them.
type Endings<'b> = Vec<(i64, &'b EndingEntry)>;

/// What attempts say besides their rows.
#[derive(Default)]
struct Told<'b> {
    /// Of pods that are in `pods`.
    changes: PodChanges<'b>,
    /// Attempts with their details.
    details: Vec<(i64, Time, &'b Details)>,
    /// By hour and plugin: how many attempts got a node (no plugin), and how many a plugin rejected.
    hours: BTreeMap<(i64, &'b str), i64>,
}

impl<'b> Told<'b> {
    fn add(&mut self, id: i64, attempt: &Attempt<'b>, is_in_pods: bool) {
        if is_in_pods {
            self.changes.add(id, attempt);
        }
        let at = attempt.entry.at;
        let hour = at.millis() - at.millis().rem_euclid(HOUR);
        if attempt.is_placed {
            *self.hours.entry((hour, "")).or_default() += 1;
        }
        let Some(details) = attempt.entry.details.as_deref() else { return };
        self.details.push((id, at, details));
        if !attempt.is_placed {
            let plugins: BTreeSet<&str> =
                details.rejections.iter().map(|one| one.plugin.as_str()).collect();
            for plugin in plugins {
                *self.hours.entry((hour, plugin)).or_default() += 1;
            }
        }
    }
}

/// Pods that are evicted.
struct Victims<'b> {
    /// The attempt, of a pod or of a group, that evicts them.
    attempt: i64,
    pods: &'b [PodKey],
    at: Time,
    /// The attempts that placed them have lower ids: another pod may have the name of one of them by now.
    placed_before: i64,
}

/// Texts of the last attempt, with their numbers.
#[derive(Default)]
struct LastTexts<'b> {
    profile: Option<(&'b str, i64)>,
    woken_by: Option<(&'b str, i64)>,
}

/// A transaction in which entries are written.
pub(crate) struct Writing<'a> {
    pub(crate) on: &'a Transaction<'a>,
    pub(crate) remembered: &'a mut Remembered,
    pub(crate) names: &'a mut NewNames,
}

impl Writing<'_> {
    /// Writes entries. The attempts get the ids from the first one on.
    pub(crate) fn entries(&mut self, entries: &Entries, first: i64) -> rusqlite::Result<()> {
        if MOST_TEXTS < self.remembered.texts.len() {
            self.remembered.texts.clear();
        }
        let told = self.attempts(entries, first)?;
        let endings = self.endings(entries);
        BINDINGS.insert(self.on, endings.len(), &endings, |row, (id, ending)| {
            row.number(*id)?;
            row.number(ending.at.millis())?;
            row.number(self.optional(ending.error.as_deref())?)
        })?;
        for (pod, change) in told.changes.iter() {
            self.pod(pod, change)?;
        }
        self.bound(&endings)?;
        for (id, at, details) in told.details {
            self.details(id, at, details)?;
        }
        for group in &entries.groups {
            self.group(group)?;
        }
        let mut count = self.on.prepare_cached(
            "INSERT INTO hours VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET attempts = attempts + ?3",
        )?;
        for ((hour, plugin), n) in told.hours {
            count.execute(params![hour, plugin, n])?;
        }
        Ok(())
    }

    /// Writes the rows of attempts.
    fn attempts<'b>(&mut self, entries: &'b Entries, first: i64) -> rusqlite::Result<Told<'b>> {
        let nodes = self.nodes(entries)?;
        let (mut told, mut last) = (Told::default(), LastTexts::default());
        let n = nodes.len();
        let rows = (first..).zip(nodes).zip(entries.attempts());
        ATTEMPTS.insert(self.on, n, rows, |row, ((id, node), attempt)| {
            self.attempt(row, &mut last, &attempt, node)?;
            self.names.add(attempt.name, id);
            self.remembered.sequences.add(attempt.entry.sequence, id);
            let is_first = attempt.entry.number == 1;
            let is_in_pods = !is_first || self.remembered.left.has(&attempt);
            if is_first && is_in_pods && attempt.is_placed {
                self.remembered.in_pods.insert(id);
            }
            told.add(id, &attempt, is_in_pods);
            Ok(())
        })?;
        Ok(told)
    }

    fn attempt<'b>(
        &mut self,
        row: &mut Values<'_, '_>,
        last: &mut LastTexts<'b>,
        attempt: &Attempt<'b>,
        node: Option<i64>,
    ) -> rusqlite::Result<()> {
        let entry = attempt.entry;
        let details = entry.details.as_deref();
        row.number(entry.at.millis())?;
        row.repeated(attempt.namespace)?;
        row.text(attempt.name)?;
        row.text(attempt.uid)?;
        row.number(i64::from(entry.number))?;
        row.number(self.repeated(&mut last.profile, attempt.profile)?)?;
        row.word(entry.result)?;
        row.number(node)?;
        row.number(self.optional(details.and_then(|details| details.message.as_deref()))?)?;
        row.number(self.optional(details.and_then(|details| details.nominated.as_deref()))?)?;
        row.number(self.repeated(&mut last.woken_by, attempt.woken_by)?)?;
        row.number(entry.first_ready.map(Time::millis))?;
        row.number(entry.queued.millis())?;
        row.number(number(entry.judged))?;
        row.number(entry.feasible.map(number))?;
        row.number(entry.margin)
    }

    /// The numbers of the chosen nodes. Those that are not remembered are written together, which takes less time than one by one.
    fn nodes(&mut self, entries: &Entries) -> rusqlite::Result<Vec<Option<i64>>> {
        let known = entries.nodes().map(|node| self.remembered.texts.get(node?).copied());
        let mut ids: Vec<Option<i64>> = known.collect();
        let unknown =
            || ids.iter().zip(entries.nodes()).filter(|(id, node)| id.is_none() && node.is_some());
        let new: FxHashSet<&str> = unknown().filter_map(|(_, node)| node).collect();
        if new.is_empty() {
            return Ok(ids);
        }
        // In the order of their index.
        let mut new: Vec<&str> = new.into_iter().collect();
        new.sort_unstable();
        let written = TEXTS.insert(self.on, new.len(), &new, |row, text| row.text(text))?;
        // Otherwise some were there already, and are found one by one.
        if written == new.len() {
            let last = self.on.last_insert_rowid();
            let ids = (last + 1 - number(written)..).zip(new);
            self.remembered.texts.extend(ids.map(|(id, text)| (text.into(), id)));
        }
        for (id, node) in ids.iter_mut().zip(entries.nodes()) {
            if id.is_none() {
                *id = self.optional(node)?;
            }
        }
        Ok(ids)
    }

    /// The ends of binding cycles whose attempts are there.
    fn endings<'b>(&self, entries: &'b Entries) -> Endings<'b> {
        let mut endings = Vec::with_capacity(entries.endings.len());
        for ending in &entries.endings {
            if let Some(id) = self.remembered.sequences.id(ending.sequence) {
                endings.push((id, ending));
            }
        }
        // SQLite appends a row faster than it finds the place of one.
        sort(&mut endings);
        endings
    }

    /// Notes that pods are bound, if they are in `pods`, or waited longest.
    fn bound(&mut self, endings: &Endings<'_>) -> rusqlite::Result<()> {
        // In the order of the attempts.
        let (mut bound, mut slow) = (BTreeMap::new(), Slowest::new());
        for (id, ending) in endings {
            let is_in_pods = 1 < ending.number || self.remembered.in_pods.remove(id);
            if ending.error.is_some() {
                continue;
            }
            let at = ending.at.millis();
            if is_in_pods {
                bound.insert(*id, at);
            } else if let Some(ready_at) = ending.first_ready {
                slow.add(at - ready_at.millis(), (*id, at));
            }
        }
        bound.extend(slow.into_pods());
        if bound.is_empty() {
            return Ok(());
        }
        let bound = serde_json::to_string(&bound).unwrap_or_default();
        self.on.prepare_cached(BIND_PODS)?.execute([bound]).map(|_| ())
    }

    fn text(&mut self, text: &str) -> rusqlite::Result<i64> {
        if let Some(id) = self.remembered.texts.get(text) {
            return Ok(*id);
        }
        // Most texts that are not remembered are new.
        let mut insert =
            self.on.prepare_cached("INSERT OR IGNORE INTO texts (text) VALUES (?1)")?;
        let id = if insert.execute([text])? == 1 {
            self.on.last_insert_rowid()
        } else {
            let mut find = self.on.prepare_cached("SELECT id FROM texts WHERE text = ?1")?;
            find.query_row([text], |row| row.get(0))?
        };
        self.remembered.texts.insert(text.into(), id);
        Ok(id)
    }

    /// The number of a text that is most often that of the last attempt, too.
    fn repeated<'b>(
        &mut self,
        last: &mut Option<(&'b str, i64)>,
        text: &'b str,
    ) -> rusqlite::Result<i64> {
        match *last {
            Some((before, id)) if before == text => Ok(id),
            _ => {
                let id = self.text(text)?;
                *last = Some((text, id));
                Ok(id)
            }
        }
    }

    fn optional(&mut self, text: Option<&str>) -> rusqlite::Result<Option<i64>> {
        text.map(|text| self.text(text)).transpose()
    }

    /// Writes what has changed of a pod that is in `pods`.
    fn pod(&mut self, pod: PodRef<'_>, change: PodChange) -> rusqlite::Result<()> {
        let PodRef { namespace, name, uid } = pod;
        let PodChange { attempts, number, ready_at, last } = change;
        let values = params![namespace, name, uid, number, attempts, ready_at, last];
        self.on.prepare_cached(WRITE_POD)?.execute(values).map(|_| ())
    }

    fn details(&mut self, id: i64, at: Time, details: &Details) -> rusqlite::Result<()> {
        for rejection in &details.rejections {
            let plugin = self.text(&rejection.plugin)?;
            let reason = self.optional(rejection.reason.as_deref())?;
            let sql = "INSERT INTO rejections VALUES (?1, ?2, ?3, ?4)";
            let nodes = rejection.nodes.map(number);
            self.on.prepare_cached(sql)?.execute(params![id, plugin, reason, nodes])?;
        }
        for (rank, scored) in details.best.iter().enumerate() {
            let node = self.text(&scored.node)?;
            let by_plugin = serde_json::to_string(&scored.by_plugin).unwrap_or_default();
            let sql = "INSERT INTO scores VALUES (?1, ?2, ?3, ?4, ?5)";
            let values = params![id, number(rank + 1), node, scored.total, by_plugin];
            self.on.prepare_cached(sql)?.execute(values)?;
        }
        let victims = Victims { attempt: id, pods: &details.victims, at, placed_before: id };
        self.victims("INSERT INTO victims VALUES (?1, ?2)", &victims)
    }

    /// Writes the pods that are evicted by an attempt, by a statement for its number and their names.
    fn victims(&mut self, insert: &str, victims: &Victims<'_>) -> rusqlite::Result<()> {
        let Victims { attempt, pods, at, placed_before } = *victims;
        for victim in pods {
            self.on.prepare_cached(insert)?.execute(params![attempt, victim.to_string()])?;
            let placing = self.names.last_before(self.on, victim, placed_before)?;
            let Some(placing) = placing else { continue };
            let mut evict = self.on.prepare_cached(EVICT_POD)?;
            // Its binding may not be answered yet.
            if evict.query_row([placing, at.millis()], |row| row.get(0))? {
                self.remembered.in_pods.insert(placing);
            }
        }
        Ok(())
    }

    fn group(&mut self, entry: &GroupEntry) -> rusqlite::Result<()> {
        let message = self.optional(entry.message.as_deref())?;
        let placement = self.optional(entry.placement.as_deref())?;
        self.on.prepare_cached(INSERT_GROUP)?.execute(params![
            entry.at.millis(),
            if entry.is_composite { CompositePodGroup::NAME } else { PodGroup::NAME },
            entry.group.namespace.as_str(),
            entry.group.name.as_str(),
            entry.number,
            entry.result.as_str(),
            message,
            placement,
            number(entry.pods),
            number(entry.scheduled),
        ])?;
        let id = self.on.last_insert_rowid();
        let (attempt, at) = (id, entry.at);
        let victims = Victims { attempt, pods: &entry.victims, at, placed_before: i64::MAX };
        self.victims("INSERT INTO group_victims VALUES (?1, ?2)", &victims)
    }
}

/// Sorts the ends of binding cycles by the ids of their attempts, of which each is there once. The ids are mostly close together, so
/// that each has a place in a list of all of them; to compare them would take twenty times as long.
fn sort(endings: &mut Endings<'_>) {
    let ids = || endings.iter().map(|(id, _)| *id);
    let Some((first, last)) = ids().min().zip(ids().max()) else { return };
    let Some(length) = usize::try_from(last - first).ok().filter(|n| *n < 8 * endings.len()) else {
        endings.sort_unstable_by_key(|(id, _)| *id);
        return;
    };
    let mut by_id = vec![None; length + 1];
    for (id, ending) in endings.drain(..) {
        by_id[usize::try_from(id - first).expect("the first is the lowest")] = Some(ending);
    }
    endings.extend((first..).zip(by_id).filter_map(|(id, ending)| Some((id, ending?))));
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_sorted_whether_their_attempts_are_close_together_or_not() {
        for step in [1, 2, 1_000_000] {
            let endings = [3, 4, 5, 7, 9].map(|id| {
                let at = Time::from_millis(id);
                (
                    id * step,
                    EndingEntry { at, sequence: 0, number: 1, first_ready: None, error: None },
                )
            });
            let mut sorted =
                [2, 0, 1, 4, 3].map(|place| (endings[place].0, &endings[place].1)).into();
            sort(&mut sorted);
            assert_eq!(sorted, endings.each_ref().map(|(id, ending)| (*id, ending)));
        }
        let mut none = Vec::new();
        sort(&mut none);
        assert_eq!(none, []);
    }
}
