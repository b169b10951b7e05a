//! The priorities of a policy, under the names that it gives them.

use std::collections::BTreeMap;

use plimsoll_api::Str;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::priorities::equal::Equal;
use crate::priorities::even_pods_spread::EvenPodsSpread;
use crate::priorities::node_label::{NodeLabel, Presence};
use crate::priorities::profile::{Args, ArgsError};
use crate::priorities::selector_spread::SelectorSpread;
use crate::priorities::service_anti_affinity::ServiceAntiAffinity;
use crate::priorities::{OldRelease, Weighted};

/// A priority as a policy names it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its name.
    pub name: &'a str,
    /// What its points are multiplied with.
    pub weight: i64,
    /// `argument` as in the policy, for a name that the policy defines.
    pub argument: Option<&'a Value>,
}

/// Priorities and plugins that correspond one to one: the table of legacy_registry.go (1.20).
const PLUGINS: [(&str, &str); 9] = [
    ("BalancedResourceAllocation", "NodeResourcesBalancedAllocation"),
    ("ImageLocalityPriority", "ImageLocality"),
    ("InterPodAffinityPriority", "InterPodAffinity"),
    ("LeastRequestedPriority", "NodeResourcesLeastAllocated"),
    ("MostRequestedPriority", "NodeResourcesMostAllocated"),
    ("NodeAffinityPriority", "NodeAffinity"),
    ("NodePreferAvoidPodsPriority", "NodePreferAvoidPods"),
    ("ResourceLimitsPriority", "NodeResourceLimits"),
    ("TaintTolerationPriority", "TaintToleration"),
];

/// The priorities of a policy, in its order, as `release` has them. `args` are those of plugins by
/// name, for settings outside the entries: `hardPodAffinityWeight` of InterPodAffinity.
///
/// It is an error if no priority has the name of an entry, or if its argument is not valid.
pub fn of_policy<'a>(
    entries: impl IntoIterator<Item = Entry<'a>>,
    args: &BTreeMap<String, Value>,
    release: OldRelease,
) -> Result<Vec<Weighted>, ArgsError> {
    entries.into_iter().map(|entry| entry.priority(args, release)).collect()
}

impl Entry<'_> {
    fn priority(
        &self,
        args: &BTreeMap<String, Value>,
        release: OldRelease,
    ) -> Result<Weighted, ArgsError> {
        let Entry { name, weight, argument } = *self;
        if let Some(argument) = argument {
            return self.by_argument(argument, release);
        }
        Ok(match name {
            "EqualPriority" => Weighted::new(name, weight, Equal),
            "EvenPodsSpreadPriority" => Weighted::new(name, weight, EvenPodsSpread),
            "SelectorSpreadPriority" => {
                Weighted::new(name, weight, SelectorSpread::by_all(release))
            }
            // Old documentation uses this name for serviceAntiAffinity; without an argument there is no
            // label to spread over.
            "ServiceSpreadingPriority" | "CalculateAntiAffinityPriority" => {
                Weighted::new(name, weight, SelectorSpread::by_services(release))
            }
            // As in requested_to_capacity_ratio.go of 1.12.
            "RequestedToCapacityRatioPriority" => {
                let shape =
                    json!([{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]);
                self.by_ratio(&json!({"shape": shape}), release)?
            }
            _ => {
                let plugin = PLUGINS.iter().find(|(priority, _)| *priority == name);
                let (_, plugin) = plugin.ok_or_else(|| self.error("there is none of this name"))?;
                self.of_plugin(&Args { plugin, given: args.get(*plugin), release })?
            }
        })
    }

    fn by_argument(&self, argument: &Value, release: OldRelease) -> Result<Weighted, ArgsError> {
        let argument =
            Argument::deserialize(argument).map_err(|error| self.error(&error.to_string()))?;
        let Entry { name, weight, .. } = *self;
        if let Some(Label { label, .. }) = argument.service_anti_affinity {
            return Ok(Weighted::new(name, weight, ServiceAntiAffinity::of(label, release)));
        }
        if let Some(Label { label, presence }) = argument.label_preference {
            let presence = if presence { Presence::Present } else { Presence::Absent };
            return Ok(Weighted::new(name, weight, NodeLabel { label, presence }));
        }
        self.by_ratio(&argument.requested_to_capacity_ratio_arguments, release)
    }

    fn by_ratio(&self, args: &Value, release: OldRelease) -> Result<Weighted, ArgsError> {
        self.of_plugin(&Args { plugin: "RequestedToCapacityRatio", given: Some(args), release })
    }

    /// The only priority that corresponds to a plugin, under the name of the entry.
    fn of_plugin(&self, args: &Args<'_>) -> Result<Weighted, ArgsError> {
        let priorities = args.priorities(self.weight)?.unwrap_or_default();
        let priority = priorities.into_iter().next();
        let priority = priority.ok_or_else(|| self.error("no plugin does its work"))?;
        Ok(Weighted { name: self.name.to_owned(), ..priority })
    }

    fn error(&self, message: &str) -> ArgsError {
        ArgsError { plugin: self.name.to_owned(), message: message.to_owned() }
    }
}

/// Exactly one of them is set.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Argument {
    service_anti_affinity: Option<Label>,
    label_preference: Option<Label>,
    requested_to_capacity_ratio_arguments: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Label {
    label: Str,
    presence: bool,
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// A list of priorities as in a policy.
    fn check(policy: &Value, args: &Value, expected: &Expect) {
        let args = args.as_object().expect("args are by plugin").clone().into_iter().collect();
        let list = policy.as_array().expect("priorities are a list").iter();
        let entries = list.map(|entry| Entry {
            name: entry["name"].as_str().unwrap_or_default(),
            weight: entry["weight"].as_i64().unwrap_or_default(),
            argument: entry.get("argument"),
        });
        expected.assert_eq(&match of_policy(entries, &args, OldRelease::Described) {
            Ok(priorities) => {
                let line =
                    |one: &Weighted| format!("{}={} {:?}\n", one.name, one.weight, one.priority);
                priorities.iter().map(line).collect()
            }
            Err(error) => format!("{error}\n"),
        });
    }

    #[test]
    fn every_name_is_its_priority() {
        let names = PLUGINS.iter().map(|(name, _)| *name);
        let others = [
            "EqualPriority",
            "EvenPodsSpreadPriority",
            "SelectorSpreadPriority",
            "ServiceSpreadingPriority",
            "CalculateAntiAffinityPriority",
            "RequestedToCapacityRatioPriority",
        ];
        let entries = names.chain(others).map(|name| json!({"name": name, "weight": 2}));
        check(
            &entries.collect(),
            &json!({"InterPodAffinity": {"hardPodAffinityWeight": 7}}),
            &expect![[r#"
                BalancedResourceAllocation=2 BalancedResourceAllocation(Described)
                ImageLocalityPriority=2 ImageLocality(Described)
                InterPodAffinityPriority=2 InterPodAffinity { hard_weight: 7 }
                LeastRequestedPriority=2 LeastRequested
                MostRequestedPriority=2 MostRequested
                NodeAffinityPriority=2 NodeAffinity
                NodePreferAvoidPodsPriority=2 NodePreferAvoidPods
                ResourceLimitsPriority=2 ResourceLimits
                TaintTolerationPriority=2 TaintToleration(Whole)
                EqualPriority=2 Equal
                EvenPodsSpreadPriority=2 EvenPodsSpread
                SelectorSpreadPriority=2 SelectorSpread { by: All, release: Described }
                ServiceSpreadingPriority=2 SelectorSpread { by: Services, release: Described }
                CalculateAntiAffinityPriority=2 SelectorSpread { by: Services, release: Described }
                RequestedToCapacityRatioPriority=2 RequestedToCapacityRatio { shape: [ShapePoint { utilization: 0, score: 10 }, ShapePoint { utilization: 100, score: 0 }], resources: [("cpu", 1), ("memory", 1)] }
            "#]],
        );
    }

    #[test]
    fn a_priority_with_an_argument_keeps_the_name_that_it_was_given() {
        check(
            &json!([
                {"name": "RackSpread", "weight": 3, "argument": {"serviceAntiAffinity": {"label": "rack"}}},
                {"name": "LikesSsd", "weight": 4, "argument": {"labelPreference": {"label": "ssd", "presence": true}}},
                {"name": "DislikesOld", "weight": 4, "argument": {"labelPreference": {"label": "old"}}},
                {"name": "PackGpus", "weight": 2, "argument": {"requestedToCapacityRatioArguments": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
                    "resources": [{"name": "nvidia.com/gpu", "weight": 5}, {"name": "cpu"}]}}},
            ]),
            &json!({}),
            &expect![[r#"
                RackSpread=3 ServiceAntiAffinity { label: "rack", among: Feasible }
                LikesSsd=4 NodeLabel { label: "ssd", presence: Present }
                DislikesOld=4 NodeLabel { label: "old", presence: Absent }
                PackGpus=2 RequestedToCapacityRatio { shape: [ShapePoint { utilization: 0, score: 0 }, ShapePoint { utilization: 100, score: 10 }], resources: [("nvidia.com/gpu", 5), ("cpu", 1)] }
            "#]],
        );
    }

    #[test]
    fn what_makes_no_priority_is_an_error() {
        check(
            &json!([{"name": "Own", "weight": 1}]),
            &json!({}),
            &expect![[r#"
            the args of Own do not make a priority: there is none of this name
        "#]],
        );
        let empty = json!([{"name": "Own", "weight": 1, "argument": {}}]);
        check(
            &empty,
            &json!({}),
            &expect![[r#"
            the args of RequestedToCapacityRatio do not make a priority: its shape has no points
        "#]],
        );
    }
}
