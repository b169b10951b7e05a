//! The interface of the server to what answers questions about the cluster.

use std::fmt;
use std::sync::Arc;

use plimsoll_api::{AnyObject, CompositePodGroup, KindRef, ObjectKey, PodGroup, PodKey};
use plimsoll_engine::{ClusterSnapshot, Decision, PendingPod};
use plimsoll_framework::PodInfo;
use plimsoll_framework::pod_groups::group_of;
use serde_json::Value;

use super::capacity_question::CapacityQuestion;
use super::scheduler_view::ManifestError;

/// Reads manifests while a question is answered.
pub trait ManifestSource: fmt::Debug + Send + Sync {
    /// The manifest of an object as the API server has it, by its kind, such as `ResourceClaim`; `None` if there is no such
    /// object. It may take its time, and must not be called on a thread of a runtime.
    fn read(&self, kind: &str, key: &ObjectKey) -> Result<Option<Value>, ManifestError>;
}

/// The question why a pod is where it is, or nowhere.
#[derive(Clone, Debug)]
pub struct WhyQuestion {
    /// The pod.
    pub pod: PodKey,
    /// Its manifest, as the API server has it.
    pub manifest: Value,
    /// The manifests of other objects.
    pub manifests: Arc<dyn ManifestSource>,
    /// The cluster.
    pub snapshot: ClusterSnapshot,
    /// What the scheduler knows of the pod, if it is pending.
    pub pending: Option<PendingPod>,
    /// How many changes are wanted; `None` for the default.
    pub remedies: Option<usize>,
    /// How many of the nearest nodes are wanted; `None` for the default.
    pub nearest: Option<usize>,
    /// Whether the answer has a `text` for people beside the data.
    pub with_text: bool,
}

/// The question why a group of pods waits.
#[derive(Clone, Debug)]
pub struct WhyGroupQuestion {
    /// The group.
    pub group: ObjectKey,
    /// The manifests of the group, its pods and other objects.
    pub manifests: Arc<dyn ManifestSource>,
    /// The cluster.
    pub snapshot: ClusterSnapshot,
    /// What the scheduler knows of the pods of the group, and of the other groups of its tree, that are pending.
    pub pending: Vec<PendingPod>,
    /// How many changes are wanted; `None` for the default.
    pub remedies: Option<usize>,
    /// Whether the answer has a `text` for people beside the data.
    pub with_text: bool,
}

impl WhyGroupQuestion {
    /// `CompositePodGroup` if the cluster has one of this name and neither a PodGroup nor a pod of it; else `PodGroup`.
    pub fn kind(&self) -> KindRef {
        let objects = || self.snapshot.objects.iter();
        let is_composite = |object: &AnyObject| {
            object.get::<CompositePodGroup>().is_some_and(|one| one.key == self.group)
        };
        let is_of_pods =
            |object: &AnyObject| object.get::<PodGroup>().is_some_and(|one| one.key == self.group);
        let is_member = |pod: &PodInfo| group_of(pod).as_ref() == Some(&self.group);
        if objects().any(is_composite)
            && !objects().any(is_of_pods)
            && !self.snapshot.pods.iter().any(is_member)
        {
            KindRef::of::<CompositePodGroup>()
        } else {
            KindRef::of::<PodGroup>()
        }
    }
}

/// Answers questions on a copy of the cluster. It may take its time: it does not run on the thread of the engine.
pub trait Advisor: Send + Sync + 'static {
    /// The least that would have to change so that a pod fits, or why it is on its node.
    fn why(&self, question: WhyQuestion) -> Result<Value, AdviceError>;

    /// Why a group of pods waits, and what would let it be scheduled.
    fn why_group(&self, question: WhyGroupQuestion) -> Result<Value, AdviceError>;

    /// A decision as text for people.
    fn decision_text(&self, decision: &Decision) -> String;

    /// What would happen if the cluster changed: the answer to the body of `/api/v1/what-if`.
    fn what_if(&self, snapshot: ClusterSnapshot, request: &Value) -> Result<Value, AdviceError>;

    /// How many more pods fit.
    fn capacity(&self, question: CapacityQuestion) -> Result<Value, AdviceError>;

    /// Which pods should move: the answer to the body of `/api/v1/rebalance`.
    fn rebalance(&self, snapshot: ClusterSnapshot, request: &Value) -> Result<Value, AdviceError>;

    /// Whether it reads a journal of decisions.
    fn has_journal(&self) -> bool {
        false
    }

    /// The attempts to schedule a pod, and the preemptions that it was part of, from the journal of decisions; `None` if there
    /// is no journal.
    fn history(&self, _pod: &PodKey) -> Option<Result<Value, AdviceError>> {
        None
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdviceError {
    /// The scheduler does not know what is asked about.
    #[error("{0}")]
    Unknown(String),
    /// The question is wrong.
    #[error("{0}")]
    Wrong(String),
    /// It should have been answered.
    #[error("{0}")]
    Failed(String),
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Pod;
    use plimsoll_framework::Time;

    use super::*;

    #[derive(Debug)]
    struct NoManifests;

    impl ManifestSource for NoManifests {
        fn read(&self, _: &str, _: &ObjectKey) -> Result<Option<Value>, ManifestError> {
            Ok(None)
        }
    }

    #[test]
    fn a_group_of_groups_has_neither_a_pod_group_nor_pods() {
        let key = ObjectKey::new("shop", "train");
        let composite = CompositePodGroup { key: key.clone(), ..CompositePodGroup::default() };
        let of_pods = PodGroup { key: key.clone(), ..PodGroup::default() };
        let mut member = Pod { key: PodKey::new("shop", "train-0"), ..Pod::default() };
        member.scheduling_group = Some("train".into());
        let kind = |objects: Vec<AnyObject>, pods: Vec<Pod>| {
            let snapshot = ClusterSnapshot {
                taken: Time::ZERO,
                nodes: Vec::new(),
                pods: pods.into_iter().map(PodInfo::from).collect(),
                nominated: Vec::new(),
                objects,
            };
            let (group, manifests) = (key.clone(), Arc::new(NoManifests));
            let (pending, remedies, with_text) = (Vec::new(), None, false);
            let question =
                WhyGroupQuestion { group, manifests, snapshot, pending, remedies, with_text };
            question.kind()
        };
        let (one, other) = (KindRef::of::<CompositePodGroup>(), KindRef::of::<PodGroup>());
        assert_eq!(kind(vec![composite.clone().into()], Vec::new()), one);
        assert_eq!(kind(vec![composite.clone().into(), of_pods.into()], Vec::new()), other);
        assert_eq!(kind(vec![composite.into()], vec![member]), other);
        assert_eq!(kind(Vec::new(), Vec::new()), other);
    }
}
