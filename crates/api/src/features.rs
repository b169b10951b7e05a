//! Which features a pod needs its node to have.
//!
//! A node declares what its kubelet can do (`status.declaredFeatures`), and a pod that uses such a
//! feature fits only there. Which features a pod uses depends only on its spec.

use crate::Str;

/// Restart rules that restart all containers of a pod when one exits.
pub const RESTART_ALL_CONTAINERS: &str = "RestartAllContainersOnContainerExits";

/// User namespaces for pods on the host network.
pub const USER_NAMESPACES_HOST_NETWORK: &str = "UserNamespacesHostNetworkSupport";

/// Options of the bind mounts of volumes (`bindMountOptions`). Releases before 1.37 do not know them.
pub const VOLUME_BIND_MOUNT_OPTIONS: &str = "VolumeBindMountOptions";

/// The features that a pod uses and that nodes may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a use of its own")]
pub struct FeatureUse {
    /// It uses the network of its node (`hostNetwork`).
    pub host_network: bool,
    /// It has its own user namespace (`hostUsers: false`).
    pub own_users: bool,
    /// A container or init container has a restart rule with the action `RestartAllContainers`.
    pub restarts_all: bool,
    /// A container of any kind mounts a volume with `bindMountOptions`.
    pub bind_mount_options: bool,
}

/// Names of the features that a node must declare for such a pod, sorted.
///
/// As in nodedeclaredfeatures of component-helpers 0.37, InferForPodScheduling. No pod needs any of its
/// other features to be placed (DynamicResources checks that of DRAOptionalNodeOperations), and none
/// has a version from which on all nodes are assumed to have it.
pub fn required(uses: FeatureUse) -> Vec<Str> {
    let needs = [
        (uses.restarts_all, RESTART_ALL_CONTAINERS),
        (uses.host_network && uses.own_users, USER_NAMESPACES_HOST_NETWORK),
        (uses.bind_mount_options, VOLUME_BIND_MOUNT_OPTIONS),
    ];
    needs.into_iter().filter(|(needed, _)| *needed).map(|(_, name)| Str::const_new(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_needs_what_it_uses_and_the_names_are_sorted() {
        let both = [RESTART_ALL_CONTAINERS, USER_NAMESPACES_HOST_NETWORK];
        for (host_network, own_users, restarts_all, expected) in [
            (false, false, false, &[][..]),
            (true, false, false, &[]),
            (false, true, false, &[]),
            (true, true, false, &both[1..]),
            (false, false, true, &both[..1]),
            (true, true, true, &both),
        ] {
            let uses =
                FeatureUse { host_network, own_users, restarts_all, ..FeatureUse::default() };
            assert_eq!(required(uses), expected, "{uses:?}");
        }
        assert!(both.is_sorted());
        let mounts =
            FeatureUse { bind_mount_options: true, restarts_all: true, ..FeatureUse::default() };
        let needed = required(mounts);
        assert_eq!(needed, [RESTART_ALL_CONTAINERS, VOLUME_BIND_MOUNT_OPTIONS]);
        assert!(needed.is_sorted());
    }
}
