//! What is wrong with the input, all of it at once.

use std::error::Error;
use std::fmt;

/// How many faults are shown. More would push the first, which often causes the others, off the
/// screen.
pub(crate) const MAX_SHOWN: usize = 10;

/// Faults in the input, one line each, in the order in which they are to be mended.
#[derive(Debug)]
pub(crate) struct Faults(Vec<String>);

impl Faults {
    /// The faults to show.
    pub(crate) fn shown(&self) -> &[String] {
        &self.0[..self.0.len().min(MAX_SHOWN)]
    }

    /// How many there are beside those.
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
