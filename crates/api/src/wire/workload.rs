//! Namespaces, and the objects that select or protect pods, on the wire.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::error::{Result, Within};
use super::meta::{Meta, Metadata};
use super::primitive::Table;
use super::selector::{LabelSelector, optional, plain_selector};
use super::{Manifest, Wire};
use crate::{
    Kind, Labels, Namespace, ObjectKey, PodDisruptionBudget, ReplicaSet, ReplicationController,
    Selector, Service, StatefulSet, Str,
};

/// The consequence if a kind that selects pods is not served.
const NO_SPREAD: &str = "the pods that it selects are not spread";

/// The label with the name of a namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// v1 Namespace.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireNamespace {
    metadata: Option<Metadata>,
}

impl Wire for WireNamespace {
    type Value = Namespace;

    /// As in defaults.go, SetDefaults_Namespace: every namespace has its name as a label.
    fn take(self) -> Result<Namespace> {
        let meta = Meta::take(self.metadata)?;
        let own = (Str::const_new(NAMESPACE_NAME), meta.name.clone());
        let labels = meta.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
        let labels: Labels = labels.chain([own]).collect();
        Ok(Namespace { name: meta.name, labels })
    }
}

/// v1 Service.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireService {
    metadata: Option<Metadata>,
    spec: Option<PlainSpec>,
}

/// v1 ReplicationController.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireReplicationController {
    metadata: Option<Metadata>,
    spec: Option<PlainSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PlainSpec {
    selector: Table<Str>,
    template: Option<Template>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    metadata: Option<TemplateMetadata>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateMetadata {
    labels: Table<Str>,
}

impl Wire for WireService {
    type Value = Service;

    fn take(self) -> Result<Service> {
        let selector = plain_selector(self.spec.unwrap_or_default().selector);
        Ok(Service { key: Meta::take(self.metadata)?.key(), selector })
    }
}

impl Wire for WireReplicationController {
    type Value = ReplicationController;

    /// As in defaults.go, SetDefaults_ReplicationController: without a selector it selects by the
    /// labels of its template.
    fn take(self) -> Result<ReplicationController> {
        let spec = self.spec.unwrap_or_default();
        let template = spec.template.and_then(|template| template.metadata).unwrap_or_default();
        let labels = if spec.selector.0.is_empty() { template.labels } else { spec.selector };
        Ok(ReplicationController {
            key: Meta::take(self.metadata)?.key(),
            selector: plain_selector(labels),
        })
    }
}

/// apps/v1 ReplicaSet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireReplicaSet {
    metadata: Option<Metadata>,
    spec: Option<SetSpec>,
}

/// apps/v1 StatefulSet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireStatefulSet {
    metadata: Option<Metadata>,
    spec: Option<SetSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SetSpec {
    selector: Option<LabelSelector>,
}

impl SetSpec {
    fn take(self) -> Result<Selector> {
        optional("selector", self.selector).within("spec")
    }
}

impl Wire for WireReplicaSet {
    type Value = ReplicaSet;

    fn take(self) -> Result<ReplicaSet> {
        let selector = self.spec.unwrap_or_default().take()?;
        Ok(ReplicaSet { key: Meta::take(self.metadata)?.key(), selector })
    }
}

impl Wire for WireStatefulSet {
    type Value = StatefulSet;

    fn take(self) -> Result<StatefulSet> {
        let selector = self.spec.unwrap_or_default().take()?;
        Ok(StatefulSet { key: Meta::take(self.metadata)?.key(), selector })
    }
}

/// policy/v1 PodDisruptionBudget.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WirePodDisruptionBudget {
    metadata: Option<Metadata>,
    spec: Option<SetSpec>,
    status: Option<BudgetStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BudgetStatus {
    disruptions_allowed: Option<i32>,
    disrupted_pods: Table<IgnoredAny>,
}

impl Wire for WirePodDisruptionBudget {
    type Value = PodDisruptionBudget;

    fn take(self) -> Result<PodDisruptionBudget> {
        let meta = Meta::take(self.metadata)?;
        let status = self.status.unwrap_or_default();
        let mut disrupted_pods: Vec<Str> =
            status.disrupted_pods.0.into_iter().map(|(name, _)| name).collect();
        disrupted_pods.sort_unstable();
        disrupted_pods.dedup();
        Ok(PodDisruptionBudget {
            key: meta.key(),
            selector: self.spec.unwrap_or_default().take()?,
            disruptions_allowed: status.disruptions_allowed.unwrap_or_default(),
            disrupted_pods,
        })
    }
}

impl Kind for Namespace {
    const NAME: &'static str = "Namespace";
    const PLURAL: &'static str = "namespaces";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const NAMESPACED: bool = false;
    const WITHOUT: Option<&'static str> =
        Some("affinity terms with a namespaceSelector select no pods");

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireNamespace>()?.take()
    }
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }
}

impl Kind for Service {
    const NAME: &'static str = "Service";
    const PLURAL: &'static str = "services";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const WITHOUT: Option<&'static str> = Some(NO_SPREAD);

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireService>()?.take()
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
    fn index(&self) -> Option<&str> {
        self.selector.index()
    }
}

impl Kind for ReplicationController {
    const NAME: &'static str = "ReplicationController";
    const PLURAL: &'static str = "replicationcontrollers";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const WITHOUT: Option<&'static str> = Some(NO_SPREAD);

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireReplicationController>()?.take()
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
    fn index(&self) -> Option<&str> {
        self.selector.index()
    }
}

impl Kind for ReplicaSet {
    const NAME: &'static str = "ReplicaSet";
    const PLURAL: &'static str = "replicasets";
    const VERSIONS: &'static [&'static str] = &["apps/v1"];
    const WITHOUT: Option<&'static str> = Some(NO_SPREAD);

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireReplicaSet>()?.take()
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
    fn index(&self) -> Option<&str> {
        self.selector.index()
    }
}

impl Kind for StatefulSet {
    const NAME: &'static str = "StatefulSet";
    const PLURAL: &'static str = "statefulsets";
    const VERSIONS: &'static [&'static str] = &["apps/v1"];
    const WITHOUT: Option<&'static str> = Some(NO_SPREAD);

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireStatefulSet>()?.take()
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
    fn index(&self) -> Option<&str> {
        self.selector.index()
    }
}

impl Kind for PodDisruptionBudget {
    const NAME: &'static str = "PodDisruptionBudget";
    const PLURAL: &'static str = "poddisruptionbudgets";
    const VERSIONS: &'static [&'static str] = &["policy/v1", "policy/v1beta1"];
    const WITHOUT: Option<&'static str> = Some("preemption ignores disruption budgets");
    /// As upstream: a change of a budget makes no room.
    const WAKES_PODS: bool = false;

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        let mut budget = manifest.parse::<WirePodDisruptionBudget>()?.take()?;
        // As in policy/v1beta1/types.go: an empty selector selects no pods in v1beta1, and all pods in v1.
        if manifest.api_version() == "policy/v1beta1" && budget.selector.is_everything() {
            budget.selector = Selector::Nothing;
        }
        Ok(budget)
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Object;
    use crate::wire::testing::{objects, show_selector};

    #[test]
    fn a_namespace_has_its_name_as_a_label() {
        let namespace = |labels: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"a","labels":{labels}}}}}"#
            )
        };
        objects(
            &[
                (&namespace("null"), "a kubernetes.io/metadata.name=a"),
                (
                    &namespace(r#"{"team":"x","kubernetes.io/metadata.name":"other"}"#),
                    "a kubernetes.io/metadata.name=a team=x",
                ),
            ],
            |object| {
                let namespace: &Namespace = object.get().expect("a namespace is expected");
                let labels = namespace.labels.iter().map(|(k, v)| format!(" {k}={v}"));
                format!("{}{}", namespace.name, labels.collect::<String>())
            },
        );
    }

    #[test]
    fn without_a_selector_no_pods_are_selected() {
        let of = |kind: &str, spec: &str| {
            let version = if kind.ends_with("Set") { "apps/v1" } else { "v1" };
            format!(
                r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{{"name":"a","namespace":"b"}},"spec":{spec}}}"#
            )
        };
        objects(
            &[
                (&of("Service", r#"{"selector":{"x":"y"}}"#), "Service b/a x in [y]"),
                (&of("Service", r#"{"selector":{}}"#), "Service b/a nothing"),
                (&of("Service", "null"), "Service b/a nothing"),
                (
                    &of("ReplicationController", r#"{"selector":{"x":"y"}}"#),
                    "ReplicationController b/a x in [y]",
                ),
                (
                    &of(
                        "ReplicationController",
                        r#"{"template":{"metadata":{"labels":{"x":"z"}}}}"#,
                    ),
                    "ReplicationController b/a x in [z]",
                ),
                (
                    &of("ReplicaSet", r#"{"selector":{"matchLabels":{"x":"y"}}}"#),
                    "ReplicaSet b/a x in [y]",
                ),
                (&of("ReplicaSet", r#"{"selector":{}}"#), "ReplicaSet b/a everything"),
                (&of("StatefulSet", "{}"), "StatefulSet b/a nothing"),
                (
                    &of(
                        "StatefulSet",
                        r#"{"selector":{"matchExpressions":[{"key":"x","operator":"In"}]}}"#,
                    ),
                    "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                ),
                (
                    &of("Service", r#"{"selector":{"x":["y"]}}"#),
                    "spec.selector.x: invalid type: sequence, expected a string",
                ),
            ],
            |object| {
                let Object::Other(object) = object else { panic!("not {object:?}") };
                let service = object.get::<Service>().map(|one| &one.selector);
                let controller = object.get::<ReplicationController>().map(|one| &one.selector);
                let replicas = object.get::<ReplicaSet>().map(|one| &one.selector);
                let stateful = object.get::<StatefulSet>().map(|one| &one.selector);
                let selector = service.or(controller).or(replicas).or(stateful);
                let selector = show_selector(selector.expect("a selector is expected"));
                format!("{} {} {selector}", object.kind(), object.key())
            },
        );
    }

    #[test]
    fn a_budget_without_a_status_allows_no_disruption() {
        let at = |version: &str, rest: &str| {
            format!(
                r#"{{"apiVersion":"policy/{version}","kind":"PodDisruptionBudget","metadata":{{"name":"a"}}{rest}}}"#
            )
        };
        let of = |rest: &str| at("v1", rest);
        objects(
            &[
                (&of(""), "default/a nothing 0 []"),
                (
                    &of(
                        r#","spec":{"minAvailable":1,"selector":{}},"status":{"disruptionsAllowed":2,
                        "disruptedPods":{"q":"2026-01-02T03:04:05Z","p":null}}"#,
                    ),
                    r#"default/a everything 2 ["p", "q"]"#,
                ),
                (&at("v1beta1", r#","spec":{"selector":{}}"#), "default/a nothing 0 []"),
                (
                    &at("v1beta1", r#","spec":{"selector":{"matchLabels":{"x":"y"}}}"#),
                    "default/a x in [y] 0 []",
                ),
                (
                    &of(r#","status":{"disruptedPods":[]}"#),
                    "status.disruptedPods: invalid type: sequence, expected an object",
                ),
            ],
            |object| {
                let budget: &PodDisruptionBudget = object.get().expect("a budget is expected");
                format!(
                    "{} {} {} {:?}",
                    budget.key,
                    show_selector(&budget.selector),
                    budget.disruptions_allowed,
                    budget.disrupted_pods,
                )
            },
        );
    }
}
