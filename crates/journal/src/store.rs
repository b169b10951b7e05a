//! The file: its schema, and what is written to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_api::{CompositePodGroup, Kind, PodGroup, PodKey, Str};
use plimsoll_framework::Time;
use rusqlite::{
    Connection, ErrorCode, OptionalExtension as _, Statement, Transaction, TransactionBehavior,
    params,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::batch::{Answer, Batch, HOUR, PodChange, PodRef, mark_slowest};
use crate::entry::{AttemptEntry, Entry, GroupEntry};

/// The schema of a journal, with comments: an interface for other programs.
pub const SCHEMA: &str = include_str!("schema.sql");

/// The version of the schema (`PRAGMA user_version`).
pub const VERSION: i64 = 2;

/// That a file is a journal (`PRAGMA application_id`): "PLIM".
const APPLICATION: i64 = 0x504c_494d;

/// Losses within a minute are one row, so that there are never many.
const MINUTE: i64 = 60_000;

/// At most so many texts are remembered with their numbers.
const MOST_TEXTS: usize = 100_000;
/// At most so many pods are remembered.
const MOST_PODS: usize = 200_000;

/// What has changed of a pod: its names, the number of its last attempt, the number of new ones, and its times.
const WRITE_POD: &str = "INSERT INTO pods (namespace, name, uid, attempts, ready_at, bound_at, waited) VALUES (?1, ?2, ?3, ?4, ?6, ?7, \
     ?7 - ?6) ON CONFLICT (name, namespace, uid) DO UPDATE SET attempts = attempts + ?5, ready_at = coalesce(ready_at, ?6), \
     bound_at = coalesce(?7, bound_at), waited = coalesce(?7 - coalesce(ready_at, ?6), waited)";
/// That a pod was evicted: its names, and when. It was placed by the last attempt.
const EVICT_POD: &str = "INSERT INTO pods (namespace, name, uid, attempts, ready_at, bound_at, waited, evicted_at) SELECT namespace, \
     name, uid, number, ready_at, iif(error IS NULL, answered_at, NULL), iif(error IS NULL, answered_at, NULL) - ready_at, ?3 FROM \
     attempts WHERE namespace = ?1 AND name = ?2 ORDER BY id DESC LIMIT 1 ON CONFLICT (name, namespace, uid) DO UPDATE SET evicted_at \
     = excluded.evicted_at RETURNING uid";
const INSERT_ATTEMPT: &str = "INSERT INTO attempts (at, namespace, name, uid, number, profile, result, node, message, nominated, \
     woken_by, ready_at, queued_at, judged, feasible, margin, answered_at, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, \
     ?12, ?13, ?14, ?15, ?16, ?17, ?18)";

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
    pods: FxHashSet<(PodKey, Str)>,
    /// The last attempt of each pod that waits for the answer to its binding.
    binding: FxHashMap<(PodKey, Str), Awaited>,
}

/// An attempt whose binding is not answered yet.
#[derive(Clone, Copy)]
struct Awaited {
    id: i64,
    number: u32,
    /// When the pod was first ready to be tried.
    ready_at: Option<i64>,
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
        connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16384;")
            .map_err(failed)?;
        let pods = not_bound(&connection).map_err(failed)?;
        let (texts, binding) = <_>::default();
        Ok(Store { connection, texts, pods, binding })
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
        let Store { connection, texts, pods, binding } = self;
        // Another program may write, too: a transaction that begins by reading would fail at once.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        Writing { on: &transaction, texts, pods, binding }.batch(&Batch::of(entries))?;
        transaction.commit()
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
        for table in ["rejections", "scores", "victims"] {
            transaction.execute(&format!("DELETE FROM {table} WHERE attempt < ?1"), [id])?;
        }
        let gone = transaction.execute("DELETE FROM attempts WHERE id < ?1", [id])?;
        if 0 < gone {
            transaction.execute(
                "DELETE FROM pods WHERE NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.name = pods.name AND attempts.namespace = \
                 pods.namespace AND attempts.uid = pods.uid)",
                [],
            )?;
            transaction.execute("DELETE FROM hours WHERE hour < ?1", [at - at.rem_euclid(HOUR)])?;
            transaction.execute("DELETE FROM losses WHERE at < ?1", [at])?;
            transaction.execute(
                "DELETE FROM group_victims WHERE attempt IN (SELECT id FROM group_attempts WHERE at < ?1)",
                [at],
            )?;
            transaction.execute("DELETE FROM group_attempts WHERE at < ?1", [at])?;
            self.binding.clear();
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
fn not_bound(connection: &Connection) -> rusqlite::Result<FxHashSet<(PodKey, Str)>> {
    let mut query = connection.prepare(
        "SELECT namespace, name, uid FROM pods WHERE bound_at IS NULL ORDER BY id DESC LIMIT ?1",
    )?;
    let pods = query.query_map([number(MOST_PODS)], |row| {
        let text = |column| row.get::<_, String>(column).map(Str::from);
        Ok((PodKey::new(text(0)?, text(1)?), text(2)?))
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

/// A transaction in which entries are written.
struct Writing<'a> {
    on: &'a Transaction<'a>,
    texts: &'a mut FxHashMap<Str, i64>,
    pods: &'a mut FxHashSet<(PodKey, Str)>,
    binding: &'a mut FxHashMap<(PodKey, Str), Awaited>,
}

impl Writing<'_> {
    /// Writes each row once, with all that the batch says of it.
    fn batch(&mut self, batch: &Batch<'_>) -> rusqlite::Result<()> {
        for (pod, change) in &batch.pods {
            self.pod(*pod, change)?;
        }
        let mut insert = self.on.prepare_cached(INSERT_ATTEMPT)?;
        for attempt in &batch.attempts {
            self.attempt(&mut insert, attempt.entry, attempt.answer)?;
        }
        self.answers(&batch.answers)?;
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

    /// Writes the answers to bindings of attempts that are in the file.
    fn answers(&mut self, answers: &[(PodRef<'_>, Answer<'_>)]) -> rusqlite::Result<()> {
        let mut bound = Vec::new();
        for &(pod, answer) in answers {
            let awaited = self.binding.remove(&(pod.0.clone(), pod.1.clone()));
            let Some(Awaited { id, number, ready_at }) = awaited else { continue };
            let (at, error) = (answer.at.millis(), self.optional(answer.error)?);
            self.on
                .prepare_cached("UPDATE attempts SET answered_at = ?2, error = ?3 WHERE id = ?1")?
                .execute(params![id, at, error])?;
            if error.is_none() {
                let bound_at = Some(at);
                bound.push((pod, PodChange { number, ready_at, bound_at, ..PodChange::default() }));
            }
        }
        mark_slowest(bound.iter_mut().map(|(_, change)| change));
        bound.iter().try_for_each(|(pod, change)| self.pod(*pod, change))
    }

    fn text(&mut self, text: &str) -> rusqlite::Result<i64> {
        if let Some(id) = self.texts.get(text) {
            return Ok(*id);
        }
        let mut find = self.on.prepare_cached("SELECT id FROM texts WHERE text = ?1")?;
        let found: Option<i64> = find.query_row([text], |row| row.get(0)).optional()?;
        let id = if let Some(id) = found {
            id
        } else {
            self.on.prepare_cached("INSERT INTO texts (text) VALUES (?1)")?.execute([text])?;
            self.on.last_insert_rowid()
        };
        self.texts.insert(text.into(), id);
        Ok(id)
    }

    fn optional(&mut self, text: Option<&str>) -> rusqlite::Result<Option<i64>> {
        text.map(|text| self.text(text)).transpose()
    }

    /// Writes what has changed of a pod, if it is one of those that are in `pods`.
    fn pod(&mut self, (pod, uid): PodRef<'_>, change: &PodChange) -> rusqlite::Result<()> {
        let is_known = !self.pods.is_empty() && self.pods.contains(&(pod.clone(), uid.clone()));
        if !is_known && !change.is_notable() {
            return Ok(());
        }
        let PodChange { attempts, number, ready_at, bound_at, .. } = *change;
        let (namespace, name, uid_text) = (pod.namespace.as_str(), pod.name.as_str(), uid.as_str());
        self.on
            .prepare_cached(WRITE_POD)?
            .execute(params![namespace, name, uid_text, number, attempts, ready_at, bound_at])?;
        self.pods.insert((pod.clone(), uid.clone()));
        Ok(())
    }

    fn attempt(
        &mut self,
        insert: &mut Statement<'_>,
        entry: &AttemptEntry,
        answer: Option<Answer<'_>>,
    ) -> rusqlite::Result<()> {
        let profile = self.text(&entry.profile)?;
        let node = self.optional(entry.node.as_deref())?;
        let message = self.optional(entry.message.as_deref())?;
        let nominated = self.optional(entry.nominated.as_deref())?;
        let woken_by = self.text(&entry.woken_by)?;
        let error = self.optional(answer.and_then(|answer| answer.error))?;
        insert.execute(params![
            entry.at.millis(),
            entry.pod.namespace.as_str(),
            entry.pod.name.as_str(),
            entry.uid.as_str(),
            entry.number,
            profile,
            entry.result,
            node,
            message,
            nominated,
            woken_by,
            entry.first_ready.map(Time::millis),
            entry.queued.millis(),
            number(entry.judged),
            entry.feasible.map(number),
            entry.margin,
            answer.map(|answer| answer.at.millis()),
            error,
        ])?;
        let id = self.on.last_insert_rowid();
        if entry.node.is_some() && answer.is_none() {
            let ready_at = entry.first_ready.map(Time::millis);
            let awaited = Awaited { id, number: entry.number, ready_at };
            self.binding.insert((entry.pod.clone(), entry.uid.clone()), awaited);
        } else if entry.node.is_some() && !self.binding.is_empty() {
            self.binding.remove(&(entry.pod.clone(), entry.uid.clone()));
        }
        self.details(id, entry)
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
        self.victims("INSERT INTO victims VALUES (?1, ?2)", id, (entry.at, &entry.victims))
    }

    /// Writes the pods that are evicted by an attempt, by a statement for its number and their names.
    fn victims(
        &mut self,
        insert: &str,
        attempt: i64,
        (at, victims): (Time, &[PodKey]),
    ) -> rusqlite::Result<()> {
        for victim in victims {
            self.on.prepare_cached(insert)?.execute(params![attempt, victim.to_string()])?;
            let values = params![victim.namespace.as_str(), victim.name.as_str(), at.millis()];
            let mut evict = self.on.prepare_cached(EVICT_POD)?;
            let uid: Option<String> = evict.query_row(values, |row| row.get(0)).optional()?;
            // Its binding may not be answered yet.
            self.pods.extend(uid.map(|uid| (victim.clone(), Str::from(uid))));
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
        let insert = "INSERT INTO group_victims VALUES (?1, ?2)";
        self.victims(insert, id, (entry.at, &entry.victims))
    }
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
