//! Random clusters, and what happens in them: the same seed makes the same.

mod nodes;
mod objects;
mod pods;
mod volumes;

use std::time::Duration;

use plimsoll_api::{AnyObject, Labels, Namespace, Node, Pod, Str};
use plimsoll_engine::{Event, Seen};
use plimsoll_framework::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::cluster::Cluster;
use crate::happening::Happening;
use crate::lifecycle::Lifecycle;
use crate::volumes::Storage;

/// A random cluster, and what happens in it.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What is there at the beginning.
    pub cluster: Cluster,
    /// What happens later, in order.
    pub happenings: Vec<(Time, Happening)>,
    /// How pods end.
    pub lifecycle: Lifecycle,
    /// How long the controllers of volumes take.
    pub storage: Storage,
    /// How many of a hundred things that the scheduler asks for go wrong.
    pub fault_percent: u32,
    /// When nothing happens any more but what follows from what has happened.
    pub calm: Time,
}

/// How long things happen, in seconds.
const SPAN: u64 = 180;
/// When a workload begins: 2026-01-01T00:00:00Z, in milliseconds.
const BEGINNING: i64 = 1_767_225_600_000;
/// The namespaces with their teams.
const NAMESPACES: [(&str, &str); 3] = [("default", "a"), ("team-a", "a"), ("team-b", "b")];

/// How rich in one thing a workload is: in some everything happens, in others almost nothing, so that
/// each thing is met alone and together with the others.
#[derive(Clone, Copy, Debug)]
struct Percent(u32);

/// What a workload is made of.
#[derive(Debug)]
struct Maker {
    rng: Pcg64,
    traits: pods::Traits,
    n_nodes: u32,
    n_pods: u32,
}

impl Workload {
    /// The workload of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let traits = pods::Traits::of(&mut rng);
        let n_nodes = rng.random_range(1..=8);
        let n_pods = rng.random_range(5..=40);
        Maker { rng, traits, n_nodes, n_pods }.workload()
    }
}

impl Maker {
    fn workload(mut self) -> Workload {
        let nodes: Vec<Node> = (0..self.n_nodes).map(|number| self.node(number)).collect();
        let mut cluster = Cluster { nodes, ..Cluster::default() };
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
        Workload {
            cluster,
            happenings,
            lifecycle: Lifecycle { grace, completion_after },
            storage: Storage { binding_after, provisioning_after },
            fault_percent: [0, 10, 40][self.rng.random_range(0..3)],
            calm: at(SPAN),
        }
    }

    /// Something that happens to what may be there.
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
                Happening::Other(Event::Node(Box::new(Seen::Is(node))))
            }
            8 => Happening::Other(Event::Node(Box::new(Seen::Gone(self.some_node())))),
            _ => self.rarely(),
        }
    }

    /// Something that seldom happens.
    fn rarely(&mut self) -> Happening {
        if self.once_in(2) {
            let (name, _) = NAMESPACES[self.rng.random_range(0..NAMESPACES.len())];
            let team = ["a", "b"][self.rng.random_range(0..2)];
            return Happening::Other(Event::object(namespace(name, team)));
        }
        // Another scheduler, or a DaemonSet of old, places a pod by itself, whether there is room or not.
        let number = self.n_pods + self.some_pod();
        let mut pod = self.pod(number);
        pod.scheduling_gates.clear();
        let node = self.some_node();
        Happening::Arrives(Box::new(Pod { node_name: Some(node), ..pod }))
    }

    fn some_pod(&mut self) -> u32 {
        self.rng.random_range(0..self.n_pods)
    }

    /// The name of a node that may be there.
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
