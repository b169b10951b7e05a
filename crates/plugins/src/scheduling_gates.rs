//! SchedulingGates: pods with scheduling gates.

use plimsoll_framework::parts::SchedulingGates as Gates;
use plimsoll_framework::prelude::*;

const WAITING: &str = "waiting for scheduling gates";

/// Holds a pod back as long as it has scheduling gates.
///
/// The creator of the pod may have to prepare something first, such as quota; until the gates are
/// removed, attempts would be a waste.
///
/// ```yaml
/// spec:
///   schedulingGates: [{name: example.com/quota}]
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SchedulingGates;

impl Plugin for SchedulingGates {
    const NAME: &'static str = "SchedulingGates";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        SchedulingGates
    }
}

impl PreEnqueue for SchedulingGates {
    type Pod = Gates;
    type Cluster = ();
    fn pre_enqueue(&self, gates: &[Str], (): ()) -> Gate {
        if gates.is_empty() { Gate::Open } else { Gate::Closed(waiting_for(gates)) }
    }
}

/// The names are in brackets, separated by spaces, as Go prints a list.
#[cold]
fn waiting_for(gates: &[Str]) -> Rejection {
    Rejection::unresolvable(format!("{WAITING}: [{}]", gates.join(" ")))
}

impl Requeue for SchedulingGates {
    fn events(&self) -> Vec<ClusterEvent> {
        let gone = Action::UPDATE_POD_SCHEDULING_GATES_ELIMINATED;
        vec![ClusterEvent::of::<Pod>(gone)]
    }
    fn hint(&self, _: &PodInfo, _: &Change<'_>) -> Hint {
        Hint::Queue
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<SchedulingGates>().pre_enqueue().requeue().done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_without_gates_may_enter_the_queue() {
        assert_eq!(SchedulingGates.pre_enqueue(&[], ()), Gate::Open);
    }

    #[test]
    fn a_gated_pod_is_told_all_gates_it_waits_for() {
        let gates = ["example.com/foo".into(), "bar".into()];
        let Gate::Closed(why) = SchedulingGates.pre_enqueue(&gates, ()) else {
            panic!("a pod with gates must stay outside")
        };
        assert_eq!(why.code, Code::UnschedulableAndUnresolvable);
        assert_eq!(why.to_string(), "waiting for scheduling gates: [example.com/foo bar]");
    }
}
