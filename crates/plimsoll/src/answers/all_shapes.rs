//! How many more pods fit of each sort that a cluster has, and how many more of its groups, each by itself.

use std::collections::BTreeMap;

use anyhow::Result;
use plimsoll_api::{ObjectKey, Pod, PodPhase};
use plimsoll_sim::{InitialCluster, Simulation};
use serde_json::Value;

use super::Deciders;
use super::shapes::{Given, GivenGroup, groups_of_cluster};
use crate::canary::CanaryChoice;
use crate::report::{CapacityAnswer, Shape};

/// How many pods of copies are placed at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Of each shape.
    pub(crate) each: usize,
    /// Of all together.
    pub(crate) all: usize,
}

/// There are so many shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany(pub(crate) usize);

/// One pod of each controller of the cluster, and each of its groups, by name: of all namespaces, or of one. If there are more than
/// `most`, nothing is copied.
pub(crate) fn of_cluster(
    deciders: Deciders<'_>,
    cluster: &InitialCluster,
    namespace: Option<&str>,
    most: usize,
) -> Result<Vec<Given>, TooMany> {
    let has_groups = deciders.options.gates.groups.generic_workload;
    // A group is placed as a whole: single pods of it say nothing.
    let is_single = |pod: &&Pod| !has_groups || pod.scheduling_group.is_none();
    let is_here = |pod: &&Pod| namespace.is_none_or(|name| pod.key.namespace == *name);
    let is_decided = |pod: &Pod| deciders.is_for(&pod.scheduler_name);
    let pods = one_of_each_controller(cluster).filter(is_single).filter(is_here);
    let pods: Vec<&Pod> = pods.filter(|pod| is_decided(pod)).collect();
    let mut groups = groups_of_cluster(&deciders.options, cluster, namespace);
    groups.retain(|(_, pods)| pods.iter().all(|pod| is_decided(pod)));
    let n = pods.len() + groups.len();
    if most < n {
        return Err(TooMany(n));
    }
    let groups = groups.iter().filter_map(|(group, pods)| {
        Some(Given::Group(GivenGroup::of_cluster(group, pods, &deciders.options)?))
    });
    let pods = pods.into_iter().map(|pod| Given::Pod((pod.clone(), Value::Null)));
    Ok(pods.chain(groups).collect())
}

/// A pod of each controller, by the names of the controllers; the pods of the ReplicaSets of a Deployment are of one sort
/// only if they have the same name but for a hash.
fn one_of_each_controller(cluster: &InitialCluster) -> impl Iterator<Item = &Pod> {
    let mut shapes: BTreeMap<ObjectKey, &Pod> = BTreeMap::new();
    for pod in cluster.pods.iter().filter(|pod| pod.phase != PodPhase::Ended) {
        let Some(controller) = &pod.controller else { continue };
        if matches!(controller.kind.as_str(), "DaemonSet" | "Node") {
            continue;
        }
        let key = ObjectKey::new(pod.key.namespace.clone(), controller.name.clone());
        let first = shapes.entry(key).or_insert(pod);
        if pod.key < first.key {
            *first = pod;
        }
    }
    shapes.into_values()
}

/// Counts each by itself, with the rule that has chosen its profile. A pod is shown by the name of its controller. `None` if all
/// together would be more than the limit.
pub(crate) fn count(
    deciders: Deciders<'_>,
    cluster: &InitialCluster,
    given: Vec<(Given, Option<CanaryChoice>)>,
    Limits { each, all: mut left }: Limits,
) -> Result<Option<CapacityAnswer>> {
    let mut simulation = Simulation::new(deciders.scheduler()?, cluster.clone());
    let (now, mut shapes) = (simulation.now(), Vec::new());
    for (mut given, canary) in given {
        if let Given::Pod((pod, _)) = &mut given
            && let Some(controller) = &pod.controller
        {
            pod.key = ObjectKey::new(pod.key.namespace.clone(), controller.name.clone());
        }
        // One copy more than may be placed shows that there would be too many.
        let (shape, most) =
            (given.shape(cluster), each.min(left.saturating_add(given.pods().count())));
        let (found, copies) =
            plimsoll_sim::capacity(simulation.scheduler_mut(), now, &[shape], most)?;
        let Some(rest) = left.checked_sub(copies.pods.len()) else { return Ok(None) };
        left = rest;
        let shape =
            |capacity| Shape { canary: canary.clone(), ..Shape::new(given.copied(), capacity) };
        shapes.extend(found.into_iter().map(shape));
    }
    Ok(Some(CapacityAnswer { shapes }))
}

#[cfg(test)]
mod tests {
    use plimsoll_api::wire::{Object, object};
    use plimsoll_config::GivenGates;
    use plimsoll_framework::Release;
    use serde_json::json;

    use super::*;
    use crate::options::Setup;

    /// A node with room for ten pods, of which two controllers have two each, and a DaemonSet has one.
    fn cluster() -> InitialCluster {
        let mut cluster = InitialCluster::default();
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
            "status": {"allocatable": {"cpu": "4", "pods": "10"}},
        });
        let pods = [
            ("pay", "card-2", "card", "ReplicaSet"),
            ("pay", "card-1", "card", "ReplicaSet"),
            ("shop", "web-1", "web", "ReplicaSet"),
            ("shop", "web-2", "web", "ReplicaSet"),
            ("shop", "agent-1", "agent", "DaemonSet"),
        ];
        let pods = pods.map(|(namespace, name, controller, kind)| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": namespace, "name": name, "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": kind, "name": controller, "uid": controller, "controller": true},
                ]},
                "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
            })
        });
        for manifest in [node].into_iter().chain(pods) {
            match object(&manifest).expect("it is right") {
                Object::Pod(pod) => cluster.pods.push(*pod),
                Object::Node(node) => cluster.nodes.push(*node),
                other => panic!("{other:?}"),
            }
        }
        cluster
    }

    fn with_deciders<T>(ask: impl FnOnce(Deciders<'_>) -> T) -> T {
        let registry = plimsoll_legacy::in_tree();
        let gates = GivenGates::of(Release::NEWEST);
        let setup = Setup::default_for(&registry, &gates).expect("the default is right");
        ask(Deciders::of(&setup, &registry))
    }

    #[test]
    fn a_controller_has_the_pod_that_is_first_by_name() {
        let names = |namespace| {
            let given = with_deciders(|deciders| of_cluster(deciders, &cluster(), namespace, 2));
            let given = given.expect("there are no more");
            let names = given.iter().flat_map(Given::pods).map(|pod| pod.key.to_string());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["pay/card-1", "shop/web-1"]);
        assert_eq!(names(Some("shop")), ["shop/web-1"]);
        assert_eq!(names(Some("none")), [""; 0]);
        let of_both = with_deciders(|deciders| of_cluster(deciders, &cluster(), None, 1));
        assert_eq!(of_both.err(), Some(TooMany(2)));
    }

    #[test]
    fn all_shapes_together_have_a_limit() {
        let counted = |each, all| {
            with_deciders(|deciders| {
                let cluster = cluster();
                let given = of_cluster(deciders, &cluster, None, 2).expect("there are no more");
                let given = given.into_iter().map(|given| (given, None)).collect();
                let counted = count(deciders, &cluster, given, Limits { each, all });
                let shapes = counted.expect("a profile decides them")?.shapes;
                let shapes = shapes.iter();
                Some(shapes.map(|one| (one.of.name().to_owned(), one.capacity.fits)).collect())
            })
        };
        let both = |n| Some(vec![("pay/card".to_owned(), n), ("shop/web".to_owned(), n)]);
        // Five more fit.
        assert_eq!(counted(100, 11), both(5));
        assert_eq!(counted(100, 10), both(5));
        assert_eq!(counted(100, 9), None);
        assert_eq!(counted(100, 4), None);
        assert_eq!(counted(3, 6), both(3));
        assert_eq!(counted(3, 5), None);
        assert_eq!(counted(0, 0), both(0));
    }
}
