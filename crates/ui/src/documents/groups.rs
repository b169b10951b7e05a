//! The groups of pods that are scheduled together.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{CompositePodGroup, ObjectKey, PodGroup, Str};
use plimsoll_framework::pod_groups::group_of;
use serde::Serialize;

use crate::picture::{Picture, PodState};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupList {
    as_of: String,
    groups: Vec<GroupRow>,
    /// The groups of groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    composites: Vec<CompositeRow>,
}

/// A CompositePodGroup.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct CompositeRow {
    group: String,
    /// Whether there is a CompositePodGroup, or only groups that name it.
    exists: bool,
    /// How many of its groups must be placed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_group_count: Option<u32>,
    /// The label of nodes of which all pods of its groups must have the same value.
    #[serde(skip_serializing_if = "Option::is_none")]
    topology: Option<Str>,
    priority: i32,
    /// The CompositePodGroup that it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// The pods of all groups below it.
    placed: usize,
    pending: usize,
    /// The CompositePodGroups that are part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    composites: Vec<String>,
    /// The PodGroups that are part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
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
    /// The CompositePodGroup that it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
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
pub(crate) fn groups(picture: &Picture, shows: &dyn Fn(&str) -> bool) -> GroupList {
    let mut groups = BTreeMap::<ObjectKey, GroupRow>::new();
    for group in picture.groups.iter().filter(|group| shows(&group.key.namespace)) {
        groups.insert(group.key.clone(), GroupRow::of(group));
    }
    for pod in picture.pods().filter(|pod| shows(&pod.info.key.namespace)) {
        let Some(key) = group_of(pod.info) else { continue };
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
    let composites = composites(picture, &groups, shows);
    GroupList { as_of: picture.as_of(), groups: groups.into_values().collect(), composites }
}

/// The groups of groups, each with what is part of it.
fn composites(
    picture: &Picture,
    groups: &BTreeMap<ObjectKey, GroupRow>,
    shows: &dyn Fn(&str) -> bool,
) -> Vec<CompositeRow> {
    let mut rows = BTreeMap::<ObjectKey, CompositeRow>::new();
    let mut parents = BTreeMap::<ObjectKey, ObjectKey>::new();
    let in_same = |of: &ObjectKey, name: &Str| ObjectKey::new(of.namespace.clone(), name.clone());
    let visible = picture.composites.iter().filter(|composite| shows(&composite.key.namespace));
    for composite in visible {
        rows.insert(composite.key.clone(), CompositeRow::of(composite));
        if let Some(parent) = &composite.parent {
            parents.insert(composite.key.clone(), in_same(&composite.key, parent));
        }
    }
    for (child, parent) in &parents {
        let row = rows.entry(parent.clone()).or_insert_with(|| CompositeRow::missing(parent));
        row.composites.push(child.to_string());
    }
    for group in picture.groups.iter().filter(|group| shows(&group.key.namespace)) {
        let Some(parent) = &group.parent else { continue };
        let parent = in_same(&group.key, parent);
        let row = rows.entry(parent.clone()).or_insert_with(|| CompositeRow::missing(&parent));
        row.groups.push(group.key.to_string());
        let (placed, pending) =
            groups.get(&group.key).map_or((0, 0), |group| (group.placed, group.pending));
        // Its pods count for all that are above it. Objects may name each other in a circle.
        let (mut above, mut seen) = (Some(&parent), BTreeSet::new());
        while let Some(key) = above.filter(|key| seen.insert((*key).clone())) {
            if let Some(row) = rows.get_mut(key) {
                row.placed += placed;
                row.pending += pending;
            }
            above = parents.get(key);
        }
    }
    rows.into_values().collect()
}

impl CompositeRow {
    fn of(composite: &CompositePodGroup) -> Self {
        let in_same = |name: &Str| ObjectKey::new(composite.key.namespace.clone(), name.clone());
        CompositeRow {
            exists: true,
            min_group_count: composite.min_group_count(),
            topology: composite.topology_key().cloned(),
            priority: composite.priority,
            parent: composite.parent.as_ref().map(|name| in_same(name).to_string()),
            ..CompositeRow::missing(&composite.key)
        }
    }

    /// One of which nothing is known but that it is named.
    fn missing(key: &ObjectKey) -> Self {
        CompositeRow { group: key.to_string(), ..CompositeRow::default() }
    }
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
            parent: group
                .parent
                .as_ref()
                .map(|name| ObjectKey::new(group.key.namespace.clone(), name.clone()).to_string()),
            placed: 0,
            pending: 0,
            reason: condition.map(|condition| condition.reason.clone()),
            message: condition.map(|condition| condition.message.clone()).unwrap_or_default(),
            pods: Vec::new(),
        }
    }
}
