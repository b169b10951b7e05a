//! What every object has: its type and its metadata.

use serde::Deserialize;

use super::error::{Result, WireError};
use super::primitive::{List, Table, given, time};
use crate::kind::DEFAULT_NAMESPACE;
use crate::{Controller, Labels, ObjectKey, Str, Timestamp};

/// `metadata` on the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    name: Option<Str>,
    namespace: Option<Str>,
    uid: Option<Str>,
    resource_version: Option<Str>,
    generation: Option<i64>,
    labels: Table<Str>,
    annotations: Table<Str>,
    creation_timestamp: Option<Str>,
    deletion_timestamp: Option<Str>,
    owner_references: List<OwnerReference>,
    finalizers: List<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnerReference {
    api_version: Option<Str>,
    kind: Option<Str>,
    name: Option<Str>,
    uid: Option<Str>,
    controller: Option<bool>,
}

/// Metadata, converted.
#[derive(Debug)]
pub(super) struct Meta {
    pub(super) name: Str,
    pub(super) namespace: Str,
    pub(super) uid: Str,
    pub(super) resource_version: Str,
    pub(super) generation: i64,
    pub(super) labels: Labels,
    pub(super) annotations: Labels,
    pub(super) created: Option<Timestamp>,
    pub(super) deletion: Option<Timestamp>,
    pub(super) controller: Option<Controller>,
    pub(super) finalizers: Vec<Str>,
}

impl Meta {
    /// Converts `metadata`. Errors name the path from the object.
    pub(super) fn take(metadata: Option<Metadata>) -> Result<Self> {
        let wire = metadata.unwrap_or_default();
        let name = given(wire.name).ok_or_else(WireError::nameless)?;
        let created = time("metadata.creationTimestamp", wire.creation_timestamp.as_ref())?;
        let deletion = time("metadata.deletionTimestamp", wire.deletion_timestamp.as_ref())?;
        let mut owners = wire.owner_references.into_iter();
        let controller = owners.find(|owner| owner.controller == Some(true));
        Ok(Meta {
            name,
            namespace: given(wire.namespace).unwrap_or(Str::const_new(DEFAULT_NAMESPACE)),
            uid: wire.uid.unwrap_or_default(),
            resource_version: wire.resource_version.unwrap_or_default(),
            generation: wire.generation.unwrap_or_default(),
            labels: wire.labels.into(),
            annotations: wire.annotations.into(),
            created,
            deletion,
            controller: controller.map(|owner| Controller {
                api_version: owner.api_version.unwrap_or_default(),
                kind: owner.kind.unwrap_or_default(),
                name: owner.name.unwrap_or_default(),
                uid: owner.uid.unwrap_or_default(),
            }),
            finalizers: wire.finalizers.0,
        })
    }

    /// The key of a namespaced object.
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}
