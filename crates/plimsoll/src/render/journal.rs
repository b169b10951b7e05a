//! Prints answers about a journal.

use std::io::{self, Write};

use plimsoll_api::Timestamp;
use plimsoll_journal::{
    Hour, JournalAttempt, JournalGroupAttempt, JournalPod, JournalPreemption, Loss,
};

use super::style::Screen;
use crate::wording::some_of;

/// At most so many plugins are named in one line.
const PLUGINS: usize = 5;

/// Prints a row for each attempt.
pub(crate) fn history(
    out: &mut impl Write,
    attempts: &[JournalAttempt],
    screen: Screen,
) -> io::Result<()> {
    if attempts.is_empty() {
        return writeln!(out, "The journal has no attempt to schedule this pod.");
    }
    let mut table = screen.table(&["AT", ">ATTEMPT", "WOKEN BY", "RESULT", "NODE", "BY", "NOTE"]);
    for attempt in attempts {
        let mut plugins: Vec<&str> =
            attempt.rejections.iter().map(|one| one.plugin.as_str()).collect();
        plugins.dedup();
        let note = match (&attempt.message, &attempt.error, attempt.answered_at) {
            (Some(message), ..) => message.clone(),
            (None, Some(error), _) => format!("not bound: {error}"),
            (None, None, Some(at)) => format!("bound at {}", time(at)),
            (None, None, None) => String::new(),
        };
        table.add_row([
            time(attempt.at),
            attempt.number.to_string(),
            attempt.woken_by.clone().unwrap_or_default(),
            attempt.result.clone(),
            attempt.node.clone().or_else(|| attempt.nominated.clone()).unwrap_or_default(),
            some_of(&plugins, PLUGINS),
            note,
        ]);
    }
    writeln!(out, "{}", table.trim_fmt())
}

/// Prints a row for each attempt to schedule a group.
pub(crate) fn group_history(
    out: &mut impl Write,
    attempts: &[JournalGroupAttempt],
    screen: Screen,
) -> io::Result<()> {
    if attempts.is_empty() {
        return writeln!(out, "The journal has no attempt to schedule this group.");
    }
    let titles =
        ["AT", ">ATTEMPT", "RESULT", ">PODS", ">SCHEDULED", "PLACEMENT", ">EVICTED", "NOTE"];
    let mut table = screen.table(&titles);
    for attempt in attempts {
        table.add_row([
            time(attempt.at),
            attempt.number.to_string(),
            attempt.result.clone(),
            attempt.pods.to_string(),
            attempt.scheduled.to_string(),
            attempt.placement.clone().unwrap_or_default(),
            attempt.victims.len().to_string(),
            attempt.message.clone().unwrap_or_default(),
        ]);
    }
    writeln!(out, "{}", table.trim_fmt())
}

/// Prints a row for each pod that was evicted.
pub(crate) fn preemptions(
    out: &mut impl Write,
    preemptions: &[JournalPreemption],
    screen: Screen,
) -> io::Result<()> {
    if preemptions.is_empty() {
        return writeln!(out, "No pod was evicted for another one.");
    }
    let mut table = screen.table(&["AT", "EVICTED", "FOR", "NODE", "WHICH WAS REJECTED BY"]);
    for one in preemptions {
        let node = one.node.clone().unwrap_or_default();
        let because = some_of(&one.because, PLUGINS);
        table.add_row([time(one.at), one.victim.clone(), one.preemptor.clone(), node, because]);
    }
    writeln!(out, "{}", table.trim_fmt())
}

/// Prints a row for each pod.
pub(crate) fn pods(out: &mut impl Write, pods: &[JournalPod], screen: Screen) -> io::Result<()> {
    if pods.is_empty() {
        return writeln!(out, "There is no such pod in the journal.");
    }
    let mut table = screen.table(&["POD", ">ATTEMPTS", ">WAITED", "BOUND AT"]);
    for pod in pods {
        table.add_row([
            pod.pod.clone(),
            pod.attempts.to_string(),
            pod.waited.map(seconds).unwrap_or_default(),
            pod.bound_at.map(time).unwrap_or_default(),
        ]);
    }
    writeln!(out, "{}", table.trim_fmt())
}

/// Prints a row for each hour.
pub(crate) fn hours(out: &mut impl Write, hours: &[Hour], screen: Screen) -> io::Result<()> {
    if hours.is_empty() {
        return writeln!(out, "The journal has no attempts.");
    }
    let mut table = screen.table(&["HOUR", ">SCHEDULED", "REJECTED BY"]);
    for hour in hours {
        let mut rejected: Vec<_> = hour.rejected.iter().collect();
        rejected.sort_by_key(|(plugin, n)| (-**n, *plugin));
        let rejected: Vec<String> =
            rejected.into_iter().map(|(plugin, n)| format!("{plugin} {n}")).collect();
        table.add_row([time(hour.hour), hour.scheduled.to_string(), some_of(&rejected, PLUGINS)]);
    }
    writeln!(out, "{}", table.trim_fmt())
}

/// Prints a row for each minute in which entries were lost.
pub(crate) fn losses(out: &mut impl Write, losses: &[Loss], screen: Screen) -> io::Result<()> {
    if losses.is_empty() {
        return writeln!(out, "No entry was lost.");
    }
    let mut table = screen.table(&["AFTER", ">LOST"]);
    for loss in losses {
        table.add_row([time(loss.at), loss.entries.to_string()]);
    }
    writeln!(out, "{}", table.trim_fmt())
}

/// A time as in RFC 3339.
pub(crate) fn time(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |time| time.to_string())
}

fn seconds(millis: i64) -> String {
    format!("{}.{:03} s", millis / 1000, millis % 1000)
}
