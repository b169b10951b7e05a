//! What every object says of itself, for kinds that a plugin brings.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{ObjectKey, Str};

/// `metadata` of an object. What is not given is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Its name.
    pub name: Str,
    /// Its namespace, if it says one.
    pub namespace: Str,
    /// What tells it from another object that had its name before.
    pub uid: Str,
    /// Which state of the object this is. A write that names it fails where the object has changed since.
    pub resource_version: Str,
    /// How often its spec has changed.
    pub generation: i64,
    /// Its labels.
    pub labels: BTreeMap<Str, Str>,
    /// Its annotations.
    pub annotations: BTreeMap<Str, Str>,
}

impl ObjectMeta {
    /// Its namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}
