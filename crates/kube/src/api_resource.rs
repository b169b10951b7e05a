//! A kind in the API version in which an API server has it, and its paths.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_api::{KindRef, ObjectKey, ResourceClaim, ResourceClaimTemplate};

use crate::call::segment;

/// A kind in an API version of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// The kind.
    pub kind: KindRef,
    /// The API version, such as `policy/v1beta1`.
    pub api_version: &'static str,
}

impl ApiResource {
    /// The path of all objects of the kind in all namespaces: `/apis/policy/v1/poddisruptionbudgets`.
    pub fn path(self) -> String {
        format!("{}/{}", group_path(self.api_version), self.kind.plural())
    }

    /// The path of all objects in the namespace of `key`, or of all objects of a cluster-wide kind.
    pub(crate) fn collection_path(self, key: &ObjectKey) -> String {
        let group = group_path(self.api_version);
        let plural = self.kind.plural();
        match self.kind.is_namespaced() {
            true => format!("{group}/namespaces/{}/{plural}", segment(&key.namespace)),
            false => format!("{group}/{plural}"),
        }
    }

    /// The path of one object.
    pub(crate) fn object_path(self, key: &ObjectKey) -> String {
        format!("{}/{}", self.collection_path(key), segment(&key.name))
    }
}

/// The versions in which the API server has the watched kinds. Writes use the same versions. Clones share
/// them.
#[derive(Clone, Debug, Default)]
pub struct ServedVersions(Arc<Mutex<BTreeMap<KindRef, &'static str>>>);

impl ServedVersions {
    /// Sets the version of a kind.
    pub(crate) fn set(&self, resource: ApiResource) {
        let mut versions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        versions.insert(resource.kind, resource.api_version);
    }

    /// A kind in the version that the API server has; in its best version if that is unknown.
    pub(crate) fn resource(&self, kind: KindRef) -> ApiResource {
        let versions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let api_version = versions.get(&kind).copied().unwrap_or(kind.versions()[0]);
        ApiResource { kind, api_version }
    }

    /// The same for a kind that may not be watched: templates of claims come in the version of the claims.
    pub(crate) fn manifest(&self, kind: KindRef) -> ApiResource {
        if !kind.is::<ResourceClaimTemplate>() {
            return self.resource(kind);
        }
        let of_claims = self.resource(KindRef::of::<ResourceClaim>()).api_version;
        let same = kind.versions().iter().find(|version| **version == of_claims);
        ApiResource { kind, api_version: same.copied().unwrap_or(kind.versions()[0]) }
    }
}

/// The path of a version of an API group: `/api/v1`, `/apis/policy/v1`.
pub(crate) fn group_path(api_version: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api_version}")
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget};

    use super::*;

    #[test]
    fn a_kind_has_a_path() {
        let path = |kind, api_version| ApiResource { kind, api_version }.path();
        assert_eq!(path(KindRef::of::<Pod>(), "v1"), "/api/v1/pods");
        let budgets = path(KindRef::of::<PodDisruptionBudget>(), "policy/v1beta1");
        assert_eq!(budgets, "/apis/policy/v1beta1/poddisruptionbudgets");
    }

    #[test]
    fn an_object_has_a_path_in_the_version_that_the_server_has() {
        let served = ServedVersions::default();
        let to = |kind, key| served.resource(kind).object_path(&key);
        let claim = to(KindRef::of::<PersistentVolumeClaim>(), ObjectKey::new("ns", "c"));
        assert_eq!(claim, "/api/v1/namespaces/ns/persistentvolumeclaims/c");
        let volume = to(KindRef::of::<PersistentVolume>(), ObjectKey::new("", "v"));
        assert_eq!(volume, "/api/v1/persistentvolumes/v");
        let budgets = KindRef::of::<PodDisruptionBudget>();
        let key = || ObjectKey::new("ns", "a b");
        let best = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets/a%20b";
        assert_eq!(to(budgets, key()), best);
        served.set(ApiResource { kind: budgets, api_version: "policy/v1beta1" });
        assert_eq!(to(budgets, key()), best.replace("v1", "v1beta1"));
    }
}
