//! Groups of pods: the workloads in the folder `podgroup` of scheduler_perf.

use std::rc::Rc;
use std::sync::Arc;

use plimsoll_api::pod_group::GroupPolicy;
use plimsoll_api::{Labels, Node, ObjectKey, PodGroup, PodTemplate, Str};
use plimsoll_engine::Event;
use plimsoll_framework::Release;

use super::plan::{Events, PODS, WorkloadPlan, at_once, come, nodes};
use super::template::{DEFAULT, HOSTNAME, ZONE, named, node, node_name, pod_asking};
use super::{Sizes, Workload, WorkloadGroups};

const RACK: &str = "topology.kubernetes.io/rack";
/// How many nodes are in a rack, and in a zone.
const RACK_SIZE: u32 = 100;

pub(super) const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "BasicScheduling",
        about: "pods of 100m CPU and 100Mi memory in groups, each of which is bound as far as it fits",
        sizes: Sizes { nodes: 5_000, init_pods: 0, pods: 3_000, groups: 1_000 },
        groups: WorkloadGroups::PodGroups,
        configuration: None,
        plan: |sizes, _| grouped(sizes, node, |_| GroupPolicy::Basic, None),
    },
    Workload {
        name: "GangScheduling",
        about: "the same in gangs, each of which is bound as a whole",
        sizes: Sizes { nodes: 5_000, init_pods: 0, pods: 3_000, groups: 1_000 },
        groups: WorkloadGroups::PodGroups,
        configuration: None,
        plan: |sizes, _| grouped(sizes, node, gang, None),
    },
    Workload {
        name: "TopologyAwareScheduling",
        about: "the same in gangs that must each be in one of the racks, of 100 nodes",
        sizes: Sizes { nodes: 5_000, init_pods: 0, pods: 3_000, groups: 750 },
        groups: WorkloadGroups::PodGroupsInRacks,
        configuration: None,
        plan: |sizes, _| grouped(sizes, node_in_rack, gang, Some(RACK)),
    },
];

/// The feature gates that groups need in a release.
pub(super) fn gates(groups: WorkloadGroups, release: Release) -> Vec<&'static str> {
    let mut gates = match groups {
        WorkloadGroups::None | WorkloadGroups::Deployments | WorkloadGroups::Classes => {
            return Vec::new();
        }
        WorkloadGroups::PodGroups => vec!["GenericWorkload"],
        WorkloadGroups::PodGroupsInRacks => {
            vec!["GenericWorkload", "TopologyAwareWorkloadScheduling"]
        }
    };
    if release < Release::V1_37 {
        // Since then a part of GenericWorkload.
        gates.push("GangScheduling");
    }
    gates
}

fn gang(size: u32) -> GroupPolicy {
    GroupPolicy::Gang { min_count: size }
}

/// Nodes and groups, and then, measured, the pods of all groups, one group after the other. Groups that differ in size by
/// one come about if the number of pods is not a multiple of theirs. As in gang-pod.yaml and podgroup.yaml.
fn grouped(
    sizes: Sizes,
    node: impl Fn(u32) -> Node + 'static,
    policy: impl Fn(u32) -> GroupPolicy + 'static,
    topology: Option<&'static str>,
) -> WorkloadPlan {
    let n_groups = sizes.groups.clamp(1, sizes.pods.max(1));
    let first_of = move |group: u32| {
        let first = u64::from(group) * u64::from(sizes.pods) / u64::from(n_groups);
        u32::try_from(first).expect("there are no more pods than that")
    };
    let groups = (0..n_groups).map(move |number| {
        Event::object(PodGroup {
            key: ObjectKey::new(DEFAULT, group_name(number)),
            uid: group_name(number),
            policy: policy(first_of(number + 1) - first_of(number)),
            topology: topology.map(|key| vec![key.into()]),
            ..PodGroup::default()
        })
    });
    let objects: Events = Box::new(nodes(sizes.nodes, node).chain(groups));
    let template = pod_asking(100, 100);
    let of_group = |number| {
        let scheduling_group = Some(group_name(number));
        Arc::new(PodTemplate { scheduling_group, ..template.clone() })
    };
    let templates: Rc<[Arc<PodTemplate>]> = (0..n_groups).map(of_group).collect();
    let pod = move |name: &'static str, number: u32| {
        // The inverse of `first_of`.
        let group = ((u64::from(number) + 1) * u64::from(n_groups) - 1) / u64::from(sizes.pods);
        let group = usize::try_from(group).expect("there are few groups");
        named(&templates[group], DEFAULT, name, number)
    };
    WorkloadPlan {
        objects,
        init_pods: Box::new(std::iter::empty()),
        rounds: at_once(PODS, come("pod", pod, 0..sizes.pods)),
    }
}

fn group_name(number: u32) -> Str {
    format!("gang-{number}").into()
}

/// As in node.yaml of the folder `tas`.
fn node_in_rack(number: u32) -> Node {
    let (name, place) = (node_name(number), number / RACK_SIZE);
    let (zone, rack) = (format!("zone-{place}"), format!("rack-{place}"));
    let labels = Labels::from_iter([
        (HOSTNAME, name.as_str()),
        (ZONE, zone.as_str()),
        (RACK, rack.as_str()),
    ]);
    Node { labels, ..node(number) }
}
