//! Applies the changes of the cluster to what is remembered. The cost of a change is in proportion to what it changes.

use std::sync::Arc;

use plimsoll_api::Node;
use plimsoll_framework::parts::{NodeReads, StoreReads};
use plimsoll_framework::{Columns, Neighbour, NominatedPods, PodInfo, Row, View};

use super::Memo;
use super::counts_cache::CountsId;
use super::name_order::NameOrder;
use super::node_set::NodeSet;
use super::nominations;
use super::profile_memo::ProfileMemo;
use super::signatures::SignatureId;
use crate::cache::{Changes, RowChange};

impl Memo {
    /// Applies the changes since the last decision.
    pub(crate) fn follow(
        &mut self,
        view: View<'_>,
        changes: &mut Changes,
        nominated: &mut NominatedPods,
    ) {
        self.follow_changes(view, changes, nominated);
        if self.node_set.is_none() {
            self.build_node_set(view, nominated);
        }
    }

    /// Applies the changes so far, if anything is remembered of the nodes.
    pub(crate) fn follow_changes(
        &mut self,
        view: View<'_>,
        changes: &mut Changes,
        nominated: &mut NominatedPods,
    ) {
        if changes.all_changed() {
            self.node_set = None;
        }
        let (stores, log, objects) = changes.take();
        let renominated = nominated.changed();
        if self.node_set.is_none() || !log.is_empty() || !renominated.is_empty() {
            self.diagnoses.forget_signature_diagnoses();
        }
        if self.rankings_read.stores.intersects(stores) {
            self.cluster_version += 1;
        }
        if self.domain_counts_read.stores.intersects(stores) {
            self.forget_domain_counts();
        }
        if !stores.is_empty() {
            self.diagnoses.forget_signature_diagnoses();
            self.rankings.forget_stores(stores);
        }
        for change in log {
            if self.node_set.is_none() {
                return;
            }
            self.follow_one(view, nominated, change);
        }
        for node in renominated {
            self.renominate(view, nominated, &node);
        }
        let Some(node_set) = &self.node_set else { return };
        let mut reads = StoreReads::empty();
        for of_profile in self.profiles.values_mut() {
            of_profile.follow_objects(stores, &objects, node_set.with(view));
            reads |= of_profile.objects_of_verdicts();
        }
        changes.keep_objects(reads);
    }

    pub(super) fn build_node_set(&mut self, view: View<'_>, nominated: &NominatedPods) {
        #[cfg(test)]
        {
            self.n_built += 1;
        }
        self.forget_domain_counts();
        self.forget_rankings();
        let name_order = NameOrder::of(view.nodes);
        self.neighbours.begin();
        self.placed.clear();
        self.with_terms.clear();
        self.counts.counted_by.clear();
        self.is_overfull = false;
        for (_, row) in name_order.rows() {
            for pod in view.nodes.pods_on(row).iter() {
                match self.neighbour(pod) {
                    Some(signature) => {
                        self.placed.add(signature, row);
                    }
                    None => self.is_overfull = true,
                }
            }
        }
        let nominations = self.nominations(&name_order, view, nominated);
        self.neighbours.count_from_here(self.budgets.neighbours);
        self.neighbour_bytes_before = self.all_neighbour_bytes();
        self.node_set = Some(NodeSet::new(name_order, nominations));
        self.scanner.forget();
    }

    /// The signature of a pod on a node; `None` if there are too many signatures.
    pub(super) fn neighbour(&mut self, pod: &PodInfo) -> Option<SignatureId> {
        let (signature, is_new) = self.neighbours.number(pod)?;
        if is_new {
            self.placed.add_signature();
            self.counts.counted_by.add_signature(pod);
            if !pod.affinity.is_empty() {
                self.with_terms.push(signature);
                if let Some(blank) = self.counts.blank {
                    self.drop_domain_counts(blank);
                }
            }
        }
        Some(signature)
    }

    fn follow_one(&mut self, view: View<'_>, nominated: &NominatedPods, change: RowChange) {
        // They stay as they are until everything is derived again.
        if self.is_overfull && change.is_of_node() {
            self.node_set = None;
            return;
        }
        match change {
            RowChange::Came(row) => self.node_came(view, nominated, row),
            RowChange::Gone(row, before, pods) => self.node_gone(view, row, &before, &pods),
            RowChange::Node(row, reads, before) => self.node_changed(view, row, reads, &before),
            RowChange::Touched(row) => {
                self.cluster_changed(NodeReads::PODS);
                self.note(row, NodeReads::PODS);
            }
            RowChange::Placed(row, pod) => {
                self.count(view, row, &pod, 1);
                self.note(row, NodeReads::BY_PLACEMENT);
            }
            RowChange::Displaced(row, pod) => {
                self.count(view, row, &pod, -1);
                self.note(row, NodeReads::BY_PLACEMENT);
            }
        }
    }

    /// A node has come, with the pods that waited for it.
    fn node_came(&mut self, view: View<'_>, nominated: &NominatedPods, row: Row) {
        let node = view.nodes.node(row);
        self.cluster_changed(NodeReads::all());
        let Some(mut node_set) = self.node_set.take() else { return };
        if node_set.is_first_of_its_key(node) {
            return;
        }
        if !node_set.insert(row, node) {
            node_set.order_again(view.nodes);
            self.forget_rankings();
            self.scanner.forget();
        }
        if !node_set.enter_domains(row, node) {
            return;
        }
        let pods = nominations::on(nominated, view.nodes, row);
        if node_set.nominations.set(row, &pods, |pod| self.neighbour(pod)).is_none() {
            return;
        }
        self.count_nominated(&pods);
        let cluster = node_set.with(view);
        for domain_counts in self.counts.iter_mut() {
            domain_counts.node_came(row, cluster);
        }
        self.node_set = Some(node_set);
        for pod in view.nodes.pods_on(row).iter() {
            self.count(view, row, pod, 1);
        }
    }

    /// A node has gone, with these pods on it.
    fn node_gone(&mut self, view: View<'_>, row: Row, before: &Node, pods: &[PodInfo]) {
        self.cluster_changed(NodeReads::all());
        let seen = alone(before);
        for pod in pods {
            self.count_as(row, (&seen, FIRST), pod, -1);
        }
        let Some(node_set) = &mut self.node_set else { return };
        let domains = node_set.domains(row);
        node_set.leave_domains(row, before);
        node_set.remove(row);
        // Nothing is nominated to a node that does not exist.
        let _ = node_set.nominations.set(row, &[], |_| None);
        let cluster = node_set.with(view);
        for domain_counts in self.counts.iter_mut() {
            domain_counts.node_gone(row, &domains, cluster);
        }
    }

    /// Parts of a node have changed.
    fn node_changed(&mut self, view: View<'_>, row: Row, reads: NodeReads, before: &Arc<Node>) {
        self.cluster_changed(reads);
        let Some(node_set) = &self.node_set else { return };
        let now = view.nodes.node(row);
        let moves = node_set.moves(before, now);
        if !moves && !self.counts.nodes_read.intersects(reads) {
            self.note(row, reads);
            return;
        }
        let seen = alone(before);
        for pod in view.nodes.pods_on(row).iter() {
            self.count_as(row, (&seen, FIRST), pod, -1);
        }
        let Some(node_set) = &mut self.node_set else { return };
        let domains = node_set.domains(row);
        if moves {
            node_set.leave_domains(row, before);
            if node_set.is_first_of_its_key(now) || !node_set.enter_domains(row, now) {
                self.node_set = None;
                return;
            }
        }
        let cluster = node_set.with(view);
        for domain_counts in self.counts.iter_mut() {
            domain_counts.node_gone(row, &domains, cluster);
            domain_counts.node_came(row, cluster);
        }
        for pod in view.nodes.pods_on(row).iter() {
            self.count(view, row, pod, 1);
        }
        self.note(row, if moves { NodeReads::all() } else { reads });
    }

    /// Parts of some node have changed, which plugins may read of all nodes.
    fn cluster_changed(&mut self, reads: NodeReads) {
        if self.rankings_read.nodes.intersects(reads) {
            self.cluster_version += 1;
        }
        if self.domain_counts_read.nodes.intersects(reads) {
            self.forget_domain_counts();
        }
    }

    fn note(&mut self, row: Row, reads: NodeReads) {
        if let Some(node_set) = &mut self.node_set {
            node_set.changed.push((node_set.name_order.index(row), reads));
        }
    }

    /// Adds a pod on a node to all domain counts that count it, or removes it.
    fn count(&mut self, view: View<'_>, row: Row, pod: &PodInfo, times: i64) {
        self.cluster_changed(NodeReads::BY_PLACEMENT);
        self.count_as(row, (view.nodes, row), pod, times);
    }

    /// The same, for a node as it is in row `node.1` of `node.0`.
    fn count_as(&mut self, row: Row, node: (&Columns, Row), pod: &PodInfo, times: i64) {
        if self.node_set.is_none() {
            return;
        }
        let Some(signature) = self.neighbour(pod) else {
            self.node_set = None;
            return;
        };
        if 0 < times {
            self.placed.add(signature, row);
        } else if self.placed.remove(signature, row)
            && self.has_given_up
            && !pod.affinity.is_empty()
        {
            self.has_given_up = false;
            self.profiles.values_mut().for_each(ProfileMemo::forget_from_scratch);
        }
        if !self.counts.counted_by.has(signature) {
            self.find_counting(signature);
        }
        let Some(node_set) = &self.node_set else { return };
        let places = node_set.places();
        self.counts.count(signature, |counts, by| counts.add(by, times, row, node, places));
    }

    /// Determines which domain counts count pods of a signature that is new on nodes.
    pub(super) fn find_counting(&mut self, signature: SignatureId) {
        let example = self.neighbours.example(signature).clone();
        let other = Neighbour::from(&*example);
        let (mut counted_by, mut outdated) = (Vec::new(), Vec::new());
        let asked: Vec<CountsId> = match other.affinity.is_empty() {
            true => self.counts.that_may_count(other.labels),
            false => self.counts.iter().map(|(id, _)| id).collect(),
        };
        for number in asked {
            let Some(domain_counts) = self.counts.get(number) else { continue };
            match domain_counts.counting(other) {
                None => outdated.push(number),
                Some(counting) if counting.is_empty() => {}
                Some(counting) => counted_by.push((number, counting)),
            }
        }
        self.counts.counted_by.set(signature, counted_by);
        for number in outdated {
            self.drop_domain_counts(number);
        }
    }
}

/// The row of a node that is [`alone`].
const FIRST: Row = Row::FIRST;

/// A node as the only one.
fn alone(node: &Node) -> Columns {
    let mut nodes = Columns::default();
    nodes.add(node.clone());
    nodes
}
