//! NodeResourceLimits: prefers nodes that satisfy the limits of the pod.

use plimsoll_framework::prelude::*;

/// Slightly prefers nodes that have at least as much CPU or memory as the pod's limits.
///
/// Requests of a pod are guaranteed, but the amount between requests and limits is not; a node that is
/// smaller than the limits could not provide it even if it were empty. The score is 1 or 0, so it only
/// distinguishes nodes that are otherwise equal. A resource without a limit does not count.
///
/// Release 1.20 no longer has it; in policies it was `ResourceLimitsPriority`.
#[derive(Clone, Copy, Debug)]
pub struct NodeResourceLimits;

/// The plugin, where it stands.
pub fn entry() -> Entry {
    Entry::of::<NodeResourceLimits>().score().at(Point::PreScore).done()
}

impl Plugin for NodeResourceLimits {
    const NAME: &'static str = "NodeResourceLimits";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        NodeResourceLimits
    }
}

impl Score for NodeResourceLimits {
    type Pod = Limits;
    type Node = Allocatable;

    /// As in resource_limits.go of release 1.19.
    fn score(&self, limits: &Limits, Allocatable(allocatable): &Allocatable) -> i64 {
        let fits = |limit, allocatable| limit != 0 && allocatable != 0 && limit <= allocatable;
        let cpu = fits(limits.milli_cpu, allocatable.milli_cpu);
        i64::from(cpu || fits(limits.memory, allocatable.memory))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{check, expect};

    use super::*;

    #[test]
    fn a_node_that_is_as_large_as_one_of_the_limits_scores_1() {
        check(
            entry(),
            r#"
            node large {"allocatable": {"cpu": "4", "memory": "4Gi"}}
            node small {"allocatable": {"cpu": "1", "memory": "1Gi"}}
            node unknown {"allocatable": {"cpu": "0", "memory": "0"}}
            pod both {"limits": {"cpu": "4", "memory": "4Gi"}}
            pod cpu {"limits": {"cpu": "1", "memory": "8Gi"}}
            pod larger {"limits": {"cpu": "5"}}
            pod none {"requests": {"cpu": "1", "memory": "1Gi"}}
            "#,
            &expect![[r#"
                both large score 1
                both small score 0
                both unknown score 0
                cpu large score 1
                cpu small score 1
                cpu unknown score 0
                larger large score 0
                larger small score 0
                larger unknown score 0
                none large score 0
                none small score 0
                none unknown score 0
            "#]],
        );
    }

    #[test]
    fn what_runs_on_the_node_makes_no_difference() {
        check(
            entry(),
            r#"
            node a {"allocatable": {"cpu": "4"}}
            pod x on a {"requests": {"cpu": "4"}}
            pod p {"limits": {"cpu": "4"}}
            "#,
            &expect![[r"
                p a score 1
            "]],
        );
    }
}
