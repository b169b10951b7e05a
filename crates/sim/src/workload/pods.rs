//! Random pods.

use plimsoll_api::features::USER_NAMESPACES_HOST_NETWORK;
use plimsoll_api::{
    AffinityTerm, Asks, Controller, HostPort, Labels, NodeSelection, NodeSelectorTerm, NonZero,
    Pod, PodAffinity, PodImages, PodKey, PodTemplate, PreemptionPolicy, PreferredNodes,
    Requirement, Resources, Scalars, Selector, SpreadConstraint, Str, Test, Toleration,
    WeightedTerm, WhenUnsatisfiable,
};
use plimsoll_framework::Time;
use rand::RngExt;
use rand_pcg::Pcg64;

use super::nodes::{GPU, HOSTNAME, IMAGES, SIZE, TAINTS, ZONE, ZONES};
use super::{BEGINNING, Maker, NAMESPACES, Percent};
use crate::lifecycle;

pub(super) const APPS: [&str; 3] = ["web", "db", "cache"];
const SCHEDULER: &str = "default-scheduler";
const MIB: i64 = 1 << 20;
/// A request for which only the largest nodes have room. The sum over all pods of a workload is still
/// less than 2^63.
const HUGE: i64 = 1 << 55;

/// How many of the pods of a workload have each feature.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    requests: Percent,
    ports: Percent,
    tolerations: Percent,
    selection: Percent,
    affinity: Percent,
    anti_affinity: Percent,
    spread: Percent,
    gates: Percent,
    priority: Percent,
    features: Percent,
    volumes: Percent,
    preferences: Percent,
    images: Percent,
    pub(super) owners: Percent,
    pub(super) extremes: Percent,
    pub(super) nominations: Percent,
}

impl Traits {
    pub(super) fn of(rng: &mut Pcg64) -> Self {
        let mut percent = || Percent([0, 0, 20, 80][rng.random_range(0..4)]);
        Traits {
            requests: Percent(80),
            ports: percent(),
            tolerations: percent(),
            selection: percent(),
            affinity: percent(),
            anti_affinity: percent(),
            spread: percent(),
            gates: percent(),
            priority: percent(),
            features: percent(),
            volumes: percent(),
            preferences: percent(),
            images: percent(),
            owners: percent(),
            extremes: percent(),
            nominations: percent(),
        }
    }
}

impl Maker {
    /// The name of the pod of this number.
    pub(super) fn key(number: u32) -> PodKey {
        let (namespace, _) = NAMESPACES[number as usize % NAMESPACES.len()];
        PodKey::new(namespace, format!("p{number}"))
    }

    /// The pod of this number.
    pub(super) fn pod(&mut self, number: u32) -> Pod {
        let key = Self::key(number);
        let traits = self.traits;
        let requests =
            if self.has(traits.requests) { self.requests() } else { Resources::default() };
        let non_zero = non_zero(&requests);
        let own_users = self.has(traits.features) && self.once_in(4);
        let uid = format!("{key}-{}", self.rng.random_range(0..u32::MAX)).into();
        let template = PodTemplate {
            labels: self.pod_labels(),
            scheduler_name: SCHEDULER.into(),
            priority: if self.has(traits.priority) { self.pick(&[1, 5, 10]) } else { 0 },
            preemption_policy: match self.once_in(6) {
                true => PreemptionPolicy::Never,
                false => PreemptionPolicy::PreemptLowerPriority,
            },
            scheduling_gates: self.some(traits.gates, |_| "example.com/wait".into()),
            node_selection: self.selection(),
            preferred_nodes: self.preferred_nodes(),
            controller: self.owner(&key),
            images: self.images(),
            tolerations: self.some(traits.tolerations, Maker::toleration),
            affinity: self.affinity(&key.namespace),
            spread: self.spread(),
            asks: Asks {
                fit: requests.clone(),
                balance: requests.clone(),
                room: requests.clone(),
                room_non_zero: non_zero,
                ..Asks::default()
            },
            requests,
            non_zero_requests: non_zero,
            host_ports: self.ports(),
            required_features: own_users
                .then(|| USER_NAMESPACES_HOST_NETWORK.into())
                .into_iter()
                .collect(),
            volumes: self.some(traits.volumes, Maker::mount),
            ..PodTemplate::default()
        };
        let created = lifecycle::timestamp(Time::from_millis(BEGINNING));
        let nominated_node = self.has(traits.nominations).then(|| self.some_node());
        Pod { key, uid, created, nominated_node, template: template.into(), ..Pod::default() }
    }

    /// One of something, or none.
    fn some<T>(&mut self, percent: Percent, make: impl FnOnce(&mut Self) -> T) -> Vec<T> {
        let has = self.has(percent);
        has.then(|| make(self)).into_iter().collect()
    }

    /// None, one or two of something.
    fn few<T>(&mut self, percent: Percent, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let mut few = self.some(percent, &mut make);
        if !few.is_empty() && self.once_in(4) {
            few.push(make(self));
        }
        few
    }

    pub(super) fn pod_labels(&mut self) -> Labels {
        let tier = self.pick(&["front", "back"]);
        Labels::from_iter([("app", self.pick(&APPS)), ("tier", tier)])
    }

    fn requests(&mut self) -> Resources {
        let mut scalar = Scalars::default();
        if self.once_in(8) {
            scalar.insert(Str::from(GPU), 1);
        }
        let is_huge = self.has(self.traits.extremes) && self.once_in(8);
        Resources {
            milli_cpu: 100 * self.rng.random_range(0..12),
            memory: if is_huge { HUGE } else { 128 * MIB * self.rng.random_range(0..8) },
            ephemeral_storage: if self.once_in(6) { 512 * MIB } else { 0 },
            pods: 0,
            scalar,
        }
    }

    /// All different.
    fn ports(&mut self) -> Vec<HostPort> {
        let mut ports = self.few(self.traits.ports, Maker::port);
        ports.dedup();
        ports
    }

    fn port(&mut self) -> HostPort {
        HostPort {
            protocol: self.pick(&["TCP", "UDP"]).into(),
            ip: self.pick(&["0.0.0.0", "127.0.0.1", "10.0.0.1"]).into(),
            port: self.rng.random_range(8000..8002),
        }
    }

    fn toleration(&mut self) -> Toleration {
        let (key, value, effect) = self.pick(&TAINTS);
        let named = !self.once_in(4);
        Toleration {
            key: named.then(|| key.into()),
            value: (named && self.once_in(2)).then(|| value.into()),
            effect: self.once_in(2).then_some(effect),
            ..Toleration::default()
        }
    }

    fn selection(&mut self) -> NodeSelection {
        let mut selection = NodeSelection::default();
        if self.has(self.traits.selection) {
            selection.selector = Labels::from_iter([("disk", self.pick(&["ssd", "hdd"]))]);
        }
        if self.has(self.traits.selection) {
            let zone = self.pick(&ZONES);
            let test = match self.rng.random_range(0..3) {
                0 => Test::In(vec![zone.into(), "z1".into()]),
                1 => Test::NotIn(vec![zone.into()]),
                _ => Test::Exists,
            };
            let labels = vec![Requirement { key: ZONE.into(), test }];
            let mut terms = vec![NodeSelectorTerm { labels, ..NodeSelectorTerm::default() }];
            if self.once_in(4) {
                terms.push(self.node_term());
            }
            selection.terms = Some(terms);
        }
        if selection.terms.is_none() && self.has(self.traits.selection) {
            let term = self.node_term();
            selection.terms = Some(vec![term]);
        }
        selection
    }

    fn preferred_nodes(&mut self) -> PreferredNodes {
        let weighted = |maker: &mut Self| (maker.rng.random_range(1..=100), maker.node_term());
        PreferredNodes(self.few(self.traits.preferences, weighted))
    }

    /// A term on the size, disk or name of a node; sometimes an empty one, which matches no node.
    fn node_term(&mut self) -> NodeSelectorTerm {
        let bound = self.rng.random_range(0..5);
        let (key, test) = match self.rng.random_range(0..8) {
            0 => (SIZE, Test::Gt(bound)),
            1 => (SIZE, Test::Lt(bound)),
            2 => (SIZE, Test::DoesNotExist),
            3 => ("disk", Test::Exists),
            4 => ("disk", Test::NotIn(vec!["ssd".into()])),
            5 => return NodeSelectorTerm::default(),
            // If every term names nodes, only these nodes are considered.
            _ => {
                let names = vec![self.some_node(), self.some_node()];
                let key = plimsoll_api::node_selector::NAME_FIELD.into();
                let fields = vec![Requirement { key, test: Test::In(names) }];
                return NodeSelectorTerm { fields, ..NodeSelectorTerm::default() };
            }
        };
        let labels = vec![Requirement { key: key.into(), test }];
        NodeSelectorTerm { labels, ..NodeSelectorTerm::default() }
    }

    fn images(&mut self) -> PodImages {
        let names = self.few(self.traits.images, |maker| Str::from(maker.pick(&IMAGES).0));
        PodImages { containers: names.len().max(1), names, init_containers: 0 }
    }

    fn owner(&mut self, pod: &PodKey) -> Option<Controller> {
        let kind = self.pick(&["ReplicaSet", "StatefulSet", "ReplicationController"]);
        let name = self.pick(&APPS);
        self.has(self.traits.owners).then(|| Controller {
            api_version: if kind == "ReplicationController" { "v1" } else { "apps/v1" }.into(),
            kind: kind.into(),
            name: name.into(),
            uid: format!("{}-{kind}-{name}", pod.namespace).into(),
        })
    }

    fn affinity(&mut self, namespace: &Str) -> PodAffinity {
        let traits = self.traits;
        let preferred = |maker: &mut Self| WeightedTerm { weight: 10, term: maker.term(namespace) };
        PodAffinity {
            required: self.few(traits.affinity, |maker| maker.term(namespace)),
            preferred: self.few(traits.affinity, preferred),
            required_anti: self.few(traits.anti_affinity, |maker| maker.term(namespace)),
            preferred_anti: self.few(traits.anti_affinity, preferred),
        }
    }

    fn term(&mut self, namespace: &Str) -> AffinityTerm {
        let (namespaces, namespace_selector) = match self.rng.random_range(0..4) {
            0 => (vec![], Selector::All(vec![Requirement::equals("team", self.pick(&["a", "b"]))])),
            1 => (vec![], Selector::everything()),
            _ => (vec![namespace.clone()], Selector::Nothing),
        };
        AffinityTerm {
            selector: self.pods_selector(),
            namespaces,
            namespace_selector,
            topology_key: self.pick(&[HOSTNAME, ZONE]).into(),
        }
    }

    /// A selector of pods; also a missing one, which selects none, and an empty one, which selects all.
    pub(super) fn pods_selector(&mut self) -> Selector {
        let app = self.pick(&APPS);
        Selector::All(vec![match self.rng.random_range(0..8) {
            0 => return Selector::Nothing,
            1 => return Selector::everything(),
            2 | 3 => Requirement::equals("tier", self.pick(&["front", "back"])),
            4 => Requirement { key: "app".into(), test: Test::NotIn(vec![app.into()]) },
            _ => Requirement::equals("app", app),
        }])
    }

    /// Each with a different key.
    fn spread(&mut self) -> Vec<SpreadConstraint> {
        let mut constraints = Vec::new();
        for key in [HOSTNAME, ZONE, SIZE] {
            if self.has(self.traits.spread) && self.once_in(2) {
                constraints.push(self.constraint(key));
            }
        }
        constraints
    }

    fn constraint(&mut self, topology_key: &str) -> SpreadConstraint {
        SpreadConstraint {
            max_skew: self.rng.random_range(1..=2),
            topology_key: topology_key.into(),
            when_unsatisfiable: match self.once_in(4) {
                true => WhenUnsatisfiable::ScheduleAnyway,
                false => WhenUnsatisfiable::DoNotSchedule,
            },
            selector: self.pods_selector(),
            without_label_keys: None,
            min_domains: self.pick(&[1, 1, 2, 3]),
            honor_node_affinity: !self.once_in(4),
            honor_node_taints: self.once_in(3),
        }
    }
}

/// What counts in scores for a pod with these requests.
pub(super) fn non_zero(requests: &Resources) -> NonZero {
    NonZero { milli_cpu: requests.milli_cpu.max(100), memory: requests.memory.max(200 * MIB) }
}
