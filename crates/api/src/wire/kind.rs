//! Which kinds of objects are read, and how they are told.

use super::error::{Result, WireError};
use crate::Str;

/// The kinds that scheduling reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pod,
    Node,
    Namespace,
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CsiNode,
    CsiDriver,
    CsiStorageCapacity,
    VolumeAttachment,
    PodDisruptionBudget,
    /// As policy/v1beta1 has it, where an empty selector means something else.
    BetaPodDisruptionBudget,
}

/// `apiVersion` and `kind` of each. Where a kind has several versions, the newest stands first; the
/// others are those of clusters from 1.20 on.
const KINDS: [(&str, &str, Kind); 18] = [
    ("v1", "Pod", Kind::Pod),
    ("v1", "Node", Kind::Node),
    ("v1", "Namespace", Kind::Namespace),
    ("v1", "Service", Kind::Service),
    ("v1", "ReplicationController", Kind::ReplicationController),
    ("apps/v1", "ReplicaSet", Kind::ReplicaSet),
    ("apps/v1", "StatefulSet", Kind::StatefulSet),
    ("v1", "PersistentVolume", Kind::PersistentVolume),
    ("v1", "PersistentVolumeClaim", Kind::PersistentVolumeClaim),
    ("storage.k8s.io/v1", "StorageClass", Kind::StorageClass),
    ("storage.k8s.io/v1", "CSINode", Kind::CsiNode),
    ("storage.k8s.io/v1", "CSIDriver", Kind::CsiDriver),
    ("storage.k8s.io/v1", "CSIStorageCapacity", Kind::CsiStorageCapacity),
    ("storage.k8s.io/v1beta1", "CSIStorageCapacity", Kind::CsiStorageCapacity),
    ("storage.k8s.io/v1alpha1", "CSIStorageCapacity", Kind::CsiStorageCapacity),
    ("storage.k8s.io/v1", "VolumeAttachment", Kind::VolumeAttachment),
    ("policy/v1", "PodDisruptionBudget", Kind::PodDisruptionBudget),
    ("policy/v1beta1", "PodDisruptionBudget", Kind::BetaPodDisruptionBudget),
];

impl Kind {
    /// The kind named `kind` as `api_version` has it, if that is read.
    pub(super) fn find(api_version: &str, kind: &str) -> Option<Kind> {
        let same = |row: &&(&str, &str, Kind)| (row.0, row.1) == (api_version, kind);
        KINDS.iter().find(same).map(|row| row.2)
    }
}

/// What an object says it is.
#[derive(Debug, Default)]
pub(super) struct TypeMeta {
    pub(super) api_version: Option<Str>,
    pub(super) kind: Option<Str>,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// An object of a kind that is read.
    Known(Kind),
    /// A list of such, whose items need not say their kind.
    ListOf(Kind),
    /// A list of any objects (`v1 List`).
    List,
    /// Anything else.
    Unknown,
}

impl TypeMeta {
    /// Whether all is said that there is to say.
    pub(super) fn is_complete(&self) -> bool {
        self.api_version.is_some() && self.kind.is_some()
    }

    /// Whether this may be a list.
    pub(super) fn may_have_items(&self) -> bool {
        self.kind.as_deref().is_some_and(|kind| kind.ends_with("List"))
    }

    /// What the object is. An error where it does not say, or says a version that Kubernetes does
    /// not serve for the kind. A kind of the same name in a foreign API group, such as the Service
    /// of Knative, is another kind.
    pub(super) fn told(&self) -> Result<Told> {
        let (api_version, kind) = self.both()?;
        if (api_version, kind) == ("v1", "List") {
            return Ok(Told::List);
        }
        if let Some(known) = Kind::find(api_version, kind) {
            return Ok(Told::Known(known));
        }
        let items = kind.strip_suffix("List").unwrap_or_default();
        if let Some(known) = Kind::find(api_version, items) {
            return Ok(Told::ListOf(known));
        }
        let rows = KINDS.iter().filter(|(_, name, _)| *name == kind || *name == items);
        let versions: Vec<&str> = rows.map(|(version, ..)| *version).collect();
        if versions.is_empty() || is_foreign(api_version) {
            return Ok(Told::Unknown);
        }
        Err(WireError::unsupported("apiVersion", api_version, &versions))
    }

    /// `apiVersion` and `kind`.
    pub(super) fn both(&self) -> Result<(&str, &str)> {
        let given = |text: &Option<Str>| text.as_deref().is_some_and(|text| !text.is_empty());
        match (&self.api_version, &self.kind) {
            (Some(api_version), Some(kind)) if given(&self.api_version) && given(&self.kind) => {
                Ok((api_version, kind))
            }
            (_, kind) if !given(kind) => {
                Err(WireError::required("kind", "name the kind of the object, such as Pod"))
            }
            _ => Err(WireError::required(
                "apiVersion",
                "name the API version of the kind, such as v1 for a Pod",
            )),
        }
    }
}

/// Whether a version is of an API group that is not Kubernetes' own.
fn is_foreign(api_version: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    group.contains('.') && !group.ends_with(".k8s.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_told_by_its_name_and_version() {
        for (api_version, kind, expected) in [
            ("v1", "Pod", "Known(Pod)"),
            ("apps/v1", "ReplicaSet", "Known(ReplicaSet)"),
            ("v1", "NodeList", "ListOf(Node)"),
            ("policy/v1beta1", "PodDisruptionBudget", "Known(BetaPodDisruptionBudget)"),
            ("storage.k8s.io/v1beta1", "CSIStorageCapacityList", "ListOf(CsiStorageCapacity)"),
            (
                "policy/v2",
                "PodDisruptionBudget",
                r#"apiVersion: Unsupported value: "policy/v2": supported values: "policy/v1", "policy/v1beta1""#,
            ),
            ("v1", "List", "List"),
            ("apps/v1", "Deployment", "Unknown"),
            ("v1", "ConfigMapList", "Unknown"),
            ("serving.knative.dev/v1", "Service", "Unknown"),
            (
                "apps/v1beta2",
                "ReplicaSet",
                r#"apiVersion: Unsupported value: "apps/v1beta2": supported values: "apps/v1""#,
            ),
            (
                "core.k8s.io/v1",
                "PodList",
                r#"apiVersion: Unsupported value: "core.k8s.io/v1": supported values: "v1""#,
            ),
            ("v1", "", "kind: Required value: name the kind of the object, such as Pod"),
            (
                "",
                "Pod",
                "apiVersion: Required value: name the API version of the kind, such as v1 for a Pod",
            ),
        ] {
            let meta = TypeMeta { api_version: Some(api_version.into()), kind: Some(kind.into()) };
            let told =
                meta.told().map_or_else(|error| error.to_string(), |told| format!("{told:?}"));
            assert_eq!(told, expected, "{api_version} {kind}");
        }
    }
}
