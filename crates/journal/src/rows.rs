//! Rows that are inserted many at a time: to begin and to end a statement takes SQLite about as long as a row does.

use plimsoll_api::Str;
use rusqlite::types::Null;
use rusqlite::{Connection, Statement, ToSql};

/// A statement inserts so many rows, as long as there are so many. More of them would save little.
const MANY: usize = 24;

/// A table, and the columns that its new rows have values for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    /// How it is inserted, up to the values: `INSERT INTO … (…)`. If all columns of the table are there, in its order, SQLite need not
    /// copy their values.
    pub(crate) insert: &'static str,
    /// The values of a row, with a `?` for each that is added.
    pub(crate) row: &'static str,
    /// How many these are.
    pub(crate) width: usize,
}

/// The values of rows, one after the other.
pub(crate) struct Values<'a, 's> {
    statement: &'a mut Statement<'s>,
    /// Those that the statement has. What SQLite has already it need not be told again.
    bound: &'a mut [Bound],
    /// Those that are texts which are remembered.
    texts: &'a mut [Option<Str>],
    /// How many are there.
    len: usize,
}

/// A value that a statement has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Number(i64),
    Null,
    Word(&'static str),
    /// None, or one that is not remembered.
    Other,
}

impl Values<'_, '_> {
    /// Adds the value of the next column: a number, or none.
    #[inline]
    pub(crate) fn number(&mut self, number: impl Into<Option<i64>>) -> rusqlite::Result<()> {
        match number.into() {
            Some(number) => self.remembered(Bound::Number(number), number),
            None => self.remembered(Bound::Null, Null),
        }
    }

    /// Adds the value of the next column: a text of which there are few.
    #[inline]
    pub(crate) fn word(&mut self, word: &'static str) -> rusqlite::Result<()> {
        self.remembered(Bound::Word(word), word)
    }

    /// Adds the value of the next column: a text that the rows close by mostly have, too.
    #[inline]
    pub(crate) fn repeated(&mut self, text: &str) -> rusqlite::Result<()> {
        let before = &mut self.texts[self.len];
        if before.as_deref() == Some(text) {
            self.len += 1;
            return Ok(());
        }
        *before = Some(text.into());
        self.text(text)
    }

    /// Adds the value of the next column: a text.
    #[inline]
    pub(crate) fn text(&mut self, text: &str) -> rusqlite::Result<()> {
        self.bound[self.len] = Bound::Other;
        self.len += 1;
        self.statement.raw_bind_parameter(self.len, text)
    }

    #[expect(
        clippy::inline_always,
        reason = "sixteen times for each attempt: out of line, the thread takes 5 % more instructions"
    )]
    #[inline(always)]
    fn remembered(&mut self, value: Bound, bound: impl ToSql) -> rusqlite::Result<()> {
        let before = &mut self.bound[self.len];
        self.len += 1;
        if *before == value {
            return Ok(());
        }
        *before = value;
        self.statement.raw_bind_parameter(self.len, bound)
    }
}

impl Columns {
    /// Inserts `n` rows in their order, and returns how many were not there. `values` adds the values of a row.
    pub(crate) fn insert<R>(
        self,
        on: &Connection,
        n: usize,
        rows: impl IntoIterator<Item = R>,
        mut values: impl FnMut(&mut Values<'_, '_>, R) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<usize> {
        let mut rows = rows.into_iter();
        let mut inserted = 0;
        for (times, many) in [(n / MANY, MANY), (n % MANY, 1)] {
            if 0 < times {
                inserted += self.insert_many(on, (times, many), &mut rows, &mut values)?;
            }
        }
        debug_assert!(rows.next().is_none() || n == 0, "{}", self.insert);
        Ok(inserted)
    }

    /// Inserts rows `times` times, by a statement for so many.
    fn insert_many<R>(
        self,
        on: &Connection,
        (times, many): (usize, usize),
        rows: &mut impl Iterator<Item = R>,
        values: &mut impl FnMut(&mut Values<'_, '_>, R) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<usize> {
        let mut statement = on.prepare_cached(&self.sql(many))?;
        let mut bound = vec![Bound::Other; many * self.width];
        let mut texts = vec![None; many * self.width];
        let mut inserted = 0;
        for _ in 0..times {
            let statement = &mut statement;
            let (bound, texts) = (&mut bound, &mut texts);
            let mut added = Values { statement, bound, texts, len: 0 };
            rows.take(many).try_for_each(|row| values(&mut added, row))?;
            debug_assert_eq!(added.len, many * self.width, "{}", self.insert);
            inserted += statement.raw_execute()?;
        }
        Ok(inserted)
    }

    fn sql(self, rows: usize) -> String {
        // SQLite copies the values of `VALUES` with several rows once more.
        format!("{} SELECT {}", self.insert, vec![self.row; rows].join(" UNION ALL SELECT "))
    }
}
