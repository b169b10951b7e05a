//! Where the objects of a kind are found on one API server.

use plimsoll_api::KindRef;

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
}

/// The path under which a version of an API group lies: `/api/v1`, `/apis/policy/v1`.
pub(crate) fn group_path(api_version: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api_version}")
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Pod, PodDisruptionBudget};

    use super::*;

    #[test]
    fn a_kind_is_found_at_its_path() {
        let path = |kind, api_version| Place { kind, api_version }.path();
        assert_eq!(path(KindRef::of::<Pod>(), "v1"), "/api/v1/pods");
        let budgets = path(KindRef::of::<PodDisruptionBudget>(), "policy/v1beta1");
        assert_eq!(budgets, "/apis/policy/v1beta1/poddisruptionbudgets");
    }
}
