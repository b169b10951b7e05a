//! Valid names of labels and resources, and the errors of Kubernetes for others.

pub(crate) use plimsoll_framework::label_syntax::label_key_faults;

/// Whether `name` is the name of an extended resource: it has a prefix that does not belong to Kubernetes, and it is
/// short enough for a quota.
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
