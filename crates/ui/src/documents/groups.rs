//! The groups of pods that are scheduled together.

use std::collections::BTreeMap;

use plimsoll_api::{ObjectKey, PodGroup, Str};
use plimsoll_framework::pod_groups::group_of;
use serde::Serialize;

use crate::picture::{Picture, PodState};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Groups {
    as_of: String,
    groups: Vec<GroupRow>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupRow {
    group: String,
    /// Whether there is a PodGroup, or only pods that name it.
    exists: bool,
    /// How many pods must be placed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_count: Option<u32>,
    /// The label of nodes of which all pods must have the same value.
    #[serde(skip_serializing_if = "Option::is_none")]
    topology: Option<Str>,
    priority: i32,
    placed: usize,
    pending: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    /// Its pods.
    pods: Vec<Member>,
}

#[derive(Debug, Serialize)]
struct Member {
    pod: String,
    state: PodState,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Str>,
}

/// At most so many pods of a group are listed.
const MOST_MEMBERS: usize = 500;

/// The groups of a cluster.
pub(crate) fn groups(picture: &Picture, shows: &dyn Fn(&str) -> bool) -> Groups {
    let mut groups = BTreeMap::<ObjectKey, GroupRow>::new();
    for group in picture.groups.iter().filter(|group| shows(&group.key.namespace)) {
        groups.insert(group.key.clone(), GroupRow::of(group));
    }
    for pod in picture.pods.iter().filter(|pod| shows(&pod.info.key.namespace)) {
        let Some(key) = group_of(&pod.info) else { continue };
        let row = groups.entry(key.clone()).or_insert_with(|| GroupRow {
            exists: false,
            ..GroupRow::of(&PodGroup { key, ..PodGroup::default() })
        });
        match pod.state {
            PodState::Placed => row.placed += 1,
            _ => row.pending += 1,
        }
        if row.pods.len() < MOST_MEMBERS {
            row.pods.push(Member {
                pod: pod.info.key.to_string(),
                state: pod.state,
                node: pod.info.node().cloned(),
            });
        }
    }
    Groups { as_of: picture.as_of(), groups: groups.into_values().collect() }
}

impl GroupRow {
    fn of(group: &PodGroup) -> Self {
        let condition = group.condition.as_ref();
        GroupRow {
            group: group.key.to_string(),
            exists: true,
            min_count: group.min_count(),
            topology: group.topology_key().cloned(),
            priority: group.priority,
            placed: 0,
            pending: 0,
            reason: condition.map(|condition| condition.reason.clone()),
            message: condition.map(|condition| condition.message.clone()).unwrap_or_default(),
            pods: Vec::new(),
        }
    }
}
