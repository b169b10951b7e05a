use plimsoll_api::devices::{
    Allocation, ClaimConsumer, CounterConsumption, CounterSet, Device, DeviceCapacity,
    DeviceNodeSelector, DeviceNodes, DeviceResult,
};
use plimsoll_api::quantity::Format;
use plimsoll_api::{
    AffinityTerm, Asks, HostPort, Node, ObjectKey, Pod, PodKey, PodTemplate, Quantity,
    ResourceClaim, ResourceSlice, Resources, Selector, Str, Taint, Toleration,
};
use plimsoll_engine::{Decision, Effect, EffectId, Event, Eviction, Observation, Outcome, Write};
use plimsoll_framework::{Binding, Time};

use super::{Auditor, ObservedCluster};

/// An auditor of the default profile.
fn auditor() -> Auditor {
    let filters = plimsoll_plugins::default_profile().into_iter().map(|(name, _)| name).collect();
    Auditor {
        known: ObservedCluster { filters, ..ObservedCluster::default() },
        ..Auditor::default()
    }
}

fn node(name: &str) -> Node {
    let allocatable = Resources { milli_cpu: 1000, pods: 3, ..Resources::default() };
    let labels = [("host", name)].into_iter().collect();
    Node { name: name.into(), labels, allocatable, ..Node::default() }
}

fn pod(name: &str, milli_cpu: i64) -> Pod {
    let requests = Resources { milli_cpu, ..Resources::default() };
    let asks = Asks { fit: requests.clone(), ..Asks::default() };
    let template = PodTemplate { asks, requests, ..PodTemplate::default() };
    Pod::new(PodKey::new("default", name), template)
}

fn on(node: &str, pod: Pod) -> Pod {
    Pod { node_name: Some(node.into()), ..pod }
}

fn is_pod(pod: &Pod) -> Event {
    Event::pod(pod.clone())
}

fn is_node(node: Node) -> Event {
    Event::Node(Box::new(Observation::Is(node)))
}

fn scheduled(pod: &Pod, node: &str) -> Decision {
    let outcome = Outcome::Scheduled { node: node.into(), best: vec![] };
    Decision::of_pod(pod.key.clone(), 1, outcome)
}

/// The violations when `pod` is placed on node `a` with the pods `there`.
fn placed(a: Node, there: &[Pod], pod: &Pod) -> String {
    let mut auditor = auditor();
    auditor.observe(&is_node(a));
    there.iter().chain([pod]).map(is_pod).for_each(|event| auditor.observe(&event));
    auditor.decided(Time::ZERO, &scheduled(pod, "a"));
    let found: Vec<&str> = auditor.violations().iter().map(|one| one.what.as_str()).collect();
    found.join("; ")
}

#[test]
fn a_pod_that_fits_is_nothing_to_tell() {
    assert_eq!(placed(node("a"), &[on("a", pod("q", 400))], &pod("p", 600)), "");
}

#[test]
fn a_pod_that_does_not_fit_is_told_with_the_reason() {
    let port = HostPort { protocol: "TCP".into(), ip: "0.0.0.0".into(), port: 80 };
    let with_port = |name| {
        let mut pod = pod(name, 0);
        pod.host_ports.push(port.clone());
        pod
    };
    let taint =
        Taint { key: "k".into(), value: Str::default(), effect: plimsoll_api::Effect::NoExecute };
    let tainted = Node { taints: vec![taint], ..node("a") };
    let mut shy = on("a", pod("shy", 0));
    shy.affinity.required_anti.push(AffinityTerm {
        selector: Selector::everything(),
        namespaces: vec!["default".into()],
        namespace_selector: Selector::Nothing,
        topology_key: "host".into(),
    });
    let full: Vec<Pod> = ["x", "y", "z"].map(|name| on("a", pod(name, 0))).into();
    let cases = [
        (node("a"), vec![on("a", pod("q", 401))], pod("p", 600), "and 599 is left"),
        (node("a"), full, pod("p", 0), "there are 3 pods already"),
        (node("a"), vec![on("a", with_port("q"))], with_port("p"), "uses the same port"),
        (tainted.clone(), vec![], pod("p", 0), "it does not tolerate k="),
        (Node { unschedulable: true, ..node("a") }, vec![], pod("p", 0), "the node is cordoned"),
        (node("a"), vec![shy], pod("p", 0), "default/shy on a must not be near"),
        (node("b"), vec![], pod("p", 0), "there is no such node"),
        (node("a"), vec![], on("a", pod("p", 0)), "it is on a already"),
    ];
    for (a, there, pod, why) in cases {
        let found = placed(a, &there, &pod);
        assert!(found.ends_with(why), "{found:?} does not end with {why:?}");
    }
    let mut tolerant = pod("p", 0);
    tolerant.tolerations.push(Toleration::default());
    assert_eq!(placed(tainted, &[], &tolerant), "");
}

#[test]
fn two_pods_that_were_chosen_before_either_is_seen_count_both() {
    let mut auditor = auditor();
    auditor.observe(&is_node(node("a")));
    for name in ["p", "q"] {
        auditor.observe(&is_pod(&pod(name, 600)));
        auditor.decided(Time::ZERO, &scheduled(&pod(name, 600), "a"));
    }
    assert_eq!(auditor.violations().len(), 1);
    auditor.rests(Time::ZERO);
    assert!(auditor.violations()[1].what.contains("pods ask for 1200 of cpu, and there is 1000"));
}

#[test]
fn what_others_do_to_a_node_is_not_the_schedulers_fault() {
    let mut auditor = auditor();
    auditor.observe(&is_node(node("a")));
    auditor.observe(&is_pod(&on("a", pod("q", 2000))));
    auditor.rests(Time::ZERO);
    assert_eq!(auditor.violations(), []);
}

#[test]
fn a_port_that_others_share_is_free_as_soon_as_one_of_them_leaves() {
    let with_port = |name: &str| {
        let mut pod = pod(name, 0);
        pod.host_ports.push(HostPort { protocol: "TCP".into(), ip: "0.0.0.0".into(), port: 80 });
        pod
    };
    let mut auditor = auditor();
    auditor.observe(&is_node(node("a")));
    for name in ["q", "r"] {
        auditor.observe(&is_pod(&on("a", with_port(name))));
    }
    auditor.observe(&Event::pod_gone(with_port("q").key));
    auditor.observe(&is_pod(&with_port("p")));
    auditor.decided(Time::ZERO, &scheduled(&with_port("p"), "a"));
    auditor.rests(Time::ZERO);
    assert_eq!(auditor.violations(), []);
    for name in ["p", "r"] {
        auditor.observe(&Event::pod_gone(with_port(name).key));
    }
    for name in ["p", "r"] {
        auditor.observe(&is_pod(&with_port(name)));
        auditor.decided(Time::ZERO, &scheduled(&with_port(name), "a"));
    }
    assert_eq!(auditor.violations().len(), 1, "{:?}", auditor.violations());
}

#[test]
fn victims_are_of_lower_priority_and_bindings_as_chosen() {
    let mut auditor = auditor();
    let (mut high, low) = (pod("high", 0), on("a", pod("low", 0)));
    high.priority = 5;
    for event in [is_node(node("a")), is_pod(&high), is_pod(&low)] {
        auditor.observe(&event);
    }
    let evict = |by: &Pod, victim: &Pod| Effect {
        id: EffectId(0),
        pod: by.clone().into(),
        write: Write::Evict(Eviction {
            victim: victim.clone().into(),
            message: String::new(),
            note: String::new(),
            for_group: false,
        }),
    };
    auditor.wrote(Time::ZERO, &evict(&high, &low));
    assert_eq!(auditor.violations(), []);
    auditor.wrote(Time::ZERO, &evict(&low, &high));
    let write = Write::Bind(Binding { node: "a".into() });
    auditor.wrote(Time::ZERO, &Effect { id: EffectId(1), pod: high.into(), write });
    let found: Vec<&str> = auditor.violations().iter().map(|one| one.what.as_str()).collect();
    assert_eq!(
        found,
        [
            "default/high is evicted for default/low, but priority 5 of its victim default/high is \
         not below 0",
            "default/high is bound to a, which was not chosen",
        ]
    );
}

/// The violations when claims get these devices of node `a` one after the other, each for a pod that was placed there.
/// `share` is what each takes of a capacity that claims share.
fn allocated(devices: &[&str], share: Option<i64>) -> String {
    let amount = |n| Quantity::new(n, Format::DecimalSi);
    let consumption =
        CounterConsumption { counter_set: "s".into(), counters: vec![("c".into(), amount(2))] };
    let device = |name: &str| Device {
        name: name.into(),
        capacity: vec![("m".into(), DeviceCapacity { value: amount(3), policy: None })],
        consumes_counters: vec![consumption.clone()],
        ..Device::default()
    };
    let slice = |name: &str| ResourceSlice {
        name: name.into(),
        driver: "d".into(),
        pool: "a".into(),
        generation: 1,
        slice_count: 2,
        nodes: DeviceNodes::Node("a".into()),
        ..ResourceSlice::default()
    };
    let devices_of_pool = ["x", "y"].map(device).into();
    let counters = CounterSet { name: "s".into(), counters: vec![("c".into(), amount(3))] };
    let mut auditor = auditor();
    for event in [
        is_node(node("a")),
        Event::object(ResourceSlice { devices: devices_of_pool, ..slice("devices") }),
        Event::object(ResourceSlice { shared_counters: vec![counters], ..slice("counters") }),
    ] {
        auditor.observe(&event);
    }
    for (number, name) in devices.iter().enumerate() {
        let pod = pod(&format!("p{number}"), 0);
        let claim = ResourceClaim {
            key: ObjectKey::new("default", format!("c{number}")),
            ..ResourceClaim::default()
        };
        auditor.observe(&is_pod(&pod));
        auditor.observe(&Event::object(claim.clone()));
        auditor.decided(Time::ZERO, &scheduled(&pod, "a"));
        let result = DeviceResult {
            driver: "d".into(),
            pool: "a".into(),
            device: (*name).into(),
            share_id: share.map(|_| format!("share-{number}").into()),
            consumed_capacity: share.map(|n| ("m".into(), amount(n))).into_iter().collect(),
            ..DeviceResult::default()
        };
        let allocation = Allocation {
            devices: vec![result],
            node_selector: Some(DeviceNodeSelector::of_node("a")),
            ..Allocation::default()
        };
        auditor.observe(&Event::object(ResourceClaim {
            allocation: Some(allocation),
            reserved_for: vec![ClaimConsumer {
                name: pod.key.name.clone(),
                ..ClaimConsumer::default()
            }],
            ..claim
        }));
    }
    let found: Vec<&str> = auditor.violations().iter().map(|one| one.what.as_str()).collect();
    found.join("; ")
}

#[test]
fn devices_counters_and_capacities_are_not_given_away_twice() {
    assert_eq!(allocated(&["x"], None), "");
    assert_eq!(
        allocated(&["x", "x"], None),
        "default/c1 got devices, but (\"d\", \"a\", \"x\") is used by default/c0 and default/c1"
    );
    assert_eq!(
        allocated(&["x", "y"], None),
        "default/c1 got devices, but devices of a take 4 s/c of 3"
    );
    assert_eq!(allocated(&["x", "x"], Some(1)), "");
    assert_eq!(
        allocated(&["x", "x"], Some(2)),
        "default/c1 got devices, but claims take 4 m of (\"d\", \"a\", \"x\"), which has 3"
    );
}
