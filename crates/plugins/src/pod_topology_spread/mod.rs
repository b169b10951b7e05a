//! PodTopologySpread: spreads replicas evenly over zones, hosts, or the values of any node label.
//!
//! `args` has the args, `spreading` the constraints of one pod and which pods they count, `domains` the
//! values of a topology key, and `default_selector` the selector of default constraints. `filter` has
//! the hard constraints, `score` the soft ones, and `requeue` says when to try a rejected pod again.

mod args;
mod by_domain;
mod default_selector;
mod domains;
#[cfg(test)]
mod examples;
mod filter;
mod requeue;
mod score;
mod spreading;

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::SelectingStore;

use crate::place_labels::ZONE;
pub use args::{DefaultConstraint, PodTopologySpreadArgs};
pub(crate) use default_selector::default_selector;
use spreading::SpreadConstraints;

/// The label whose value is different on every node.
const HOSTNAME_KEY: &str = "kubernetes.io/hostname";

/// Rejects nodes on which the pod would make the distribution less even than its constraints allow, and
/// prefers nodes in domains with fewer of the counted pods.
///
/// Why: replicas in the same zone or on the same host fail together.
///
/// For example, with `maxSkew: 1`, `topologyKey: topology.kubernetes.io/zone` and pods that the
/// selector matches in zones a: 2, b: 1, c: 1, a `DoNotSchedule` constraint rejects the nodes of zone
/// a, since 3 - 1 is more than 1; a `ScheduleAnyway` constraint gives them a lower score.
///
/// A pod without constraints gets the default ones of the profile, with a selector derived from the
/// Services and the controller that select the pod. A pod that none of these select is not restricted.
///
/// As in kube-scheduler, two things are surprising. A selector that matches every pod counts none. A
/// terminating pod is not counted, but a preemption that would evict it subtracts it.
#[derive(Debug)]
pub struct PodTopologySpread {
    /// The constraints for pods without any. The selectors are empty and set for each pod.
    defaults: Vec<SpreadConstraint>,
    /// Whether `defaults` are the built-in ones. Unlike others, these also score nodes that lack one of
    /// the keys.
    system_defaulted: bool,
    /// Whether tolerations may compare.
    comparisons: Comparisons,
    /// Whether `matchLabelKeys` of pods count (`MatchLabelKeysInPodTopologySpread`). If the API server
    /// has merged them into the selector, they count in any case.
    label_keys: bool,
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<PodTopologySpread>()
        .pre_filter()
        .filter_by_counts()
        .pre_score()
        .score_by_counts()
        .requeue()
        .shows_args()
        .done()
}

impl Plugin for PodTopologySpread {
    const NAME: &'static str = "PodTopologySpread";
    type Args = PodTopologySpreadArgs;
    fn new(args: PodTopologySpreadArgs, gates: &FeatureGates) -> Self {
        let comparisons = Comparisons::from_gate(gates.enabled(Comparisons::GATE, false));
        let label_keys = gates.enabled("MatchLabelKeysInPodTopologySpread", true);
        let (defaults, system_defaulted) = match args.defaulting_type.as_str() {
            args::LIST => (args.default_constraints.into_iter().map(Into::into).collect(), false),
            _ => (system_defaults(), true),
        };
        PodTopologySpread { defaults, system_defaulted, comparisons, label_keys }
    }

    fn complete(args: &mut PodTopologySpreadArgs, _: &FeatureGates) {
        args.complete();
    }

    fn validate(args: &PodTopologySpreadArgs, _: &FeatureGates, faults: &mut ArgsFaults) {
        args.validate(faults);
    }
}

/// As in plugin.go, systemDefaultConstraints.
fn system_defaults() -> Vec<SpreadConstraint> {
    let over = |topology_key: &str, max_skew| SpreadConstraint {
        max_skew,
        topology_key: topology_key.into(),
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        selector: Selector::default(),
        without_label_keys: None,
        min_domains: 1,
        honor_node_affinity: true,
        honor_node_taints: false,
    };
    vec![over(HOSTNAME_KEY, 3), over(ZONE, 5)]
}

/// The parts of the pod that filter, score and hints read.
type PodParts = (Spread, PodNamespace, Labels, NodeSelection, Tolerations, Owner);

impl PodTopologySpread {
    /// Whether these constraints of a pod apply without changes.
    fn as_they_are(&self, own: &[SpreadConstraint]) -> bool {
        !own.is_empty()
            && (self.label_keys || own.iter().all(|one| one.without_label_keys.is_none()))
    }

    /// Removes the requirements of label keys from a constraint of a pod, unless they count.
    fn read_label_keys(&self, constraint: &mut SpreadConstraint) {
        if let Some(without) = constraint.without_label_keys.take()
            && !self.label_keys
        {
            constraint.selector = *without;
        }
    }

    /// Whether the pod may have constraints of kind `when`. The default ones also need a selector,
    /// which requires reading the cluster.
    fn may_spread(&self, pod: Ref<'_, PodParts>, when: WhenUnsatisfiable) -> bool {
        let constraints = if pod.0.is_empty() { &self.defaults } else { pod.0 };
        constraints.iter().any(|one| one.when_unsatisfiable == when)
    }

    /// The constraints of kind `when` that apply to the pod, its own or the default ones. `None` if
    /// there are none.
    fn spreading(
        &self,
        pod: Ref<'_, PodParts>,
        objects: SelectingStore<'_>,
        when: WhenUnsatisfiable,
    ) -> Option<SpreadConstraints> {
        if !self.may_spread(pod, when) {
            return None;
        }
        let (own, namespace, labels, selection, tolerations, owner) = pod;
        let of_kind = |all: &[SpreadConstraint]| -> Vec<SpreadConstraint> {
            all.iter().filter(|one| one.when_unsatisfiable == when).cloned().collect()
        };
        let constraints = if own.is_empty() {
            let selector = default_selector(namespace, labels, owner, objects);
            if selector.is_everything() {
                return None;
            }
            let mut constraints = of_kind(&self.defaults);
            for constraint in &mut constraints {
                constraint.selector = selector.clone();
            }
            constraints
        } else {
            let mut constraints = of_kind(own);
            for one in &mut constraints {
                self.read_label_keys(one);
            }
            constraints
        };
        Some(SpreadConstraints::new(
            constraints,
            namespace,
            selection,
            tolerations,
            self.comparisons,
        ))
    }
}
