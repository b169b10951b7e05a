//! DynamicResources: devices that pods claim.

use plimsoll_framework::prelude::*;
use serde::{Deserialize, Serialize};

const UNSUPPORTED: &str = "resource claims are not supported yet";
const NOTHING_TO_DEALLOCATE: &str = "no new claims to deallocate";
const NO_STATE: &str = "not found";
const NO_FILTER_TIMEOUT: &str = "DRASchedulingFilterTimeout feature gate is disabled";
const NO_BINDING_TIMEOUT: &str =
    "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled";

/// Rejects pods with resource claims for all nodes, and ignores other pods.
///
/// Claims are not allocated yet, and a pod that is placed without its devices could not start.
///
/// ```yaml
/// spec:
///   resourceClaims: [{name: gpu, resourceClaimName: a100}]
/// ```
///
/// In kube-scheduler the plugin allocates claims. For a pod without claims both are the same: no
/// node is rejected, each gets the score 0, and nothing can be deallocated to make room.
#[derive(Clone, Debug)]
pub struct DynamicResources;

/// The args that kube-scheduler takes. They bound the allocation of claims, and nothing reads them
/// yet.
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
    fn new(_: DynamicResourcesArgs, _: &FeatureGates) -> Self {
        DynamicResources
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

impl Filter for DynamicResources {
    type Pod = ResourceClaims;
    type Node = ();
    fn applies(&self, claims: &[Str]) -> bool {
        !claims.is_empty()
    }
    fn candidates(&self, claims: &[Str]) -> Result<Candidates, Rejection> {
        Err(unsupported(claims))
    }
    fn filter(&self, claims: &[Str], (): ()) -> Verdict {
        Verdict::Fail(unsupported(claims))
    }
}

#[cold]
fn unsupported(claims: &[Str]) -> Rejection {
    Rejection::unresolvable(format!("{UNSUPPORTED}: {}", claims.join(", ")))
}

impl PostFilter for DynamicResources {
    fn without_nodes(&self, _: &PodInfo, has_looked: bool) -> Option<PostFilterAnswer> {
        Some(match has_looked {
            true => PostFilterAnswer::Unschedulable(NOTHING_TO_DEALLOCATE.into()),
            // As in dynamicresources.go, PostFilter: the state that its PreFilter would have created is
            // missing.
            false => PostFilterAnswer::Error(NO_STATE.into()),
        })
    }
    fn post_filter(
        &self,
        pod: &PodInfo,
        _: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> PostFilterAnswer {
        self.without_nodes(pod, dry_run.has_looked(Self::NAME))
            .expect("it answers without a look at nodes")
    }
}

impl Score for DynamicResources {
    type Pod = ();
    type Node = ();
    fn score(&self, (): (), (): ()) -> i64 {
        0
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<DynamicResources>()
        .at(Point::PreEnqueue)
        .at(Point::PreFilter)
        .filter()
        .post_filter()
        .score()
        .at(Point::Reserve)
        .at(Point::PreBind)
        .shows_args()
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_with_claims_is_rejected_for_all_nodes_and_its_claims_are_named() {
        let claims = ["gpu".into(), "nic".into()];
        assert!(Filter::applies(&DynamicResources, &claims));
        let why = DynamicResources.candidates(&claims).expect_err("claims are not supported");
        assert_eq!(why.code, Code::UnschedulableAndUnresolvable);
        assert_eq!(why.to_string(), "resource claims are not supported yet: gpu, nic");
        assert_eq!(DynamicResources.filter(&claims, ()), Verdict::Fail(why));
    }

    #[test]
    fn a_pod_without_claims_gets_the_score_zero_on_every_node() {
        assert!(!Filter::applies(&DynamicResources, &[]));
        assert_eq!(DynamicResources.score((), ()), 0);
    }

    #[test]
    fn there_is_never_a_claim_to_deallocate() {
        let (pod, nodes, stores) =
            (PodInfo::new(Pod::default()), Columns::default(), Stores::default());
        let (view, nominated) = (View { nodes: &nodes, stores: &stores }, NominatedPods::default());
        let answer = |looked: &[&'static str]| {
            let looked = looked.iter().copied().collect();
            let dry_run = DryRun::new(&pod, &[], &looked, &nominated, view);
            DynamicResources.post_filter(&pod, &[], &dry_run)
        };
        let nothing = PostFilterAnswer::Unschedulable("no new claims to deallocate".into());
        assert_eq!(answer(&["DynamicResources"]), nothing);
        // An earlier plugin rejected the pod for all nodes.
        assert_eq!(answer(&[]), PostFilterAnswer::Error("not found".into()));
    }

    #[test]
    fn the_args_of_kube_scheduler_are_taken() {
        let args = r#"{"filterTimeout": "10s", "bindingTimeout": "10m0s"}"#;
        let args = args.parse().expect("this is JSON");
        assert!(entry().make(Some(&args), &FeatureGates::default()).is_ok());
    }
}
