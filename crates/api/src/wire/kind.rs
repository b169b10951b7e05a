//! The kind of object that a manifest names.

use super::Reader;
use super::error::{Result, WireError};
use crate::{KindRef, Kinds, Str};

/// The API version and the kind that an object gives.
#[derive(Debug, Default)]
pub(super) struct TypeMeta {
    pub(super) api_version: Option<Str>,
    pub(super) kind: Option<Str>,
}

/// What the object is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// An object of a kind that is read.
    Known(Reader),
    /// A list of such objects, whose items need not name their kind.
    ListOf(Reader),
    /// A list of any objects (`v1 List`).
    List,
    /// Anything else.
    Unknown,
}

impl TypeMeta {
    /// Whether both are given.
    pub(super) fn is_complete(&self) -> bool {
        self.api_version.is_some() && self.kind.is_some()
    }

    /// Whether this may be a list.
    pub(super) fn may_have_items(&self) -> bool {
        self.kind.as_deref().is_some_and(|kind| kind.ends_with("List"))
    }

    /// What the object is. It is an error if it does not say, or if Kubernetes does not serve this
    /// version of the kind. A kind of the same name in a foreign API group, such as the Service
    /// of Knative, is a different kind.
    pub(super) fn told(&self, kinds: &Kinds) -> Result<Told> {
        let (api_version, kind) = self.both()?;
        if (api_version, kind) == ("v1", "List") {
            return Ok(Told::List);
        }
        if let Some(known) = kinds.reader(api_version, kind) {
            return Ok(Told::Known(known));
        }
        let items = kind.strip_suffix("List").unwrap_or_default();
        if let Some(known) = kinds.reader(api_version, items) {
            return Ok(Told::ListOf(known));
        }
        let group = group(api_version);
        let is_meant = |known: &KindRef| {
            let named = known.as_str() == kind || known.as_str() == items;
            named
                && (known.group() == group || is_kubernetes(group) && is_kubernetes(known.group()))
        };
        match kinds.iter().find(is_meant) {
            None => Ok(Told::Unknown),
            Some(known) => Err(WireError::unsupported("apiVersion", api_version, known.versions())),
        }
    }

    /// `apiVersion` and `kind`; an error if one is missing.
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

/// The API group of a version; empty for the core group.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Whether an API group belongs to Kubernetes.
fn is_kubernetes(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_recognized_by_its_name_and_version() {
        for (api_version, kind, expected) in [
            ("v1", "Pod", "Known(v1 Pod)"),
            ("apps/v1", "ReplicaSet", "Known(apps/v1 ReplicaSet)"),
            ("v1", "NodeList", "ListOf(v1 Node)"),
            ("policy/v1beta1", "PodDisruptionBudget", "Known(policy/v1beta1 PodDisruptionBudget)"),
            (
                "storage.k8s.io/v1beta1",
                "CSIStorageCapacityList",
                "ListOf(storage.k8s.io/v1beta1 CSIStorageCapacity)",
            ),
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
            let told = meta
                .told(&Kinds::built_in())
                .map_or_else(|error| error.to_string(), |told| format!("{told:?}"));
            assert_eq!(told, expected, "{api_version} {kind}");
        }
    }
}
