//! TaintTolerationPriority: nodes without taints that ask to avoid them.

use plimsoll_api::{Comparisons, Effect, Taint, Toleration};

use crate::priorities::share::{self, Reckoning};
use crate::priorities::{Points, Priority, Raw, Subject};

/// Prefers nodes with few taints `PreferNoSchedule` that the pod does not tolerate. The map step counts
/// them; the reduce step subtracts the fraction of the highest count from 10.
///
/// As in 1.16, where the fraction is a whole number of points: 1 of 3 such taints gives 10 - 3 = 7
/// points. Before 1.9 `(1 - 1/3) * 10` was truncated to 6.
#[derive(Clone, Copy, Debug)]
pub struct TaintToleration(pub Reckoning);

impl Priority for TaintToleration {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let tolerations = &subject.pod.tolerations;
        subject.nodes().map(|node| Raw(intolerable(&node.taints, tolerations))).collect()
    }

    fn reduce(&self, _: &Subject<'_>, raw: &[Raw]) -> Vec<Points> {
        share::of_max_reversed(raw, self.0)
    }
}

/// How many `PreferNoSchedule` taints are not tolerated. As in taint_toleration.go,
/// countIntolerableTaintsPreferNoSchedule. These releases had no tolerations that compare numbers.
fn intolerable(taints: &[Taint], tolerations: &[Toleration]) -> i64 {
    let counts = |taint: &&Taint| {
        taint.effect == Effect::PreferNoSchedule
            && !tolerations.iter().any(|toleration| toleration.tolerates(taint, Comparisons::Off))
    };
    i64::try_from(taints.iter().filter(counts).count()).expect("a node has few taints")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    #[test]
    fn taints_that_are_not_tolerated_cost_their_share_of_the_most() {
        check(
            &TaintToleration(Reckoning::Whole),
            r#"
            node a
            node b {"taints": [{"key": "x", "effect": "PreferNoSchedule"},
                               {"key": "ok", "effect": "PreferNoSchedule"}]}
            node c {"taints": [{"key": "x", "effect": "PreferNoSchedule"},
                               {"key": "y", "effect": "PreferNoSchedule"},
                               {"key": "z", "effect": "PreferNoSchedule"}]}
            node d {"taints": [{"key": "x", "effect": "NoSchedule"}]}
            pod p {"tolerations": [{"key": "ok", "operator": "Exists"}]}
            "#,
            &expect![[r#"
                a raw 0, 10 points
                b raw 1, 7 points
                c raw 3, 0 points
                d raw 0, 10 points
            "#]],
        );
    }
}
