//! Random pods.

use plimsoll_api::features::USER_NAMESPACES_HOST_NETWORK;
use plimsoll_api::{
    AffinityTerm, Asks, HostPort, Labels, NodeSelection, NodeSelectorTerm, NonZero, Pod,
    PodAffinity, PodKey, PodTemplate, PreemptionPolicy, Requirement, Resources, Scalars, Selector,
    SpreadConstraint, Str, Test, Toleration, WeightedTerm, WhenUnsatisfiable,
};
use plimsoll_framework::Time;
use rand::RngExt;
use rand_pcg::Pcg64;

use super::nodes::{GPU, HOSTNAME, TAINTS, ZONE, ZONES};
use super::{BEGINNING, Maker, NAMESPACES, Percent};
use crate::lifecycle;

const APPS: [&str; 3] = ["web", "db", "cache"];
const SCHEDULER: &str = "default-scheduler";
const MIB: i64 = 1 << 20;

/// How many of the pods of a workload have what.
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
        let non_zero = NonZero {
            milli_cpu: requests.milli_cpu.max(100),
            memory: requests.memory.max(200 * MIB),
        };
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
            tolerations: self.some(traits.tolerations, Maker::toleration),
            affinity: self.affinity(&key.namespace),
            spread: self.some(traits.spread, Maker::constraint),
            asks: Asks {
                fit: requests.clone(),
                balance: requests.clone(),
                room: requests.clone(),
                room_non_zero: non_zero,
                ..Asks::default()
            },
            requests,
            non_zero_requests: non_zero,
            host_ports: self.some(traits.ports, Maker::port),
            required_features: own_users
                .then(|| USER_NAMESPACES_HOST_NETWORK.into())
                .into_iter()
                .collect(),
            volumes: self.some(traits.volumes, Maker::mount),
            ..PodTemplate::default()
        };
        let created = lifecycle::timestamp(Time::from_millis(BEGINNING));
        Pod { key, uid, created, template: template.into(), ..Pod::default() }
    }

    /// One of something, or none.
    fn some<T>(&mut self, percent: Percent, make: impl FnOnce(&mut Self) -> T) -> Vec<T> {
        let has = self.has(percent);
        has.then(|| make(self)).into_iter().collect()
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
        Resources {
            milli_cpu: 100 * self.rng.random_range(0..12),
            memory: 128 * MIB * self.rng.random_range(0..8),
            ephemeral_storage: if self.once_in(6) { 512 * MIB } else { 0 },
            pods: 0,
            scalar,
        }
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
            selection.terms =
                Some(vec![NodeSelectorTerm { labels, ..NodeSelectorTerm::default() }]);
        }
        selection
    }

    fn affinity(&mut self, namespace: &Str) -> PodAffinity {
        let traits = self.traits;
        let preferred = |maker: &mut Self| WeightedTerm { weight: 10, term: maker.term(namespace) };
        PodAffinity {
            required: self.some(traits.affinity, |maker| maker.term(namespace)),
            preferred: self.some(traits.affinity, preferred),
            required_anti: self.some(traits.anti_affinity, |maker| maker.term(namespace)),
            preferred_anti: self.some(traits.anti_affinity, preferred),
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

    fn pods_selector(&mut self) -> Selector {
        let app = self.pick(&APPS);
        Selector::All(vec![match self.rng.random_range(0..3) {
            0 => Requirement::equals("tier", self.pick(&["front", "back"])),
            1 => Requirement { key: "app".into(), test: Test::NotIn(vec![app.into()]) },
            _ => Requirement::equals("app", app),
        }])
    }

    fn constraint(&mut self) -> SpreadConstraint {
        SpreadConstraint {
            max_skew: self.rng.random_range(1..=2),
            topology_key: self.pick(&[HOSTNAME, ZONE]).into(),
            when_unsatisfiable: match self.once_in(4) {
                true => WhenUnsatisfiable::ScheduleAnyway,
                false => WhenUnsatisfiable::DoNotSchedule,
            },
            selector: self.pods_selector(),
            min_domains: self.pick(&[1, 1, 2, 3]),
            honor_node_affinity: !self.once_in(4),
            honor_node_taints: self.once_in(3),
        }
    }
}
