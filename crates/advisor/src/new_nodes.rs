//! New nodes like those that there are, with what belongs to a node.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll_api::devices::DeviceNodes;
use plimsoll_api::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use plimsoll_api::wire::{self, Object};
use plimsoll_api::{CsiNode, Node, ObjectKey, Pod, ResourceSlice, Resources, Str, Taint};
use plimsoll_engine::NodeJudge;
use plimsoll_framework::{Columns, PodInfo, Row, View};
use serde_json::{Map, Value, json};

use crate::change::{Change, Reference, node_of, pod_of};
use crate::cluster::{ClusterChange, Edit};
use crate::draft::Manifests;
use crate::relaxations::requests::text_of;
use crate::remedy::size;

/// At most so many different nodes are considered as models of new ones.
const MOST_MODELS: usize = 64;
/// At most so many of them are proposed.
const MOST_NEW: usize = 3;

const HOSTNAME: &str = "kubernetes.io/hostname";
/// Taints that Kubernetes adds and removes itself begin with it.
pub(crate) const OWN_TAINTS: &str = "node.kubernetes.io/";

/// One more node like one of `models`, if it would be feasible. The pods of DaemonSets come to it, too.
pub(crate) fn new_nodes(
    judge: &NodeJudge<'_>,
    models: &[Row],
    manifests: Manifests<'_>,
) -> Vec<ClusterChange> {
    let view = judge.view();
    let n_rejections = |row: &Row| -> usize {
        let model = view.nodes.node(*row);
        let node = node_of(&manifest_of_new(model, &new_names(view.nodes, &model.name, 1)[0]));
        node.map_or(usize::MAX, |node| judge.rejections_if(*row, node, comes).len())
    };
    let mut rows = models.to_vec();
    // What filters know of the storage and devices of a node, they know by its name, and may reject each new one for that.
    // So the models come first that the fewest filters reject, else in the order of their names, and the proof decides.
    let is_by_name = !judge.pod().resource_claims.is_empty() || !judge.pod().volumes.is_empty();
    if is_by_name {
        rows.sort_by_cached_key(&n_rejections);
    }
    let would_do = |row: &Row| is_by_name || n_rejections(row) == 0;
    let rows = rows.into_iter().filter(would_do).take(MOST_NEW);
    rows.map(|row| like(view, manifests, row, 1)).collect()
}

/// Whether up to `n` new nodes like the one in `row` could let the pod in. If not, filters that look at one node at a time reject
/// every node that there is and every new one, and nothing that happens elsewhere changes that.
pub(crate) fn may_help(judge: &mut NodeJudge<'_>, row: Row, n: usize) -> bool {
    if judge.some_node_may_become_feasible() {
        return true;
    }
    let nodes = judge.view().nodes;
    let model = nodes.node(row);
    new_names(nodes, &model.name, n).iter().any(|name| {
        let node = node_of(&manifest_of_new(model, name));
        node.is_some_and(|node| judge.may_become_feasible_if(row, node, comes))
    })
}

/// `n` nodes like the one in `row`, with the pods of DaemonSets, the drivers of volumes and the devices of a node.
pub(crate) fn like(view: View<'_>, manifests: Manifests<'_>, row: Row, n: usize) -> ClusterChange {
    let model = view.nodes.node(row);
    let text = match n {
        1 => format!("add a node like {}", model.name),
        n => format!("add {n} nodes like {}", model.name),
    };
    let size = size::NODE.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX));
    let mut change = ClusterChange { text, size, edits: Vec::new(), changes: Vec::new() };
    for name in new_names(view.nodes, &model.name, n) {
        let manifest = manifest_of_new(model, &name);
        let Some(node) = node_of(&manifest) else { continue };
        change.edits.push(Edit::Node(Box::new(node)));
        change.changes.push(Change::Create { create: manifest });
        for pod in view.nodes.pods_on(row).iter().filter(|pod| comes(pod)) {
            let manifest = manifest_of_daemon(pod, &name);
            if let Ok(pod) = pod_of(&manifest) {
                let pod = Pod { node_name: None, ..pod };
                change.edits.push(Edit::Placed(Box::new(pod), name.clone()));
                change.changes.push(Change::Create { create: manifest });
            }
        }
        add_objects(&mut change, view, (&model.name, &name.as_str().into()), manifests);
    }
    change
}

/// Whether a pod comes to each node.
fn comes(pod: &PodInfo) -> bool {
    is_daemon(pod) && !pod.is_terminating()
}

/// One node of each sort, by name. Nodes of one sort differ only in what a new node does not take over: name and hostname,
/// whether it is cordoned, and the taints that Kubernetes adds itself.
pub(crate) fn models(nodes: &Columns) -> Vec<Row> {
    // Few nodes of different sorts have the same hash of these. The order of the hashes has no effect.
    let mut sorts: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    for row in nodes.rows() {
        let node = nodes.node(row);
        let amount = |name| node.allocatable.get(name);
        let mut hasher = DefaultHasher::new();
        (amount(MEMORY), amount(CPU)).hash(&mut hasher);
        labels(node).for_each(|label| label.hash(&mut hasher));
        let alike = sorts.entry(hasher.finish()).or_default();
        match alike.iter_mut().find(|model| are_of_one_sort(nodes.node(**model), node)) {
            Some(model) if nodes.name_of(row) < nodes.name_of(*model) => *model = row,
            Some(_) => {}
            None => alike.push(row),
        }
    }
    let mut models: Vec<Row> = sorts.into_values().flatten().collect();
    models.sort_by_key(|row| nodes.name_of(*row));
    models.truncate(MOST_MODELS);
    models
}

/// The labels that a new node takes over.
fn labels(node: &Node) -> impl Iterator<Item = (&Str, &Str)> {
    node.labels.iter().filter(|(key, _)| *key != HOSTNAME)
}

/// Whether two nodes are of one sort.
fn are_of_one_sort(one: &Node, other: &Node) -> bool {
    labels(one).eq(labels(other))
        && own_taints_left_out(one).eq(own_taints_left_out(other))
        && one.allocatable == other.allocatable
        && one.declared_features == other.declared_features
}

fn own_taints_left_out(node: &Node) -> impl Iterator<Item = &Taint> {
    node.taints.iter().filter(|taint| !taint.key.starts_with(OWN_TAINTS))
}

fn is_daemon(pod: &PodInfo) -> bool {
    pod.controller.as_ref().is_some_and(|controller| controller.kind == "DaemonSet")
}

/// Names for new nodes that no node has.
fn new_names(nodes: &Columns, model: &str, n: usize) -> Vec<String> {
    let prefix = format!("{model}-new");
    let alike = nodes.rows().map(|row| nodes.name_of(row)).filter(|name| name.starts_with(&prefix));
    let taken: Vec<&Str> = alike.collect();
    let names = (1..).map(|number: usize| format!("{prefix}{number}"));
    names.filter(|name| taken.iter().all(|other| *other != name)).take(n).collect()
}

/// What drivers say of a new node: how many volumes it can attach, and which devices it has.
fn add_objects(
    change: &mut ClusterChange,
    view: View<'_>,
    (model, name): (&Str, &Str),
    manifests: Manifests<'_>,
) {
    let stores = view.stores;
    let mut made = Vec::new();
    if let Some(limits) = stores.of::<CsiNode>().get(&ObjectKey::new("", model.clone())) {
        made.push(manifest_of_limits(limits, name));
    }
    // Only those of the node itself have its name.
    let is_its_own =
        |slice: &ResourceSlice| matches!(&slice.nodes, DeviceNodes::Node(of) if of == model);
    for slice in stores.of::<ResourceSlice>().iter().filter(|slice| is_its_own(slice)) {
        let of = Reference::of("ResourceSlice", &ObjectKey::new("", slice.name.clone()));
        let Some(mut manifest) = manifests.find(&of) else { continue };
        manifest["metadata"] = json!({"name": format!("{}-{name}", slice.name)});
        manifest["spec"]["nodeName"] = json!(name);
        manifest["spec"]["pool"]["name"] = json!(format!("{}-{name}", slice.pool));
        made.push(manifest);
    }
    for manifest in made {
        if let Ok(Object::Other(object)) = wire::object(&manifest) {
            change.edits.push(Edit::Object(object));
            change.changes.push(Change::Create { create: manifest });
        }
    }
}

fn manifest_of_limits(limits: &CsiNode, name: &Str) -> Value {
    let drivers = limits.drivers.iter().map(|driver| {
        let mut made = json!({
            "name": driver.name, "nodeID": format!("{}-{name}", driver.node_id),
            "topologyKeys": driver.topology_keys,
        });
        if let Some(limit) = driver.limit {
            made["allocatable"] = json!({"count": limit});
        }
        made
    });
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": drivers.collect::<Vec<_>>()},
    })
}

/// A node like `model`, as it is when it is new: it is not cordoned, and Kubernetes has added no taints.
fn manifest_of_new(model: &Node, name: &str) -> Value {
    let mut labels: Map<String, Value> =
        model.labels.iter().map(|(key, value)| (key.to_string(), json!(value))).collect();
    if let Some(hostname) = labels.get_mut(HOSTNAME) {
        *hostname = json!(name);
    }
    let taints = own_taints_left_out(model).map(
        |taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect.as_str()}),
    );
    let mut status = json!({"allocatable": amounts(&model.allocatable)});
    if !model.declared_features.is_empty() {
        status["declaredFeatures"] = json!(model.declared_features);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints.collect::<Vec<_>>()},
        "status": status,
    })
}

/// The amounts of resources as they are written in a manifest.
fn amounts(resources: &Resources) -> Map<String, Value> {
    let known = [CPU, MEMORY, EPHEMERAL_STORAGE, PODS];
    let names = known.into_iter().chain(resources.scalar.keys().map(Str::as_str));
    let present = names.filter(|name| resources.get(name) != 0);
    present.map(|name| (name.to_owned(), json!(exact(name, resources.get(name))))).collect()
}

/// An amount without rounding.
pub(crate) fn exact(name: &str, amount: i64) -> String {
    if name == CPU { text_of(name, amount) } else { amount.to_string() }
}

/// The pod of a DaemonSet as its controller would make it on a node, as far as it uses the node.
fn manifest_of_daemon(pod: &PodInfo, node: &str) -> Value {
    let name: String = format!("{}-{node}", pod.key.name).chars().take(253).collect();
    let labels: Map<String, Value> =
        pod.labels.iter().map(|(key, value)| (key.to_string(), json!(value))).collect();
    let ports = pod.host_ports.iter().map(|port| {
        json!({
            "containerPort": port.port, "hostPort": port.port,
            "protocol": port.protocol.as_str(), "hostIP": port.ip,
        })
    });
    let owner = pod.controller.as_ref().map(|controller| {
        json!([{
            "apiVersion": controller.api_version, "kind": controller.kind,
            "name": controller.name, "uid": controller.uid, "controller": true,
        }])
    });
    let requests = amounts(&pod.requests);
    let extended = requests.iter().filter(|(name, _)| name.contains('/'));
    let limits: Map<String, Value> =
        extended.map(|(name, amount)| (name.clone(), amount.clone())).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": pod.key.namespace, "labels": labels,
            "ownerReferences": owner.unwrap_or_else(|| json!([])),
        },
        "spec": {
            "nodeName": node,
            "schedulerName": pod.scheduler_name,
            "priority": pod.priority,
            "containers": [{
                "name": "all", "image": "all",
                "resources": {"requests": requests, "limits": limits},
                "ports": ports.collect::<Vec<_>>(),
            }],
        },
        "status": {"phase": "Running"},
    })
}
