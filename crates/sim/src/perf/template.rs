//! The nodes and pods of workloads, as in the templates of scheduler_perf.

use std::rc::Rc;
use std::sync::Arc;

use plimsoll_api::wire::{self, Object};
use plimsoll_api::{
    AffinityTerm, Labels, Namespace, Node, ObjectKey, Pod, PodKey, PodTemplate, Requirement,
    Resources, SelectingKind, Selector, Str, WeightedTerm,
};
use plimsoll_engine::{Event, Observation};

use crate::cluster::NAMESPACE_NAME;

pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
/// The default namespace of pods.
pub(super) const DEFAULT: &str = "default";
pub(super) const GIB: i64 = 1 << 30;
/// The zones of the workloads about topology spreading.
pub(super) const MOONS: [&str; 3] = ["moon-1", "moon-2", "moon-3"];

/// The name of the node of this number.
pub(super) fn node_name(number: u32) -> Str {
    format!("node-{number}").into()
}

/// As in node-default.yaml, with the hostname label that every node gets. As in node_util.go,
/// PrepareNodes.
pub(super) fn node(number: u32) -> Node {
    let name = node_name(number);
    Node {
        labels: Labels::from_iter([(HOSTNAME, name.clone())]),
        name,
        allocatable: Resources {
            milli_cpu: 4000,
            memory: 32 * GIB,
            pods: 110,
            ..Resources::default()
        },
        ..Node::default()
    }
}

/// The same in one of these zones, each in its turn.
pub(super) fn node_in(zones: &[&str], number: u32) -> Node {
    node_in_zone(zones[number as usize % zones.len()], number)
}

/// The same in this zone.
pub(super) fn node_in_zone(zone: &str, number: u32) -> Node {
    let name = node_name(number);
    let labels = Labels::from_iter([(HOSTNAME, name.as_str()), (ZONE, zone)]);
    Node { labels, ..node(number) }
}

/// A pod with one container with these requests, as the API server would return it.
fn pod_with(resources: &str) -> PodTemplate {
    pod_written("{}", &format!(r#""resources": {resources}"#), "")
}

/// A pod with these labels, additional fields of its container, and additional fields of its spec.
pub(super) fn pod_written(labels: &str, of_container: &str, of_spec: &str) -> PodTemplate {
    let comma = |fields: &str| if fields.is_empty() { "" } else { ", " }.to_owned() + fields;
    let (of_container, of_spec) = (comma(of_container), comma(of_spec));
    let manifest = format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "pod", "namespace": "default", "labels": {labels}}},
            "spec": {{"containers": [{{"name": "pause", "image": "registry.k8s.io/pause:3.10.1"{of_container}}}]{of_spec}}}}}"#
    );
    match wire::object_from_str(&manifest) {
        Ok(Object::Pod(pod)) => Arc::unwrap_or_clone(pod.template),
        other => unreachable!("the manifest above is that of a pod: {other:?}"),
    }
}

/// A pod with these requests.
pub(super) fn pod_asking(milli_cpu: u32, memory_mib: u32) -> PodTemplate {
    pod_with(&format!(r#"{{"requests": {{"cpu": "{milli_cpu}m", "memory": "{memory_mib}Mi"}}}}"#))
}

/// As in pod-default.yaml.
pub(super) fn pod() -> PodTemplate {
    pod_asking(100, 500)
}

/// A pod that requests nothing, as in pod-with-label.yaml and daemonset-pod.yaml.
pub(super) fn pod_asking_nothing() -> PodTemplate {
    pod_with("{}")
}

/// As pod-default.yaml, with a label `color`, as the templates with affinities have it.
pub(super) fn pod_of_colour(colour: &str) -> PodTemplate {
    PodTemplate { labels: Labels::from_iter([("color", colour)]), ..pod() }
}

/// The pods of this colour in the namespaces `sched-0` and `sched-1`.
pub(super) fn near(colour: &str, topology_key: &str) -> AffinityTerm {
    AffinityTerm {
        selector: Selector::All(vec![Requirement::equals("color", colour)]),
        namespaces: SCHED.map(Str::from).to_vec(),
        namespace_selector: Selector::Nothing,
        topology_key: topology_key.into(),
    }
}

/// The namespaces of the workloads about affinities: that of the initial pods, and that of the measured
/// ones.
pub(super) const SCHED: [&str; 2] = ["sched-0", "sched-1"];

/// The same with the weight that the templates give it.
pub(super) fn preferably(term: AffinityTerm) -> WeightedTerm {
    WeightedTerm { weight: 1, term }
}

/// A pod of this template.
pub(super) fn named(template: &Arc<PodTemplate>, namespace: &str, group: &str, number: u32) -> Pod {
    let name = Str::from(format!("{group}-{number}"));
    let (uid, key) = (name.clone(), PodKey::new(namespace, name));
    Pod { key, uid, template: Arc::clone(template), ..Pod::default() }
}

/// Pods of one template.
pub(super) fn like(
    template: impl Into<Arc<PodTemplate>>,
    namespace: &'static str,
) -> impl Fn(&'static str, u32) -> Pod + Clone + 'static {
    in_turn([template], namespace)
}

/// Pods of these templates in turn.
pub(super) fn in_turn(
    templates: impl IntoIterator<Item: Into<Arc<PodTemplate>>>,
    namespace: &'static str,
) -> impl Fn(&'static str, u32) -> Pod + Clone + 'static {
    let templates: Rc<[Arc<PodTemplate>]> = templates.into_iter().map(Into::into).collect();
    move |group, number| {
        named(&templates[number as usize % templates.len()], namespace, group, number)
    }
}

/// A namespace, with the label that every namespace has and maybe another one.
pub(super) fn namespace(name: &str, label: Option<(&str, &str)>) -> Event {
    let labels = [(NAMESPACE_NAME, name)].into_iter().chain(label).collect();
    Event::object(Namespace { name: name.into(), labels })
}

/// A Service or ReplicaSet for the pods with `app=NAME`.
pub(super) fn selecting(kind: SelectingKind, namespace: &str, name: &str) -> Event {
    let selector = Selector::All(vec![Requirement::equals("app", name)]);
    Event::object(kind.object(ObjectKey::new(namespace, name), selector))
}

/// A node is added or changed.
pub(super) fn node_is(node: Node) -> Event {
    Event::Node(Box::new(Observation::Is(node)))
}

/// A node is deleted.
pub(super) fn node_is_gone(name: Str) -> Event {
    Event::Node(Box::new(Observation::Gone(name)))
}

/// A pod is added or changed.
pub(super) fn pod_is(pod: Pod) -> Event {
    Event::pod(pod)
}
