//! The args of the plugins that have some: types and defaults.
//!
//! As in staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go and
//! pkg/scheduler/apis/config/v1/defaults.go.

use plimsoll_document::{Document, FieldPath};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::affinity::NodeAffinity;
use crate::args_of_version::{check_kind, refuse_lacking, without_kind};
use crate::catalogue::Gates;
use crate::duration::GoDuration;
use crate::faults::Faults;
use crate::rules::{ArgsRules, PLUGINS_WITH_ARGS, Rules, Spreading};
use crate::version::GROUP_VERSION;

/// The args of one plugin, defaulted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Args {
    DefaultPreemption(DefaultPreemptionArgs),
    DynamicResources(DynamicResourcesArgs),
    InterPodAffinity(InterPodAffinityArgs),
    NodeAffinity(NodeAffinityArgs),
    NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs),
    NodeResourcesFit(NodeResourcesFitArgs),
    PodTopologySpread(PodTopologySpreadArgs),
    VolumeBinding(VolumeBindingArgs),
    /// Of another plugin, which knows their form itself.
    Other(Value),
}

impl Args {
    /// The default args of the plugin `name`; none if it has no args.
    pub(crate) fn default_of(name: &str, rules: &Rules, gates: Gates) -> Option<Self> {
        let args = match name {
            "DefaultPreemption" => Self::DefaultPreemption(DefaultPreemptionArgs::default()),
            "DynamicResources" => Self::DynamicResources(DynamicResourcesArgs::default()),
            "InterPodAffinity" => Self::InterPodAffinity(InterPodAffinityArgs::default()),
            "NodeAffinity" => Self::NodeAffinity(NodeAffinityArgs::default()),
            "NodeResourcesBalancedAllocation" => {
                Self::NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs::default())
            }
            "NodeResourcesFit" => Self::NodeResourcesFit(NodeResourcesFitArgs::default()),
            "PodTopologySpread" => Self::PodTopologySpread(PodTopologySpreadArgs::default()),
            "VolumeBinding" => Self::VolumeBinding(VolumeBindingArgs::default()),
            _ => return None,
        };
        Some(args.defaulted(&rules.args, gates))
    }

    /// The args that `document` holds at `field` for the plugin `name`, defaulted; none if they
    /// cannot be decoded, which `faults` then knows.
    pub(crate) fn decode(
        document: &Document,
        name: &str,
        field: &FieldPath,
        (rules, gates): (&Rules, Gates),
        faults: &mut Faults<'_>,
    ) -> Option<Self> {
        let value = document.get(field).unwrap_or(&Value::Null);
        if rules.args.dropped.contains(&name) {
            check_kind(name, value, field, rules, faults)?;
            return Some(Self::Other(without_kind(value.clone())));
        }
        if !PLUGINS_WITH_ARGS.contains(&name) {
            return Some(Self::Other(value.clone()));
        }
        if value.is_null() || rules.args.ignores(name) {
            return Self::default_of(name, rules, gates);
        }
        check_kind(name, value, field, rules, faults)?;
        refuse_lacking(name, value, field, rules, faults)?;
        let mut typed = Decoding { document, field, faults };
        let args = match name {
            "DefaultPreemption" => Self::DefaultPreemption(typed.decode()?),
            "DynamicResources" => Self::DynamicResources(typed.decode()?),
            "InterPodAffinity" => Self::InterPodAffinity(typed.decode()?),
            "NodeAffinity" => Self::NodeAffinity(typed.decode()?),
            "NodeResourcesBalancedAllocation" => {
                Self::NodeResourcesBalancedAllocation(typed.decode()?)
            }
            "NodeResourcesFit" => Self::NodeResourcesFit(typed.decode()?),
            "PodTopologySpread" => Self::PodTopologySpread(typed.decode()?),
            _ => Self::VolumeBinding(typed.decode()?),
        };
        Some(args.defaulted(&rules.args, gates))
    }

    /// The args as a plugin receives them: without `apiVersion` and `kind`.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = match self {
            Self::DefaultPreemption(args) => serde_json::to_value(args),
            Self::DynamicResources(args) => serde_json::to_value(args),
            Self::InterPodAffinity(args) => serde_json::to_value(args),
            Self::NodeAffinity(args) => serde_json::to_value(args),
            Self::NodeResourcesBalancedAllocation(args) => serde_json::to_value(args),
            Self::NodeResourcesFit(args) => serde_json::to_value(args),
            Self::PodTopologySpread(args) => serde_json::to_value(args),
            Self::VolumeBinding(args) => serde_json::to_value(args),
            Self::Other(value) => Ok(value.clone()),
        }
        .expect("args are plain data");
        if !matches!(self, Self::Other(_)) {
            value = without_kind(value);
        }
        value
    }

    /// The args as a configuration holds them: with `apiVersion` and `kind`.
    ///
    /// A default that only newer releases know is left out, so that the older can read the file: every release
    /// puts in its own.
    pub(crate) fn to_config(&self, name: &str) -> Value {
        let mut value = match self {
            Self::VolumeBinding(args) if args.shape == Some(default_shape()) => {
                Self::VolumeBinding(VolumeBindingArgs { shape: None, ..args.clone() }).to_value()
            }
            _ => self.to_value(),
        };
        if let Value::Object(fields) = &mut value
            && !matches!(self, Self::Other(_))
        {
            fields.insert("apiVersion".to_owned(), GROUP_VERSION.into());
            fields.insert("kind".to_owned(), format!("{name}Args").into());
        }
        value
    }

    fn defaulted(mut self, rules: &ArgsRules, gates: Gates) -> Self {
        match &mut self {
            Self::DefaultPreemption(args) => {
                args.min_candidate_nodes_percentage.get_or_insert(10);
                args.min_candidate_nodes_absolute.get_or_insert(100);
            }
            Self::DynamicResources(args) => args.set_defaults(gates),
            Self::InterPodAffinity(args) => {
                args.hard_pod_affinity_weight.get_or_insert(1);
            }
            Self::NodeResourcesBalancedAllocation(args) => default_resources(&mut args.resources),
            Self::NodeResourcesFit(args) => {
                args.reject_overcommitted_nodes |= rules.rejects_overcommitted_nodes;
                let strategy = args.scoring_strategy.get_or_insert_with(|| ScoringStrategy {
                    kind: "LeastAllocated".to_owned(),
                    ..ScoringStrategy::default()
                });
                default_resources(&mut strategy.resources);
            }
            Self::PodTopologySpread(args) => {
                let is_given = !args.default_constraints.is_empty();
                if args.defaulting_type.is_empty() {
                    let default = match rules.spreading {
                        Spreading::System => "System",
                        Spreading::ListIfGiven if !is_given => "System",
                        Spreading::ListIfGiven | Spreading::List => "List",
                    };
                    default.clone_into(&mut args.defaulting_type);
                }
            }
            Self::VolumeBinding(args) => args.set_defaults(gates),
            Self::NodeAffinity(_) | Self::Other(_) => {}
        }
        self
    }
}

struct Decoding<'d, 'f, 'e> {
    document: &'d Document,
    field: &'d FieldPath,
    faults: &'f mut Faults<'e>,
}

impl Decoding<'_, '_, '_> {
    fn decode<T: DeserializeOwned>(&mut self) -> Option<T> {
        let (args, errors) = self.document.decode_all(self.field);
        self.faults.undecoded(errors);
        args
    }
}

// What `api_version` and `kind` say is checked before decoding; they are fields to be no errors.

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct DefaultPreemptionArgs {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_candidate_nodes_percentage: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_candidate_nodes_absolute: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct DynamicResourcesArgs {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) filter_timeout: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) binding_timeout: Option<GoDuration>,
}

impl DynamicResourcesArgs {
    fn set_defaults(&mut self, gates: Gates) {
        if gates.dra_scheduler_filter_timeout {
            self.filter_timeout.get_or_insert(GoDuration::from_seconds(10));
        }
        if gates.dra_device_binding_conditions && gates.dra_resource_claim_device_status {
            self.binding_timeout.get_or_insert(GoDuration::from_seconds(600));
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct InterPodAffinityArgs {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hard_pod_affinity_weight: Option<i32>,
    pub(crate) ignore_preferred_terms_of_existing_pods: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct NodeAffinityArgs {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) added_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct NodeResourcesBalancedAllocationArgs {
    api_version: String,
    kind: String,
    pub(crate) resources: Vec<ResourceSpec>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct NodeResourcesFitArgs {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ignored_resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ignored_resource_groups: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scoring_strategy: Option<ScoringStrategy>,
    /// Not of upstream: what its plugin did up to 1.22 without being asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reject_overcommitted_nodes: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct ScoringStrategy {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) resources: Vec<ResourceSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requested_to_capacity_ratio: Option<RequestedToCapacityRatio>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct RequestedToCapacityRatio {
    pub(crate) shape: Vec<ShapePoint>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct ShapePoint {
    pub(crate) utilization: i32,
    pub(crate) score: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct ResourceSpec {
    pub(crate) name: String,
    pub(crate) weight: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct PodTopologySpreadArgs {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) default_constraints: Vec<SpreadConstraint>,
    pub(crate) defaulting_type: String,
}

/// A topology spread constraint; what a default one may not have is only kept to be refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct SpreadConstraint {
    pub(crate) max_skew: i32,
    pub(crate) topology_key: String,
    pub(crate) when_unsatisfiable: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label_selector: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_domains: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_affinity_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_taints_policy: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_label_keys: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(crate) struct VolumeBindingArgs {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bind_timeout_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shape: Option<Vec<ShapePoint>>,
}

impl VolumeBindingArgs {
    fn set_defaults(&mut self, gates: Gates) {
        self.bind_timeout_seconds.get_or_insert(600);
        if gates.storage_capacity_scoring && self.shape.as_ref().is_none_or(Vec::is_empty) {
            self.shape = Some(default_shape());
        }
    }
}

/// The more storage is left the better.
fn default_shape() -> Vec<ShapePoint> {
    let points = [(0, 10), (100, 0)];
    points.map(|(utilization, score)| ShapePoint { utilization, score }).to_vec()
}

/// CPU and memory alike if none are named; a weight of 0 is 1.
fn default_resources(resources: &mut Vec<ResourceSpec>) {
    if resources.is_empty() {
        let spec = |name: &str| ResourceSpec { name: name.to_owned(), weight: 1 };
        resources.extend([spec("cpu"), spec("memory")]);
    }
    for resource in resources {
        if resource.weight == 0 {
            resource.weight = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalogue::Catalogue;

    fn v1() -> Rules {
        Rules::v1(&Catalogue::default())
    }

    fn check(name: &str, expected: &Value) {
        let args = Args::default_of(name, &v1(), Gates::default()).expect("the plugin has args");
        assert_eq!(args.to_value(), *expected);
    }

    #[test]
    fn every_plugin_with_args_has_the_defaults_of_upstream() {
        let resources = json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]);
        check(
            "DefaultPreemption",
            &json!({"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}),
        );
        check("DynamicResources", &json!({"filterTimeout": "10s", "bindingTimeout": "10m0s"}));
        check(
            "InterPodAffinity",
            &json!({"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": false}),
        );
        check("NodeAffinity", &json!({}));
        check("NodeResourcesBalancedAllocation", &json!({"resources": resources}));
        check(
            "NodeResourcesFit",
            &json!({"scoringStrategy": {"type": "LeastAllocated", "resources": resources}}),
        );
        check("PodTopologySpread", &json!({"defaultingType": "System"}));
        check(
            "VolumeBinding",
            &json!({"bindTimeoutSeconds": 600, "shape": [
                {"utilization": 0, "score": 10}, {"utilization": 100, "score": 0},
            ]}),
        );
    }

    #[test]
    fn every_plugin_of_the_list_has_default_args() {
        for name in PLUGINS_WITH_ARGS {
            assert!(Args::default_of(name, &v1(), Gates::default()).is_some(), "{name}");
        }
        assert!(Args::default_of("NodeName", &v1(), Gates::default()).is_none());
    }

    #[test]
    fn gates_add_and_remove_defaults() {
        let gates = Gates {
            storage_capacity_scoring: true,
            dra_scheduler_filter_timeout: false,
            dra_resource_claim_device_status: false,
            ..Gates::default()
        };
        let value = |name| Args::default_of(name, &v1(), gates).map(|args| args.to_value());
        let shape = json!([{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]);
        assert_eq!(
            value("VolumeBinding"),
            Some(json!({"bindTimeoutSeconds": 600, "shape": shape}))
        );
        assert_eq!(value("DynamicResources"), Some(json!({})));
    }
}
