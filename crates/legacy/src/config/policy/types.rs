//! The fields of a Policy.
//!
//! As in staging/src/k8s.io/kube-scheduler/config/v1/types.go of release 1.20.

use std::fmt;

use plimsoll_config::{Extender, ExtenderTlsConfig, ManagedResource};
use plimsoll_document::{Document, FieldPath};
use plimsoll_framework::GoDuration;
use plimsoll_framework::args::shape::UtilizationShapePoint;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct Policy {
    // Checked before decoding. Without these fields they would be unknown, which is an error.
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    /// The default ones if absent.
    pub(super) predicates: Option<Vec<PredicatePolicy>>,
    /// The default ones if absent.
    pub(super) priorities: Option<Vec<PriorityPolicy>>,
    pub(super) extenders: Vec<LegacyExtender>,
    /// 0 means not given.
    pub(super) hard_pod_affinity_symmetric_weight: i32,
    pub(super) always_check_all_predicates: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct PredicatePolicy {
    pub(super) name: String,
    pub(super) argument: Option<PredicateArgument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct PriorityPolicy {
    pub(super) name: String,
    pub(super) weight: i64,
    pub(super) argument: Option<PriorityArgument>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct PredicateArgument {
    pub(super) service_affinity: Option<ServiceAffinity>,
    pub(super) labels_presence: Option<LabelsPresence>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct ServiceAffinity {
    pub(super) labels: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct LabelsPresence {
    pub(super) labels: Vec<String>,
    pub(super) presence: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct PriorityArgument {
    pub(super) service_anti_affinity: Option<ServiceAntiAffinity>,
    pub(super) label_preference: Option<LabelPreference>,
    pub(super) requested_to_capacity_ratio_arguments: Option<CapacityRatio>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct ServiceAntiAffinity {
    pub(super) label: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct LabelPreference {
    pub(super) label: String,
    pub(super) presence: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct CapacityRatio {
    pub(super) shape: Vec<UtilizationShapePoint>,
    pub(super) resources: Vec<ResourceSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct ResourceSpec {
    pub(super) name: String,
    pub(super) weight: i64,
}

/// An extender. `enableHttps` and `httpTimeout` are written differently than in later versions.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct LegacyExtender {
    url_prefix: String,
    filter_verb: String,
    preempt_verb: String,
    prioritize_verb: String,
    weight: i64,
    bind_verb: String,
    enable_https: bool,
    tls_config: Option<ExtenderTlsConfig>,
    http_timeout: Nanoseconds,
    node_cache_capable: bool,
    managed_resources: Vec<ManagedResource>,
    ignorable: bool,
}

impl From<LegacyExtender> for Extender {
    fn from(old: LegacyExtender) -> Self {
        Extender {
            url_prefix: old.url_prefix,
            filter_verb: old.filter_verb,
            preempt_verb: old.preempt_verb,
            prioritize_verb: old.prioritize_verb,
            weight: old.weight,
            bind_verb: old.bind_verb,
            enable_https: old.enable_https,
            tls_config: old.tls_config,
            http_timeout: GoDuration { nanoseconds: old.http_timeout.0 },
            node_cache_capable: old.node_cache_capable,
            managed_resources: old.managed_resources,
            ignorable: old.ignorable,
        }
    }
}

/// Go's `time.Duration`, which is a number in JSON.
#[derive(Debug, Default)]
struct Nanoseconds(i64);

impl<'de> Deserialize<'de> for Nanoseconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Nanoseconds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of nanoseconds, such as 5000000000 for 5s")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Nanoseconds, E> {
                Ok(Nanoseconds(value))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Nanoseconds, E> {
                let error = |_| E::custom("is longer than 292 years");
                i64::try_from(value).map(Nanoseconds).map_err(error)
            }
        }
        deserializer.deserialize_i64(Number)
    }
}

/// The fields of an object.
enum Shape {
    /// The value is not inspected.
    Leaf,
    List(&'static Shape),
    Object(&'static [(&'static str, Shape)]),
    /// An object whose unknown fields have no effect.
    Lenient(&'static [(&'static str, Shape)]),
}

use Shape::{Leaf, Lenient, List, Object};

const POLICY: Shape = Object(&[
    ("apiVersion", Leaf),
    ("kind", Leaf),
    ("predicates", List(&Object(&[("name", Leaf), ("argument", PREDICATE_ARGUMENT)]))),
    (
        "priorities",
        List(&Object(&[("name", Leaf), ("weight", Leaf), ("argument", PRIORITY_ARGUMENT)])),
    ),
    ("extenders", List(&EXTENDER)),
    ("hardPodAffinitySymmetricWeight", Leaf),
    ("alwaysCheckAllPredicates", Leaf),
]);

const PREDICATE_ARGUMENT: Shape = Object(&[
    ("serviceAffinity", Object(&[("labels", Leaf)])),
    ("labelsPresence", Object(&[("labels", Leaf), ("presence", Leaf)])),
]);

const PRIORITY_ARGUMENT: Shape = Object(&[
    ("serviceAntiAffinity", Object(&[("label", Leaf)])),
    ("labelPreference", Object(&[("label", Leaf), ("presence", Leaf)])),
    (
        "requestedToCapacityRatioArguments",
        Object(&[
            ("shape", List(&Object(&[("utilization", Leaf), ("score", Leaf)]))),
            ("resources", List(&Object(&[("name", Leaf), ("weight", Leaf)]))),
        ]),
    ),
]);

/// As in types.go, LegacyExtender.UnmarshalJSON, which uses the standard library and so ignores unknown fields.
const EXTENDER: Shape = Lenient(&[
    ("urlPrefix", Leaf),
    ("filterVerb", Leaf),
    ("preemptVerb", Leaf),
    ("prioritizeVerb", Leaf),
    ("weight", Leaf),
    ("bindVerb", Leaf),
    ("enableHttps", Leaf),
    (
        "tlsConfig",
        Lenient(&[
            ("insecure", Leaf),
            ("serverName", Leaf),
            ("certFile", Leaf),
            ("keyFile", Leaf),
            ("caFile", Leaf),
            ("certData", Leaf),
            ("keyData", Leaf),
            ("caData", Leaf),
        ]),
    ),
    ("httpTimeout", Leaf),
    ("nodeCacheCapable", Leaf),
    ("managedResources", List(&Lenient(&[("name", Leaf), ("ignoredByScheduler", Leaf)]))),
    ("ignorable", Leaf),
]);

/// The document with today's spelling of all field names, and the fields of extenders that have no effect, which are
/// removed.
///
/// Before 1.11 field names were not case-sensitive, and 1.7 itself wrote `BindVerb`.
pub(super) fn with_names_of_today(document: &Document) -> (Document, Vec<FieldPath>) {
    let mut document = document.clone();
    let mut without_effect = Vec::new();
    rename(&mut document.value, &POLICY, &FieldPath::root(), &mut without_effect);
    (document, without_effect)
}

fn rename(value: &mut Value, shape: &Shape, at: &FieldPath, without_effect: &mut Vec<FieldPath>) {
    let (fields, is_lenient) = match shape {
        Leaf => return,
        List(element) => {
            for (index, value) in value.as_array_mut().into_iter().flatten().enumerate() {
                rename(value, element, &at.index(index), without_effect);
            }
            return;
        }
        Object(fields) => (fields, false),
        Lenient(fields) => (fields, true),
    };
    let Some(object) = value.as_object_mut() else { return };
    let written: Vec<String> = object.keys().cloned().collect();
    for name in written {
        let known = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name));
        match known {
            None if is_lenient => {
                object.remove(&name);
                without_effect.push(at.key(&name));
            }
            Some((known, _)) if *known != name && !object.contains_key(*known) => {
                let value = object.remove(&name).unwrap_or_default();
                object.insert((*known).to_owned(), value);
            }
            _ => {}
        }
    }
    for (name, shape) in *fields {
        if let Some(value) = object.get_mut(*name) {
            rename(value, shape, &at.key(*name), without_effect);
        }
    }
}
