//! Devices and claims on them (`resource.k8s.io`), on the wire.
//!
//! `v1` and `v1beta2` have the same shape. In `v1beta1` the fields of a device are under `basic`, and those of an exact
//! request are in the request itself. Both shapes are read in any version.

mod claim;
mod class;
mod encode;
mod limits;
mod pod;
mod slice;

use serde::Deserialize;
use serde_json::Value;

pub(super) use self::claim::EXTENDED;
pub(super) use self::pod::{
    WireContainerClaim, WireExtendedClaim, WireNodeAllocatable, WirePodClaim, WirePodClaimStatus,
    container_devices, group_claims, pod_claims, pod_devices,
};
use super::primitive::{List, Table};
use super::selector::NodeTerm;
use crate::devices::{
    DeviceNodeSelector, DeviceNodeTerm, DeviceTaint, DeviceToleration, OpaqueConfig,
    TolerationOperator, WrittenRequirement,
};
use crate::{Quantity, Str};

/// The consequence if a kind that devices need is not served.
const NO_DEVICES: &str = "pods that claim devices stay unschedulable";

/// The versions of the kinds that are stored.
const VERSIONS: &[&str] =
    &["resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"];

/// Whether the fields of an exact request are in the request itself.
fn is_flat(api_version: &str) -> bool {
    api_version.ends_with("/v1beta1")
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireSelector {
    cel: Option<WireCel>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireCel {
    expression: Option<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireOpaque {
    driver: Option<Str>,
    parameters: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireTaint {
    key: Option<Str>,
    value: Option<Str>,
    effect: Option<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireToleration {
    key: Option<Str>,
    operator: Option<Str>,
    value: Option<Str>,
    effect: Option<Str>,
    toleration_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireNodeSelector {
    node_selector_terms: List<WireNodeTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireNodeTerm {
    match_expressions: List<WireRequirement>,
    match_fields: List<WireRequirement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireRequirement {
    key: Option<Str>,
    operator: Option<Str>,
    values: List<Str>,
}

/// The expression of each selector; `None` for a selector of an unknown kind.
fn selectors(selectors: List<WireSelector>) -> Vec<Option<Str>> {
    let expression = |one: WireSelector| Some(one.cel?.expression.unwrap_or_default());
    selectors.into_iter().map(expression).collect()
}

impl WireOpaque {
    fn take(self) -> OpaqueConfig {
        let parameters = match self.parameters {
            Value::Null => String::from("{}"),
            parameters => parameters.to_string(),
        };
        OpaqueConfig {
            driver: self.driver.unwrap_or_default(),
            parameters: parameters.into_boxed_str(),
        }
    }
}

impl WireTaint {
    fn take(self) -> DeviceTaint {
        DeviceTaint {
            key: self.key.unwrap_or_default(),
            value: self.value.unwrap_or_default(),
            effect: self.effect.unwrap_or_default(),
        }
    }
}

impl WireToleration {
    /// As in defaults.go of resource/v1, SetDefaults_DeviceToleration.
    fn take(self) -> DeviceToleration {
        let operator = match self.operator.as_deref() {
            None | Some("" | "Equal") => TolerationOperator::Equal,
            Some("Exists") => TolerationOperator::Exists,
            Some(other) => TolerationOperator::Other(other.into()),
        };
        DeviceToleration {
            key: self.key.unwrap_or_default(),
            operator,
            value: self.value.unwrap_or_default(),
            effect: self.effect.unwrap_or_default(),
            seconds: self.toleration_seconds,
        }
    }
}

impl WireNodeSelector {
    /// The selector. Errors of kube-scheduler's parser are part of the value, as in nodeaffinity.go, NewNodeSelector.
    fn take(self) -> DeviceNodeSelector {
        let requirements = |all: List<WireRequirement>| {
            let all = all.into_iter().map(|one| WrittenRequirement {
                key: one.key.unwrap_or_default(),
                operator: one.operator.unwrap_or_default(),
                values: one.values.0,
            });
            all.collect::<Vec<_>>()
        };
        let terms = self.node_selector_terms.into_iter().map(|term| DeviceNodeTerm {
            expressions: requirements(term.match_expressions),
            fields: requirements(term.match_fields),
        });
        DeviceNodeSelector::of(terms.collect())
    }
}

impl DeviceNodeSelector {
    /// A selector of these terms.
    pub fn of(terms: Vec<DeviceNodeTerm>) -> Self {
        let mut faults: Vec<String> = Vec::new();
        let mut parsed = Vec::new();
        for (index, term) in terms.iter().enumerate() {
            let mut fault = |fault: &dyn std::fmt::Display| {
                let fault = format!("nodeSelectorTerms[{index}].{fault}");
                if !faults.contains(&fault) {
                    faults.push(fault);
                }
            };
            match NodeTerm::new(term).take() {
                Ok(term) => {
                    term.faults.iter().for_each(|one| fault(one));
                    parsed.push(term);
                }
                Err(error) => fault(&error),
            }
        }
        let parsed = match faults.as_slice() {
            [] => Ok(parsed),
            [one] => Err(one.into()),
            several => Err(format!("[{}]", several.join(", ")).into()),
        };
        DeviceNodeSelector::new(terms, parsed)
    }
}

/// Quantities, sorted by name. Of two with the same name the later one counts.
fn amounts(table: Table<Quantity>) -> Vec<(Str, Quantity)> {
    sorted(table.0.into_iter())
}

/// Entries of a map, sorted by name. Of two with the same name the later one counts.
fn sorted<V>(entries: impl Iterator<Item = (Str, V)>) -> Vec<(Str, V)> {
    let mut entries: Vec<(Str, V)> = entries.collect();
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    entries.reverse();
    entries.dedup_by(|(one, _), (other, _)| one == other);
    entries.reverse();
    entries
}
