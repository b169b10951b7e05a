//! The PodGroup of scheduler-plugins, and what the scheduler knows of its attempts.

use std::collections::BTreeMap;

use plimsoll_api::{Quantity, Timestamp};
use plimsoll_framework::prelude::*;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// PodGroup of `scheduling.x-k8s.io/v1alpha1`, a custom resource: pods with a [label](super::LABEL) that names it are
/// bound together. Its status is that of its own controller and is not read.
///
/// ```yaml
/// apiVersion: scheduling.x-k8s.io/v1alpha1
/// kind: PodGroup
/// metadata: {name: train, namespace: default}
/// spec: {minMember: 3, scheduleTimeoutSeconds: 30}
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoschedulingGroup {
    /// Namespace and name.
    pub key: ObjectKey,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// How many of its pods must have a node before any is bound.
    pub min_member: u32,
    /// What its pods request together, at least: they are not tried before the nodes have as much left.
    pub min_resources: Option<BTreeMap<Str, Quantity>>,
    /// How many seconds its pods wait for each other at Permit.
    pub schedule_timeout_seconds: Option<i32>,
    /// What became of its attempts. The cluster does not have it: the scheduler assumes it, beside what is observed.
    pub(super) history: GroupHistory,
}

/// What became of the attempts of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupHistory {
    /// When it failed last, unless it was bound since.
    pub(super) failed: Option<Time>,
    /// Until when it is not tried again.
    pub(super) backed_off_until: Option<Time>,
    /// Until when its `minResources` are not checked again, since they were found.
    pub(super) permitted_until: Option<Time>,
}

impl GroupHistory {
    /// Whether it must not be tried now. As in go-cache, the last moment counts.
    pub(super) fn is_backed_off(self, now: Time) -> bool {
        self.backed_off_until.is_some_and(|until| now <= until)
    }

    /// Whether its `minResources` need not be checked now.
    pub(super) fn is_permitted(self, now: Time) -> bool {
        self.permitted_until.is_some_and(|until| now <= until)
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: Str,
    #[serde(default)]
    namespace: Str,
    #[serde(default, deserialize_with = "time")]
    creation_timestamp: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "min_member")]
    min_member: u32,
    min_resources: Option<BTreeMap<Str, Quantity>>,
    schedule_timeout_seconds: Option<i32>,
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let given = Option::<Str>::deserialize(deserializer)?;
    given.map(|text| text.parse().map_err(D::Error::custom)).transpose()
}

/// As the schema of the custom resource has it: at least 1 if it is given, and of 32 bits.
fn min_member<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let Some(given) = Option::<i64>::deserialize(deserializer)? else { return Ok(0) };
    let valid = i32::try_from(given).ok().filter(|count| 1 <= *count);
    let valid = valid.and_then(|count| u32::try_from(count).ok());
    valid.ok_or_else(|| {
        D::Error::custom(format!(
            "Invalid value: {given}: spec.minMember in body should be greater than or equal to 1"
        ))
    })
}

impl Kind for CoschedulingGroup {
    const NAME: &'static str = "PodGroup";
    const PLURAL: &'static str = "podgroups";
    const VERSIONS: &'static [&'static str] = &["scheduling.x-k8s.io/v1alpha1"];
    const WITHOUT: Option<&'static str> =
        Some("pods with the label scheduling.x-k8s.io/pod-group are not bound");

    fn read(manifest: Manifest<'_>) -> Result<Self, WireError> {
        let Wire { metadata, spec } = manifest.parse()?;
        let namespace = match metadata.namespace.is_empty() {
            true => Str::const_new("default"),
            false => metadata.namespace,
        };
        Ok(CoschedulingGroup {
            key: ObjectKey::new(namespace, metadata.name),
            created: metadata.creation_timestamp,
            min_member: spec.min_member,
            min_resources: spec.min_resources,
            schedule_timeout_seconds: spec.schedule_timeout_seconds,
            history: GroupHistory::default(),
        })
    }

    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
}

/// The groups of a cluster.
#[derive(Clone, Copy)]
pub(super) struct Groups<'a>(pub(super) &'a Store<CoschedulingGroup>);

impl<'a> Groups<'a> {
    pub(super) fn of(stores: &'a Stores) -> Self {
        Groups(stores.of())
    }

    /// A group as it was observed, with its history, which is part of an assumption.
    pub(super) fn get(self, key: &ObjectKey) -> Option<(&'a CoschedulingGroup, GroupHistory)> {
        let observed = self.0.observed(key)?;
        Some((observed, self.0.get(key).map(|assumed| assumed.history).unwrap_or_default()))
    }

    /// Changes the history of a group. The change takes effect after the call of the plugin.
    pub(super) fn change(
        self,
        key: &ObjectKey,
        assume: &mut Assume<'_>,
        change: impl FnOnce(&mut GroupHistory),
    ) {
        let Some((group, before)) = self.get(key) else { return };
        let mut history = before;
        change(&mut history);
        if history != before {
            assume.hold(CoschedulingGroup { history, ..group.clone() });
        }
    }
}
