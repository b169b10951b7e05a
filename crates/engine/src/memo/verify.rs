//! Compares what is remembered with what is derived anew, for tests.

use plimsoll_framework::{NominatedPods, PodInfo, Point, Row, View};

use super::Memo;
use super::counts_cache::CountsId;
use super::name_order::NameOrder;
use super::node_diagnosis::NodeDiagnosis;
use super::node_ranking::ClusterView;
use super::node_set::NodeSet;
use super::placed_pods::PlacedPods;
use super::rankings::{RankingEntry, RankingId};
use super::sparse_domain_counts::SparseDomainCounts;
use crate::profile::Profile;
use crate::profiles::Profiles;

impl Memo {
    /// Brings everything up to date and returns what differs from what is derived anew. [`Memo::follow`] must have been called
    /// after the last change.
    pub(crate) fn differences(
        &mut self,
        profiles: &Profiles,
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> Vec<String> {
        // Nothing is kept up to date until everything is derived again.
        if self.is_overfull || self.node_set.is_none() {
            return Vec::new();
        }
        let mut differences = self.differences_of_neighbours(view);
        if let Some(mut node_set) = self.node_set.take() {
            differences.extend(node_set.differences(view));
            let known = std::mem::take(&mut node_set.nominations);
            let anew = self.nominations(&node_set.name_order, view, nominated);
            if !known.equal(&anew) {
                differences.push(format!("nominations: {known:?}, anew {anew:?}"));
            }
            node_set.nominations = known;
            self.node_set = Some(node_set);
        }
        differences.extend(self.differences_of_counts(view));
        for profile in profiles.iter() {
            let Some(of_profile) = self.profiles.get(profile) else { continue };
            let ids: Vec<RankingId> = of_profile.ranking_ids().collect();
            for id in ids {
                differences.extend(self.differences_of_ranking(profile, id, view));
                let behind = |entry: &RankingEntry| entry.behind.values().copied().collect();
                let behind: Vec<RankingId> = self.rankings.get(id).map(behind).unwrap_or_default();
                for id in behind {
                    differences.extend(self.differences_of_ranking(profile, id, view));
                }
            }
        }
        differences
    }

    /// How many pods of each signature are on each node.
    fn differences_of_neighbours(&mut self, view: View<'_>) -> Vec<String> {
        let mut differences = Vec::new();
        let mut anew = PlacedPods::default();
        (0..self.placed.n_signatures()).for_each(|_| anew.add_signature());
        for row in view.nodes.rows() {
            for pod in view.nodes.pods_on(row).iter() {
                let signature = self.neighbour(pod);
                match signature.filter(|&signature| signature < anew.n_signatures()) {
                    Some(signature) => anew.add(signature, row),
                    None => differences.push(format!("pod {} has no signature", pod.key)),
                }
            }
        }
        differences.extend(self.placed.difference(&anew));
        for signature in 0..self.placed.n_signatures() {
            let example: &PodInfo = self.neighbours.example(signature);
            if !example.affinity.is_empty() && !self.with_terms.contains(&signature) {
                differences.push(format!("signature {signature} has terms that are not known"));
            }
        }
        differences
    }

    fn differences_of_counts(&self, view: View<'_>) -> Vec<String> {
        let node_set = self.node_set.as_ref().expect("the caller has asked");
        let cluster = node_set.with(view);
        let mut differences = Vec::new();
        for (id, counts) in self.counts.iter() {
            if let Some(what) = counts.differences(cluster) {
                differences.push(format!("domain counts {id:?}: {what}"));
            }
            for signature in 0..self.placed.n_signatures() {
                if !self.counts.counted_by.has(signature) || !self.placed.has(signature) {
                    continue;
                }
                let mut known = self.counts.counted_by.of(signature).iter();
                let known = known.find(|(of, _)| *of == id).map(|(_, counting)| counting);
                let anew = counts.counting((&**self.neighbours.example(signature)).into());
                if known.cloned().unwrap_or_default() != anew.clone().unwrap_or_default() {
                    let what = format!("signature {signature} counts {known:?}, anew {anew:?}");
                    differences.push(format!("domain counts {id:?}: {what}"));
                }
            }
        }
        if let Some(what) = self.counts.bytes_differ() {
            differences.push(what);
        }
        differences
    }

    fn differences_of_ranking(
        &mut self,
        profile: &Profile,
        id: RankingId,
        view: View<'_>,
    ) -> Vec<String> {
        if !self.rankings.has(id) || !self.bring_up_ranking(profile, id, view) {
            return Vec::new();
        }
        let sparse = self.rankings.get(id).map(|entry| entry.sparse_ids().collect());
        let sparse: Vec<CountsId> = sparse.unwrap_or_default();
        for &counts in &sparse {
            if self.counts.has(counts) {
                self.bring_up(profile, id, counts, view);
            }
        }
        let node_set = self.node_set.as_ref().expect("the caller has asked");
        let cluster = node_set.with(view);
        let entry = self.rankings.get_mut(id).expect("it was just brought up");
        let ends = (entry.ranking.followed, entry.ranking.cluster_version);
        let anew = entry.ranking.again(profile, ends, cluster);
        let mut differences: Vec<String> = entry.ranking.difference(&anew).into_iter().collect();
        for id in sparse {
            let Some((sparse, counts)) = entry.sparse(id).zip(self.counts.get(id)) else {
                continue;
            };
            let anew = SparseDomainCounts::new(&entry.ranking, counts, cluster);
            differences.extend(sparse.difference(&anew));
        }
        differences.extend(entry.differences_of_diagnoses(profile, node_set, cluster));
        let is_behind = entry.ranking.behind;
        let named = differences.into_iter();
        named.map(|what| format!("ranking {id:?}, behind {is_behind:?}: {what}")).collect()
    }
}

impl NodeSet {
    fn differences(&self, view: View<'_>) -> Option<String> {
        let order = &self.name_order;
        let anew = NameOrder::of(view.nodes);
        let rows = |order: &NameOrder| order.rows().map(|(_, row)| row).collect::<Vec<Row>>();
        if rows(order) != rows(&anew) {
            return Some(format!("names: {:?}, anew {:?}", rows(order), rows(&anew)));
        }
        let mut last = None;
        for (index, row) in order.rows() {
            let is_found = order.at(index) == Some(row)
                && order.find(view.nodes.name_of(row)) == Some(index)
                && last < Some(index);
            if !is_found {
                return Some(format!("{row:?} is not at index {index} in the order of names"));
            }
            last = Some(index);
        }
        self.difference_of_topologies(view)
    }
}

impl RankingEntry {
    fn differences_of_diagnoses(
        &mut self,
        profile: &Profile,
        node_set: &NodeSet,
        cluster: ClusterView<'_>,
    ) -> Vec<String> {
        let mut differences = Vec::new();
        let (ranking, diagnoses) = self.with_diagnoses();
        for (priority, diagnosis) in diagnoses {
            let logs = (&node_set.changed, &node_set.came_or_gone);
            if !diagnosis.follow(ranking, logs.0, logs.1, cluster) {
                *diagnosis = NodeDiagnosis::new(ranking, (logs.0.end(), logs.1.end()), cluster);
            }
            let anew = NodeDiagnosis::new(ranking, (logs.0.end(), logs.1.end()), cluster);
            let plugin = |name: &str| {
                let mut plugins = profile.at(Point::PostFilter);
                let (plugin, _) = plugins.find(|(plugin, _)| plugin.name == name)?;
                plugin.points.post_filter.as_ref()?.by_node_on(&cluster.view)
            };
            let what = diagnosis.difference(&anew, cluster).or_else(|| {
                let pod = ranking.pod_of_priority(priority);
                diagnosis.difference_of_candidates(&pod, &ranking.prepared, plugin, cluster)
            });
            differences.extend(what.map(|what| format!("priority {priority}: {what}")));
        }
        differences
    }
}
