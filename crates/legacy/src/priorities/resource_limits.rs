//! ResourceLimitsPriority: nodes that satisfy the limits of the pod.

use crate::priorities::{Priority, Raw, Subject};

/// Gives 1 to nodes that have at least as much CPU, or as much memory, as the pod's limit, and 0 to
/// others. A resource without a limit, or that a node does not have, does not count. There is no reduce
/// step.
///
/// The same from 1.8 to 1.16, behind the gate `ResourceLimitsPriorityFunction`, which was off.
#[derive(Clone, Copy, Debug)]
pub struct ResourceLimits;

impl Priority for ResourceLimits {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let limits = subject.pod.asks.limits;
        let raw = subject.nodes().map(|node| {
            let cpu = holds(limits.milli_cpu, node.allocatable.milli_cpu);
            Raw(i64::from(cpu || holds(limits.memory, node.allocatable.memory)))
        });
        raw.collect()
    }
}

/// As in resource_limits.go, computeScore.
fn holds(limit: i64, allocatable: i64) -> bool {
    limit != 0 && allocatable != 0 && limit <= allocatable
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    const NODES: &str = r#"
        node large {"allocatable": {"cpu": "4", "memory": "4Gi"}}
        node small {"allocatable": {"cpu": "1", "memory": "1Gi"}}
        "#;

    #[test]
    fn one_limit_that_the_node_can_hold_is_enough() {
        let limited = |limits: &str| format!(r#"{NODES} pod p {{"limits": {limits}}}"#);
        check(
            &ResourceLimits,
            &limited(r#"{"cpu": "2", "memory": "8Gi"}"#),
            &expect![[r#"
                large raw 1, 1 points
                small raw 0, 0 points
            "#]],
        );
        check(
            &ResourceLimits,
            &limited(r#"{"memory": "1Gi"}"#),
            &expect![[r#"
                large raw 1, 1 points
                small raw 1, 1 points
            "#]],
        );
    }

    #[test]
    fn a_pod_without_limits_gives_no_points() {
        check(
            &ResourceLimits,
            &format!("{NODES} pod p"),
            &expect![[r#"
                large raw 0, 0 points
                small raw 0, 0 points
            "#]],
        );
    }
}
