//! Collects everything that is wrong with the input.

use std::error::Error;
use std::fmt;

/// At most 10 faults are shown: more would push the first one, which often causes the others, off the screen.
pub(crate) const MAX_SHOWN: usize = 10;

/// Faults in the input, one line each, in the order of the input.
#[derive(Debug)]
pub(crate) struct Faults(Vec<String>);

impl Faults {
    /// The faults to show.
    pub(crate) fn shown(&self) -> &[String] {
        &self.0[..self.0.len().min(MAX_SHOWN)]
    }

    /// How many are not shown.
    pub(crate) fn hidden(&self) -> usize {
        self.0.len() - self.shown().len()
    }
}

impl<T: ToString> From<Vec<T>> for Faults {
    fn from(faults: Vec<T>) -> Self {
        Faults(faults.iter().map(ToString::to_string).collect())
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Error for Faults {}
