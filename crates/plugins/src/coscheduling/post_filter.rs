//! PostFilter: a pod of a group has no node. The whole group may then be given up.

use plimsoll_framework::prelude::*;

use super::object::Groups;
use super::{Coscheduling, LABEL, group_of, in_usize, reject_waiting};

const NO_GROUP: Reason = Reason::Text("can not find pod group");
const REJECTED: Reason = Reason::Text("optimistic rejection in PostFilter");

/// What follows for the group of a pod that has no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupAnswer {
    /// The pod has no group.
    None,
    /// Enough pods have a node, or so few lack one that the others are tried, too.
    GoesOn,
    /// The others would most likely fail as well: the group is given up for now.
    IsRejected(ObjectKey),
}

impl Coscheduling {
    /// As in coscheduling.go, PostFilter.
    pub(super) fn group_answer(&self, pod: &PodInfo, view: &View<'_>) -> GroupAnswer {
        let groups = Groups::of(view.stores);
        let Some(key) = group_of(pod) else { return GroupAnswer::None };
        let Some((group, _)) = groups.get(&key) else { return GroupAnswer::None };
        let members = view.stores.labelled.get(LABEL, &key);
        let n_placed = members.map_or(0, |members| members.placed().len());
        let n_placed = u32::try_from(n_placed).unwrap_or(u32::MAX);
        if group.min_member <= n_placed {
            return GroupAnswer::GoesOn;
        }
        let lacking = f64::from(group.min_member - n_placed) / f64::from(group.min_member);
        if lacking <= self.0.tolerated_part() {
            return GroupAnswer::GoesOn;
        }
        GroupAnswer::IsRejected(key)
    }

    fn answer(&self, pod: &PodInfo, view: &View<'_>) -> PostFilterAnswer {
        PostFilterAnswer::Unschedulable(match self.group_answer(pod, view) {
            GroupAnswer::None => NO_GROUP,
            GroupAnswer::GoesOn => Reason::Text(""),
            GroupAnswer::IsRejected(group) => {
                let pod = &pod.key.name;
                let text = format!(
                    "PodGroup {group} gets rejected due to Pod {pod} is unschedulable even after PostFilter"
                );
                text.into()
            }
        })
    }
}

impl PostFilter for Coscheduling {
    fn without_nodes(&self, pod: &PodInfo, _: bool) -> Option<PostFilterAnswer> {
        group_of(pod).is_none().then(|| PostFilterAnswer::Unschedulable(NO_GROUP))
    }

    fn without_rejections(&self, pod: &PodInfo, view: &View<'_>) -> Option<PostFilterAnswer> {
        Some(self.answer(pod, view))
    }

    fn post_filter(
        &self,
        pod: &PodInfo,
        _: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> PostFilterAnswer {
        self.answer(pod, dry_run.view())
    }
}

impl AfterPostFilter for Coscheduling {
    /// As in coscheduling.go, PostFilter, which does at once what it answers.
    fn after_post_filter(
        &self,
        pod: &PodInfo,
        _: Option<&Nomination>,
        _: &[NodeRejection],
        view: &View<'_>,
        handle: &mut Handle<'_>,
    ) {
        let key = match self.group_answer(pod, view) {
            GroupAnswer::None => return,
            GroupAnswer::GoesOn => {
                self.passed(pod, view, handle, || self.passes_pre_filter(pod, view));
                return;
            }
            GroupAnswer::IsRejected(key) => key,
        };
        reject_waiting(&key, &REJECTED, handle);
        let groups = Groups::of(view.stores);
        let Some((group, _)) = groups.get(&key) else { return };
        let n_pods = view.stores.labelled.get(LABEL, &key).map_or(0, LabelledGroup::n_pods);
        let (now, span) = (handle.now, self.0.backoff());
        let is_complete = in_usize(group.min_member) <= n_pods;
        groups.change(&key, &mut handle.assume, |history| {
            // As in go-cache, Add: a backoff that is not over is not prolonged.
            if is_complete && !span.is_zero() && !history.is_backed_off(now) {
                history.backed_off_until = Some(now + span);
            }
            (history.failed, history.permitted_until) = (Some(now), None);
        });
    }

    /// A plugin before it that makes room for the pod keeps the group alive.
    fn only_if_asked(&self) -> bool {
        true
    }
}

impl Coscheduling {
    fn passes_pre_filter(&self, pod: &PodInfo, view: &View<'_>) -> bool {
        type Of = <Coscheduling as PreFilter>::Cluster;
        let cluster = <Of as ClusterPart>::of(view);
        let passed = self.pre_filter(pod.part::<<Coscheduling as PreFilter>::Pod>(), cluster);
        passed.is_ok()
    }
}
