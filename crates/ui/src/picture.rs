//! The cluster at one moment, indexed for the page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::{
    AnyObject, CompositePodGroup, PodGroup, PodKey, ResourceClaim, ResourceSlice, Resources, Str,
    Timestamp,
};
use plimsoll_engine::{ClusterSnapshot, QueuePlace, Scheduler};
use plimsoll_framework::{PodInfo, Time};
use serde::Serialize;

use crate::counts::{CountedCluster, CountedNode, Counts, PodCounts, written};
use crate::documents;
use crate::question::{Failure, Question};
use crate::queued::{ClusterAndQueue, QueuedRow};

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PodState {
    /// No node passed, and it waits for a change.
    Unschedulable,
    /// It is held back by a gate or a plugin.
    Gated,
    /// It is tried again later.
    Backoff,
    /// It is ready to be tried.
    Active,
    /// It is being scheduled or bound.
    InFlight,
    /// It is on a node.
    Placed,
}

impl PodState {
    /// All of them, in the order in which the page lists them.
    pub const ALL: [PodState; 6] = [
        PodState::Unschedulable,
        PodState::Gated,
        PodState::Backoff,
        PodState::Active,
        PodState::InFlight,
        PodState::Placed,
    ];

    /// Its name in questions and documents.
    pub fn as_str(self) -> &'static str {
        match self {
            PodState::Unschedulable => "unschedulable",
            PodState::Gated => "gated",
            PodState::Backoff => "backoff",
            PodState::Active => "active",
            PodState::InFlight => "inFlight",
            PodState::Placed => "placed",
        }
    }

    pub(crate) fn of(place: &QueuePlace) -> Self {
        match place {
            QueuePlace::Active => PodState::Active,
            QueuePlace::Backoff { .. } | QueuePlace::ErrorBackoff { .. } => PodState::Backoff,
            QueuePlace::Unschedulable => PodState::Unschedulable,
            QueuePlace::Gated { .. } => PodState::Gated,
            QueuePlace::InFlight => PodState::InFlight,
        }
    }
}

/// What is decided about a pod that no scheduler has tried, if it is the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownDecision {
    /// It fits; this is its node.
    Fits(Str),
    /// It fits nowhere, or is held back: why.
    Rejected(String),
}

/// Which views of the page have something to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each view is there or not")]
pub struct Views {
    /// Whether there is a cluster.
    pub cluster: bool,
    /// Whether there are groups of pods.
    pub groups: bool,
    /// Whether there are devices.
    pub devices: bool,
    /// Whether the attempts to schedule a pod in the past can be asked for.
    pub history: bool,
    /// Whether what stands out in a whole journal can be asked for.
    pub journal: bool,
    /// Whether there are values over time.
    pub timeline: bool,
    /// Whether the configuration can be asked for.
    pub configuration: bool,
    /// Whether it is a running scheduler.
    pub live: bool,
    /// Whether the scheduler of the cluster is compared with this one.
    pub shadow: bool,
}

/// The cluster at one moment, indexed for the page. Objects are shared with the scheduler.
#[derive(Debug)]
pub struct Picture {
    /// The nodes, and how many pods there are.
    pub(crate) counts: Counts,
    /// The pods that are not bound, sorted by state and name.
    pending: Vec<QueuedRow>,
    /// The other pods, sorted by name.
    bound: Vec<PodInfo>,
    /// The numbers of the pods on nodes, node by node in the order of the names.
    on_nodes: Vec<u32>,
    /// The namespaces that have pods.
    pub(crate) namespaces: BTreeSet<Str>,
    /// The nodes to which pending pods are nominated.
    pub(crate) nominated: BTreeMap<PodKey, Str>,
    pub(crate) groups: Vec<Arc<PodGroup>>,
    pub(crate) composites: Vec<Arc<CompositePodGroup>>,
    pub(crate) slices: Vec<Arc<ResourceSlice>>,
    pub(crate) claims: Vec<Arc<ResourceClaim>>,
}

/// A pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PicturePod<'a> {
    pub(crate) info: &'a PodInfo,
    pub(crate) state: PodState,
    /// What the queue knows of it, unless it is bound.
    pub(crate) queued: Option<&'a QueuedRow>,
}

impl Picture {
    /// The picture of a cluster, with what is decided about pods that were never tried. `views` says what can be asked beside
    /// it.
    pub fn new(
        seen: ClusterAndQueue,
        mut decisions: BTreeMap<PodKey, KnownDecision>,
        views: Views,
    ) -> Self {
        let ClusterAndQueue { cluster, queue: mut pending } = seen;
        let ClusterSnapshot { taken, nodes, pods: mut bound, nominated, objects } = cluster;
        for pod in &mut pending {
            if let Some(decision) = decisions.remove(&pod.info.key) {
                pod.decided(decision);
            }
        }
        // Sorting in place needs no memory, and no two pods have the same name.
        pending.sort_unstable_by(|one, other| one.info.key.cmp(&other.info.key));
        bound.retain(|pod| pending.binary_search_by(|one| one.info.key.cmp(&pod.key)).is_err());
        pending.sort_unstable_by(|one, other| {
            (one.state, &one.info.key).cmp(&(other.state, &other.info.key))
        });
        bound.shrink_to_fit();
        bound.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let nodes = nodes.into_iter().map(|node| CountedNode {
            node,
            requested: Resources::default(),
            n_pods: 0,
        });
        let mut nodes: Vec<CountedNode> = nodes.collect();
        nodes.sort_unstable_by(|one, other| one.node.name.cmp(&other.node.name));
        let pods = || pending.iter().map(|pod| &pod.info).chain(&bound);
        let on_nodes = place(&mut nodes, pods());
        let groups: Vec<_> = objects.iter().filter_map(AnyObject::shared).collect();
        let composites: Vec<_> = objects.iter().filter_map(AnyObject::shared).collect();
        let slices: Vec<_> = objects.iter().filter_map(AnyObject::shared).collect();
        let claims: Vec<_> = objects.iter().filter_map(AnyObject::shared).collect();
        let counted = CountedCluster {
            taken,
            nodes,
            pods: counts_of(&pending, bound.len()),
            has_groups: !groups.is_empty()
                || !composites.is_empty()
                || pods().any(|pod| pod.scheduling_group.is_some()),
            has_devices: !slices.is_empty() || !claims.is_empty(),
        };
        Picture {
            counts: Counts::new(counted, views),
            namespaces: namespaces_of(pods()),
            pending,
            bound,
            on_nodes,
            nominated: nominated.into_iter().collect(),
            groups,
            composites,
            slices,
            claims,
        }
    }

    /// The picture of what a scheduler knows.
    pub fn of(
        scheduler: &Scheduler,
        now: Time,
        decisions: BTreeMap<PodKey, KnownDecision>,
        views: Views,
    ) -> Self {
        Picture::new(ClusterAndQueue::of(scheduler, now), decisions, views)
    }

    /// The answer to a question about the cluster, as JSON. Only pods of namespaces for which `shows` is true are named. `None`
    /// for questions about something else: the configuration, or the past.
    pub fn answer(
        &self,
        question: &Question,
        shows: &dyn Fn(&str) -> bool,
    ) -> Option<Result<String, Failure>> {
        Some(match question {
            Question::Overview | Question::Nodes => return self.counts.answer(question),
            Question::Node(name) => {
                documents::node(self, name, shows).and_then(|document| written(&document))
            }
            Question::Pods(asked) => written(&documents::pods(self, asked, shows)),
            Question::Pod(key) => {
                documents::pod(self, key, shows).and_then(|document| written(&document))
            }
            Question::Groups => written(&documents::groups(self, shows)),
            Question::Devices => written(&documents::devices(self, shows)),
            Question::Instance => written(&documents::instance(self)),
            Question::Configuration
            | Question::Timeline
            | Question::History(_)
            | Question::Journal
            | Question::Shadow(_) => return None,
        })
    }

    /// The namespaces of the pods and objects that the answer to `question` may name.
    pub fn namespaces(&self, question: &Question) -> BTreeSet<String> {
        let names: BTreeSet<&Str> = match question {
            Question::Node(name) => {
                let pods = self.node(name).map(|(_, pods)| pods);
                pods.into_iter().flatten().map(|pod| &pod.info.key.namespace).collect()
            }
            Question::Pod(key) | Question::History(key) => [&key.namespace].into(),
            Question::Pods(asked) => match &asked.namespace {
                Some(name) => self.namespaces.get(name.as_str()).into_iter().collect(),
                None => self.namespaces.iter().collect(),
            },
            Question::Groups => {
                let members = self.pods().filter(|pod| pod.info.scheduling_group.is_some());
                let members = members.map(|pod| &pod.info.key.namespace);
                let groups = self.groups.iter().map(|group| &group.key.namespace);
                let composites = self.composites.iter().map(|group| &group.key.namespace);
                members.chain(groups).chain(composites).collect()
            }
            Question::Devices => self.claims.iter().map(|claim| &claim.key.namespace).collect(),
            Question::Instance => self.namespaces.iter().collect(),
            Question::Overview
            | Question::Nodes
            | Question::Configuration
            | Question::Timeline
            | Question::Journal
            | Question::Shadow(_) => BTreeSet::new(),
        };
        names.into_iter().map(ToString::to_string).collect()
    }

    /// When it was taken.
    pub fn taken(&self) -> Time {
        self.counts.taken
    }

    /// What can be asked.
    pub fn views(&self) -> Views {
        self.counts.views
    }

    /// A node, and the pods on it.
    pub(crate) fn node(
        &self,
        name: &str,
    ) -> Option<(&CountedNode, impl Iterator<Item = PicturePod<'_>>)> {
        let nodes = &self.counts.nodes;
        let at = nodes.binary_search_by(|node| node.node.name.as_str().cmp(name)).ok()?;
        let before: usize = nodes[..at].iter().map(|node| node.n_pods).sum();
        let numbers = self.on_nodes[before..].iter().take(nodes[at].n_pods);
        Some((&nodes[at], numbers.map(|&number| self.numbered(number as usize))))
    }

    pub(crate) fn pod(&self, key: &PodKey) -> Option<PicturePod<'_>> {
        self.pods().find(|pod| pod.info.key == *key)
    }

    /// All pods: pending ones first, then sorted by name.
    pub(crate) fn pods(&self) -> impl Iterator<Item = PicturePod<'_>> {
        self.pending.iter().map(PicturePod::pending).chain(self.bound.iter().map(PicturePod::bound))
    }

    /// The pod of this number.
    fn numbered(&self, at: usize) -> PicturePod<'_> {
        match self.pending.get(at) {
            Some(pod) => PicturePod::pending(pod),
            None => PicturePod::bound(&self.bound[at - self.pending.len()]),
        }
    }

    /// When it was taken, as text.
    pub(crate) fn as_of(&self) -> String {
        self.counts.as_of()
    }
}

impl<'a> PicturePod<'a> {
    fn pending(pod: &'a QueuedRow) -> Self {
        PicturePod { info: &pod.info, state: pod.state, queued: Some(pod) }
    }

    fn bound(info: &'a PodInfo) -> Self {
        PicturePod { info, state: PodState::Placed, queued: None }
    }
}

/// How many pods there are in each state, and why they are pending.
fn counts_of(pending: &[QueuedRow], n_bound: usize) -> PodCounts {
    let mut counts = PodCounts::default();
    counts.add(PodState::Placed, n_bound);
    for pod in pending {
        counts.add(pod.state, 1);
        let rejectors = pod.rejectors.join(", ");
        match pod.decision.as_deref() {
            _ if !rejectors.is_empty() => counts.add_reason(rejectors, 1),
            Some(KnownDecision::Rejected(message)) => counts.add_reason(message.clone(), 1),
            Some(KnownDecision::Fits(_)) | None => {}
        }
    }
    counts
}

/// Tells the nodes, which are sorted by name, what the pods on them request. Returns the numbers of these pods, node by node.
fn place<'a>(
    nodes: &mut [CountedNode],
    pods: impl Iterator<Item = &'a PodInfo> + Clone,
) -> Vec<u32> {
    let find = |nodes: &[CountedNode], pod: &PodInfo| {
        let name = pod.node()?;
        nodes.binary_search_by(|node| node.node.name.cmp(name)).ok()
    };
    let rows = pods.clone().map(|pod| find(nodes, pod).and_then(|at| u32::try_from(at).ok()));
    let rows: Vec<u32> = rows.map(|row| row.unwrap_or(u32::MAX)).collect();
    for (pod, &row) in pods.zip(&rows) {
        let Some(node) = nodes.get_mut(row as usize) else { continue };
        node.requested.add(&pod.requests);
        node.requested.pods += 1;
        node.n_pods += 1;
    }
    let mut begin = 0;
    let begins = nodes.iter().map(|node| {
        begin += node.n_pods;
        begin - node.n_pods
    });
    let mut next: Vec<usize> = begins.collect();
    let mut on_nodes = vec![0; begin];
    for (number, &row) in (0..).zip(&rows) {
        let Some(next) = next.get_mut(row as usize) else { continue };
        on_nodes[*next] = number;
        *next += 1;
    }
    on_nodes
}

/// The namespaces of pods. Most pods are in the namespace of the one before.
fn namespaces_of<'a>(pods: impl Iterator<Item = &'a PodInfo>) -> BTreeSet<Str> {
    let mut names = BTreeSet::new();
    let mut last: Option<&Str> = None;
    for pod in pods {
        let name = &pod.key.namespace;
        if last != Some(name) {
            names.insert(name.clone());
            last = Some(name);
        }
    }
    names
}

/// A time as text.
pub(crate) fn text_of(time: Time) -> String {
    let text = Timestamp::from_millisecond(time.millis()).map(|timestamp| timestamp.to_string());
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Node, Pod};

    use super::*;

    fn pod(name: &str, node: Option<&str>, milli_cpu: i64) -> PodInfo {
        let (key, node_name) = (PodKey::new("team", name), node.map(Str::from));
        let mut pod = Pod { key, node_name, ..Pod::default() };
        pod.requests.milli_cpu = milli_cpu;
        PodInfo::new(pod)
    }

    fn waiting(info: PodInfo, state: PodState) -> QueuedRow {
        QueuedRow {
            info,
            state,
            attempts: 0,
            since: Time::ZERO,
            rejectors: Box::default(),
            gate: None,
            decision: None,
        }
    }

    fn names<'a>(pods: impl Iterator<Item = PicturePod<'a>>) -> String {
        let names: Vec<&str> = pods.map(|pod| pod.info.key.name.as_str()).collect();
        names.join(" ")
    }

    #[test]
    fn each_node_has_the_pods_that_are_bound_to_it_or_assumed_to_be_on_it() {
        let node = |name: &str| Arc::new(Node { name: name.into(), ..Node::default() });
        let cluster = ClusterSnapshot {
            taken: Time::ZERO,
            nodes: ["n2", "n3", "n1"].map(node).into(),
            pods: vec![
                pod("c", Some("n1"), 100),
                pod("b", Some("n2"), 20),
                pod("a", Some("n1"), 3),
                pod("lost", Some("gone"), 7),
            ],
            nominated: Vec::new(),
            objects: Vec::new(),
        };
        let queue = vec![
            waiting(pod("y", None, 5).placed_on("n1".into()), PodState::InFlight),
            waiting(pod("z", None, 9), PodState::Active),
        ];
        let rejected = KnownDecision::Rejected("no room".to_owned());
        let decisions = [(PodKey::new("team", "z"), rejected)].into();
        let seen = ClusterAndQueue { cluster, queue };
        let picture = Picture::new(seen, decisions, Views::default());
        assert_eq!(names(picture.pods()), "z y a b c lost");
        let first = picture.pods().next().expect("there are some");
        assert_eq!(first.state, PodState::Unschedulable, "it fits nowhere as the next pod");
        let on = ["n1", "n2", "n3"].map(|name| {
            let (node, pods) = picture.node(name).expect("there is one");
            (names(pods), node.requested.milli_cpu, node.requested.pods)
        });
        let expected = [("y a c", 108, 3), ("b", 20, 1), ("", 0, 0)];
        assert_eq!(on, expected.map(|(pods, cpu, n)| (pods.to_owned(), cpu, n)));
    }
}
