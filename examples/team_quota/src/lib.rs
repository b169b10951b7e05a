//! Keeps each namespace within its `TeamQuota`, a custom resource: a plugin in a separate crate that adds a kind of
//! objects.

use plimsoll::framework::events::Object;
use plimsoll::prelude::*;
use serde::Deserialize;

/// How many pods a namespace may have on nodes.
///
/// ```yaml
/// apiVersion: example.com/v1
/// kind: TeamQuota
/// metadata: {name: quota, namespace: team-a}
/// spec: {pods: 10}
/// ```
#[derive(Debug, PartialEq, Deserialize)]
pub struct TeamQuota {
    metadata: ObjectMeta,
    spec: Spec,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Spec {
    pods: usize,
}

impl Kind for TeamQuota {
    const NAME: &'static str = "TeamQuota";
    const PLURAL: &'static str = "teamquotas";
    const VERSIONS: &'static [&'static str] = &["example.com/v1"];
    const WITHOUT: Option<&'static str> = Some("no namespace has a quota");

    fn read(manifest: Manifest<'_>) -> Result<Self, WireError> {
        manifest.parse()
    }
    fn key(&self) -> ObjectKey {
        self.metadata.key()
    }
}

/// Rejects pods of a namespace that already has as many pods on nodes as one of its quotas allows.
pub struct TeamQuotas(TeamQuotaArgs);

/// Which pods are exempt from quotas.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TeamQuotaArgs {
    /// Pods with this priority or a higher one may exceed the quota.
    exempt_from_priority: Option<i32>,
}

impl Plugin for TeamQuotas {
    const NAME: &'static str = "TeamQuota";
    type Args = TeamQuotaArgs;
    fn new(args: TeamQuotaArgs, _: &FeatureGates) -> Self {
        TeamQuotas(args)
    }
}

impl PreFilter for TeamQuotas {
    type Pod = (PodNamespace, Priority);
    type Node = ();
    type Cluster = (Objects<TeamQuota>, Nodes<Pods>);
    type State = ();

    fn applies(&self, (_, priority): (&Str, i32)) -> bool {
        self.0.exempt_from_priority.is_none_or(|exempt| priority < exempt)
    }

    fn pre_filter(
        &self,
        (namespace, _): (&Str, i32),
        (quotas, nodes): (&Store<TeamQuota>, NodesRef<'_, Pods>),
    ) -> Result<Option<()>, Rejection> {
        let Some(allowed) = quotas.in_namespace(namespace).map(|(_, quota)| quota.spec.pods).min()
        else {
            return Ok(None);
        };
        let of_namespace =
            |pods: &PodSet| pods.iter().filter(|pod| pod.key.namespace == *namespace).count();
        let used: usize = nodes.iter().map(of_namespace).sum();
        if used < allowed {
            return Ok(None);
        }
        let why =
            format!("TeamQuota of namespace {namespace} is used up: {used} of {allowed} pods");
        Err(Rejection::unschedulable(why))
    }

    fn filter(&self, (): &(), (): ()) -> Verdict {
        Verdict::Pass
    }
}

/// Without this the framework would try pods again after any change to what the plugin reads.
impl Requeue for TeamQuotas {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::of::<TeamQuota>(Action::UPDATE | Action::DELETE),
            ClusterEvent::of::<Pod>(Action::DELETE | Action::UPDATE_OTHER),
            ClusterEvent::of::<Node>(Action::DELETE),
        ]
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let namespace = &pod.key.namespace;
        let helps = match change.object {
            Object::Assigned { before: Some(gone), after: None, .. } => {
                gone.key.namespace == *namespace
            }
            Object::Assigned { .. } => false,
            // The node's pods are gone with it, or the pod itself has changed.
            Object::Node { .. } | Object::Itself { .. } => true,
            Object::Other(_) => change.of::<TeamQuota>().is_some_and(|of| {
                let Some(before) = of.before else { return false };
                let grew = of.after.is_none_or(|after| before.spec.pods < after.spec.pods);
                grew && before.metadata.namespace == *namespace
            }),
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<TeamQuotas>().pre_filter().requeue().done()
}
