//! LeastRequestedPriority: nodes with many free resources.

use crate::priorities::room::{Use, average};
use crate::priorities::{MAX_PRIORITY, Priority, Raw, Subject};

/// Prefers nodes of which little is requested: `(capacity - requested) * 10 / capacity` in whole
/// numbers, the mean of CPU and memory, again whole. The same from 1.0 to 1.16. There is no reduce
/// step.
///
/// On a node with 4 cores and 10 GiB of which pods ask for 1 core and 5 GiB, CPU gives 7 (of 7.5),
/// memory 5, and both together 6.
#[derive(Clone, Copy, Debug)]
pub struct LeastRequested;

impl Priority for LeastRequested {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        average(subject, unused)
    }
}

/// The points of one resource; 0 if the node has none of it, or less than is requested. As in
/// least_requested.go, calculateUnusedScore.
pub fn unused(of: Use) -> i64 {
    if of.capacity == 0 || of.capacity < of.requested {
        return 0;
    }
    of.share(of.free(), MAX_PRIORITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    #[test]
    fn a_resource_gives_whole_points_for_what_is_unused() {
        let cases =
            [(0, 4000, 10), (1000, 4000, 7), (5, 10, 5), (4000, 4000, 0), (9, 4, 0), (0, 0, 0)];
        for (requested, capacity, points) in cases {
            assert_eq!(unused(Use::new(requested, capacity)), points, "{requested} of {capacity}");
        }
    }

    #[test]
    fn cpu_and_memory_count_alike_and_the_pod_counts_as_if_it_were_there() {
        check(
            &LeastRequested,
            r#"
            node a {"allocatable": {"cpu": "4", "memory": "10Gi"}}
            node b {"allocatable": {"cpu": "4", "memory": "10Gi"}}
            pod x on b {"requests": {"cpu": "3", "memory": "5Gi"}}
            pod p {"requests": {"cpu": "1", "memory": "5Gi"}}
            "#,
            &expect![[r#"
                a raw 6, 6 points
                b raw 0, 0 points
            "#]],
        );
    }

    #[test]
    fn a_container_that_asks_for_nothing_counts_with_a_tenth_of_a_core_and_200_mib() {
        check(
            &LeastRequested,
            r#"
            node a {"allocatable": {"cpu": "1", "memory": "2000Mi"}}
            node b {"allocatable": {"cpu": "200m", "memory": "400Mi"}}
            pod x on a {}
            pod p {}
            "#,
            &expect![[r#"
                a raw 8, 8 points
                b raw 5, 5 points
            "#]],
        );
    }
}
