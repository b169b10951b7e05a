//! Nodes that come: like one that there is, or like a manifest.

use plimsoll_api::devices::DeviceNodes;
use plimsoll_api::{AnyObject, CsiNode, Node, Pod, ResourceSlice, Str};
use plimsoll_framework::View;

const HOSTNAME: &str = "kubernetes.io/hostname";
/// Kubernetes adds and removes these taints itself, by what happens to a node.
const OWN_TAINTS: &str = "node.kubernetes.io/";

/// A new node, with what belongs to it.
pub(crate) struct NewNode {
    pub(crate) node: Node,
    pub(crate) pods: Vec<Pod>,
    pub(crate) objects: Vec<AnyObject>,
}

/// The first of `MODEL-new1`, `MODEL-new2` and so on that no node has.
pub(crate) fn free_name(model: &str, is_taken: impl Fn(&str) -> bool) -> Str {
    let mut names = (1..).map(|number: usize| format!("{model}-new{number}"));
    names.find(|name| !is_taken(name)).unwrap_or_default().into()
}

/// A node like `model` that has just come: nobody has cordoned it.
pub(super) fn node_like(model: &Node, name: &Str) -> Node {
    let is_own = |key: &str| key.starts_with(OWN_TAINTS);
    let labels = model.labels.iter().map(|(key, value)| match key.as_str() {
        HOSTNAME => (key.clone(), name.clone()),
        _ => (key.clone(), value.clone()),
    });
    Node {
        name: name.clone(),
        labels: labels.collect(),
        taints: model.taints.iter().filter(|taint| !is_own(&taint.key)).cloned().collect(),
        unschedulable: false,
        ..model.clone()
    }
}

/// A node like one of the cluster, with the pods of DaemonSets, the drivers of volumes, and devices.
pub(crate) fn with_all_of(view: View<'_>, model: &str, name: &Str) -> Option<NewNode> {
    let row = view.nodes.rows().find(|row| view.nodes.name_of(*row) == model)?;
    let node = node_like(view.nodes.node(row), name);
    let of_daemons = view.nodes.pods_on(row).iter().filter(|pod| {
        let controller = pod.controller.as_ref();
        controller.is_some_and(|one| one.kind == "DaemonSet") && !pod.is_terminating()
    });
    let pods = of_daemons.map(|pod| {
        let mut pod = Pod::clone(pod.seen());
        pod.key.name = format!("{}-{name}", pod.key.name).into();
        pod.uid = format!("{}-{name}", pod.uid).into();
        pod.node_name = Some(name.clone());
        pod
    });
    let objects = view.stores.all().filter_map(|object| {
        if let Some(driver) = object.get::<CsiNode>().filter(|one| one.name == *model) {
            return Some(CsiNode { name: name.clone(), ..driver.clone() }.into());
        }
        let slice = object.get::<ResourceSlice>()?;
        let is_its_own = matches!(&slice.nodes, DeviceNodes::Node(node) if *node == *model);
        is_its_own.then(|| {
            let named = |text: &Str| Str::from(format!("{text}-{name}"));
            let (slice_name, pool) = (named(&slice.name), named(&slice.pool));
            let nodes = DeviceNodes::Node(name.clone());
            ResourceSlice { name: slice_name, pool, nodes, ..slice.clone() }.into()
        })
    });
    let (pods, objects) = (pods.collect(), objects.collect());
    Some(NewNode { node, pods, objects })
}
