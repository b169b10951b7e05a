//! Required terms: in which topology domains a pod may run.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::NamespaceStore;

use super::incoming_pod::IncomingPod;
use super::rule_counts::{AffinityRule, RuleCounts};
use super::{AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY, InterPodAffinity};

impl PreFilter for InterPodAffinity {
    type Pod = (PodAffinity, PodNamespace, Labels);
    type Node = Labels;
    type Cluster = (Nodes<(Labels, Pods)>, Namespaces);
    type State = AffinityCounts;

    fn pre_filter(
        &self,
        pod: (&PodAffinity, &Str, &Labels),
        (nodes, namespaces): (NodesRef<'_, (Labels, Pods)>, &NamespaceStore),
    ) -> Result<Option<AffinityCounts>, Rejection> {
        Ok(Some(AffinityCounts::new(IncomingPod::new(pod, namespaces), nodes)))
    }

    fn filter(&self, counts: &AffinityCounts, node: &Labels) -> Verdict {
        let verdicts = counts.rules.iter().map(|rule_counts| counts.verdict(rule_counts, node));
        verdicts.into_iter().find(|verdict| !verdict.passes()).unwrap_or(Verdict::Pass)
    }

    fn update(&self, counts: &mut AffinityCounts, change: PodChange<'_>, node: &Labels) -> Update {
        if counts.is_void() {
            return counts.wake(change.pod(), node);
        }
        counts.follow(change, node)
    }
}

/// How many pods match the rules for one pod, by domain.
#[derive(Clone, Debug)]
pub struct AffinityCounts {
    incoming: Arc<IncomingPod>,
    /// In the order of their rules, which is that of the verdicts.
    rules: Vec<RuleCounts>,
    /// The index of the counts of each rule, if there are more than [`FEW`].
    places: Arc<BTreeMap<(AffinityRule, Str), usize>>,
    /// The sum of all counts of [`AffinityRule::Affinity`].
    affinity: i64,
}

/// Up to this many rules a linear search is fastest. Pods may have tens of thousands of terms.
const FEW: usize = 16;

impl AffinityCounts {
    fn new(incoming: IncomingPod, nodes: NodesRef<'_, (Labels, Pods)>) -> Self {
        let incoming = Arc::new(incoming);
        let (rules, places) = (Vec::new(), Arc::default());
        let mut counts = AffinityCounts { incoming: incoming.clone(), rules, places, affinity: 0 };
        for rule in incoming.own_rules() {
            counts.find_or_add(rule, nodes);
        }
        // Most clusters have no pods with affinity, and their nodes need not be looked at.
        if !incoming.has_terms() && !nodes.has_pods_with_affinity() {
            return counts;
        }
        for (node, pods) in nodes.iter() {
            let mut count = |rule: (AffinityRule, &Str)| {
                let Some(value) = node.get(rule.1) else { return };
                let rule_counts = counts.find_or_add(rule, nodes);
                counts.count(rule_counts, value, 1);
            };
            if incoming.has_terms() {
                pods.iter()
                    .flat_map(|pod| incoming.meets(Neighbour::from(&**pod)))
                    .for_each(&mut count);
            }
            let shunning = pods.with_required_anti_affinity().iter();
            shunning
                .flat_map(|pod| incoming.is_shunned_by(Neighbour::from(&**pod)))
                .for_each(&mut count);
        }
        counts
    }

    /// The verdict of one rule on a node.
    fn verdict(&self, rule_counts: &RuleCounts, node: &Labels) -> Verdict {
        let value = node.get(&rule_counts.key);
        let met = value.is_some_and(|value| rule_counts.is_met_in(value));
        // As in filtering.go, satisfyPodAffinity: the waiver also requires the topology label.
        let waived = value.is_some() && self.waives_affinity();
        match rule_counts.rule {
            AffinityRule::Affinity if !met && !waived => Verdict::unresolvable(AFFINITY),
            AffinityRule::AntiAffinity if met => Verdict::unschedulable(ANTI_AFFINITY),
            AffinityRule::ExistingAntiAffinity if met => {
                Verdict::unschedulable(EXISTING_ANTI_AFFINITY)
            }
            _ => Verdict::Pass,
        }
    }

    /// Updates the counts after a pod was added or removed.
    fn follow(&mut self, change: PodChange<'_>, node: &Labels) -> Update {
        let incoming = self.incoming.clone();
        for rule in incoming.met_by(Neighbour::from(&**change.pod())) {
            let Some(value) = node.get(rule.1) else { continue };
            // New counts do not know the domains of other nodes, but they are empty.
            let known = self.find(rule);
            let at =
                known.unwrap_or_else(|| self.push(RuleCounts::new(rule, std::iter::once(node))));
            self.count(at, value, i64::from(change.sign()));
        }
        if self.falls_void() { Update::Rebuild } else { Update::Exact }
    }

    /// As in filtering.go, PreFilter: if no rule concerns the pod, the plugin is skipped, and it is not
    /// updated with pods that a dry run adds. So this state stays void, and must be computed anew.
    fn wake(&self, pod: &PodInfo, node: &Labels) -> Update {
        let mut keys = self.incoming.met_by(Neighbour::from(&**pod));
        let matters = keys.any(|(_, key)| node.contains_key(key));
        if matters { Update::Rebuild } else { Update::Exact }
    }

    /// Whether every node passes, and would have been skipped in kube-scheduler.
    fn is_void(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a state computed now would be void although this one is not.
    fn falls_void(&self) -> bool {
        !self.incoming.has_terms() && !self.rules.iter().any(RuleCounts::is_met)
    }

    /// Whether the pod may be the first that its affinity terms match.
    fn waives_affinity(&self) -> bool {
        self.incoming.meets_own_affinity && self.affinity == 0
    }

    /// The counts of a rule for a topology key; a new one counts no pods yet.
    fn find_or_add(
        &mut self,
        rule: (AffinityRule, &Str),
        nodes: NodesRef<'_, (Labels, Pods)>,
    ) -> usize {
        let known = self.find(rule);
        known.unwrap_or_else(|| {
            self.push(RuleCounts::new(rule, nodes.iter().map(|(labels, _)| labels)))
        })
    }

    fn find(&self, (rule, key): (AffinityRule, &Str)) -> Option<usize> {
        if FEW < self.rules.len() {
            return self.places.get(&(rule, key.clone())).copied();
        }
        self.rules
            .iter()
            .position(|rule_counts| rule_counts.rule == rule && rule_counts.key == *key)
    }

    fn push(&mut self, rule_counts: RuleCounts) -> usize {
        self.rules.push(rule_counts);
        let n = self.rules.len();
        // When there are too many for a linear search, the existing ones are indexed, too.
        let new = if n <= FEW {
            n
        } else if n == FEW + 1 {
            0
        } else {
            n - 1
        };
        if new < n {
            let places = Arc::make_mut(&mut self.places);
            for (at, rule_counts) in self.rules.iter().enumerate().skip(new) {
                places.insert((rule_counts.rule, rule_counts.key.clone()), at);
            }
        }
        n - 1
    }

    fn count(&mut self, rule_counts: usize, value: &Str, by: i64) {
        let rule_counts = &mut self.rules[rule_counts];
        if rule_counts.rule == AffinityRule::Affinity {
            self.affinity += by;
        }
        rule_counts.add(value, by);
    }
}
