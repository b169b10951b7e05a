//! Names of labels and resources: what is valid, and what Kubernetes says when one is not.

pub(crate) use plimsoll_framework::label_syntax::label_key_faults;

/// Whether `name` is the name of an extended resource: one with a prefix that is not Kubernetes'
/// own, and short enough to have a quota.
///
/// As in pkg/apis/core/v1/helper/helpers.go, IsExtendedResourceName.
pub(crate) fn is_extended_resource(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    !is_native
        && !name.starts_with("requests.")
        && label_key_faults(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_resources_have_a_foreign_domain() {
        assert!(is_extended_resource("nvidia.com/gpu"));
        for name in ["cpu", "kubernetes.io/x", "a.kubernetes.io/x", "requests.x.io/a"] {
            assert!(!is_extended_resource(name), "{name}");
        }
    }
}
