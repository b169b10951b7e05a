//! NodeAffinityPriority: nodes that the pod prefers.

use crate::priorities::{Points, Priority, Raw, Subject, share};

/// Prefers nodes that the pod's preferred node affinity matches. The map step adds up the weights of the
/// terms that match, the reduce step gives each node its share of the highest sum.
///
/// The same in all releases.
#[derive(Clone, Copy, Debug)]
pub struct NodeAffinity;

impl Priority for NodeAffinity {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let wanted = &subject.pod.preferred_nodes;
        subject.nodes().map(|node| Raw(wanted.weight(&node.name, &node.labels))).collect()
    }

    fn reduce(&self, _: &Subject<'_>, raw: &[Raw]) -> Vec<Points> {
        share::of_max(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    #[test]
    fn a_node_gets_its_share_of_the_highest_sum_of_weights() {
        check(
            &NodeAffinity,
            r#"
            node a disk=ssd zone=z1
            node b disk=ssd
            node c zone=z1
            node d
            pod p {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference":
                    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}},
                {"weight": 2, "preference":
                    {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]}}}
            "#,
            &expect![[r#"
                a raw 7, 10 points
                b raw 5, 7 points
                c raw 2, 2 points
                d raw 0, 0 points
            "#]],
        );
    }
}
