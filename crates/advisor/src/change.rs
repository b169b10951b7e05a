//! Changes of the objects of a cluster, in the form in which they are proposed.

use std::fmt;

use json_patch::{Patch, PatchOperation};
use plimsoll_api::wire::{self, Object, WireError};
use plimsoll_api::{Node, ObjectKey, Pod};
use serde::Serialize;
use serde_json::Value;

/// An object, by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reference {
    /// Its kind, such as `Pod`.
    pub kind: String,
    /// Its namespace; left out for an object of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// One change. Applied to the objects, or to the configuration, it does what it says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Change {
    /// An object is changed.
    Patch {
        /// The object.
        patch: Reference,
        /// How, as in RFC 6902.
        operations: Vec<PatchOperation>,
    },
    /// An object is made.
    Create {
        /// Its manifest.
        create: Value,
    },
    /// An object is deleted.
    Delete {
        /// The object.
        delete: Reference,
    },
    /// The configuration is changed.
    Configuration {
        /// How, as in RFC 6902. The paths are those of the resolved configuration, which
        /// `plimsoll config check -o json` prints.
        configuration: Vec<PatchOperation>,
    },
}

impl Reference {
    /// An object of a kind. The namespace of its key is empty for an object of the cluster.
    pub fn of(kind: &str, key: &ObjectKey) -> Self {
        Reference {
            kind: kind.to_owned(),
            namespace: Some(key.namespace.to_string()).filter(|name| !name.is_empty()),
            name: key.name.to_string(),
        }
    }

    /// A pod.
    pub fn pod(key: &ObjectKey) -> Self {
        Reference::of("Pod", key)
    }

    /// A node.
    pub fn node(name: &str) -> Self {
        Reference { kind: "Node".to_owned(), namespace: None, name: name.to_owned() }
    }
}

/// `Kind namespace/name`.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reference { kind, namespace, name } = self;
        match namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{name}"),
            None => write!(f, "{kind} {name}"),
        }
    }
}

/// The operations that make `after` of `before`.
pub(crate) fn operations(before: &Value, after: &Value) -> Vec<PatchOperation> {
    let Patch(operations) = json_patch::diff(before, after);
    operations
}

/// The pod that a manifest describes.
pub(crate) fn pod_of(manifest: &Value) -> Result<Pod, WireError> {
    match wire::object(manifest)? {
        Object::Pod(pod) => Ok(*pod),
        _ => Err(WireError { field: "kind".to_owned(), message: "is not Pod".to_owned() }),
    }
}

/// The pod with what the scheduler knows of it and its manifest need not say: its identity, and the claims that were made
/// for it.
pub(crate) fn as_known(pod: Pod, known: &Pod) -> Pod {
    let (uid, created, devices) = (known.uid.clone(), known.created, known.devices.clone());
    Pod { uid, created, devices, ..pod }
}

/// The node that a manifest describes.
pub(crate) fn node_of(manifest: &Value) -> Option<Node> {
    match wire::object(manifest).ok()? {
        Object::Node(node) => Some(*node),
        _ => None,
    }
}
