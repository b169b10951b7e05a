//! Checks topology spread constraints.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{Node, Pod, PodKey, SpreadConstraint, Str, WhenUnsatisfiable};

use super::ObservedCluster;
use super::feasible::tolerates;
use super::scores::value;

/// The label whose value is different on every node.
const HOSTNAME: &str = "kubernetes.io/hostname";

impl ObservedCluster {
    pub(super) fn evenly_spread(
        &self,
        pod: &Pod,
        node: &Node,
        without: &BTreeSet<PodKey>,
    ) -> Result<(), String> {
        let is_hard =
            |one: &&SpreadConstraint| one.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
        let hard: Vec<_> = pod.spread.iter().filter(is_hard).collect();
        for constraint in &hard {
            let key = &constraint.topology_key;
            let domain = node.labels.get(key).ok_or_else(|| format!("the node has no {key}"))?;
            let counts = self.counts(pod, constraint, &hard, without);
            let n_domains = i64::try_from(counts.len()).unwrap_or(i64::MAX);
            let least = match counts.values().min() {
                Some(least) if i64::from(constraint.min_domains) <= n_domains => *least,
                _ => 0,
            };
            let own = i64::from(constraint.selector.matches(&pod.labels));
            let skew = counts.get(domain).copied().unwrap_or(0) + own - least;
            if i64::from(constraint.max_skew) < skew {
                return Err(format!("its skew over {key} would be {skew}"));
            }
        }
        Ok(())
    }

    /// The score of each node by the `ScheduleAnyway` constraints.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the rule is one of floating point, rounded to whole numbers"
    )]
    pub(super) fn evenness(&self, pod: &Pod, feasible: &[&Node]) -> Vec<i64> {
        let is_soft =
            |one: &&SpreadConstraint| one.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway;
        let soft: Vec<_> = pod.spread.iter().filter(is_soft).collect();
        let has_all =
            |node: &Node| soft.iter().all(|one| node.labels.contains_key(&one.topology_key));
        if soft.is_empty() {
            return vec![0; feasible.len()];
        }
        let raw = |node: &&Node| {
            let of = |one: &&SpreadConstraint| {
                let key = &one.topology_key;
                let ranked = feasible.iter().filter(|node| has_all(node));
                let in_domain = |other: &&Node| match key.as_str() {
                    HOSTNAME => other.name == node.name,
                    _ => {
                        value(&other.labels, key) == value(&node.labels, key)
                            && takes_part(pod, one, &soft, other)
                    }
                };
                let domains = match key.as_str() {
                    HOSTNAME => ranked.count(),
                    _ => ranked.map(|node| value(&node.labels, key)).collect::<BTreeSet<_>>().len(),
                };
                let nodes = self.nodes.values().filter(in_domain);
                let count: usize = nodes.map(|node| self.counted_on(pod, one, node)).sum();
                count as f64 * ((domains + 2) as f64).ln() + f64::from(one.max_skew - 1)
            };
            has_all(node).then(|| soft.iter().map(of).sum::<f64>().round() as i64)
        };
        let raw: Vec<Option<i64>> = feasible.iter().map(raw).collect();
        let least = raw.iter().flatten().min().copied().unwrap_or(0);
        let most = raw.iter().flatten().max().copied().unwrap_or(0);
        let share = |one: &Option<i64>| match one {
            None => 0,
            Some(_) if most == 0 => 100,
            Some(one) => 100 * (most + least - one) / most,
        };
        raw.iter().map(share).collect()
    }

    /// How many pods on a node a constraint counts.
    fn counted_on(&self, pod: &Pod, constraint: &SpreadConstraint, node: &Node) -> usize {
        self.pods_on(&node.name).filter(|other| is_counted(pod, constraint, other)).count()
    }

    /// The number of pods that a constraint counts in each eligible domain.
    fn counts(
        &self,
        pod: &Pod,
        constraint: &SpreadConstraint,
        all: &[&SpreadConstraint],
        without: &BTreeSet<PodKey>,
    ) -> BTreeMap<Str, i64> {
        let mut counts = BTreeMap::new();
        for node in self.nodes.values().filter(|node| takes_part(pod, constraint, all, node)) {
            let Some(domain) = node.labels.get(&constraint.topology_key) else { continue };
            let counted = self.pods_on(&node.name).filter(|other| {
                !without.contains(&other.key) && is_counted(pod, constraint, other)
            });
            let counted = i64::try_from(counted.count()).unwrap_or(i64::MAX);
            *counts.entry(domain.clone()).or_insert(0) += counted;
        }
        counts
    }
}

/// Whether a node is eligible: it has the keys of all constraints, and the policies of this one include
/// it.
fn takes_part(
    pod: &Pod,
    constraint: &SpreadConstraint,
    all: &[&SpreadConstraint],
    node: &Node,
) -> bool {
    all.iter().all(|one| node.labels.contains_key(&one.topology_key))
        && (!constraint.honor_node_affinity || pod.node_selection.matches(&node.name, &node.labels))
        && (!constraint.honor_node_taints || tolerates(pod, node))
}

/// Whether a constraint counts a pod: not if it is being deleted. As in kube-scheduler, an empty
/// selector counts no pod.
fn is_counted(pod: &Pod, constraint: &SpreadConstraint, other: &Pod) -> bool {
    other.key != pod.key
        && !other.is_terminating()
        && other.key.namespace == pod.key.namespace
        && !constraint.selector.is_everything()
        && constraint.selector.matches(&other.labels)
}
