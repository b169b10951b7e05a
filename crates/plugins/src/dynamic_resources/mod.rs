//! DynamicResources: devices that pods claim.

mod account;
mod allocate;
mod answers;
mod attempt;
mod claims;
mod conditions;
mod describe;
mod extended;
mod held;
mod metrics;
mod node_allocatable;
mod post_filter;
mod pre_bind;
mod requeue;
mod reserve;
mod score;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_api::devices::ContainerDevices;
use plimsoll_api::{ObjectStores, PodGroup};
use plimsoll_framework::prelude::*;
use serde::{Deserialize, Serialize};

use self::allocate::PreparedClaims;
use self::claims::{ClaimingPod, WholePod};
use crate::devices::{DeviceGates, DeviceKinds, TaintRules};

const NO_FILTER_TIMEOUT: &str = "DRASchedulingFilterTimeout feature gate is disabled";
const NO_BINDING_TIMEOUT: &str =
    "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled";

/// Rejects nodes that lack the devices which the claims of a pod ask for, and allocates devices on the chosen node.
///
/// A claim asks for devices of a class, such as a GPU with some memory. Drivers publish devices in ResourceSlices. Claims
/// that have no devices yet get the first ones that satisfy all of them; those that have some bind the pod to the nodes
/// from which these can be reached. A pod is kept out of the queue until its claims exist.
///
/// ```yaml
/// apiVersion: resource.k8s.io/v1
/// kind: ResourceClaim
/// metadata: {name: a100}
/// spec:
///   devices:
///     requests:
///     - name: gpu
///       exactly:
///         deviceClassName: gpu.example.com
///         selectors:
///         - cel: {expression: 'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("30Gi"))'}
/// ```
///
/// A class can also stand for an extended resource, such as `nvidia.com/gpu`. A pod that requests it then gets a claim
/// of its own on nodes that do not offer the resource themselves.
///
/// Nodes are preferred on which the first alternatives of requests (`firstAvailable`) are available.
#[derive(Clone, Debug)]
pub struct DynamicResources {
    gates: DeviceGates,
    /// How many steps the search may take on one node; `None` for any number. Instead of a clock: see
    /// [`STEPS_PER_SECOND`].
    most_steps: Option<u64>,
    binding_timeout: Duration,
}

/// How many steps of a search stand for a second of `filterTimeout`. The search has no clock, so that it always ends
/// the same way. A step takes about a microsecond.
const STEPS_PER_SECOND: u64 = 1_000_000;

/// How long the search and the drivers may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct DynamicResourcesArgs {
    #[serde(skip_serializing)]
    api_version: String,
    #[serde(skip_serializing)]
    kind: String,
    /// How long the filter may take for one node; `0s` for ever. 10 seconds by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_timeout: Option<GoDuration>,
    /// How long PreBind waits for the conditions of a device. 10 minutes by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding_timeout: Option<GoDuration>,
}

impl Plugin for DynamicResources {
    const NAME: &'static str = "DynamicResources";
    type Args = DynamicResourcesArgs;
    fn new(args: DynamicResourcesArgs, gates: &FeatureGates) -> Self {
        let seconds = |timeout: Option<GoDuration>, default: u64| match timeout {
            Some(timeout) => Duration::from_nanos(u64::try_from(timeout.nanoseconds).unwrap_or(0)),
            None => Duration::from_secs(default),
        };
        let filter_timeout = seconds(args.filter_timeout, 10);
        let micros = u64::try_from(filter_timeout.as_micros()).unwrap_or(u64::MAX);
        let steps = micros.saturating_mul(STEPS_PER_SECOND / 1_000_000);
        let is_limited = takes_filter_timeout(gates) && !filter_timeout.is_zero();
        DynamicResources {
            gates: DeviceGates::of(gates),
            most_steps: is_limited.then_some(steps),
            binding_timeout: seconds(args.binding_timeout, 600),
        }
    }

    fn complete(args: &mut DynamicResourcesArgs, gates: &FeatureGates) {
        if takes_filter_timeout(gates) {
            args.filter_timeout.get_or_insert(GoDuration::from_seconds(10));
        }
        if takes_binding_timeout(gates) {
            args.binding_timeout.get_or_insert(GoDuration::from_seconds(600));
        }
    }

    /// As in validation_pluginargs.go, ValidateDynamicResourcesArgs.
    fn validate(args: &DynamicResourcesArgs, gates: &FeatureGates, faults: &mut ArgsFaults) {
        let filter_field = ArgsField::default().key("filterTimeout");
        match args.filter_timeout {
            Some(_) if !takes_filter_timeout(gates) => {
                faults.forbidden(filter_field, NO_FILTER_TIMEOUT);
            }
            Some(timeout) if timeout.nanoseconds < 0 => {
                faults.invalid_shown(filter_field, timeout, "must be zero or positive");
            }
            _ => {}
        }
        let binding_field = ArgsField::default().key("bindingTimeout");
        match args.binding_timeout {
            Some(_) if !takes_binding_timeout(gates) => {
                faults.forbidden(binding_field, NO_BINDING_TIMEOUT);
            }
            Some(timeout) if timeout < GoDuration::from_seconds(1) => {
                faults.invalid_shown(binding_field, timeout, "must be at least 1 second");
            }
            _ => {}
        }
    }
}

fn takes_filter_timeout(gates: &FeatureGates) -> bool {
    gates.enabled("DRASchedulerFilterTimeout", true)
}

fn takes_binding_timeout(gates: &FeatureGates) -> bool {
    gates.enabled("DRADeviceBindingConditions", true)
        && gates.enabled("DRAResourceClaimDeviceStatus", true)
}

/// What the plugin reads of a pod.
type ClaimingParts = (
    (PodKey, PodUid, SchedulingGroup),
    (ResourceClaims, ClaimStatuses, PodContainers),
    (Requests, ResourcesInput),
);

/// The kinds that the plugin reads. Groups of pods are read only with the gate `DRAWorkloadResourceClaims`.
type ClaimKinds = (DeviceKinds, Objects<PodGroup>);

impl DynamicResources {
    fn whole_of<'a>(
        &self,
        ((key, uid, group), (claims, statuses, containers), (fit, input)): Ref<'a, ClaimingParts>,
    ) -> WholePod<'a> {
        let group = self.group_with_claims(group);
        let claiming = ClaimingPod { key, uid, claims, statuses, group };
        WholePod { claiming, containers, fit, input }
    }
}

/// What the plugin reads of a node.
type NodeParts = ((Name, Labels), (Allocatable, Requested, Pods));

/// Whether a pod may have claims or extended resources for which classes stand.
fn may_claim(claims: &[PodResourceClaim], containers: &[ContainerDevices]) -> bool {
    !claims.is_empty() || containers.iter().any(|container| !container.extended.is_empty())
}

impl PreEnqueue for DynamicResources {
    type Pod = ((PodKey, PodUid, SchedulingGroup), (ResourceClaims, ClaimStatuses));
    type Cluster = ObjectsOf<Objects<ResourceClaim>>;

    fn applies(&self, (_, (claims, _)): Ref<'_, <Self as PreEnqueue>::Pod>) -> bool {
        !claims.is_empty()
    }

    fn pre_enqueue(
        &self,
        ((key, uid, group), (claims, statuses)): Ref<'_, <Self as PreEnqueue>::Pod>,
        objects: &ObjectStores,
    ) -> Gate {
        let group = self.group_with_claims(group);
        match (ClaimingPod { key, uid, claims, statuses, group }).find(objects) {
            Ok(_) => Gate::Open,
            Err(why) => Gate::Closed(Rejection::unresolvable(why)),
        }
    }
}

impl PreFilter for DynamicResources {
    type Pod = ClaimingParts;
    type Node = NodeParts;
    type Cluster = (ObjectsOf<ClaimKinds>, Now);
    type State = PreparedClaims;

    fn applies(&self, (_, (claims, _, containers), _): Ref<'_, ClaimingParts>) -> bool {
        let counts_extended = self.gates.extended_resources;
        may_claim(claims, if counts_extended { containers } else { &[] })
    }

    fn pre_filter(
        &self,
        pod: Ref<'_, ClaimingParts>,
        (objects, now): (&ObjectStores, Time),
    ) -> Result<Option<PreparedClaims>, Rejection> {
        let prepared = self.prepare(self.whole_of(pod), objects, now)?;
        if prepared.are_none() {
            return Ok(None);
        }
        prepared.check(&self.gates)?;
        Ok(Some(prepared))
    }

    fn filter(&self, claims: &PreparedClaims, node: Ref<'_, NodeParts>) -> Verdict {
        match self.points_on(claims, node) {
            Ok(_) => Verdict::Pass,
            Err(why) => Verdict::Fail(why),
        }
    }

    fn may_err(&self, claims: &PreparedClaims) -> bool {
        self.gates.node_allocatable || !claims.cannot_err(self.most_steps)
    }

    fn passes_only_on(&self, claims: &PreparedClaims) -> Option<Vec<Str>> {
        claims.only_nodes()
    }

    /// Claims hold devices, not pods.
    fn update(
        &self,
        _: &mut PreparedClaims,
        _: PodChange<'_>,
        _: Ref<'_, <Self as PreFilter>::Node>,
    ) -> Update {
        Update::Exact
    }
}

/// Only classes matter: claims and slices change far more often.
impl ProvidesResources for DynamicResources {
    type Objects = ObjectsOf<Objects<DeviceClass>>;

    fn resources(&self, objects: &ObjectStores) -> BTreeSet<Str> {
        match self.gates.extended_resources {
            true => self.gates.devices(objects).extended.resources().cloned().collect(),
            false => BTreeSet::new(),
        }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<DynamicResources>()
        .pre_enqueue()
        .pre_filter()
        .post_filter_reading::<ClaimKinds>()
        .after_post_filter()
        .group_remedy()
        .score_with_state()
        .score_on_demand()
        .reserve_and_pre_bind()
        .answered()
        .describe()
        .provides_resources()
        .reads_if::<TaintRules>(|plugin| plugin.gates.taint_rules)
        .reads_if::<Objects<PodGroup>>(|plugin| plugin.gates.group_claims)
        .requeue()
        .metric(&metrics::CREATES)
        .metric(&metrics::CONDITIONS)
        .metric(&metrics::CONDITIONS_WAIT)
        .shows_args()
        .done()
}
