//! Shows the progress of a long run on a terminal.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The progress bar appears after half a second: shorter runs need none.
const PATIENCE: Duration = Duration::from_millis(500);

/// A progress bar on standard error that appears when a run takes long.
#[derive(Debug)]
pub(crate) struct Progress {
    /// How many steps there are in all.
    steps: u64,
    done: u64,
    since: Instant,
    bar: Bar,
}

#[derive(Debug)]
enum Bar {
    /// Standard error is not a terminal.
    Never,
    /// Not needed so far.
    NotYet,
    Shown(ProgressBar),
}

impl Progress {
    /// Progress through `steps` steps, shown if standard error is a terminal.
    pub(crate) fn shown(steps: usize) -> Self {
        let bar = if io::stderr().is_terminal() { Bar::NotYet } else { Bar::Never };
        Progress { steps: steps as u64, done: 0, since: Instant::now(), bar }
    }

    /// Progress that is not shown.
    pub(crate) fn hidden() -> Self {
        Progress { steps: 0, done: 0, since: Instant::now(), bar: Bar::Never }
    }

    /// One more step is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        match &self.bar {
            Bar::Shown(bar) => bar.set_position(self.done),
            Bar::NotYet if PATIENCE < self.since.elapsed() => {
                let template = "{bar:40} {pos}/{len}, {eta} left";
                let style = ProgressStyle::with_template(template).expect("the template is valid");
                let bar = ProgressBar::new(self.steps).with_style(style);
                bar.set_position(self.done);
                self.bar = Bar::Shown(bar);
            }
            Bar::NotYet | Bar::Never => (),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Bar::Shown(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
