//! The queue, the cache and the binding cycle in virtual time: scripts in, traces out.
//!
//! A line of a script is a time in seconds, a verb and its arguments; see [`lab::Lab::act`].

mod audit;
mod binding;
mod budgets;
mod choice;
mod clock;
pub(crate) mod counted_nodes;
mod effects;
mod extenders;
mod gates;
pub(crate) mod lab;
mod memory;
mod metrics;
mod plugin_effects;
mod plugins;
mod preemption;
mod queue;
mod queue_sort;
mod ranking;
mod recorders;
mod replace;
mod returns;
mod scheduling;
mod snapshots;
mod verdicts;
mod watchdog;

use lab::Lab;

/// Runs a script and compares the trace.
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(script: &str, expected: expect_test::Expect) {
    let mut lab = Lab::default();
    play(&mut lab, script);
    expected.assert_eq(&flush_left(&lab.trace()));
}

/// Lets everything happen that a script says.
fn play(lab: &mut Lab, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        lab.act(line);
    }
}

/// An expectation loses the indentation that all its lines share; so must the trace, whose times are
/// padded.
fn flush_left(trace: &str) -> String {
    let indent = trace.lines().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    trace.split_inclusive('\n').map(|line| &line[indent..]).collect()
}
