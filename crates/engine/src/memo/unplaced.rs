//! Pods for which there is no node, and pods that make room for others that wait for theirs.

use std::collections::BTreeMap;

use plimsoll_framework::parts::{NodeReads, StoreReads};
use plimsoll_framework::{Neighbour, NominatedPods, PodInfo, Row, View};

use super::account::Account;
use super::failures::Failures;
use super::kinds::Kind;
use super::nominations::Nominations;
use super::ranks::Ranks;
use super::shape::MadeBy;
use super::survey::{OwnNode, Survey};
use super::{FastMap, Memo, nominations};
use crate::cycle::{Cycle, Failure};
use crate::profile::Profile;

/// The memory that surveys may take, in bytes.
const SURVEY_BUDGET: usize = 512 << 20;

/// What the node says that was cleared for a pod.
pub(super) enum Own {
    /// There is none, or it is like any other.
    None,
    /// It takes the pod.
    Takes(Row),
    /// It does not.
    Rejects(OwnNode),
    /// The pod has to be judged from scratch.
    Unclear,
}

/// What is remembered of pods that are not placed.
#[derive(Default)]
pub(super) struct Unplaced {
    /// By shape and priority: the shape of pods that make room for nominated pods.
    behind: FastMap<(usize, i32), usize>,
    /// By shape and priority.
    surveys: FastMap<(usize, i32), Survey>,
    survey_bytes: Account<(usize, i32)>,
    /// By profile.
    failures: BTreeMap<String, Failures>,
}

impl Unplaced {
    pub(super) fn add(&mut self, profile: &Profile) {
        self.failures.insert(profile.scheduler_name.clone(), Failures::new(profile));
    }

    /// Something has changed.
    pub(super) fn forget_failures(&mut self) {
        self.failures.values_mut().for_each(Failures::forget);
    }

    /// Some stores have changed.
    pub(super) fn forget_stores(&mut self, stores: StoreReads) {
        self.forget_failures();
        self.surveys.values_mut().for_each(|survey| survey.forget_stores(stores));
    }

    pub(super) fn forget_shapes(&mut self) {
        self.behind.clear();
        self.forget_surveys();
    }

    fn forget_surveys(&mut self) {
        self.surveys.clear();
        self.survey_bytes.clear();
    }

    pub(super) fn drop_shape(&mut self, number: usize) {
        self.behind.retain(|&(shape, _), behind| shape != number && *behind != number);
        self.surveys.retain(|&(shape, _), _| shape != number);
        self.survey_bytes.retain(|(shape, _)| shape != number);
    }
}

impl Memo {
    /// How an attempt at an equal pod failed, if nothing has changed since.
    pub(crate) fn failed_alike(&mut self, profile: &Profile, pod: &PodInfo) -> Option<Cycle> {
        let failures = self.unplaced.failures.get_mut(&profile.scheduler_name)?;
        let (failure, n_judged) = failures.find(profile, pod)?;
        Some(Cycle::failed(failure, n_judged))
    }

    /// Takes note of a decision that was made from scratch.
    pub(crate) fn note_failure(&mut self, profile: &Profile, pod: &PodInfo, cycle: &Cycle) {
        if let Some(failures) = self.unplaced.failures.get_mut(&profile.scheduler_name) {
            failures.note(profile, pod, cycle);
        }
    }

    /// The shape of pods that make room for those that are nominated: the same one where there is nobody
    /// ahead. `None` if that has to be judged from scratch.
    pub(super) fn behind_nominated(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        (shape, tallies): (usize, usize),
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> Option<usize> {
        if nominated.highest().is_none_or(|highest| highest < pod.priority) {
            return Some(shape);
        }
        let grounds = self.ground.as_ref()?;
        let (counts, _) = self.tallies[tallies].as_ref()?;
        // A filter that a nominated pod moves would have to judge twice: with the pod there and without.
        let is_moved = |kind: Kind| {
            let other = Neighbour::from(&**self.neighbours.example(kind));
            counts.are_moved_by(other)
        };
        if !counts.judges.is_empty() && grounds.nominations.kinds_ahead(pod.priority).any(is_moved)
        {
            return None;
        }
        let (_, used) = self.shapes[shape].as_mut()?;
        *used = self.n_decisions;
        if let Some(&behind) = self.unplaced.behind.get(&(shape, pod.priority)) {
            return Some(behind);
        }
        let set = self.topology_set(tallies);
        let behind = self.make_shape(profile, pod, MadeBy::All, set, Some(pod.priority), view);
        // To make room, the very shape may have been dropped.
        if self.shapes[shape].is_some() && behind != shape {
            self.unplaced.behind.insert((shape, pod.priority), behind);
        }
        Some(behind)
    }

    /// Judges the node that was cleared for a pod, if there is one: it is looked at first.
    pub(super) fn own_node(
        &mut self,
        pod: &PodInfo,
        (shape, tallies): (usize, usize),
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> Own {
        let Some(name) = nominated.node_of(&pod.key) else { return Own::None };
        let grounds = self.ground.as_ref().expect("it was laid when changes were followed");
        let ground = grounds.with(view);
        let Some(rank) = nominations::find(name, ground.ranks, view.nodes) else {
            return Own::None;
        };
        let row = ground.ranks.row(rank);
        let (shape, _) = self.shapes[shape].as_mut().expect("it was just brought up");
        let (tallies, _) = self.tallies[tallies].as_ref().expect("it was just brought up");
        match shape.first(rank, row, Some(pod), ground) {
            None if tallies.pass(rank, ground) => Own::Takes(row),
            // What counts say of the node holds for all pods of the kind.
            None => Own::None,
            // With the pod on it, too, the node should reject it all the more.
            Some(_) if shape.place(rank).is_some() => Own::Unclear,
            Some((at, why)) => Own::Rejects(OwnNode { rank, plugin: shape.plugin(at), why }),
        }
    }

    /// Why no node takes the pod. `None` if that can only be told from scratch.
    pub(super) fn failure(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        (shape, tallies): (usize, usize),
        own: Option<&OwnNode>,
        view: View<'_>,
    ) -> Option<Failure> {
        let grounds = self.ground.as_ref()?;
        let ground = grounds.with(view);
        let (counts, _) = self.tallies[tallies].as_ref()?;
        let (one, _) = self.shapes[shape].as_mut()?;
        if counts.judge_nodes() || profile.run_all_filters || !one.judges_all_nodes() {
            return None;
        }
        let key = (shape, pod.priority);
        if SURVEY_BUDGET < self.unplaced.survey_bytes.total() {
            self.unplaced.forget_surveys();
        }
        let end = grounds.changed.end();
        let survey =
            self.unplaced.surveys.entry(key).or_insert_with(|| Survey::new(one, end, ground));
        if !survey.follow(one, &grounds.changed, ground) {
            *survey = Survey::new(one, end, ground);
        }
        let failure = survey.failure(profile, pod, one, own, ground);
        self.unplaced.survey_bytes.set(key, survey.bytes());
        failure
    }

    /// The nominations to all nodes.
    pub(super) fn nominations(
        &mut self,
        ranks: &Ranks,
        view: View<'_>,
        nominated: &NominatedPods,
    ) -> Nominations {
        let mut nominations = Nominations::default();
        for (rank, row) in ranks.rows().filter(|_| !nominated.is_empty()) {
            let pods = nominations::on(nominated, view.nodes, row);
            let known = nominations.set(rank, &pods, |pod| self.neighbour(pod));
            self.is_overfull |= known.is_none();
        }
        nominations
    }

    /// Follows a change of the pods that are nominated to a node.
    pub(super) fn renominate(&mut self, view: View<'_>, nominated: &NominatedPods, node: &str) {
        let Some(mut grounds) = self.ground.take() else { return };
        if let Some(rank) = nominations::find(node, &grounds.ranks, view.nodes) {
            let pods = nominations::on(nominated, view.nodes, grounds.ranks.row(rank));
            let known = grounds.nominations.set(rank, &pods, |pod| self.neighbour(pod));
            if known.is_none() {
                return;
            }
            grounds.changed.push((rank, NodeReads::all()));
        }
        self.ground = Some(grounds);
    }
}
