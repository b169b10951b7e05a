//! Feature gates of earlier releases that had to do with scheduling, and what became of them.
//!
//! As in kube_features.go of releases 1.16 to 1.35, less those that 1.36 still has.

/// A feature gate that releases before 1.36 had, as it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldGate {
    /// Its name.
    pub name: &'static str,
    /// Whether it was switched on.
    pub on: bool,
    /// What holds now, however it is set.
    pub now: &'static str,
}

impl OldGate {
    /// The gate called `name`, if an earlier release had it.
    pub(crate) fn named(name: &str, on: bool) -> Option<Self> {
        let (name, now) = GATES.iter().find(|(gate, _)| *gate == name)?;
        Some(OldGate { name, on, now })
    }
}

/// The names of all of them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    GATES.iter().map(|(name, _)| *name)
}

const MIGRATED: &str = "volumes of in-tree plugins are those of the CSI drivers that took their place, where a node says so";
const VOLUMES: &str = "volumes always have a say, by the plugin VolumeBinding";
const TAINTS: &str = "the state of a node is always told by taints, for the plugin TaintToleration";

const GATES: &[(&str, &str)] = &[
    ("AttachVolumeLimit", "how many volumes a node takes is always counted, by NodeVolumeLimits"),
    (
        "BalanceAttachedNodeVolumes",
        "NodeResourcesBalancedAllocation goes by the resources in its args, and volumes are none",
    ),
    ("BlockVolume", "a volume always has to have the volumeMode of its claim"),
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
    ("ComponentSLIs", "health checks are always told at /metrics/slis"),
    ("DRAControlPlaneController", "claims of devices are allocated by the scheduler alone"),
    (
        "DefaultPodTopologySpread",
        "PodTopologySpread always spreads pods without constraints; to have SelectorSpread in its place, \
         enable that, and set defaultingType List in the args of PodTopologySpread",
    ),
    ("DynamicProvisioningScheduling", VOLUMES),
    ("EnableEquivalenceClassCache", "what equal pods are told is always remembered, and exact"),
    (
        "EvenPodsSpread",
        "topologySpreadConstraints always count, by PodTopologySpread; to do without them, disable that",
    ),
    (
        "ExperimentalCriticalPodAnnotation",
        "annotations make no pod critical; a priorityClassName does",
    ),
    ("GenericEphemeralVolume", "claims of ephemeral volumes are always waited for"),
    ("HugePages", "huge pages are always counted, as other resources are"),
    ("LocalStorageCapacityIsolation", "ephemeral-storage is always counted, by NodeResourcesFit"),
    ("MinDomainsInPodTopologySpread", "minDomains in topologySpreadConstraints always counts"),
    ("NonPreemptingPriority", "a pod with preemptionPolicy Never never preempts"),
    ("PersistentLocalVolumes", VOLUMES),
    ("PodAffinityNamespaceSelector", "namespaceSelector in affinity terms always counts"),
    ("PodDisruptionBudget", "preemption always spares budgets where it can"),
    ("PodDisruptionConditions", "victims of preemption always get the condition DisruptionTarget"),
    ("PodOverhead", "the overhead of a pod always counts"),
    (
        "PodPriority",
        "pods always wait by priority and preempt by it; to do without preemption, disable \
         DefaultPreemption",
    ),
    ("PreferNominatedNode", "the node that was cleared for a pod is always looked at first"),
    ("ReadWriteOncePod", "a claim with ReadWriteOncePod is always for one pod"),
    (
        "ResourceLimitsPriorityFunction",
        "no node is preferred for the limits of a pod, unless NodeResourceLimits is enabled",
    ),
    ("ScheduleDaemonSetPods", "pods of DaemonSets are always scheduled as others are"),
    ("TaintBasedEvictions", TAINTS),
    ("TaintNodesByCondition", TAINTS),
    ("VolumeCapacityPriority", "it is called StorageCapacityScoring: set that"),
    ("VolumeScheduling", VOLUMES),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gate_stands_once_in_the_order_of_the_names() {
        let names: Vec<&str> = names().collect();
        assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
    }
}
