//! The args of plugins in a configuration. Each plugin says which args are valid and what their defaults are;
//! `args_of_version` has what differs between versions of the configuration.

use plimsoll_document::{Document, FieldPath};
use plimsoll_framework::{ArgsFault, ArgsForm};
use serde_json::{Value, json};

use crate::args_of_version::{self, check_kind, refuse_lacking, without_kind};
use crate::catalogue::Catalogue;
use crate::faults::Faults;
use crate::rules::{OTHER_PLUGINS_WITH_ARGS, PLUGINS_WITH_ARGS, Rules};
use crate::version::GROUP_VERSION;

const VOLUME_BINDING: &str = "VolumeBinding";
const SHAPE: &str = "shape";

/// The args of one plugin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Args {
    /// With all defaults, without `apiVersion` and `kind`.
    Complete(Value),
    /// As they are given: the plugin fills in its own defaults.
    Given(Value),
}

impl Args {
    /// The default args of the plugin `name`; none if it has no args that a configuration shows.
    pub(crate) fn default_of(name: &str, rules: &Rules, catalogue: &Catalogue) -> Option<Self> {
        let form = catalogue.args_of(name)?;
        Args::completed(name, &json!({}), form, (rules, catalogue))
    }

    /// The args that `document` holds at `field` for the plugin `name`; none if they cannot be decoded, which is then
    /// in `faults`.
    pub(crate) fn decode(
        document: &Document,
        name: &str,
        field: &FieldPath,
        (rules, catalogue): (&Rules, &Catalogue),
        faults: &mut Faults<'_>,
    ) -> Option<Self> {
        let value = document.get(field).unwrap_or(&Value::Null);
        if rules.args.dropped.contains(&name) {
            check_kind(name, value, field, rules, faults)?;
            return Some(Self::Given(without_kind(value.clone())));
        }
        let Some(form) = catalogue.args_of(name).filter(ArgsForm::is_shown) else {
            return Some(Self::Given(value.clone()));
        };
        if value.is_null() || rules.args.ignores(name) {
            return Self::default_of(name, rules, catalogue);
        }
        if has_kind(name) {
            check_kind(name, value, field, rules, faults)?;
            refuse_lacking(name, value, field, rules, faults)?;
        }
        let decode = |value: &Value| {
            let decoded = form.decode(value).expect("the args are shown");
            decoded.map_err(|ArgsFault { field, message }| (field.as_str().into(), message))
        };
        let (decoded, errors) = document.decode_all_with(field, decode);
        faults.undecoded(errors);
        Self::completed(name, &decoded?, form, (rules, catalogue))
    }

    fn completed(
        name: &str,
        decoded: &Value,
        form: ArgsForm,
        (rules, catalogue): (&Rules, &Catalogue),
    ) -> Option<Self> {
        let mut args = decoded.clone();
        args_of_version::set_defaults(name, &mut args, &rules.args);
        let completed = form.complete(Some(&args), &catalogue.gates)?;
        Some(Self::Complete(completed.expect("what was decoded decodes again")))
    }

    /// The args as a plugin receives them.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Complete(value) | Self::Given(value) => value.clone(),
        }
    }

    /// The args as a configuration file has them: with `apiVersion` and `kind`.
    ///
    /// A default that only newer releases know is left out, so that older ones can read the file; each release fills in
    /// its own.
    pub(crate) fn to_config(&self, name: &str, catalogue: &Catalogue) -> Value {
        let mut value = self.to_value();
        if let (Self::Complete(_), Value::Object(fields)) = (self, &mut value)
            && has_kind(name)
        {
            if name == VOLUME_BINDING {
                let default = Self::default_of(name, &Rules::v1(catalogue), catalogue);
                let shape = default.and_then(|args| args.to_value().get(SHAPE).cloned());
                if fields.get(SHAPE) == shape.as_ref() {
                    fields.remove(SHAPE);
                }
            }
            fields.insert("apiVersion".to_owned(), GROUP_VERSION.into());
            fields.insert("kind".to_owned(), format!("{name}Args").into());
        }
        value
    }

    /// Reports what the plugin `name` does not accept in these args, which are at `field`.
    pub(crate) fn validate(
        &self,
        name: &str,
        field: &FieldPath,
        catalogue: &Catalogue,
        faults: &mut Faults<'_>,
    ) {
        let (Self::Complete(args) | Self::Given(args)) = self;
        let Some(form) = catalogue.args_of(name).filter(|_| !args.is_null()) else { return };
        for ArgsFault { field: within, message } in form.validate(args, &catalogue.gates) {
            faults.report(field.concat(&within.as_str().into()), message);
        }
    }
}

impl Catalogue {
    /// The default args of the plugin `name` in v1; none if it has no args that a configuration shows.
    pub fn default_args(&self, name: &str) -> Option<Value> {
        Args::default_of(name, &Rules::v1(self), self).map(|args| args.to_value())
    }
}

/// Whether the args of the plugin are a kind in the API group of KubeSchedulerConfiguration.
fn has_kind(name: &str) -> bool {
    PLUGINS_WITH_ARGS.contains(&name) || OTHER_PLUGINS_WITH_ARGS.contains(&name)
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::{FeatureGates, Release};

    use super::*;

    fn catalogue() -> Catalogue {
        Catalogue::of(&plimsoll_plugins::in_tree(), &plimsoll_plugins::default_profile())
    }

    fn default_of(name: &str, catalogue: &Catalogue) -> Option<Value> {
        let args = Args::default_of(name, &Rules::v1(catalogue), catalogue);
        args.map(|args| args.to_value())
    }

    #[track_caller]
    fn check(name: &str, expected: Value) {
        assert_eq!(default_of(name, &catalogue()), Some(expected));
    }

    #[test]
    fn every_plugin_with_args_has_the_defaults_of_upstream() {
        let resources = json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]);
        check(
            "DefaultPreemption",
            json!({"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}),
        );
        check("DynamicResources", json!({"filterTimeout": "10s", "bindingTimeout": "10m0s"}));
        check(
            "Coscheduling",
            json!({
                "permitWaitingTimeSeconds": 60, "podGroupBackoffSeconds": 0, "podGroupRejectPercentage": 10,
            }),
        );
        check(
            "InterPodAffinity",
            json!({"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": false}),
        );
        check("NodeAffinity", json!({}));
        check("NodeResourcesBalancedAllocation", json!({"resources": resources}));
        check(
            "NodeResourcesFit",
            json!({"scoringStrategy": {"type": "LeastAllocated", "resources": resources}}),
        );
        check("PodTopologySpread", json!({"defaultingType": "System"}));
        check(
            "VolumeBinding",
            json!({"bindTimeoutSeconds": 600, "shape": [
                {"utilization": 0, "score": 10}, {"utilization": 100, "score": 0},
            ]}),
        );
    }

    #[test]
    fn the_plugins_whose_args_have_a_kind_are_those_whose_args_are_shown() {
        let (registry, catalogue) = (plimsoll_plugins::in_tree(), catalogue());
        for entry in registry.iter() {
            let name = entry.name();
            assert_eq!(entry.args().is_shown(), has_kind(name), "{name}");
            assert_eq!(default_of(name, &catalogue).is_some(), entry.args().is_shown(), "{name}");
        }
    }

    #[test]
    fn gates_add_and_remove_defaults() {
        let gates = FeatureGates::of(Release::V1_36)
            .with("StorageCapacityScoring", true)
            .with("DRASchedulerFilterTimeout", false)
            .with("DRAResourceClaimDeviceStatus", false);
        let catalogue = catalogue().with_gates(gates);
        let shape = json!([{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]);
        assert_eq!(
            default_of("VolumeBinding", &catalogue),
            Some(json!({"bindTimeoutSeconds": 600, "shape": shape}))
        );
        assert_eq!(default_of("DynamicResources", &catalogue), Some(json!({})));
    }
}
