//! Counts all pods again, to compare.

use std::collections::BTreeMap;

use plimsoll_framework::{Neighbour, Row};

use super::{CountedTerm, DomainCounts};
use crate::memo::by_label::PlainPods;
use crate::memo::node_ranking::ClusterView;
use crate::memo::topology::Domain;

impl DomainCounts {
    /// How the counts differ from those of all pods on nodes, counted anew.
    pub(in crate::memo) fn differences(&self, cluster: ClusterView<'_>) -> Option<String> {
        let empty = |term: &CountedTerm| {
            let is_compared = term.in_play.is_some();
            let follows_first = term.follows_first;
            let anew = CountedTerm::new(term.topology, term.nodes.clone(), is_compared, cluster);
            CountedTerm { follows_first, ..anew }
        };
        let mut anew: Vec<CountedTerm> = self.terms.iter().map(empty).collect();
        let nodes = cluster.view.nodes;
        for (_, row) in cluster.name_order.rows() {
            for pod in nodes.pods_on(row).iter() {
                if pod.affinity.is_empty() && self.plain_pods == PlainPods::None {
                    continue;
                }
                let Some(counting) = self.counting(Neighbour::from(&**pod)) else {
                    return Some(format!("pod {} is not known to the terms", pod.key));
                };
                for (term, by) in counting {
                    let term = &mut anew[term as usize];
                    let domain = cluster.topologies[term.topology].domain(row);
                    if by != 0 && domain != super::NO_DOMAIN && term.nodes.has(nodes, row) {
                        term.add(domain, by, cluster.places());
                    }
                }
            }
        }
        let mut terms = self.terms.iter().zip(&anew).enumerate();
        terms.find_map(|(at, (known, anew))| {
            Some(format!("term {at}: {}", known.difference(anew, cluster)?))
        })
    }
}

impl CountedTerm {
    fn difference(&self, anew: &CountedTerm, cluster: ClusterView<'_>) -> Option<String> {
        let (known, counted) = (self.all_counts(), anew.all_counts());
        if known != counted {
            return Some(format!("counts {known:?}, anew {counted:?}"));
        }
        if (self.total, self.first) != (anew.total, anew.first) {
            let known = (self.total, self.first);
            return Some(format!("total and first {known:?}, anew {:?}", (anew.total, anew.first)));
        }
        if self.is_fine() && anew.is_fine() && self.spread != anew.spread {
            return Some(format!("spread {:?}, anew {:?}", self.spread, anew.spread));
        }
        let in_play = |term: &CountedTerm| -> Option<Vec<usize>> {
            let in_play = term.in_play.as_ref()?;
            let domains = (0..in_play.witnesses.len()).filter(|&domain| in_play.has(domain));
            let domains: Vec<usize> = domains.collect();
            assert_eq!(domains.len(), in_play.len, "the domains in play are counted");
            Some(domains)
        };
        if in_play(self) != in_play(anew) {
            return Some(format!("in play {:?}, anew {:?}", in_play(self), in_play(anew)));
        }
        let witnesses = self.in_play.iter().flat_map(|in_play| &in_play.witnesses).enumerate();
        let stands = |&(domain, row): &(usize, &Option<Row>)| {
            row.is_none_or(|row| {
                cluster.topologies[self.topology].domain(row) as usize == domain
                    && self.nodes.has(cluster.view.nodes, row)
            })
        };
        let mut wrong = witnesses.filter(|one| !stands(one));
        wrong.next().map(|(domain, row)| format!("{row:?} is no witness of domain {domain}"))
    }

    /// The counts other than 0, by domain.
    fn all_counts(&self) -> BTreeMap<Domain, i64> {
        use super::CountTable;
        let by_domain: Vec<(Domain, i64)> = match &self.counts {
            CountTable::Coarse(counts) | CountTable::Dense(counts, _) => {
                (0..).zip(counts.iter().copied()).collect()
            }
            CountTable::Sparse(counts) => counts.iter().map(|(&at, &count)| (at, count)).collect(),
        };
        by_domain.into_iter().filter(|(_, count)| *count != 0).collect()
    }
}
