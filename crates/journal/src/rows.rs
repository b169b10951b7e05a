//! Rows that are inserted many at a time: to begin and to end a statement takes SQLite about as long as a row does.

use plimsoll_api::Str;
use rusqlite::types::Null;
use rusqlite::{Connection, Statement, ToSql};

/// A statement inserts so many rows, as long as there are so many. More of them would save little.
const MANY: usize = 24;

/// A table, and the columns that its new rows have values for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    /// How it is inserted, up to the values: `INSERT INTO … (…)`.
    pub(crate) insert: &'static str,
    /// How many columns.
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
    pub(crate) fn number(&mut self, number: impl Into<Option<i64>>) -> rusqlite::Result<()> {
        match number.into() {
            Some(number) => self.remembered(Bound::Number(number), number),
            None => self.remembered(Bound::Null, Null),
        }
    }

    /// Adds the value of the next column: a text of which there are few.
    pub(crate) fn word(&mut self, word: &'static str) -> rusqlite::Result<()> {
        self.remembered(Bound::Word(word), word)
    }

    /// Adds the value of the next column: a text that the rows close by mostly have, too.
    pub(crate) fn repeated(&mut self, text: &Str) -> rusqlite::Result<()> {
        let before = &mut self.texts[self.len];
        if before.as_ref() == Some(text) {
            self.len += 1;
            return Ok(());
        }
        *before = Some(text.clone());
        self.text(text)
    }

    /// Adds the value of the next column: a text.
    pub(crate) fn text(&mut self, text: &str) -> rusqlite::Result<()> {
        self.bound[self.len] = Bound::Other;
        self.len += 1;
        self.statement.raw_bind_parameter(self.len, text)
    }

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
    /// Inserts rows in their order, and returns how many were not there. `values` adds the values of a row.
    pub(crate) fn insert<R>(
        self,
        on: &Connection,
        rows: &[R],
        mut values: impl FnMut(&mut Values<'_, '_>, &R) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<usize> {
        let mut inserted = 0;
        let (many, rest) = rows.as_chunks::<MANY>();
        if !many.is_empty() {
            let chunks = many.iter().map(<[R; MANY]>::as_slice);
            inserted += self.insert_chunks(on, MANY, chunks, &mut values)?;
        }
        if !rest.is_empty() {
            inserted += self.insert_chunks(on, 1, rest.chunks(1), &mut values)?;
        }
        Ok(inserted)
    }

    /// Inserts chunks that have as many rows each, by a statement for that many.
    fn insert_chunks<'r, R: 'r>(
        self,
        on: &Connection,
        rows: usize,
        chunks: impl Iterator<Item = &'r [R]>,
        values: &mut impl FnMut(&mut Values<'_, '_>, &R) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<usize> {
        let mut statement = on.prepare_cached(&self.sql(rows))?;
        let mut bound = vec![Bound::Other; rows * self.width];
        let mut texts = vec![None; rows * self.width];
        let mut inserted = 0;
        for chunk in chunks {
            let statement = &mut statement;
            let (bound, texts) = (&mut bound, &mut texts);
            let mut added = Values { statement, bound, texts, len: 0 };
            chunk.iter().try_for_each(|row| values(&mut added, row))?;
            debug_assert_eq!(added.len, rows * self.width, "{}", self.insert);
            inserted += statement.raw_execute()?;
        }
        Ok(inserted)
    }

    fn sql(self, rows: usize) -> String {
        let row = format!("({})", vec!["?"; self.width].join(", "));
        format!("{} VALUES {}", self.insert, vec![row; rows].join(", "))
    }
}
