//! Feature gates that change what the engine does, as values.

use plimsoll_api::Release;
use plimsoll_api::requests::RequestGates;
use plimsoll_framework::FeatureGates;

/// What feature gates make of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a gate of its own")]
pub struct Gates {
    /// `SchedulerPopFromBackoffQ`: a scheduler that has nothing else to do tries pods before their backoff is
    /// over.
    pub pops_from_backoff: bool,
    /// `SchedulerAsyncPreemption`: a pod is kept out of the queue until its victims have been told to go.
    pub preempts_async: bool,
    /// `NominatedNodeNameForExpectation`: a pod that cannot be bound at once says on which node it will be.
    pub says_expected_node: bool,
    /// `PodLevelResources`: what a pod asks for as a whole counts.
    pub pod_level_resources: bool,
    /// `InPlacePodLevelResourcesVerticalScaling`: so does what its status says of that.
    pub pod_level_resize: bool,
}

impl Gates {
    /// As these gates have it.
    pub fn of(gates: &FeatureGates) -> Self {
        let is_on = |name, default| gates.enabled(name, default);
        let usual = Gates::default();
        let RequestGates { pod_level_resources, pod_level_resize, .. } = gates.requests();
        Gates {
            pod_level_resources,
            pod_level_resize,
            pops_from_backoff: is_on("SchedulerPopFromBackoffQ", usual.pops_from_backoff),
            preempts_async: is_on("SchedulerAsyncPreemption", usual.preempts_async),
            says_expected_node: is_on("NominatedNodeNameForExpectation", usual.says_expected_node),
        }
    }

    /// How what pods request is reckoned in `release`.
    pub(crate) fn requests(self, release: Release) -> RequestGates {
        let Gates { pod_level_resources, pod_level_resize, .. } = self;
        RequestGates { pod_level_resources, pod_level_resize, ..RequestGates::of(release) }
    }
}

impl Default for Gates {
    /// All are on since 1.36.
    fn default() -> Self {
        Gates {
            pops_from_backoff: true,
            preempts_async: true,
            says_expected_node: true,
            pod_level_resources: true,
            pod_level_resize: true,
        }
    }
}
