//! Checks the host ports of a pod on a node.

use std::collections::BTreeSet;

use plimsoll_api::{HostPort, Node, Pod, Str};

use super::ObservedCluster;

/// The address that stands for all addresses.
const ALL: &str = "0.0.0.0";

impl ObservedCluster {
    /// No pod on the node may use the same port. As in kube-scheduler, ports are a set: if something
    /// else has placed two pods with the same port, it becomes free when the first of them is deleted.
    pub(super) fn has_ports(&self, pod: &Pod, node: &Node, there: &[&Pod]) -> Result<(), String> {
        match there.iter().find(|other| self.share_port(pod, other, node)) {
            Some(other) => Err(format!("{} uses the same port", other.key)),
            None => Ok(()),
        }
    }

    /// Whether two pods use the same port, and no other pods have shared it before.
    pub(super) fn share_port(&self, one: &Pod, other: &Pod, node: &Node) -> bool {
        let clash = |a: &HostPort, b: &HostPort| {
            let address = a.ip == b.ip || [&a.ip, &b.ip].into_iter().any(|ip| ip == ALL);
            (a.port, &a.protocol) == (b.port, &b.protocol) && address
        };
        let was_shared = |b: &HostPort| self.shared_ports.contains(&(node.name.clone(), b.clone()));
        one.host_ports.iter().any(|a| {
            other.host_ports.iter().any(|b| clash(a, b) && !was_shared(b) && !was_shared(a))
        })
    }

    /// Records that a pod was observed on a node.
    pub(super) fn note_ports(&mut self, node: &Str) {
        let (mut used, mut shared) = (BTreeSet::new(), Vec::new());
        for port in self.pods_on(node).flat_map(|pod| &pod.host_ports) {
            if !used.insert(port) {
                shared.push((node.clone(), port.clone()));
            }
        }
        self.shared_ports.extend(shared);
    }

    /// Records that a pod was deleted.
    pub(super) fn prune_ports(&mut self) {
        if self.shared_ports.is_empty() {
            return;
        }
        let mut shared = std::mem::take(&mut self.shared_ports);
        shared.retain(|(node, port)| self.pods_on(node).any(|pod| pod.host_ports.contains(port)));
        self.shared_ports = shared;
    }
}
