//! Feature gates that change what the engine does, as values.

use plimsoll_framework::FeatureGates;

/// What feature gates make of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `SchedulerPopFromBackoffQ`: a scheduler that has nothing else to do tries pods before their backoff is
    /// over.
    pub pops_from_backoff: bool,
    /// `SchedulerAsyncPreemption`: a pod is kept out of the queue until its victims have been told to go.
    pub preempts_async: bool,
    /// `NominatedNodeNameForExpectation`: a pod that cannot be bound at once says on which node it will be.
    pub says_expected_node: bool,
}

impl Gates {
    /// As these gates have it.
    pub fn of(gates: &FeatureGates) -> Self {
        let is_on = |name, default| gates.enabled(name, default);
        let usual = Gates::default();
        Gates {
            pops_from_backoff: is_on("SchedulerPopFromBackoffQ", usual.pops_from_backoff),
            preempts_async: is_on("SchedulerAsyncPreemption", usual.preempts_async),
            says_expected_node: is_on("NominatedNodeNameForExpectation", usual.says_expected_node),
        }
    }
}

impl Default for Gates {
    /// All are on since 1.35.
    fn default() -> Self {
        Gates { pops_from_backoff: true, preempts_async: true, says_expected_node: true }
    }
}
