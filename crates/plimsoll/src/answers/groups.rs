//! Why a group of pods waits, with the decision about it.

use anyhow::{Result, bail};
use plimsoll_advisor::{GroupSubject, WhyGroup, why_group};
use plimsoll_api::{CompositePodGroup, ObjectKey, PodGroup, Store};
use plimsoll_engine::record::GroupRecord;
use plimsoll_engine::{GroupDecision, Options, Scheduler};
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{GroupForest, GroupRef, GroupRules, Time};
use plimsoll_sim::InitialCluster;
use serde::Serialize;

/// The PodGroups whose pods a group of a cluster has: itself, or those of a CompositePodGroup on all levels.
pub(crate) fn leaves_in(cluster: &InitialCluster, group: &ObjectKey) -> Vec<ObjectKey> {
    let (mut groups, mut composites) = (Store::default(), Store::default());
    for object in &cluster.objects {
        if let Some(group) = object.get::<PodGroup>() {
            groups.set(group.clone());
        } else if let Some(composite) = object.get::<CompositePodGroup>() {
            composites.set(composite.clone());
        }
    }
    let is_of_pods = cluster.pods.iter().any(|pod| group_of(pod).as_ref() == Some(group));
    if is_of_pods || groups.get(group).is_some() {
        return vec![group.clone()];
    }
    GroupForest::new(&groups, Some(&composites)).leaves(&GroupRef::Composite(group.clone()))
}

/// The answer about a group.
#[derive(Debug)]
pub(crate) struct GroupAnswer {
    pub(crate) why: WhyGroup,
    /// The decision about it; `None` if all its pods are on nodes.
    pub(crate) decision: Option<GroupDecision>,
}

/// The answer with the record of the decision.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    why: &'a WhyGroup,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<GroupRecord<'a>>,
}

impl GroupAnswer {
    /// Asks about a group. The scheduler is not needed any more afterwards: it has tried the group.
    pub(crate) fn of(
        scheduler: &mut Scheduler,
        now: Time,
        subject: &GroupSubject<'_>,
    ) -> Result<Self> {
        let why = why_group(scheduler, now, subject)?;
        let decision = match why.pending {
            0 => None,
            _ => Some(tried(scheduler, now, subject.group)?),
        };
        Ok(GroupAnswer { why, decision })
    }

    /// The answer as it is written as JSON.
    pub(crate) fn written(&self) -> impl Serialize {
        let record = self.decision.as_ref().map(GroupRecord::of);
        Written { why: &self.why, record }
    }
}

/// The decision about a group, as if it had its turn now. The scheduler is not needed any more afterwards.
pub(crate) fn tried(
    scheduler: &mut Scheduler,
    now: Time,
    group: &ObjectKey,
) -> Result<GroupDecision> {
    match scheduler.try_group_now(now, group, &mut Vec::new()) {
        Some(decision) => Ok(decision),
        None => waiting(scheduler, group),
    }
}

/// The decision about a group of which no member can be tried, or about the tree that it is part of.
fn waiting(scheduler: &Scheduler, group: &ObjectKey) -> Result<GroupDecision> {
    let forest = GroupForest::of(scheduler.view().stores, scheduler.group_gates());
    let root = forest.root(group).unwrap_or_else(|_| GroupRef::Pods(group.clone()));
    let is_meant = |one: &GroupDecision| one.group == *group || one.group == *root.key();
    match scheduler.waiting_groups().into_iter().find(is_meant) {
        Some(decision) => Ok(decision),
        None => bail!("no pod of group {group} is waiting for a node"),
    }
}

/// Fails, with advice, if groups are not scheduled as such.
pub(crate) fn check_on(options: &Options) -> Result<()> {
    let groups = &options.gates.groups;
    match groups.rules {
        _ if groups.generic_workload => Ok(()),
        GroupRules::V1_36 => bail!(
            "groups of pods are off: add --feature-gates GenericWorkload=true,GangScheduling=true, and with topologies or \
             preemption TopologyAwareWorkloadScheduling=true or WorkloadAwarePreemption=true"
        ),
        // It has the other two since then.
        GroupRules::V1_37 => bail!(
            "groups of pods are off: add --feature-gates GenericWorkload=true, and with topologies \
             TopologyAwareWorkloadScheduling=true"
        ),
    }
}
