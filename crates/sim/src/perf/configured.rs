//! Workloads with a configuration of their own: a share of the nodes, and plugins of earlier releases.

use plimsoll_api::{Labels, Node};

use super::plan::WorkloadPlan;
use super::spreading::{DEPLOYMENTS, deployments, templates};
use super::template::{DEFAULT, MOONS, in_turn, like, node, node_in, pod, pod_asking_nothing};
use super::{Sizes, Workload, WorkloadGroups};

/// The label of the racks of ServiceAffinity.
const RACK: &str = "example.com/rack";
/// How many racks there are.
const RACKS: u32 = 20;

const ADAPTIVE_SAMPLE: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 0
";

const SELECTOR_SPREADING: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: SelectorSpread, weight: 1}]
      disabled: [{name: PodTopologySpread}]
";

const SERVICE_AFFINITY: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: ServiceAffinity, weight: 1}]
      disabled: [{name: PodTopologySpread}]
  pluginConfig:
  - name: ServiceAffinity
    args:
      affinityLabels: [example.com/rack]
      antiAffinityLabelsPreference: [topology.kubernetes.io/zone]
";

pub(super) const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "AdaptiveSample",
        about: "SchedulingBasic with percentageOfNodesToScore 0, the default of kube-scheduler",
        sizes: Sizes { nodes: 5_000, init_pods: 1_000, pods: 10_000, groups: 0 },
        groups: WorkloadGroups::None,
        configuration: Some(ADAPTIVE_SAMPLE),
        plan: |sizes, _| WorkloadPlan::alike(sizes, node, like(pod(), DEFAULT)),
    },
    Workload {
        name: "SelectorSpreading",
        about: "DefaultTopologySpreading with SelectorSpread of release 1.20 in place of PodTopologySpread",
        sizes: Sizes { nodes: 5_000, init_pods: 5_000, pods: 50_000, groups: 100 },
        groups: WorkloadGroups::Deployments,
        configuration: Some(SELECTOR_SPREADING),
        plan: |sizes, _| of_deployments(sizes, |number| node_in(&MOONS, number)),
    },
    Workload {
        name: "ServiceAffinity",
        about: "the same with ServiceAffinity: each Service in one of 20 racks, spread over 3 zones",
        sizes: Sizes { nodes: 5_000, init_pods: 5_000, pods: 50_000, groups: 100 },
        groups: WorkloadGroups::Deployments,
        configuration: Some(SERVICE_AFFINITY),
        plan: |sizes, _| of_deployments(sizes, node_in_rack),
    },
];

/// Plain pods first, and then those of Deployments with Services.
fn of_deployments(sizes: Sizes, node: fn(u32) -> Node) -> WorkloadPlan {
    let pods = in_turn(templates(pod_asking_nothing(), sizes.groups), DEPLOYMENTS);
    WorkloadPlan::of(sizes, node, like(pod(), DEFAULT), pods).with(deployments(sizes.groups))
}

/// Each rack has nodes of all zones.
fn node_in_rack(number: u32) -> Node {
    let node = node_in(&MOONS, number);
    let labels = node.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    let rack = (RACK.into(), format!("rack-{}", number % RACKS).into());
    Node { labels: labels.chain([rack]).collect::<Labels>(), ..node }
}
