//! Reads the tables of the pages.

use std::path::{Path, PathBuf};

/// A file of the repository.
pub(crate) fn place(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The text of a page, which is a file of the repository.
pub(crate) fn text(page: &str) -> String {
    let path = place(page);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A row of a table, cell by cell.
pub(crate) type Row = Vec<String>;

/// The rows of all tables of a page whose headings begin with these cells. There is at least one such table.
#[track_caller]
pub(crate) fn table(page: &str, head: &[&str]) -> Vec<Row> {
    let text = text(page);
    let (mut rows, mut inside, mut found) = (Vec::new(), false, false);
    for line in text.lines() {
        let Some(cells) = cells(line) else {
            inside = false;
            continue;
        };
        if cells.iter().zip(head).all(|(cell, wanted)| cell == wanted) && !inside {
            (inside, found) = (true, true);
        } else if inside && !cells.iter().all(|cell| cell.trim_matches(['-', ':']).is_empty()) {
            rows.push(cells);
        }
    }
    assert!(found, "{page} has no table that begins with {head:?}");
    rows
}

/// The cells of a line, if it is one of a table. A bar behind a backslash is text.
fn cells(line: &str) -> Option<Row> {
    let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells = line.replace("\\|", "\u{0}");
    Some(cells.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect())
}

/// The texts in backticks.
pub(crate) fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The names in a text that are written like those of plugins.
pub(crate) fn names(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let is_name = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.chars().filter(char::is_ascii_uppercase).count() > 1
    };
    words.filter(is_name).collect()
}
