//! The file: its schema, how it is opened, and what is deleted from it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, TransactionBehavior, params};

use crate::entry::Entries;
use crate::names::NewNames;
use crate::transaction::{HOUR, Remembered, Writing};

/// The schema of a journal, with comments: an interface for other programs.
pub const SCHEMA: &str = include_str!("schema.sql");

/// The version of the schema (`PRAGMA user_version`).
pub const VERSION: i64 = 3;

/// That a file is a journal (`PRAGMA application_id`): "PLIM".
const APPLICATION: i64 = 0x504c_494d;

/// Losses within a minute are one row, so that there are never many.
const MINUTE: i64 = 60_000;

/// How a journal is written. Rows are only written with numbers of rows that are there, and deleted before these: SQLite need not
/// look for them. It copies the log into the file after 4,000 pages (16 MiB), four times as many as usual, since it waits for the
/// disk each time, and some pages change again and again. No more is lost by that, whatever ends the process.
const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = OFF; \
     PRAGMA wal_autocheckpoint = 4000;";

/// So many statements are kept prepared. The writer has more than the 16 that rusqlite keeps.
const STATEMENTS: usize = 64;

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
    remembered: Remembered,
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
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let remembered = Remembered::load(&connection).map_err(failed)?;
        Ok(Store { connection, remembered, names: None })
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
    pub(crate) fn write(&mut self, entries: &Entries) -> rusqlite::Result<()> {
        let Store { connection, remembered, names: kept } = self;
        // Another program may write, too: a transaction that begins by reading would fail at once.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // SQLite counts on from the last attempt, and nobody else writes during the transaction.
        let sql = "SELECT coalesce(max(id), 0) FROM attempts";
        let last = transaction.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        let mut names = match kept.take() {
            Some(names) if names.last() == last => names,
            before => {
                if before.is_some_and(|names| last < names.last()) {
                    // Another program has deleted attempts, and their ids are given again.
                    remembered.forget_attempts();
                }
                transaction.execute("DELETE FROM bindings WHERE ?1 < attempt", [last])?;
                NewNames::load(&transaction, last)?
            }
        };
        Writing { on: &transaction, remembered, names: &mut names }.entries(entries, last + 1)?;
        names.write_many(&transaction)?;
        transaction.commit()?;
        *kept = Some(names);
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
        let number = |pragma| -> rusqlite::Result<i64> {
            self.connection.prepare_cached(pragma)?.query_row([], |row| row.get(0))
        };
        let size = number("PRAGMA page_count")? * number("PRAGMA page_size")?;
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
            self.remembered.forget_before(id);
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

#[cfg(test)]
mod tests {
    use plimsoll_api::{Pod, PodKey};
    use plimsoll_engine::BindingEnd;
    use plimsoll_framework::Time;

    use super::*;
    use crate::entry::tests::placed;

    /// A pod is tried at each of these times.
    fn tried(pods: &[(&str, u64, i64)]) -> Entries {
        let mut entries = Entries::default();
        for &(name, sequence, now) in pods {
            let key = PodKey::new("shop", name);
            let pod = Pod { key, uid: name.into(), ..Pod::default() };
            let decision = placed(pod, sequence, "PodAdd");
            entries.decided(Time::from_millis(now), &decision);
        }
        entries
    }

    /// The bindings of attempts are answered at these times.
    fn answered(answers: &[(u64, i64)]) -> Entries {
        let mut entries = Entries::default();
        for &(sequence, now) in answers {
            let pod = &PodKey::new("shop", "any");
            let end = BindingEnd { pod, sequence, attempt: 1, first_ready: None, error: None };
            entries.binding_ended(Time::from_millis(now), &end);
        }
        entries
    }

    fn bindings(store: &Store) -> Vec<(String, i64)> {
        let sql = "SELECT coalesce(name, '?'), bindings.answered_at FROM bindings LEFT JOIN history ON id = attempt";
        let mut query = store.connection.prepare(sql).expect("it is a journal");
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).expect("it can be read")
    }

    #[test]
    fn a_binding_is_answered_although_older_attempts_were_deleted_meanwhile() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut store = Store::open(&folder.path().join("journal.db")).expect("it is new");
        let attempts = tried(&[("old", 1, 0), ("new", 2, 90_000)]);
        store.write(&attempts).expect("it can be written");
        let age = Duration::from_mins(1);
        store.keep(Retention { age, ..Retention::default() }).expect("it can be written");
        store.write(&answered(&[(1, 90_001), (2, 90_002)])).expect("it can be written");
        assert_eq!(bindings(&store), [("new".to_owned(), 90_002)]);
    }

    #[test]
    fn an_answer_is_not_told_of_an_attempt_that_has_got_the_id_of_its_own() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut store = Store::open(&folder.path().join("journal.db")).expect("it is new");
        store.write(&tried(&[("old", 1, 0)])).expect("it can be written");
        store.connection.execute_batch("DELETE FROM attempts").expect("nobody else writes");
        store.write(&tried(&[("new", 2, 1)])).expect("it can be written");
        store.write(&answered(&[(1, 2)])).expect("it can be written");
        assert_eq!(bindings(&store), []);
        store.write(&answered(&[(2, 3)])).expect("it can be written");
        assert_eq!(bindings(&store), [("new".to_owned(), 3)]);
    }
}
