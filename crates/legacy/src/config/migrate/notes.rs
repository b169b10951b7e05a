//! Notes about what a migration changes and what remains to be done.

use std::fmt;

use plimsoll_config::{Catalogue, ConfigError, Configuration, Form, Point, ResolvedProfile};
use serde::Serialize;

use super::substitutes::{self, VOLUME_LIMITS};
use crate::config::form::{V1ALPHA1, V1ALPHA2, V1BETA3};

/// The arg for what NodeResourcesFit always did up to 1.22.
const OVERCOMMITTED: &str = "rejectOvercommittedNodes";

/// A note about one part of a migrated configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// What it is about: a field of the file with its line, a profile, or the scheduler as a whole.
    pub subject: String,
    /// What has changed or will change.
    pub change: String,
    /// What to do about it; empty if there is nothing to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.change)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

/// The notes about migrating `configuration`: first its fields, then its profiles, then the release.
pub(super) fn of(configuration: &Configuration, catalogue: &Catalogue) -> Vec<Note> {
    let fields = configuration.origin.dropped.iter().map(dropped);
    let profiles =
        configuration.profiles.iter().flat_map(|profile| about_profile(profile, catalogue));
    let mut notes: Vec<_> = fields.chain(profiles).collect();
    if configuration.origin.form != Form::V1 {
        notes.extend(about_release(configuration));
    }
    notes
}

fn dropped(error: &ConfigError) -> Note {
    let line = error.line.map(|line| format!(":{line}")).unwrap_or_default();
    let field = error.field.as_ref().map(|field| format!(": {field}")).unwrap_or_default();
    let subject = format!("{}{line}{field}", error.source_name);
    Note { subject, change: error.message.clone(), remedy: String::new() }
}

fn about_profile(profile: &ResolvedProfile, catalogue: &Catalogue) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut note = |change: String, remedy: &str| {
        notes.push(Note { subject: subject(profile), change, remedy: remedy.to_owned() });
    };
    let weights = other_weights(profile, catalogue);
    if !weights.is_empty() {
        note(
            format!("keeps weights that differ from those of v1: {}", weights.join(", ")),
            "to use those of v1, write them",
        );
    }
    let missing = missing(profile, catalogue);
    if !missing.is_empty() {
        note(
            format!("leaves out plugins of v1's default profile: {}", missing.join(", ")),
            "enable them to use them",
        );
    }
    let refused = substitutes::refused(profile);
    if !refused.is_empty() {
        note(
            format!(
                "{} become {VOLUME_LIMITS}, which counts the same volumes as those of CSI drivers, \
                 up to the limits that the drivers report for each node",
                refused.join(", ")
            ),
            "make sure that every node has a CSINode with limits: without one its volumes are not \
             limited, and KUBE_MAX_PD_VOLS has no effect",
        );
    }
    notes.extend(extensions(profile));
    let is_left_out = |name: &&String| {
        catalogue.get(name).is_none() && !refused.iter().any(|refused| refused == name)
    };
    for name in profile.unavailable.iter().filter(is_left_out) {
        let change = format!("{name} is left out: this build does not have it");
        notes.push(Note { subject: subject(profile), change, remedy: String::new() });
    }
    notes
}

fn subject(profile: &ResolvedProfile) -> String {
    format!("profile {}", profile.scheduler_name)
}

/// The dropped plugins and args that a profile uses, which only Plimsoll allows in v1.
pub(super) fn extensions(profile: &ResolvedProfile) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut note = |change: String, remedy: &str| {
        notes.push(Note { subject: subject(profile), change, remedy: remedy.to_owned() });
    };
    for name in profile.plugins() {
        if let Some(instead) = instead_of(name) {
            note(format!("keeps {name}, which kube-scheduler 1.36 does not know"), instead);
        }
    }
    if profile.args.get("NodeResourcesFit").is_some_and(|args| args[OVERCOMMITTED] == true) {
        note(
            format!(
                "keeps `{OVERCOMMITTED}` in the args of NodeResourcesFit, which kube-scheduler 1.36 \
                 does not know: a node whose pods request more than it has takes only pods that request \
                 nothing, as up to 1.22"
            ),
            "for kube-scheduler, remove it: pods that do not request what is short may then go to such nodes",
        );
    }
    notes
}

/// Plugins of the default profile whose weights differ from v1.
fn other_weights(profile: &ResolvedProfile, catalogue: &Catalogue) -> Vec<String> {
    let scores = profile.points[&Point::Score].iter();
    let others = scores.filter_map(|plugin| {
        let default = catalogue.by_default().find(|default| default.name == plugin.name)?;
        let default = i64::from(default.weight).max(1);
        let is_other = plugin.weight != default;
        is_other.then(|| format!("{} {} (v1: {default})", plugin.name, plugin.weight))
    });
    others.collect()
}

/// Plugins of the default profile that are enabled nowhere.
fn missing(profile: &ResolvedProfile, catalogue: &Catalogue) -> Vec<&'static str> {
    let enabled = profile.plugins();
    let becomes_limits = !substitutes::refused(profile).is_empty();
    let defaults = catalogue.by_default().map(|plugin| plugin.name);
    let is_there = |name: &str| {
        enabled.contains(name)
            || profile.unavailable.iter().any(|other| other == name)
            || (becomes_limits && name == VOLUME_LIMITS)
    };
    defaults.filter(|name| !is_there(name)).collect()
}

/// What to do for kube-scheduler about a plugin that later releases dropped; none for other plugins.
fn instead_of(plugin: &str) -> Option<&'static str> {
    Some(match plugin {
        "SelectorSpread" => {
            "for kube-scheduler, disable it: PodTopologySpread with `defaultingType: System` spreads the pods of \
             services over nodes and zones, too, with other scores"
        }
        "NodeLabel" => {
            "for kube-scheduler, require labels with `addedAffinity` in the args of NodeAffinity, and prefer them \
             with its preferred terms"
        }
        "ServiceAffinity" => {
            "for kube-scheduler, give the pods of a service an affinity to each other by the label of the nodes"
        }
        "NodePreferAvoidPods" => {
            "for kube-scheduler, disable it, and taint the nodes with PreferNoSchedule instead of annotating them"
        }
        "NodeResourcesLeastAllocated" => {
            "for kube-scheduler, enable NodeResourcesFit at score with the same weight and `scoringStrategy: \
             {type: LeastAllocated}` with the same resources: it leaves out what a node does not have \
             and extended resources that the pod does not request, which this plugin scores 0"
        }
        "NodeResourcesMostAllocated" => {
            "for kube-scheduler, enable NodeResourcesFit at score with the same weight and `scoringStrategy: \
             {type: MostAllocated}` with the same resources: it leaves out what a node does not have \
             and extended resources that the pod does not request, and scores an overfull node 100, \
             where this plugin scores 0"
        }
        "RequestedToCapacityRatio" => {
            "for kube-scheduler, enable NodeResourcesFit at score with the same weight and `scoringStrategy: \
             {type: RequestedToCapacityRatio}` with the same shape and resources: it rounds the \
             utilization down, where this plugin rounds it up, and leaves out extended resources that \
             the pod does not request"
        }
        "NodeResourceLimits" => "for kube-scheduler, disable it: nothing replaces it",
        _ => return None,
    })
}

fn about_release(configuration: &Configuration) -> Vec<Note> {
    let form = configuration.origin.form;
    let note = |subject: &str, change: &str, remedy: &str| Note {
        subject: subject.to_owned(),
        change: change.to_owned(),
        remedy: remedy.to_owned(),
    };
    let mut notes = Vec::new();
    let percentages = configuration.profiles.iter().map(|p| p.percentage_of_nodes_to_score);
    if percentages.into_iter().any(|percentage| percentage.is_none()) {
        let change = match form {
            V1ALPHA1 => {
                "is not set: Plimsoll looks at all nodes, kube-scheduler at a share that adapts to \
                 their number, and before 1.14 at half of them"
            }
            _ => {
                "is not set: Plimsoll looks at all nodes, kube-scheduler at a share that adapts to \
                 their number"
            }
        };
        notes.push(note("percentageOfNodesToScore", change, "set it to 0 to use such a share"));
    }
    notes.push(note(
        "equally good nodes",
        "`simulate` and `explain` take the one whose name comes first, `run` and kube-scheduler one at random",
        "`simulate --tie-break random` takes one at random, too",
    ));
    if matches!(form, V1ALPHA2 | V1ALPHA1) {
        notes.push(note(
            "leaderElection.resourceLock",
            "was \"endpointsleases\" by default, and is \"leases\": replicas with different locks do \
             not see each other",
            "stop the old ones before you start the new",
        ));
    }
    if form != V1BETA3 {
        notes.push(note(
            "unschedulable pods",
            "are tried again after 5 minutes at the latest (before 1.24 after 60 seconds)",
            "nothing needs to be done: an event that could help a pod wakes it at once",
        ));
    }
    notes.push(note(
        "plugins that still exist",
        "work as in the release that decides, and pods with scheduling gates wait in every profile",
        "",
    ));
    notes
}
