//! Classes of devices, and rules that taint devices, on the wire.

use serde::Deserialize;

use super::super::error::{Result, WireError, Within};
use super::super::meta::{Meta, Metadata};
use super::super::primitive::{List, given};
use super::super::{Manifest, Wire};
use super::{NO_DEVICES, VERSIONS, WireOpaque, WireSelector, WireTaint, limits, selectors};
use crate::label_syntax::label_key_faults;
use crate::resources::is_extended_resource_name;
use crate::{DeviceClass, DeviceTaintRule, Kind, ObjectKey, Str};

/// resource.k8s.io DeviceClass.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireDeviceClass {
    metadata: Option<Metadata>,
    spec: Option<ClassSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClassSpec {
    selectors: List<WireSelector>,
    config: List<ClassConfig>,
    extended_resource_name: Option<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClassConfig {
    opaque: Option<WireOpaque>,
}

/// resource.k8s.io DeviceTaintRule.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireDeviceTaintRule {
    metadata: Option<Metadata>,
    spec: Option<RuleSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RuleSpec {
    device_selector: Option<RuleSelector>,
    taint: Option<WireTaint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RuleSelector {
    driver: Option<Str>,
    pool: Option<Str>,
    device: Option<Str>,
}

impl Wire for WireDeviceClass {
    type Value = DeviceClass;

    fn take(self) -> Result<DeviceClass> {
        let meta = Meta::take(self.metadata)?;
        let spec = self.spec.unwrap_or_default();
        spec.check().within("spec")?;
        let config = spec.config.into_iter().map(|one| one.opaque.map(WireOpaque::take));
        Ok(DeviceClass {
            name: meta.name,
            created: meta.created,
            selectors: selectors(spec.selectors),
            config: config.collect(),
            extended_resource: given(spec.extended_resource_name),
        })
    }
}

impl Wire for WireDeviceTaintRule {
    type Value = DeviceTaintRule;

    fn take(self) -> Result<DeviceTaintRule> {
        let meta = Meta::take(self.metadata)?;
        let spec = self.spec.unwrap_or_default();
        let selector = spec.device_selector.unwrap_or_default();
        spec.taint.as_ref().map_or(Ok(()), check_taint).within("taint").within("spec")?;
        Ok(DeviceTaintRule {
            name: meta.name,
            driver: given(selector.driver),
            pool: given(selector.pool),
            device: given(selector.device),
            taint: spec.taint.unwrap_or_default().take(),
        })
    }
}

impl ClassSpec {
    /// As in validation.go, validateDeviceClassSpec.
    fn check(&self) -> Result<()> {
        limits::selectors(&self.selectors)?;
        limits::at_most("config", self.config.0.len(), limits::CONFIGS)?;
        match &self.extended_resource_name {
            Some(name) if !name.is_empty() && !is_extended_resource_name(name) => {
                let why = "must be a valid extended resource name";
                Err(WireError::invalid("extendedResourceName", name.as_str(), why))
            }
            _ => Ok(()),
        }
    }
}

/// As in validation.go, validateDeviceTaint. An effect that is not known has none.
pub(super) fn check_taint(taint: &WireTaint) -> Result<()> {
    let key = taint.key.as_deref().unwrap_or_default();
    if let Some(fault) = label_key_faults(key).into_iter().next() {
        return Err(WireError::invalid("key", key, fault));
    }
    match taint.effect.as_deref() {
        None | Some("") => Err(WireError::required("effect", "say what the taint does")),
        Some(_) => Ok(()),
    }
}

impl Kind for DeviceClass {
    const NAME: &'static str = "DeviceClass";
    const PLURAL: &'static str = "deviceclasses";
    const VERSIONS: &'static [&'static str] = VERSIONS;
    const NAMESPACED: bool = false;
    const WITHOUT: Option<&'static str> = Some(NO_DEVICES);

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireDeviceClass>()?.take()
    }
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }
}

impl Kind for DeviceTaintRule {
    const NAME: &'static str = "DeviceTaintRule";
    const PLURAL: &'static str = "devicetaintrules";
    const VERSIONS: &'static [&'static str] =
        &["resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"];
    const NAMESPACED: bool = false;
    const WITHOUT: Option<&'static str> = Some("devices have only the taints of their drivers");

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireDeviceTaintRule>()?.take()
    }
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::table;

    #[test]
    fn a_class_has_selectors_and_configurations() {
        table(
            WireDeviceClass::take,
            &[
                (
                    r#"{"metadata":{"name":"gpu","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{
                        "selectors":[{"cel":{"expression":"true"}},{}],
                        "config":[{"opaque":{"driver":"a.io","parameters":{"b":1,"a":"x"}}},{}],
                        "extendedResourceName":"a.io/gpu"}}"#,
                    r#"gpu true [Some("true"), None] [a.io {"a":"x","b":1}] [None] Some("a.io/gpu")"#,
                ),
                (r#"{"metadata":{"name":"any"}}"#, "any false [] None"),
                (
                    r#"{"spec":{}}"#,
                    "metadata.name: Required value: give the object a name; none is generated",
                ),
            ],
            |class| {
                let config = class.config.iter().map(|one| match one {
                    Some(one) => format!("[{} {}] ", one.driver, one.parameters),
                    None => "[None] ".to_owned(),
                });
                let config: String = config.collect();
                let extended = class.extended_resource.as_deref();
                let (name, created) = (&class.name, class.created.is_some());
                format!("{name} {created} {:?} {config}{extended:?}", class.selectors)
            },
        );
    }

    #[test]
    fn a_taint_rule_names_the_devices_that_it_taints() {
        table(
            WireDeviceTaintRule::take,
            &[
                (
                    r#"{"metadata":{"name":"r"},"spec":{"deviceSelector":{"driver":"d","pool":""},
                        "taint":{"key":"k","effect":"NoExecute","timeAdded":"2020-01-01T00:00:00Z"}}}"#,
                    r#"Some("d") None None k=:NoExecute"#,
                ),
                (
                    r#"{"metadata":{"name":"r"},"spec":{"taint":{"key":"k","value":"v","effect":"None"}}}"#,
                    "None None None k=v:None",
                ),
            ],
            |rule| {
                let DeviceTaintRule { driver, pool, device, taint, .. } = rule;
                format!(
                    "{driver:?} {pool:?} {device:?} {}={}:{}",
                    taint.key, taint.value, taint.effect
                )
            },
        );
    }
}
