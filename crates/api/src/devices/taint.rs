//! Taints of devices, and tolerations of requests.

use serde::{Deserialize, Serialize};

use crate::Str;

/// A taint of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceTaint {
    /// Its key.
    pub key: Str,
    /// Its value; often empty.
    pub value: Str,
    /// Its effect: `NoSchedule`, `NoExecute`, `None`, or a word of a later release.
    pub effect: Str,
}

impl DeviceTaint {
    /// Whether it keeps a device from requests that do not tolerate it. Effects that are not known do not.
    pub fn prevents_allocation(&self) -> bool {
        matches!(self.effect.as_str(), "NoSchedule" | "NoExecute")
    }
}

/// How the value of a toleration is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// The values must be equal. This is the default.
    #[default]
    Equal,
    /// Any value is tolerated.
    Exists,
    /// A word of a later release: nothing is tolerated.
    Other(Str),
}

impl TolerationOperator {
    /// The word Kubernetes uses for it.
    pub fn as_str(&self) -> &str {
        match self {
            TolerationOperator::Equal => "Equal",
            TolerationOperator::Exists => "Exists",
            TolerationOperator::Other(word) => word,
        }
    }
}

/// A toleration of a request for devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceToleration {
    /// The key that it tolerates; empty for any.
    pub key: Str,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// The value that it tolerates.
    pub value: Str,
    /// The effect that it tolerates; empty for any.
    pub effect: Str,
    /// For how many seconds a taint with effect `NoExecute` is tolerated; `None` for ever.
    pub seconds: Option<i64>,
}

impl DeviceToleration {
    /// Whether it tolerates `taint`. As in resourceclaim/devicetoleration.go, ToleratesTaint: an empty key with the
    /// operator `Equal` compares the values only.
    pub fn tolerates(&self, taint: &DeviceTaint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator {
                TolerationOperator::Equal => self.value == taint.value,
                TolerationOperator::Exists => true,
                TolerationOperator::Other(_) => false,
            }
    }
}

/// resource.k8s.io DeviceTaintRule: a taint that an administrator adds to devices. It is read only if the feature gate
/// `DRADeviceTaintRules` is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTaintRule {
    /// Its name, unique in the cluster.
    pub name: Str,
    /// The driver of the devices; `None` for any.
    pub driver: Option<Str>,
    /// Their pool; `None` for any.
    pub pool: Option<Str>,
    /// Their name; `None` for any.
    pub device: Option<Str>,
    /// The taint they get.
    pub taint: DeviceTaint,
}

impl DeviceTaintRule {
    /// Whether a device gets the taint. As in resourceslice/tracker.
    pub fn applies_to(&self, driver: &str, pool: &str, device: &str) -> bool {
        let is = |wanted: &Option<Str>, name: &str| wanted.as_ref().is_none_or(|one| one == name);
        is(&self.driver, driver) && is(&self.pool, pool) && is(&self.device, device)
    }
}

#[cfg(test)]
mod tests {
    use super::TolerationOperator::{Equal, Exists, Other};
    use super::*;

    #[test]
    fn a_toleration_tolerates_what_upstream_says() {
        let taint = DeviceTaint { key: "k".into(), value: "v".into(), effect: "NoExecute".into() };
        let tolerates = |key: &str, operator, value: &str, effect: &str| {
            let toleration = DeviceToleration {
                key: key.into(),
                operator,
                value: value.into(),
                effect: effect.into(),
                seconds: None,
            };
            toleration.tolerates(&taint)
        };
        for (key, operator, value, effect, expected) in [
            ("k", Equal, "v", "", true),
            ("k", Equal, "v", "NoExecute", true),
            ("k", Equal, "v", "NoSchedule", false),
            ("k", Equal, "w", "", false),
            ("j", Equal, "v", "", false),
            ("", Equal, "v", "", true),
            ("", Equal, "", "", false),
            ("", Exists, "", "", true),
            ("k", Exists, "w", "", true),
            ("j", Exists, "", "", false),
            ("k", Other("Near".into()), "v", "", false),
        ] {
            let text = format!("{key} {operator:?} {value} {effect}");
            assert_eq!(tolerates(key, operator, value, effect), expected, "{text}");
        }
    }

    #[test]
    fn a_rule_applies_to_the_devices_that_all_its_fields_name() {
        let rule = |driver: &str, pool: &str, device: &str| {
            let given = |text: &str| (!text.is_empty()).then(|| Str::from(text));
            DeviceTaintRule {
                driver: given(driver),
                pool: given(pool),
                device: given(device),
                ..DeviceTaintRule::default()
            }
            .applies_to("d", "p", "gpu")
        };
        assert!(rule("", "", ""));
        assert!(rule("d", "p", "gpu"));
        assert!(!rule("x", "p", "gpu") && !rule("d", "x", "gpu") && !rule("d", "p", "x"));
    }
}
