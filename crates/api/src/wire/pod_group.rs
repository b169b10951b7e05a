//! Groups of pods, and groups of groups, on the wire.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::devices::{WirePodClaim, WirePodClaimStatus, group_claims};
use super::error::{Result, WireError, Within};
use super::meta::{Meta, Metadata};
use super::pod::preemption_policy;
use super::primitive::{List, given};
use super::{Manifest, Wire};
use crate::devices::{PodClaimStatus, PodResourceClaim};
use crate::pod_group::{
    CompositePodGroup, DisruptionMode, GroupCondition, GroupPolicy, PREFERRED_TOPOLOGY, PodGroup,
};
use crate::{Kind, ObjectKey, PreemptionPolicy, Str};

/// The types of the condition: up to 1.36, and since.
const CONDITIONS: [&str; 2] = ["PodGroupScheduled", "PodGroupInitiallyScheduled"];

/// scheduling.k8s.io PodGroup of v1alpha2, v1alpha3 and v1beta1.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WirePodGroup {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    scheduling_policy: Option<Policy>,
    scheduling_constraints: Option<Constraints>,
    disruption_mode: Option<Disruption>,
    priority: Option<i32>,
    preemption_policy: Option<Str>,
    parent_composite_pod_group_name: Option<Str>,
    resource_claims: List<WirePodClaim>,
}

/// scheduling.k8s.io CompositePodGroup of v1alpha3. Its spec has the fields of a PodGroup, with another count.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireCompositePodGroup {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Policy {
    basic: Option<IgnoredAny>,
    gang: Option<Gang>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Gang {
    min_count: Option<i64>,
    min_group_count: Option<i64>,
}

/// What a gang counts.
#[derive(Clone, Copy, Debug)]
enum Counted {
    Pods,
    Groups,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Constraints {
    topology: List<Topology>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Topology {
    key: Option<Str>,
}

/// A name in v1alpha2, and a union since.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Disruption {
    Named(Str),
    Union(DisruptionUnion),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DisruptionUnion {
    all: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    conditions: List<Condition>,
    resource_claim_statuses: List<WirePodClaimStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    r#type: Option<Str>,
    status: Option<Str>,
    reason: Option<Str>,
    message: Option<String>,
}

impl Policy {
    /// As in validation.go of the API group: exactly one policy, and its count is positive.
    fn take(self, counted: Counted) -> Result<GroupPolicy> {
        let count = |gang: Gang| {
            let (field, given) = match counted {
                Counted::Pods => ("gang.minCount", gang.min_count),
                Counted::Groups => ("gang.minGroupCount", gang.min_group_count),
            };
            let given = given.unwrap_or_default();
            let count = u32::try_from(given).ok().filter(|n| 0 < *n);
            count.ok_or_else(|| {
                WireError::invalid(field, given, "must be greater than or equal to 1")
            })
        };
        match (self.basic, self.gang) {
            (Some(_), None) => Ok(GroupPolicy::Basic),
            (None, Some(gang)) => Ok(GroupPolicy::Gang { min_count: count(gang)? }),
            (None, None) => Err(WireError::required("", "must specify one of: `basic`, `gang`")),
            (Some(_), Some(_)) => {
                Err(WireError::forbidden("", "specify only one of: `basic`, `gang`"))
            }
        }
    }
}

impl Disruption {
    fn take(self) -> Result<DisruptionMode> {
        match self {
            Disruption::Named(name) => match name.as_str() {
                "" | "Pod" => Ok(DisruptionMode::Single),
                "PodGroup" => Ok(DisruptionMode::All),
                other => Err(WireError::unsupported("", other, &["Pod", "PodGroup"])),
            },
            Disruption::Union(DisruptionUnion { all: Some(_) }) => Ok(DisruptionMode::All),
            Disruption::Union(_) => Ok(DisruptionMode::Single),
        }
    }
}

/// What the specs of both kinds have in common.
struct Common {
    policy: GroupPolicy,
    topology: Option<Vec<Str>>,
    disruption: DisruptionMode,
    priority: i32,
    preemption_policy: PreemptionPolicy,
    parent: Option<Str>,
    resource_claims: Vec<PodResourceClaim>,
}

impl Spec {
    fn take(self, counted: Counted) -> Result<Common> {
        let policy = self.scheduling_policy.unwrap_or_default().take(counted);
        let disruption = self
            .disruption_mode
            .map_or(Ok(DisruptionMode::default()), |mode| mode.take().within("disruptionMode"));
        Ok(Common {
            policy: policy.within("schedulingPolicy").within("spec")?,
            topology: self.scheduling_constraints.map(|constraints| {
                constraints.topology.into_iter().filter_map(|one| given(one.key)).collect()
            }),
            disruption: disruption.within("spec")?,
            priority: self.priority.unwrap_or_default(),
            preemption_policy: preemption_policy(self.preemption_policy.as_deref())
                .within("spec")?,
            parent: given(self.parent_composite_pod_group_name),
            resource_claims: group_claims(self.resource_claims).within("spec")?,
        })
    }
}

impl Wire for WirePodGroup {
    type Value = PodGroup;

    fn take(self) -> Result<PodGroup> {
        let meta = Meta::take(self.metadata)?;
        let spec = self.spec.unwrap_or_default().take(Counted::Pods)?;
        let status = self.status.unwrap_or_default();
        let statuses = status.resource_claim_statuses.into_iter();
        let claim_statuses: Vec<PodClaimStatus> = statuses.map(WirePodClaimStatus::take).collect();
        let mut conditions = status.conditions.into_iter();
        let condition = conditions.find(|condition| {
            condition.r#type.as_ref().is_some_and(|name| CONDITIONS.contains(&name.as_str()))
        });
        Ok(PodGroup {
            key: meta.key(),
            uid: meta.uid,
            generation: meta.generation,
            policy: spec.policy,
            topology: spec.topology,
            preferred_topology: meta.annotations.get(PREFERRED_TOPOLOGY).cloned(),
            disruption: spec.disruption,
            priority: spec.priority,
            preemption_policy: spec.preemption_policy,
            parent: spec.parent,
            created: meta.created,
            resource_claims: spec.resource_claims,
            claim_statuses,
            condition: condition.map(|condition| GroupCondition {
                is_true: condition.status.as_deref() == Some("True"),
                reason: condition.reason.unwrap_or_default(),
                message: condition.message.unwrap_or_default(),
            }),
        })
    }
}

impl Wire for WireCompositePodGroup {
    type Value = CompositePodGroup;

    fn take(self) -> Result<CompositePodGroup> {
        let meta = Meta::take(self.metadata)?;
        let Common { policy, topology, disruption, priority, preemption_policy, parent, .. } =
            self.spec.unwrap_or_default().take(Counted::Groups)?;
        Ok(CompositePodGroup {
            key: meta.key(),
            uid: meta.uid,
            generation: meta.generation,
            policy,
            topology,
            preferred_topology: meta.annotations.get(PREFERRED_TOPOLOGY).cloned(),
            disruption,
            priority,
            preemption_policy,
            parent,
            created: meta.created,
        })
    }
}

impl Kind for CompositePodGroup {
    const NAME: &'static str = "CompositePodGroup";
    const PLURAL: &'static str = "compositepodgroups";
    const VERSIONS: &'static [&'static str] = &["scheduling.k8s.io/v1alpha3"];
    const WITHOUT: Option<&'static str> =
        Some("pods of groups wait whose group is part of a composite one");

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireCompositePodGroup>()?.take()
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
    /// The name of the group that it is part of.
    fn index(&self) -> Option<&str> {
        self.parent.as_deref()
    }
}

impl Kind for PodGroup {
    const NAME: &'static str = "PodGroup";
    const PLURAL: &'static str = "podgroups";
    const VERSIONS: &'static [&'static str] =
        &["scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1alpha2"];
    const WITHOUT: Option<&'static str> = Some("pods of groups wait for their groups");

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WirePodGroup>()?.take()
    }
    /// In v1alpha2 the disruption mode is a name, and the template is referred to in another form.
    fn convert(mut manifest: Value, api_version: &str) -> Value {
        if api_version != "scheduling.k8s.io/v1alpha2" {
            return manifest;
        }
        let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) else {
            return manifest;
        };
        if let Some(mode) = spec.remove("disruptionMode") {
            let key = if mode == "PodGroup" { "all" } else { "single" };
            spec.insert("disruptionMode".to_owned(), serde_json::json!({ key: {} }));
        }
        if let Some(reference) = spec.remove("podGroupTemplateRef")
            && let Some(workload) = reference.get("workload")
        {
            let reference = serde_json::json!({
                "workloadName": workload["workloadName"],
                "templateName": workload["podGroupTemplateName"],
            });
            spec.insert("workloadRef".to_owned(), reference);
        }
        manifest
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
    /// The name of the group that it is part of.
    fn index(&self) -> Option<&str> {
        self.parent.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(spec: &Value) -> Result<PodGroup> {
        let wire = json!({"metadata": {"name": "train", "uid": "u"}, "spec": spec});
        serde_json::from_value::<WirePodGroup>(wire).expect("it has the form").take()
    }

    #[test]
    fn both_forms_of_the_disruption_mode_are_read() {
        let mode = |mode: Value| {
            let spec = json!({"schedulingPolicy": {"basic": {}}, "disruptionMode": mode});
            read(&spec).map(|group| group.disruption)
        };
        for all in [json!("PodGroup"), json!({"all": {}})] {
            assert_eq!(mode(all), Ok(DisruptionMode::All));
        }
        for single in [json!("Pod"), json!({"single": {}}), Value::Null] {
            assert_eq!(mode(single), Ok(DisruptionMode::Single));
        }
        let error = mode(json!("Both")).expect_err("there is no such mode").to_string();
        assert_eq!(
            error,
            r#"spec.disruptionMode: Unsupported value: "Both": supported values: "Pod", "PodGroup""#
        );
    }

    #[test]
    fn a_group_has_exactly_one_policy() {
        let policy = |policy: Value| read(&json!({"schedulingPolicy": policy}));
        let gang = policy(json!({"gang": {"minCount": 3}})).expect("it is right");
        assert_eq!(gang.min_count(), Some(3));
        for (wrong, text) in [
            (
                json!({}),
                "spec.schedulingPolicy: Required value: must specify one of: `basic`, `gang`",
            ),
            (
                json!({"basic": {}, "gang": {"minCount": 1}}),
                "spec.schedulingPolicy: Forbidden: specify only one of: `basic`, `gang`",
            ),
            (
                json!({"gang": {"minCount": 0}}),
                "spec.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1",
            ),
        ] {
            assert_eq!(policy(wrong).expect_err(text).to_string(), text);
        }
    }

    #[test]
    fn a_group_has_claims_that_its_pods_share() {
        let claims = |claims: Value| {
            read(&json!({"schedulingPolicy": {"basic": {}}, "resourceClaims": claims}))
        };
        let group = claims(json!([
            {"name": "gpus", "resourceClaimName": "eight"},
            {"name": "fabric", "resourceClaimTemplateName": "net"},
        ]));
        let group = group.expect("it is right");
        let show = |one: &PodResourceClaim| format!("{}={:?}", one.name, one.source);
        let shown: Vec<String> = group.resource_claims.iter().map(show).collect();
        assert_eq!(shown, [r#"gpus=Claim("eight")"#, r#"fabric=Template("net")"#]);
        let same = &group.resource_claims[0];
        let renamed = PodResourceClaim { name: "gpu".into(), ..same.clone() };
        assert!(group.shares(same) && !group.shares(&renamed));
        let claim = |name: &str| json!({"name": name, "resourceClaimName": "c"});
        for (wrong, text) in [
            (
                json!([claim("a"), claim("b"), claim("c"), claim("d"), claim("e")]),
                "spec.resourceClaims: Too many: 5: must have at most 4 items",
            ),
            (
                json!([claim("a"), claim("a")]),
                r#"spec.resourceClaims[1]: Duplicate value: "a": it must occur once"#,
            ),
            (
                json!([{"resourceClaimName": "c"}]),
                "spec.resourceClaims[0].name: Required value: pods claim it by this name",
            ),
            (
                json!([claim("a"), {"name": "b"}]),
                "spec.resourceClaims[1]: Required value: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            (
                json!([{"name": "b", "resourceClaimName": "c", "resourceClaimTemplateName": "t"}]),
                "spec.resourceClaims[0]: Forbidden: specify only one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
        ] {
            assert_eq!(claims(wrong).expect_err(text).to_string(), text);
        }
    }

    #[test]
    fn every_version_has_the_claims_and_says_which_were_made() {
        for version in PodGroup::VERSIONS {
            let manifest = json!({
                "apiVersion": version, "kind": "PodGroup", "metadata": {"name": "train"},
                "spec": {
                    "schedulingPolicy": {"gang": {"minCount": 4}},
                    "resourceClaims": [{"name": "fabric", "resourceClaimTemplateName": "net"}],
                },
                "status": {"resourceClaimStatuses": [
                    {"name": "fabric", "resourceClaimName": "train-fabric-x7"}, {"name": "unneeded"},
                ]},
            });
            let text = PodGroup::convert(manifest, version).to_string();
            let wire: WirePodGroup = serde_json::from_str(&text).expect("it has the form");
            let group = wire.take().expect("it is right");
            assert_eq!(group.resource_claims.len(), 1, "{version}");
            let said = |one: &PodClaimStatus| (one.name.to_string(), one.claim.clone());
            let said: Vec<_> = group.claim_statuses.iter().map(said).collect();
            let made = ("fabric".to_owned(), Some("train-fabric-x7".into()));
            assert_eq!(said, [made, ("unneeded".to_owned(), None)], "{version}");
        }
    }

    #[test]
    fn a_composite_group_counts_groups_and_may_be_part_of_another() {
        let read = |policy: Value| {
            let spec = json!({
                "schedulingPolicy": policy, "disruptionMode": {"all": {}}, "priority": 7,
                "preemptionPolicy": "Never", "parentCompositePodGroupName": "job",
                "schedulingConstraints": {"topology": [{"key": "zone"}]},
            });
            let wire = json!({"metadata": {"name": "workers"}, "spec": spec});
            serde_json::from_value::<WireCompositePodGroup>(wire).expect("it has the form").take()
        };
        let group = read(json!({"gang": {"minGroupCount": 2}})).expect("it is right");
        assert_eq!((group.min_group_count(), group.priority), (Some(2), 7));
        assert_eq!(group.topology_key().map(Str::as_str), Some("zone"));
        assert_eq!(group.disruption, DisruptionMode::All);
        assert_eq!(group.preemption_policy, PreemptionPolicy::Never);
        assert_eq!(group.parent.as_deref(), Some("job"));
        let error = read(json!({"gang": {"minCount": 2}})).expect_err("these are pods");
        assert_eq!(
            error.to_string(),
            "spec.schedulingPolicy.gang.minGroupCount: Invalid value: 0: must be greater than or equal to 1"
        );
    }

    #[test]
    fn preferred_topologies_are_read_as_they_are_written() {
        let metadata = json!({"name": "train", "annotations": {PREFERRED_TOPOLOGY: "rack, block"}});
        let gang = json!({"gang": {"minCount": 2, "minGroupCount": 2}});
        let wire = json!({"metadata": metadata, "spec": {"schedulingPolicy": gang}});
        let group = serde_json::from_value::<WirePodGroup>(wire.clone()).expect("it has the form");
        let group = group.take().expect("it is right");
        assert_eq!(group.preferred_topology.as_deref(), Some("rack, block"));
        let composite =
            serde_json::from_value::<WireCompositePodGroup>(wire).expect("it has the form");
        let composite = composite.take().expect("it is right");
        assert_eq!(composite.preferred_topology.as_deref(), Some("rack, block"));
    }

    #[test]
    fn no_constraints_are_not_the_same_as_empty_ones() {
        let constraints = |more: Value| {
            let mut spec = json!({"schedulingPolicy": {"basic": {}}});
            spec["schedulingConstraints"] = more;
            read(&spec).expect("it is right").topology
        };
        assert_eq!(constraints(Value::Null), None);
        assert_eq!(constraints(json!({})), Some(vec![]));
        let key = json!({"topology": [{"key": "rack"}]});
        assert_eq!(constraints(key), Some(vec!["rack".into()]));
    }
}
