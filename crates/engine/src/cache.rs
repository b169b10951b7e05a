//! The cluster as the engine knows it: nodes, the pods on them, and pods it assumes to be there.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::{Node, PodKey, Str};
use plimsoll_framework::parts::NodeReads;
use plimsoll_framework::{Assumption, Columns, PodInfo, Row, Stores, View};

/// The label that names the zone of a node, and the one that names its region.
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
/// The same of old. Where a node still has them, they count.
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// A pod on a node.
#[derive(Clone, Debug)]
struct CachedPod {
    pod: PodInfo,
    node: Str,
    /// Placed by this scheduler, and not yet seen there.
    assumed: bool,
}

/// What became of a node.
#[derive(Debug)]
pub(crate) struct NodeChange {
    pub(crate) before: Option<Arc<Node>>,
    pub(crate) changed: NodeReads,
}

/// The cluster as the engine knows it.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    columns: Columns,
    stores: Stores,
    rows: BTreeMap<Str, Row>,
    /// Nodes by zone, both in the order of their arrival.
    zones: Vec<(Str, Vec<Row>)>,
    pods: BTreeMap<PodKey, CachedPod>,
    /// Keys of pods on nodes that are not known, by node.
    homeless: BTreeMap<Str, Vec<PodKey>>,
}

impl Cache {
    /// Takes in a node.
    pub(crate) fn set_node(&mut self, node: Node) -> NodeChange {
        let name = node.name.clone();
        let zone = zone_of(&node);
        let Some(&row) = self.rows.get(&name) else {
            self.stores.images.set(None, Some(&node));
            let row = self.columns.add(node);
            self.rows.insert(name.clone(), row);
            self.enter_zone(row, zone);
            for key in self.homeless.remove(&name).unwrap_or_default() {
                self.columns.place(row, &self.pods[&key].pod);
            }
            return NodeChange { before: None, changed: NodeReads::all() };
        };
        let before = self.columns.node(row).clone();
        // Nodes report often, and their images are many and seldom others.
        if before.images != node.images {
            self.stores.images.set(Some(&before), Some(&node));
        }
        let changed = self.columns.set(row, node);
        if zone_of(&before) != zone {
            self.leave_zone(row);
            self.enter_zone(row, zone);
        }
        NodeChange { before: Some(before), changed }
    }

    /// Forgets a node. Pods on it stay known until they are gone themselves.
    pub(crate) fn remove_node(&mut self, name: &Str) -> Option<Arc<Node>> {
        let row = self.rows.remove(name)?;
        let before = self.columns.node(row).clone();
        self.stores.images.set(Some(&before), None);
        self.leave_zone(row);
        let pods = self.columns.remove(row);
        if !pods.is_empty() {
            let keys = pods.into_iter().map(|pod| pod.key.clone()).collect();
            self.homeless.insert(name.clone(), keys);
        }
        Some(before)
    }

    /// Takes in a pod that was seen on `node`; the pod it replaces, if any.
    pub(crate) fn set_pod(&mut self, pod: PodInfo, node: Str) -> Option<PodInfo> {
        let before = self.remove_pod(&pod.key);
        self.put(pod, node, false);
        before
    }

    /// Takes it that a pod is on `node`, before it is seen there.
    pub(crate) fn assume(&mut self, pod: PodInfo, node: Str) {
        let known = self.knows(&pod.key);
        debug_assert!(!known, "a pod on a node is not tried again");
        self.put(pod, node, true);
    }

    /// Takes an assumption back; the pod, if it was still only assumed.
    pub(crate) fn forget(&mut self, key: &PodKey) -> Option<PodInfo> {
        if !self.is_assumed(key) {
            return None;
        }
        self.remove_pod(key)
    }

    /// Forgets a pod; the pod, if it was known.
    pub(crate) fn remove_pod(&mut self, key: &PodKey) -> Option<PodInfo> {
        let cached = self.pods.remove(key)?;
        match self.rows.get(&cached.node) {
            Some(&row) => {
                self.columns.displace(row, key);
            }
            None => {
                if let Some(keys) = self.homeless.get_mut(&cached.node) {
                    keys.retain(|other| other != key);
                    if keys.is_empty() {
                        self.homeless.remove(&cached.node);
                    }
                }
            }
        }
        Some(cached.pod)
    }

    fn put(&mut self, pod: PodInfo, node: Str, assumed: bool) {
        match self.rows.get(&node) {
            Some(&row) => self.columns.place(row, &pod),
            None => self.homeless.entry(node.clone()).or_default().push(pod.key.clone()),
        }
        self.pods.insert(pod.key.clone(), CachedPod { pod, node, assumed });
    }

    /// Whether a pod is assumed to be on a node but was not yet seen there.
    pub(crate) fn is_assumed(&self, key: &PodKey) -> bool {
        self.pods.get(key).is_some_and(|cached| cached.assumed)
    }

    /// Whether a pod is on a node, or assumed to be.
    pub(crate) fn knows(&self, key: &PodKey) -> bool {
        self.pods.contains_key(key)
    }

    /// The pod named `key`, if it is on a node or assumed to be.
    pub(crate) fn pod(&self, key: &PodKey) -> Option<&PodInfo> {
        self.pods.get(key).map(|cached| &cached.pod)
    }

    /// The row of the node named `name`.
    pub(crate) fn row(&self, name: &str) -> Option<Row> {
        self.rows.get(name).copied()
    }

    /// The cluster for plugins.
    pub(crate) fn view(&self) -> View<'_> {
        View { nodes: &self.columns, stores: &self.stores }
    }

    /// What is neither node nor pod.
    pub(crate) fn stores_mut(&mut self) -> &mut Stores {
        &mut self.stores
    }

    /// Does what a plugin wants to be assumed of volumes and claims.
    pub(crate) fn assume_volumes(&mut self, said: Vec<Assumption>) {
        for assumption in said {
            self.stores.volumes_mut().assume(assumption);
        }
    }

    /// Every row, one zone after the other in turn. As in node_tree.go, list.
    pub(crate) fn rows_by_zone(&self) -> Vec<Row> {
        let longest = self.zones.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
        (0..longest)
            .flat_map(|i| self.zones.iter().filter_map(move |(_, rows)| rows.get(i).copied()))
            .collect()
    }

    fn enter_zone(&mut self, row: Row, zone: Str) {
        match self.zones.iter_mut().find(|(name, _)| *name == zone) {
            Some((_, rows)) => rows.push(row),
            None => self.zones.push((zone, vec![row])),
        }
    }

    fn leave_zone(&mut self, row: Row) {
        for (_, rows) in &mut self.zones {
            rows.retain(|&other| other != row);
        }
        self.zones.retain(|(_, rows)| !rows.is_empty());
    }
}

/// Region and zone as one text. As in component-helpers' GetZoneKey: empty where a node has neither.
fn zone_of(node: &Node) -> Str {
    let label =
        |old, new| node.labels.get(old).or_else(|| node.labels.get(new)).map_or("", Str::as_str);
    match (label(OLD_REGION, REGION), label(OLD_ZONE, ZONE)) {
        ("", "") => Str::default(),
        (region, zone) => Str::from(format!("{region}:\0:{zone}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_api::Pod;

    fn node(name: &str, zone: &str) -> Node {
        let labels = [(ZONE, zone)].into_iter().collect();
        Node { name: name.into(), labels, ..Node::default() }
    }

    fn pod(name: &str) -> PodInfo {
        let mut pod = Pod { key: PodKey::new("default", name), ..Pod::default() };
        pod.requests.milli_cpu = 100;
        PodInfo::new(pod)
    }

    #[test]
    fn a_pod_waits_for_its_node_and_outlives_it() {
        let mut cache = Cache::default();
        cache.set_pod(pod("p"), "a".into());
        cache.set_node(node("a", "z"));
        let row = cache.row("a").expect("the node is known");
        assert_eq!(cache.view().nodes.requested_of(row).milli_cpu, 100);
        cache.remove_node(&"a".into());
        assert!(cache.row("a").is_none());
        cache.set_node(node("a", "z"));
        let row = cache.row("a").expect("the node is back");
        assert_eq!(cache.view().nodes.requested_of(row).milli_cpu, 100);
    }

    #[test]
    fn an_assumed_pod_can_be_forgotten_until_it_is_seen() {
        let mut cache = Cache::default();
        cache.set_node(node("a", "z"));
        cache.assume(pod("p"), "a".into());
        assert!(cache.forget(&pod("p").key).is_some());
        cache.assume(pod("p"), "a".into());
        cache.set_pod(pod("p"), "a".into());
        assert!(cache.forget(&pod("p").key).is_none());
        let row = cache.row("a").expect("the node is known");
        assert_eq!(cache.view().nodes.pods_on(row).len(), 1);
    }

    #[test]
    fn zones_take_turns_in_the_order_of_nodes() {
        let mut cache = Cache::default();
        for (name, zone) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "z"), ("e", "y")] {
            cache.set_node(node(name, zone));
        }
        let view = cache.view();
        let names: Vec<_> =
            cache.rows_by_zone().into_iter().map(|row| view.nodes.name_of(row).as_str()).collect();
        assert_eq!(names, ["a", "c", "d", "b", "e"]);
    }
}
