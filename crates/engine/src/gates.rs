//! Feature gates that change what the engine does, as values.

use plimsoll_api::Release;
use plimsoll_api::requests::RequestGates;
use plimsoll_framework::{FeatureGates, GroupGates, GroupRules};

/// The feature gates of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a gate of its own")]
pub struct Gates {
    /// `SchedulerPopFromBackoffQ`: an idle scheduler tries pods before their backoff is over.
    pub pops_from_backoff: bool,
    /// `SchedulerAsyncPreemption`: a pod is held back until its victims have been evicted.
    pub preempts_async: bool,
    /// `NominatedNodeNameForExpectation`: the expected node of a pod that cannot be bound at once is
    /// written.
    pub says_expected_node: bool,
    /// `PodLevelResources`: pod-level requests count.
    pub pod_level_resources: bool,
    /// `InPlacePodLevelResourcesVerticalScaling`: the pod-level resources in the status count, too.
    pub pod_level_resize: bool,
    /// Those of groups of pods.
    pub groups: GroupGates,
}

impl Gates {
    /// The values of these gates.
    pub fn of(gates: &FeatureGates) -> Self {
        let is_on = |name, default| gates.enabled(name, default);
        let usual = Gates::default();
        let RequestGates { pod_level_resources, pod_level_resize, .. } = gates.requests();
        Gates {
            pod_level_resources,
            pod_level_resize,
            groups: GroupGates::of(gates),
            pops_from_backoff: is_on("SchedulerPopFromBackoffQ", usual.pops_from_backoff),
            preempts_async: is_on("SchedulerAsyncPreemption", usual.preempts_async),
            says_expected_node: is_on("NominatedNodeNameForExpectation", usual.says_expected_node),
        }
    }

    /// How the requests of pods are computed in `release`.
    pub(crate) fn requests(self, release: Release) -> RequestGates {
        let Gates { pod_level_resources, pod_level_resize, .. } = self;
        RequestGates { pod_level_resources, pod_level_resize, ..RequestGates::of(release) }
    }
}

impl Default for Gates {
    /// Those of the newest release: all are on since 1.36, but those of groups.
    fn default() -> Self {
        Gates {
            pops_from_backoff: true,
            preempts_async: true,
            says_expected_node: true,
            pod_level_resources: true,
            pod_level_resize: true,
            groups: GroupGates { rules: GroupRules::V1_37, ..GroupGates::default() },
        }
    }
}
