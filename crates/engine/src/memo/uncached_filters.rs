//! Pods to which an *uncached filter* applies: one whose verdicts depend on more than the signature and the
//! counts. These are pods with volumes.
//!
//! For all other plugins such a pod is like a pod without volumes, so they share a
//! [node ranking](super::node_ranking) or a [scan](super::scan). The uncached filters are then asked about the
//! best nodes, until one passes. This is exact, because the scores depend only on which groups of the ranking
//! have a feasible node, which one node proves. All nodes are asked about where their number matters, or where
//! a filter may be unable to judge a node, since that would be an error, whichever node is the best.
//!
//! A score [on demand](plimsoll_framework::ScoreOnDemand) belongs to the pod itself in the same way. The nodes that pass
//! are scored until no other can be better.

use std::rc::Rc;

use plimsoll_api::Str;
use plimsoll_framework::parts::NodeReads;
use plimsoll_framework::points::ScorePoint;
use plimsoll_framework::{
    Candidates, Code, Columns, CycleState, LabelledNodes, OnDemand, PodChange, PodInfo, Point,
    Prepared, Rejection, Row, Verdict, VerdictKey, View,
};
use rand::Rng;
use smallvec::SmallVec;

use super::choose::Chooser;
use super::choose_passing::PassingChoice;
use super::decide::{RankedBy, found};
use super::domain_counts::DomainCounts;
use super::name_index_set::{NameIndex, NameIndexBits};
use super::name_order::NameOrder;
use super::node_diagnosis::NominatedNodeRejection;
use super::node_ranking::ClusterView;
use super::nominations::OnScratch;
use super::profile_memo::ProfileMemo;
use super::sampled::Visited;
use super::verdicts::{VerdictCache, VerdictsId};
use super::{Memo, Want};
use crate::cycle::Cycle;
use crate::metrics::MeteredPoint;
use crate::nominated_node::NominatedNode;
use crate::pick::TieBreaker;
use crate::profile::{PluginIndex, Profile};
use crate::sample::SampleOrder;
use crate::unit::{Member, Snapshot};

/// An uncached filter, prepared for one pod.
pub(super) struct UncachedFilter {
    pub(super) plugin: &'static str,
    /// Its place among the filters of the profile.
    pub(super) place: usize,
    pub(super) prepared: Prepared,
    /// Its index in the profile and what it reads of a node, if its verdicts can be remembered.
    pub(super) source: Option<(PluginIndex, NodeReads)>,
    /// Where they are.
    pub(super) remembered: Remembered,
}

/// Where the verdicts of a filter are remembered.
#[derive(Debug, Default)]
pub(super) enum Remembered {
    /// It was not asked for its key.
    #[default]
    Unknown,
    /// Nowhere: it has no key.
    Not,
    /// By this key.
    By {
        key: VerdictKey,
        /// The nodes on which the verdict may be another one, ascending.
        except: SmallVec<[NameIndex; 1]>,
        /// If there are verdicts by it.
        id: Option<VerdictsId>,
    },
}

impl UncachedFilter {
    pub(super) fn new(
        plugin: &'static str,
        place: usize,
        prepared: Prepared,
        source: Option<(PluginIndex, NodeReads)>,
    ) -> Self {
        UncachedFilter { plugin, place, prepared, source, remembered: Remembered::Unknown }
    }

    /// The verdicts that hold for a node.
    fn verdicts_on(&self, index: NameIndex) -> Option<VerdictsId> {
        match &self.remembered {
            Remembered::By { except, id, .. } if except.binary_search(&index).is_err() => *id,
            _ => None,
        }
    }
}

/// A score on demand, for one pod.
pub(super) struct WeightedOnDemand {
    pub(super) weight: i64,
    pub(super) scores: OnDemand,
}

/// The uncached filters that apply to one pod, in the order of the profile, and the score on demand.
pub(crate) struct UncachedFilters {
    pub(super) pod: PodInfo,
    pub(super) all: Vec<UncachedFilter>,
    /// The only nodes worth judging.
    candidates: Candidates,
    /// The names of the only nodes on which all may pass; `None` if these may be any.
    only_on: Option<Vec<Str>>,
    /// The score on demand, if nodes may differ in it.
    on_demand: Option<WeightedOnDemand>,
    scratch: Columns,
    /// What is remembered of verdicts, while nodes are asked about.
    verdicts: VerdictCache,
    /// Whether verdicts are remembered from now on.
    takes_notes: bool,
}

/// What uncached filters are asked about.
#[derive(Clone, Copy)]
pub(super) struct AskedOn<'a> {
    pub(super) cluster: ClusterView<'a>,
    /// The filters by counts, if a nominated pod moves one of them. They judge each node with the nominated pods
    /// ahead there; what they say without these is the same for the whole group.
    pub(super) moved: Option<&'a DomainCounts>,
}

impl<'a> Chooser<'a> {
    /// What uncached filters are asked about if there are no nominated pods.
    pub(super) fn asked(&self) -> AskedOn<'a> {
        AskedOn { cluster: self.cluster, moved: None }
    }
}

/// The plugin that rejects a node, and why.
pub(super) type Reason = (&'static str, Rejection);

/// A node could not be judged: the pod must be decided from scratch.
pub(super) struct CannotJudge;

impl UncachedFilters {
    /// No filters.
    pub(super) fn none(pod: &PodInfo) -> Self {
        UncachedFilters {
            pod: pod.clone(),
            all: Vec::new(),
            candidates: Candidates::All,
            only_on: None,
            on_demand: None,
            scratch: Columns::default(),
            verdicts: VerdictCache::default(),
            takes_notes: false,
        }
    }

    /// All filters of a pod, to judge single nodes. They have no names.
    pub(super) fn all_of(pod: &PodInfo, filters: impl Iterator<Item = Prepared>) -> Self {
        let filter = |(place, prepared)| UncachedFilter::new("", place, prepared, None);
        UncachedFilters {
            all: filters.enumerate().map(filter).collect(),
            ..UncachedFilters::none(pod)
        }
    }

    /// Whether a node passes; [`rejection`](Self::rejection) says why not.
    pub(super) fn pass(&mut self, row: Row, on: AskedOn<'_>) -> bool {
        let is_candidate = match &self.candidates {
            Candidates::All => true,
            Candidates::Only(names) => names.contains(on.cluster.view.nodes.name_of(row)),
        };
        is_candidate && self.rejection(row, on).is_none()
    }

    /// The plugin of the first filter that rejects a node, and why. As in runtime/framework.go,
    /// RunFilterPluginsWithNominatedPods: the node is first judged with the nominated pods ahead of the pod.
    pub(super) fn rejection(&mut self, row: Row, on: AskedOn<'_>) -> Option<Reason> {
        self.rejection_or(row, on, || None)
    }

    /// The same with the filters by counts, which come after the uncached ones. `by_counts` is what they say
    /// about the node without nominated pods.
    pub(super) fn rejection_or(
        &mut self,
        row: Row,
        on: AskedOn<'_>,
        by_counts: impl FnOnce() -> Option<Reason>,
    ) -> Option<Reason> {
        let ClusterView { nominations, .. } = on.cluster;
        if nominations.has_ahead(row, self.pod.priority) {
            let ahead = nominations.ahead(row, self.pod.priority, Some(&self.pod));
            if let Some(why) = self.rejection_with(&ahead, row, on) {
                return Some(why);
            }
            // What nominated pods do not move is rejected already with them, before the node is judged without.
            if !ahead.is_empty() && on.moved.is_none() {
                return by_counts().or_else(|| self.rejection_alone(row, on));
            }
        }
        self.rejection_alone(row, on).or_else(by_counts)
    }

    /// The same without nominated pods.
    fn rejection_alone(&mut self, row: Row, on: AskedOn<'_>) -> Option<Reason> {
        let index = on.cluster.name_order.index(row);
        (0..self.all.len()).find_map(|at| {
            let id = self.all[at].verdicts_on(index);
            let why = match id.and_then(|id| self.verdicts.verdict(id, index)) {
                Some(known) => known.err().cloned(),
                None => self.ask(at, row, on),
            };
            Some((self.all[at].plugin, why?))
        })
    }

    /// Why a filter rejects a node, about which it is asked. From the first rejection on verdicts are remembered: most pods are
    /// placed on the first node that is asked about.
    fn ask(&mut self, at: usize, row: Row, on: AskedOn<'_>) -> Option<Rejection> {
        let nodes = on.cluster.view.nodes;
        let why = match self.all[at].prepared.judge_one(&self.pod, nodes, row) {
            Verdict::Pass => None,
            Verdict::Fail(why) => Some(why),
        };
        if why.is_some() && !self.takes_notes {
            self.takes_notes = true;
            self.find_verdicts(on);
        }
        let index = on.cluster.name_order.index(row);
        let is_error = why.as_ref().is_some_and(|why| why.code == Code::Error);
        if let Some(id) = self.all[at].verdicts_on(index)
            && !is_error
            && self.all[at].prepared.may_keep(nodes, row)
        {
            self.verdicts.note(id, index, why.as_ref());
        }
        why
    }

    /// Finds what is remembered, and makes room for more if notes are taken.
    fn find_verdicts(&mut self, on: AskedOn<'_>) {
        let (view, cluster) = (on.cluster.view, on.cluster);
        for one in &mut self.all {
            let Some(source) = one.source else { continue };
            if let Remembered::Unknown = one.remembered {
                one.remembered = match one.prepared.key(&view) {
                    None => Remembered::Not,
                    Some(key) => {
                        let rows = one.prepared.exceptions(&view).into_iter();
                        let mut except: SmallVec<_> =
                            rows.map(|row| cluster.name_order.index(row)).collect();
                        except.sort_unstable();
                        Remembered::By { key, except, id: None }
                    }
                };
            }
            if let Remembered::By { key, id: id @ None, .. } = &mut one.remembered {
                *id = self.verdicts.find(source.0, key, cluster);
                if self.takes_notes && id.is_none() {
                    *id = Some(self.verdicts.make(source, key, cluster));
                }
            }
        }
    }

    /// Finds what is remembered of verdicts, before any node is asked about.
    pub(super) fn recall(&mut self, on: AskedOn<'_>) {
        if !self.verdicts.is_empty() {
            self.find_verdicts(on);
        }
    }

    /// The nodes that are known to be rejected; `None` if none are.
    fn known_rejecting(&self, cluster: ClusterView<'_>) -> Option<Rc<NameIndexBits>> {
        let mut all: Option<NameIndexBits> = None;
        for one in &self.all {
            let Remembered::By { except, id: Some(id), .. } = &one.remembered else { continue };
            let rejecting = self.verdicts.rejecting(*id);
            let none = || NameIndexBits::none(cluster.name_order.n_indices());
            let all = all.get_or_insert_with(none);
            if except.is_empty() {
                all.add_bits(rejecting);
                continue;
            }
            let mut rejecting = rejecting.clone();
            except.iter().for_each(|&index| rejecting.remove(index));
            all.add_bits(&rejecting);
        }
        all.map(Rc::new)
    }

    /// The same with other pods on the node, for which filters by counts are asked, too, if nominated pods count.
    fn rejection_with(&mut self, ahead: &[PodInfo], row: Row, on: AskedOn<'_>) -> Option<Reason> {
        if ahead.is_empty() {
            return None;
        }
        let mut filters: Vec<Prepared> = self.prepared().cloned().collect();
        if let Some(counts) = on.moved {
            filters.extend(counts.prepared_on(row, on.cluster));
        }
        let nodes = on.cluster.view.nodes;
        let on_scratch = OnScratch { scratch: &mut self.scratch, nodes, row };
        let (scratch, only) = on_scratch.with_each(ahead, |pod, scratch, only| {
            for filter in &mut filters {
                filter.update(PodChange::Added(pod), scratch, only);
            }
        });
        let (at, why) = first_rejection(filters.iter(), &self.pod, scratch, only)?;
        let plugin = match self.all.get(at) {
            Some(one) => one.plugin,
            None => on.moved?.filter_names[at - self.all.len()],
        };
        Some((plugin, why))
    }

    /// Looks for nodes that cannot be judged: among all nodes if there may be any, otherwise only among those
    /// with nominated pods, which a filter has not seen when it was prepared.
    pub(super) fn find_errors(
        &mut self,
        profile: &Profile,
        on: AskedOn<'_>,
    ) -> Result<(), CannotJudge> {
        let may_err = self.may_err();
        // If all filters run on each node, none hides the error of another.
        if profile.run_all_filters && may_err {
            return Err(CannotJudge);
        }
        if self.all.is_empty() {
            return Ok(());
        }
        let nominated = on.cluster.nominations.rows();
        let all = may_err.then(|| on.cluster.name_order.rows().map(|(_, row)| row));
        for row in all.into_iter().flatten().chain(nominated) {
            // A filter that rejects the node hides the errors of those after it, as in a decision from scratch.
            let why = self.rejection(row, on);
            if why.is_some_and(|(_, why)| why.code == Code::Error) {
                return Err(CannotJudge);
            }
        }
        Ok(())
    }

    /// Whether one of them rejects a node with the nominated pods ahead of the pod.
    pub(super) fn reject_with_nominated(&mut self, row: Row, on: AskedOn<'_>) -> bool {
        let ahead = on.cluster.nominations.ahead(row, self.pod.priority, Some(&self.pod));
        self.rejection_with(&ahead, row, on).is_some()
    }

    /// The prepared filters.
    pub(super) fn prepared(&self) -> impl Iterator<Item = &Prepared> {
        self.all.iter().map(|one| &one.prepared)
    }

    /// Whether one of them may be unable to judge a node.
    pub(super) fn may_err(&self) -> bool {
        self.prepared().any(Prepared::may_err)
    }

    /// The only nodes on which all of them may pass; `None` if these may be any.
    fn only_on(&self, name_order: &NameOrder) -> Option<Vec<NameIndex>> {
        let only = self.only_on.as_ref()?;
        Some(only.iter().filter_map(|name| name_order.find(name)).collect())
    }

    /// Labels that a node must have so that all of them may pass. They are not asked for before some node was rejected: most pods
    /// are placed on the first node that is asked about.
    fn only_with(&self) -> Vec<LabelledNodes> {
        if self.verdicts.is_empty() {
            return Vec::new();
        }
        self.prepared().flat_map(Prepared::passes_only_with).collect()
    }

    /// Whether there is a score on demand.
    pub(super) fn score_on_demand(&self) -> bool {
        self.on_demand.is_some()
    }

    /// Whether they limit the nodes to judge.
    pub(super) fn limit_nodes(&self) -> bool {
        self.candidates != Candidates::All
    }
}

fn first_rejection<'f>(
    filters: impl Iterator<Item = &'f Prepared>,
    pod: &PodInfo,
    nodes: &Columns,
    row: Row,
) -> Option<(usize, Rejection)> {
    let verdicts = filters.map(|one| one.judge_one(pod, nodes, row)).enumerate();
    verdicts.into_iter().find_map(|(at, verdict)| match verdict {
        Verdict::Pass => None,
        Verdict::Fail(why) => Some((at, why)),
    })
}

impl Memo {
    /// Gives uncached filters what is remembered of their verdicts while a pod is decided.
    pub(super) fn with_verdicts<T>(
        &mut self,
        profile: &Profile,
        uncached: &mut UncachedFilters,
        decide: impl FnOnce(&mut Self, &mut UncachedFilters) -> T,
    ) -> T {
        if let Some(of_profile) = self.profiles.get_mut(profile) {
            uncached.verdicts = std::mem::take(&mut of_profile.verdicts);
        }
        let decided = decide(self, uncached);
        if let Some(of_profile) = self.profiles.get_mut(profile) {
            of_profile.verdicts = std::mem::take(&mut uncached.verdicts);
        }
        uncached.takes_notes = false;
        uncached.all.iter_mut().for_each(|one| one.remembered = Remembered::Unknown);
        decided
    }

    /// Chooses among the groups of nodes. The ranking and the counts must be up to date. `own` is the rejection by
    /// the nominated node of the pod. `None` if the pod must be decided from scratch.
    pub(super) fn choose_uncached(
        &mut self,
        member: Member<'_>,
        ranked_by: RankedBy,
        uncached: &mut UncachedFilters,
        on: Snapshot<'_>,
        (want, order): (Want, Option<SampleOrder<'_>>),
        chance: &mut TieBreaker<'_, impl Rng>,
    ) -> Option<Cycle> {
        let RankedBy { with, is_moved } = ranked_by;
        let own = match self.try_nominated_node(member.pod, with, on).ok()? {
            NominatedNode::None => None,
            NominatedNode::Rejected(own) if own.why.code == Code::Error => return None,
            // Filters by counts are asked only about nodes that these pass.
            NominatedNode::Rejected(own) if self.counts.get(with.1)?.is_of(own.plugin) => {
                let cluster = self.node_set.as_ref()?.with(on.view);
                let moved = self.counts.get(with.1).filter(|_| is_moved);
                let row = cluster.name_order.row(own.index);
                if uncached.limit_nodes() {
                    return None;
                }
                let by_counts = || Some((own.plugin, own.why.clone()));
                let why = uncached.rejection_or(row, AskedOn { cluster, moved }, by_counts);
                let (plugin, why) = why?;
                if why.code == Code::Error {
                    return None;
                }
                Some(NominatedNodeRejection { plugin, why, ..own })
            }
            NominatedNode::Rejected(own) => Some(own),
            NominatedNode::Passes(_) if uncached.limit_nodes() => return None,
            NominatedNode::Passes(row) => {
                let cluster = self.node_set.as_ref()?.with(on.view);
                let moved = self.counts.get(with.1).filter(|_| is_moved);
                match uncached.rejection(row, AskedOn { cluster, moved }) {
                    None => return Some(Cycle::found_only(row, 1)),
                    Some((_, why)) if why.code == Code::Error => return None,
                    Some((plugin, why)) => {
                        let index = cluster.name_order.index(row);
                        Some(NominatedNodeRejection { index, plugin, why })
                    }
                }
            }
        };
        let few = self.node_set.as_mut()?.few_with(&uncached.only_with(), on.view);
        let node_set = self.node_set.as_ref()?;
        let cluster = node_set.with(on.view);
        let chooser = Chooser::of((&self.rankings, &self.counts), with, cluster)?;
        let asked = AskedOn { cluster, moved: is_moved.then_some(chooser.domain_counts) };
        uncached.find_errors(member.profile, asked).ok()?;
        let only_on = uncached.only_on(cluster.name_order).or(few);
        let on_demand = uncached.on_demand.take();
        uncached.recall(asked);
        let rejecting = uncached.known_rejecting(cluster);
        let feasible = chooser.feasible_now().limited_to(only_on).without(rejecting);
        if let Some(order) = order.filter(|order| order.limit < feasible.len()) {
            if uncached.limit_nodes() {
                return None;
            }
            let visited = Visited::new(&chooser, &feasible, order, |row| {
                let may_pass = feasible
                    .only()
                    .is_none_or(|only| only.binary_search(&cluster.name_order.index(row)).is_ok());
                may_pass && uncached.pass(row, asked)
            });
            self.phases.over(MeteredPoint::Filter);
            if !visited.is_empty() {
                self.phases.is_scored = visited.is_scored();
                let n_judged = visited.n_judged(node_set.nominated_row(member.pod, on.nominated));
                return match &on_demand {
                    None => visited.choose(&chooser, &feasible, n_judged, want, chance),
                    Some(score) => {
                        let with = (&chooser, &feasible, score);
                        visited.choose_on_demand(with, n_judged, want, chance)
                    }
                };
            }
            let failure = self.late_failure(member, ranked_by, uncached, own.as_ref(), on.view)?;
            return Some(Cycle::failed(failure, on.view.nodes.len()));
        }
        let wanted = (want, self.most_asked_for_margin());
        let choice = chooser.choose_passing(feasible, wanted, on_demand.as_ref(), |index| {
            uncached.pass(cluster.name_order.row(index), asked)
        });
        self.phases.over(MeteredPoint::Filter);
        match choice {
            PassingChoice::Unclear => None,
            PassingChoice::Best { rows, n_feasible, margin } => {
                let is_scored = n_feasible != Some(1);
                self.phases.is_scored = is_scored;
                if uncached.limit_nodes() {
                    return self.only_of_limited(uncached, &rows, is_scored, own.is_some());
                }
                let cycle = found(rows, on.view.nodes.len(), want, chance);
                Some(Cycle { n_feasible, margin, ..cycle })
            }
            PassingChoice::Nothing if uncached.limit_nodes() => None,
            PassingChoice::Nothing => {
                let failure =
                    self.late_failure(member, ranked_by, uncached, own.as_ref(), on.view)?;
                Some(Cycle::failed(failure, on.view.nodes.len()))
            }
        }
    }

    /// The choice if filters limit the nodes to judge and one of these is feasible.
    fn only_of_limited(
        &self,
        uncached: &UncachedFilters,
        rows: &[Row],
        is_scored: bool,
        was_nominated: bool,
    ) -> Option<Cycle> {
        let (Candidates::Only(names), &[row], false, false) =
            (&uncached.candidates, rows, is_scored, was_nominated)
        else {
            return None;
        };
        let name_order = &self.node_set.as_ref()?.name_order;
        let n_judged = names.iter().filter(|name| name_order.find(name).is_some()).count();
        Some(Cycle::found_only(row, n_judged))
    }
}

impl ProfileMemo {
    /// The uncached filters that apply to a pod, in the order of the profile; `None` if one of them rejects
    /// the pod for all nodes.
    pub(super) fn prepare_uncached_filters(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        view: &View<'_>,
    ) -> Option<UncachedFilters> {
        let mut shared = CycleState::new();
        let mut all = Vec::new();
        let mut candidates = Candidates::All;
        let mut only_on: Option<Vec<Str>> = None;
        for (index, _) in profile.indices(Point::PreFilter) {
            if !self.uncached.contains(&index) {
                continue;
            }
            let plugin = profile.get(index);
            let Some(filter) = &plugin.points.filter else { continue };
            let prepared = filter.prepare(pod, &mut shared, view);
            if prepared.rejection().is_some() {
                return None;
            }
            if let Candidates::Only(names) = prepared.candidates() {
                candidates = Candidates::Only(match candidates {
                    Candidates::All => names,
                    Candidates::Only(before) => before.intersection(&names).cloned().collect(),
                });
            }
            if let Some(names) = prepared.passes_only_on() {
                only_on = Some(match only_on {
                    None => names,
                    Some(before) => names.into_iter().filter(|one| before.contains(one)).collect(),
                });
            }
            if !prepared.skips() {
                let place = profile.indices(Point::Filter).position(|(other, _)| other == index);
                let place = place.expect("an uncached filter is at Filter");
                let source = filter.concerns().map(|_| (index, plugin.points.reads.node));
                all.push(UncachedFilter::new(plugin.name, place, prepared, source));
            }
        }
        all.sort_by_key(|one| one.place);
        let on_demand = self.scores_that_matter(profile, pod, view).next();
        let on_demand = on_demand.and_then(|(score, weight)| {
            let scores = score.scores_on_demand(pod, view)?;
            Some(WeightedOnDemand { weight, scores })
        });
        Some(UncachedFilters { all, candidates, only_on, on_demand, ..UncachedFilters::none(pod) })
    }

    /// Whether an uncached filter applies to a pod, or a score on demand matters to it.
    pub(super) fn has_uncached(&self, profile: &Profile, pod: &PodInfo, view: &View<'_>) -> bool {
        self.uncached.iter().any(|&index| {
            let filter = &profile.get(index).points.filter;
            filter.as_ref().is_some_and(|filter| filter.applies(pod))
        }) || self.scores_that_matter(profile, pod, view).next().is_some()
    }

    /// The scores on demand in which nodes may differ, with their weights.
    fn scores_that_matter<'p>(
        &self,
        profile: &'p Profile,
        pod: &PodInfo,
        view: &View<'_>,
    ) -> impl Iterator<Item = (&'p ScorePoint, i64)> {
        self.on_demand.iter().filter_map(|&(index, weight)| {
            let score = profile.get(index).points.score.as_ref();
            Some((score.filter(|score| score.matters_in(pod, view))?, weight))
        })
    }
}
