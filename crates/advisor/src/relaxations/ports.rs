//! Host ports.

use serde_json::Value;

use super::{Relaxation, list, remove_at};

const LISTS: [&str; 2] = ["containers", "initContainers"];

/// The ports that need a port of the node.
pub(super) fn all_of(manifest: &Value) -> Vec<Relaxation> {
    let is_of_host = manifest["spec"]["hostNetwork"] == true;
    let mut all = Vec::new();
    for name in LISTS {
        for (at, container) in list(manifest, &format!("/spec/{name}")).iter().enumerate() {
            for (port, value) in list(container, "/ports").iter().enumerate() {
                let is_set = value["hostPort"].as_u64().is_some_and(|port| 0 < port);
                if is_set || is_of_host {
                    all.push(Relaxation::HostPort(name, at, port));
                }
            }
        }
    }
    all
}

/// Drops the host port; in the network of the host the whole entry, since its container port is the host port.
pub(super) fn drop(manifest: &mut Value, name: &str, container: usize, port: usize) {
    let ports = format!("/spec/{name}/{container}/ports");
    if manifest["spec"]["hostNetwork"] == true {
        remove_at(manifest, &ports, port);
    } else {
        super::remove_key(manifest, &format!("{ports}/{port}"), "hostPort");
    }
}

pub(super) fn text(manifest: &Value, name: &str, container: usize, port: usize) -> String {
    let value = &manifest["spec"][name][container]["ports"][port];
    let host = value["hostPort"].as_u64().filter(|port| 0 < *port);
    let number = host.or(value["containerPort"].as_u64()).unwrap_or_default();
    let protocol = value["protocol"].as_str().unwrap_or("TCP");
    format!("drop the host port {number}/{protocol}")
}
