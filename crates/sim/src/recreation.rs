//! Which pods come back when they lose their nodes.

use plimsoll_api::{Pod, PodPhase};
use plimsoll_framework::Time;

use crate::lifecycle;

/// What becomes of a pod that loses its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its controller makes another pod.
    Recreated,
    /// It belongs to its node, as the pods of DaemonSets and those that the kubelet runs itself.
    GoesWithItsNode,
    /// It was about to end: its controller has made another pod already, or needs none.
    Ends,
    /// It has no controller, so nobody makes another pod.
    Lost,
}

impl Fate {
    /// The fate of a pod.
    pub fn of(pod: &Pod) -> Self {
        let is_mirror = pod.annotations.get("kubernetes.io/config.mirror").is_some();
        match &pod.controller {
            _ if is_mirror => Fate::GoesWithItsNode,
            _ if pod.is_terminating() || pod.phase == PodPhase::Ended => Fate::Ends,
            Some(controller) if matches!(controller.kind.as_str(), "DaemonSet" | "Node") => {
                Fate::GoesWithItsNode
            }
            Some(_) => Fate::Recreated,
            None => Fate::Lost,
        }
    }
}

/// The pod that the controller of `pod` makes in its place. It keeps the name, so that both can be compared, and so that it
/// finds its claims; most controllers would choose another one.
pub(crate) fn recreated(pod: &Pod, now: Time) -> Option<Pod> {
    (Fate::of(pod) == Fate::Recreated).then(|| Pod {
        uid: format!("{}-again", pod.uid).into(),
        created: lifecycle::timestamp(now),
        started: None,
        phase: PodPhase::Pending,
        preempted: false,
        node_name: None,
        nominated_node: None,
        devices: None,
        ..pod.clone()
    })
}
