//! Objects related to pods: namespaces, objects that select pods, and disruption budgets.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{AnyObject, Labels, Selector, Str};

/// Namespace and name of an object; the namespace of a cluster-wide one is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: Str,
    /// The name.
    pub name: Str,
}

impl ObjectKey {
    /// The key of object `name` in `namespace`.
    pub fn new(namespace: impl Into<Str>, name: impl Into<Str>) -> Self {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }
}

/// `namespace/name`, or only the name for a cluster-wide object.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A namespace and its labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its name.
    pub name: Str,
    /// Its labels.
    pub labels: Labels,
}

/// The kinds of objects whose selectors default spreading uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SelectingKind {
    /// v1 Service.
    Service,
    /// v1 ReplicationController.
    ReplicationController,
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// apps/v1 StatefulSet.
    StatefulSet,
}

macro_rules! selecting {
    ($($(#[$doc:meta])* $kind:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
            pub struct $kind {
                /// Its namespace and name.
                pub key: ObjectKey,
                /// The pods of its namespace that it selects.
                pub selector: Selector,
            }
        )*

        impl SelectingKind {
            /// An object of this kind.
            pub fn object(self, key: ObjectKey, selector: Selector) -> AnyObject {
                match self {
                    $(SelectingKind::$kind => $kind { key, selector }.into(),)*
                }
            }
        }
    };
}

selecting! {
    /// v1 Service. Without a selector it selects no pods.
    Service;
    /// v1 ReplicationController. Without a selector it selects by the labels of its template.
    ReplicationController;
    /// apps/v1 ReplicaSet.
    ReplicaSet;
    /// apps/v1 StatefulSet.
    StatefulSet;
}

/// policy/v1 PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodDisruptionBudget {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// The pods of its namespace that it protects.
    pub selector: Selector,
    /// How many of them may be evicted now (`status.disruptionsAllowed`).
    pub disruptions_allowed: i32,
    /// Names of pods whose eviction was allowed but not observed yet, sorted: they are already counted
    /// (`status.disruptedPods`).
    pub disrupted_pods: Vec<Str>,
}
