//! NodeName: pods that ask for one node by name.

use plimsoll_framework::prelude::*;

const OTHER_NAME: &str = "node(s) didn't match the requested node name";

/// Rejects every node except the one that the pod names in `spec.nodeName`.
///
/// The node is already decided; the scheduler only says why the pod cannot go elsewhere.
///
/// ```yaml
/// spec: {nodeName: worker-7}
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NodeName;

impl Plugin for NodeName {
    const NAME: &'static str = "NodeName";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        NodeName
    }
}

impl Filter for NodeName {
    type Pod = PinnedNode;
    type Node = Name;
    fn applies(&self, wanted: Option<&Str>) -> bool {
        wanted.is_some()
    }
    fn filter(&self, wanted: Option<&Str>, name: &Str) -> Verdict {
        if wanted.is_none_or(|wanted| wanted == name) {
            Verdict::Pass
        } else {
            Verdict::unresolvable(OTHER_NAME)
        }
    }
}

/// As in node_name.go, EventsToRegister: any new node may help.
impl Requeue for NodeName {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![ClusterEvent::of::<Node>(Action::ADD)]
    }
    fn hint(&self, _: &PodInfo, _: &Change<'_>) -> Hint {
        Hint::Queue
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<NodeName>().filter().requeue().done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_names_no_node_may_run_on_any() {
        assert!(!NodeName.applies(None));
    }

    #[test]
    fn only_the_named_node_passes() {
        let (here, there) = (Str::from("here"), Str::from("there"));
        assert!(NodeName.filter(Some(&here), &here).passes());
        assert_eq!(
            NodeName.filter(Some(&here), &there),
            Verdict::unresolvable("node(s) didn't match the requested node name")
        );
    }
}
