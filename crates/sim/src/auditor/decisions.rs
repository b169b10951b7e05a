//! Checks decisions of the default profile: which nodes are the best, whether none is feasible, and
//! whether preemption could have made room.

use std::collections::BTreeSet;

use plimsoll_api::{Node, Pod, PodKey, PreemptionPolicy, SpreadConstraint, Str, WhenUnsatisfiable};
use plimsoll_framework::Nomination;

use super::ObservedCluster;

impl ObservedCluster {
    /// Whether the auditor can check the whole decision about a pod. It does not cover volume binding,
    /// claims on devices, groups of pods, default constraints because of a Service or controller, resources reserved for
    /// nominated pods, and ports that several pods use at once.
    pub(super) fn is_reckoned(&self, pod: &Pod) -> bool {
        let has_defaults = pod.spread.is_empty() && self.n_selecting != 0;
        let waits = |other: &Pod| other.node_name.is_none() && other.nominated_node.is_some();
        let none_is_nominated = self.cleared.is_empty() && !self.pods.values().any(waits);
        let is_plain = pod.volumes.is_empty()
            && self.shared_ports.is_empty()
            && !self.devices.are_claimed_by(pod)
            && !self.is_member(pod);
        is_plain && !has_defaults && none_is_nominated
    }

    /// The nodes on which a pod may be placed.
    fn takers(&self, pod: &Pod) -> Vec<&Node> {
        let none = BTreeSet::new();
        let takes = |node: &&Node| self.feasible(pod, &node.name, &none).is_ok();
        self.nodes.values().filter(takes).collect()
    }

    /// Whether these are the best nodes for a pod.
    pub(super) fn are_best(&self, pod: &Pod, best: &[Str]) -> Result<(), String> {
        let expected = self.best(pod, &self.takers(pod));
        if expected == best {
            return Ok(());
        }
        Err(format!("[{}] are the best, and not [{}]", expected.join(" "), best.join(" ")))
    }

    /// Whether no node is feasible for a pod.
    pub(super) fn has_nowhere_to_go(&self, pod: &Pod) -> Result<(), String> {
        match self.takers(pod).first() {
            Some(node) => Err(format!("{} would take it", node.name)),
            None => Ok(()),
        }
    }

    /// Whether each victim is needed. Pods of groups may leave with others.
    pub(super) fn is_frugal(&self, pod: &Pod, nomination: &Nomination) -> Result<(), String> {
        if !is_helped_by_any_eviction(pod) || self.has_placed_members() {
            return Ok(());
        }
        for victim in &nomination.victims {
            let mut others: BTreeSet<PodKey> = nomination.victims.iter().cloned().collect();
            others.remove(victim);
            if self.feasible(pod, &nomination.node, &others).is_ok() {
                return Err(format!("{victim} need not go"));
            }
        }
        Ok(())
    }

    /// Whether no evictions could make room for a pod.
    pub(super) fn has_no_victims(&self, pod: &Pod) -> Result<(), String> {
        let may_evict = pod.preemption_policy != PreemptionPolicy::Never && !self.are_spared;
        if !may_evict || !is_helped_by_any_eviction(pod) || self.has_placed_members() {
            return Ok(());
        }
        for node in self.nodes.keys() {
            let lower = self.pods_on(node).filter(|other| other.priority < pod.priority);
            let lower: Vec<&Pod> = lower.collect();
            let victims = lower.iter().map(|other| other.key.clone()).collect();
            let is_going = lower.iter().any(|other| other.is_terminating());
            if !lower.is_empty() && !is_going && self.feasible(pod, node, &victims).is_ok() {
                return Err(format!("evictions would make room on {node}"));
            }
        }
        Ok(())
    }
}

/// Whether fewer other pods are always better for a pod: it has no required affinity, and counts no
/// pods.
pub(super) fn is_helped_by_any_eviction(pod: &Pod) -> bool {
    let is_hard =
        |one: &SpreadConstraint| one.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
    pod.affinity.required.is_empty() && !pod.spread.iter().any(is_hard)
}
