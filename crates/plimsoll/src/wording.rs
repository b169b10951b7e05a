//! Numbers and names in sentences.

use std::fmt::Display;

/// `1 pod`, `2 pods`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

/// The first `shown` of `names`, and how many more there are.
pub(crate) fn some_of<T: Display>(names: &[T], shown: usize) -> String {
    // To name the last one takes no more space than "and 1 more".
    let shown = if names.len() == shown + 1 { names.len() } else { shown };
    let mut text: Vec<_> = names.iter().take(shown).map(ToString::to_string).collect();
    let more = names.len().saturating_sub(shown);
    if 0 < more {
        text.push(format!("and {more} more"));
    }
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_names_is_cut_where_that_saves_something() {
        assert_eq!(some_of(&["a", "b", "c"], 2), "a, b, c");
        assert_eq!(some_of(&["a", "b", "c", "d"], 2), "a, b, and 2 more");
        assert_eq!(some_of::<&str>(&[], 2), "");
    }
}
