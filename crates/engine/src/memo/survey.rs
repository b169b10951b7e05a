//! Why no node takes pods of one kind, node by node.
//!
//! A [`Shape`] knows which nodes pass. Where none does, the pod and its owner are told how many nodes
//! reject it for which reasons; so the reasons are remembered, too, and found again only on nodes that
//! have changed.

use plimsoll_framework::parts::{NodeReads, StoreReads};
use plimsoll_framework::{Code, ErasedByNode, PodInfo, Point, PostFilterAnswer, Rejection, Row};

use super::counted::{Counted, ValueId};
use super::nominations;
use super::preemption::{BYTES_PER_REASON, Cleared, Turn};
use super::rank_set::Rank;
use super::shape::{Ground, Shape};
use super::trail::Trail;
use crate::cycle::Failure;
use crate::diagnosis::{self, Cause};
use crate::profile::Profile;

/// The node passes.
const PASSES: ValueId = ValueId::MAX;
/// More different reasons than this for each node, and they are sorted anew.
const MOST_REASONS_PER_NODE: usize = 8;

/// Why nodes reject pods of one shape and one priority, and what it would take to clear them.
pub(crate) struct Survey {
    /// How far the changes of nodes have been followed.
    followed: u64,
    reasons: Counted<(&'static str, Rejection)>,
    /// By rank.
    reason_of: Vec<ValueId>,
    n_passing: usize,
    /// The rows of the nodes on which evictions could help, ascending.
    places: Vec<Row>,
    /// Whether `places` has to be found anew.
    has_moved: bool,
    /// What each PostFilter plugin that looks at nodes one by one has found.
    cleared: Vec<(&'static str, Cleared)>,
}

/// The node that was cleared for a pod, and why it rejects the pod: as all others see the node, the pod
/// is on it.
pub(crate) struct OwnNode {
    pub(crate) rank: Rank,
    pub(crate) plugin: &'static str,
    pub(crate) why: Rejection,
}

impl Survey {
    /// Looks at all nodes.
    pub(crate) fn new(shape: &mut Shape, followed: u64, ground: Ground<'_>) -> Self {
        let n_nodes = ground.ranks.len();
        let mut survey = Survey {
            followed,
            reasons: Counted::default(),
            reason_of: vec![PASSES; n_nodes],
            n_passing: n_nodes,
            places: Vec::new(),
            has_moved: true,
            cleared: Vec::new(),
        };
        for (rank, row) in ground.ranks.rows() {
            survey.look(rank, row, shape, ground);
        }
        survey
    }

    /// Follows what has changed. `false` if that is too long ago.
    pub(crate) fn follow(
        &mut self,
        shape: &mut Shape,
        trail: &Trail<(Rank, NodeReads)>,
        ground: Ground<'_>,
    ) -> bool {
        let most = MOST_REASONS_PER_NODE * self.reason_of.len();
        let Some(changes) = trail.since(self.followed).filter(|_| {
            self.reasons.n_numbers() <= most
                && self.cleared.iter().all(|(_, cleared)| cleared.n_reasons() <= most)
        }) else {
            return false;
        };
        self.followed = trail.end();
        for (rank, _) in changes {
            self.look(rank, ground.ranks.row(rank), shape, ground);
        }
        true
    }

    fn look(&mut self, rank: Rank, row: Row, shape: &mut Shape, ground: Ground<'_>) {
        for (_, cleared) in &mut self.cleared {
            cleared.forget(row);
        }
        let first = shape.why(rank, row, ground);
        let reason = first.map_or(PASSES, |(at, why)| self.reasons.add((shape.plugin(at), why)));
        let before = std::mem::replace(&mut self.reason_of[rank as usize], reason);
        self.has_moved |= self.could_help(before) != self.could_help(reason);
        if before != PASSES {
            self.reasons.sub(before);
        }
        self.n_passing += usize::from(reason == PASSES);
        self.n_passing -= usize::from(before == PASSES);
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.reason_of.len() * (size_of::<ValueId>() + size_of::<Row>())
            + self.reasons.n_numbers() * BYTES_PER_REASON
            + self.cleared.iter().map(|(_, cleared)| cleared.bytes()).sum::<usize>()
    }

    /// Whether evictions could help against a reason.
    fn could_help(&self, reason: ValueId) -> bool {
        reason != PASSES && self.reasons.value(reason).1.code == Code::Unschedulable
    }

    /// Forgets what was made of stores that have changed.
    pub(crate) fn forget_stores(&mut self, stores: StoreReads) {
        self.cleared.retain(|(_, cleared)| !cleared.reads().intersects(stores));
    }

    /// Why `pod` cannot be placed, and what its PostFilter plugins say. `None` if that can only be told
    /// from scratch.
    pub(crate) fn failure(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        shape: &mut Shape,
        own: Option<&OwnNode>,
        ground: Ground<'_>,
    ) -> Option<Failure> {
        let passing = usize::from(own.is_some_and(|own| self.reason(own.rank) == PASSES));
        if self.n_passing != passing || own.is_some_and(|own| !self.agrees(own)) {
            return None;
        }
        let mut failure = self.rejected_by_all(own)?;
        let mut said = Vec::new();
        for (plugin, _) in profile.at(Point::PostFilter) {
            let Some(point) = &plugin.points.post_filter else { continue };
            // With all nodes judged, every filter has looked.
            let mut filters = profile.at(Point::PreFilter).chain(profile.at(Point::Filter));
            let has_looked = plugin.points.filter.is_some()
                && filters.any(|(filter, _)| filter.name == plugin.name);
            let answer = match (point.without_nodes(pod, has_looked), point.by_node()) {
                (Some(answer), _) => answer,
                (None, None) => return None,
                (None, Some(point)) => {
                    let nominated = self.nominated(pod, own, ground);
                    match point.at_once(pod, nominated, &ground.view) {
                        Some(answer) => answer,
                        None => self.clear(plugin.name, point, pod, shape, own, ground)?,
                    }
                }
            };
            if failure.take_in(plugin.name, answer, &mut said).is_break() {
                break;
            }
        }
        failure.conclude(profile, said);
        Some(failure)
    }

    /// How the nodes reject a pod, without what PostFilter says; `None` where some node could not be
    /// judged.
    fn rejected_by_all(&self, own: Option<&OwnNode>) -> Option<Failure> {
        let without = own.map(|own| self.reason(own.rank)).filter(|&reason| reason != PASSES);
        let counted = self.reasons.iter(without).map(|((plugin, why), n)| (*plugin, why, n));
        let counted = counted.chain(own.map(|own| (own.plugin, &own.why, 1)));
        let mut failure = Failure::default();
        let mut rejections = Vec::new();
        for (plugin, why, n) in counted {
            if why.code == Code::Error {
                return None;
            }
            failure.blame(plugin, why.code);
            rejections.push((why, n));
        }
        failure.message = diagnosis::fit_error(self.reason_of.len(), &Cause::Counted(&rejections));
        Some(failure)
    }

    fn reason(&self, rank: Rank) -> ValueId {
        self.reason_of[rank as usize]
    }

    /// Whether evictions on the own node could help as much for the pod as for all others.
    fn agrees(&self, own: &OwnNode) -> bool {
        self.could_help(self.reason(own.rank)) == (own.why.code == Code::Unschedulable)
    }

    /// The node of which the pod says that it was cleared for it, and why it rejects the pod.
    fn nominated(
        &self,
        pod: &PodInfo,
        own: Option<&OwnNode>,
        ground: Ground<'_>,
    ) -> Option<(Row, Code)> {
        let name = pod.nominated_node.as_ref()?;
        let rank = nominations::find(name, ground.ranks, ground.view.nodes)?;
        let code = match own.filter(|own| own.rank == rank) {
            Some(own) => own.why.code,
            None => self.reasons.value(self.reason(rank)).1.code,
        };
        Some((ground.ranks.row(rank), code))
    }

    fn clear(
        &mut self,
        name: &'static str,
        plugin: &dyn ErasedByNode,
        pod: &PodInfo,
        shape: &mut Shape,
        own: Option<&OwnNode>,
        ground: Ground<'_>,
    ) -> Option<PostFilterAnswer> {
        if self.has_moved {
            let rows = ground.ranks.rows();
            let could_help = rows.filter(|&(rank, _)| self.could_help(self.reason(rank)));
            self.places = could_help.map(|(_, row)| row).collect();
            self.places.sort_unstable();
            self.has_moved = false;
        }
        if !self.cleared.iter().any(|(known, _)| *known == name) {
            self.cleared.push((name, Cleared::new(plugin.reads(), ground)));
        }
        let cleared = self.cleared.iter_mut().find(|(known, _)| *known == name);
        let (_, cleared) = cleared.expect("it was just made");
        let own = own.map(|own| ground.ranks.row(own.rank));
        let mut turn = Turn::new(plugin, pod, shape, &self.places, own, cleared, ground);
        plugin.choose(pod, &mut turn)
    }
}
