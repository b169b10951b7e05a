//! Messages on standard error, apart from the answer.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use crate::faults::Faults;
use crate::render::style::{BAD, DOUBTFUL, HEADING};

/// Warns that something has no effect, or probably not the intended one. Each warning is printed once.
pub(crate) fn warning(message: impl Display) {
    // The configuration may be read a second time, for the release of the API server.
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let message = message.to_string();
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(message.clone()) {
        tell(format_args!("{DOUBTFUL}warning{DOUBTFUL:#}: {message}"));
    }
}

/// Prints a note about the answer.
pub(crate) fn note(message: impl Display) {
    tell(format_args!("{HEADING}note{HEADING:#}: {message}"));
}

/// Prints why there is no answer.
pub(crate) fn error(error: &anyhow::Error) {
    let fault = |line: &dyn Display| tell(format_args!("{BAD}error{BAD:#}: {line}"));
    let Some(faults) = error.downcast_ref::<Faults>() else {
        fault(&format_args!("{error:#}"));
        return;
    };
    faults.shown().iter().for_each(|line| fault(line));
    if 0 < faults.hidden() {
        tell(format_args!("and {} more", faults.hidden()));
    }
}

fn tell(line: impl Display) {
    // If standard error cannot be written, there is no place to report that.
    let _ = writeln!(anstream::stderr(), "{line}");
}
