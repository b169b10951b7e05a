//! A group as it would be, with what changes in the cluster for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_api::wire::{self, Object};
use plimsoll_api::{CompositePodGroup, ObjectKey, Pod, PodGroup, PodKey};
use plimsoll_engine::{GroupDecision, GroupResult, Scheduler};
use plimsoll_framework::pod_groups::{PodGroupState, group_of};
use plimsoll_framework::{GroupForest, GroupRef, Time, View};
use serde_json::Value;

use super::{GroupSubject, WhyGroupError, n_placed};
use crate::change::{Change, Reference, as_known, operations, pod_of};
use crate::cluster::{ClusterChange, Edit};
use crate::draft::{CLAIM_TEMPLATE, Draft, Objects, changes_of, edits_of};
use crate::relaxations::Steps;

/// The group, with the other groups of its tree and all their pending pods.
pub(super) struct GroupPlan {
    /// The group that is asked about.
    pub(super) asked: GroupRef,
    /// Its PodGroups: it is one itself, or has them on all levels.
    pub(super) leaves: Vec<ObjectKey>,
    /// Whether enough of its pods must be placed together; else each is placed that fits.
    pub(super) is_gang: bool,
    pub(super) as_it_is: Changed,
}

/// The same with changes.
#[derive(Clone, Debug)]
pub(super) struct Changed {
    /// The groups of the tree, each before those that are part of it.
    pub(super) objects: Vec<GroupObject>,
    pub(super) members: Vec<Member>,
    /// Pods that do not exist yet.
    pub(super) new: Vec<(Value, Arc<Pod>)>,
    pub(super) cluster: Vec<ClusterChange>,
    /// Objects that the pods need, as they are.
    pub(super) known: Arc<Objects>,
    /// Those that are changed or made, as they would be.
    pub(super) needed: Objects,
    /// What that changes in the cluster.
    pub(super) edits: Vec<Edit>,
}

/// A PodGroup or a CompositePodGroup.
#[derive(Clone, Debug)]
pub(super) struct GroupObject {
    pub(super) group: GroupRef,
    /// Its manifest; `None` if it does not exist, or its manifest is not known.
    pub(super) manifest: Option<Arc<Value>>,
}

/// A pending pod of a group.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) group: ObjectKey,
    pub(super) pod: Arc<Pod>,
    /// `None` if it is not known: nothing of this pod is changed.
    pub(super) manifest: Option<Arc<Value>>,
}

impl GroupPlan {
    pub(super) fn new(
        scheduler: &Scheduler,
        subject: &GroupSubject<'_>,
        asked: GroupRef,
    ) -> Result<Self, WhyGroupError> {
        let view = scheduler.view();
        let forest = GroupForest::of(view.stores, scheduler.group_gates());
        let leaves = forest.leaves(&asked);
        let root = match forest.chain(asked.clone()) {
            Ok(mut chain) => chain.pop().expect("a chain begins with the group itself"),
            Err(_) => asked.clone(),
        };
        let mut objects = Vec::new();
        for group in forest.all(&root) {
            let reference = reference(&group);
            let manifest = match group == asked || is_there(&forest, &group) {
                true if group == asked => subject.manifests.look(&reference),
                true => subject.manifests.find(&reference),
                false => None,
            };
            objects.push(GroupObject { group, manifest: manifest.map(Arc::new) });
        }
        let mut members = Vec::new();
        for leaf in forest.leaves(&root) {
            let Some(state) = view.stores.groups.get(&leaf) else { continue };
            for key in pending(state) {
                let wrong = || WhyGroupError::Manifest(key.clone());
                let is_own = leaves.contains(&leaf);
                let manifest = subject.manifests.find(&Reference::pod(&key));
                let known = scheduler.queued_pod(&key);
                match (manifest, known) {
                    (Some(manifest), Some(known)) => {
                        let known = known.pod.seen();
                        let pod = pod_of(&manifest).map_err(|_| wrong())?;
                        let pod = Arc::new(as_known(pod, known));
                        let manifest = Some(Arc::new(manifest));
                        members.push(Member { group: leaf.clone(), pod, manifest });
                    }
                    (None, Some(known)) if !is_own => {
                        let pod = known.pod.seen().clone();
                        members.push(Member { group: leaf.clone(), pod, manifest: None });
                    }
                    _ if is_own => return Err(wrong()),
                    _ => {}
                }
            }
        }
        let as_it_is = Changed {
            objects,
            members,
            new: Vec::new(),
            cluster: Vec::new(),
            known: Arc::default(),
            needed: Objects::new(),
            edits: Vec::new(),
        };
        Ok(GroupPlan { asked, leaves, is_gang: true, as_it_is })
    }

    /// Whether a decision is all that can be wished for. Of a group that is no gang all pods should be placed.
    pub(super) fn is_enough(&self, decision: &GroupDecision) -> bool {
        decision.result == GroupResult::Scheduled
            && (self.is_gang || self.n_pending() <= n_placed(decision))
    }

    fn n_pending(&self) -> usize {
        let members = self.as_it_is.members.iter();
        members.filter(|member| self.leaves.contains(&member.group)).count()
    }

    /// The manifest of the group that is asked about; `None` if there is none.
    pub(super) fn object(&self) -> Option<&Value> {
        let asked = self.as_it_is.objects.iter().find(|object| object.group == self.asked);
        asked?.manifest.as_deref()
    }

    /// The changes that were made.
    pub(super) fn changes(&self, plan: &Changed) -> Vec<Change> {
        let mut changes = Vec::new();
        for (before, after) in self.as_it_is.objects.iter().zip(&plan.objects) {
            match (&before.manifest, &after.manifest) {
                (Some(before), Some(now)) => {
                    changes.extend(patch_of(reference(&after.group), before, now));
                }
                (None, Some(new)) => changes.push(Change::Create { create: (**new).clone() }),
                (_, None) => {}
            }
        }
        for (before, after) in self.as_it_is.members.iter().zip(&plan.members) {
            if let (Some(manifest), Some(changed)) = (&before.manifest, &after.manifest) {
                changes.extend(patch_of(Reference::pod(&before.pod.key), manifest, changed));
            }
        }
        changes.extend(changes_of(&plan.needed, &plan.known));
        changes.extend(plan.new.iter().map(|(new, _)| Change::Create { create: new.clone() }));
        changes.extend(plan.cluster.iter().flat_map(|cluster| cluster.changes.clone()));
        changes
    }

    /// Decides the group as it would be.
    pub(super) fn decide(
        &self,
        changed: &Changed,
        scheduler: &mut Scheduler,
        now: Time,
    ) -> Result<GroupDecision, WhyGroupError> {
        let pods = changed.members.iter().map(|member| member.pod.clone());
        let pods: Vec<_> = pods.chain(changed.new.iter().map(|(_, pod)| pod.clone())).collect();
        let is_own =
            |pod: &&Arc<Pod>| group_of(pod).is_some_and(|leaf| self.leaves.contains(&leaf));
        let own = pods.iter().filter(is_own).map(|pod| pod.key.clone()).collect();
        // All groups of the tree are decided, whichever of its PodGroups is named.
        let of_pods = changed.objects.iter().find_map(|object| match &object.group {
            GroupRef::Pods(key) => Some(key.clone()),
            GroupRef::Composite(_) => None,
        });
        let named = self.leaves.first().cloned().or(of_pods);
        let named = named.ok_or_else(|| WhyGroupError::Unknown(self.asked.key().clone()))?;
        let decided = scheduler.transaction(now, |transaction| {
            let of_cluster = changed.cluster.iter().flat_map(|cluster| &cluster.edits);
            for edit in changed.edits.iter().chain(of_cluster) {
                edit.make(transaction)?;
            }
            for (object, before) in changed.objects.iter().zip(&self.as_it_is.objects) {
                let is_same = match (&object.manifest, &before.manifest) {
                    (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                    (None, None) => true,
                    _ => false,
                };
                if !is_same && let Some(edit) = object.edit() {
                    edit.make(transaction)?;
                }
            }
            Ok::<_, WhyGroupError>(transaction.decide_group(now, &named, pods)?)
        });
        Ok(about(decided?, &self.asked, &own))
    }
}

impl Changed {
    /// A pod gives up what it needs, and what it needs changes; `None` if that is not possible.
    pub(super) fn give_up(&mut self, at: usize, steps: &Steps, view: View<'_>) -> Option<()> {
        let member = &mut self.members[at];
        let mut draft =
            Draft { pod: Value::clone(member.manifest.as_ref()?), objects: Objects::new() };
        for of in steps.all.iter().filter_map(|step| step.of.as_ref()) {
            let manifest = self.needed.get(of).or_else(|| self.known.get(of));
            draft.objects.extend(manifest.map(|manifest| (of.clone(), manifest.clone())));
        }
        steps.take(&mut draft);
        if steps.changes_pod() {
            member.change(|manifest| *manifest = draft.pod)?;
        }
        for (of, manifest) in draft.objects {
            // Each pod has claims of its own that are made from a template.
            if self.needed.get(&of) != Some(&manifest) || of.kind == CLAIM_TEMPLATE {
                self.edits.extend(edits_of(&of, &manifest, &member.pod, view)?);
                self.needed.insert(of, manifest);
            }
        }
        Some(())
    }
}

impl GroupObject {
    /// Its manifest, to be changed.
    pub(super) fn change(&mut self) -> Option<&mut Value> {
        self.manifest.as_mut().map(Arc::make_mut)
    }

    fn edit(&self) -> Option<Edit> {
        let Object::Other(object) = wire::object(self.manifest.as_ref()?).ok()? else {
            return None;
        };
        match self.group {
            GroupRef::Pods(_) => Some(Edit::object(object.get::<PodGroup>()?.clone())),
            GroupRef::Composite(_) => {
                Some(Edit::object(object.get::<CompositePodGroup>()?.clone()))
            }
        }
    }
}

impl Member {
    /// Changes its manifest; `None` if it is not known, or is wrong then.
    pub(super) fn change(&mut self, how: impl FnOnce(&mut Value)) -> Option<()> {
        let mut manifest = (**self.manifest.as_ref()?).clone();
        how(&mut manifest);
        self.pod = Arc::new(as_known(pod_of(&manifest).ok()?, &self.pod));
        self.manifest = Some(Arc::new(manifest));
        Some(())
    }
}

/// The pods of a group that are on no node.
pub(super) fn pending(state: &PodGroupState) -> Vec<PodKey> {
    let placed: BTreeSet<&PodKey> = state.placed().map(|(pod, _)| pod).collect();
    state.pods().filter(|pod| !placed.contains(pod)).cloned().collect()
}

fn is_there(forest: &GroupForest<'_>, group: &GroupRef) -> bool {
    match group {
        GroupRef::Pods(key) => forest.pod_group(key).is_some(),
        GroupRef::Composite(key) => forest.composite(key).is_some(),
    }
}

/// The object of a group as it is referred to.
pub(super) fn reference(group: &GroupRef) -> Reference {
    Reference::of(group.kind(), group.key())
}

fn patch_of(object: Reference, before: &Arc<Value>, after: &Arc<Value>) -> Option<Change> {
    if Arc::ptr_eq(before, after) {
        return None;
    }
    let operations = operations(before, after);
    (!operations.is_empty()).then_some(Change::Patch { patch: object, operations })
}

/// What a decision says of one group, whose pods are `own`: it may be that about a tree of groups.
pub(super) fn about(
    mut decision: GroupDecision,
    group: &GroupRef,
    own: &BTreeSet<PodKey>,
) -> GroupDecision {
    let is_composite = matches!(group, GroupRef::Composite(_));
    if decision.is_composite == is_composite && decision.group == *group.key() {
        return decision;
    }
    let is_meant = |is: bool, key: &ObjectKey| is == is_composite && key == group.key();
    let part = decision.groups.iter().find(|part| is_meant(part.is_composite, &part.group));
    // If nothing was tried, the parts have the result of the whole.
    if let Some(part) = part.cloned() {
        decision.result = part.result;
        decision.message = Some(part.message).filter(|text| !text.is_empty());
        (decision.placement, decision.placements) = (part.placement, part.placements);
        decision.condition = part.condition;
    }
    decision.pods.retain(|member| own.contains(&member.pod));
    (decision.group, decision.is_composite) = (group.key().clone(), is_composite);
    decision
}
