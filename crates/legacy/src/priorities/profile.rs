//! From the score plugins of a profile back to priorities.

use std::collections::BTreeMap;

use plimsoll_api::Str;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::priorities::balanced_resource_allocation::BalancedResourceAllocation;
use crate::priorities::defaults::HARD_WEIGHT;
use crate::priorities::even_pods_spread::EvenPodsSpread;
use crate::priorities::image_locality::ImageLocality;
use crate::priorities::inter_pod_affinity::InterPodAffinity;
use crate::priorities::least_requested::LeastRequested;
use crate::priorities::most_requested::MostRequested;
use crate::priorities::node_affinity::NodeAffinity;
use crate::priorities::node_label::{NodeLabel, Presence};
use crate::priorities::node_prefer_avoid_pods::NodePreferAvoidPods;
use crate::priorities::requested_to_capacity_ratio::{RequestedToCapacityRatio, ShapePoint};
use crate::priorities::resource_limits::ResourceLimits;
use crate::priorities::selector_spread::SelectorSpread;
use crate::priorities::service_anti_affinity::ServiceAntiAffinity;
use crate::priorities::share::Reckoning;
use crate::priorities::taint_toleration::TaintToleration;
use crate::priorities::{OldRelease, Weighted};

/// The priorities that correspond to the score plugins of a profile.
#[derive(Debug, Default)]
pub struct Mapped {
    /// The priorities, in the order of the plugins, with their weights.
    pub priorities: Vec<Weighted>,
    /// The plugins without a corresponding priority.
    pub without: Vec<String>,
}

/// Args that lack what a priority needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the args of {plugin} do not make a priority: {message}")]
pub struct ArgsError {
    /// The plugin, or the priority of a policy.
    pub plugin: String,
    /// What is wrong with its args.
    pub message: String,
}

/// The priorities that correspond to these score plugins: the table of legacy_registry.go (1.20) read
/// backwards. `plugins` are names with weights, `args` their args by name.
///
/// For NodeResourcesFit the priority depends on its `scoringStrategy`. PodTopologySpread becomes
/// EvenPodsSpreadPriority, and with the system default constraints also SelectorSpreadPriority.
/// NodeLabel and ServiceAffinity become one priority for each label, and these share the weight. The
/// priorities rank as in `release`.
pub fn of_plugins<'a>(
    plugins: impl IntoIterator<Item = (&'a str, i64)>,
    args: &BTreeMap<String, Value>,
    release: OldRelease,
) -> Result<Mapped, ArgsError> {
    let mut mapped = Mapped::default();
    for (plugin, weight) in plugins {
        let args = Args { plugin, given: args.get(plugin), release };
        match args.priorities(weight)? {
            Some(priorities) => mapped.priorities.extend(priorities),
            None => mapped.without.push(plugin.to_owned()),
        }
    }
    Ok(mapped)
}

/// The args of one plugin.
pub(crate) struct Args<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) given: Option<&'a Value>,
    pub(crate) release: OldRelease,
}

impl Args<'_> {
    /// The priorities that correspond to the plugin; `None` if there are none.
    pub(crate) fn priorities(&self, weight: i64) -> Result<Option<Vec<Weighted>>, ArgsError> {
        let least = || Weighted::new("LeastRequestedPriority", weight, LeastRequested);
        let most = || Weighted::new("MostRequestedPriority", weight, MostRequested);
        let spread = || {
            let priority = SelectorSpread::by_all(self.release);
            Weighted::new("SelectorSpreadPriority", weight, priority)
        };
        Ok(Some(match self.plugin {
            "NodeResourcesFit" => {
                let strategy = self.read::<FitArgs>()?.scoring_strategy;
                match strategy.kind.as_str() {
                    "MostAllocated" => vec![most()],
                    "RequestedToCapacityRatio" => {
                        let shape = strategy.requested_to_capacity_ratio.unwrap_or_default().shape;
                        vec![self.by_ratio(weight, shape, &strategy.resources)?]
                    }
                    _ => vec![least()],
                }
            }
            "NodeResourcesLeastAllocated" => vec![least()],
            "NodeResourcesMostAllocated" => vec![most()],
            "RequestedToCapacityRatio" => {
                let RatioArgs { shape, resources } = self.read()?;
                vec![self.by_ratio(weight, shape, &resources)?]
            }
            "NodeResourcesBalancedAllocation" => vec![Weighted::new(
                "BalancedResourceAllocation",
                weight,
                BalancedResourceAllocation(self.release),
            )],
            "SelectorSpread" => vec![spread()],
            "PodTopologySpread" => {
                let even = Weighted::new("EvenPodsSpreadPriority", weight, EvenPodsSpread);
                match self.read::<SpreadArgs>()?.defaulting_type.as_deref() {
                    Some("List") => vec![even],
                    _ => vec![spread(), even],
                }
            }
            "InterPodAffinity" => {
                let hard_weight = self.read::<AffinityArgs>()?.hard_pod_affinity_weight;
                let hard_weight = hard_weight.unwrap_or(HARD_WEIGHT);
                let priority = InterPodAffinity { hard_weight };
                vec![Weighted::new("InterPodAffinityPriority", weight, priority)]
            }
            "NodePreferAvoidPods" => {
                vec![Weighted::new("NodePreferAvoidPodsPriority", weight, NodePreferAvoidPods)]
            }
            "NodeResourceLimits" => {
                vec![Weighted::new("ResourceLimitsPriority", weight, ResourceLimits)]
            }
            "NodeAffinity" => vec![Weighted::new("NodeAffinityPriority", weight, NodeAffinity)],
            "TaintToleration" => {
                let priority = TaintToleration(Reckoning::of(self.release));
                vec![Weighted::new("TaintTolerationPriority", weight, priority)]
            }
            "ImageLocality" => {
                vec![Weighted::new("ImageLocalityPriority", weight, ImageLocality(self.release))]
            }
            "NodeLabel" => self.read::<NodeLabelArgs>()?.priorities(weight),
            "ServiceAffinity" => {
                self.read::<ServiceAffinityArgs>()?.priorities(weight, self.release)
            }
            _ => return Ok(None),
        }))
    }

    /// RequestedToCapacityRatioPriority.
    fn by_ratio(
        &self,
        weight: i64,
        shape: Vec<WirePoint>,
        resources: &[WireResource],
    ) -> Result<Weighted, ArgsError> {
        if shape.is_empty() {
            return Err(self.error("its shape has no points"));
        }
        let priority = RequestedToCapacityRatio {
            shape: shape
                .into_iter()
                .map(|point| ShapePoint { utilization: point.utilization, score: point.score })
                .collect(),
            resources: match resources {
                [] => vec![("cpu".into(), 1), ("memory".into(), 1)],
                // As in plugins.go of 1.16, a weight of 0 counts as not given.
                all => all.iter().map(|one| (one.name.clone(), one.weight.max(1))).collect(),
            },
        };
        Ok(Weighted::new("RequestedToCapacityRatioPriority", weight, priority))
    }

    fn read<T: DeserializeOwned + Default>(&self) -> Result<T, ArgsError> {
        match self.given {
            None | Some(Value::Null) => Ok(T::default()),
            Some(args) => T::deserialize(args).map_err(|error| self.error(&error.to_string())),
        }
    }

    fn error(&self, message: &str) -> ArgsError {
        ArgsError { plugin: self.plugin.to_owned(), message: message.to_owned() }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FitArgs {
    scoring_strategy: Strategy,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Strategy {
    #[serde(rename = "type")]
    kind: String,
    resources: Vec<WireResource>,
    requested_to_capacity_ratio: Option<ShapeArgs>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ShapeArgs {
    shape: Vec<WirePoint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RatioArgs {
    shape: Vec<WirePoint>,
    resources: Vec<WireResource>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct WirePoint {
    utilization: i64,
    score: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireResource {
    name: Str,
    weight: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpreadArgs {
    defaulting_type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AffinityArgs {
    hard_pod_affinity_weight: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeLabelArgs {
    present_labels_preference: Vec<Str>,
    absent_labels_preference: Vec<Str>,
}

impl NodeLabelArgs {
    fn priorities(self, weight: i64) -> Vec<Weighted> {
        let present = self.present_labels_preference.into_iter();
        let absent = self.absent_labels_preference.into_iter();
        let wanted: Vec<NodeLabel> = present
            .map(|label| NodeLabel { label, presence: Presence::Present })
            .chain(absent.map(|label| NodeLabel { label, presence: Presence::Absent }))
            .collect();
        let weight = shared(weight, wanted.len());
        let named = |one: NodeLabel| {
            let not = if one.presence == Presence::Present { "" } else { "!" };
            Weighted::new(format!("NodeLabelPriority({not}{})", one.label), weight, one)
        };
        wanted.into_iter().map(named).collect()
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ServiceAffinityArgs {
    anti_affinity_labels_preference: Vec<Str>,
}

impl ServiceAffinityArgs {
    fn priorities(self, weight: i64, release: OldRelease) -> Vec<Weighted> {
        let labels = self.anti_affinity_labels_preference;
        let weight = shared(weight, labels.len());
        let named = |label: Str| {
            let name = format!("ServiceAntiAffinityPriority({label})");
            Weighted::new(name, weight, ServiceAntiAffinity::of(label, release))
        };
        labels.into_iter().map(named).collect()
    }
}

/// The share of each of `n` priorities in a common weight.
fn shared(weight: i64, n: usize) -> i64 {
    let n = i64::try_from(n).unwrap_or(i64::MAX).max(1);
    (weight / n).max(1)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(plugins: &[(&str, i64)], args: &Value, expected: &Expect) {
        let args = args.as_object().expect("args are by plugin").clone().into_iter().collect();
        let told = match of_plugins(plugins.iter().copied(), &args, OldRelease::Described) {
            Ok(Mapped { priorities, without }) => {
                let lines = priorities
                    .iter()
                    .map(|one| format!("{}={} {:?}\n", one.name, one.weight, one.priority));
                lines.chain(without.iter().map(|name| format!("without {name}\n"))).collect()
            }
            Err(error) => format!("{error}\n"),
        };
        expected.assert_eq(&told);
    }

    #[test]
    fn plugins_are_called_by_their_old_names_and_keep_their_weights() {
        check(
            &[
                ("TaintToleration", 3),
                ("NodeAffinity", 2),
                ("NodeResourcesFit", 1),
                ("VolumeBinding", 1),
                ("PodTopologySpread", 2),
                ("InterPodAffinity", 2),
                ("NodeResourcesBalancedAllocation", 1),
                ("ImageLocality", 1),
            ],
            &json!({"InterPodAffinity": {"hardPodAffinityWeight": 5}}),
            &expect![[r#"
                TaintTolerationPriority=3 TaintToleration(Whole)
                NodeAffinityPriority=2 NodeAffinity
                LeastRequestedPriority=1 LeastRequested
                SelectorSpreadPriority=2 SelectorSpread { by: All, release: Described }
                EvenPodsSpreadPriority=2 EvenPodsSpread
                InterPodAffinityPriority=2 InterPodAffinity { hard_weight: 5 }
                BalancedResourceAllocation=1 BalancedResourceAllocation(Described)
                ImageLocalityPriority=1 ImageLocality(Described)
                without VolumeBinding
            "#]],
        );
    }

    #[test]
    fn the_strategy_of_fit_makes_the_priority() {
        check(
            &[("NodeResourcesFit", 4)],
            &json!({"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}}),
            &expect![[r#"
                MostRequestedPriority=4 MostRequested
            "#]],
        );
        check(
            &[("NodeResourcesFit", 4)],
            &json!({"NodeResourcesFit": {"scoringStrategy": {
                "type": "RequestedToCapacityRatio", "resources": [{"name": "cpu", "weight": 2}],
                "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 10}]}}}}),
            &expect![[r#"
                RequestedToCapacityRatioPriority=4 RequestedToCapacityRatio { shape: [ShapePoint { utilization: 0, score: 10 }], resources: [("cpu", 2)] }
            "#]],
        );
    }

    #[test]
    fn spreading_by_a_list_was_never_by_selectors() {
        check(
            &[("PodTopologySpread", 2)],
            &json!({"PodTopologySpread": {"defaultingType": "List"}}),
            &expect![[r#"
                EvenPodsSpreadPriority=2 EvenPodsSpread
            "#]],
        );
    }

    #[test]
    fn the_plugins_of_policies_have_a_priority_for_each_of_their_arguments() {
        check(
            &[
                ("NodeLabel", 6),
                ("ServiceAffinity", 4),
                ("RequestedToCapacityRatio", 2),
                ("SelectorSpread", 1),
                ("NodePreferAvoidPods", 10_000),
                ("NodeResourceLimits", 1),
                ("NodeResourcesLeastAllocated", 1),
                ("NodeResourcesMostAllocated", 1),
            ],
            &json!({
                "NodeLabel": {"presentLabels": ["zone"], "presentLabelsPreference": ["ssd", "gpu"],
                              "absentLabelsPreference": ["retiring"]},
                "ServiceAffinity": {"affinityLabels": ["region"],
                                    "antiAffinityLabelsPreference": ["rack", "row"]},
                "RequestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0},
                                                       {"utilization": 100, "score": 10}]},
            }),
            &expect![[r#"
                NodeLabelPriority(ssd)=2 NodeLabel { label: "ssd", presence: Present }
                NodeLabelPriority(gpu)=2 NodeLabel { label: "gpu", presence: Present }
                NodeLabelPriority(!retiring)=2 NodeLabel { label: "retiring", presence: Absent }
                ServiceAntiAffinityPriority(rack)=2 ServiceAntiAffinity { label: "rack", among: Feasible }
                ServiceAntiAffinityPriority(row)=2 ServiceAntiAffinity { label: "row", among: Feasible }
                RequestedToCapacityRatioPriority=2 RequestedToCapacityRatio { shape: [ShapePoint { utilization: 0, score: 0 }, ShapePoint { utilization: 100, score: 10 }], resources: [("cpu", 1), ("memory", 1)] }
                SelectorSpreadPriority=1 SelectorSpread { by: All, release: Described }
                NodePreferAvoidPodsPriority=10000 NodePreferAvoidPods
                ResourceLimitsPriority=1 ResourceLimits
                LeastRequestedPriority=1 LeastRequested
                MostRequestedPriority=1 MostRequested
            "#]],
        );
    }

    #[test]
    fn args_that_say_nothing_of_the_priority_are_refused() {
        check(
            &[("RequestedToCapacityRatio", 1)],
            &json!({}),
            &expect![[r#"
            the args of RequestedToCapacityRatio do not make a priority: its shape has no points
        "#]],
        );
        check(
            &[("NodeLabel", 1)],
            &json!({"NodeLabel": {"presentLabelsPreference": "ssd"}}),
            &expect![[r#"
                the args of NodeLabel do not make a priority: invalid type: string "ssd", expected a sequence
            "#]],
        );
    }
}
