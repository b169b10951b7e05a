//! What the API server refuses of slices. As in validation.go of resource.k8s.io, validateResourceSliceSpec. What is missing
//! but does no harm to the search is not refused: the counters of a set, and one of both kinds of binding conditions.

use super::super::super::error::{Result, WireError, Within};
use super::super::super::primitive::{List, Table};
use super::super::limits;
use super::{SliceSpec, WireAttribute, WireCapacity, WireConsumption, WireCounter, WireDevice};
use crate::Str;

/// Devices of a slice: `ResourceSliceMaxDevices`.
const DEVICES: usize = 128;
/// The same if one of them has taints, consumes counters or has a list as an attribute:
/// `ResourceSliceMaxDevicesWithAdvancedFeatures`.
const ADVANCED_DEVICES: usize = 64;
/// `ResourceSliceMaxCounterSets`.
const COUNTER_SETS: usize = 8;
/// Counters of a set, and of what a device consumes of a set: `ResourceSliceMaxCountersPerCounterSet`.
const COUNTERS: usize = 32;
/// `ResourceSliceMaxDeviceCounterConsumptionsPerDevice`.
const CONSUMPTIONS: usize = 2;
/// `ResourceSliceMaxAttributesAndCapacitiesPerDevice`.
const ATTRIBUTES_AND_CAPACITIES: usize = 32;
/// The bytes of the value of an attribute: `DeviceAttributeMaxValueLength`.
const VALUE: usize = 64;
/// `DeviceTaintsMaxLength`.
const TAINTS: usize = 16;
/// `BindingConditionsMaxSize` and `BindingFailureConditionsMaxSize`.
const CONDITIONS: usize = 4;
/// `CapacityRequestPolicyDiscreteMaxOptions`.
const VALID_VALUES: usize = 10;

const ONE_NODE_FIELD: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, \
                              `perDeviceNodeSelection` is required";
const ONE_DEVICE_FIELD: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is \
    required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
const NOT_PER_DEVICE: &str = "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                              `perDeviceNodeSelection` is set to true in the ResourceSlice spec";

impl SliceSpec {
    pub(super) fn check(&self) -> Result<()> {
        limits::driver("driver", self.driver.as_ref())?;
        self.check_pool().within("pool")?;
        self.check_nodes()?;
        if !self.devices.0.is_empty() && !self.shared_counters.0.is_empty() {
            let why = "only one of `sharedCounters` or `devices` is allowed: put the counters into a slice of their own";
            return Err(WireError::new("", format!("Invalid value: \"\": {why}")));
        }
        self.check_counters()?;
        self.check_devices()
    }

    fn check_pool(&self) -> Result<()> {
        let pool = self.pool.as_ref();
        limits::pool("name", pool.and_then(|pool| pool.name.as_ref()))?;
        let count = pool.and_then(|pool| pool.resource_slice_count).unwrap_or_default();
        if count <= 0 {
            return Err(WireError::invalid(
                "resourceSliceCount",
                count,
                "must be greater than zero",
            ));
        }
        match pool.and_then(|pool| pool.generation) {
            Some(generation) if generation < 0 => {
                let why = "must be greater than or equal to zero";
                Err(WireError::invalid("generation", generation, why))
            }
            _ => Ok(()),
        }
    }

    fn check_nodes(&self) -> Result<()> {
        let given = [
            ("`nodeName`", self.node_name.as_ref().is_some_and(|name| !name.is_empty())),
            ("`nodeSelector`", self.node_selector.is_some()),
            ("`allNodes`", self.all_nodes == Some(true)),
            ("`perDeviceNodeSelection`", self.per_device_node_selection == Some(true)),
        ];
        // None of them: a newer API server may know another one. Such a slice is for no node.
        if given.iter().any(|(_, is)| *is) {
            one_of("", &given, ONE_NODE_FIELD)?;
        }
        let terms = self.node_selector.as_ref().map(|one| one.node_selector_terms.0.len());
        match terms {
            None | Some(1) => Ok(()),
            Some(n) => {
                let why = "must have exactly one node selector term";
                Err(WireError::invalid("nodeSelector.nodeSelectorTerms", n, why))
            }
        }
    }

    fn check_counters(&self) -> Result<()> {
        let sets = &self.shared_counters.0;
        limits::at_most("sharedCounters", sets.len(), COUNTER_SETS)?;
        for (index, set) in sets.iter().enumerate() {
            limits::label("name", set.name.as_ref())
                .and_then(|()| check_counters(&set.counters))
                .within_item("sharedCounters", index)?;
        }
        let names = sets.iter().map(|set| set.name.as_deref().unwrap_or_default());
        limits::unique("sharedCounters", names)
    }

    fn check_devices(&self) -> Result<()> {
        let devices = &self.devices.0;
        let is_advanced = devices.iter().map(WireDevice::fields).any(|device| {
            !device.taints.0.is_empty()
                || !device.consumes_counters.0.is_empty()
                || device.attributes.0.iter().any(|(_, value)| value.is_list())
        });
        let most = if is_advanced { ADVANCED_DEVICES } else { DEVICES };
        limits::at_most("devices", devices.len(), most)?;
        let is_per_device = self.per_device_node_selection == Some(true);
        for (index, device) in devices.iter().enumerate() {
            limits::label("name", device.name.as_ref())
                .and_then(|()| match &device.basic {
                    Some(basic) => basic.check(is_per_device).within("basic"),
                    None => device.check(is_per_device),
                })
                .within_item("devices", index)?;
        }
        let names = devices.iter().map(|device| device.name.as_deref().unwrap_or_default());
        limits::unique("devices", names)
    }
}

/// Exactly one of these fields is given.
fn one_of(field: &str, given: &[(&str, bool)], why: &str) -> Result<()> {
    let names: Vec<&str> = given.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    match names.as_slice() {
        [_] => Ok(()),
        [] => Err(WireError::required(field, why)),
        several => {
            let several = format!("{{{}}}", several.join(", "));
            Err(WireError::invalid(field, several, format!("{why}, but multiple fields are set")))
        }
    }
}

fn check_counters(counters: &Table<WireCounter>) -> Result<()> {
    limits::at_most("counters", counters.0.len(), COUNTERS)
}

impl WireDevice {
    /// The fields apart from the name.
    fn fields(&self) -> &WireDevice {
        self.basic.as_deref().unwrap_or(self)
    }

    fn check(&self, is_per_device: bool) -> Result<()> {
        let n = self.attributes.0.len() + self.capacity.0.len();
        if ATTRIBUTES_AND_CAPACITIES < n {
            let why = format!(
                "the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES}"
            );
            return Err(WireError::invalid("", n, why));
        }
        for (name, value) in &self.attributes.0 {
            value.check().within(&format!("attributes[{name}]"))?;
        }
        let is_shared = self.allow_multiple_allocations == Some(true);
        for (name, capacity) in &self.capacity.0 {
            capacity.check(is_shared).within(&format!("capacity[{name}]"))?;
        }
        limits::at_most("taints", self.taints.0.len(), TAINTS)?;
        for (index, taint) in self.taints.0.iter().enumerate() {
            super::super::class::check_taint(taint).within_item("taints", index)?;
        }
        check_consumptions(&self.consumes_counters)?;
        self.check_nodes(is_per_device)?;
        self.check_conditions()
    }

    fn check_nodes(&self, is_per_device: bool) -> Result<()> {
        let given = [
            ("`nodeName`", self.node_name.as_ref().is_some_and(|name| !name.is_empty())),
            ("`nodeSelector`", self.node_selector.is_some()),
            ("`allNodes`", self.all_nodes == Some(true)),
        ];
        if is_per_device {
            return one_of("", &given, ONE_DEVICE_FIELD);
        }
        match given.iter().any(|(_, is)| *is) {
            true => Err(WireError::new("", format!("Invalid value: null: {NOT_PER_DEVICE}"))),
            false => Ok(()),
        }
    }

    fn check_conditions(&self) -> Result<()> {
        let (conditions, failures) =
            (&self.binding_conditions.0, &self.binding_failure_conditions.0);
        for (field, list) in
            [("bindingConditions", conditions), ("bindingFailureConditions", failures)]
        {
            limits::at_most(field, list.len(), CONDITIONS)?;
            limits::unique(field, list.iter().map(Str::as_str))?;
        }
        if let Some(index) = failures.iter().position(|one| conditions.contains(one)) {
            let field = format!("bindingFailureConditions[{index}]");
            let why = "bindingFailureConditions must not overlap with bindingConditions";
            return Err(WireError::invalid(&field, failures[index].as_str(), why));
        }
        Ok(())
    }
}

fn check_consumptions(all: &List<WireConsumption>) -> Result<()> {
    limits::at_most("consumesCounters", all.0.len(), CONSUMPTIONS)?;
    for (index, one) in all.0.iter().enumerate() {
        limits::label("counterSet", one.counter_set.as_ref())
            .and_then(|()| check_counters(&one.counters))
            .within_item("consumesCounters", index)?;
    }
    let sets = all.0.iter().map(|one| one.counter_set.as_deref().unwrap_or_default());
    limits::unique("consumesCounters", sets)
}

impl WireAttribute {
    fn is_list(&self) -> bool {
        self.ints.is_some()
            || self.bools.is_some()
            || self.strings.is_some()
            || self.versions.is_some()
    }

    /// A value of a kind that is not known is kept: expressions fail for such a device.
    fn check(&self) -> Result<()> {
        let given = [
            self.int.is_some(),
            self.bool.is_some(),
            self.string.is_some(),
            self.version.is_some(),
            self.ints.is_some(),
            self.bools.is_some(),
            self.strings.is_some(),
            self.versions.is_some(),
        ];
        if 1 < given.iter().filter(|is| **is).count() {
            let why = "Invalid value: null: exactly one value must be specified";
            return Err(WireError::new("", why));
        }
        if let Some(text) = &self.string {
            limits::short("string", text, VALUE)?;
        }
        if let Some(version) = &self.version {
            check_version("version", version)?;
        }
        for (index, text) in self.strings.iter().flatten().enumerate() {
            limits::short(&format!("strings[{index}]"), text, VALUE)?;
        }
        for (index, version) in self.versions.iter().flatten().enumerate() {
            check_version(&format!("versions[{index}]"), version)?;
        }
        Ok(())
    }
}

fn check_version(field: &str, version: &Str) -> Result<()> {
    if !is_version(version) {
        let why = "must be a string compatible with semver.org spec 2.0.0";
        return Err(WireError::invalid(field, version.as_str(), why));
    }
    limits::short(field, version, VALUE)
}

/// `MAJOR.MINOR.PATCH[-PRERELEASE][+BUILD]`
fn is_version(version: &str) -> bool {
    let (rest, build) = match version.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (version, None),
    };
    let (numbers, prerelease) = match rest.split_once('-') {
        Some((numbers, prerelease)) => (numbers, Some(prerelease)),
        None => (rest, None),
    };
    let is_number = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
    };
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_prerelease = |text: &str| {
        let is_all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        is_word(text) && (!is_all_digits || is_number(text))
    };
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && prerelease.is_none_or(|text| text.split('.').all(is_prerelease))
        && build.is_none_or(|text| text.split('.').all(is_word))
}

impl WireCapacity {
    /// As in validateRequestPolicy.
    fn check(&self, is_shared: bool) -> Result<()> {
        let Some(policy) = &self.request_policy else { return Ok(()) };
        let checked = match (policy.valid_values.0.as_slice(), &policy.valid_range) {
            _ if !is_shared => {
                Err(WireError::forbidden("", "allowMultipleAllocations must be true"))
            }
            ([_, ..], Some(_)) => Err(WireError::forbidden(
                "",
                "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time",
            )),
            ([], None) => Ok(()),
            (values @ [_, ..], None) => match &policy.default {
                None => Err(WireError::required("default", "required when validValues is defined")),
                Some(default) => {
                    limits::at_most("validValues", values.len(), VALID_VALUES)?;
                    let descends = values.windows(2).position(|pair| pair[1] < pair[0]);
                    let too_large = values.iter().position(|value| self.value < *value);
                    match (descends, too_large) {
                        (Some(at), _) => Err(WireError::invalid(
                            &format!("validValues[{}]", at + 1),
                            values[at + 1].to_string(),
                            "values must be sorted in ascending order",
                        )),
                        (None, Some(at)) => Err(WireError::invalid(
                            &format!("validValues[{at}]"),
                            values[at].to_string(),
                            format!("option is larger than capacity value: {}", self.value),
                        )),
                        (None, None) if !values.contains(default) => Err(WireError::invalid(
                            "validValues",
                            default.to_string(),
                            "default value is not valid according to the requestPolicy",
                        )),
                        (None, None) => Ok(()),
                    }
                }
            },
            ([], Some(range)) => match (&policy.default, &range.min) {
                (None, _) => {
                    Err(WireError::required("default", "required when validRange is defined"))
                }
                (_, None) => Err(WireError::required(
                    "validRange.min",
                    "required when validRange is defined",
                )),
                (Some(default), Some(min)) if default < min => Err(WireError::invalid(
                    "validRange.default",
                    default.to_string(),
                    format!("default is less than min: {min}"),
                )),
                _ => Ok(()),
            },
        };
        checked.within("requestPolicy")
    }
}

#[cfg(test)]
mod tests {
    use super::super::WireResourceSlice;
    use super::*;
    use crate::wire::Wire;
    use crate::wire::testing::table;

    /// Checks the errors of slices with these fields in their spec; `""` if there is none.
    #[track_caller]
    fn refused(cases: &[(&str, &str)]) {
        for (spec, expected) in cases {
            let json = format!(r#"{{"metadata":{{"name":"s"}},"spec":{{{spec}}}}}"#);
            table(WireResourceSlice::take, &[(&json, expected)], |_| String::new());
        }
    }

    const POOL: &str = r#""driver":"d","pool":{"name":"p","resourceSliceCount":1}"#;

    fn devices(devices: &str) -> String {
        format!(r#"{POOL},"allNodes":true,"devices":[{devices}]"#)
    }

    fn times(n: usize, item: &str) -> String {
        let all: Vec<String> = (0..n).map(|n| item.replace('#', &n.to_string())).collect();
        all.join(",")
    }

    #[test]
    fn a_slice_has_a_driver_a_pool_and_one_way_to_select_nodes() {
        refused(&[
            ("", "spec.driver: Required value: give it a name"),
            (r#""driver":"d""#, "spec.pool.name: Required value: give it a name"),
            (
                r#""driver":"d","pool":{"name":"p"},"allNodes":true"#,
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
            ),
            (
                r#""driver":"d","pool":{"name":"p","resourceSliceCount":1,"generation":-1}"#,
                "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
            ),
            (
                &format!(r#"{POOL},"allNodes":true,"nodeName":"n""#),
                &format!(
                    "spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {ONE_NODE_FIELD}, but multiple fields are set"
                ),
            ),
            (
                &format!(r#"{POOL},"nodeSelector":{{"nodeSelectorTerms":[{{}},{{}}]}}"#),
                "spec.nodeSelector.nodeSelectorTerms: Invalid value: 2: must have exactly one node selector term",
            ),
        ]);
    }

    #[test]
    fn a_slice_has_so_many_devices_with_names_of_their_own() {
        let tainted = r#"{"name":"t","taints":[{"key":"k","effect":"None"}]},"#;
        let some = |n| devices(&times(n, r##"{"name":"d#"}"##));
        let with_taints = |n| devices(&format!("{tainted}{}", times(n, r##"{"name":"d#"}"##)));
        refused(&[
            (&some(128), ""),
            (&some(129), "spec.devices: Too many: 129: must have at most 128 items"),
            (&with_taints(63), ""),
            (&with_taints(64), "spec.devices: Too many: 65: must have at most 64 items"),
            (
                &devices(r#"{"name":"a"},{"name":"b"},{"name":"a"}"#),
                r#"spec.devices[2]: Duplicate value: "a": it must occur once"#,
            ),
            (&devices("{}"), "spec.devices[0].name: Required value: give it a name"),
        ]);
    }

    #[test]
    fn counters_are_limited_and_in_slices_of_their_own() {
        let counters = |sets: &str| format!(r#"{POOL},"allNodes":true,"sharedCounters":[{sets}]"#);
        let set = |name: &str| format!(r#"{{"name":"{name}","counters":{{"c":{{"value":"1"}}}}}}"#);
        let consumes =
            |sets: &str| devices(&format!(r#"{{"name":"a","consumesCounters":[{sets}]}}"#));
        let one_set = r##"{"counterSet":"s#","counters":{"c":{"value":"1"}}}"##;
        refused(&[
            (&counters(&times(8, &set("s#"))), ""),
            (
                &counters(&times(9, &set("s#"))),
                "spec.sharedCounters: Too many: 9: must have at most 8 items",
            ),
            (
                &counters(&format!("{0},{0}", set("s"))),
                r#"spec.sharedCounters[1]: Duplicate value: "s": it must occur once"#,
            ),
            (&consumes(&times(2, one_set)), ""),
            (
                &consumes(&times(3, one_set)),
                "spec.devices[0].consumesCounters: Too many: 3: must have at most 2 items",
            ),
            (
                &format!(r#"{},"sharedCounters":[{}]"#, devices(r#"{"name":"a"}"#), set("s")),
                "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed: put the counters into a slice of their own",
            ),
        ]);
    }

    #[test]
    fn a_device_has_values_that_can_be_used() {
        let device = |fields: &str| devices(&format!(r#"{{"name":"a",{fields}}}"#));
        let attributes = |n| {
            let all = times(n, r##""a#":{"int":1}"##);
            device(&format!(r#""attributes":{{{all}}}"#))
        };
        let long = "x".repeat(65);
        refused(&[
            (&attributes(32), ""),
            (
                &attributes(33),
                "spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32",
            ),
            (
                &device(r#""attributes":{"x":{"int":1,"bool":true}}"#),
                "spec.devices[0].attributes[x]: Invalid value: null: exactly one value must be specified",
            ),
            (
                &device(&format!(r#""attributes":{{"x":{{"string":"{long}"}}}}"#)),
                "spec.devices[0].attributes[x].string: Too long: may not be more than 64 bytes",
            ),
            (
                &device(r#""attributes":{"x":{"version":"v1.2"}}"#),
                r#"spec.devices[0].attributes[x].version: Invalid value: "v1.2": must be a string compatible with semver.org spec 2.0.0"#,
            ),
            (
                &device(r#""capacity":{"m":{"value":"1","requestPolicy":{"default":"1"}}}"#),
                "spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true",
            ),
            (
                &device(
                    r#""allowMultipleAllocations":true,"capacity":{"m":{"value":"4","requestPolicy":{"default":"3","validValues":["1","2"]}}}"#,
                ),
                r#"spec.devices[0].capacity[m].requestPolicy.validValues: Invalid value: "3": default value is not valid according to the requestPolicy"#,
            ),
            (
                &device(r#""bindingConditions":["up"],"bindingFailureConditions":["up"]"#),
                r#"spec.devices[0].bindingFailureConditions[0]: Invalid value: "up": bindingFailureConditions must not overlap with bindingConditions"#,
            ),
            (
                &device(r#""taints":[{"key":"k"}]"#),
                "spec.devices[0].taints[0].effect: Required value: say what the taint does",
            ),
            (
                &device(r#""nodeName":"n""#),
                &format!("spec.devices[0]: Invalid value: null: {NOT_PER_DEVICE}"),
            ),
        ]);
    }

    #[test]
    fn versions_are_those_of_semver() {
        for good in ["0.0.0", "1.2.3", "1.2.3-rc.1", "1.2.3-0a.x-y+build.007", "10.20.30+a"] {
            assert!(is_version(good), "{good}");
        }
        for bad in ["", "1", "1.2", "v1.2.3", "1.2.03", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.3.4"] {
            assert!(!is_version(bad), "{bad}");
        }
    }
}
