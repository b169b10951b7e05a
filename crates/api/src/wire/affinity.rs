//! Node affinity, affinity between pods, and topology spread on the wire.

use serde::Deserialize;

use super::error::{Result, WireError, Within, each};
use super::primitive::{List, given};
use super::selector::{LabelKeys, LabelSelector, NodeTerm, optional};
use crate::{
    AffinityTerm, Labels, NodeSelectorTerm, PodAffinity, PreferredNodes, Selector,
    SpreadConstraint, Str, WeightedTerm, WhenUnsatisfiable,
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// `spec.affinity`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Affinity {
    #[serde(rename = "nodeAffinity")]
    nodes: Option<NodeAffinity>,
    #[serde(rename = "podAffinity")]
    near: Option<BetweenPods>,
    #[serde(rename = "podAntiAffinity")]
    far: Option<BetweenPods>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: List<PreferredNode>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelector {
    node_selector_terms: List<NodeTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PreferredNode {
    weight: Option<i32>,
    preference: Option<NodeTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BetweenPods {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: List<Term>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: List<PreferredTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PreferredTerm {
    weight: Option<i32>,
    pod_affinity_term: Option<Term>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Term {
    label_selector: Option<LabelSelector>,
    namespaces: List<Str>,
    namespace_selector: Option<LabelSelector>,
    topology_key: Option<Str>,
    match_label_keys: List<Str>,
    mismatch_label_keys: List<Str>,
}

/// An item of `spec.topologySpreadConstraints`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spread {
    max_skew: Option<i32>,
    topology_key: Option<Str>,
    when_unsatisfiable: Option<Str>,
    label_selector: Option<LabelSelector>,
    min_domains: Option<i32>,
    node_affinity_policy: Option<Str>,
    node_taints_policy: Option<Str>,
    match_label_keys: List<Str>,
}

/// `spec.affinity`, converted.
#[derive(Debug, Default)]
pub(super) struct TakenAffinity {
    pub(super) node_terms: Option<Vec<NodeSelectorTerm>>,
    pub(super) preferred_nodes: PreferredNodes,
    pub(super) pods: PodAffinity,
}

/// The pod that terms and constraints belong to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    pub(super) namespace: &'a Str,
    pub(super) labels: &'a Labels,
}

impl Affinity {
    pub(super) fn take(self, owner: Owner<'_>) -> Result<TakenAffinity> {
        let nodes = self.nodes.unwrap_or_default().take();
        let near = self.near.unwrap_or_default().take(owner);
        let far = self.far.unwrap_or_default().take(owner);
        let (node_terms, preferred_nodes) = nodes.within("nodeAffinity")?;
        let (required, preferred) = near.within("podAffinity")?;
        let (required_anti, preferred_anti) = far.within("podAntiAffinity")?;
        let pods = PodAffinity { required, preferred, required_anti, preferred_anti };
        Ok(TakenAffinity { node_terms, preferred_nodes, pods })
    }
}

impl NodeAffinity {
    fn take(self) -> Result<(Option<Vec<NodeSelectorTerm>>, PreferredNodes)> {
        let required = self.required.map(|selector| {
            each("nodeSelectorTerms", selector.node_selector_terms, NodeTerm::take).within(REQUIRED)
        });
        let preferred = each(PREFERRED, self.preferred, |preferred| {
            let weight = weight(preferred.weight)?;
            let term = preferred.preference.unwrap_or_default().take().within("preference")?;
            Ok((weight, term))
        })?;
        Ok((required.transpose()?, PreferredNodes(preferred)))
    }
}

impl BetweenPods {
    fn take(self, owner: Owner<'_>) -> Result<(Vec<AffinityTerm>, Vec<WeightedTerm>)> {
        let required = each(REQUIRED, self.required, |term| term.take(owner))?;
        let preferred = each(PREFERRED, self.preferred, |preferred| {
            let weight = weight(preferred.weight)?;
            let term = preferred.pod_affinity_term.unwrap_or_default();
            Ok(WeightedTerm { weight, term: term.take(owner).within("podAffinityTerm")? })
        })?;
        Ok((required, preferred))
    }
}

impl Term {
    fn take(self, owner: Owner<'_>) -> Result<AffinityTerm> {
        let keys =
            LabelKeys { matching: self.match_label_keys, mismatching: self.mismatch_label_keys };
        let mut namespaces = self.namespaces.0;
        if namespaces.is_empty() && self.namespace_selector.is_none() {
            namespaces.push(owner.namespace.clone());
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        Ok(AffinityTerm {
            selector: keys.merged_into(&selector(self.label_selector)?, owner.labels),
            namespaces,
            namespace_selector: optional("namespaceSelector", self.namespace_selector)?,
            topology_key: topology_key(self.topology_key)?,
        })
    }
}

impl Spread {
    /// As in validation.go, validateTopologySpreadConstraints; the defaults as in
    /// podtopologyspread/common.go, filterTopologySpreadConstraints.
    pub(super) fn take(self, owner: Owner<'_>) -> Result<SpreadConstraint> {
        let max_skew = self.max_skew.unwrap_or_default();
        if max_skew < 1 {
            return Err(WireError::invalid("maxSkew", max_skew, "must be greater than zero"));
        }
        let min_domains = self.min_domains.unwrap_or(1);
        if min_domains < 1 {
            return Err(WireError::invalid("minDomains", min_domains, "must be greater than 0"));
        }
        let when = self.when_unsatisfiable.unwrap_or_default();
        let when_unsatisfiable = match when.as_str() {
            "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
            "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
            other => {
                let words = ["DoNotSchedule", "ScheduleAnyway"];
                return Err(WireError::unsupported("whenUnsatisfiable", other, &words));
            }
        };
        let affinity_policy = self.node_affinity_policy.as_deref();
        let taints_policy = self.node_taints_policy.as_deref();
        let keys = LabelKeys { matching: self.match_label_keys, mismatching: List::default() };
        let without = selector(self.label_selector)?;
        let selector = keys.merged_into(&without, owner.labels);
        Ok(SpreadConstraint {
            max_skew,
            topology_key: topology_key(self.topology_key)?,
            when_unsatisfiable,
            without_label_keys: (without != selector).then(|| Box::new(without)),
            selector,
            min_domains,
            honor_node_affinity: honors("nodeAffinityPolicy", affinity_policy, true)?,
            honor_node_taints: honors("nodeTaintsPolicy", taints_policy, false)?,
        })
    }
}

/// An absent selector selects nothing, whatever the label keys.
fn selector(selector: Option<LabelSelector>) -> Result<Selector> {
    selector.map_or(Ok(Selector::Nothing), LabelSelector::take).within("labelSelector")
}

fn topology_key(key: Option<Str>) -> Result<Str> {
    given(key).ok_or_else(|| WireError::required("topologyKey", "can not be empty"))
}

fn weight(weight: Option<i32>) -> Result<i32> {
    match weight.unwrap_or_default() {
        weight @ 1..=100 => Ok(weight),
        weight => Err(WireError::invalid("weight", weight, "must be in the range 1-100")),
    }
}

fn honors(field: &str, policy: Option<&str>, default: bool) -> Result<bool> {
    match policy {
        None => Ok(default),
        Some("Honor") => Ok(true),
        Some("Ignore") => Ok(false),
        Some(other) => Err(WireError::unsupported(field, other, &["Honor", "Ignore"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{join, pods, show_requirements, show_selector, table};

    #[test]
    fn node_affinity_keeps_its_terms_and_checks_its_weights() {
        let required = |terms: &str| {
            format!(
                r#"{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":{terms}}}}}"#
            )
        };
        let preferred = |weight: i32| {
            format!(
                r#"{{"preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":{weight},"preference":{{"matchExpressions":[{{"key":"a","operator":"Exists"}}]}}}}]}}"#
            )
        };
        table(
            NodeAffinity::take,
            &[
                ("{}", "any"),
                (&required("[]"), "one of []"),
                (&required("[{}]"), "one of []"),
                (
                    &required(r#"[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]"#),
                    "one of [a exists]",
                ),
                (
                    &required(
                        r#"[{},{"matchFields":[{"key":"a","operator":"In","values":["b"]}]}]"#,
                    ),
                    r#"requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1].matchFields[0].key: Invalid value: "a": not a valid field selector key"#,
                ),
                (&preferred(7), "any, 7 for a exists"),
                (
                    &preferred(0),
                    "preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
                ),
                (
                    &preferred(101),
                    "preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100",
                ),
            ],
            |(terms, preferred)| {
                let terms = terms.map_or("any".to_owned(), |terms| {
                    let terms = terms.iter().map(|term| show_requirements(&term.labels));
                    format!("one of [{}]", terms.collect::<String>())
                });
                let preferred = preferred.0.iter().map(|(weight, term)| {
                    format!(", {weight} for {}", show_requirements(&term.labels))
                });
                terms + &preferred.collect::<String>()
            },
        );
    }

    #[test]
    fn an_affinity_term_without_namespaces_has_that_of_its_pod() {
        let labels = [("app", "web")].into_iter().collect();
        let owner = Owner { namespace: &"own".into(), labels: &labels };
        table(
            |term: Term| term.take(owner),
            &[
                (r#"{"topologyKey":"zone"}"#, "zone: nothing in [own] or nothing"),
                (
                    r#"{"topologyKey":"zone","namespaces":["b","a","b"],"labelSelector":{}}"#,
                    "zone: everything in [a, b] or nothing",
                ),
                (
                    r#"{"topologyKey":"zone","namespaceSelector":{}}"#,
                    "zone: nothing in [] or everything",
                ),
                (
                    r#"{"topologyKey":"zone","namespaces":["a"],"namespaceSelector":{"matchLabels":{"t":"u"}}}"#,
                    "zone: nothing in [a] or t in [u]",
                ),
                (
                    r#"{"topologyKey":"zone","matchLabelKeys":["app"]}"#,
                    "zone: nothing in [own] or nothing",
                ),
                (
                    r#"{"topologyKey":"zone","labelSelector":{},"mismatchLabelKeys":["app"]}"#,
                    "zone: app not in [web] in [own] or nothing",
                ),
                (r#"{"topologyKey":""}"#, "topologyKey: Required value: can not be empty"),
                (
                    r#"{"topologyKey":"zone","labelSelector":{"matchExpressions":[{"key":"a"}]}}"#,
                    r#"labelSelector.matchExpressions[0].operator: Invalid value: "": not a valid selector operator"#,
                ),
            ],
            |term| {
                format!(
                    "{}: {} in [{}] or {}",
                    term.topology_key,
                    show_selector(&term.selector),
                    join(&term.namespaces),
                    show_selector(&term.namespace_selector),
                )
            },
        );
    }

    #[test]
    fn a_spread_constraint_has_the_defaults_of_the_scheduler() {
        let labels = [("rev", "7")].into_iter().collect();
        let owner = Owner { namespace: &"own".into(), labels: &labels };
        let with = |more: &str| {
            format!(
                r#"{{"maxSkew":2,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"{more}}}"#
            )
        };
        table(
            |constraint: Spread| constraint.take(owner),
            &[
                (&with(""), "2 DoNotSchedule zone nothing 1 true false"),
                (
                    &with(r#","labelSelector":{},"matchLabelKeys":["rev"]"#),
                    "2 DoNotSchedule zone rev in [7] 1 true false",
                ),
                (
                    &with(
                        r#","minDomains":3,"nodeAffinityPolicy":"Ignore","nodeTaintsPolicy":"Honor""#,
                    ),
                    "2 DoNotSchedule zone nothing 3 false true",
                ),
                (
                    &with(r#","minDomains":0"#),
                    "minDomains: Invalid value: 0: must be greater than 0",
                ),
                (
                    &with(r#","nodeTaintsPolicy":"honor""#),
                    r#"nodeTaintsPolicy: Unsupported value: "honor": supported values: "Honor", "Ignore""#,
                ),
                ("{}", "maxSkew: Invalid value: 0: must be greater than zero"),
                (
                    r#"{"maxSkew":1,"topologyKey":"zone"}"#,
                    r#"whenUnsatisfiable: Unsupported value: "": supported values: "DoNotSchedule", "ScheduleAnyway""#,
                ),
                (
                    r#"{"maxSkew":1,"whenUnsatisfiable":"ScheduleAnyway"}"#,
                    "topologyKey: Required value: can not be empty",
                ),
                (r#"{"maxSkew":"1"}"#, r#"maxSkew: invalid type: string "1", expected i32"#),
            ],
            |constraint| {
                format!(
                    "{} {:?} {} {} {} {} {}",
                    constraint.max_skew,
                    constraint.when_unsatisfiable,
                    constraint.topology_key,
                    show_selector(&constraint.selector),
                    constraint.min_domains,
                    constraint.honor_node_affinity,
                    constraint.honor_node_taints,
                )
            },
        );
    }

    #[test]
    fn errors_in_affinity_name_the_path_from_the_pod() {
        pods(
            &[
                (
                    r#""spec":{"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}]}}}"#,
                    "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: Required value: can not be empty",
                ),
                (
                    r#""spec":{"topologySpreadConstraints":[{"maxSkew":-1}]}"#,
                    "spec.topologySpreadConstraints[0].maxSkew: Invalid value: -1: must be greater than zero",
                ),
            ],
            |pod| pod.key.to_string(),
        );
    }
}
