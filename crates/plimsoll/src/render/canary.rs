//! Prints which rule of `--canary` has chosen a profile.

use std::io::{self, Write};

use plimsoll_sim::what_if::Plan;
use serde::Serialize;

use crate::canary::{CanaryChoice, PickedPods};
use crate::wording::{count, some_of};

/// At most so many pods are named.
const NAMES: usize = 5;

/// An answer about a pod or a group, with the rule that has chosen its profile.
#[derive(Debug, Serialize)]
pub(crate) struct WithCanary<'a, T> {
    #[serde(flatten)]
    pub(crate) answer: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) canary: Option<&'a CanaryChoice>,
}

/// What would happen, with the rules that have chosen profiles.
#[derive(Debug, Serialize)]
pub(crate) struct PlanWithCanaries<'a> {
    #[serde(flatten)]
    pub(crate) plan: &'a Plan,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) canaries: &'a [PickedPods],
}

/// Prints the rule that has chosen the profile of `what`.
pub(crate) fn choice(
    out: &mut impl Write,
    what: &str,
    choice: Option<&CanaryChoice>,
) -> io::Result<()> {
    let Some(CanaryChoice { rule, profile, scheduler_name }) = choice else { return Ok(()) };
    writeln!(
        out,
        "Profile {profile} decides {what}, since --canary '{rule}' picks it; its schedulerName is {scheduler_name}.\n"
    )
}

/// Prints the rules that have chosen profiles in a scenario.
pub(crate) fn picked(out: &mut impl Write, picked: &[PickedPods]) -> io::Result<()> {
    for PickedPods { choice, pods } in picked {
        writeln!(
            out,
            "\nProfile {} decides {}, since --canary '{}' picks them ({})",
            choice.profile,
            count(pods.len(), "pod"),
            choice.rule,
            some_of(pods, NAMES)
        )?;
    }
    Ok(())
}
