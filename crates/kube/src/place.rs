//! Where the objects of a kind are found on one API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_api::{KindRef, ObjectKey};

use crate::call::segment;

/// Where objects of a kind are found on one API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kind.
    pub kind: KindRef,
    /// The version that the server has, such as `policy/v1beta1`.
    pub api_version: &'static str,
}

impl Place {
    /// The path of all objects of the kind in all namespaces: `/apis/policy/v1/poddisruptionbudgets`.
    pub fn path(self) -> String {
        format!("{}/{}", group_path(self.api_version), self.kind.plural())
    }

    /// The path of all objects of the namespace of `key`, or of all where the kind has no namespaces.
    pub(crate) fn path_around(self, key: &ObjectKey) -> String {
        let group = group_path(self.api_version);
        let plural = self.kind.plural();
        match self.kind.is_namespaced() {
            true => format!("{group}/namespaces/{}/{plural}", segment(&key.namespace)),
            false => format!("{group}/{plural}"),
        }
    }

    /// The path of one object.
    pub(crate) fn path_to(self, key: &ObjectKey) -> String {
        format!("{}/{}", self.path_around(key), segment(&key.name))
    }
}

/// The versions in which an API server has the kinds that are watched: what is written goes to the same place. Clones
/// share it.
#[derive(Clone, Debug, Default)]
pub struct Served(Arc<Mutex<BTreeMap<KindRef, &'static str>>>);

impl Served {
    /// A kind was found there.
    pub(crate) fn is_at(&self, place: Place) {
        let mut versions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        versions.insert(place.kind, place.api_version);
    }

    /// Where a kind is, as far as is known: its best version where that is not.
    pub(crate) fn place(&self, kind: KindRef) -> Place {
        let versions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let api_version = versions.get(&kind).copied().unwrap_or(kind.versions()[0]);
        Place { kind, api_version }
    }
}

/// The path under which a version of an API group lies: `/api/v1`, `/apis/policy/v1`.
pub(crate) fn group_path(api_version: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api_version}")
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget};

    use super::*;

    #[test]
    fn a_kind_is_found_at_its_path() {
        let path = |kind, api_version| Place { kind, api_version }.path();
        assert_eq!(path(KindRef::of::<Pod>(), "v1"), "/api/v1/pods");
        let budgets = path(KindRef::of::<PodDisruptionBudget>(), "policy/v1beta1");
        assert_eq!(budgets, "/apis/policy/v1beta1/poddisruptionbudgets");
    }

    #[test]
    fn an_object_is_found_in_the_version_that_the_server_has() {
        let served = Served::default();
        let to = |kind, key| served.place(kind).path_to(&key);
        let claim = to(KindRef::of::<PersistentVolumeClaim>(), ObjectKey::new("ns", "c"));
        assert_eq!(claim, "/api/v1/namespaces/ns/persistentvolumeclaims/c");
        let volume = to(KindRef::of::<PersistentVolume>(), ObjectKey::new("", "v"));
        assert_eq!(volume, "/api/v1/persistentvolumes/v");
        let budgets = KindRef::of::<PodDisruptionBudget>();
        let key = || ObjectKey::new("ns", "a b");
        let best = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets/a%20b";
        assert_eq!(to(budgets, key()), best);
        served.is_at(Place { kind: budgets, api_version: "policy/v1beta1" });
        assert_eq!(to(budgets, key()), best.replace("v1", "v1beta1"));
    }
}
