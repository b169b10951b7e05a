//! The metadata of objects, for kinds that plugins add.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{ObjectKey, Str};

/// `metadata` of an object. What is not given is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Its name.
    pub name: Str,
    /// Its namespace, if given.
    pub namespace: Str,
    /// Its unique identity; an object that is made again under the same name has another one.
    pub uid: Str,
    /// The version of the object. A write that names it fails if the object has changed since.
    pub resource_version: Str,
    /// A number that increases with each change of its spec.
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
