//! What could change in the cluster: nodes that are closed to the pod, pods in its way, and new nodes.

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation};
use plimsoll_api::{
    AnyObject, Effect, KindRef, Node, ObjectKey, Pod, PodKey, ResourceClaim, Str, Taint,
};
use plimsoll_engine::{NodeJudge, Transaction, TransactionError, Verdicts};
use plimsoll_framework::parts::{Taints, Unschedulable};
use plimsoll_framework::{NodePart, PodInfo, Row};

use crate::change::{Change, Reference};
use crate::draft::Manifests;
use crate::new_nodes::{OWN_TAINTS, new_nodes};
use crate::relaxations::{requests, taint_text};
use crate::remedy::size;

/// At most so many nodes are considered for each sort of change, those first that miss by least.
const MOST_NODES: usize = 12;
/// At most so many pods are named to be evicted for one pod.
const MOST_VICTIMS: usize = 10;

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// A change of the cluster as it is made in a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// A node is like this.
    Node(Box<Node>),
    /// A pod is gone.
    Gone(PodKey),
    /// A pod is on a node.
    Placed(Box<Pod>, String),
    /// An object is like this.
    Object(AnyObject),
    /// A claim on devices is gone.
    Dropped(ObjectKey),
}

impl Edit {
    pub(crate) fn make(&self, transaction: &mut Transaction<'_>) -> Result<(), TransactionError> {
        match self {
            Edit::Node(node) => transaction.set_node((**node).clone()),
            Edit::Gone(pod) => transaction.evict(pod)?,
            Edit::Placed(pod, node) => transaction.place((**pod).clone(), node)?,
            Edit::Object(object) => transaction.set_object(object.clone()),
            Edit::Dropped(claim) => {
                transaction.remove_object(KindRef::of::<ResourceClaim>(), claim.clone());
            }
        }
        Ok(())
    }
}

/// Changes of the cluster that may help.
#[derive(Clone, Debug)]
pub(crate) struct ClusterChange {
    pub(crate) text: String,
    pub(crate) size: u32,
    pub(crate) edits: Vec<Edit>,
    pub(crate) changes: Vec<Change>,
}

/// The changes of which each by itself should make the pod fit. Given are the nodes that miss by least, and one of each sort.
pub(crate) fn changes(
    judge: &NodeJudge<'_>,
    verdicts: &Verdicts,
    (near, models): (&[Row], &[Row]),
    manifests: Manifests<'_>,
) -> Vec<ClusterChange> {
    let mut all = Vec::new();
    let resolvable = || near.iter().filter(|row| verdicts.is_resolvable(**row)).take(MOST_NODES);
    all.extend(resolvable().filter_map(|row| wait(judge, *row)));
    all.extend(resolvable().filter_map(|row| evict(judge, *row)));
    for (row, node_changes) in closed_nodes(judge, near) {
        let opens = |change: &&NodeChange| {
            judge.rejections_if(row, change.node.clone(), |_| true).is_empty()
        };
        // All changes of a node together only help if a part of them does not.
        let mut smaller = node_changes.iter().filter(opens);
        all.extend(smaller.next().map(NodeChange::alone));
    }
    all.extend(new_nodes(judge, models, manifests));
    all
}

/// A change of one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeChange {
    pub(crate) node: Node,
    pub(crate) size: u32,
    actions: Vec<NodeAction>,
    operations: Vec<PatchOperation>,
}

/// What is done to a node, or waited for. Taints are written as `kubectl taint` does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NodeAction {
    Uncordon,
    RemoveTaint(String),
    /// Kubernetes removes the taint itself.
    AwaitTaint(String),
}

/// What closes a node to pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    Cordon,
    Taints,
    Both,
}

impl NodeChange {
    /// The change of this node alone.
    pub(crate) fn alone(&self) -> ClusterChange {
        NodeChange::together(std::slice::from_ref(self))
    }

    /// The changes of several nodes. What is done to many of them is said once.
    pub(crate) fn together(all: &[NodeChange]) -> ClusterChange {
        let mut actions: Vec<(&NodeAction, Vec<&Str>)> = Vec::new();
        for change in all {
            for action in &change.actions {
                let at = actions.iter().position(|(known, _)| *known == action);
                let at = at.unwrap_or_else(|| {
                    actions.push((action, Vec::new()));
                    actions.len() - 1
                });
                actions[at].1.push(&change.node.name);
            }
        }
        let texts: Vec<_> = actions.iter().map(|(action, nodes)| action.text(nodes)).collect();
        let edit = |change: &NodeChange| Edit::Node(Box::new(change.node.clone()));
        let patch = |change: &NodeChange| Change::Patch {
            patch: Reference::node(&change.node.name),
            operations: change.operations.clone(),
        };
        ClusterChange {
            text: texts.join(" and "),
            size: all.iter().map(|change| change.size).sum(),
            edits: all.iter().map(edit).collect(),
            changes: all.iter().map(patch).collect(),
        }
    }
}

impl NodeAction {
    fn text(&self, nodes: &[&Str]) -> String {
        let all = names(nodes);
        match self {
            NodeAction::Uncordon => format!("uncordon {all}"),
            NodeAction::RemoveTaint(taint) => format!("remove the taint {taint} from {all}"),
            NodeAction::AwaitTaint(taint) => {
                let lose = if nodes.len() == 1 { "loses" } else { "lose" };
                format!("wait until {all} {lose} the taint {taint}")
            }
        }
    }
}

/// The node opened to pods that tolerate the taints of which `is_tolerated` says so: all that closes it is taken away, or only
/// the cordon, or only the other taints. `None` if that is not what closes it.
pub(crate) fn opened(
    node: &Node,
    what: Closed,
    is_tolerated: impl Fn(&Taint) -> bool,
) -> Option<NodeChange> {
    let closes = |taint: &Taint| taint.effect != Effect::PreferNoSchedule && !is_tolerated(taint);
    let taints = node.taints.iter().enumerate().filter(|(_, one)| closes(one)).map(|(at, _)| at);
    let (of_cordon, others): (Vec<usize>, Vec<usize>) =
        taints.partition(|at| node.taints[*at].key == UNSCHEDULABLE);
    let is_cordoned = node.unschedulable || !of_cordon.is_empty();
    let has = (is_cordoned, !others.is_empty());
    match what {
        Closed::Cordon if has.0 => Some(without(node, node.unschedulable, &of_cordon)),
        Closed::Taints if has.1 => Some(without(node, false, &others)),
        Closed::Both if has.0 || has.1 => {
            let all: Vec<usize> = of_cordon.into_iter().chain(others).collect();
            Some(without(node, node.unschedulable, &all))
        }
        Closed::Cordon | Closed::Taints | Closed::Both => None,
    }
}

/// The nodes that are cordoned or have taints that the pod does not tolerate, with what could be done, the smallest first.
pub(crate) fn closed_nodes(judge: &NodeJudge<'_>, near: &[Row]) -> Vec<(Row, Vec<NodeChange>)> {
    let nodes = judge.view().nodes;
    // Nearly all nodes are open, which their columns say sooner than the nodes themselves.
    let is_open = |row| Taints::at(nodes, row).is_empty() && !Unschedulable::at(nodes, row);
    let others = near.iter().copied().filter(|row| !is_open(*row));
    let changes = others.map(|row| (row, node_changes(nodes.node(row), judge.pod())));
    changes.filter(|(_, changes)| !changes.is_empty()).take(MOST_NODES).collect()
}

fn node_changes(node: &Node, pod: &PodInfo) -> Vec<NodeChange> {
    let is_open = |taint: &Taint| {
        taint.effect == Effect::PreferNoSchedule
            || pod.tolerations.iter().any(|one| one.tolerates(taint, <_>::default()))
    };
    let taints: Vec<usize> =
        node.taints.iter().enumerate().filter(|(_, one)| !is_open(one)).map(|(at, _)| at).collect();
    let cordon = |at: &usize| node.taints[*at].key == UNSCHEDULABLE;
    let (of_cordon, others): (Vec<usize>, Vec<usize>) = taints.into_iter().partition(cordon);
    let mut changes = Vec::new();
    let is_cordoned = node.unschedulable || !of_cordon.is_empty();
    if is_cordoned {
        changes.push(without(node, node.unschedulable, &of_cordon));
    }
    changes.extend(others.iter().map(|at| without(node, false, &[*at])));
    if 1 < others.len() {
        changes.push(without(node, false, &others));
    }
    if is_cordoned && !others.is_empty() {
        let all: Vec<usize> = of_cordon.into_iter().chain(others).collect();
        changes.push(without(node, node.unschedulable, &all));
    }
    changes
}

/// The node uncordoned, if that is asked, and without some of its taints.
fn without(node: &Node, uncordon: bool, taints: &[usize]) -> NodeChange {
    let mut changed = node.clone();
    let (mut actions, mut operations, mut total) = (Vec::new(), Vec::new(), 0);
    let of_cordon = |at: &usize| node.taints[*at].key == UNSCHEDULABLE;
    if uncordon || taints.iter().any(of_cordon) {
        actions.push(NodeAction::Uncordon);
        total += size::UNCORDON;
    }
    if uncordon {
        changed.unschedulable = false;
        operations.push(remove("/spec/unschedulable"));
    }
    let mut descending = taints.to_vec();
    descending.sort_unstable_by(|a, b| b.cmp(a));
    for at in descending {
        changed.taints.remove(at);
        operations.push(remove(&format!("/spec/taints/{at}")));
    }
    for taint in taints.iter().filter(|at| !of_cordon(at)).map(|at| &node.taints[*at]) {
        total += size::TAINT;
        let named = taint_text(taint);
        actions.push(match taint.key.starts_with(OWN_TAINTS) {
            true => NodeAction::AwaitTaint(named),
            false => NodeAction::RemoveTaint(named),
        });
    }
    NodeChange { node: changed, size: total, actions, operations }
}

fn remove(path: &str) -> PatchOperation {
    let path = PointerBuf::parse(path).expect("it begins with a slash and has no tilde");
    PatchOperation::Remove(RemoveOperation { path })
}

/// Waiting until pods that are terminating are gone.
fn wait(judge: &NodeJudge<'_>, row: Row) -> Option<ClusterChange> {
    let node = judge.view().nodes.name_of(row);
    let gone = judge.room_on(node, |pod| pod.is_terminating(), |pod| pod.priority)?;
    if gone.is_empty() {
        return None;
    }
    let pods = names(&gone);
    let are =
        if gone.len() == 1 { "which is terminating, is" } else { "which are terminating, are" };
    let text = format!("wait until {pods}, {are} gone from {node}");
    Some(without_pods(text, size::WAIT * of(gone.len()), &gone))
}

/// Evicting pods that are not terminating.
fn evict(judge: &NodeJudge<'_>, row: Row) -> Option<ClusterChange> {
    let nodes = judge.view().nodes;
    let node = nodes.name_of(row);
    let may_go = |pod: &PodInfo| !stays_on_its_node(pod) && !pod.is_terminating();
    let gone = judge.room_on(node, may_go, |pod| (pod.priority, size_of(pod, nodes.node(row))))?;
    if gone.is_empty() || MOST_VICTIMS < gone.len() {
        return None;
    }
    let priority = judge.pod().priority;
    let is_important = |pod: &&PodInfo| gone.contains(&pod.key) && priority <= pod.priority;
    let important = nodes.pods_on(row).iter().filter(is_important).count();
    let total = size::EVICTION
        + size::ONE_EVICTION * of(gone.len())
        + size::IMPORTANT_EVICTION * of(important);
    Some(without_pods(format!("evict {} from {node}", names(&gone)), total, &gone))
}

/// How much of a node a pod uses, in millionths of its scarcest resource.
fn size_of(pod: &PodInfo, node: &Node) -> i64 {
    let part = |name: &str| {
        let (uses, has) = (pod.requests.get(name), node.allocatable.get(name));
        if has <= 0 { 0 } else { i128::from(uses) * 1_000_000 / i128::from(has) }
    };
    let names = requests::names(pod);
    i64::try_from(names.iter().map(|name| part(name)).max().unwrap_or_default()).unwrap_or(i64::MAX)
}

/// Whether a pod belongs to its node: those of DaemonSets, and those that the kubelet runs itself.
pub(crate) fn stays_on_its_node(pod: &Pod) -> bool {
    let controller = pod.controller.as_ref();
    controller.is_some_and(|controller| matches!(controller.kind.as_str(), "DaemonSet" | "Node"))
        || pod.annotations.get("kubernetes.io/config.mirror").is_some()
}

fn of(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Names as they are listed in a sentence.
pub(crate) fn names<T: ToString>(all: &[T]) -> String {
    let names: Vec<_> = all.iter().map(ToString::to_string).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

fn without_pods(text: String, size: u32, gone: &[PodKey]) -> ClusterChange {
    let delete = |pod: &PodKey| Change::Delete { delete: Reference::pod(pod) };
    ClusterChange {
        text,
        size,
        edits: gone.iter().cloned().map(Edit::Gone).collect(),
        changes: gone.iter().map(delete).collect(),
    }
}
