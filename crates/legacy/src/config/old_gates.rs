//! Feature gates of earlier releases that concerned scheduling, and what applies now.
//!
//! As in kube_features.go of releases 1.16 to 1.35, without those that 1.36 still has.

const MIGRATED: &str = "volumes of in-tree plugins count as volumes of the CSI drivers that replaced them, \
                        on nodes that say so";
const VOLUMES: &str = "the plugin VolumeBinding always checks volumes";
const TAINTS: &str =
    "taints always describe the state of a node, and the plugin TaintToleration checks them";

/// The gates, each with what applies now, whatever its value.
pub const OLD_GATES: &[(&str, &str)] = &[
    ("AttachVolumeLimit", "NodeVolumeLimits always limits the volumes of a node"),
    (
        "BalanceAttachedNodeVolumes",
        "NodeResourcesBalancedAllocation balances the resources in its args, which cannot be volumes",
    ),
    ("BlockVolume", "a volume must always have the volumeMode of its claim"),
    ("CSIMigration", MIGRATED),
    ("CSIMigrationAWS", MIGRATED),
    ("CSIMigrationAWSComplete", MIGRATED),
    ("CSIMigrationAzureDisk", MIGRATED),
    ("CSIMigrationAzureDiskComplete", MIGRATED),
    ("CSIMigrationAzureFile", MIGRATED),
    ("CSIMigrationAzureFileComplete", MIGRATED),
    ("CSIMigrationGCE", MIGRATED),
    ("CSIMigrationGCEComplete", MIGRATED),
    ("CSIMigrationOpenStack", MIGRATED),
    ("CSIMigrationOpenStackComplete", MIGRATED),
    ("CSIMigrationPortworx", MIGRATED),
    ("CSIMigrationRBD", MIGRATED),
    ("CSIMigrationvSphere", MIGRATED),
    ("CSIMigrationvSphereComplete", MIGRATED),
    ("CSINodeInfo", "CSINode objects are always read"),
    ("CSIPersistentVolume", VOLUMES),
    ("CSIStorageCapacity", "CSIStorageCapacity objects always count where a CSIDriver says so"),
    ("ComponentSLIs", "health checks are always reported at /metrics/slis"),
    ("DRAControlPlaneController", "only the scheduler allocates device claims"),
    (
        "DefaultPodTopologySpread",
        "PodTopologySpread always spreads pods without constraints; to use SelectorSpread instead, \
         enable it, and set defaultingType List in the args of PodTopologySpread",
    ),
    ("DynamicProvisioningScheduling", VOLUMES),
    ("EnableEquivalenceClassCache", "results for equal pods are always remembered, and exact"),
    (
        "EvenPodsSpread",
        "PodTopologySpread always applies topologySpreadConstraints; to ignore them, disable it",
    ),
    (
        "ExperimentalCriticalPodAnnotation",
        "an annotation does not make a pod critical; a priorityClassName does",
    ),
    ("GenericEphemeralVolume", "pods always wait for the claims of their ephemeral volumes"),
    ("HugePages", "huge pages are always counted, like other resources"),
    ("LocalStorageCapacityIsolation", "ephemeral-storage is always counted, by NodeResourcesFit"),
    ("MinDomainsInPodTopologySpread", "minDomains in topologySpreadConstraints always counts"),
    ("NonPreemptingPriority", "a pod with preemptionPolicy Never never preempts"),
    ("PersistentLocalVolumes", VOLUMES),
    ("PodAffinityNamespaceSelector", "namespaceSelector in affinity terms always counts"),
    ("PodDisruptionBudget", "preemption always respects PodDisruptionBudgets where it can"),
    ("PodDisruptionConditions", "victims of preemption always get the condition DisruptionTarget"),
    ("PodOverhead", "the overhead of a pod always counts"),
    (
        "PodPriority",
        "pods are always queued by priority and preempt by it; to turn preemption off, disable \
         DefaultPreemption",
    ),
    ("PreferNominatedNode", "the nominated node of a pod is always tried first"),
    ("ReadWriteOncePod", "only one pod may use a claim with ReadWriteOncePod"),
    (
        "ResourceLimitsPriorityFunction",
        "nodes are not scored by the limits of a pod, unless NodeResourceLimits is enabled",
    ),
    ("ScheduleDaemonSetPods", "pods of DaemonSets are always scheduled as others are"),
    ("TaintBasedEvictions", TAINTS),
    ("TaintNodesByCondition", TAINTS),
    ("VolumeCapacityPriority", "it is called StorageCapacityScoring: set that"),
    ("VolumeScheduling", VOLUMES),
];

#[cfg(test)]
mod tests {
    use plimsoll_config::{GateError, GivenGates};
    use plimsoll_framework::Release;

    use super::*;

    #[test]
    fn every_gate_is_listed_once_in_the_order_of_names() {
        assert!(OLD_GATES.is_sorted_by(|(one, _), (next, _)| one < next));
    }

    #[test]
    fn no_gate_is_of_today() {
        for (name, _) in OLD_GATES {
            for release in Release::ALL {
                let given = GivenGates::parse(release, &[format!("{name}=true")], &[]);
                assert!(matches!(given, Err(GateError::Unknown { .. })), "{name} in {release}");
            }
        }
    }

    #[test]
    fn gates_of_earlier_releases_say_what_applies_now() {
        let parse = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&one| one.to_owned()).collect();
            GivenGates::parse(Release::NEWEST, &given, OLD_GATES)
        };
        let gates = parse(&["EvenPodsSpread=false", "VolumeScheduling=1", "GenericWorkload=false"]);
        let gates = gates.expect("all were gates once");
        let old: Vec<_> = gates.old.iter().map(|gate| (gate.name, gate.on)).collect();
        assert_eq!(old, [("EvenPodsSpread", false), ("VolumeScheduling", true)]);
        assert_eq!(gates.old[1].now, "the plugin VolumeBinding always checks volumes");
        assert!(gates.without_effect.is_empty());
        assert!(parse(&["EvenPodsSpread=maybe"]).is_err());
        assert_eq!(
            parse(&["evenpodsspread=true"]).expect_err("names are exact").to_string(),
            "unrecognized feature gate: evenpodsspread: did you mean EvenPodsSpread?"
        );
    }
}
