//! A group as it would be, with what changes in the cluster for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_api::wire::{self, Object};
use plimsoll_api::{ObjectKey, Pod, PodGroup, PodKey};
use plimsoll_engine::{GroupDecision, GroupResult, Scheduler};
use plimsoll_framework::Time;
use serde_json::Value;

use super::{GroupSubject, WhyGroupError, n_placed, reference};
use crate::change::{Change, Reference, as_known, operations, pod_of};
use crate::cluster::{ClusterChange, Edit};

/// The group and its pending pods.
pub(super) struct GroupPlan {
    pub(super) group: ObjectKey,
    /// Whether enough of its pods must be placed together; else each is placed that fits.
    pub(super) is_gang: bool,
    /// The manifest of the PodGroup; `None` if there is none.
    pub(super) object: Option<Value>,
    /// The manifests of its pending pods, with what the scheduler knows of them.
    pub(super) members: Vec<(Value, Arc<Pod>)>,
}

/// The same with changes.
#[derive(Clone, Debug)]
pub(super) struct Changed {
    group: ObjectKey,
    pub(super) object: Option<Value>,
    pub(super) members: Vec<Value>,
    known: Vec<Arc<Pod>>,
    /// Pods that do not exist yet.
    pub(super) new: Vec<Value>,
    pub(super) cluster: Option<ClusterChange>,
}

impl GroupPlan {
    pub(super) fn new(
        scheduler: &Scheduler,
        subject: &GroupSubject<'_>,
        pending: &[PodKey],
    ) -> Result<Self, WhyGroupError> {
        let mut members = Vec::new();
        for key in pending {
            let wrong = || WhyGroupError::Manifest(key.clone());
            let manifest = subject.manifests.find(&Reference::pod(key)).ok_or_else(wrong)?;
            let known = scheduler.queued_pod(key).ok_or_else(wrong)?;
            members.push((manifest, known.pod.seen().clone()));
        }
        let group = subject.group.clone();
        let object = subject.manifests.look(&reference(&group));
        Ok(GroupPlan { group, is_gang: true, object, members })
    }

    /// Nothing is changed.
    pub(super) fn as_it_is(&self) -> Changed {
        Changed {
            group: self.group.clone(),
            object: self.object.clone(),
            members: self.members.iter().map(|(manifest, _)| manifest.clone()).collect(),
            known: self.members.iter().map(|(_, known)| known.clone()).collect(),
            new: Vec::new(),
            cluster: None,
        }
    }

    /// Whether a decision is all that can be wished for. Of a group that is no gang all pods should be placed.
    pub(super) fn is_enough(&self, decision: &GroupDecision) -> bool {
        decision.result == GroupResult::Scheduled
            && (self.is_gang || self.members.len() <= n_placed(decision))
    }

    /// The changes that were made.
    pub(super) fn changes(&self, plan: &Changed) -> Vec<Change> {
        let mut changes = Vec::new();
        match (&self.object, &plan.object) {
            (Some(before), Some(after)) => {
                let operations = operations(before, after);
                if !operations.is_empty() {
                    changes.push(Change::Patch { patch: reference(&self.group), operations });
                }
            }
            (None, Some(new)) => changes.push(Change::Create { create: new.clone() }),
            (_, None) => {}
        }
        for ((before, known), after) in self.members.iter().zip(&plan.members) {
            let operations = operations(before, after);
            if !operations.is_empty() {
                changes.push(Change::Patch { patch: Reference::pod(&known.key), operations });
            }
        }
        changes.extend(plan.new.iter().map(|new| Change::Create { create: new.clone() }));
        changes.extend(plan.cluster.iter().flat_map(|cluster| cluster.changes.clone()));
        changes
    }
}

impl Changed {
    /// Decides the group as it would be.
    pub(super) fn decide(
        &self,
        scheduler: &mut Scheduler,
        now: Time,
    ) -> Result<GroupDecision, WhyGroupError> {
        let mut pods = Vec::new();
        for (manifest, known) in self.members.iter().zip(&self.known) {
            let wrong = |_| WhyGroupError::Manifest(known.key.clone());
            pods.push(Arc::new(as_known(pod_of(manifest).map_err(wrong)?, known)));
        }
        for manifest in &self.new {
            let wrong = |_| WhyGroupError::Manifest(PodKey::default());
            pods.push(Arc::new(pod_of(manifest).map_err(wrong)?));
        }
        let object = self.object.as_ref().and_then(group_of_manifest);
        let own = pods.iter().map(|pod: &Arc<Pod>| pod.key.clone()).collect();
        let decided = scheduler.transaction(now, |transaction| {
            for edit in self.cluster.iter().flat_map(|cluster| &cluster.edits) {
                edit.make(transaction)?;
            }
            if let Some(object) = object {
                let known = transaction.view().stores.of::<PodGroup>().get(&self.group).cloned();
                if known.as_deref() != Some(&object) {
                    Edit::object(object).make(transaction)?;
                }
            }
            Ok::<_, WhyGroupError>(transaction.decide_group(now, &self.group, pods)?)
        });
        Ok(about(decided?, &self.group, &own))
    }
}

/// What a decision says of one group, whose pods are `own`: it may be that about a tree of groups.
pub(super) fn about(
    mut decision: GroupDecision,
    group: &ObjectKey,
    own: &BTreeSet<PodKey>,
) -> GroupDecision {
    if !decision.is_composite {
        return decision;
    }
    let part = decision.groups.iter().find(|part| !part.is_composite && part.group == *group);
    // If nothing was tried, the parts have the result of the whole.
    if let Some(part) = part.cloned() {
        decision.result = part.result;
        decision.message = Some(part.message).filter(|text| !text.is_empty());
        (decision.placement, decision.placements) = (part.placement, part.placements);
        decision.condition = part.condition;
    }
    decision.pods.retain(|member| own.contains(&member.pod));
    (decision.group, decision.is_composite) = (group.clone(), false);
    decision
}

/// The PodGroup that a manifest describes.
fn group_of_manifest(manifest: &Value) -> Option<PodGroup> {
    match wire::object(manifest).ok()? {
        Object::Other(object) => object.get::<PodGroup>().cloned(),
        _ => None,
    }
}
