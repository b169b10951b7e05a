//! Random clusters and their changes. The same seed gives the same workload.

pub(crate) mod coscheduling;
mod devices;
mod groups;
mod nodes;
mod objects;
mod pods;
mod volumes;

use std::time::Duration;

use plimsoll_api::{AnyObject, Labels, Namespace, Node, Pod, Str};
use plimsoll_engine::{Event, Observation};
use plimsoll_framework::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

pub use self::coscheduling::{GangArgs, GangKind, GangSpec};
pub(crate) use self::groups::GroupFeatures;
use crate::cluster::InitialCluster;
use crate::happening::Happening;
use crate::lifecycle::Lifecycle;
use crate::simulated_cluster::DeviceDelays;
use crate::volumes::VolumeDelays;

/// A random cluster and its changes.
#[derive(Clone, Debug)]
pub struct RandomWorkload {
    /// The initial cluster.
    pub cluster: InitialCluster,
    /// The later changes, in order.
    pub happenings: Vec<(Time, Happening)>,
    /// How pods end.
    pub lifecycle: Lifecycle,
    /// How long the volume controllers take.
    pub storage: VolumeDelays,
    /// How long the controller of claims on devices and the drivers take.
    pub devices: DeviceDelays,
    /// The percentage of the scheduler's requests that fail.
    pub fault_percent: u32,
    /// When the random changes have ended; later there are only their consequences.
    pub calm: Time,
}

/// How long changes happen, in seconds.
const SPAN: u64 = 180;
/// When a workload begins: 2026-01-01T00:00:00Z, in milliseconds.
const BEGINNING: i64 = 1_767_225_600_000;
/// The namespaces with their teams.
const NAMESPACES: [(&str, &str); 3] = [("default", "a"), ("team-a", "a"), ("team-b", "b")];

/// How often a workload uses a feature. Some workloads use all features and others almost none, so that
/// each feature is tested alone and together with others.
#[derive(Clone, Copy, Debug)]
struct Percent(u32);

/// Creates a workload.
#[derive(Debug)]
struct Maker {
    rng: Pcg64,
    traits: pods::Traits,
    n_nodes: u32,
    n_pods: u32,
}

impl RandomWorkload {
    /// The workload of a seed.
    pub fn of(seed: u64) -> Self {
        Self::made_by(seed, None, None).0
    }

    /// The same with this many nodes in place of a few, which needs more time.
    pub(crate) fn on_nodes(seed: u64, n_nodes: u32) -> Self {
        Self::made_by(seed, Some(n_nodes), None).0
    }

    /// The same with groups of pods, which take the place of about half of the other pods.
    pub(crate) fn grouped(seed: u64, features: GroupFeatures) -> Self {
        Self::made_by(seed, None, Some(features)).0
    }

    /// The workload, and what has made it.
    fn made_by(seed: u64, n_nodes: Option<u32>, groups: Option<GroupFeatures>) -> (Self, Maker) {
        let mut rng = Pcg64::seed_from_u64(seed);
        let traits = pods::Traits::of(&mut rng);
        let few = rng.random_range(1..=8);
        let n_nodes = n_nodes.unwrap_or(few);
        let n_pods = rng.random_range(5..=40);
        let mut maker = Maker { rng, traits, n_nodes, n_pods };
        let workload = maker.workload().with_devices(seed, &mut maker);
        let workload = match groups {
            Some(features) => workload.with_groups(seed, features, &mut maker),
            None => workload,
        };
        (workload, maker)
    }
}

impl Maker {
    fn workload(&mut self) -> RandomWorkload {
        let nodes: Vec<Node> = (0..self.n_nodes).map(|number| self.node(number)).collect();
        let mut cluster = InitialCluster { nodes, ..InitialCluster::default() };
        let volumes = self.volumes();
        let selecting = self.selecting();
        let budgets = self.budgets();
        let namespaces = NAMESPACES.map(|(name, team)| AnyObject::new(namespace(name, team)));
        cluster.objects =
            namespaces.into_iter().chain(selecting).chain(volumes).chain(budgets).collect();
        let mut happenings = Vec::new();
        for number in 0..self.n_pods {
            let pod = self.pod(number);
            match self.rng.random_range(0..4) {
                0 => cluster.pods.push(self.as_found(pod)),
                _ => happenings.push((self.some_time(), Happening::Arrives(Box::new(pod)))),
            }
        }
        for _ in 0..self.rng.random_range(0..=self.n_pods) {
            happenings.push((self.some_time(), self.happening()));
        }
        happenings.sort_by_key(|(at, _)| *at);
        let grace = Duration::from_secs([0, 1, 30][self.rng.random_range(0..3)]);
        let completion_after =
            self.once_in(3).then(|| Duration::from_secs(self.rng.random_range(5..=60)));
        let [binding_after, provisioning_after] =
            [1, 60].map(|limit| Duration::from_secs(self.rng.random_range(0..=limit)));
        RandomWorkload {
            cluster,
            happenings,
            lifecycle: Lifecycle { grace, completion_after, ..Lifecycle::default() },
            storage: VolumeDelays { binding_after, provisioning_after },
            devices: DeviceDelays::default(),
            fault_percent: [0, 10, 40][self.rng.random_range(0..3)],
            calm: at(SPAN),
        }
    }

    /// A random change of an object that may exist.
    fn happening(&mut self) -> Happening {
        let number = self.some_pod();
        let pod = Self::key(number);
        match self.rng.random_range(0..11) {
            10 => {
                // Another controller, such as an autoscaler, nominates pods, too.
                let node = (!self.once_in(3)).then(|| self.some_node());
                Happening::IsNominated(pod, node.filter(|_| self.has(self.traits.nominations)))
            }
            0..=2 => {
                let span = Duration::from_secs([0, 0, 10][self.rng.random_range(0..3)]);
                Happening::IsDeleted(pod, span)
            }
            3 => Happening::IsRelabelled(pod, self.pod_labels()),
            4 | 5 => Happening::IsUngated(pod),
            6 | 7 => {
                let number = self.rng.random_range(0..=self.n_nodes);
                let node = self.node(number);
                Happening::Other(Event::Node(Box::new(Observation::Is(node))))
            }
            8 => Happening::Other(Event::Node(Box::new(Observation::Gone(self.some_node())))),
            _ => self.rarely(),
        }
    }

    /// A rare change.
    fn rarely(&mut self) -> Happening {
        if self.once_in(2) {
            let (name, _) = NAMESPACES[self.rng.random_range(0..NAMESPACES.len())];
            let team = ["a", "b"][self.rng.random_range(0..2)];
            return Happening::Other(Event::object(namespace(name, team)));
        }
        // Another scheduler, or an old DaemonSet controller, places a pod itself, whether or not there
        // is room.
        let number = self.n_pods + self.some_pod();
        let mut pod = self.pod(number);
        pod.scheduling_gates.clear();
        let node = self.some_node();
        Happening::Arrives(Box::new(Pod { node_name: Some(node), ..pod }))
    }

    fn some_pod(&mut self) -> u32 {
        self.rng.random_range(0..self.n_pods)
    }

    /// The name of a node that may exist.
    fn some_node(&mut self) -> Str {
        format!("n{}", self.rng.random_range(0..self.n_nodes)).into()
    }

    fn some_time(&mut self) -> Time {
        at(self.rng.random_range(0..SPAN))
    }

    fn once_in(&mut self, n: u32) -> bool {
        self.rng.random_range(0..n) == 0
    }

    fn has(&mut self, percent: Percent) -> bool {
        self.rng.random_range(0..100) < percent.0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.random_range(0..from.len())]
    }
}

/// The time `seconds` after the beginning.
fn at(seconds: u64) -> Time {
    Time::from_millis(BEGINNING) + Duration::from_secs(seconds)
}

fn namespace(name: &str, team: &str) -> Namespace {
    let labels = Labels::from_iter([("kubernetes.io/metadata.name", name), ("team", team)]);
    Namespace { name: name.into(), labels }
}
