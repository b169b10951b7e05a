//! Writes decision records as JSON Lines.

use std::io::{self, Write};

use plimsoll_engine::record::{BoundClaim, DecisionRecord, GroupRecord};
use plimsoll_engine::{Decision, GroupDecision};
use plimsoll_sim::ClaimBinding;
use serde::Serialize;

use super::old_scale::Scale10;
use crate::old_scale::OldScale;

/// Writes a decision as one line of JSON.
pub(crate) fn write_line(
    out: &mut impl Write,
    decision: &Decision,
    claims: &[ClaimBinding],
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
    serde_json::to_writer(&mut *out, &record)?;
    out.write_all(b"\n")
}

/// Writes a decision about a group of pods as one line of JSON.
pub(crate) fn write_group_line(out: &mut impl Write, decision: &GroupDecision) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &GroupRecord::of(decision))?;
    out.write_all(b"\n")
}

/// Writes a decision on the scale of 10 as one line of JSON, with predicates and priorities.
pub(crate) fn write_line_on_both_scales(
    out: &mut impl Write,
    decision: &Decision,
    old: &OldScale,
) -> io::Result<()> {
    let scale10 = Scale10::of(old);
    serde_json::to_writer(
        &mut *out,
        &OnBothScales { record: DecisionRecord::of(decision), scale10 },
    )?;
    out.write_all(b"\n")
}

/// A decision, with predicates and priorities.
#[derive(Serialize)]
struct OnBothScales<'a> {
    #[serde(flatten)]
    record: DecisionRecord<'a>,
    scale10: Scale10<'a>,
}
