//! Required terms: in which topology domains a pod may run.

use std::sync::Arc;

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::NamespaceStore;

use super::tally::{Counted, Rule, Tally};
use super::terms::{Incoming, all_speak_of, selects_by_labels, speaks_of};
use super::{AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY, InterPodAffinity};

impl CellFilter for InterPodAffinity {
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

    fn cells(&self, counts: &Counts, node: &Labels) -> Cells {
        let tallies = counts.tallies.iter().enumerate();
        tallies.map(|(term, tally)| Cell::new(term, tally.domain(node))).collect()
    }

    fn filter(&self, counts: &Counts, cell: Cell) -> Verdict {
        let tally = &counts.tallies[cell.term as usize];
        let met = tally.is_met_in(cell.domain as usize);
        // As in filtering.go, satisfyPodAffinity: the waiver asks for the topology label, too.
        let waived = cell.domain != 0 && counts.waives_affinity();
        match tally.rule {
            Rule::Affinity if !met && !waived => Verdict::unresolvable(AFFINITY),
            Rule::AntiAffinity if met => Verdict::unschedulable(ANTI_AFFINITY),
            Rule::ExistingAntiAffinity if met => Verdict::unschedulable(EXISTING_ANTI_AFFINITY),
            _ => Verdict::Pass,
        }
    }

    fn update(&self, counts: &mut Counts, change: PodChange<'_>, node: &Labels) -> Update {
        if counts.is_void() {
            return counts.wake(change.pod(), node);
        }
        counts.follow(change, node)
    }
}

/// How many pods meet the rules for one pod, by domain.
#[derive(Clone, Debug)]
pub struct Counts {
    subject: Arc<Subject>,
    /// In the order of their rules, which is that of the verdicts.
    tallies: Vec<Tally>,
    /// How many pods stand in the tallies of [`Rule::Affinity`] together.
    affinity: i32,
}

impl Counts {
    fn new(subject: Subject, nodes: NodesRef<'_, (Labels, Pods)>) -> Self {
        let subject = Arc::new(subject);
        let mut counts = Counts { subject: subject.clone(), tallies: Vec::new(), affinity: 0 };
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
                pods.iter().flat_map(|pod| subject.meets(pod)).for_each(&mut count);
            }
            let shunning = pods.with_required_anti_affinity().iter();
            shunning.flat_map(|pod| subject.is_shunned_by(pod)).for_each(&mut count);
        }
        counts
    }

    /// Keeps the counts exact after one pod came or left.
    fn follow(&mut self, change: PodChange<'_>, node: &Labels) -> Update {
        let subject = self.subject.clone();
        let waived = self.waives_affinity();
        let mut turned = Cells::new();
        let mut rebuild = false;
        for rule in subject.met_by(change.pod()) {
            let Some(value) = node.get(rule.1) else { continue };
            let at = self.tally(rule).unwrap_or_else(|| {
                // Other nodes may have this key, too, and their domains are not known here. They are
                // empty, so that this state is right all the same, but its cells are not.
                rebuild = true;
                self.push(Tally::new(rule, std::iter::once(node)))
            });
            match self.count(at, value, change.sign()) {
                Counted::Same => {}
                Counted::Turned { domain } => turned.push(Cell::new(at, domain)),
                Counted::NewDomain => rebuild = true,
            }
        }
        if rebuild || (!turned.is_empty() && self.falls_void()) {
            return Update::Rebuild;
        }
        let mut terms = SmallVec::new();
        if waived != self.waives_affinity() {
            let affinity = self.tallies.iter().filter(|tally| tally.rule == Rule::Affinity);
            terms.extend((0..).zip(affinity).map(|(term, _)| term));
        }
        if turned.is_empty() && terms.is_empty() {
            return Update::Same;
        }
        Update::Cells(turned, terms)
    }

    /// As in filtering.go, PreFilter: where no rule speaks of the pod the plugin is skipped, and is not
    /// told of pods that a what-if adds. So this state stays void, and asks to be made anew.
    fn wake(&self, pod: &PodInfo, node: &Labels) -> Update {
        let mut keys = self.subject.met_by(pod);
        let matters = keys.any(|(_, key)| node.contains_key(key));
        if matters { Update::Rebuild } else { Update::Same }
    }

    /// Whether every node passes, and would have been skipped in kube-scheduler.
    fn is_void(&self) -> bool {
        self.tallies.is_empty()
    }

    /// Whether a state made now would be void, though this one is not.
    fn falls_void(&self) -> bool {
        !self.subject.has_terms() && !self.tallies.iter().any(Tally::is_met)
    }

    /// Whether the pod may be the first of its kind.
    fn waives_affinity(&self) -> bool {
        self.subject.meets_own_affinity && self.affinity == 0
    }

    /// The tally of a rule for a topology key; a new one counts no pods yet.
    fn tally_among(&mut self, rule: (Rule, &Str), nodes: NodesRef<'_, (Labels, Pods)>) -> usize {
        let known = self.tally(rule);
        known.unwrap_or_else(|| self.push(Tally::new(rule, nodes.iter().map(|(labels, _)| labels))))
    }

    fn tally(&self, (rule, key): (Rule, &Str)) -> Option<usize> {
        self.tallies.iter().position(|tally| tally.rule == rule && tally.key == *key)
    }

    fn push(&mut self, tally: Tally) -> usize {
        self.tallies.push(tally);
        self.tallies.len() - 1
    }

    fn count(&mut self, tally: usize, value: &Str, by: i32) -> Counted {
        let tally = &mut self.tallies[tally];
        if tally.rule == Rule::Affinity {
            self.affinity += by;
        }
        tally.add(value, by)
    }
}

/// The pod that is being scheduled, and what its required terms ask of others.
#[derive(Debug)]
struct Subject {
    namespace: Str,
    namespace_labels: Labels,
    labels: Labels,
    affinity: Vec<AffinityTerm>,
    anti_affinity: Vec<AffinityTerm>,
    meets_own_affinity: bool,
    /// Empty unless a term of the pod selects namespaces by their labels.
    namespaces: NamespaceStore,
}

impl Subject {
    fn new(
        (affinity, namespace, labels): (&PodAffinity, &Str, &Labels),
        namespaces: &NamespaceStore,
    ) -> Self {
        let namespace_labels = namespaces.labels(namespace);
        let incoming = Incoming { namespace, namespace_labels, labels };
        let PodAffinity { required, required_anti, .. } = affinity;
        let reads_namespaces = required.iter().chain(required_anti).any(selects_by_labels);
        Subject {
            namespace: namespace.clone(),
            namespace_labels: namespace_labels.clone(),
            labels: labels.clone(),
            affinity: required.clone(),
            anti_affinity: required_anti.clone(),
            meets_own_affinity: required.iter().all(|term| incoming.is_meant_by(term)),
            namespaces: if reads_namespaces {
                namespaces.clone()
            } else {
                NamespaceStore::default()
            },
        }
    }

    fn has_terms(&self) -> bool {
        !self.affinity.is_empty() || !self.anti_affinity.is_empty()
    }

    /// The rules that the terms of the pod make, with their topology keys, in the order of verdicts.
    fn own_rules(&self) -> impl Iterator<Item = (Rule, &Str)> {
        let affinity = self.affinity.iter().map(|term| (Rule::Affinity, &term.topology_key));
        let anti = self.anti_affinity.iter().map(|term| (Rule::AntiAffinity, &term.topology_key));
        affinity.chain(anti)
    }

    /// The rules that `other` meets, with their topology keys.
    fn met_by<'a>(&'a self, other: &'a PodInfo) -> impl Iterator<Item = (Rule, &'a Str)> {
        self.meets(other).chain(self.is_shunned_by(other))
    }

    /// Those that the terms of the pod make. As in filtering.go, updateWithAffinityTerms, a pod counts
    /// for affinity if it meets all terms, and then for each.
    fn meets<'a>(&'a self, other: &'a PodInfo) -> impl Iterator<Item = (Rule, &'a Str)> {
        let wanted = all_speak_of(&self.affinity, other, &self.namespaces);
        let affinity = self.affinity.iter().filter(move |_| wanted);
        let shunned = |term: &&AffinityTerm| speaks_of(term, other, &self.namespaces);
        let anti = self.anti_affinity.iter().filter(shunned);
        affinity
            .map(|term| (Rule::Affinity, &term.topology_key))
            .chain(anti.map(|term| (Rule::AntiAffinity, &term.topology_key)))
    }

    /// Those that the terms of `other` make.
    fn is_shunned_by<'a>(&'a self, other: &'a PodInfo) -> impl Iterator<Item = (Rule, &'a Str)> {
        let incoming = self.incoming();
        let terms = other.affinity.required_anti.iter();
        terms
            .filter(move |term| incoming.is_meant_by(term))
            .map(|term| (Rule::ExistingAntiAffinity, &term.topology_key))
    }

    fn incoming(&self) -> Incoming<'_> {
        let Subject { namespace, namespace_labels, labels, .. } = self;
        Incoming { namespace, namespace_labels, labels }
    }
}
