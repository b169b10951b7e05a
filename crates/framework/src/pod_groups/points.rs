//! The points at which plugins decide about groups.

use plimsoll_api::pod_group::GroupPolicy;
use plimsoll_api::{CompositePodGroup, ObjectKey, PodGroup, PodKey, PreemptionPolicy, Str};

use crate::binding::Handle;
use crate::columns::Row;
use crate::plugin::Plugin;
use crate::pod_info::PodInfo;
use crate::status::Reason;
use crate::view::View;

/// A group in its scheduling cycle.
#[derive(Clone, Copy, Debug)]
pub struct GroupInCycle<'a> {
    /// Its namespace and name.
    pub key: &'a ObjectKey,
    /// The object, if it exists and is no composite group.
    pub object: Option<&'a PodGroup>,
    /// The object, if it is a composite group: a group of groups.
    pub composite: Option<&'a CompositePodGroup>,
    /// The PodGroups that have its pods: itself, or those of a composite group on all levels.
    pub leaves: &'a [ObjectKey],
    /// The members that the cycle tries, in the order in which it does.
    pub members: &'a [PodInfo],
}

impl GroupInCycle<'_> {
    /// Its policy. A group without an object has none, which is the basic one.
    pub fn policy(&self) -> GroupPolicy {
        let of_composite = self.composite.map(|composite| composite.policy);
        of_composite.or(self.object.map(|object| object.policy)).unwrap_or_default()
    }

    /// Its priority; 0 without an object.
    pub fn priority(&self) -> i32 {
        let of_composite = self.composite.map(|composite| composite.priority);
        of_composite.or(self.object.map(|object| object.priority)).unwrap_or(0)
    }

    /// Whether it may evict others, by its object.
    pub fn preemption_policy(&self) -> PreemptionPolicy {
        let of_composite = self.composite.map(|composite| composite.preemption_policy);
        of_composite.or(self.object.map(|object| object.preemption_policy)).unwrap_or_default()
    }

    /// The label of nodes of which all its pods must have the same value.
    pub fn topology_key(&self) -> Option<&Str> {
        match self.composite {
            Some(composite) => composite.topology_key(),
            None => self.object?.topology_key(),
        }
    }

    /// The labels of nodes of which all its pods should have the same values, as its object gives them; see
    /// [`PodGroup::preferred_topology`].
    pub fn preferred_topology(&self) -> Option<&Str> {
        match self.composite {
            Some(composite) => composite.preferred_topology.as_ref(),
            None => self.object?.preferred_topology.as_ref(),
        }
    }

    /// How many of its pods are on nodes.
    pub fn n_placed(&self, view: &View<'_>) -> usize {
        let states = self.leaves.iter().filter_map(|leaf| view.stores.groups.get(leaf));
        states.map(super::PodGroupState::n_placed).sum()
    }

    /// Its pods on nodes, with the names of these.
    pub fn placed<'v>(&'v self, view: &'v View<'_>) -> impl Iterator<Item = (&'v PodKey, &'v Str)> {
        let states = self.leaves.iter().filter_map(|leaf| view.stores.groups.get(leaf));
        states.flat_map(super::PodGroupState::placed)
    }
}

/// Nodes on which a group may be placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupPlacement {
    /// Its name, such as the value of a label; empty for the placement of all nodes.
    pub name: Str,
    /// The nodes, ascending.
    pub rows: Vec<Row>,
    /// Placements of a higher level are tried only if the group fits on none of a lower one.
    pub level: usize,
}

/// A placement with the members that were placed there for trial.
#[derive(Clone, Copy, Debug)]
pub struct ProposedPlacement<'a> {
    /// The nodes.
    pub placement: &'a GroupPlacement,
    /// The members that got a node, in the order in which they were tried.
    pub members: &'a [(PodInfo, Row)],
}

/// Says on which nodes a group may be placed. At most one plugin of a profile does.
pub trait PlacementGenerate: Plugin {
    /// The placements among the nodes `all`; `None` for that of all nodes, which is then not named. An empty list: there is
    /// none.
    fn placements(
        &self,
        group: &GroupInCycle<'_>,
        all: &[Row],
        view: &View<'_>,
    ) -> Result<Option<Vec<GroupPlacement>>, Reason>;
}

/// How far the cycle of a group has come on one placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementProgress {
    /// How many of its pods have a node, including those that run already; of a composite group, how many of its groups
    /// fit.
    pub scheduled: usize,
    /// How many are still to be tried.
    pub remaining: usize,
}

/// Whether a group may still fit on a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementFeasibility {
    /// It fits with what is scheduled so far.
    Feasible,
    /// Not yet, but it may with what remains. If nothing remains, it does not.
    NotYet(Reason),
    /// It does not, whatever becomes of what remains.
    Infeasible(Reason),
    /// It cannot be judged.
    Error(Reason),
}

/// Says whether a group fits on a placement, before its first member is tried and after each. For a composite group, its
/// groups take the place of members. Since 1.37; all plugins of a profile that implement it are asked.
pub trait PlacementFeasible: Plugin {
    /// Whether it answers [`Feasible`](PlacementFeasibility::Feasible) or [`NotYet`](PlacementFeasibility::NotYet). After most
    /// members only this is asked, so a plugin that makes a text for its answer should say it without one.
    fn may_still_fit(&self, group: &GroupInCycle<'_>, progress: PlacementProgress) -> bool {
        match self.placement_feasible(group, progress) {
            PlacementFeasibility::Feasible | PlacementFeasibility::NotYet(_) => true,
            PlacementFeasibility::Infeasible(_) | PlacementFeasibility::Error(_) => false,
        }
    }
    /// The group fits if every plugin says so.
    fn placement_feasible(
        &self,
        group: &GroupInCycle<'_>,
        progress: PlacementProgress,
    ) -> PlacementFeasibility;
}

/// Scores placements of one level on which a group fits, if there are several.
pub trait PlacementScore: Plugin {
    /// The score of one placement. The view has none of the members on a node that the cycle places.
    fn score_placement(
        &self,
        group: &GroupInCycle<'_>,
        proposed: &ProposedPlacement<'_>,
        view: &View<'_>,
    ) -> Result<i64, Reason>;
    /// Whether the score depends on which nodes of the placement the members are on. If not, members need not be placed for it:
    /// where it can be counted how many fit, each is proposed for the first node.
    fn looks_at_nodes(&self) -> bool {
        true
    }
    /// What people are told about a placement on which the group fits, if they ask why one was chosen.
    fn describe_placement(
        &self,
        _group: &GroupInCycle<'_>,
        _proposed: &ProposedPlacement<'_>,
        _view: &View<'_>,
    ) -> Option<String> {
        None
    }
    /// Brings the scores of all placements into the range of 0 to [`MAX_NODE_SCORE`](crate::MAX_NODE_SCORE).
    fn normalize_placement_scores(&self, _scores: &mut [i64]) -> Result<(), Reason> {
        Ok(())
    }
}

/// What becomes of a group for which there is no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupPostFilterAnswer {
    /// Pods are evicted for it, and it waits until they are gone.
    Preempts {
        /// The pods to evict; none if earlier evictions are still in progress.
        victims: Vec<PodKey>,
        /// The members for which room is reserved, each with its node. Since 1.37; before, the engine reserves where they
        /// fitted.
        nominations: Vec<(PodKey, Str)>,
        /// How many of the evictions violate a PodDisruptionBudget.
        broken_budgets: i64,
        /// What is added to the status of the group.
        says: Reason,
    },
    /// Nothing can be done.
    Unschedulable(Reason),
    /// The plugin failed.
    Error(Reason),
}

/// The cluster with some pods removed, to find out whether a group would fit. Nothing of it remains.
pub trait GroupDryRun {
    /// The cluster as it would be.
    fn view(&self) -> View<'_>;
    /// All nodes, one of each zone in turn.
    fn nodes(&self) -> Vec<Row>;
    /// Removes a pod from its node.
    fn remove(&mut self, pod: &PodKey);
    /// Puts a pod back that was removed.
    fn put_back(&mut self, pod: &PodKey);
    /// Tries to schedule the whole group, without PostFilter plugins.
    fn try_group(&mut self) -> Result<(), GroupMisfit>;
    /// The same, and keeps which node each member got, in the order in which they were placed. Since 1.37.
    fn assign_group(&mut self) -> Result<Vec<(PodKey, Str)>, GroupMisfit>;
    /// Whether each member still passes all filters on the node that it got from [`assign_group`](Self::assign_group), on
    /// the cluster as it now is with the members before it.
    fn still_fits(&mut self) -> bool;
}

/// Why a group does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupMisfit {
    /// There is no room.
    Unschedulable(Reason),
    /// It could not be judged.
    Error(Reason),
}

/// Makes room for a group as a whole: workload-aware preemption. Needs [`PostFilter`](crate::PostFilter).
pub trait GroupPostFilter: Plugin {
    /// Chooses the pods to evict. The group did not fit.
    fn group_post_filter(
        &self,
        group: &GroupInCycle<'_>,
        dry_run: &mut dyn GroupDryRun,
    ) -> GroupPostFilterAnswer;
}

/// Does something for a group that does not fit, other than evicting pods: it writes. Since 1.37; before, the PostFilter
/// plugins are asked for each pod.
pub trait GroupRemedy: Plugin {
    /// Whether something is done for a member, and what is said about it. Called for the members that the plugin has
    /// rejected on some node, one after the other, until something is done for one; after the plugins that make room for the
    /// group by [`GroupPostFilter`] were asked. Without `handle` it is only asked. The answers to what is written come to
    /// [`Answered::answered_without_node`](crate::Answered::answered_without_node).
    fn group_remedy(
        &self,
        member: &PodInfo,
        view: &View<'_>,
        handle: Option<&mut Handle<'_>>,
    ) -> Option<Reason>;
}
