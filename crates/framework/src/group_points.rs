//! The points about groups of pods as the engine sees them.

use std::sync::Arc;

use crate::binding::Handle;
use crate::columns::Row;
use crate::pod_groups::{
    GroupDryRun, GroupInCycle, GroupPlacement, GroupPostFilter, GroupPostFilterAnswer, GroupRemedy,
    PlacementFeasibility, PlacementFeasible, PlacementGenerate, PlacementProgress, PlacementScore,
    ProposedPlacement,
};
use crate::pod_info::PodInfo;
use crate::status::Reason;
use crate::view::View;

type PlacementsFn = dyn Fn(&GroupInCycle<'_>, &[Row], &View<'_>) -> Result<Option<Vec<GroupPlacement>>, Reason>
    + Send
    + Sync;

/// A PlacementGenerate plugin of a profile.
pub struct PlacementGeneratePoint(Box<PlacementsFn>);

impl PlacementGeneratePoint {
    pub(crate) fn new<P: PlacementGenerate>(plugin: Arc<P>) -> Self {
        PlacementGeneratePoint(Box::new(move |group, all, view| {
            plugin.placements(group, all, view)
        }))
    }

    /// The placements of a group; `None` for that of all nodes.
    pub fn placements(
        &self,
        group: &GroupInCycle<'_>,
        all: &[Row],
        view: &View<'_>,
    ) -> Result<Option<Vec<GroupPlacement>>, Reason> {
        (self.0)(group, all, view)
    }
}

type ScorePlacementFn = dyn Fn(&GroupInCycle<'_>, &ProposedPlacement<'_>, &View<'_>) -> Result<i64, Reason>
    + Send
    + Sync;

type DescribePlacementFn =
    dyn Fn(&GroupInCycle<'_>, &ProposedPlacement<'_>, &View<'_>) -> Option<String> + Send + Sync;
type NormalizePlacementsFn = dyn Fn(&mut [i64]) -> Result<(), Reason> + Send + Sync;

/// A PlacementScore plugin of a profile.
pub struct PlacementScorePoint {
    score: Box<ScorePlacementFn>,
    describe: Box<DescribePlacementFn>,
    normalize: Box<NormalizePlacementsFn>,
    looks_at_nodes: bool,
}

impl PlacementScorePoint {
    pub(crate) fn new<P: PlacementScore>(plugin: Arc<P>) -> Self {
        let (scoring, describing) = (plugin.clone(), plugin.clone());
        PlacementScorePoint {
            looks_at_nodes: plugin.looks_at_nodes(),
            score: Box::new(move |group, proposed, view| {
                scoring.score_placement(group, proposed, view)
            }),
            describe: Box::new(move |group, proposed, view| {
                describing.describe_placement(group, proposed, view)
            }),
            normalize: Box::new(move |scores| plugin.normalize_placement_scores(scores)),
        }
    }

    /// The score of one placement.
    pub fn score(
        &self,
        group: &GroupInCycle<'_>,
        proposed: &ProposedPlacement<'_>,
        view: &View<'_>,
    ) -> Result<i64, Reason> {
        (self.score)(group, proposed, view)
    }

    /// Whether the score depends on which nodes of the placement the members are on.
    pub fn looks_at_nodes(&self) -> bool {
        self.looks_at_nodes
    }

    /// What people are told about a placement.
    pub fn describe(
        &self,
        group: &GroupInCycle<'_>,
        proposed: &ProposedPlacement<'_>,
        view: &View<'_>,
    ) -> Option<String> {
        (self.describe)(group, proposed, view)
    }

    /// Normalizes the scores of all placements.
    pub fn normalize(&self, scores: &mut [i64]) -> Result<(), Reason> {
        (self.normalize)(scores)
    }
}

type PlacementFeasibleFn =
    dyn Fn(&GroupInCycle<'_>, PlacementProgress) -> PlacementFeasibility + Send + Sync;

type MayStillFitFn = dyn Fn(&GroupInCycle<'_>, PlacementProgress) -> bool + Send + Sync;

/// A PlacementFeasible plugin of a profile.
pub struct PlacementFeasiblePoint {
    placement_feasible: Box<PlacementFeasibleFn>,
    may_still_fit: Box<MayStillFitFn>,
}

impl PlacementFeasiblePoint {
    pub(crate) fn new<P: PlacementFeasible>(plugin: Arc<P>) -> Self {
        let same = plugin.clone();
        PlacementFeasiblePoint {
            placement_feasible: Box::new(move |group, progress| {
                plugin.placement_feasible(group, progress)
            }),
            may_still_fit: Box::new(move |group, progress| same.may_still_fit(group, progress)),
        }
    }

    /// Whether the group fits or may fit with what remains.
    pub fn may_still_fit(&self, group: &GroupInCycle<'_>, progress: PlacementProgress) -> bool {
        (self.may_still_fit)(group, progress)
    }

    /// Whether the group fits with what is scheduled so far.
    pub fn placement_feasible(
        &self,
        group: &GroupInCycle<'_>,
        progress: PlacementProgress,
    ) -> PlacementFeasibility {
        (self.placement_feasible)(group, progress)
    }
}

type GroupPostFilterFn =
    dyn Fn(&GroupInCycle<'_>, &mut dyn GroupDryRun) -> GroupPostFilterAnswer + Send + Sync;

/// A plugin of a profile that makes room for groups.
#[derive(Clone)]
pub struct GroupPostFilterPoint(Arc<GroupPostFilterFn>);

impl GroupPostFilterPoint {
    pub(crate) fn new<P: GroupPostFilter>(plugin: Arc<P>) -> Self {
        GroupPostFilterPoint(Arc::new(move |group, dry_run| {
            plugin.group_post_filter(group, dry_run)
        }))
    }

    /// Chooses the pods to evict.
    pub fn group_post_filter(
        &self,
        group: &GroupInCycle<'_>,
        dry_run: &mut dyn GroupDryRun,
    ) -> GroupPostFilterAnswer {
        (self.0)(group, dry_run)
    }
}

type GroupRemedyFn =
    dyn Fn(&PodInfo, &View<'_>, Option<&mut Handle<'_>>) -> Option<Reason> + Send + Sync;

/// A plugin of a profile that does something for groups that do not fit.
#[derive(Clone)]
pub struct GroupRemedyPoint(Arc<GroupRemedyFn>);

impl GroupRemedyPoint {
    pub(crate) fn new<P: GroupRemedy>(plugin: Arc<P>) -> Self {
        GroupRemedyPoint(Arc::new(move |member, view, handle| {
            plugin.group_remedy(member, view, handle)
        }))
    }

    /// Does something for a member, and says what.
    pub fn group_remedy(
        &self,
        member: &PodInfo,
        view: &View<'_>,
        handle: Option<&mut Handle<'_>>,
    ) -> Option<Reason> {
        (self.0)(member, view, handle)
    }
}
