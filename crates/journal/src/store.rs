//! The file: its schema, and what is written to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hashbrown::HashSet;
use plimsoll_api::{CompositePodGroup, Kind, PodGroup, PodKey, Str};
use plimsoll_framework::Time;
use rusqlite::{
    Connection, ErrorCode, OptionalExtension as _, Transaction, TransactionBehavior, params,
};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::batch::{Answer, Batch, BatchAttempt, HOUR, PodChange, Slowest};
use crate::entry::{AttemptEntry, Entry, GroupEntry};
use crate::names::NewNames;
use crate::pods::{Awaited, AwaitedAnswers, Pod, PodRef};
use crate::rows::{Columns, Values};

/// The schema of a journal, with comments: an interface for other programs.
pub const SCHEMA: &str = include_str!("schema.sql");

/// The version of the schema (`PRAGMA user_version`).
pub const VERSION: i64 = 3;

/// That a file is a journal (`PRAGMA application_id`): "PLIM".
const APPLICATION: i64 = 0x504c_494d;

/// Losses within a minute are one row, so that there are never many.
const MINUTE: i64 = 60_000;

/// At most so many texts are remembered with their numbers.
const MOST_TEXTS: usize = 100_000;
/// At most so many pods are remembered.
const MOST_PODS: usize = 200_000;

/// How a journal is written. Rows are only written with numbers of rows that are there, and deleted before these: SQLite need not
/// look for them. It copies the log into the file after 16 MiB, four times as much as usual, since it waits for the disk each time,
/// and some pages are changed again and again; no more is lost by that, whatever ends the process.
const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = OFF; \
     PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -16384;";

/// What has changed of a pod: its names, the number of its last attempt, the number of new ones, its times, and its last attempt.
const WRITE_POD: &str = "INSERT INTO pods (namespace, name, uid, attempts, ready_at, bound_at, waited, last_attempt) VALUES (?1, ?2, ?3, \
     ?4, ?6, ?7, ?7 - ?6, ?8) ON CONFLICT (name, namespace, uid) DO UPDATE SET last_attempt = max(last_attempt, ?8), attempts = \
     attempts + ?5, ready_at = coalesce(ready_at, ?6), bound_at = coalesce(?7, bound_at), waited = coalesce(?7 - coalesce(ready_at, \
     ?6), waited)";
/// That a pod was evicted: the attempt that placed it, and when.
const EVICT_POD: &str = "INSERT INTO pods (namespace, name, uid, attempts, ready_at, bound_at, waited, evicted_at, last_attempt) SELECT \
     namespace, name, uid, number, ready_at, iif(error IS NULL, answered_at, NULL), iif(error IS NULL, answered_at, NULL) - ready_at, ?2, \
     id FROM attempts LEFT JOIN bindings ON attempt = id WHERE id = ?1 ON CONFLICT (name, namespace, uid) DO UPDATE SET evicted_at = \
     excluded.evicted_at RETURNING uid";
/// Attempts. An error undoes the whole transaction, so SQLite need not note how to undo the statement (`OR FAIL`).
const ATTEMPTS: Columns = Columns {
    insert: "INSERT OR FAIL INTO attempts (at, namespace, name, uid, number, profile, result, node, message, nominated, woken_by, \
     ready_at, queued_at, judged, feasible, margin)",
    width: 16,
};
/// Texts that may be there already.
const TEXTS: Columns = Columns { insert: "INSERT OR IGNORE INTO texts (text)", width: 1 };
/// The answers to bindings. Another program may have deleted an attempt whose id is given again, but not its answer.
const BINDINGS: Columns =
    Columns { insert: "INSERT OR REPLACE INTO bindings (attempt, answered_at, error)", width: 3 };

const INSERT_GROUP: &str = "INSERT INTO group_attempts (at, kind, namespace, name, number, result, message, placement, pods, scheduled) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The size of the file, in bytes, beyond which the oldest attempts are deleted.
    pub size: u64,
    /// The age beyond which attempts are deleted.
    pub age: Duration,
}

impl Default for Retention {
    /// A gibibyte and a week.
    fn default() -> Self {
        Retention { size: 1 << 30, age: Duration::from_hours(7 * 24) }
    }
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file is something else.
    #[error("{0} is not a journal of decisions: name another file")]
    NotAJournal(PathBuf),
    /// Another version of this program has written it.
    #[error(
        "{path} has version {found} of the schema, and this program writes version {VERSION}: name another file"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// There is no such file.
    #[error(
        "{0} does not exist: `plimsoll run --journal FILE` and `plimsoll simulate --journal FILE` write one"
    )]
    NoFile(PathBuf),
    /// SQLite reports an error.
    #[error("{path}: {error}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The error.
        error: rusqlite::Error,
    },
}

/// Whether another program holds the file at present.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// An open journal.
pub(crate) struct Store {
    pub(crate) connection: Connection,
    texts: FxHashMap<Str, i64>,
    /// Pods that are known to be in the table of that name, and may be tried or bound yet.
    pods: HashSet<Pod, FxBuildHasher>,
    binding: AwaitedAnswers,
    /// None before the first time that something is written, and after an error.
    names: Option<NewNames>,
}

impl Store {
    /// Opens a journal, or makes one.
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        let failed = |error| JournalError::Sqlite { path: path.to_owned(), error };
        let mut connection = Connection::open(path).map_err(failed)?;
        let is_new = is_empty(&connection).map_err(|error| not_a_journal(path, error))?;
        if is_new {
            create(&mut connection).map_err(failed)?;
        }
        check(&connection, path)?;
        connection.execute_batch(SCHEMA).map_err(failed)?;
        connection.execute_batch(PRAGMAS).map_err(failed)?;
        let pods = not_bound(&connection).map_err(failed)?;
        let (texts, binding) = <_>::default();
        Ok(Store { connection, texts, pods, binding, names: None })
    }

    /// Opens a journal to read it.
    pub(crate) fn open_to_read(path: &Path) -> Result<Connection, JournalError> {
        if !path.exists() {
            return Err(JournalError::NoFile(path.to_owned()));
        }
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
        let connection = Connection::open_with_flags(path, flags)
            .or_else(|_| {
                Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
            })
            .map_err(|error| JournalError::Sqlite { path: path.to_owned(), error })?;
        let is_empty = is_empty(&connection).map_err(|error| not_a_journal(path, error))?;
        if is_empty {
            return Err(JournalError::NotAJournal(path.to_owned()));
        }
        check(&connection, path)?;
        Ok(connection)
    }

    /// Writes entries in one transaction.
    pub(crate) fn write(&mut self, entries: &[Entry]) -> rusqlite::Result<()> {
        if MOST_TEXTS < self.texts.len() {
            self.texts.clear();
        }
        if MOST_PODS < self.pods.len() {
            self.pods.clear();
        }
        let Store { connection, texts, pods, binding, .. } = self;
        // Another program may write, too: a transaction that begins by reading would fail at once.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // SQLite counts on from the last attempt, and nobody else writes during the transaction.
        let sql = "SELECT coalesce(max(id), 0) FROM attempts";
        let last = transaction.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        let mut names = match self.names.take() {
            Some(names) if names.last() == last => names,
            _ => NewNames::load(&transaction, last)?,
        };
        let batch = Batch::of(entries, last + 1);
        Writing { on: &transaction, texts, pods, binding, names: &mut names }.batch(&batch)?;
        names.write_many(&transaction)?;
        transaction.commit()?;
        self.names = Some(names);
        Ok(())
    }

    /// Notes that entries were lost.
    pub(crate) fn lose(&self, at: i64, n: u64) -> rusqlite::Result<()> {
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        let mut add = self.connection.prepare_cached(
            "UPDATE losses SET entries = entries + ?2 WHERE rowid = (SELECT max(rowid) FROM losses) AND ?1 - at < ?3",
        )?;
        if 0 < add.execute(params![at, n, MINUTE])? {
            return Ok(());
        }
        let mut insert = self.connection.prepare_cached("INSERT INTO losses VALUES (?1, ?2)")?;
        insert.execute(params![at, n]).map(|_| ())
    }

    /// How many bytes the file has, without its log of what is not in it yet.
    pub(crate) fn size(&self) -> rusqlite::Result<u64> {
        let sql = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
        let size: i64 = self.connection.query_row(sql, [], |row| row.get(0))?;
        Ok(u64::try_from(size).unwrap_or(0))
    }

    /// The time of the newest attempt.
    pub(crate) fn newest(&self) -> rusqlite::Result<Option<i64>> {
        self.connection
            .query_row("SELECT at FROM attempts ORDER BY id DESC LIMIT 1", [], |row| row.get(0))
            .optional()
    }

    /// Deletes what is too old, and the oldest tenth if the file is too large.
    pub(crate) fn keep(&mut self, retention: Retention) -> rusqlite::Result<()> {
        let Some(newest) = self.newest()? else { return Ok(()) };
        let age = i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX);
        let young = "SELECT id, at FROM attempts WHERE ?1 <= at ORDER BY id LIMIT 1";
        self.delete_before(young, newest.saturating_sub(age))?;
        let size: i64 = self.connection.query_row(
            "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()",
            [],
            |row| row.get(0),
        )?;
        if u64::try_from(size).is_ok_and(|size| retention.size < size) {
            let attempts: i64 =
                self.connection.query_row("SELECT count(*) FROM attempts", [], |row| row.get(0))?;
            let kept = "SELECT id, at FROM attempts ORDER BY id LIMIT 1 OFFSET ?1";
            self.delete_before(kept, attempts / 10)?;
        }
        self.connection.execute_batch("PRAGMA incremental_vacuum;")
    }

    /// Deletes the attempts before the first one to keep (a query with one value, for its number and time), with what belongs to
    /// them.
    fn delete_before(&mut self, kept: &str, value: i64) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let kept = transaction.query_row(kept, [value], |row| Ok((row.get(0)?, row.get(1)?)));
        let Some((id, at)) = kept.optional()? else { return Ok(()) };
        let (id, at): (i64, i64) = (id, at);
        for table in ["bindings", "rejections", "scores", "victims"] {
            transaction.execute(&format!("DELETE FROM {table} WHERE attempt < ?1"), [id])?;
        }
        let gone = transaction.execute("DELETE FROM attempts WHERE id < ?1", [id])?;
        if 0 < gone {
            transaction.execute("DELETE FROM pods WHERE last_attempt < ?1", [id])?;
            transaction.execute("DELETE FROM names WHERE segment < ?1", [id])?;
            transaction.execute("DELETE FROM hours WHERE hour < ?1", [at - at.rem_euclid(HOUR)])?;
            transaction.execute("DELETE FROM losses WHERE at < ?1", [at])?;
            transaction.execute(
                "DELETE FROM group_victims WHERE attempt IN (SELECT id FROM group_attempts WHERE at < ?1)",
                [at],
            )?;
            transaction.execute("DELETE FROM group_attempts WHERE at < ?1", [at])?;
            self.binding.forget_before(id);
        }
        transaction.commit()
    }
}

fn not_a_journal(path: &Path, error: rusqlite::Error) -> JournalError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => JournalError::NotAJournal(path.to_owned()),
        _ => JournalError::Sqlite { path: path.to_owned(), error },
    }
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let n: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(n == 0)
}

/// The pods that are in `pods` and have no node yet.
fn not_bound(connection: &Connection) -> rusqlite::Result<HashSet<Pod, FxBuildHasher>> {
    let mut query = connection.prepare(
        "SELECT namespace, name, uid FROM pods WHERE bound_at IS NULL ORDER BY id DESC LIMIT ?1",
    )?;
    let pods = query.query_map([number(MOST_PODS)], |row| {
        let text = |column| row.get::<_, String>(column).map(Str::from);
        Ok(Pod::new(&PodKey::new(text(0)?, text(1)?), &text(2)?))
    })?;
    pods.collect()
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;")?;
    // A process that is killed leaves a whole journal or none.
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
    ))?;
    transaction.commit()
}

fn check(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    let failed = |error| JournalError::Sqlite { path: path.to_owned(), error };
    let number = |name: &str| {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
    };
    if number("application_id").map_err(failed)? != APPLICATION {
        return Err(JournalError::NotAJournal(path.to_owned()));
    }
    let found = number("user_version").map_err(failed)?;
    if found != VERSION {
        return Err(JournalError::Version { path: path.to_owned(), found });
    }
    Ok(())
}

/// Answers to bindings, by the ids of their attempts.
type Answers<'b> = Vec<(i64, Answer<'b>)>;
/// What has changed of pods.
type Changes<'b> = Vec<(PodRef<'b>, PodChange)>;

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
struct Writing<'a> {
    on: &'a Transaction<'a>,
    texts: &'a mut FxHashMap<Str, i64>,
    pods: &'a mut HashSet<Pod, FxBuildHasher>,
    binding: &'a mut AwaitedAnswers,
    names: &'a mut NewNames,
}

impl Writing<'_> {
    /// Writes each row once, with all that the batch says of it.
    fn batch(&mut self, batch: &Batch<'_>) -> rusqlite::Result<()> {
        let (mut answers, bound) = self.late_answers(&batch.answers);
        let detailed = self.attempts(&batch.attempts, &mut answers)?;
        BINDINGS.insert(self.on, &answers, |row, (id, answer)| {
            row.number(*id)?;
            row.number(answer.at.millis())?;
            row.number(self.optional(answer.error)?)
        })?;
        for (pod, change) in batch.pods.iter().chain(&bound) {
            self.pod(*pod, change)?;
        }
        for (id, entry) in detailed {
            self.details(id, entry)?;
        }
        for group in &batch.groups {
            self.group(group)?;
        }
        let mut count = self.on.prepare_cached(
            "INSERT INTO hours VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET attempts = attempts + ?3",
        )?;
        for ((hour, plugin), n) in &batch.hours {
            count.execute(params![hour, plugin, n])?;
        }
        Ok(())
    }

    /// Finds the attempts of earlier batches whose bindings are answered: the answers by the ids of these, in their order, and what
    /// changes of the pods that are bound now and are in `pods`.
    fn late_answers<'b>(
        &mut self,
        answers: &[(PodRef<'b>, Answer<'b>)],
    ) -> (Answers<'b>, Changes<'b>) {
        let mut found = Vec::with_capacity(answers.len());
        let (mut bound, mut slow) = (Vec::new(), Slowest::new());
        for &(pod, answer) in answers {
            let Some(attempt) = self.binding.remove(pod) else { continue };
            found.push((attempt.id, answer));
            if answer.error.is_some() {
                continue;
            }
            let Awaited { id: last, number, ready_at } = attempt;
            let bound_at = Some(answer.at.millis());
            let change = PodChange { number, ready_at, bound_at, last, ..PodChange::default() };
            if change.is_notable() || self.pods.contains(&pod) {
                bound.push((pod, change));
            } else {
                slow.add(change.waited(), (pod, PodChange { is_slow: true, ..change }));
            }
        }
        bound.extend(slow.into_pods());
        // SQLite appends a row faster than it finds the place of one.
        (in_order(found), bound)
    }

    /// Writes attempts. Adds the answers to their bindings to `answers`, and returns those that have more than their row.
    fn attempts<'b>(
        &mut self,
        attempts: &[BatchAttempt<'b>],
        answers: &mut Answers<'b>,
    ) -> rusqlite::Result<Vec<(i64, &'b AttemptEntry)>> {
        self.new_texts(attempts.iter().filter_map(|attempt| attempt.entry.node.as_deref()))?;
        let (mut detailed, mut last) = (Vec::new(), LastTexts::default());
        ATTEMPTS.insert(self.on, attempts, |row, attempt| {
            let BatchAttempt { id, pod, entry, answer, .. } = *attempt;
            self.attempt(row, &mut last, entry)?;
            self.names.add(&entry.pod.name, id);
            if let Some(answer) = answer {
                answers.push((id, answer));
                self.binding.remove(pod);
            } else if entry.node.is_some() {
                let ready_at = entry.first_ready.map(Time::millis);
                self.binding.insert(pod, Awaited { id, number: entry.number, ready_at });
            }
            if entry.has_details() {
                detailed.push((id, entry));
            }
            Ok(())
        })?;
        debug_assert!(attempts.last().is_none_or(|last| last.id == self.on.last_insert_rowid()));
        Ok(detailed)
    }

    fn attempt<'b>(
        &mut self,
        row: &mut Values<'_, '_>,
        last: &mut LastTexts<'b>,
        entry: &'b AttemptEntry,
    ) -> rusqlite::Result<()> {
        row.number(entry.at.millis())?;
        row.repeated(&entry.pod.namespace)?;
        row.text(&entry.pod.name)?;
        row.text(&entry.uid)?;
        row.number(i64::from(entry.number))?;
        row.number(self.repeated(&mut last.profile, &entry.profile)?)?;
        row.word(entry.result)?;
        row.number(self.optional(entry.node.as_deref())?)?;
        row.number(self.optional(entry.message.as_deref())?)?;
        row.number(self.optional(entry.nominated.as_deref())?)?;
        row.number(self.repeated(&mut last.woken_by, &entry.woken_by)?)?;
        row.number(entry.first_ready.map(Time::millis))?;
        row.number(entry.queued.millis())?;
        row.number(number(entry.judged))?;
        row.number(entry.feasible.map(number))?;
        row.number(entry.margin)
    }

    /// Writes those of many texts that are not remembered, which takes less time than one by one.
    fn new_texts<'b>(&mut self, texts: impl Iterator<Item = &'b str>) -> rusqlite::Result<()> {
        let new: FxHashSet<&str> = texts.filter(|text| !self.texts.contains_key(*text)).collect();
        // In the order of their index.
        let mut new: Vec<&str> = new.into_iter().collect();
        new.sort_unstable();
        let written = TEXTS.insert(self.on, &new, |row, text| row.text(text))?;
        // Otherwise some were there already, and are found one by one.
        if written == new.len() {
            let last = self.on.last_insert_rowid();
            let ids = (last + 1 - number(written)..).zip(new);
            self.texts.extend(ids.map(|(id, text)| (text.into(), id)));
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> rusqlite::Result<i64> {
        if let Some(id) = self.texts.get(text) {
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
        self.texts.insert(text.into(), id);
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

    /// Writes what has changed of a pod, if it is one of those that are in `pods`.
    fn pod(&mut self, pod: PodRef<'_>, change: &PodChange) -> rusqlite::Result<()> {
        let is_known = self.pods.contains(&pod);
        if !is_known && !change.is_notable() {
            return Ok(());
        }
        let PodChange { attempts, number, ready_at, bound_at, last, .. } = *change;
        let (namespace, name) = (pod.key.namespace.as_str(), pod.key.name.as_str());
        let uid = pod.uid.as_str();
        self.on
            .prepare_cached(WRITE_POD)?
            .execute(params![namespace, name, uid, number, attempts, ready_at, bound_at, last])?;
        if !is_known {
            self.pods.insert(pod.into());
        }
        Ok(())
    }

    fn details(&mut self, id: i64, entry: &AttemptEntry) -> rusqlite::Result<()> {
        for rejection in &entry.rejections {
            let plugin = self.text(&rejection.plugin)?;
            let reason = self.optional(rejection.reason.as_deref())?;
            let sql = "INSERT INTO rejections VALUES (?1, ?2, ?3, ?4)";
            let nodes = rejection.nodes.map(number);
            self.on.prepare_cached(sql)?.execute(params![id, plugin, reason, nodes])?;
        }
        for (rank, scored) in entry.best.iter().enumerate() {
            let node = self.text(&scored.node)?;
            let by_plugin = serde_json::to_string(&scored.by_plugin).unwrap_or_default();
            let sql = "INSERT INTO scores VALUES (?1, ?2, ?3, ?4, ?5)";
            let values = params![id, number(rank + 1), node, scored.total, by_plugin];
            self.on.prepare_cached(sql)?.execute(values)?;
        }
        let victims =
            Victims { attempt: id, pods: &entry.victims, at: entry.at, placed_before: id };
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
            let uid: String = evict.query_row([placing, at.millis()], |row| row.get(0))?;
            // Its binding may not be answered yet.
            self.pods.insert(Pod::new(victim, &uid.into()));
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

/// Sorts answers by the ids of their attempts, of which each is there once. The ids are mostly close together, so that each answer
/// has a place in a list of all of them; to compare the answers would take twenty times as long.
fn in_order(mut answers: Answers<'_>) -> Answers<'_> {
    let ids = || answers.iter().map(|(id, _)| *id);
    let Some((first, last)) = ids().min().zip(ids().max()) else { return answers };
    let Some(length) = usize::try_from(last - first).ok().filter(|n| *n < 8 * answers.len()) else {
        answers.sort_unstable_by_key(|(id, _)| *id);
        return answers;
    };
    let mut by_id = vec![None; length + 1];
    for (place, id) in ids().enumerate() {
        by_id[usize::try_from(id - first).expect("the first is the lowest")] = Some(place);
    }
    by_id.into_iter().flatten().map(|place| answers[place]).collect()
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{AttemptContext, Decision, Outcome};

    use super::*;

    fn attempt(name: &str, now: i64) -> Entry {
        let context = AttemptContext {
            uid: Str::from(name),
            profile: "default-scheduler".into(),
            fingerprint: 0,
            woken_by: "PodAdd".to_owned(),
            queued: Time::from_millis(now),
            first_ready: None,
            judged: 1,
            rejections: [].into(),
            rejectors: Vec::new(),
            feasible: None,
            margin: None,
            best: None,
        };
        let outcome = Outcome::Scheduled { node: "n1".into(), best: Vec::new() };
        let decision = Decision {
            context: Some(Box::new(context)),
            ..Decision::of_pod(PodKey::new("shop", name), 1, outcome)
        };
        let entry = AttemptEntry::of(Time::from_millis(now), &decision);
        Entry::Attempt(Box::new(entry.expect("it was an attempt")))
    }

    fn bound(name: &str, now: i64) -> Entry {
        let (at, pod) = (Time::from_millis(now), PodKey::new("shop", name));
        Entry::Bound { at, pod, uid: Str::from(name), error: None }
    }

    #[test]
    fn answers_are_sorted_whether_their_attempts_are_close_together_or_not() {
        for step in [1, 2, 1_000_000] {
            let ids = [5, 3, 4, 9, 7].map(|id| id * step);
            let answer = |id| Answer { at: Time::from_millis(id), error: None };
            let sorted = in_order(ids.iter().map(|id| (*id, answer(*id))).collect());
            let expected = [3, 4, 5, 7, 9].map(|id| (id * step, answer(id * step)));
            assert_eq!(sorted, expected);
        }
        assert_eq!(in_order(Vec::new()), []);
    }

    #[test]
    fn a_binding_is_answered_although_older_attempts_were_deleted_meanwhile() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut store = Store::open(&folder.path().join("journal.db")).expect("it is new");
        store.write(&[attempt("old", 0), attempt("new", 90_000)]).expect("it can be written");
        let age = Duration::from_mins(1);
        store.keep(Retention { age, ..Retention::default() }).expect("it can be written");
        store.write(&[bound("old", 90_001), bound("new", 90_002)]).expect("it can be written");
        let sql = "SELECT group_concat(name || ' ' || answered_at) FROM history";
        let told: String =
            store.connection.query_row(sql, [], |row| row.get(0)).expect("it can be read");
        assert_eq!(told, "new 90002");
        let sql = "SELECT count(*) FROM bindings";
        let n: i64 = store.connection.query_row(sql, [], |row| row.get(0)).expect("it is there");
        assert_eq!(n, 1);
    }
}
