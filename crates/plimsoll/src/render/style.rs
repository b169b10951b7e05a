//! Colours, columns, amounts and bars of tables.

use std::fmt::Display;
use std::io::{self, IsTerminal};

use anstream::{AutoStream, ColorChoice, StripStream};
use anstyle::{AnsiColor, Style};
use comfy_table::{
    Cell, CellAlignment, Color, Column, ColumnConstraint, ContentArrangement, Table, Width, presets,
};
use plimsoll_api::resources::{CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY};

/// The style of good news.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// The style of something that needs attention.
pub(crate) const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();
/// The style of bad news.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Headings.
pub(crate) const HEADING: Style = Style::new().bold();

/// How many cells a full bar has.
const BAR_CELLS: usize = 10;
/// A column that can shrink keeps at least 20 cells: in fewer, words would break letter by letter, and the terminal can
/// just as well break the lines.
const LEAST_WIDTH: u16 = 20;
/// The space between columns, in cells.
const PADDING: u16 = 2;

/// Where the answer is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Whether it is a terminal.
    pub(crate) is_terminal: bool,
    /// Whether to use colours.
    pub(crate) has_colours: bool,
}

/// At most so many rows are shown on a terminal.
const MAX_ROWS: usize = 50;

impl Screen {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let choice = AutoStream::choice(&stdout);
        Self { is_terminal: stdout.is_terminal(), has_colours: choice != ColorChoice::Never }
    }

    /// How many of `total` rows are shown: all, but on a terminal at most 50.
    pub(crate) fn shown(self, total: usize) -> usize {
        if self.is_terminal { total.min(MAX_ROWS) } else { total }
    }

    /// An empty table without lines, with these headings. A heading that begins with `>` is right-aligned, like its
    /// column. If the screen is too narrow, the last column shrinks.
    pub(crate) fn table(self, headings: &[&str]) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        if self.has_colours {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        if !self.is_terminal {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        table.set_header(headings.iter().map(|heading| heading.trim_start_matches('>')));
        for (index, (column, heading)) in table.column_iter_mut().zip(headings).enumerate() {
            column.set_padding((0, PADDING));
            if index + 1 < headings.len() {
                column.set_constraint(ColumnConstraint::ContentWidth);
            } else {
                give_way(column, heading);
            }
            if heading.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

/// What is printed where there is neither a terminal nor colour.
pub(crate) fn plain(
    print: impl FnOnce(&mut StripStream<Vec<u8>>, Screen) -> io::Result<()>,
) -> String {
    let mut out = StripStream::new(Vec::new());
    let screen = Screen { is_terminal: false, has_colours: false };
    print(&mut out, screen).expect("memory can be written");
    String::from_utf8_lossy(&out.into_inner()).into_owned()
}

/// Lets a column be narrower than its content, within limits.
pub(crate) fn give_way(column: &mut Column, heading: &str) {
    let least = match heading.strip_prefix('>') {
        // A right-aligned column would visibly be wider than necessary.
        Some(heading) => u16::try_from(heading.len()).unwrap_or(LEAST_WIDTH) + PADDING,
        None => LEAST_WIDTH,
    };
    let least = Width::Fixed(least.min(LEAST_WIDTH));
    column.set_constraint(ColumnConstraint::LowerBoundary(least));
}

/// A cell with good news.
pub(crate) fn good(content: impl Display) -> Cell {
    Cell::new(content).fg(Color::DarkGreen)
}

/// A cell with bad news.
pub(crate) fn bad(content: impl Display) -> Cell {
    Cell::new(content).fg(Color::DarkRed)
}

/// A cell that needs attention.
pub(crate) fn doubtful(content: impl Display) -> Cell {
    Cell::new(content).fg(Color::DarkYellow)
}

/// An amount of a resource in the usual unit: cores, or binary multiples of bytes.
pub(crate) fn amount(resource: &str, amount: i64) -> String {
    let is_bytes =
        matches!(resource, MEMORY | EPHEMERAL_STORAGE) || resource.starts_with(HUGE_PAGES_PREFIX);
    if resource == CPU {
        decimal(amount, 1000)
    } else if is_bytes {
        bytes(amount)
    } else {
        amount.to_string()
    }
}

fn bytes(amount: i64) -> String {
    let units = [("Ti", 1_i64 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let fitting = units.into_iter().find(|(_, size)| *size <= amount.saturating_abs());
    match fitting {
        Some((unit, size)) => decimal(amount, size) + unit,
        None => amount.to_string(),
    }
}

/// `amount / unit` with at most one decimal digit.
fn decimal(amount: i64, unit: i64) -> String {
    let tenths = (i128::from(amount) * 10 + i128::from(unit / 2)).div_euclid(i128::from(unit));
    let sign = if tenths < 0 { "-" } else { "" };
    match (tenths.abs() / 10, tenths.abs() % 10) {
        (whole, 0) => format!("{sign}{whole}"),
        (whole, tenth) => format!("{sign}{whole}.{tenth}"),
    }
}

/// `part` of `whole` in percent, rounded; 0 if `whole` is 0.
pub(crate) fn percent(part: i64, whole: i64) -> i128 {
    match i128::from(whole) {
        0 => 0,
        whole => (i128::from(part) * 100 + whole / 2).div_euclid(whole),
    }
}

/// A bar that is full at 100 percent.
pub(crate) fn bar(percent: i128) -> String {
    let cells = percent.clamp(0, 100) * 10 / 100;
    let full = usize::try_from(cells).unwrap_or(BAR_CELLS).min(BAR_CELLS);
    "█".repeat(full) + &"░".repeat(BAR_CELLS - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_usual_units() {
        for (resource, of, expected) in [
            ("cpu", 1500, "1.5"),
            ("cpu", 64_000, "64"),
            ("cpu", 1, "0"),
            ("cpu", -1500, "-1.5"),
            ("memory", 3 << 29, "1.5Gi"),
            ("memory", 1 << 40, "1Ti"),
            ("memory", 1000, "1000"),
            ("memory", i64::MAX, "8388608Ti"),
            ("hugepages-2Mi", 4 << 20, "4Mi"),
            ("nvidia.com/gpu", 8, "8"),
        ] {
            assert_eq!(amount(resource, of), expected, "{of} of {resource}");
        }
    }

    #[test]
    fn a_narrow_screen_does_not_break_words_letter_by_letter() {
        let screen = Screen { is_terminal: true, has_colours: false };
        let mut table = screen.table(&["RESOURCE", ">ALLOCATABLE"]);
        table.add_row(["memory", "449.6Gi"]).set_width(10);
        let lines = table.to_string().lines().count();
        assert_eq!(lines, 2, "{table}");
    }

    #[test]
    fn a_bar_fills_with_the_percentage() {
        assert_eq!(bar(0), "░░░░░░░░░░");
        assert_eq!(bar(percent(55, 100)), "█████░░░░░");
        assert_eq!(bar(percent(300, 100)), "██████████");
        assert_eq!(percent(5, 0), 0);
    }
}
