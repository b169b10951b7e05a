//! The cluster at one moment, indexed for the page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use plimsoll_api::{
    CompositePodGroup, Node, PodGroup, PodKey, ResourceClaim, ResourceSlice, Resources, Str,
    Timestamp,
};
use plimsoll_engine::{ClusterSnapshot, QueuePlace, QueuedPodInfo};
use plimsoll_framework::{PodInfo, Time};
use serde::Serialize;
use serde_json::Value;

use crate::documents;
use crate::question::{Failure, Question};

/// The label of a node with its zone.
const ZONE: &str = "topology.kubernetes.io/zone";

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

    fn of(place: &QueuePlace) -> Self {
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
    pub(crate) taken: Time,
    pub(crate) views: Views,
    /// Sorted by name.
    pub(crate) nodes: Vec<PictureNode>,
    /// Pending ones first, then sorted by name.
    pub(crate) pods: Vec<PicturePod>,
    /// The resources that nodes have or pods request: first those that most nodes have.
    pub(crate) resources: Vec<Str>,
    /// The namespaces that have pods.
    pub(crate) namespaces: BTreeSet<Str>,
    /// The nodes to which pending pods are nominated.
    pub(crate) nominated: BTreeMap<PodKey, Str>,
    pub(crate) groups: Vec<Arc<PodGroup>>,
    pub(crate) composites: Vec<Arc<CompositePodGroup>>,
    pub(crate) slices: Vec<Arc<ResourceSlice>>,
    pub(crate) claims: Vec<Arc<ResourceClaim>>,
}

/// A node with the pods on it.
#[derive(Debug)]
pub(crate) struct PictureNode {
    pub(crate) node: Arc<Node>,
    /// What its pods request, with their number.
    pub(crate) requested: Resources,
    /// The indexes of its pods.
    pub(crate) pods: Vec<usize>,
}

/// A pod.
#[derive(Debug)]
pub(crate) struct PicturePod {
    pub(crate) info: PodInfo,
    pub(crate) state: PodState,
    pub(crate) queued: Option<Queued>,
    pub(crate) decision: Option<KnownDecision>,
}

/// What the queue knows of a pod.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) attempts: u32,
    pub(crate) since: Time,
    pub(crate) rejectors: Vec<&'static str>,
    /// What holds it back, if something does.
    pub(crate) gate: Option<String>,
}

impl PictureNode {
    pub(crate) fn zone(&self) -> Option<&Str> {
        self.node.labels.get(ZONE)
    }
}

impl Picture {
    /// The picture of a snapshot, with the pods of the queue, and with what is decided about pods that were never tried.
    /// `views` says what can be asked beside the snapshot.
    pub fn new(
        snapshot: ClusterSnapshot,
        queue: Vec<QueuedPodInfo>,
        mut decisions: BTreeMap<PodKey, KnownDecision>,
        views: Views,
    ) -> Self {
        let ClusterSnapshot { taken, nodes, pods, nominated, objects } = snapshot;
        let mut queue: BTreeMap<PodKey, QueuedPodInfo> =
            queue.into_iter().map(|info| (info.pod.key.clone(), info)).collect();
        let pods = pods.into_iter().map(|info| {
            let queued = queue.remove(&info.key);
            let decision = decisions.remove(&info.key);
            PicturePod::new(info, queued, decision)
        });
        let mut pods: Vec<PicturePod> = pods.collect();
        pods.sort_by(|one, other| (one.state, &one.info.key).cmp(&(other.state, &other.info.key)));
        let nodes = nodes.into_iter().map(|node| PictureNode {
            node,
            requested: Resources::default(),
            pods: Vec::new(),
        });
        let mut nodes: Vec<PictureNode> = nodes.collect();
        nodes.sort_by(|one, other| one.node.name.cmp(&other.node.name));
        for (index, pod) in pods.iter().enumerate() {
            let Some(name) = pod.info.node() else { continue };
            let Ok(at) = nodes.binary_search_by(|node| node.node.name.cmp(name)) else { continue };
            nodes[at].requested.add(&pod.info.requests);
            nodes[at].requested.pods += 1;
            nodes[at].pods.push(index);
        }
        let mut picture = Picture {
            taken,
            views,
            resources: resources(&nodes),
            nodes,
            namespaces: namespaces_of(&pods),
            pods,
            nominated: nominated.into_iter().collect(),
            groups: objects.iter().filter_map(plimsoll_api::AnyObject::shared).collect(),
            composites: objects.iter().filter_map(plimsoll_api::AnyObject::shared).collect(),
            slices: objects.iter().filter_map(plimsoll_api::AnyObject::shared).collect(),
            claims: objects.iter().filter_map(plimsoll_api::AnyObject::shared).collect(),
        };
        let has_members = picture.pods.iter().any(|pod| pod.info.scheduling_group.is_some());
        picture.views.groups =
            has_members || !picture.groups.is_empty() || !picture.composites.is_empty();
        picture.views.devices = !picture.slices.is_empty() || !picture.claims.is_empty();
        picture
    }

    /// The answer to a question about the cluster. Only pods of namespaces for which `shows` is true are named. `None` for
    /// questions about something else: the configuration, or the past.
    pub fn answer(
        &self,
        question: &Question,
        shows: &dyn Fn(&str) -> bool,
    ) -> Option<Result<Value, Failure>> {
        fn written(document: &impl Serialize) -> Result<Value, Failure> {
            serde_json::to_value(document).map_err(|error| Failure::Failed(error.to_string()))
        }
        Some(match question {
            Question::Overview => written(&documents::overview(self)),
            Question::Nodes => written(&documents::nodes(self)),
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
                let pods = self.node(name).map(|node| node.pods.iter().map(|&at| &self.pods[at]));
                pods.into_iter().flatten().map(|pod| &pod.info.key.namespace).collect()
            }
            Question::Pod(key) | Question::History(key) => [&key.namespace].into(),
            Question::Pods(asked) => match &asked.namespace {
                Some(name) => self.namespaces.get(name.as_str()).into_iter().collect(),
                None => self.namespaces.iter().collect(),
            },
            Question::Groups => {
                let members = self.pods.iter().filter(|pod| pod.info.scheduling_group.is_some());
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
        self.taken
    }

    /// What can be asked.
    pub fn views(&self) -> Views {
        self.views
    }

    pub(crate) fn node(&self, name: &str) -> Option<&PictureNode> {
        let at = self.nodes.binary_search_by(|node| node.node.name.as_str().cmp(name)).ok()?;
        Some(&self.nodes[at])
    }

    pub(crate) fn pod(&self, key: &PodKey) -> Option<&PicturePod> {
        self.pods.iter().find(|pod| pod.info.key == *key)
    }

    /// When it was taken, as text.
    pub(crate) fn as_of(&self) -> String {
        text_of(self.taken)
    }
}

impl PicturePod {
    fn new(info: PodInfo, queued: Option<QueuedPodInfo>, decision: Option<KnownDecision>) -> Self {
        let state = match (&queued, &decision) {
            (None, _) => PodState::Placed,
            (Some(queued), Some(KnownDecision::Rejected(_)))
                if queued.place == QueuePlace::Active =>
            {
                PodState::Unschedulable
            }
            (Some(queued), _) => PodState::of(&queued.place),
        };
        let queued = queued.map(|queued| Queued {
            attempts: queued.attempts,
            since: queued.queued,
            rejectors: queued.rejectors().collect(),
            gate: match &queued.place {
                QueuePlace::Gated { why, .. } => Some(why.to_string()),
                _ => None,
            },
        });
        PicturePod { info, state, queued, decision }
    }
}

/// The namespaces of pods. Most pods are in the namespace of the one before.
fn namespaces_of(pods: &[PicturePod]) -> BTreeSet<Str> {
    let mut names = BTreeSet::new();
    let mut last: Option<&Str> = None;
    for pod in pods {
        let name = &pod.info.key.namespace;
        if last != Some(name) {
            names.insert(name.clone());
            last = Some(name);
        }
    }
    names
}

/// The resources that nodes have or pods request: first those that most nodes have, then the others by name.
fn resources(nodes: &[PictureNode]) -> Vec<Str> {
    let (mut has, mut others) = (Resources::default(), BTreeSet::new());
    for node in nodes {
        has.add(&node.node.allocatable);
        has.add(&node.requested);
        others.extend(node.node.allocatable.scalar.keys().cloned());
        others.extend(node.requested.scalar.keys().cloned());
    }
    let common = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE].into_iter();
    let common = common.filter(|name| has.get(name) != 0).map(Str::from);
    common.chain(others.into_iter().filter(|name| has.get(name) != 0)).collect()
}

/// A time as text.
pub(crate) fn text_of(time: Time) -> String {
    let text = Timestamp::from_millisecond(time.millis()).map(|timestamp| timestamp.to_string());
    text.unwrap_or_default()
}
