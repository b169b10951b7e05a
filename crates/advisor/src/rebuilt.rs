//! Writes a manifest for a pod of which only what decisions read is known, as in a recording.

use plimsoll_api::devices::{ClaimSource, ContainerDevices, ContainerRun};
use plimsoll_api::requests::{DEFAULT_MEMORY, DEFAULT_MILLI_CPU};
use plimsoll_api::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use plimsoll_api::{
    AffinityTerm, Comparison, Labels, Limits, NodeSelectorTerm, Pod, PodVolume, PodVolumeKind,
    PreemptionPolicy, Requirement, Selector, SpreadConstraint, Str, Test, Toleration, VolumeSource,
    WeightedTerm, WhenUnsatisfiable,
};
use serde_json::{Map, Value, json};

use crate::change::pod_of;
use crate::new_nodes::exact;
use crate::relaxations::requests;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// A manifest that was made from what is known of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct RebuiltPod {
    /// The manifest. It has what decisions read: containers have other names, and the first one requests what all request
    /// together.
    pub manifest: Value,
    /// What is not the same if the manifest is read again.
    pub differs: Vec<&'static str>,
}

impl RebuiltPod {
    /// Writes the manifest of a pod.
    pub fn of(pod: &Pod) -> Self {
        let manifest = manifest_of(pod);
        let differs = match pod_of(&manifest) {
            Ok(again) => differences(pod, &again),
            // Whoever reads it is told what is wrong.
            Err(_) => Vec::new(),
        };
        RebuiltPod { manifest, differs }
    }
}

/// What two pods do not have in common.
fn differences(one: &Pod, other: &Pod) -> Vec<&'static str> {
    let requests = |pod: &Pod| {
        let mut asks = pod.asks.clone();
        asks.limits = Limits::default();
        (asks, pod.requests.clone(), pod.non_zero_requests)
    };
    let parts = [
        ("labels", one.labels == other.labels),
        ("owner", one.controller == other.controller),
        ("requests", requests(one) == requests(other)),
        ("limits", (&one.limits, &one.asks.limits) == (&other.limits, &other.asks.limits)),
        (
            "node affinity",
            (&one.node_selection, &one.preferred_nodes)
                == (&other.node_selection, &other.preferred_nodes),
        ),
        ("tolerations", one.tolerations == other.tolerations),
        ("affinity to other pods", one.affinity == other.affinity),
        ("spread constraints", one.spread == other.spread),
        ("host ports", one.host_ports == other.host_ports),
        ("images", one.images == other.images),
        ("features of nodes", one.required_features == other.required_features),
        ("volumes", one.volumes == other.volumes),
        ("claims on devices", one.resource_claims == other.resource_claims),
        ("devices of containers", one.container_devices == other.container_devices),
    ];
    parts.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}

fn manifest_of(pod: &Pod) -> Value {
    let [init, main] = containers(pod);
    let mut spec = json!({
        "schedulerName": pod.scheduler_name, "priority": pod.priority, "containers": main,
    });
    if pod.preemption_policy == PreemptionPolicy::Never {
        spec["preemptionPolicy"] = json!("Never");
    }
    if let Some(group) = &pod.scheduling_group {
        spec["schedulingGroup"] = json!({"podGroupName": group});
    }
    if 0 < pod.asks.overhead_milli_cpu {
        spec["overhead"] = json!({CPU: exact(CPU, pod.asks.overhead_milli_cpu)});
    }
    let gates = pod.scheduling_gates.iter().map(|gate| json!({"name": gate}));
    let claims = pod.resource_claims.iter().map(|claim| match &claim.source {
        ClaimSource::Claim(name) => json!({"name": claim.name, "resourceClaimName": name}),
        ClaimSource::Template(name) => {
            json!({"name": claim.name, "resourceClaimTemplateName": name})
        }
        ClaimSource::Unknown => json!({"name": claim.name}),
    });
    let lists: [(&str, Vec<Value>); 6] = [
        ("initContainers", init),
        ("schedulingGates", gates.collect()),
        ("tolerations", pod.tolerations.iter().map(toleration).collect()),
        ("topologySpreadConstraints", pod.spread.iter().map(spread).collect()),
        ("volumes", volumes(pod)),
        ("resourceClaims", claims.collect()),
    ];
    for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        spec[name] = list.into();
    }
    if !pod.node_selection.selector.is_empty() {
        spec["nodeSelector"] = table(&pod.node_selection.selector);
    }
    let affinity = affinity(pod);
    if !affinity.is_empty() {
        spec["affinity"] = affinity.into();
    }
    let owners = pod.controller.iter().map(|by| {
        json!({
            "apiVersion": by.api_version, "kind": by.kind, "name": by.name, "uid": by.uid,
            "controller": true,
        })
    });
    let mut status = json!({"phase": "Pending"});
    if let Some(node) = &pod.nominated_node {
        status["nominatedNodeName"] = json!(node);
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod.key.name, "namespace": pod.key.namespace, "uid": pod.uid,
            "labels": table(&pod.labels), "annotations": table(&pod.annotations),
            "ownerReferences": owners.collect::<Vec<_>>(),
        },
        "spec": spec,
        "status": status,
    })
}

fn table(labels: &Labels) -> Value {
    labels.iter().map(|(key, value)| (key.to_string(), json!(value))).collect::<Map<_, _>>().into()
}

/// The init containers and the containers. It is known how many there are, which images they have and which devices they use.
fn containers(pod: &Pod) -> [Vec<Value>; 2] {
    let (images, n_init) = (&pod.images, pod.images.init_containers);
    let uses_something = !requests::names(pod).is_empty() || !pod.host_ports.is_empty();
    let n_main = images.containers.saturating_sub(n_init).max(usize::from(uses_something));
    let devices =
        |at: usize| pod.container_devices.iter().find(|one| usize::try_from(one.index) == Ok(at));
    let container = |at: usize, resources: Resources| {
        let devices = devices(at);
        let name = devices.map_or_else(|| format!("c{at}"), |one| one.container.to_string());
        let mut container = json!({
            "name": name,
            "image": images.names.get(at).cloned().unwrap_or_default(),
            "resources": resources.written(devices),
        });
        if devices.is_some_and(|one| one.runs == ContainerRun::Sidecar) {
            container["restartPolicy"] = json!("Always");
        }
        container
    };
    let init = (0..n_init).map(|at| container(at, Resources::default())).collect();
    let mut main: Vec<Value> =
        (0..n_main).map(|at| container(n_init + at, Resources::of_main(pod, at, n_main))).collect();
    if let Some(first) = main.first_mut().filter(|_| !pod.host_ports.is_empty()) {
        let ports = pod.host_ports.iter().map(|port| {
            json!({
                "containerPort": port.port, "hostPort": port.port, "hostIP": port.ip,
                "protocol": port.protocol,
            })
        });
        first["ports"] = ports.collect::<Vec<_>>().into();
    }
    [init, main]
}

/// What one container requests, and its limits.
#[derive(Default)]
struct Resources {
    requests: Vec<(Str, i64)>,
    limits: Vec<(Str, i64)>,
}

impl Resources {
    /// Those of one of `n` containers: the first requests all. Scores assume something for containers without a request, so
    /// as many as there were must be without one; the others request nothing.
    fn of_main(pod: &Pod, at: usize, n: usize) -> Self {
        let (scored, room) = (&pod.asks.room_non_zero, &pod.asks.room);
        let assumed = [
            (CPU, scored.milli_cpu - room.milli_cpu, DEFAULT_MILLI_CPU),
            (MEMORY, scored.memory - room.memory, DEFAULT_MEMORY),
        ];
        let has_request = |more: i64, default: i64| {
            usize::try_from(more / default).is_ok_and(|without| at + without < n)
        };
        let named = assumed.into_iter().filter(|(_, more, default)| has_request(*more, *default));
        let mut requests: Vec<(Str, i64)> = named.map(|(name, ..)| (Str::from(name), 0)).collect();
        let mut limits = Vec::new();
        if at == 0 {
            for name in requests::names(pod) {
                let total =
                    pod.asks.fit.get(&name) - overhead(pod, &name) - with_devices(pod, &name);
                requests.retain(|(other, _)| *other != name);
                requests.push((name, total));
            }
            requests.retain(|(name, total)| 0 < *total || [CPU, MEMORY].contains(&name.as_str()));
            let limited = [CPU, MEMORY, EPHEMERAL_STORAGE].map(Str::from).into_iter();
            let limited = limited.map(|name| {
                let limit = pod.limits.get(&name) - overhead(pod, &name);
                (name, limit)
            });
            // A limit without a request would become the request.
            let has_both = |(name, limit): &(Str, i64)| {
                0 < *limit && requests.iter().any(|(requested, _)| requested == name)
            };
            limits = limited.filter(has_both).collect();
        }
        Resources { requests, limits }
    }

    fn written(self, devices: Option<&ContainerDevices>) -> Value {
        let Resources { mut requests, mut limits } = self;
        for extended in devices.into_iter().flat_map(|devices| &devices.extended) {
            requests.push((extended.resource.clone(), extended.amount));
        }
        // They must be equal for resources that cannot be shared.
        limits.extend(requests.iter().filter(|(name, _)| name.contains('/')).cloned());
        let amounts = |list: Vec<(Str, i64)>| -> Map<String, Value> {
            let written =
                list.into_iter().map(|(name, n)| (name.to_string(), json!(exact(&name, n))));
            written.collect()
        };
        let mut resources = json!({"requests": amounts(requests), "limits": amounts(limits)});
        let claims =
            devices.into_iter().flat_map(|devices| &devices.claims).map(|claim| {
                match claim.request.as_str() {
                    "" => json!({"name": claim.name}),
                    request => json!({"name": claim.name, "request": request}),
                }
            });
        let claims: Vec<Value> = claims.collect();
        if !claims.is_empty() {
            resources["claims"] = claims.into();
        }
        resources
    }
}

fn overhead(pod: &Pod, name: &str) -> i64 {
    if name == CPU { pod.asks.overhead_milli_cpu } else { 0 }
}

/// How much of a resource is requested by containers for which that is known one by one.
fn with_devices(pod: &Pod, name: &str) -> i64 {
    let running = pod.container_devices.iter().filter(|one| one.runs != ContainerRun::Init);
    let extended = running.flat_map(|one| &one.extended).filter(|one| one.resource == name);
    extended.map(|one| one.amount).sum()
}

fn toleration(one: &Toleration) -> Value {
    let mut written = match (&one.comparison, &one.value) {
        (Some(Comparison::Gt(than)), _) => json!({"operator": "Gt", "value": than.to_string()}),
        (Some(Comparison::Lt(than)), _) => json!({"operator": "Lt", "value": than.to_string()}),
        (None, Some(value)) => json!({"operator": "Equal", "value": value}),
        (None, None) => json!({"operator": "Exists"}),
    };
    if let Some(key) = &one.key {
        written["key"] = json!(key);
    }
    if let Some(effect) = one.effect {
        written["effect"] = json!(effect.as_str());
    }
    written
}

fn spread(one: &SpreadConstraint) -> Value {
    let when = match one.when_unsatisfiable {
        WhenUnsatisfiable::DoNotSchedule => "DoNotSchedule",
        WhenUnsatisfiable::ScheduleAnyway => "ScheduleAnyway",
    };
    let policy = |honors: bool| if honors { "Honor" } else { "Ignore" };
    let mut written = json!({
        "maxSkew": one.max_skew, "topologyKey": one.topology_key, "whenUnsatisfiable": when,
        "nodeAffinityPolicy": policy(one.honor_node_affinity),
        "nodeTaintsPolicy": policy(one.honor_node_taints),
    });
    if one.min_domains != 1 {
        written["minDomains"] = json!(one.min_domains);
    }
    if let Some(selector) = selector(&one.selector) {
        written["labelSelector"] = selector;
    }
    written
}

fn affinity(pod: &Pod) -> Map<String, Value> {
    let mut affinity = Map::new();
    let mut nodes = Map::new();
    if let Some(terms) = &pod.node_selection.terms {
        let terms: Vec<Value> = terms.iter().map(node_term).collect();
        nodes.insert(REQUIRED.to_owned(), json!({"nodeSelectorTerms": terms}));
    }
    let preferred = pod.preferred_nodes.0.iter();
    let preferred = preferred
        .map(|(weight, term)| json!({"weight": weight, "preference": node_term(term)}))
        .collect();
    add(&mut nodes, PREFERRED, preferred);
    if !nodes.is_empty() {
        affinity.insert("nodeAffinity".to_owned(), nodes.into());
    }
    let all = &pod.affinity;
    for (name, required, preferred) in [
        ("podAffinity", &all.required, &all.preferred),
        ("podAntiAffinity", &all.required_anti, &all.preferred_anti),
    ] {
        let mut terms = Map::new();
        add(&mut terms, REQUIRED, required.iter().map(|one| pod_term(pod, one)).collect());
        let weighted = |WeightedTerm { weight, term }: &WeightedTerm| json!({"weight": weight, "podAffinityTerm": pod_term(pod, term)});
        add(&mut terms, PREFERRED, preferred.iter().map(weighted).collect());
        if !terms.is_empty() {
            affinity.insert(name.to_owned(), terms.into());
        }
    }
    affinity
}

fn add(to: &mut Map<String, Value>, name: &str, list: Vec<Value>) {
    if !list.is_empty() {
        to.insert(name.to_owned(), list.into());
    }
}

fn node_term(term: &NodeSelectorTerm) -> Value {
    let mut written = Map::new();
    add(&mut written, "matchExpressions", term.labels.iter().map(expression).collect());
    add(&mut written, "matchFields", term.fields.iter().map(expression).collect());
    written.into()
}

fn pod_term(pod: &Pod, term: &AffinityTerm) -> Value {
    let mut written = json!({"topologyKey": term.topology_key});
    if let Some(selector) = selector(&term.selector) {
        written["labelSelector"] = selector;
    }
    let selects_namespaces = selector(&term.namespace_selector);
    let is_own = *term.namespaces == [pod.key.namespace.clone()] && selects_namespaces.is_none();
    if !is_own && !term.namespaces.is_empty() {
        written["namespaces"] = json!(term.namespaces);
    }
    if let Some(selector) = selects_namespaces {
        written["namespaceSelector"] = selector;
    }
    written
}

/// A selector of labels; `None` for one that selects nothing, which is left out in manifests.
fn selector(selector: &Selector) -> Option<Value> {
    let Selector::All(requirements) = selector else { return None };
    let (mut labels, mut expressions) = (Map::new(), Vec::new());
    for one in requirements {
        match &one.test {
            Test::In(values) if values.len() == 1 && !labels.contains_key(one.key.as_str()) => {
                labels.insert(one.key.to_string(), json!(values[0]));
            }
            _ => expressions.push(expression(one)),
        }
    }
    let mut written = Map::new();
    if !labels.is_empty() {
        written.insert("matchLabels".to_owned(), labels.into());
    }
    add(&mut written, "matchExpressions", expressions);
    Some(written.into())
}

fn expression(Requirement { key, test }: &Requirement) -> Value {
    let (operator, values) = match test {
        Test::In(values) => ("In", json!(values)),
        Test::NotIn(values) => ("NotIn", json!(values)),
        Test::Exists => return json!({"key": key, "operator": "Exists"}),
        Test::DoesNotExist => return json!({"key": key, "operator": "DoesNotExist"}),
        Test::Gt(than) => ("Gt", json!([than.to_string()])),
        Test::Lt(than) => ("Lt", json!([than.to_string()])),
    };
    json!({"key": key, "operator": operator, "values": values})
}

/// The volumes that decisions read, and those whose images count.
fn volumes(pod: &Pod) -> Vec<Value> {
    let of_images = pod.images.names.iter().skip(pod.images.containers).enumerate();
    let of_images = of_images
        .map(|(at, image)| json!({"name": format!("image-{at}"), "image": {"reference": image}}));
    pod.volumes.iter().map(volume).chain(of_images).collect()
}

fn volume(PodVolume { name, kind }: &PodVolume) -> Value {
    let (source, read_only) = match kind {
        PodVolumeKind::Claim(claim) => {
            return json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
        }
        PodVolumeKind::Ephemeral(_) => {
            return json!({"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
        }
        PodVolumeKind::Inline { source, read_only } => (source, *read_only),
    };
    let (kind, mut fields) = match source {
        VolumeSource::Csi { driver, .. } => ("csi", json!({"driver": driver})),
        VolumeSource::GcePersistentDisk { name } => ("gcePersistentDisk", json!({"pdName": name})),
        VolumeSource::AwsElasticBlockStore { volume_id } => {
            ("awsElasticBlockStore", json!({"volumeID": volume_id}))
        }
        VolumeSource::AzureDisk { name, uri } => {
            ("azureDisk", json!({"diskName": name, "diskURI": uri}))
        }
        VolumeSource::AzureFile { secret, share, .. } => {
            ("azureFile", json!({"secretName": secret, "shareName": share}))
        }
        VolumeSource::Cinder { volume_id } => ("cinder", json!({"volumeID": volume_id})),
        VolumeSource::Portworx { volume_id } => ("portworxVolume", json!({"volumeID": volume_id})),
        VolumeSource::Vsphere { path } => ("vsphereVolume", json!({"volumePath": path})),
        VolumeSource::Rbd { monitors, pool, image } => {
            ("rbd", json!({"monitors": monitors, "pool": pool, "image": image}))
        }
        VolumeSource::Iscsi { iqn } => ("iscsi", json!({"iqn": iqn})),
        VolumeSource::HostPath => ("hostPath", json!({})),
        VolumeSource::Nfs => ("nfs", json!({})),
        VolumeSource::Local | VolumeSource::Other => ("emptyDir", json!({})),
    };
    if read_only {
        fields["readOnly"] = json!(true);
    }
    json!({"name": name, kind: fields})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rebuilt(spec: &Value) -> (RebuiltPod, Pod) {
        let manifest = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "p", "namespace": "shop", "uid": "u", "labels": {"app": "web", "rev": "7"},
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true},
                ],
            },
            "spec": spec,
        });
        let pod = pod_of(&manifest).expect("it is right");
        (RebuiltPod::of(&pod), pod)
    }

    #[track_caller]
    fn is_the_same(spec: &Value) -> Value {
        let (RebuiltPod { manifest, differs }, pod) = rebuilt(spec);
        assert_eq!(differs, [""; 0], "{manifest:#}");
        let again = pod_of(&manifest).expect("it can be read");
        assert_eq!(again.template, pod.template);
        manifest
    }

    #[test]
    fn requests_are_those_of_all_containers_together() {
        let manifest = is_the_same(&json!({
            "overhead": {"cpu": "50m"},
            "initContainers": [{"name": "setup", "image": "setup", "resources": {"requests": {"cpu": "100m"}}}],
            "containers": [
                {"name": "a", "image": "web", "resources": {
                    "requests": {"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "2"},
                    "limits": {"cpu": "2", "memory": "1Gi", "example.com/gpu": "2"},
                }},
                {"name": "b", "image": "log:1", "resources": {"requests": {"memory": "64Mi"}}},
                {"name": "c", "image": "side"},
            ],
        }));
        let first = &manifest["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(first["cpu"], "1500m");
        is_the_same(&json!({"containers": [{"name": "a"}]}));
        is_the_same(&json!({"containers": []}));
        is_the_same(&json!({"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "0", "memory": "0"}}}, {"name": "b"},
        ]}));
    }

    #[test]
    fn rules_about_nodes_and_other_pods_are_the_same() {
        is_the_same(&json!({
            "priority": 7, "preemptionPolicy": "Never", "schedulerName": "other",
            "schedulingGates": [{"name": "g"}], "schedulingGroup": {"podGroupName": "train"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [
                {"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoSchedule"},
                {"key": "n", "operator": "Gt", "value": "3"},
            ],
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [
                        {"matchExpressions": [
                            {"key": "zone", "operator": "NotIn", "values": ["a", "b"]},
                            {"key": "gen", "operator": "Gt", "values": ["3"]},
                            {"key": "x", "operator": "Exists"}, {"key": "y", "operator": "DoesNotExist"},
                        ]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                    ]},
                    PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [
                        {"key": "disk", "operator": "In", "values": ["ssd"]},
                    ]}}],
                },
                "podAffinity": {PREFERRED: [{"weight": 3, "podAffinityTerm": {
                    "topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {"matchLabels": {"app": "db"}},
                }}]},
                "podAntiAffinity": {REQUIRED: [
                    {"topologyKey": "host", "labelSelector": {"matchExpressions": [
                        {"key": "app", "operator": "In", "values": ["web", "api"]},
                    ]}},
                    {"topologyKey": "host", "namespaces": ["b", "a"]},
                ]},
            },
            "topologySpreadConstraints": [{
                "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3,
                "nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"app": "web"}},
            }, {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"}],
            "containers": [{"name": "a", "ports": [
                {"containerPort": 80, "hostPort": 8080}, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"},
            ]}],
        }));
    }

    #[test]
    fn volumes_and_devices_are_the_same() {
        is_the_same(&json!({
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "disk", "gcePersistentDisk": {"pdName": "d", "readOnly": true}},
                {"name": "inline", "csi": {"driver": "csi.example.com"}},
                {"name": "code", "image": {"reference": "code:3"}},
                {"name": "tmp", "emptyDir": {}},
            ],
            "resourceClaims": [
                {"name": "gpu", "resourceClaimName": "gpu"}, {"name": "net", "resourceClaimTemplateName": "net"},
            ],
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": {"claims": [{"name": "net"}]}},
            ],
            "containers": [
                {"name": "a"},
                {"name": "b", "resources": {"claims": [{"name": "gpu", "request": "r"}]}},
            ],
        }));
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let (rebuilt, _) = rebuilt(&json!({
            "hostNetwork": true, "hostUsers": false,
            "containers": [{"name": "a"}],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {}, "matchLabelKeys": ["rev"],
            }],
        }));
        assert_eq!(rebuilt.differs, ["spread constraints", "features of nodes"]);
    }
}
