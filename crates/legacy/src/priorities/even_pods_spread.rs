//! EvenPodsSpreadPriority: domains with few of the pods that the pod's soft spread constraints count.

use std::collections::BTreeMap;

use plimsoll_api::{Labels, SpreadConstraint, Str, WhenUnsatisfiable};

use crate::priorities::float::{cut_off, tenths};
use crate::priorities::{MAX_PRIORITY, Points, Priority, Raw, Subject};

/// Prefers nodes in domains with few pods, for each constraint that says `ScheduleAnyway`.
///
/// The map step adds up, over the constraints, the pods in the node's domain that the constraint
/// selects. The reduce step gives `10 * (total - sum) / (total - min)`, where `total` is the sum of all
/// feasible nodes' raw values and `min` the lowest. A node that lacks a topology key gets 0; a pod without such
/// constraints gives 0 everywhere.
///
/// As in 1.16, the only release before 1.17 that had it (in alpha): pods of all namespaces count,
/// including those that are being deleted, and `maxSkew` does not matter. Two constraints with the same
/// topology key count in one tally.
#[derive(Clone, Copy, Debug)]
pub struct EvenPodsSpread;

impl Priority for EvenPodsSpread {
    /// As in even_pods_spread.go, CalculateEvenPodsSpreadPriority.
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let constraints = soft(&subject.pod.spread);
        let mut domains: BTreeMap<(&Str, &Str), i64> = BTreeMap::new();
        for (node, pods) in subject.all_nodes() {
            let selected = subject.pod.node_selection.matches(&node.name, &node.labels);
            if !selected || !has_keys(&constraints, &node.labels) {
                continue;
            }
            for domain in domains_of(&constraints, &node.labels) {
                let (constraint, value) = domain;
                let counted = pods.iter().filter(|pod| constraint.selector.matches(&pod.labels));
                let count = i64::try_from(counted.count()).expect("a node holds few pods");
                *domains.entry((&constraint.topology_key, value)).or_default() += count;
            }
        }
        let raw = subject.labels().map(|labels| {
            if !has_keys(&constraints, labels) {
                return Raw(0);
            }
            let counts = domains_of(&constraints, labels).map(|(constraint, value)| {
                domains.get(&(&constraint.topology_key, value)).copied().unwrap_or(0)
            });
            Raw(counts.sum())
        });
        raw.collect()
    }

    fn reduce(&self, subject: &Subject<'_>, raw: &[Raw]) -> Vec<Points> {
        let constraints = soft(&subject.pod.spread);
        let ranked = subject.labels().map(|labels| has_keys(&constraints, labels));
        let sums: Vec<_> = raw.iter().zip(ranked).map(|(raw, is)| is.then_some(*raw)).collect();
        match constraints.as_slice() {
            [] => raw.iter().map(|_| Points(0)).collect(),
            _ => even(&sums),
        }
    }
}

/// The points for these sums; none for a node that lacks a key.
pub fn even(sums: &[Option<Raw>]) -> Vec<Points> {
    let ranked = || sums.iter().flatten().map(|raw| raw.0);
    let total: i64 = ranked().sum();
    let range = total - ranked().min().unwrap_or(0);
    let points = sums.iter().map(|sum| match sum {
        None => Points(0),
        Some(_) if range == 0 => Points(MAX_PRIORITY),
        Some(sum) => cut_off(tenths(total - sum.0, range)),
    });
    points.collect()
}

fn soft(constraints: &[SpreadConstraint]) -> Vec<&SpreadConstraint> {
    let is_soft =
        |one: &&SpreadConstraint| one.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway;
    constraints.iter().filter(is_soft).collect()
}

fn has_keys(constraints: &[&SpreadConstraint], labels: &Labels) -> bool {
    constraints.iter().all(|one| labels.contains_key(&one.topology_key))
}

/// Each constraint with the value of its key.
fn domains_of<'a>(
    constraints: &[&'a SpreadConstraint],
    labels: &'a Labels,
) -> impl Iterator<Item = (&'a SpreadConstraint, &'a Str)> {
    constraints.iter().filter_map(|&one| Some((one, labels.get(&one.topology_key)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    #[test]
    fn the_sum_of_all_nodes_less_the_own_is_compared_with_the_best() {
        check(
            &EvenPodsSpread,
            r#"
            node a zone=z1
            node b zone=z1
            node c zone=z2
            node d
            pod a1 app=web on a
            pod a2 app=web on a
            pod team-a/b1 app=web on b
            pod c1 app=web on c
            pod d1 app=web on d
            pod p app=web {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                 "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#,
            &expect![[r#"
                a raw 3, 6 points
                b raw 3, 6 points
                c raw 1, 10 points
                d raw 0, 0 points
            "#]],
        );
    }

    #[test]
    fn without_such_pods_every_node_with_the_keys_is_best() {
        assert_eq!(even(&[Some(Raw(0)), None]), [Points(10), Points(0)]);
    }

    #[test]
    fn a_pod_without_soft_constraints_gives_no_points() {
        check(
            &EvenPodsSpread,
            r#"
            node a zone=z1
            pod p {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}
            "#,
            &expect![[r#"
                a raw 0, 0 points
            "#]],
        );
    }
}
