//! MostRequestedPriority: nodes with few free resources.

use crate::priorities::room::{Use, average};
use crate::priorities::{MAX_PRIORITY, Priority, Raw, Subject};

/// Prefers nodes of which much is requested, so that others stay empty and can be removed:
/// `requested * 10 / capacity` in whole numbers, the mean of CPU and memory, again whole. The same from
/// 1.2 to 1.16. There is no reduce step.
#[derive(Clone, Copy, Debug)]
pub struct MostRequested;

impl Priority for MostRequested {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        average(subject, used)
    }
}

/// The points of one resource; 0 if the node has none of it, or less than is requested. As in
/// most_requested.go, calculateUsedScore.
pub fn used(of: Use) -> i64 {
    if of.capacity == 0 || of.capacity < of.requested {
        return 0;
    }
    of.share(of.requested, MAX_PRIORITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    #[test]
    fn a_resource_gives_whole_points_for_what_is_used() {
        let cases = [(0, 4000, 0), (1000, 4000, 2), (4000, 4000, 10), (9, 4, 0), (0, 0, 0)];
        for (requested, capacity, points) in cases {
            assert_eq!(used(Use::new(requested, capacity)), points, "{requested} of {capacity}");
        }
    }

    #[test]
    fn cpu_and_memory_count_alike() {
        check(
            &MostRequested,
            r#"
            node a {"allocatable": {"cpu": "4", "memory": "10Gi"}}
            node b {"allocatable": {"cpu": "4", "memory": "10Gi"}}
            pod x on b {"requests": {"cpu": "2", "memory": "4Gi"}}
            pod p {"requests": {"cpu": "1", "memory": "5Gi"}}
            "#,
            &expect![[r#"
                a raw 3, 3 points
                b raw 8, 8 points
            "#]],
        );
    }
}
