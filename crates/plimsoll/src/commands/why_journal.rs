//! `plimsoll why --journal`: what a journal knows of a pod.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Result, bail};
use plimsoll_api::PodKey;
use plimsoll_journal::{JournalAttempt, JournalPreemption, JournalRejection, Reader};
use serde::Serialize;

use crate::args::Format;
use crate::render::journal::time;
use crate::render::style::Screen;
use crate::render::why_journal as render;
use crate::wording::some_of;

/// An error suggests at most so many other pods.
const NAMES: usize = 5;
/// At most so many evictions of the pod are looked at to find the last one.
const EVICTIONS: usize = 20;

/// What a journal knows of a pod. The keys are those of `plimsoll why`; a key whose value would be empty is left out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JournalWhy {
    pub(crate) pod: String,
    /// `scheduled`, `binding`, `unschedulable`, `preempting` or `error`.
    pub(crate) state: &'static str,
    /// The node that it was bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// The last decision.
    pub(crate) record: JournalRecord,
    /// The plugins that rejected it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rejections: Vec<JournalRejection>,
    /// For a placed pod: the second best node, if the scores were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runner_up: Option<JournalRunnerUp>,
    /// For a pending pod: since when it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<JournalWaiting>,
    /// That it was chosen to be evicted after its last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) evicted: Option<JournalEviction>,
    /// When the last decision was made, as in RFC 3339.
    pub(crate) as_of: String,
    /// How many entries the journal lacks.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) lost: i64,
}

/// The last decision, as a decision record.
#[derive(Debug, Serialize)]
pub(crate) struct JournalRecord {
    pub(crate) pod: String,
    pub(crate) result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The number of the attempt; left out for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nomination: Option<JournalNomination>,
}

/// What preemption found.
#[derive(Debug, Serialize)]
pub(crate) struct JournalNomination {
    pub(crate) node: String,
    pub(crate) victims: Vec<String>,
}

/// The second best node.
#[derive(Debug, Serialize)]
pub(crate) struct JournalRunnerUp {
    pub(crate) node: String,
    pub(crate) total: i64,
    pub(crate) margin: i64,
}

/// Since when a pod waits.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JournalWaiting {
    /// When it was first ready to be tried, as in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    pub(crate) attempts: i64,
    /// What moved it to where it could be tried, the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_woken_by: Option<String>,
}

/// That a pod was chosen to be evicted.
#[derive(Debug, Serialize)]
pub(crate) struct JournalEviction {
    /// When, as in RFC 3339.
    pub(crate) at: String,
    #[serde(rename = "for")]
    pub(crate) preemptor: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Answers for one pod from a journal.
pub(crate) fn run(file: &Path, key: &PodKey, format: Format) -> Result<()> {
    let reader = Reader::open(file)?;
    let Some(last) = reader.history(key, 1)?.pop() else {
        bail!("{}: has no attempt to schedule pod {key}{}", file.display(), offer(&reader, key)?);
    };
    let answer = answer(&reader, key, last)?;
    match format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            serde_json::to_writer(&mut out, &answer)?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => render::answer(&mut anstream::stdout(), &answer, Screen::stdout())?,
    }
    Ok(())
}

fn answer(reader: &Reader, key: &PodKey, last: JournalAttempt) -> Result<JournalWhy> {
    let known = reader.pod(key, &last.uid)?;
    let state = state(&last);
    let is_placed = matches!(state, "scheduled" | "binding");
    let waiting = (!is_placed).then(|| JournalWaiting {
        since: last.ready_at.map(time),
        attempts: last.number,
        last_woken_by: last.woken_by.clone().filter(|event| !event.is_empty()),
    });
    let evicted = match known.and_then(|pod| pod.evicted_at) {
        Some(at) if last.at <= at => {
            let preemptions = reader.preemptions(Some(key), EVICTIONS)?;
            preemptions.into_iter().find(|one| one.victim == last.pod).map(eviction)
        }
        _ => None,
    };
    let chosen = last.node.as_ref();
    let second = last.best.iter().find(|scored| Some(&scored.node) != chosen);
    let runner_up = second.zip(last.margin).map(|(second, margin)| JournalRunnerUp {
        node: second.node.clone(),
        total: second.total,
        margin,
    });
    let nomination = last
        .nominated
        .clone()
        .map(|node| JournalNomination { node, victims: last.victims.clone() });
    Ok(JournalWhy {
        pod: last.pod.clone(),
        state,
        node: last.node.clone().filter(|_| state == "scheduled"),
        runner_up: runner_up.filter(|_| is_placed),
        waiting,
        evicted,
        as_of: time(last.at),
        lost: reader.lost()?,
        rejections: if is_placed { Vec::new() } else { last.rejections },
        record: JournalRecord {
            pod: last.pod,
            result: last.result,
            node: last.node,
            message: last.message.or(last.error),
            attempt: Some(last.number).filter(|number| 1 < *number),
            nomination,
        },
    })
}

fn state(last: &JournalAttempt) -> &'static str {
    match last.result.as_str() {
        "scheduled" if last.error.is_some() => "error",
        "scheduled" if last.answered_at.is_none() => "binding",
        "scheduled" => "scheduled",
        "unschedulable" if last.nominated.is_some() => "preempting",
        "unschedulable" => "unschedulable",
        _ => "error",
    }
}

fn eviction(preemption: JournalPreemption) -> JournalEviction {
    JournalEviction { at: time(preemption.at), preemptor: preemption.preemptor }
}

/// Suggests pods of the same name in other namespaces.
fn offer(reader: &Reader, key: &PodKey) -> Result<String> {
    let namesakes = reader.namesakes(&key.name, NAMES)?;
    Ok(match namesakes.is_empty() {
        true => String::new(),
        false => format!(": did you mean {}?", some_of(&namesakes, NAMES)),
    })
}
