//! The same rules, using the domain counts of the engine.

use std::sync::Arc;

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::SelectingStore;

use super::filter::{CONSTRAINTS_NOT_MET, LABEL_MISSING};
use super::score::{IGNORED, normalize, weight};
use super::spreading::SpreadConstraints;
use super::{HOSTNAME_KEY, PodParts, PodTopologySpread};

impl FilterByCounts for PodTopologySpread {
    type Objects = SelectingObjects;

    fn by_domain(
        &self,
        pod: Ref<'_, PodParts>,
        objects: SelectingStore<'_>,
        _: Neighbours<'_>,
    ) -> ByDomain<dyn DomainFilter> {
        match self.spreading(pod, objects, WhenUnsatisfiable::DoNotSchedule) {
            Some(spreading) => ByDomain::Counts(Box::new(Hard::new(spreading, pod.2))),
            None => ByDomain::Skips,
        }
    }
}

impl ScoreByCounts for PodTopologySpread {
    type Objects = SelectingObjects;

    fn by_domain(
        &self,
        pod: Ref<'_, PodParts>,
        objects: SelectingStore<'_>,
        _: Neighbours<'_>,
    ) -> ByDomain<dyn DomainScore> {
        match self.spreading(pod, objects, WhenUnsatisfiable::ScheduleAnyway) {
            Some(spreading) => {
                ByDomain::Counts(Box::new(Soft::new(spreading, self.needs_all_keys(pod))))
            }
            None => ByDomain::Skips,
        }
    }
}

/// Which pods each constraint counts.
struct SpreadCounter {
    spreading: Arc<SpreadConstraints>,
    terms: Vec<DomainTerm>,
}

impl SpreadCounter {
    fn count(&self, other: Neighbour<'_>) -> Counting {
        let counts = |&(_, at): &(u32, usize)| self.spreading.counts(at, other);
        let terms = (0..).zip(0..self.spreading.constraints.len());
        terms.filter(counts).map(|(term, _)| (term, 1)).collect()
    }
}

/// The hard constraints of a pod.
struct Hard {
    counted: SpreadCounter,
    /// For each constraint, 1 if it counts the pod itself, else 0.
    own: Vec<i64>,
}

impl Hard {
    fn new(spreading: SpreadConstraints, own_labels: &Labels) -> Self {
        let spreading = Arc::new(spreading);
        let with_all_keys = spreading.nodes_with_all_keys();
        let term = |(i, one): (usize, &SpreadConstraint)| DomainTerm {
            key: TopologyKey::Label(one.topology_key.clone()),
            nodes: spreading.counted_nodes(i, with_all_keys.clone()),
        };
        let own = |one: &SpreadConstraint| i64::from(one.selector.matches(own_labels));
        let terms = spreading.constraints.iter().enumerate().map(term).collect();
        Hard {
            own: spreading.constraints.iter().map(own).collect(),
            counted: SpreadCounter { spreading, terms },
        }
    }
}

impl DomainCounter for Hard {
    fn terms(&self) -> &[DomainTerm] {
        &self.counted.terms
    }
    fn counts_plain_pods(&self) -> bool {
        true
    }
    fn plain_pod_selectors(&self) -> Option<Vec<&Selector>> {
        Some(self.counted.spreading.selectors().collect())
    }
    fn count(&self, other: Neighbour<'_>) -> Option<Counting> {
        Some(self.counted.count(other))
    }
}

impl DomainFilter for Hard {
    fn follows_dry_runs(&self) -> bool {
        true
    }

    /// As in filtering.go, updateWithPod: pods that are being deleted count.
    fn count_in_dry_run(&self, other: Neighbour<'_>) -> Option<Counting> {
        let spreading = &self.counted.spreading;
        let terms = (0..).zip(0..spreading.constraints.len());
        let counts = terms.filter(|&(_, at)| spreading.speaks_of(at, other));
        Some(counts.map(|(term, _)| (term, 1)).collect())
    }

    fn compares_domains(&self) -> bool {
        true
    }

    /// As in filtering.go, Filter and minMatchNum.
    fn verdict(&self, term_counts: &[TermCount], totals: &[TermTotals]) -> Verdict {
        for (i, constraint) in self.counted.spreading.constraints.iter().enumerate() {
            if !term_counts[i].present {
                return Verdict::unresolvable(LABEL_MISSING);
            }
            let wanted = usize::try_from(constraint.min_domains).unwrap_or(0);
            let least = if totals[i].domains < wanted { 0 } else { totals[i].least };
            let skew = term_counts[i].count + self.own[i] - least;
            if i64::from(constraint.max_skew) < skew {
                return Verdict::unschedulable(CONSTRAINTS_NOT_MET);
            }
        }
        Verdict::Pass
    }
}

/// The soft constraints of a pod.
struct Soft {
    counted: SpreadCounter,
    /// Whether nodes must have all topology keys to be scored.
    needs_all_keys: bool,
}

impl Soft {
    fn new(spreading: SpreadConstraints, needs_all_keys: bool) -> Self {
        let spreading = Arc::new(spreading);
        let nodes = match needs_all_keys {
            true => spreading.nodes_with_all_keys(),
            false => CountedNodes::all(),
        };
        let term = |(i, one): (usize, &SpreadConstraint)| {
            let (key, nodes) = (one.topology_key.clone(), nodes.clone());
            // As in scoring.go, Score: whether the node counts is not asked where it is alone.
            match key == HOSTNAME_KEY {
                true => DomainTerm { key: TopologyKey::NodeWith(key), nodes },
                false => DomainTerm {
                    key: TopologyKey::Label(key),
                    nodes: spreading.counted_nodes(i, nodes),
                },
            }
        };
        let terms = spreading.constraints.iter().enumerate().map(term).collect();
        Soft { counted: SpreadCounter { spreading, terms }, needs_all_keys }
    }
}

impl DomainCounter for Soft {
    fn terms(&self) -> &[DomainTerm] {
        &self.counted.terms
    }
    fn counts_plain_pods(&self) -> bool {
        true
    }
    fn plain_pod_selectors(&self) -> Option<Vec<&Selector>> {
        Some(self.counted.spreading.selectors().collect())
    }
    fn count(&self, other: Neighbour<'_>) -> Option<Counting> {
        Some(self.counted.count(other))
    }
}

impl DomainScore for Soft {
    fn reads_domains(&self) -> bool {
        true
    }
    fn weight(&self, domains: usize) -> f64 {
        weight(domains)
    }
    fn is_ranked(&self, term_counts: &[TermCount]) -> bool {
        !self.needs_all_keys || term_counts.iter().all(|one| one.present)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "counts of pods are far below 2^53"
    )]
    fn raw(&self, term_counts: &[TermCount], weights: &[f64]) -> i64 {
        if !self.is_ranked(term_counts) {
            return IGNORED;
        }
        let mut score = 0.0;
        for (i, term_count) in term_counts.iter().enumerate().filter(|(_, one)| one.present) {
            let leeway = f64::from(self.counted.spreading.constraints[i].max_skew - 1);
            score += term_count.count as f64 * weights[i] + leeway;
        }
        score.round() as i64
    }

    fn normalize(&self, scores: &mut [Scored]) {
        normalize(scores);
    }
}
