//! Whether a pod may be on a node for the sake of an even spread.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{Node, Pod, PodKey, SpreadConstraint, Str, WhenUnsatisfiable};

use super::Known;
use super::feasible::tolerates;

impl Known {
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

    /// How many of the pods that a constraint counts are in each domain that takes part.
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
                other.key != pod.key
                    && !without.contains(&other.key)
                    && !other.is_terminating()
                    && other.key.namespace == pod.key.namespace
                    && constraint.selector.matches(&other.labels)
            });
            let counted = i64::try_from(counted.count()).unwrap_or(i64::MAX);
            *counts.entry(domain.clone()).or_insert(0) += counted;
        }
        counts
    }
}

/// Whether a node takes part: it has the keys of all constraints, and the policies of this one let it.
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
