//! Feature gates: `--feature-gates A=true,B=false`.
//!
//! Those of kube-scheduler, with what they are unless somebody says. As in kube_features.go and in
//! feature_gate.go of component-base.

use plimsoll_framework::{FeatureGates, Release};

use crate::catalogue::Gates;
use crate::old_gates::{self, OldGate};

/// How far a feature has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is part of the release and cannot be switched off.
    Locked,
    /// It is on.
    On,
    /// It is off.
    Off,
}

use Stage::{Locked, Off, On};

const GATES: &[(&str, Stage)] = &[
    ("ClearingNominatedNodeNameAfterBinding", On),
    ("ComponentFlagz", On),
    ("ComponentStatusz", On),
    ("CoordinatedLeaderElection", Off),
    ("DRAAdminAccess", Locked),
    ("DRAConsumableCapacity", On),
    ("DRADeviceBindingConditions", On),
    ("DRADeviceTaintRules", Off),
    ("DRADeviceTaints", On),
    ("DRAExtendedResource", On),
    ("DRAListTypeAttributes", Off),
    ("DRANodeAllocatableResources", Off),
    ("DRAPartitionableDevices", On),
    ("DRAPrioritizedList", On),
    ("DRAResourceClaimDeviceStatus", On),
    ("DRAResourceClaimGranularStatusAuthorization", On),
    ("DRAResourcePoolStatus", Off),
    ("DRASchedulerFilterTimeout", On),
    ("DRAWorkloadResourceClaims", Off),
    ("DynamicResourceAllocation", Locked),
    ("GangScheduling", Off),
    ("GenericWorkload", Off),
    ("InPlacePodLevelResourcesVerticalScaling", On),
    ("InPlacePodVerticalScaling", Locked),
    ("MatchLabelKeysInPodAffinity", Locked),
    ("MatchLabelKeysInPodTopologySpread", On),
    ("MatchLabelKeysInPodTopologySpreadSelectorMerge", On),
    ("MutableCSINodeAllocatableCount", Locked),
    ("MutablePVNodeAffinity", Off),
    ("MutableSchedulingDirectivesForSuspendedJobs", On),
    ("NativeHistograms", Off),
    ("NodeDeclaredFeatures", On),
    ("NodeInclusionPolicyInPodTopologySpread", Locked),
    ("NominatedNodeNameForExpectation", On),
    ("OpportunisticBatching", On),
    ("PodLevelResources", On),
    ("PodObservedGenerationTracking", Locked),
    ("PodSchedulingReadiness", Locked),
    ("PodTopologyLabelsAdmission", On),
    ("SchedulerAsyncAPICalls", Off),
    ("SchedulerAsyncPreemption", On),
    ("SchedulerPopFromBackoffQ", On),
    ("SchedulerQueueingHints", Locked),
    ("SidecarContainers", Locked),
    ("StorageCapacityScoring", Off),
    ("TaintTolerationComparisonOperators", Off),
    ("TopologyAwareWorkloadScheduling", Off),
    ("VolumeAttributesClass", Locked),
    ("VolumeLimitScaling", Off),
    ("WorkloadAwarePreemption", Off),
    ("WorkloadWithJob", Off),
];

/// Those that are off although they are beta.
const BETA_OFF: &[&str] =
    &["CoordinatedLeaderElection", "DRADeviceTaintRules", "SchedulerAsyncAPICalls"];

/// The gates that somebody asks about: any other can be given, and changes nothing.
const ASKED: &[&str] = &[
    "DRADeviceBindingConditions",
    "DRAResourceClaimDeviceStatus",
    "DRASchedulerFilterTimeout",
    "NodeDeclaredFeatures",
    "StorageCapacityScoring",
    "TaintTolerationComparisonOperators",
    "VolumeLimitScaling",
];

/// A gate that cannot be set so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// It has no value.
    #[error("missing bool value for {0}: write {0}=true or {0}=false")]
    NoValue(String),
    /// The value is neither true nor false.
    #[error("invalid value of {gate}={value}: write true or false")]
    NoBool {
        /// The gate.
        gate: String,
        /// What was given.
        value: String,
    },
    /// kube-scheduler 1.36 does not know it.
    #[error("unrecognized feature gate: {name}{}", nearest(name))]
    Unknown {
        /// What was given.
        name: String,
    },
    /// It is part of the release.
    #[error("cannot set feature gate {0} to false, feature is locked to true: leave it out")]
    Locked(String),
}

/// Feature gates that were given.
#[derive(Clone, Debug, Default)]
pub struct GivenGates {
    /// For plugins.
    pub plugins: FeatureGates,
    /// For the args of plugins.
    pub args: Gates,
    /// Those that were set to what they are not by default, although nothing here asks about them.
    pub without_effect: Vec<String>,
    /// Those of earlier releases. They change nothing.
    pub old: Vec<OldGate>,
}

/// A gate as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// `ALPHA`, `BETA`, or nothing for one that is part of the release.
    pub stage: &'static str,
    /// Whether it is on.
    pub enabled: bool,
}

impl GivenGates {
    /// The gates of `release` where nobody says anything.
    ///
    /// # Panics
    ///
    /// Never: nothing was given that could be wrong.
    pub fn of(release: Release) -> Self {
        GivenGates::parse(release, &[]).expect("nothing was given that could be wrong")
    }

    /// Reads `NAME=BOOL` each, as `release` does. `AllAlpha` and `AllBeta` stand for many and have no effect
    /// here.
    pub fn parse(release: Release, given: &[String]) -> Result<Self, GateError> {
        let mut gates = GivenGates { plugins: FeatureGates::of(release), ..GivenGates::default() };
        for one in given.iter().map(|one| one.trim()).filter(|one| !one.is_empty()) {
            let (name, value) =
                one.split_once('=').ok_or_else(|| GateError::NoValue(one.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let on = truth(value).ok_or_else(|| GateError::NoBool {
                gate: name.to_owned(),
                value: value.to_owned(),
            })?;
            if matches!(name, "AllAlpha" | "AllBeta") {
                gates.without_effect.push(name.to_owned());
                continue;
            }
            if let Some(old) = OldGate::named(name, on) {
                gates.old.push(old);
                continue;
            }
            let stage = GATES.iter().find(|(gate, _)| *gate == name);
            let (_, stage) = stage.ok_or_else(|| GateError::Unknown { name: name.to_owned() })?;
            if *stage == Locked && !on {
                return Err(GateError::Locked(name.to_owned()));
            }
            if ASKED.contains(&name) {
                gates.plugins = gates.plugins.with(name, on);
            } else if on == (*stage == Off) {
                gates.without_effect.push(name.to_owned());
            }
        }
        let is_on = |name, default| gates.plugins.enabled(name, default);
        let usual = Gates::default();
        gates.args = Gates {
            storage_capacity_scoring: is_on(
                "StorageCapacityScoring",
                usual.storage_capacity_scoring,
            ),
            dra_scheduler_filter_timeout: is_on(
                "DRASchedulerFilterTimeout",
                usual.dra_scheduler_filter_timeout,
            ),
            dra_device_binding_conditions: is_on(
                "DRADeviceBindingConditions",
                usual.dra_device_binding_conditions,
            ),
            dra_resource_claim_device_status: is_on(
                "DRAResourceClaimDeviceStatus",
                usual.dra_resource_claim_device_status,
            ),
        };
        Ok(gates)
    }
}

impl GivenGates {
    /// All gates as they stand.
    pub fn all(&self) -> impl Iterator<Item = Gate> {
        GATES.iter().map(|&(name, stage)| Gate {
            name,
            stage: match stage {
                Locked => "",
                On => "BETA",
                Off if BETA_OFF.contains(&name) => "BETA",
                Off => "ALPHA",
            },
            enabled: self.plugins.enabled(name, stage != Off),
        })
    }
}

/// As in strconv, ParseBool.
fn truth(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// The gate that was meant, if it can be guessed: the same but for case.
fn nearest(name: &str) -> String {
    let mut names = GATES.iter().map(|(gate, _)| *gate).chain(old_gates::names());
    let meant = names.find(|gate| gate.eq_ignore_ascii_case(name));
    meant.map_or_else(String::new, |gate| format!(": did you mean {gate}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[&str]) -> Result<GivenGates, String> {
        let given: Vec<String> = given.iter().map(|&one| one.to_owned()).collect();
        GivenGates::parse(Release::NEWEST, &given).map_err(|error| error.to_string())
    }

    #[test]
    fn plugins_are_told_and_what_has_no_effect_is_named() {
        let gates = parse(&["StorageCapacityScoring=true", "OpportunisticBatching=false"]);
        let gates = gates.expect("both exist");
        assert!(gates.plugins.enabled("StorageCapacityScoring", false));
        assert!(gates.args.storage_capacity_scoring && gates.args.dra_scheduler_filter_timeout);
        assert_eq!(gates.without_effect, ["OpportunisticBatching"]);
        let as_they_are = parse(&["SchedulerQueueingHints=true", "GangScheduling=false"]);
        assert!(as_they_are.expect("they are so").without_effect.is_empty());
    }

    #[test]
    fn gates_of_earlier_releases_say_what_holds_now() {
        let gates = parse(&["EvenPodsSpread=false", "VolumeScheduling=1", "GangScheduling=false"]);
        let gates = gates.expect("all were gates once");
        let old: Vec<_> = gates.old.iter().map(|gate| (gate.name, gate.on)).collect();
        assert_eq!(old, [("EvenPodsSpread", false), ("VolumeScheduling", true)]);
        assert_eq!(gates.old[1].now, "volumes always have a say, by the plugin VolumeBinding");
        assert!(gates.without_effect.is_empty());
        assert!(parse(&["EvenPodsSpread=maybe"]).is_err());
        assert_eq!(
            parse(&["evenpodsspread=true"]).expect_err("names are exact"),
            "unrecognized feature gate: evenpodsspread: did you mean EvenPodsSpread?"
        );
        for name in old_gates::names() {
            assert!(GATES.iter().all(|(gate, _)| *gate != name), "{name} is a gate of today");
        }
    }

    #[test]
    fn what_cannot_be_set_is_told_with_the_remedy() {
        let error = |given| parse(&[given]).expect_err("it is wrong");
        assert_eq!(
            error("storagecapacityscoring=true"),
            "unrecognized feature gate: storagecapacityscoring: did you mean StorageCapacityScoring?"
        );
        assert_eq!(
            error("SidecarContainers=false"),
            "cannot set feature gate SidecarContainers to false, feature is locked to true: leave it out"
        );
        assert_eq!(
            error("GangScheduling"),
            "missing bool value for GangScheduling: write GangScheduling=true or GangScheduling=false"
        );
        assert_eq!(
            error("GangScheduling=on"),
            "invalid value of GangScheduling=on: write true or false"
        );
    }
}
