//! The text of an expression, and messages that point into it.

use std::fmt::Write as _;

/// A message about one place of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Issue {
    /// The place, counted in characters from 0.
    pub(crate) at: u32,
    /// What is wrong.
    pub(crate) message: String,
}

impl Issue {
    pub(crate) fn new(at: u32, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// All issues in the order of their places, each with the line it is about, as cel-go writes them.
pub(crate) fn describe(source: &str, issues: &mut [Issue]) -> String {
    issues.sort_by_key(|issue| issue.at);
    let mut text = String::new();
    for issue in &*issues {
        let (line, column, snippet) = locate(source, issue.at);
        if !text.is_empty() {
            text.push('\n');
        }
        // In an empty text ANTLR is before the first column.
        let shown = if source.is_empty() { 0 } else { column + 1 };
        write!(text, "ERROR: <input>:{line}:{shown}: {}", issue.message)
            .expect("a string takes all text");
        if !snippet.is_empty() {
            let snippet = snippet.replace('\t', " ");
            let mut chars = snippet.chars();
            let before = chars.by_ref().take(column);
            // What is longer than a byte counts as wide.
            let dots = before.map(|c| if c.is_ascii() { '.' } else { '．' }).collect::<String>();
            let mark = if chars.next().is_none_or(|c| c.is_ascii()) { '^' } else { '＾' };
            write!(text, "\n | {snippet}\n | {dots}{mark}").expect("a string takes all text");
        }
    }
    text
}

/// The line (from 1), the column (from 0) and the text of the line.
fn locate(source: &str, at: u32) -> (usize, usize, &str) {
    let mut start = 0;
    for (number, line) in source.split('\n').enumerate() {
        let length = line.chars().count();
        let column = at as usize - start;
        if column <= length {
            return (number + 1, column, line);
        }
        start += length + 1;
    }
    (source.split('\n').count(), 0, "")
}
