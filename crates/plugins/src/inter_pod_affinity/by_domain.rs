//! The same rules, using the domain counts of the engine.

use plimsoll_framework::domains::MOST_TERMS;
use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::NamespaceStore;

use super::incoming_pod::IncomingPod;
use super::rule_counts::AffinityRule;
use super::score::{Preferences, normalize};
use super::{AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY, InterPodAffinity};

impl FilterByCounts for InterPodAffinity {
    type Objects = Namespaces;

    fn by_domain(
        &self,
        pod: (&PodAffinity, &Str, &Labels),
        namespaces: &NamespaceStore,
        neighbours: Neighbours<'_>,
    ) -> ByDomain<dyn DomainFilter> {
        ByDomain::Counts(Box::new(RequiredTerms::new(
            IncomingPod::new(pod, namespaces),
            neighbours,
        )))
    }
}

impl ScoreByCounts for InterPodAffinity {
    type Objects = Namespaces;

    fn by_domain(
        &self,
        pod: (&PodAffinity, &Str, &Labels),
        namespaces: &NamespaceStore,
        neighbours: Neighbours<'_>,
    ) -> ByDomain<dyn DomainScore> {
        let preferences = Preferences::new(pod, namespaces, self.0.hard_pod_affinity_weight);
        ByDomain::Counts(Box::new(Preferred::new(preferences, neighbours)))
    }
}

fn by_label(key: &Str) -> DomainTerm {
    DomainTerm { key: TopologyKey::Label(key.clone()), nodes: CountedNodes::default() }
}

/// The required terms of a pod, and those of others that speak of it: a term for each rule and
/// topology key.
struct RequiredTerms {
    incoming: IncomingPod,
    rules: Vec<AffinityRule>,
    terms: Vec<DomainTerm>,
}

impl RequiredTerms {
    fn new(incoming: IncomingPod, neighbours: Neighbours<'_>) -> Self {
        let mut rules: Vec<(AffinityRule, Str)> = Vec::new();
        let of_others = neighbours.iter().flat_map(|other| incoming.is_shunned_by(*other));
        for (rule, key) in incoming.own_rules().chain(of_others) {
            // Other pods may have tens of thousands of terms in total.
            if MOST_TERMS < rules.len() {
                break;
            }
            if !rules.iter().any(|known| known.0 == rule && known.1 == *key) {
                rules.push((rule, key.clone()));
            }
        }
        RequiredTerms {
            incoming,
            terms: rules.iter().map(|(_, key)| by_label(key)).collect(),
            rules: rules.into_iter().map(|(rule, _)| rule).collect(),
        }
    }

    fn term(&self, (rule, key): (AffinityRule, &Str)) -> Option<u32> {
        let is_same = |(other, term): (&AffinityRule, &DomainTerm)| {
            *other == rule && matches!(&term.key, TopologyKey::Label(other) if other == key)
        };
        let at = self.rules.iter().zip(&self.terms).position(is_same)?;
        Some(u32::try_from(at).expect("a pod has few terms"))
    }
}

impl DomainCounter for RequiredTerms {
    fn terms(&self) -> &[DomainTerm] {
        &self.terms
    }

    fn counts_plain_pods(&self) -> bool {
        self.incoming.has_terms()
    }

    fn plain_pod_selectors(&self) -> Option<Vec<&Selector>> {
        Some(self.incoming.selectors().collect())
    }

    fn count(&self, other: Neighbour<'_>) -> Option<Counting> {
        self.incoming.met_by(other).map(|rule| Some((self.term(rule)?, 1))).collect()
    }
}

impl DomainFilter for RequiredTerms {
    fn follows_dry_runs(&self) -> bool {
        true
    }

    /// As in filtering.go, PreFilter: nothing is judged if neither the pod nor a pod on a node has a term about the other.
    fn skips(&self, totals: &[TermTotals]) -> bool {
        let is_of_others = |rule: &AffinityRule| *rule == AffinityRule::ExistingAntiAffinity;
        self.rules.iter().all(is_of_others) && totals.iter().all(|one| one.total == 0)
    }

    fn compares_domains(&self) -> bool {
        false
    }

    /// As in filtering.go, Filter and satisfyPodAffinity.
    fn verdict(&self, term_counts: &[TermCount], totals: &[TermTotals]) -> Verdict {
        let of_affinity = |(_, rule): &(usize, &AffinityRule)| **rule == AffinityRule::Affinity;
        let affinity = || self.rules.iter().enumerate().filter(of_affinity);
        let waived =
            self.incoming.meets_own_affinity && affinity().all(|(term, _)| totals[term].total == 0);
        for (rule, term_count) in self.rules.iter().zip(term_counts) {
            let met = 0 < term_count.count;
            match rule {
                AffinityRule::Affinity if !(met || waived && term_count.present) => {
                    return Verdict::unresolvable(AFFINITY);
                }
                AffinityRule::AntiAffinity if met => return Verdict::unschedulable(ANTI_AFFINITY),
                AffinityRule::ExistingAntiAffinity if met => {
                    return Verdict::unschedulable(EXISTING_ANTI_AFFINITY);
                }
                _ => {}
            }
        }
        Verdict::Pass
    }
}

/// The preferred terms of a pod, and the terms of others that speak of it: a term for each topology
/// key.
struct Preferred {
    preferences: Preferences,
    keys: Vec<Str>,
    terms: Vec<DomainTerm>,
}

impl Preferred {
    fn new(preferences: Preferences, neighbours: Neighbours<'_>) -> Self {
        let mut keys: Vec<Str> = Vec::new();
        let mut add = |key: &Str| {
            if keys.len() <= MOST_TERMS && !keys.contains(key) {
                keys.push(key.clone());
            }
        };
        preferences.own_terms().for_each(|term| add(&term.topology_key));
        for other in neighbours {
            preferences.count(*other, |key, _| add(key));
        }
        Preferred { preferences, terms: keys.iter().map(by_label).collect(), keys }
    }
}

impl DomainCounter for Preferred {
    fn terms(&self) -> &[DomainTerm] {
        &self.terms
    }

    fn counts_plain_pods(&self) -> bool {
        self.preferences.has_own()
    }

    fn plain_pod_selectors(&self) -> Option<Vec<&Selector>> {
        Some(self.preferences.own_terms().map(|term| &term.selector).collect())
    }

    fn count(&self, other: Neighbour<'_>) -> Option<Counting> {
        let (mut counting, mut known) = (Counting::new(), true);
        self.preferences.count(other, |key, weight| {
            match self.keys.iter().position(|other| other == key) {
                Some(at) => {
                    counting.push((u32::try_from(at).expect("a pod has few terms"), weight));
                }
                None => known = false,
            }
        });
        known.then_some(counting)
    }
}

impl DomainScore for Preferred {
    fn reads_domains(&self) -> bool {
        false
    }
    fn is_ranked(&self, _: &[TermCount]) -> bool {
        true
    }
    fn raw(&self, term_counts: &[TermCount], _: &[f64]) -> i64 {
        term_counts.iter().map(|one| one.count).sum()
    }
    fn normalize(&self, scores: &mut [Scored]) {
        normalize(scores);
    }
}

/// The namespaces to keep: none, unless a term selects by their labels.
pub(super) fn kept(namespaces: &NamespaceStore, is_read: bool) -> NamespaceStore {
    if is_read { namespaces.clone() } else { NamespaceStore::default() }
}
