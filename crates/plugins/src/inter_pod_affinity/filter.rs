//! Required terms: in which topology domains a pod may run.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::NamespaceStore;

use super::subject::Subject;
use super::tally::{Rule, Tally};
use super::{AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY, InterPodAffinity};

impl PreFilter for InterPodAffinity {
    type Pod = (PodAffinity, PodNamespace, Labels);
    type Node = Labels;
    type Cluster = (Nodes<(Labels, Pods)>, Namespaces);
    type State = Counts;

    fn pre_filter(
        &self,
        pod: (&PodAffinity, &Str, &Labels),
        (nodes, namespaces): (NodesRef<'_, (Labels, Pods)>, &NamespaceStore),
    ) -> Result<Option<Counts>, Rejection> {
        Ok(Some(Counts::new(Subject::new(pod, namespaces), nodes)))
    }

    fn filter(&self, counts: &Counts, node: &Labels) -> Verdict {
        let verdicts = counts.tallies.iter().map(|tally| counts.verdict(tally, node));
        verdicts.into_iter().find(|verdict| !verdict.passes()).unwrap_or(Verdict::Pass)
    }

    fn update(&self, counts: &mut Counts, change: PodChange<'_>, node: &Labels) -> Update {
        if counts.is_void() {
            return counts.wake(change.pod(), node);
        }
        counts.follow(change, node)
    }
}

/// How many pods match the rules for one pod, by domain.
#[derive(Clone, Debug)]
pub struct Counts {
    subject: Arc<Subject>,
    /// In the order of their rules, which is that of the verdicts.
    tallies: Vec<Tally>,
    /// The index of each tally, if there are more than [`FEW`].
    places: Arc<BTreeMap<(Rule, Str), usize>>,
    /// The sum of all tallies of [`Rule::Affinity`].
    affinity: i64,
}

/// Up to this many tallies a linear search is fastest. Pods may have tens of thousands of terms.
const FEW: usize = 16;

impl Counts {
    fn new(subject: Subject, nodes: NodesRef<'_, (Labels, Pods)>) -> Self {
        let subject = Arc::new(subject);
        let (tallies, places) = (Vec::new(), Arc::default());
        let mut counts = Counts { subject: subject.clone(), tallies, places, affinity: 0 };
        for rule in subject.own_rules() {
            counts.tally_among(rule, nodes);
        }
        for (node, pods) in nodes.iter() {
            let mut count = |rule: (Rule, &Str)| {
                let Some(value) = node.get(rule.1) else { return };
                let tally = counts.tally_among(rule, nodes);
                counts.count(tally, value, 1);
            };
            if subject.has_terms() {
                pods.iter()
                    .flat_map(|pod| subject.meets(Neighbour::from(&**pod)))
                    .for_each(&mut count);
            }
            let shunning = pods.with_required_anti_affinity().iter();
            shunning
                .flat_map(|pod| subject.is_shunned_by(Neighbour::from(&**pod)))
                .for_each(&mut count);
        }
        counts
    }

    /// The verdict of one rule on a node.
    fn verdict(&self, tally: &Tally, node: &Labels) -> Verdict {
        let value = node.get(&tally.key);
        let met = value.is_some_and(|value| tally.is_met_in(value));
        // As in filtering.go, satisfyPodAffinity: the waiver also requires the topology label.
        let waived = value.is_some() && self.waives_affinity();
        match tally.rule {
            Rule::Affinity if !met && !waived => Verdict::unresolvable(AFFINITY),
            Rule::AntiAffinity if met => Verdict::unschedulable(ANTI_AFFINITY),
            Rule::ExistingAntiAffinity if met => Verdict::unschedulable(EXISTING_ANTI_AFFINITY),
            _ => Verdict::Pass,
        }
    }

    /// Updates the counts after a pod was added or removed.
    fn follow(&mut self, change: PodChange<'_>, node: &Labels) -> Update {
        let subject = self.subject.clone();
        for rule in subject.met_by(Neighbour::from(&**change.pod())) {
            let Some(value) = node.get(rule.1) else { continue };
            // A new tally does not know the domains of other nodes, but they are empty.
            let known = self.tally(rule);
            let at = known.unwrap_or_else(|| self.push(Tally::new(rule, std::iter::once(node))));
            self.count(at, value, i64::from(change.sign()));
        }
        if self.falls_void() { Update::Rebuild } else { Update::Exact }
    }

    /// As in filtering.go, PreFilter: if no rule concerns the pod, the plugin is skipped, and it is not
    /// updated with pods that a dry run adds. So this state stays void, and must be computed anew.
    fn wake(&self, pod: &PodInfo, node: &Labels) -> Update {
        let mut keys = self.subject.met_by(Neighbour::from(&**pod));
        let matters = keys.any(|(_, key)| node.contains_key(key));
        if matters { Update::Rebuild } else { Update::Exact }
    }

    /// Whether every node passes, and would have been skipped in kube-scheduler.
    fn is_void(&self) -> bool {
        self.tallies.is_empty()
    }

    /// Whether a state computed now would be void although this one is not.
    fn falls_void(&self) -> bool {
        !self.subject.has_terms() && !self.tallies.iter().any(Tally::is_met)
    }

    /// Whether the pod may be the first that its affinity terms match.
    fn waives_affinity(&self) -> bool {
        self.subject.meets_own_affinity && self.affinity == 0
    }

    /// The tally of a rule for a topology key; a new one counts no pods yet.
    fn tally_among(&mut self, rule: (Rule, &Str), nodes: NodesRef<'_, (Labels, Pods)>) -> usize {
        let known = self.tally(rule);
        known.unwrap_or_else(|| self.push(Tally::new(rule, nodes.iter().map(|(labels, _)| labels))))
    }

    fn tally(&self, (rule, key): (Rule, &Str)) -> Option<usize> {
        if FEW < self.tallies.len() {
            return self.places.get(&(rule, key.clone())).copied();
        }
        self.tallies.iter().position(|tally| tally.rule == rule && tally.key == *key)
    }

    fn push(&mut self, tally: Tally) -> usize {
        self.tallies.push(tally);
        let n = self.tallies.len();
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
            for (at, tally) in self.tallies.iter().enumerate().skip(new) {
                places.insert((tally.rule, tally.key.clone()), at);
            }
        }
        n - 1
    }

    fn count(&mut self, tally: usize, value: &Str, by: i64) {
        let tally = &mut self.tallies[tally];
        if tally.rule == Rule::Affinity {
            self.affinity += by;
        }
        tally.add(value, by);
    }
}
