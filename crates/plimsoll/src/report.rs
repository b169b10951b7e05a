//! Gathers the results of a simulation.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use plimsoll_advisor::{GroupRemedy, Remedy};
use plimsoll_api::{ObjectKey, PodKey, Str};
use plimsoll_engine::{Decision, GroupDecision, NodeVerdict, Outcome, QueuePlace, Scheduler};
use plimsoll_sim::{ClaimBinding, ShapeCapacity};
use serde::Serialize;

use crate::canary::CanaryChoice;
use crate::wording::{count, some_of};

/// At most 3 pods are named in one line.
const NAMES: usize = 3;

/// The results of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The last decision about each pod that was tried, in the order of their first attempts.
    pub(crate) placements: Vec<Placement>,
    /// Pods that were evicted for others, by name.
    pub(crate) preempted: BTreeMap<PodKey, Preemption>,
    /// Pods that a gate kept out of the queue, by name.
    pub(crate) gated: Vec<Gated>,
    /// The last decision about each group of pods, by name.
    pub(crate) groups: BTreeMap<ObjectKey, GroupDecision>,
    /// Pods that were never tried.
    pub(crate) passed_over: PassedOver,
    /// The index of each pod in `placements`.
    index: BTreeMap<PodKey, usize>,
}

/// Pending pods that no profile tries, in the order of the files.
#[derive(Debug, Default)]
pub(crate) struct PassedOver {
    /// Pods of schedulers without a profile.
    pub(crate) foreign: Vec<PodKey>,
    /// Pods that are being deleted.
    pub(crate) terminating: Vec<PodKey>,
}

impl PassedOver {
    /// A line for each reason.
    pub(crate) fn describe(&self) -> impl Iterator<Item = String> {
        let groups = [
            (&self.foreign, "belongs to another scheduler", "belong to other schedulers"),
            (&self.terminating, "is being deleted", "are being deleted"),
        ];
        groups.into_iter().filter(|(pods, ..)| !pods.is_empty()).map(|(pods, one, many)| {
            let what = if pods.len() == 1 { one } else { many };
            format!("{} {what} ({})", count(pods.len(), "pod"), some_of(pods, NAMES))
        })
    }
}

/// The last decision about a pod.
#[derive(Debug)]
pub(crate) struct Placement {
    /// The decision, without its nodes.
    pub(crate) decision: Decision,
    /// How many nodes the pod could choose from, with `--explain`.
    pub(crate) choice: Option<Choice>,
    /// The claims that must be bound or provisioned before the pod is bound.
    pub(crate) claims: Vec<ClaimBinding>,
}

/// The pod or group of pods for which a pod was evicted, and the node, unless it is for a whole group.
#[derive(Debug)]
pub(crate) struct Preemption {
    pub(crate) by: PodKey,
    pub(crate) node: Option<Str>,
}

/// How many nodes a pod could choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// How many nodes were judged.
    pub(crate) judged: usize,
    /// How many of them were feasible.
    pub(crate) feasible: usize,
    /// The total of the chosen node; none if nothing was chosen or scored.
    pub(crate) total: Option<i64>,
}

/// A pod that a gate kept out of the queue.
#[derive(Debug)]
pub(crate) struct Gated {
    pub(crate) pod: PodKey,
    /// The reason, in the words of the plugin.
    pub(crate) why: String,
}

impl Report {
    /// No decisions yet.
    pub(crate) fn new(passed_over: PassedOver) -> Self {
        Report { passed_over, ..Report::default() }
    }

    /// Adds a decision, and the claims to bind for it.
    pub(crate) fn add(&mut self, mut decision: Decision, claims: &[ClaimBinding]) {
        let choice = Choice::of(&decision);
        decision.nodes = Vec::new();
        if let Outcome::Unschedulable { nomination: Some(nomination), .. } = &decision.outcome {
            for victim in &nomination.victims {
                let (by, node) = (decision.pod.clone(), Some(nomination.node.clone()));
                self.preempted.insert(victim.clone(), Preemption { by, node });
            }
        }
        let why = decision.outcome.node().err().map(Cow::into_owned);
        if let (Outcome::Unschedulable { message, .. }, Some(why)) = (&mut decision.outcome, why) {
            *message = why;
        }
        let placement = Placement { decision, choice, claims: claims.to_vec() };
        let pod = &placement.decision.pod;
        if let Some(&at) = self.index.get(pod) {
            self.placements[at] = placement;
        } else {
            self.index.insert(pod.clone(), self.placements.len());
            self.placements.push(placement);
        }
    }

    /// Adds a decision about a group of pods, and those about its members.
    pub(crate) fn add_group(&mut self, group: GroupDecision) {
        for member in &group.pods {
            if let Some(decision) = member.as_decision() {
                self.add(Decision { attempt: group.attempt, ..decision }, &[]);
            }
        }
        for victim in &group.victims {
            let preemption = Preemption { by: group.group.clone(), node: None };
            self.preempted.insert(victim.clone(), preemption);
        }
        self.groups.insert(group.group.clone(), group);
    }

    /// Whether there is a decision about the pod.
    pub(crate) fn was_tried(&self, pod: &PodKey) -> bool {
        self.index.contains_key(pod)
    }

    /// Adds the gated pods at the end of the simulation.
    pub(crate) fn finish(&mut self, scheduler: &Scheduler) {
        let gated = scheduler.pending().filter_map(|info| match &info.place {
            QueuePlace::Gated { why, .. } => {
                Some(Gated { pod: info.pod.key.clone(), why: why.to_string() })
            }
            _ => None,
        });
        self.gated.extend(gated);
        for group in scheduler.waiting_groups() {
            self.groups.insert(group.group.clone(), group);
        }
        self.gated.retain(|gated| !self.index.contains_key(&gated.pod));
    }
}

impl Choice {
    /// None if the decision has no nodes.
    fn of(decision: &Decision) -> Option<Self> {
        let nodes = &decision.nodes;
        let is_feasible = |verdict: &NodeVerdict| {
            !matches!(verdict, NodeVerdict::Rejected { .. } | NodeVerdict::NotJudged)
        };
        let chosen = match &decision.outcome {
            Outcome::Scheduled { node, .. } => nodes.iter().find(|other| other.name == *node),
            Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
        };
        let total = chosen.and_then(|node| match &node.verdict {
            NodeVerdict::Scored { total, .. } => Some(*total),
            NodeVerdict::NotJudged | NodeVerdict::Only | NodeVerdict::Rejected { .. } => None,
        });
        (!nodes.is_empty()).then(|| Choice {
            judged: nodes.len(),
            feasible: nodes.iter().filter(|node| is_feasible(&node.verdict)).count(),
            total,
        })
    }
}

/// Stands in place of what stops a shape that must not be named.
const WITHHELD_REASON: &str = "a reason that may name objects of its namespace";

/// How many more pods and groups fit.
#[derive(Debug, Serialize)]
pub(crate) struct CapacityAnswer {
    /// One for each pod or group.
    pub(crate) shapes: Vec<Shape>,
}

impl CapacityAnswer {
    /// Adds the rules that have chosen the profiles of the shapes, in their order.
    pub(crate) fn with(mut self, canaries: Vec<Option<CanaryChoice>>) -> Self {
        for (shape, canary) in self.shapes.iter_mut().zip(canaries) {
            shape.canary = canary;
        }
        self
    }

    /// Leaves out the names of shapes of these namespaces.
    pub(crate) fn without(mut self, hidden: &BTreeSet<String>) -> Self {
        for shape in &mut self.shapes {
            if shape.of.namespace().is_some_and(|name| hidden.contains(name)) {
                shape.of = Copied::withheld(shape.of.n_pods());
                // The reason may name claims and volumes, and the rule may tell which pods it picks.
                shape.capacity.stopped_by =
                    shape.capacity.stopped_by.take().map(|_| WITHHELD_REASON.to_owned());
                shape.canary = None;
            }
        }
        // Their places among the others would tell of their names.
        self.shapes.sort_by_key(|shape| matches!(shape.of, Copied::Withheld { .. }));
        self
    }
}

/// What is copied.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Copied {
    /// A pod.
    Pod {
        /// `namespace/name`.
        pod: String,
    },
    /// A group.
    Group {
        /// `namespace/name`.
        group: String,
        /// How many pods it has.
        pods: usize,
    },
    /// One of these that must not be named.
    Withheld {
        /// Always true.
        withheld: bool,
        /// How many pods the group has; left out for a pod.
        #[serde(skip_serializing_if = "Option::is_none")]
        pods: Option<usize>,
    },
}

impl Copied {
    fn withheld(pods: Option<usize>) -> Self {
        Copied::Withheld { withheld: true, pods }
    }

    /// Its name, or what is told in place of it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Copied::Pod { pod } => pod,
            Copied::Group { group, .. } => group,
            Copied::Withheld { pods: None, .. } => "a pod that you may not list",
            Copied::Withheld { pods: Some(_), .. } => "a group that you may not list",
        }
    }

    /// How many pods a group has.
    pub(crate) fn n_pods(&self) -> Option<usize> {
        match self {
            Copied::Pod { .. } => None,
            Copied::Group { pods, .. } => Some(*pods),
            Copied::Withheld { pods, .. } => *pods,
        }
    }

    fn namespace(&self) -> Option<&str> {
        match self {
            Copied::Pod { pod: name } | Copied::Group { group: name, .. } => {
                name.split_once('/').map(|(namespace, _)| namespace)
            }
            Copied::Withheld { .. } => None,
        }
    }
}

/// How many copies of one pod or group fit.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shape {
    #[serde(flatten)]
    pub(crate) of: Copied,
    #[serde(flatten)]
    pub(crate) capacity: ShapeCapacity,
    /// The rule that has chosen the profile of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) canary: Option<CanaryChoice>,
    /// Smaller requests with which a tenth more fits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) smaller_requests: Vec<SmallerRequest>,
    /// What would let the next one in.
    #[serde(skip_serializing_if = "Remedies::is_empty")]
    pub(crate) remedies: Remedies,
}

/// What would let the next copy in.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Remedies {
    /// The next pod.
    Pod(Vec<Remedy>),
    /// The next group.
    Group(Vec<GroupRemedy>),
}

impl Remedies {
    /// Whether nothing is known to help.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Remedies::Pod(remedies) => remedies.is_empty(),
            Remedies::Group(remedies) => remedies.is_empty(),
        }
    }
}

impl Shape {
    /// A shape without changes that would let more in.
    pub(crate) fn new(of: Copied, capacity: ShapeCapacity) -> Self {
        let remedies = Remedies::Pod(Vec::new());
        Shape { of, capacity, canary: None, smaller_requests: Vec::new(), remedies }
    }
}

/// A request that is lowered so that a tenth more fits.
#[derive(Debug, Serialize)]
pub(crate) struct SmallerRequest {
    /// What is changed, such as `request 400m cpu instead of 500m`.
    pub(crate) text: String,
    /// How many more copies fit then, at least.
    pub(crate) pods: usize,
}
