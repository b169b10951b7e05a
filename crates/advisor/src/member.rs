//! The group of a pod that is not scheduled by itself: what would be decided about the group, and what would let it be
//! scheduled.

use plimsoll_api::ObjectKey;
use plimsoll_engine::{Detail, PendingPod, Scheduler};
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{LabelledPods, Time};
use serde::Serialize;
use serde_json::Value;

use crate::change::Reference;
use crate::draft::Manifests;
use crate::groups::{self, GroupRemedy, GroupSubject, WhyGroup, why_group};
use crate::why::Subject;

/// The group of a pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupOfPod {
    /// The group, as `namespace/name`.
    pub name: String,
    /// The label by which the pod belongs to it; `None` if the pod names a PodGroup of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<&'static str>,
    /// The result of a decision about it now, such as `unschedulable`; `None` for a group by a label, whose pods are decided
    /// one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'static str>,
    /// Why it is not scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What would let it be scheduled, the smallest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<GroupRemedy>,
    /// Why no change was tried for it, and what to ask instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_tried: Option<String>,
}

impl GroupOfPod {
    /// Whether the group would be scheduled now.
    pub(crate) fn fits(&self) -> bool {
        self.result == Some("scheduled") && self.remedies.is_empty()
    }
}

/// The group of a pending pod, and the objects of which no change was tried for it. `None` if the pod is scheduled by itself.
pub(crate) fn group_of_pod(
    scheduler: &mut Scheduler,
    now: Time,
    subject: &Subject<'_>,
    known: &PendingPod,
) -> Option<(GroupOfPod, Vec<Reference>)> {
    let pod = known.info.pod.clone();
    if let Some(group) = group_of(&pod).filter(|_| scheduler.schedules_groups()) {
        return Some(as_a_whole(scheduler, now, subject, &group));
    }
    let labels = scheduler.labels_of_groups(&pod.scheduler_name);
    let by_label = |label| Some((label, LabelledPods::group_of(&pod, label)?));
    let (label, group) = labels.into_iter().find_map(by_label)?;
    let not_tried = "the pods of a group by a label are decided one by one, and bound once enough of them have a node; \
                     `plimsoll what-if` decides all of them after a change that you name";
    let group = GroupOfPod {
        name: group.to_string(),
        label: Some(label),
        result: None,
        message: None,
        remedies: Vec::new(),
        not_tried: Some(not_tried.to_owned()),
    };
    Some((group, Vec::new()))
}

/// A group that is decided as a whole: the changes that help a member are those that help the group.
fn as_a_whole(
    scheduler: &mut Scheduler,
    now: Time,
    subject: &Subject<'_>,
    group: &ObjectKey,
) -> (GroupOfPod, Vec<Reference>) {
    let own = Reference::pod(subject.pod);
    // One profile decides all pods of a group, whatever their manifests say.
    let profile = &subject.manifest["spec"]["schedulerName"];
    let find = |object: &Reference| {
        if *object == own {
            return Some(subject.manifest.clone());
        }
        let manifest = subject.manifests.look(object)?;
        Some(if is_member(&manifest, group) { decided_by(manifest, profile) } else { manifest })
    };
    let asked = GroupSubject {
        group,
        manifests: Manifests::by(&find),
        remedies: subject.limits.remedies,
        pending: None,
    };
    // Nobody reads what was decided about each node.
    let usual = scheduler.set_detail(Detail::Outcome);
    let answer = why_group(scheduler, now, &asked);
    let answer = match answer {
        Ok(WhyGroup { group: name, state, message, remedies, unknown_manifests, .. }) => {
            let (label, not_tried) = (None, None);
            let group =
                GroupOfPod { name, label, result: Some(state), message, remedies, not_tried };
            (group, unknown_manifests)
        }
        Err(error) => {
            let decision = groups::of_member(scheduler, now, group);
            let name = group.to_string();
            let not_tried =
                format!("{error}; `plimsoll why --group {name}` tries changes where that is known");
            let group = GroupOfPod {
                name,
                label: None,
                result: decision.as_ref().map(|decision| decision.result.as_str()),
                message: decision.and_then(|decision| decision.message),
                remedies: Vec::new(),
                not_tried: Some(not_tried),
            };
            (group, Vec::new())
        }
    };
    scheduler.set_detail(usual);
    answer
}

/// Whether a manifest is that of a pod of this group.
fn is_member(manifest: &Value, group: &ObjectKey) -> bool {
    let namespace = manifest["metadata"]["namespace"].as_str().unwrap_or("default");
    manifest["kind"] == "Pod"
        && namespace == group.namespace.as_str()
        && manifest["spec"]["schedulingGroup"]["podGroupName"] == group.name.as_str()
}

/// The same pod under the profile of this name; `null` is the default.
fn decided_by(mut manifest: Value, profile: &Value) -> Value {
    if manifest["spec"]["schedulerName"] != *profile
        && let Some(spec) = manifest["spec"].as_object_mut()
    {
        match profile {
            Value::Null => spec.remove("schedulerName"),
            _ => spec.insert("schedulerName".to_owned(), profile.clone()),
        };
    }
    manifest
}
