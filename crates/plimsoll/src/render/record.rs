//! Writes decision records as JSON Lines.

use std::io::{self, Write};

use plimsoll_engine::record::{BoundClaim, DecisionRecord, GroupRecord};
use plimsoll_engine::{Decision, GroupDecision};
use plimsoll_sim::ClaimBinding;
use serde::Serialize;

use super::canary::WithCanary;
use super::old_scale::Scale10;
use crate::canary::CanaryChoice;
use crate::old_scale::OldScale;

/// Writes a decision as one line of JSON.
pub(crate) fn write_line(
    out: &mut impl Write,
    decision: &Decision,
    claims: &[ClaimBinding],
) -> io::Result<()> {
    write_asked_line(out, decision, claims, None)
}

/// The same with the rule that has chosen the profile of the pod.
pub(crate) fn write_asked_line(
    out: &mut impl Write,
    decision: &Decision,
    claims: &[ClaimBinding],
    canary: Option<&CanaryChoice>,
) -> io::Result<()> {
    let volumes = claims
        .iter()
        .map(|binding| BoundClaim {
            claim: binding.claim.to_string(),
            volume: binding.volume.as_deref(),
        })
        .collect();
    let mut record = DecisionRecord::of(decision);
    record.volumes = volumes;
    serde_json::to_writer(&mut *out, &WithCanary { answer: record, canary })?;
    out.write_all(b"\n")
}

/// Writes a decision about a group of pods as one line of JSON.
pub(crate) fn write_group_line(out: &mut impl Write, decision: &GroupDecision) -> io::Result<()> {
    write_asked_group_line(out, decision, None)
}

/// The same with the rule that has chosen the profile of its pods.
pub(crate) fn write_asked_group_line(
    out: &mut impl Write,
    decision: &GroupDecision,
    canary: Option<&CanaryChoice>,
) -> io::Result<()> {
    let answer = GroupRecord::of(decision);
    serde_json::to_writer(&mut *out, &WithCanary { answer, canary })?;
    out.write_all(b"\n")
}

/// Writes a decision on the scale of 10 as one line of JSON, with predicates and priorities.
pub(crate) fn write_line_on_both_scales(
    out: &mut impl Write,
    decision: &Decision,
    old: &OldScale,
    canary: Option<&CanaryChoice>,
) -> io::Result<()> {
    let scale10 = Scale10::of(old);
    let answer = OnBothScales { record: DecisionRecord::of(decision), scale10 };
    serde_json::to_writer(&mut *out, &WithCanary { answer, canary })?;
    out.write_all(b"\n")
}

/// A decision, with predicates and priorities.
#[derive(Serialize)]
struct OnBothScales<'a> {
    #[serde(flatten)]
    record: DecisionRecord<'a>,
    scale10: Scale10<'a>,
}
