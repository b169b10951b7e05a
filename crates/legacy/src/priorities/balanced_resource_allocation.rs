//! BalancedResourceAllocation: nodes whose CPU and memory are used in equal shares.

use crate::priorities::room::{Use, uses};
use crate::priorities::{MAX_PRIORITY, OldRelease, Priority, Raw, Subject};

/// Prefers nodes of which pods request the same fraction of CPU and of memory:
/// `10 - |cpuFraction - memoryFraction| * 10`, truncated; 0 if either is full. There is no reduce step.
///
/// The same from 1.2 to 1.16, except that 1.10 and later compute `(1 - difference) * 10`, which can
/// round to another whole number if the difference is a multiple of a tenth.
#[derive(Clone, Copy, Debug)]
pub struct BalancedResourceAllocation(pub OldRelease);

impl Priority for BalancedResourceAllocation {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        uses(subject).map(|node| Raw(balance(node.cpu, node.memory, self.0))).collect()
    }
}

/// The points of a node. As in balanced_resource_allocation.go, calculateBalancedResourceAllocation.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the very rounding is what must be equal"
)]
pub fn balance(cpu: Use, memory: Use, release: OldRelease) -> i64 {
    let (cpu, memory) = (fraction(cpu), fraction(memory));
    if 1.0 <= cpu || 1.0 <= memory {
        return 0;
    }
    let most = MAX_PRIORITY as f64;
    let difference = (cpu - memory).abs();
    match release {
        OldRelease::V1_5 | OldRelease::Described => (most - difference * most) as i64,
        OldRelease::V1_16 => ((1.0 - difference) * most) as i64,
    }
}

/// The requested fraction; 1 for a resource that a node does not have.
#[expect(clippy::cast_precision_loss, reason = "as Go converts")]
fn fraction(of: Use) -> f64 {
    if of.capacity == 0 { 1.0 } else { of.requested as f64 / of.capacity as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    #[test]
    fn the_difference_of_the_fractions_costs_points() {
        let cases = [
            (Use::new(5, 10), Use::new(5, 10), 10),
            (Use::new(6, 10), Use::new(2, 10), 6),
            (Use::new(1, 4), Use::new(5, 10), 7),
            (Use::new(0, 4), Use::new(19, 20), 0),
            (Use::new(10, 10), Use::new(10, 10), 0),
            (Use::new(0, 0), Use::new(1, 10), 0),
        ];
        for (cpu, memory, points) in cases {
            assert_eq!(balance(cpu, memory, OldRelease::V1_5), points, "{cpu:?}, {memory:?}");
        }
    }

    #[test]
    fn a_node_that_the_pod_fills_to_the_brim_gets_nothing() {
        check(
            &BalancedResourceAllocation(OldRelease::Described),
            r#"
            node a {"allocatable": {"cpu": "4", "memory": "10Gi"}}
            node b {"allocatable": {"cpu": "10", "memory": "10Gi"}}
            node c {"allocatable": {"cpu": "1", "memory": "10Gi"}}
            pod p {"requests": {"cpu": "1", "memory": "5Gi"}}
            "#,
            &expect![[r#"
                a raw 7, 7 points
                b raw 6, 6 points
                c raw 0, 0 points
            "#]],
        );
    }
}
