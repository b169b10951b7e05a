//! The pod on the wire.

use std::sync::Arc;

use serde::Deserialize;

use super::affinity::{Affinity, Owner, Spread};
use super::amount::Amounts;
use super::container::{Container, Containers};
use super::devices::{
    WireExtendedClaim, WireNodeAllocatable, WirePodClaim, WirePodClaimStatus, container_devices,
    pod_claims, pod_devices,
};
use super::error::{Result, WireError, Within, each};
use super::meta::{Meta, Metadata};
use super::pod_resources::{Condition, ContainerStatus, Requirements, resources};
use super::primitive::{List, Named, Table, given, names, time};
use super::taints::WireToleration;
use super::volume_source::WirePodVolume;
use super::{Manifest, Wire};
use crate::features::{self, FeatureUse};
use crate::requests::{Demand, RequestGates};
use crate::{
    Edition, Kind, NodeSelection, ObjectKey, Pod, PodKey, PodPhase, PodTemplate, PreemptionPolicy,
    Str,
};

/// The scheduler of a pod that names none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// v1 Pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WirePod {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<Status>,
}

/// `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) containers: List<Container>,
    pub(super) init_containers: List<Container>,
    pub(super) overhead: Amounts,
    pub(super) resources: Option<Requirements>,
    scheduler_name: Option<Str>,
    priority: Option<i32>,
    preemption_policy: Option<Str>,
    node_name: Option<Str>,
    scheduling_gates: List<Named>,
    scheduling_group: Option<SchedulingGroup>,
    node_selector: Table<Str>,
    affinity: Option<Affinity>,
    tolerations: List<WireToleration>,
    topology_spread_constraints: List<Spread>,
    volumes: List<WirePodVolume>,
    resource_claims: List<WirePodClaim>,
    host_network: Option<bool>,
    host_users: Option<bool>,
}

/// `schedulingGroup`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SchedulingGroup {
    pod_group_name: Option<Str>,
}

/// `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    pub(super) container_statuses: List<ContainerStatus>,
    pub(super) init_container_statuses: List<ContainerStatus>,
    pub(super) resources: Option<Requirements>,
    pub(super) allocated_resources: Option<Amounts>,
    pub(super) conditions: List<Condition>,
    phase: Option<Str>,
    nominated_node_name: Option<Str>,
    start_time: Option<Str>,
    resource_claim_statuses: List<WirePodClaimStatus>,
    #[serde(rename = "extendedResourceClaimStatus")]
    extended_resource_claim: Option<WireExtendedClaim>,
    node_allocatable_resource_claim_statuses: List<WireNodeAllocatable>,
}

impl Wire for WirePod {
    type Value = Pod;

    fn take(self) -> Result<Pod> {
        let meta = Meta::take(self.metadata)?;
        let mut spec = self.spec.unwrap_or_default();
        let status = self.status.unwrap_or_default();
        let resources = resources(&spec, &status)?;
        let demand = Demand::of(&resources, RequestGates::default());
        let started = time("startTime", status.start_time.as_ref()).within("status")?;
        let key = meta.key();
        let node_name = given(spec.node_name.take());
        let template = PodTemplate {
            labels: meta.labels,
            controller: meta.controller,
            asks: demand.asks,
            requests: demand.on_node.requests,
            non_zero_requests: demand.on_node.non_zero,
            limits: demand.limits,
            ..PodTemplate::default()
        };
        let template = spec.take(&key, template).within("spec")?;
        Ok(Pod {
            key,
            uid: meta.uid,
            annotations: meta.annotations,
            created: meta.created,
            deletion: meta.deletion,
            started,
            phase: phase(status.phase.as_deref()),
            preempted: status
                .conditions
                .0
                .iter()
                .any(|one| one.says("DisruptionTarget", "PreemptionByScheduler")),
            node_name,
            nominated_node: given(status.nominated_node_name),
            unreadable: None,
            edition: Edition {
                resource_version: meta.resource_version,
                generation: meta.generation,
                unscheduled: status
                    .conditions
                    .0
                    .iter()
                    .find_map(Condition::unscheduled)
                    .map(Box::new),
            },
            resources: (!resources.is_plain()).then(|| Box::new(resources)),
            devices: pod_devices(
                status.resource_claim_statuses,
                status.extended_resource_claim,
                status.node_allocatable_resource_claim_statuses,
            ),
            template: Arc::new(template),
        })
    }
}

impl Spec {
    /// Adds everything in the spec except requests to the template of pod `key`.
    fn take(self, key: &PodKey, template: PodTemplate) -> Result<PodTemplate> {
        let owner = Owner { namespace: &key.namespace, labels: &template.labels };
        let affinity = self.affinity.unwrap_or_default().take(owner).within("affinity")?;
        let spread = each("topologySpreadConstraints", self.topology_spread_constraints, |one| {
            one.take(owner)
        })?;
        let host_network = self.host_network.unwrap_or_default();
        let containers = Containers { init: &self.init_containers.0, main: &self.containers.0 };
        let required_features = features::required(FeatureUse {
            host_network,
            own_users: self.host_users == Some(false),
            restarts_all: containers.all().any(Container::restarts_all),
            // Ephemeral containers do not count: they are added when the pod has its node.
            bind_mount_options: containers.all().any(Container::has_bind_mount_options),
        });
        Ok(PodTemplate {
            scheduler_name: given(self.scheduler_name).unwrap_or(Str::const_new(DEFAULT_SCHEDULER)),
            priority: self.priority.unwrap_or_default(),
            preemption_policy: preemption_policy(self.preemption_policy.as_deref())?,
            scheduling_gates: names(self.scheduling_gates),
            scheduling_group: self.scheduling_group.and_then(|group| given(group.pod_group_name)),
            node_selection: NodeSelection {
                selector: self.node_selector.into(),
                terms: affinity.node_terms,
            },
            preferred_nodes: affinity.preferred_nodes,
            tolerations: each("tolerations", self.tolerations, WireToleration::take)?,
            affinity: affinity.pods,
            spread,
            host_ports: containers.host_ports(host_network)?,
            images: containers.images(self.volumes.0.iter().filter_map(WirePodVolume::image)),
            required_features,
            volumes: self.volumes.into_iter().filter_map(|one| one.take(&key.name)).collect(),
            resource_claims: pod_claims(self.resource_claims)?,
            container_devices: container_devices(containers),
            ..template
        })
    }
}

fn phase(phase: Option<&str>) -> PodPhase {
    match phase {
        None | Some("" | "Pending") => PodPhase::Pending,
        Some("Succeeded" | "Failed") => PodPhase::Ended,
        Some(_) => PodPhase::Running,
    }
}

pub(super) fn preemption_policy(policy: Option<&str>) -> Result<PreemptionPolicy> {
    match policy {
        None | Some("" | "PreemptLowerPriority") => Ok(PreemptionPolicy::PreemptLowerPriority),
        Some("Never") => Ok(PreemptionPolicy::Never),
        Some(other) => {
            let words = ["Never", "PreemptLowerPriority"];
            Err(WireError::unsupported("preemptionPolicy", other, &words))
        }
    }
}

impl Kind for Pod {
    const NAME: &'static str = "Pod";
    const PLURAL: &'static str = "pods";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const WITHOUT: Option<&'static str> = None;

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WirePod>()?.take()
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::testing::{join, objects, pods};
    use crate::{Effect, Unscheduled, wire::Object};

    #[test]
    fn omitted_fields_of_a_pod_have_the_defaults_of_the_api_server() {
        let bare = "default/p default-scheduler 0 PreemptLowerPriority Pending None None []";
        pods(
            &[
                (r#""spec":{},"status":{}"#, bare),
                (r#""spec":null,"status":null"#, bare),
                (
                    r#""spec":{"schedulerName":"","nodeName":"","priority":null},
                       "status":{"phase":"","nominatedNodeName":""}"#,
                    bare,
                ),
                (
                    r#""spec":{"schedulerName":"mine","nodeName":"a","priority":-7,
                       "preemptionPolicy":"Never","schedulingGates":[{"name":"g"},{"name":"h"}]},
                       "status":{"phase":"Running","nominatedNodeName":"b"}"#,
                    r#"default/p mine -7 Never Running Some("a") Some("b") [g, h]"#,
                ),
                (
                    r#""spec":{"preemptionPolicy":"Always"}"#,
                    r#"spec.preemptionPolicy: Unsupported value: "Always": supported values: "Never", "PreemptLowerPriority""#,
                ),
                (
                    r#""spec":{"priority":"high"}"#,
                    r#"spec.priority: invalid type: string "high", expected i32"#,
                ),
            ],
            |pod| {
                format!(
                    "{} {} {} {:?} {:?} {:?} {:?} [{}]",
                    pod.key,
                    pod.scheduler_name,
                    pod.priority,
                    pod.preemption_policy,
                    pod.phase,
                    pod.node_name,
                    pod.nominated_node,
                    join(&pod.scheduling_gates),
                )
            },
        );
    }

    #[test]
    fn a_pod_that_succeeded_or_failed_has_ended() {
        pods(
            &[
                (r#""status":{"phase":"Succeeded"}"#, "Ended"),
                (r#""status":{"phase":"Failed"}"#, "Ended"),
                (r#""status":{"phase":"Unknown"}"#, "Running"),
            ],
            |pod| format!("{:?}", pod.phase),
        );
    }

    #[test]
    fn an_edition_has_the_condition_that_the_pod_is_not_scheduled() {
        let pod = |status: &str| {
            let said = r#""type":"PodScheduled","reason":"Unschedulable","message":"no room""#;
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","resourceVersion":"41",
                   "generation":3}},"status":{{"conditions":[{{"type":"Ready","status":"False"}},
                   {{{said},"status":"{status}","observedGeneration":2}}]}}}}"#
            )
        };
        objects(&[(&pod("False"), "41 3 true"), (&pod("True"), "41 3 false")], |object| {
            let Object::Pod(pod) = object else { panic!("a pod is expected, not {object:?}") };
            let edition = pod.edition;
            let told = edition.unscheduled.map(|told| *told);
            let is_told = told == Some(Unscheduled::new(2, "Unschedulable", "no room"));
            format!("{} {} {is_told}", edition.resource_version, edition.generation)
        });
    }

    #[test]
    fn a_pod_names_its_resource_claims() {
        pods(
            &[
                (
                    r#""spec":{"resourceClaims":[{"name":"gpu","resourceClaimName":"x"},
                        {"name":"nic","resourceClaimTemplateName":"y"},{"name":"z"}]}"#,
                    r#"gpu=Claim("x") nic=Template("y") z=Unknown"#,
                ),
                (
                    r#""spec":{"resourceClaims":[{"name":"a","resourceClaimName":"x"},
                        {"name":"a","resourceClaimName":"y"}]}"#,
                    r#"spec.resourceClaims[1]: Duplicate value: "a": it must occur once"#,
                ),
                (
                    r#""spec":{"resourceClaims":[{"name":"a","resourceClaimName":"x",
                        "resourceClaimTemplateName":"y"}]}"#,
                    "spec.resourceClaims[0]: Invalid value: null: at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
                ),
                (
                    r#""spec":{"containers":[{"name":"a"},{"name":"b","resources":{"claims":[
                        {"name":"gpu","request":"r"},{"name":"nic"}]}}],
                        "initContainers":[{"name":"i","resources":{"claims":[{"name":"nic"}]}}]}"#,
                    "i:nic/ b:gpu/r b:nic/",
                ),
            ],
            |pod| {
                let claims = pod.resource_claims.iter();
                let claims = claims.map(|one| format!("{}={:?}", one.name, one.source));
                let used = pod.container_devices.iter().flat_map(|one| {
                    let show = |claim: &crate::devices::ContainerResourceClaim| {
                        format!("{}:{}/{}", one.container, claim.name, claim.request)
                    };
                    one.claims.iter().map(show)
                });
                claims.chain(used).collect::<Vec<_>>().join(" ")
            },
        );
    }

    #[test]
    fn the_status_of_a_pod_names_the_claims_that_were_made_for_it() {
        pods(
            &[
                (r#""status":{"resourceClaimStatuses":[]}"#, "None"),
                (
                    r#""status":{"resourceClaimStatuses":[{"name":"gpu","resourceClaimName":"p-gpu"},{"name":"nic"}],
                        "extendedResourceClaimStatus":{"resourceClaimName":"p-e","requestMappings":[
                            {"containerName":"c","resourceName":"a.io/gpu","requestName":"r"}]},
                        "nodeAllocatableResourceClaimStatuses":[{"resourceClaimName":"p-gpu",
                            "containers":["c"],"resources":{"memory":"1Gi","cpu":2}}]}"#,
                    r#"gpu=Some("p-gpu") nic=None p-e c a.io/gpu r p-gpu c cpu=2 memory=1Gi"#,
                ),
            ],
            |pod| {
                let Some(devices) = &pod.devices else { return "None".to_owned() };
                let claims = devices.claims.iter();
                let mut words: Vec<String> =
                    claims.map(|one| format!("{}={:?}", one.name, one.claim)).collect();
                if let Some(extended) = &devices.extended {
                    words.push(extended.claim.to_string());
                    for (container, resource, request) in &extended.requests {
                        words.push(format!("{container} {resource} {request}"));
                    }
                }
                for one in &devices.node_allocatable {
                    words.push(format!("{} {}", one.claim, join(&one.containers)));
                    let amounts = one.resources.iter();
                    words.extend(amounts.map(|(name, amount)| format!("{name}={amount}")));
                }
                words.join(" ")
            },
        );
    }

    #[test]
    fn node_selector_and_tolerations_are_those_of_the_spec() {
        pods(
            &[
                (
                    r#""spec":{"nodeSelector":{"b":"2","a":"1"},"tolerations":[{"operator":"Exists",
                       "effect":"NoExecute"}]}"#,
                    "a=1 b=2, NoExecute",
                ),
                (
                    r#""spec":{"tolerations":[{"operator":"Exists"},{"key":"a","effect":"Some"}]}"#,
                    r#"spec.tolerations[1].effect: Unsupported value: "Some": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
                ),
                (
                    r#""spec":{"nodeSelector":{"a":1}}"#,
                    "spec.nodeSelector[a]: invalid type: integer `1`, expected a string",
                ),
            ],
            |pod| {
                let selector = pod.node_selection.selector.iter();
                let selector: Vec<_> = selector.map(|(k, v)| format!("{k}={v}")).collect();
                let effects = pod.tolerations.iter().filter_map(|toleration| toleration.effect);
                let effects: String = effects.map(Effect::as_str).collect();
                format!("{}, {effects}", selector.join(" "))
            },
        );
    }

    #[test]
    fn a_pod_is_read_with_its_metadata() {
        let pod = |metadata: &str| {
            let start = r#"{"startTime":"2026-01-02T03:04:07Z"}"#;
            format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},"status":{start}}}"#)
        };
        objects(
            &[
                (
                    &pod(
                        r#"{"name":"web","namespace":"shop","uid":"u","labels":{"b":"2","a":null},
                        "annotations":{"n":"1"},"creationTimestamp":"2026-01-02T03:04:05Z",
                        "deletionTimestamp":"2026-01-02T03:04:06Z","ownerReferences":[
                        {"apiVersion":"v1","kind":"Node","name":"x"},
                        {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"y","uid":"z","controller":true}]}"#,
                    ),
                    "shop/web u a= b=2 n=1 05 06 07 apps/v1 ReplicaSet y z",
                ),
                (
                    &pod(r#"{"name":"web","creationTimestamp":null,"labels":null}"#),
                    "default/web     07",
                ),
                (
                    &pod(r#"{"name":"web","deletionTimestamp":"soon"}"#),
                    r#"metadata.deletionTimestamp: Invalid value: "soon": must be a time in RFC 3339, such as "2006-01-02T15:04:05Z""#,
                ),
                (
                    &pod(r#"{"generateName":"web-"}"#),
                    "metadata.name: Required value: give the object a name; none is generated",
                ),
            ],
            |object| {
                let Object::Pod(pod) = object else { panic!("a pod is expected, not {object:?}") };
                let labels = pod.labels.iter().chain(pod.annotations.iter());
                let labels: Vec<_> = labels.map(|(k, v)| format!("{k}={v}")).collect();
                let times = [pod.created, pod.deletion, pod.started];
                let seconds =
                    times.map(|time| time.map_or_else(String::new, |time| time.to_string()));
                let seconds = seconds.map(|time| time.chars().skip(17).take(2).collect::<String>());
                let mut all = vec![pod.key.to_string(), pod.uid.to_string(), labels.join(" ")];
                all.extend(seconds);
                all.extend(
                    pod.controller
                        .clone()
                        .map(|by| [by.api_version, by.kind, by.name, by.uid].join(" ")),
                );
                all.join(" ")
            },
        );
    }
}
