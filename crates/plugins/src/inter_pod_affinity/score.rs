//! Preferred terms: which topology domains a pod prefers.

use std::collections::BTreeMap;

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::NamespaceStore;

use super::InterPodAffinity;
use super::by_domain::kept;
use super::terms::{Incoming, selects_by_labels, speaks_of};

impl PreScore for InterPodAffinity {
    type Pod = (PodAffinity, PodNamespace, Labels);
    type Node = Labels;
    type Cluster = (Nodes<(Labels, Pods)>, Namespaces);
    type State = DomainScores;

    /// As in scoring.go, PreScore: if the pod has preferred terms, those of others count in any case.
    fn applies(&self, (affinity, _, _): (&PodAffinity, &Str, &Labels)) -> bool {
        !self.0.ignore_preferred_terms_of_existing_pods || has_preferences(affinity)
    }

    fn pre_score(
        &self,
        (affinity, namespace, labels): (&PodAffinity, &Str, &Labels),
        _: Feasible<'_, Labels>,
        (nodes, namespaces): (NodesRef<'_, (Labels, Pods)>, &NamespaceStore),
    ) -> Option<DomainScores> {
        let namespace_labels = namespaces.labels(namespace);
        let incoming = Incoming { namespace, namespace_labels, labels };
        let mut scores = DomainScores::default();
        if !has_preferences(affinity) && !nodes.has_pods_with_affinity() {
            return None;
        }
        // Finding the domain of a node takes far longer than adding, so it is found once for all pods of the node.
        let mut sums = SumsByKey::default();
        for (node, pods) in nodes.iter() {
            if has_preferences(affinity) {
                for pod in pods.iter() {
                    let meant =
                        |term: &AffinityTerm| speaks_of(term, Neighbour::from(&**pod), namespaces);
                    sums.add_all(weights(affinity, 0, meant));
                }
            }
            for pod in pods.with_affinity() {
                let meant = |term: &AffinityTerm| incoming.is_meant_by(term);
                let hard = self.0.hard_pod_affinity_weight;
                sums.add_all(weights(&pod.affinity, hard, meant));
            }
            scores.add_all(sums.0.drain(..), node);
        }
        (!scores.0.is_empty()).then_some(scores)
    }

    fn score(&self, scores: &DomainScores, _: Row, node: &Labels) -> i64 {
        scores.of(node)
    }

    fn normalize(&self, _: &DomainScores, scores: &mut [Scored]) {
        normalize(scores);
    }
}

/// As in scoring.go, NormalizeScore: scaled between the lowest and the highest.
pub(super) fn normalize(scores: &mut [Scored]) {
    let raw = || scores.iter().map(|one| one.score);
    let (Some(min), Some(max)) = (raw().min(), raw().max()) else { return };
    for one in scores {
        one.score = share(one.score - min, max - min);
    }
}

/// The preferences of a pod, and its data for the terms of other pods.
pub(super) struct Preferences {
    affinity: PodAffinity,
    namespace: Str,
    namespace_labels: Labels,
    labels: Labels,
    /// Empty unless a term of the pod selects namespaces by their labels.
    namespaces: NamespaceStore,
    hard: i32,
}

impl Preferences {
    /// Those of one pod. `hard` is the weight of another pod's required term that speaks of it.
    pub(super) fn new(
        (affinity, namespace, labels): (&PodAffinity, &Str, &Labels),
        namespaces: &NamespaceStore,
        hard: i32,
    ) -> Self {
        let mut terms = affinity.preferred.iter().chain(&affinity.preferred_anti);
        let reads_namespaces = terms.any(|one| selects_by_labels(&one.term));
        Preferences {
            affinity: affinity.clone(),
            namespace: namespace.clone(),
            namespace_labels: namespaces.labels(namespace).clone(),
            labels: labels.clone(),
            namespaces: kept(namespaces, reads_namespaces),
            hard,
        }
    }

    /// Whether it prefers anything itself.
    pub(super) fn has_own(&self) -> bool {
        has_preferences(&self.affinity)
    }

    /// Its own terms.
    pub(super) fn own_terms(&self) -> impl Iterator<Item = &AffinityTerm> {
        let PodAffinity { preferred, preferred_anti, .. } = &self.affinity;
        preferred.iter().chain(preferred_anti).map(|one| &one.term)
    }

    /// Calls `add` with topology key and weight for each term that matches between the pod and `other`.
    /// Anti-affinity has a negative weight.
    pub(super) fn count(&self, other: Neighbour<'_>, mut add: impl FnMut(&Str, i64)) {
        if has_preferences(&self.affinity) {
            let meant = |term: &AffinityTerm| speaks_of(term, other, &self.namespaces);
            weights(&self.affinity, 0, meant).for_each(|(key, weight)| add(key, weight));
        }
        let Preferences { namespace, namespace_labels, labels, .. } = self;
        let incoming = Incoming { namespace, namespace_labels, labels };
        let meant = |term: &AffinityTerm| incoming.is_meant_by(term);
        weights(other.affinity, self.hard, meant).for_each(|(key, weight)| add(key, weight));
    }
}

/// Sums of weights by topology key. A key whose weights add up to 0 is present, too.
#[derive(Debug, Default)]
struct SumsByKey<'a>(Vec<(&'a Str, i64)>);

impl<'a> SumsByKey<'a> {
    fn add_all(&mut self, weights: impl Iterator<Item = (&'a Str, i64)>) {
        for (key, weight) in weights {
            match self.0.iter_mut().find(|(other, _)| *other == key) {
                Some((_, sum)) => *sum += weight,
                None => self.0.push((key, weight)),
            }
        }
    }
}

/// The scores of topology domains: by topology key, then by value. A key is present only if a term with
/// it has matched a pod in one of its domains.
#[derive(Clone, Debug, Default)]
pub struct DomainScores(Vec<(Str, BTreeMap<Str, i64>)>);

impl DomainScores {
    /// Adds weights to the domains of a node with these labels.
    fn add_all<'a>(&mut self, weights: impl Iterator<Item = (&'a Str, i64)>, node: &Labels) {
        for (key, weight) in weights {
            let Some(value) = node.get(key) else { continue };
            let domains = self.domains(key);
            match domains.get_mut(value) {
                Some(score) => *score += weight,
                None => drop(domains.insert(value.clone(), weight)),
            }
        }
    }

    fn domains(&mut self, key: &Str) -> &mut BTreeMap<Str, i64> {
        let known = self.0.iter().position(|(other, _)| other == key);
        let at = known.unwrap_or_else(|| {
            self.0.push((key.clone(), BTreeMap::new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// The sum of the scores of all domains of a node with these labels.
    fn of(&self, node: &Labels) -> i64 {
        let scores = self.0.iter().filter_map(|(key, domains)| domains.get(node.get(key)?));
        scores.sum()
    }
}

fn has_preferences(affinity: &PodAffinity) -> bool {
    !affinity.preferred.is_empty() || !affinity.preferred_anti.is_empty()
}

/// Topology key and weight of each term in `affinity` that counts and for which `meant` is true. A
/// required affinity term counts with weight `hard`, if that is not 0.
fn weights(
    affinity: &PodAffinity,
    hard: i32,
    meant: impl Fn(&AffinityTerm) -> bool,
) -> impl Iterator<Item = (&Str, i64)> {
    let required = if hard == 0 { &[] } else { affinity.required.as_slice() };
    let required = required.iter().map(move |term| (term, hard));
    let preferred = affinity.preferred.iter().map(|one| (&one.term, one.weight));
    let anti = affinity.preferred_anti.iter().map(|one| (&one.term, -one.weight));
    let all = required.chain(preferred).chain(anti);
    let counting = all.filter(move |(term, _)| meant(term));
    counting.map(|(term, weight)| (&term.topology_key, i64::from(weight)))
}

/// The score of a node that is `above` the lowest, if the highest is `range` above it. In floating
/// point and truncated, as in scoring.go, NormalizeScore.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "as Go converts; sums of weights are far below 2^52"
)]
fn share(above: i64, range: i64) -> i64 {
    if range == 0 {
        return 0;
    }
    (MAX_NODE_SCORE as f64 * (above as f64 / range as f64)) as i64
}
