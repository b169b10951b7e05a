//! Containers on the wire: their ports, images and restart policies.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::error::{Result, WireError, Within};
use super::pod_resources::Requirements;
use super::primitive::{List, given};
use crate::ports::ANY_IP;
use crate::{HostPort, PodImages, Str, normalized_image_name};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// A container or init container.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Container {
    pub(super) name: Option<Str>,
    image: Option<Str>,
    ports: List<Port>,
    pub(super) resources: Option<Requirements>,
    restart_policy: Option<Str>,
    restart_policy_rules: List<RestartRule>,
    volume_mounts: List<VolumeMount>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeMount {
    bind_mount_options: List<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Port {
    #[serde(rename = "containerPort")]
    inside: Option<i32>,
    #[serde(rename = "hostPort")]
    outside: Option<i32>,
    #[serde(rename = "hostIP")]
    ip: Option<Str>,
    protocol: Option<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RestartRule {
    action: Option<Str>,
}

impl Container {
    /// Whether an init container is a sidecar, which keeps running with the containers.
    pub(super) fn restarts_always(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }

    /// Whether a rule restarts all containers of the pod when this one exits.
    pub(super) fn restarts_all(&self) -> bool {
        let mut actions = self.restart_policy_rules.0.iter().map(|rule| rule.action.as_deref());
        actions.any(|action| action == Some("RestartAllContainers"))
    }

    /// Whether a volume is mounted with bind mount options.
    pub(super) fn has_bind_mount_options(&self) -> bool {
        self.volume_mounts.0.iter().any(|mount| !mount.bind_mount_options.0.is_empty())
    }
}

/// The containers of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Containers<'a> {
    pub(super) init: &'a [Container],
    pub(super) main: &'a [Container],
}

impl<'a> Containers<'a> {
    /// Init containers, then containers.
    pub(super) fn all(self) -> impl Iterator<Item = &'a Container> {
        self.init.iter().chain(self.main)
    }

    /// The host ports that are in use while the pod runs, in canonical order.
    ///
    /// As in utils.go, GetHostPorts: those of containers and sidecars. As in defaults.go,
    /// defaultHostNetworkPorts: on the host network every port is a host port.
    pub(super) fn host_ports(self, host_network: bool) -> Result<Vec<HostPort>> {
        let mut ports = Vec::new();
        let mut add = |field, containers: &[Container], holds: fn(&Container) -> bool| {
            for (index, container) in containers.iter().enumerate() {
                for (at, port) in container.ports.0.iter().enumerate() {
                    let port = port.take(host_network);
                    let port = port.within_item("ports", at).within_item(field, index)?;
                    ports.extend(port.filter(|_| holds(container)));
                }
            }
            Ok(())
        };
        add("initContainers", self.init, Container::restarts_always)?;
        add("containers", self.main, |_| true)?;
        ports.sort_unstable();
        ports.dedup();
        Ok(ports)
    }

    /// The images of all containers and of image volumes. As in image_locality.go, sumImageScores.
    pub(super) fn images(self, volumes: impl Iterator<Item = &'a Str>) -> PodImages {
        let of_containers = self.all().map(|one| one.image.as_deref().unwrap_or_default());
        let names = of_containers.chain(volumes.map(Str::as_str)).map(normalized_image_name);
        PodImages {
            names: names.collect(),
            containers: self.init.len() + self.main.len(),
            init_containers: self.init.len(),
        }
    }
}

impl Port {
    /// The host port, if it is one.
    fn take(&self, host_network: bool) -> Result<Option<HostPort>> {
        let own = ("hostPort", self.outside.unwrap_or_default());
        let (field, port) = match own {
            (_, 0) if host_network => ("containerPort", self.inside.unwrap_or_default()),
            own => own,
        };
        let protocol = given(self.protocol.clone()).unwrap_or(Str::const_new("TCP"));
        if !PROTOCOLS.contains(&protocol.as_str()) {
            return Err(WireError::unsupported("protocol", &protocol, &PROTOCOLS));
        }
        match port {
            0 => Ok(None),
            1..=65535 => {
                let ip = given(self.ip.clone()).unwrap_or(Str::const_new(ANY_IP));
                Ok(Some(HostPort { protocol, ip, port }))
            }
            _ => Err(WireError::invalid(field, port, "must be between 1 and 65535, inclusive")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::testing::{join, pods};

    #[test]
    fn host_ports_are_those_in_use_while_the_pod_runs() {
        pods(
            &[
                (
                    r#""spec":{"containers":[{"ports":[{"containerPort":1,"hostPort":80},
                        {"hostPort":53,"protocol":"UDP","hostIP":"10.0.0.1"},{"containerPort":9},
                        {"hostPort":0},{"hostPort":81,"hostIP":"","protocol":null}]}]}"#,
                    "TCP 0.0.0.0:80 TCP 0.0.0.0:81 UDP 10.0.0.1:53",
                ),
                (
                    r#""spec":{"initContainers":[{"ports":[{"hostPort":1}]},
                        {"restartPolicy":"Always","ports":[{"hostPort":2}]}],
                        "containers":[{"ports":[{"hostPort":2}]}]}"#,
                    "TCP 0.0.0.0:2",
                ),
                (
                    r#""spec":{"hostNetwork":true,"containers":[{"ports":[{"containerPort":8080},
                        {"containerPort":8081,"hostPort":81}]}]}"#,
                    "TCP 0.0.0.0:81 TCP 0.0.0.0:8080",
                ),
                (
                    r#""spec":{"containers":[{},{"ports":[{"hostPort":70000}]}]}"#,
                    "spec.containers[1].ports[0].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                ),
                (
                    r#""spec":{"hostNetwork":true,"initContainers":[{"ports":[{"containerPort":-1}]}]}"#,
                    "spec.initContainers[0].ports[0].containerPort: Invalid value: -1: must be between 1 and 65535, inclusive",
                ),
                (
                    r#""spec":{"containers":[{"ports":[{"hostPort":80,"protocol":"tcp"}]}]}"#,
                    r#"spec.containers[0].ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP""#,
                ),
                (
                    r#""spec":{"containers":[{"ports":[{"hostPort":"http"}]}]}"#,
                    r#"spec.containers[0].ports[0].hostPort: invalid type: string "http", expected i32"#,
                ),
            ],
            |pod| {
                let ports = pod.host_ports.iter();
                let ports =
                    ports.map(|port| format!("{} {}:{}", port.protocol, port.ip, port.port));
                ports.collect::<Vec<_>>().join(" ")
            },
        );
    }

    #[test]
    fn images_are_those_of_all_containers_and_of_image_volumes() {
        pods(
            &[(
                r#""spec":{"volumes":[{"name":"v","image":{"reference":"data"}},{"name":"w"}],
                    "containers":[{"image":"web:2"},{"image":"web:2"}],
                    "initContainers":[{"image":"host:5000/init"}]}"#,
                "host:5000/init:latest, web:2, web:2, data:latest; 3 containers; web:2, web:2",
            )],
            |pod| {
                let images = &pod.images;
                let (all, own) = (join(&images.names), join(images.of_containers()));
                format!("{all}; {} containers; {own}", images.containers)
            },
        );
    }

    #[test]
    fn required_node_features_follow_from_what_a_pod_uses() {
        pods(
            &[
                (r#""spec":{"hostNetwork":true,"hostUsers":true}"#, ""),
                (
                    r#""spec":{"hostNetwork":true,"hostUsers":false}"#,
                    "UserNamespacesHostNetworkSupport",
                ),
                (r#""spec":{"containers":[{"restartPolicyRules":[{"action":"Restart"}]}]}"#, ""),
                (
                    r#""spec":{"initContainers":[{"restartPolicyRules":[{"action":"Restart"},
                        {"action":"RestartAllContainers","exitCodes":{"operator":"In"}}]}]}"#,
                    "RestartAllContainersOnContainerExits",
                ),
            ],
            |pod| join(&pod.required_features),
        );
    }
}
