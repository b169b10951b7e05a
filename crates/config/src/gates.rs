//! Feature gates: `--feature-gates A=true,B=false`.
//!
//! The gates of kube-scheduler with their defaults. As in kube_features.go and in feature_gate.go of component-base.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_framework::{FeatureGates, Release};

use crate::foreign_gates;

/// The stage of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is part of the release and cannot be switched off.
    Locked,
    /// It is no longer part of the release and cannot be switched on.
    LockedOff,
    /// It is part of the release but can still be switched off.
    Stable,
    /// It is on.
    Beta,
    /// It is off, though it is beta.
    BetaOff,
    /// It is off.
    Alpha,
    /// It is off and will be removed.
    Deprecated,
    /// It is on, and will be removed together with what it replaces.
    DeprecatedOn,
    /// It has become part of the gate [`GROUPS`], and is on with it. Here it can still be given; kube-scheduler no longer
    /// knows it.
    OfGroups,
    /// The gate was removed.
    Gone,
}

use Release::{V1_36, V1_37};
use Stage::{
    Alpha, Beta, BetaOff, Deprecated, DeprecatedOn, Gone, Locked, LockedOff, OfGroups, Stable,
};

/// The gate of groups of pods.
const GROUPS: &str = "GenericWorkload";

impl Stage {
    fn is_on(self) -> bool {
        matches!(self, Locked | Stable | Beta | DeprecatedOn)
    }

    fn is_locked(self) -> bool {
        matches!(self, Locked | LockedOff)
    }

    fn name(self) -> &'static str {
        match self {
            Locked | Stable | OfGroups | Gone => "",
            Beta | BetaOff => "BETA",
            Alpha => "ALPHA",
            Deprecated | DeprecatedOn | LockedOff => "DEPRECATED",
        }
    }
}

/// The gates, each with its stages and the releases in which these began. A stage of the oldest release may have begun
/// earlier.
const GATES: &[(&str, &[(Release, Stage)])] = &[
    ("ClearingNominatedNodeNameAfterBinding", &[(V1_36, Beta)]),
    ("ComponentFlagz", &[(V1_36, Beta)]),
    ("ComponentStatusz", &[(V1_36, Beta)]),
    ("CompositePodGroup", &[(V1_37, Alpha)]),
    ("CoordinatedLeaderElection", &[(V1_36, BetaOff)]),
    ("DRAAdminAccess", &[(V1_36, Locked)]),
    ("DRAConsumableCapacity", &[(V1_36, Beta)]),
    ("DRADerivedAttributes", &[(V1_37, Alpha)]),
    ("DRADeviceBindingConditions", &[(V1_36, Beta)]),
    ("DRADeviceCompatibilityGroups", &[(V1_37, Alpha)]),
    ("DRADeviceTaintRules", &[(V1_36, BetaOff), (V1_37, Stable)]),
    ("DRADeviceTaints", &[(V1_36, Beta), (V1_37, Stable)]),
    ("DRAExtendedResource", &[(V1_36, Beta), (V1_37, Locked)]),
    ("DRAFractionalCapacityRange", &[(V1_37, Beta)]),
    ("DRAListTypeAttributes", &[(V1_36, Alpha)]),
    ("DRANodeAllocatableResources", &[(V1_36, Alpha)]),
    ("DRAOptionalNodeOperations", &[(V1_37, Alpha)]),
    ("DRAPartitionableDevices", &[(V1_36, Beta)]),
    ("DRAPrioritizedList", &[(V1_36, Stable), (V1_37, Locked)]),
    ("DRAResourceClaimDeviceStatus", &[(V1_36, Beta), (V1_37, Locked)]),
    ("DRAResourceClaimGranularStatusAuthorization", &[(V1_36, Beta)]),
    ("DRAResourcePoolStatus", &[(V1_36, Alpha)]),
    ("DRASchedulerFilterTimeout", &[(V1_36, Beta)]),
    ("DRAWorkloadResourceClaims", &[(V1_36, Alpha), (V1_37, BetaOff)]),
    ("DynamicResourceAllocation", &[(V1_36, Locked)]),
    ("GangScheduling", &[(V1_36, Alpha), (V1_37, OfGroups)]),
    ("GenericWorkload", &[(V1_36, Alpha), (V1_37, BetaOff)]),
    ("InPlacePodLevelResourcesVerticalScaling", &[(V1_36, Beta)]),
    ("InPlacePodVerticalScaling", &[(V1_36, Locked)]),
    ("InPlacePodVerticalScalingSchedulerPreemption", &[(V1_37, Alpha)]),
    ("InterPodAffinityHostnameFastPath", &[(V1_37, Alpha)]),
    ("MatchLabelKeysInPodAffinity", &[(V1_36, Locked)]),
    ("MatchLabelKeysInPodTopologySpread", &[(V1_36, Beta)]),
    ("MatchLabelKeysInPodTopologySpreadSelectorMerge", &[(V1_36, Beta)]),
    ("MutableCSINodeAllocatableCount", &[(V1_36, Locked)]),
    ("MutablePVNodeAffinity", &[(V1_36, Alpha)]),
    ("MutableSchedulingDirectivesForSuspendedJobs", &[(V1_36, Beta)]),
    ("NativeHistograms", &[(V1_36, Alpha)]),
    ("NodeDeclaredFeatures", &[(V1_36, Beta), (V1_37, Locked)]),
    ("NodeInclusionPolicyInPodTopologySpread", &[(V1_36, Locked)]),
    ("NominatedNodeNameForExpectation", &[(V1_36, Beta)]),
    ("OpportunisticBatching", &[(V1_36, Beta)]),
    ("PodGroupPreemptionPolicy", &[(V1_37, Alpha)]),
    ("PodLevelResources", &[(V1_36, Beta)]),
    ("PodObservedGenerationTracking", &[(V1_36, Locked)]),
    ("PodSchedulingReadiness", &[(V1_36, Locked)]),
    ("PodTopologyLabelsAdmission", &[(V1_36, Beta)]),
    ("SchedulerAsyncAPICalls", &[(V1_36, BetaOff)]),
    ("SchedulerAsyncPreemption", &[(V1_36, Beta)]),
    ("SchedulerPopFromBackoffQ", &[(V1_36, Beta)]),
    ("SchedulerPreQueueingHints", &[(V1_37, Alpha)]),
    ("SchedulerQueueingHints", &[(V1_36, Locked), (V1_37, Gone)]),
    ("SidecarContainers", &[(V1_36, Locked), (V1_37, Gone)]),
    ("StorageCapacityScoring", &[(V1_36, Alpha), (V1_37, Beta)]),
    ("TaintTolerationComparisonOperators", &[(V1_36, Alpha)]),
    ("TopologyAwareWorkloadScheduling", &[(V1_36, Alpha)]),
    ("VolumeAttributesClass", &[(V1_36, Locked)]),
    ("VolumeLimitScaling", &[(V1_36, Alpha), (V1_37, Beta)]),
    ("WorkloadAwarePreemption", &[(V1_36, Alpha), (V1_37, OfGroups)]),
    ("WorkloadWithJob", &[(V1_36, Alpha)]),
];

/// The names that stand for all gates of a stage.
const STAGES: [(&str, &str); 2] = [("AllAlpha", "ALPHA"), ("AllBeta", "BETA")];

/// The stage of the gate `name` in `release`; `None` if the release does not know it.
fn stage_of(name: &str, release: Release) -> Option<Stage> {
    let mut gates = GATES.iter().chain(foreign_gates::GATES);
    let (_, stages) = gates.find(|(gate, _)| *gate == name)?;
    let (_, stage) = stages.iter().rfind(|(since, _)| *since <= release)?;
    Some(*stage).filter(|stage| *stage != Gone)
}

/// The gates that have an effect here. Any other gate can be given, but has none.
const ASKED: &[&str] = &[
    "CompositePodGroup",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaintRules",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAFractionalCapacityRange",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DRASchedulerFilterTimeout",
    "DRAWorkloadResourceClaims",
    "GangScheduling",
    "GenericWorkload",
    "InPlacePodLevelResourcesVerticalScaling",
    "MatchLabelKeysInPodTopologySpread",
    "NodeDeclaredFeatures",
    "NominatedNodeNameForExpectation",
    "PodGroupPreemptionPolicy",
    "PodLevelResources",
    "SchedulerAsyncPreemption",
    "SchedulerPopFromBackoffQ",
    "StorageCapacityScoring",
    "TaintTolerationComparisonOperators",
    "TopologyAwareWorkloadScheduling",
    "VolumeLimitScaling",
    "WorkloadAwarePreemption",
];

/// The gates that decisions do not depend on. Two belong to the API server, which clears the nomination of a pod when
/// it binds it, and merges `matchLabelKeys` into the selectors of topology spread: the scheduler counts the same either
/// way. And no decision waits for a write here, as in kube-scheduler with `SchedulerAsyncAPICalls`.
const UNSEEN: &[&str] = &[
    "ClearingNominatedNodeNameAfterBinding",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    "SchedulerAsyncAPICalls",
];

/// The gates that a gate needs while it is on. As in kube_features.go, defaultKubernetesFeatureGateDependencies.
const NEEDS: &[(&str, &[&str])] = &[
    ("CompositePodGroup", &["GenericWorkload", "TopologyAwareWorkloadScheduling"]),
    ("DRADeviceBindingConditions", &["DRAResourceClaimDeviceStatus"]),
    ("DRAWorkloadResourceClaims", &["GenericWorkload"]),
    ("GangScheduling", &["GenericWorkload"]),
    ("InPlacePodLevelResourcesVerticalScaling", &["PodLevelResources", "NodeDeclaredFeatures"]),
    ("PodGroupPreemptionPolicy", &["GenericWorkload"]),
    ("TopologyAwareWorkloadScheduling", &["GenericWorkload"]),
    ("WorkloadAwarePreemption", &["GangScheduling"]),
    ("WorkloadWithJob", &["GenericWorkload"]),
];

/// A gate that cannot be set as given.
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
    /// The release does not know it.
    #[error("unrecognized feature gate: {name}{}", remedy(name, *release, *meant))]
    Unknown {
        /// What was given.
        name: String,
        /// The release that decides.
        release: Release,
        /// A gate whose name differs only in case.
        meant: Option<&'static str>,
    },
    /// It cannot be set.
    #[error("cannot set feature gate {gate} to {}, feature is locked to {to}: leave it out", !to)]
    Locked {
        /// What was given.
        gate: String,
        /// The value that it always has.
        to: bool,
    },
    /// It needs gates that are off.
    #[error(
        "{gate} is enabled, but depends on features that are disabled: [{}]: switch them on, or {gate} off",
        needs.join(" ")
    )]
    Needs {
        /// The gate.
        gate: &'static str,
        /// What it needs.
        needs: Vec<&'static str>,
    },
}

/// The feature gates that were given.
#[derive(Clone, Debug)]
pub struct GivenGates {
    /// For plugins and their args.
    pub plugins: FeatureGates,
    /// Gates that were set to a value other than their default, but have no effect here.
    pub without_effect: Vec<String>,
    /// Gates of earlier releases. They have no effect.
    pub old: Vec<OldGate>,
}

/// A gate of an earlier release, as it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldGate {
    /// Its name.
    pub name: &'static str,
    /// Whether it was switched on.
    pub on: bool,
    /// What applies now, whatever its value.
    pub now: &'static str,
}

/// A gate and its value.
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
    /// The gates of `release` with their defaults.
    ///
    /// # Panics
    ///
    /// Never: nothing was given that could be wrong.
    pub fn of(release: Release) -> Self {
        GivenGates::parse(release, &[], &[]).expect("nothing was given that could be wrong")
    }

    /// Reads gates, each `NAME=BOOL` or `kube:NAME=BOOL`, as `release` does. `AllAlpha` and `AllBeta` stand for all
    /// gates of a stage that are not given by name. Gates of other components have no effect here.
    ///
    /// `removed` has the gates of earlier releases, each with what applies now.
    pub fn parse(
        release: Release,
        given: &[String],
        removed: &[(&'static str, &'static str)],
    ) -> Result<Self, GateError> {
        let mut old = Vec::new();
        let (mut own, mut of_stages) = (BTreeMap::new(), Vec::new());
        for one in given.iter().map(|one| one.trim()).filter(|one| !one.is_empty()) {
            let (name, value) =
                one.split_once('=').ok_or_else(|| GateError::NoValue(one.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            // As in component-base, ComponentGlobalsRegistry: `kube` is the default component.
            let name = name.strip_prefix("kube:").unwrap_or(name);
            let on = truth(value).ok_or_else(|| GateError::NoBool {
                gate: name.to_owned(),
                value: value.to_owned(),
            })?;
            if let Some((_, stage)) = STAGES.iter().find(|(all, _)| *all == name) {
                of_stages.push((*stage, on));
                continue;
            }
            if let Some(&(name, now)) = removed.iter().find(|(gate, _)| *gate == name) {
                old.push(OldGate { name, on, now });
                continue;
            }
            let stage = stage_of(name, release).ok_or_else(|| GateError::Unknown {
                name: name.to_owned(),
                release,
                meant: meant(name, removed),
            })?;
            if stage.is_locked() && on != stage.is_on() {
                return Err(GateError::Locked { gate: name.to_owned(), to: !on });
            }
            own.insert(name, on);
        }
        let is_on = |name: &str| {
            let by_release = stage_of(name, release);
            let of_stage =
                of_stages.iter().rfind(|(of, _)| Some(*of) == by_release.map(Stage::name));
            let by_stage = of_stage.map(|&(_, on)| on);
            own.get(name).copied().or(by_stage).or(by_release.map(Stage::is_on)).unwrap_or(false)
        };
        let is_on = |name: &str| match stage_of(name, release) {
            Some(OfGroups) => own.get(name).copied().unwrap_or_else(|| is_on(GROUPS)),
            _ => is_on(name),
        };
        for &(gate, needs) in NEEDS.iter().filter(|(gate, _)| is_on(gate)) {
            let needs: Vec<_> = needs.iter().copied().filter(|needed| !is_on(needed)).collect();
            if !needs.is_empty() {
                return Err(GateError::Needs { gate, needs });
            }
        }
        let mut plugins = FeatureGates::of(release);
        for &name in ASKED {
            plugins = plugins.with(name, is_on(name));
        }
        let of_scheduling = GATES.iter().map(|(name, _)| *name);
        let named = own.keys().copied().chain(of_scheduling).collect::<BTreeSet<_>>();
        let is_other =
            |name: &&str| stage_of(name, release).is_some_and(|it| it.is_on() != is_on(name));
        let is_silent = |name: &&str| ASKED.contains(name) || UNSEEN.contains(name);
        let without_effect = named.into_iter().filter(|name| is_other(name) && !is_silent(name));
        let without_effect = without_effect.map(ToOwned::to_owned).collect();
        Ok(GivenGates { plugins, without_effect, old })
    }
}

impl Default for GivenGates {
    /// The gates of the newest release.
    fn default() -> Self {
        GivenGates::of(Release::NEWEST)
    }
}

impl GivenGates {
    /// All gates of the release that concern scheduling, with their values.
    pub fn all(&self) -> impl Iterator<Item = Gate> {
        let of_release = |name| stage_of(name, self.plugins.release());
        GATES.iter().filter_map(move |&(name, _)| {
            let stage = of_release(name).filter(|stage| *stage != OfGroups)?;
            let enabled = self.plugins.enabled(name, stage.is_on());
            Some(Gate { name, stage: stage.name(), enabled })
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

/// The gate whose name differs only in case.
fn meant(name: &str, removed: &[(&'static str, &'static str)]) -> Option<&'static str> {
    let known = GATES.iter().chain(foreign_gates::GATES).map(|(gate, _)| *gate);
    let mut gates = known.chain(removed.iter().map(|(gate, _)| *gate));
    gates.find(|gate| gate.eq_ignore_ascii_case(name))
}

/// What to do about a gate that `release` does not know: another release may have it, or `meant` was meant.
fn remedy(name: &str, release: Release, meant: Option<&'static str>) -> String {
    let known = |release: &Release| stage_of(name, *release).is_some();
    if let Some(other) = Release::ALL.iter().rfind(|other| known(other)) {
        let lacks = if *other < release { "no longer has it" } else { "does not have it yet" };
        return format!(": release {release} {lacks}: leave it out, or decide as {other}");
    }
    meant.map_or_else(String::new, |gate| format!(": did you mean {gate}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_at(release: Release, given: &[&str]) -> Result<GivenGates, String> {
        let given: Vec<String> = given.iter().map(|&one| one.to_owned()).collect();
        GivenGates::parse(release, &given, &[]).map_err(|error| error.to_string())
    }

    fn parse(given: &[&str]) -> Result<GivenGates, String> {
        parse_at(Release::NEWEST, given)
    }

    #[test]
    fn plugins_get_their_gates_and_those_without_effect_are_listed() {
        let gates = parse(&["StorageCapacityScoring=false", "OpportunisticBatching=false"]);
        let gates = gates.expect("both exist");
        assert!(!gates.plugins.enabled("StorageCapacityScoring", true));
        assert!(gates.plugins.enabled("DRASchedulerFilterTimeout", false));
        assert_eq!(gates.without_effect, ["OpportunisticBatching"]);
        let of_engine = ["SchedulerPopFromBackoffQ=false", "SchedulerAsyncAPICalls=true"];
        let of_engine = parse(&of_engine).expect("both exist");
        assert!(!of_engine.plugins.enabled("SchedulerPopFromBackoffQ", true));
        assert!(of_engine.without_effect.is_empty());
        let as_they_are = parse(&["NodeDeclaredFeatures=true", "GenericWorkload=false"]);
        assert!(as_they_are.expect("they are so").without_effect.is_empty());
    }

    #[test]
    fn gates_of_earlier_releases_say_what_applies_now() {
        let parse = |given: &str| {
            let removed = [("HugePages", "they are always counted")];
            GivenGates::parse(Release::NEWEST, &[given.to_owned()], &removed)
        };
        let gates = parse("HugePages=false").expect("it was a gate once");
        let old = OldGate { name: "HugePages", on: false, now: "they are always counted" };
        assert_eq!(gates.old, [old]);
        assert!(gates.without_effect.is_empty());
        assert!(parse("HugePages=maybe").is_err());
        assert_eq!(
            parse("hugepages=true").expect_err("names are exact").to_string(),
            "unrecognized feature gate: hugepages: did you mean HugePages?"
        );
    }

    #[test]
    fn all_gates_of_a_stage_are_set_except_those_given_by_name() {
        let enabled = |given: &[&str]| {
            let gates = parse_at(Release::V1_36, given).expect("all are known").plugins;
            ["StorageCapacityScoring", "VolumeLimitScaling", "PodLevelResources"]
                .map(|gate| gates.enabled(gate, false))
        };
        assert_eq!(enabled(&[]), [false, false, true]);
        assert_eq!(enabled(&["AllAlpha=true", "VolumeLimitScaling=false"]), [true, false, true]);
        assert_eq!(enabled(&["AllBeta=false"]), [false, false, false]);
        let told =
            parse_at(Release::V1_36, &["AllBeta=false"]).expect("it is known").without_effect;
        assert!(told.iter().any(|gate| gate == "OpportunisticBatching"), "{told:?}");
        assert!(told.iter().all(|gate| gate != "PodLevelResources"), "{told:?}");
    }

    #[test]
    fn a_gate_needs_others() {
        let error = |given: &[&str]| parse(given).expect_err("something is missing");
        assert_eq!(
            error(&["PodLevelResources=false"]),
            "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: \
             [PodLevelResources]: switch them on, or InPlacePodLevelResourcesVerticalScaling off"
        );
        let both = ["PodLevelResources=false", "InPlacePodLevelResourcesVerticalScaling=false"];
        assert!(parse(&both).is_ok());
        assert!(
            error(&["CompositePodGroup=true"])
                .contains("[GenericWorkload TopologyAwareWorkloadScheduling]")
        );
    }

    #[test]
    fn gates_of_other_components_are_accepted_and_have_no_effect() {
        let given = [
            "ContextualLogging=true",
            "LoggingBetaOptions=true",
            "LoggingAlphaOptions=true",
            "kube:ShardedListAndWatch=true",
            "kube:NodeSwap=true",
            "kube:StorageCapacityScoring=true",
        ];
        for release in Release::ALL {
            let gates = parse_at(release, &given).expect("kube-scheduler takes all of them");
            assert_eq!(gates.without_effect, ["LoggingAlphaOptions", "ShardedListAndWatch"]);
            assert!(gates.plugins.enabled("StorageCapacityScoring", false));
            assert!(gates.all().all(|gate| gate.name != "ContextualLogging"));
        }
        for (gate, _) in foreign_gates::GATES {
            assert!(GATES.iter().all(|(own, _)| own != gate), "{gate} has to do with scheduling");
            let given = [true, false].map(|on| format!("{gate}={on}"));
            let taken = given.iter().any(|given| parse(&[given]).is_ok());
            assert!(taken, "{gate}");
        }
        for (given, told) in [
            (
                "NodeSwap=false",
                "cannot set feature gate NodeSwap to false, feature is locked to true: leave it out",
            ),
            (
                "GitRepoVolumeDriver=true",
                "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false: leave it out",
            ),
            (
                "contextualLogging=true",
                "unrecognized feature gate: contextualLogging: did you mean ContextualLogging?",
            ),
        ] {
            assert_eq!(parse(&[given]).expect_err("it is wrong"), told);
        }
        assert!(parse_at(Release::V1_36, &["DefaultPodSysctls=true"]).is_err(), "it is of 1.37");
        assert!(parse_at(Release::V1_36, &["HPAConfigurableTolerance=false"]).is_ok());
        assert!(parse_at(Release::V1_37, &["HPAConfigurableTolerance=false"]).is_err());
    }

    #[test]
    fn errors_say_what_to_write_instead() {
        let error = |given: &str| parse(&[given]).expect_err("it is wrong");
        assert_eq!(
            error("storagecapacityscoring=true"),
            "unrecognized feature gate: storagecapacityscoring: did you mean StorageCapacityScoring?"
        );
        assert_eq!(error("Nonsense=true"), "unrecognized feature gate: Nonsense");
        assert_eq!(
            error("PodSchedulingReadiness=false"),
            "cannot set feature gate PodSchedulingReadiness to false, feature is locked to true: leave it out"
        );
        assert_eq!(
            error("GenericWorkload"),
            "missing bool value for GenericWorkload: write GenericWorkload=true or GenericWorkload=false"
        );
        assert_eq!(
            error("GenericWorkload=on"),
            "invalid value of GenericWorkload=on: write true or false"
        );
    }

    /// The stage of a gate, and whether it is on; `-` if the release does not know it.
    fn stands(gate: &str, release: Release) -> String {
        let gates = GivenGates::of(release);
        let stands = gates.all().find(|one| one.name == gate);
        stands.map_or_else(|| "-".to_owned(), |one| format!("{} {}", one.stage, one.enabled))
    }

    #[test]
    fn every_release_has_its_own_gates() {
        for (gate, old, new) in [
            ("StorageCapacityScoring", "ALPHA false", "BETA true"),
            ("VolumeLimitScaling", "ALPHA false", "BETA true"),
            ("DRADeviceTaintRules", "BETA false", " true"),
            ("NodeDeclaredFeatures", "BETA true", " true"),
            ("GenericWorkload", "ALPHA false", "BETA false"),
            ("GangScheduling", "ALPHA false", "-"),
            ("SchedulerQueueingHints", " true", "-"),
            ("DRAFractionalCapacityRange", "-", "BETA true"),
            ("OpportunisticBatching", "BETA true", "BETA true"),
        ] {
            assert_eq!(stands(gate, Release::V1_36), old, "{gate}");
            assert_eq!(stands(gate, Release::V1_37), new, "{gate}");
        }
        let scores = |release| {
            let gates = GivenGates::of(release).plugins;
            gates.enabled("StorageCapacityScoring", release == Release::OLDEST)
        };
        assert_eq!(Release::ALL.map(scores), [false, true]);
    }

    #[test]
    fn a_gate_is_refused_where_the_release_does_not_know_it_or_has_locked_it() {
        let error = |release, given: &str| parse_at(release, &[given]).expect_err("it is wrong");
        assert_eq!(
            error(Release::V1_37, "SidecarContainers=true"),
            "unrecognized feature gate: SidecarContainers: release 1.37 no longer has it: leave it out, or decide as 1.36"
        );
        assert_eq!(
            error(Release::V1_36, "CompositePodGroup=true"),
            "unrecognized feature gate: CompositePodGroup: release 1.36 does not have it yet: leave it out, \
             or decide as 1.37"
        );
        for gate in ["DRAExtendedResource", "DRAPrioritizedList", "DRAResourceClaimDeviceStatus"] {
            let given = format!("{gate}=false");
            let with = [given.as_str(), "DRADeviceBindingConditions=false"];
            assert!(parse_at(Release::V1_36, &with).is_ok(), "{gate}");
            let told = format!("cannot set feature gate {gate} to false");
            assert!(error(Release::V1_37, &given).starts_with(&told), "{gate}");
        }
    }

    #[test]
    fn stages_are_in_the_order_of_releases_and_gates_in_the_order_of_names() {
        for (gate, stages) in GATES {
            assert!(stages.is_sorted_by(|(one, _), (other, _)| one < other), "{gate}");
        }
        assert!(GATES.is_sorted_by(|(one, _), (other, _)| one < other));
    }
}
