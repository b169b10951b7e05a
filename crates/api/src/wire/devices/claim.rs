//! Claims on devices, on the wire.

mod check;

use serde::Deserialize;
use serde_json::Value;

use super::super::error::{Result, Within};
use super::super::meta::{Meta, Metadata};
use super::super::primitive::{List, Table, given, time};
use super::super::{Manifest, Wire};
use super::{
    NO_DEVICES, VERSIONS, WireNodeSelector, WireOpaque, WireSelector, WireToleration, amounts,
    is_flat, selectors,
};
use crate::devices::{
    Allocation, AllocationConfig, AllocationMode, ClaimConsumer, ClaimSpec, ConfigSource,
    Constraint, ConstraintKind, DeviceAsk, DeviceCondition, DeviceConfig, DeviceRequest,
    DeviceResult, DeviceStatus, RequestKind, SubRequest,
};
use crate::{Kind, ObjectKey, Quantity, ResourceClaim, ResourceClaimTemplate, Str};

pub(crate) const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";

/// resource.k8s.io ResourceClaim.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireResourceClaim {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<Status>,
}

/// resource.k8s.io ResourceClaimTemplate.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireResourceClaimTemplate {
    metadata: Option<Metadata>,
    spec: Option<TemplateSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateSpec {
    spec: Option<Spec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    devices: Option<Devices>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Devices {
    requests: List<WireRequest>,
    constraints: List<WireConstraint>,
    config: List<WireConfig>,
}

/// A request, an exact request, or an alternative of a request. An exact request in `v1beta1` has its fields in the
/// request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireRequest {
    name: Option<Str>,
    exactly: Option<Box<WireRequest>>,
    first_available: List<WireRequest>,
    device_class_name: Option<Str>,
    selectors: List<WireSelector>,
    allocation_mode: Option<Str>,
    count: Option<i64>,
    admin_access: Option<bool>,
    tolerations: List<WireToleration>,
    capacity: Option<WireCapacity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireCapacity {
    requests: Table<Quantity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireConstraint {
    requests: List<Str>,
    match_attribute: Option<Str>,
    distinct_attribute: Option<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireConfig {
    source: Option<Str>,
    requests: List<Str>,
    opaque: Option<WireOpaque>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    allocation: Option<WireAllocation>,
    reserved_for: List<WireConsumer>,
    devices: List<WireDeviceStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireAllocation {
    devices: Option<WireResults>,
    node_selector: Option<WireNodeSelector>,
    allocation_timestamp: Option<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireResults {
    results: List<WireResult>,
    config: List<WireConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireResult {
    request: Option<Str>,
    driver: Option<Str>,
    pool: Option<Str>,
    device: Option<Str>,
    admin_access: Option<bool>,
    tolerations: List<WireToleration>,
    binding_conditions: List<Str>,
    binding_failure_conditions: List<Str>,
    #[serde(rename = "shareID")]
    share_id: Option<Str>,
    consumed_capacity: Table<Quantity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireConsumer {
    api_group: Option<Str>,
    resource: Option<Str>,
    name: Option<Str>,
    uid: Option<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireDeviceStatus {
    driver: Option<Str>,
    pool: Option<Str>,
    device: Option<Str>,
    conditions: List<WireCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireCondition {
    r#type: Option<Str>,
    status: Option<Str>,
    reason: Option<Str>,
    message: Option<Str>,
}

impl Wire for WireResourceClaim {
    type Value = ResourceClaim;

    fn take(self) -> Result<ResourceClaim> {
        let meta = Meta::take(self.metadata)?;
        let status = self.status.unwrap_or_default();
        status.check().within("status")?;
        let allocation = status.allocation.map(WireAllocation::take).transpose();
        Ok(ResourceClaim {
            key: meta.key(),
            is_extended: meta.annotations.get(EXTENDED).is_some_and(|value| value == "true"),
            uid: meta.uid,
            resource_version: meta.resource_version,
            deletion: meta.deletion,
            controller: meta.controller,
            finalizers: meta.finalizers,
            spec: self.spec.unwrap_or_default().take().within("spec")?,
            allocation: allocation.within("status.allocation")?,
            reserved_for: status.reserved_for.into_iter().map(WireConsumer::take).collect(),
            devices: status.devices.into_iter().map(WireDeviceStatus::take).collect(),
            holders: Vec::new(),
            late_writers: Vec::new(),
        })
    }
}

impl Wire for WireResourceClaimTemplate {
    type Value = ResourceClaimTemplate;

    fn take(self) -> Result<ResourceClaimTemplate> {
        let meta = Meta::take(self.metadata)?;
        let spec = self.spec.unwrap_or_default().spec.unwrap_or_default();
        let spec = spec.take().within("spec").within("spec")?;
        Ok(ResourceClaimTemplate { key: meta.key(), spec })
    }
}

impl Spec {
    fn take(self) -> Result<ClaimSpec> {
        let devices = self.devices.unwrap_or_default();
        devices.check().within("devices")?;
        Ok(devices.take())
    }
}

impl Devices {
    fn take(self) -> ClaimSpec {
        let Devices { requests, constraints, config } = self;
        let constraints = constraints.into_iter().map(|one| Constraint {
            requests: one.requests.0,
            kind: match (one.match_attribute, one.distinct_attribute) {
                (Some(name), _) => ConstraintKind::MatchAttribute(name),
                (None, Some(name)) => ConstraintKind::DistinctAttribute(name),
                (None, None) => ConstraintKind::Unknown,
            },
        });
        let config = config.into_iter().map(|one| DeviceConfig {
            requests: one.requests.0,
            opaque: one.opaque.map(WireOpaque::take),
        });
        ClaimSpec {
            requests: requests.into_iter().map(WireRequest::take).collect(),
            constraints: constraints.collect(),
            config: config.collect(),
        }
    }
}

impl WireRequest {
    fn take(mut self) -> DeviceRequest {
        let name = self.name.take().unwrap_or_default();
        let alternatives = std::mem::take(&mut self.first_available).0;
        let kind = match self.exactly.take() {
            _ if !alternatives.is_empty() => RequestKind::FirstAvailable(
                alternatives.into_iter().map(Self::alternative).collect(),
            ),
            Some(exactly) => exactly.exact(),
            None if self.is_given() => self.exact(),
            None => RequestKind::Unknown,
        };
        DeviceRequest { name, kind }
    }

    /// Whether it has a field of an exact request.
    fn is_given(&self) -> bool {
        self.device_class_name.is_some()
            || !self.selectors.0.is_empty()
            || self.allocation_mode.is_some()
            || self.count.is_some()
            || self.admin_access.is_some()
            || !self.tolerations.0.is_empty()
            || self.capacity.is_some()
    }

    fn exact(self) -> RequestKind {
        RequestKind::Exactly { admin_access: self.admin_access, ask: self.ask() }
    }

    fn alternative(mut self) -> SubRequest {
        SubRequest { name: self.name.take().unwrap_or_default(), ask: self.ask() }
    }

    /// As in defaults.go of resource/v1, SetDefaults_ExactDeviceRequest.
    fn ask(self) -> DeviceAsk {
        let mode = match self.allocation_mode.as_deref() {
            None | Some("" | "ExactCount") => match self.count {
                None | Some(0) => AllocationMode::ExactCount(1),
                Some(count) => AllocationMode::ExactCount(count),
            },
            Some("All") => AllocationMode::All,
            Some(other) => AllocationMode::Other(other.into()),
        };
        DeviceAsk {
            class: self.device_class_name.unwrap_or_default(),
            selectors: selectors(self.selectors),
            mode,
            tolerations: self.tolerations.into_iter().map(WireToleration::take).collect(),
            capacity: self.capacity.map(|capacity| amounts(capacity.requests)),
        }
    }
}

impl WireAllocation {
    fn take(self) -> Result<Allocation> {
        let devices = self.devices.unwrap_or_default();
        Ok(Allocation {
            devices: devices.results.into_iter().map(WireResult::take).collect(),
            config: devices.config.into_iter().map(WireConfig::allocated).collect(),
            node_selector: self.node_selector.map(WireNodeSelector::take),
            timestamp: time("allocationTimestamp", self.allocation_timestamp.as_ref())?,
        })
    }
}

impl WireResult {
    fn take(self) -> DeviceResult {
        DeviceResult {
            request: self.request.unwrap_or_default(),
            driver: self.driver.unwrap_or_default(),
            pool: self.pool.unwrap_or_default(),
            device: self.device.unwrap_or_default(),
            admin_access: self.admin_access,
            tolerations: self.tolerations.into_iter().map(WireToleration::take).collect(),
            binding_conditions: self.binding_conditions.0,
            binding_failure_conditions: self.binding_failure_conditions.0,
            share_id: given(self.share_id),
            consumed_capacity: amounts(self.consumed_capacity),
        }
    }
}

impl WireConfig {
    fn allocated(self) -> AllocationConfig {
        AllocationConfig {
            source: match self.source.as_deref() {
                Some("FromClass") => ConfigSource::Class,
                Some("FromClaim") => ConfigSource::Claim,
                other => ConfigSource::Other(other.unwrap_or_default().into()),
            },
            requests: self.requests.0,
            opaque: self.opaque.map(WireOpaque::take),
        }
    }
}

impl WireConsumer {
    fn take(self) -> ClaimConsumer {
        ClaimConsumer {
            api_group: self.api_group.unwrap_or_default(),
            resource: self.resource.unwrap_or_default(),
            name: self.name.unwrap_or_default(),
            uid: self.uid.unwrap_or_default(),
        }
    }
}

impl WireDeviceStatus {
    fn take(self) -> DeviceStatus {
        let conditions = self.conditions.into_iter().map(|one| DeviceCondition {
            name: one.r#type.unwrap_or_default(),
            is_true: one.status.as_deref() == Some("True"),
            reason: one.reason.unwrap_or_default(),
            message: one.message.unwrap_or_default(),
        });
        DeviceStatus {
            driver: self.driver.unwrap_or_default(),
            pool: self.pool.unwrap_or_default(),
            device: self.device.unwrap_or_default(),
            conditions: conditions.collect(),
        }
    }
}

impl Kind for ResourceClaim {
    const NAME: &'static str = "ResourceClaim";
    const PLURAL: &'static str = "resourceclaims";
    const VERSIONS: &'static [&'static str] = VERSIONS;
    const WITHOUT: Option<&'static str> = Some(NO_DEVICES);

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireResourceClaim>()?.take()
    }
    /// In `v1beta1` the fields of an exact request are in the request itself.
    fn convert(mut manifest: Value, api_version: &str) -> Value {
        let requests = manifest.pointer_mut("/spec/devices/requests").and_then(Value::as_array_mut);
        let requests = requests.filter(|_| is_flat(api_version)).into_iter().flatten();
        for request in requests.filter_map(Value::as_object_mut) {
            if let Some(Value::Object(exactly)) = request.remove("exactly") {
                request.extend(exactly);
            }
        }
        manifest
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
    /// A claim gets its finalizer first, and its devices then. Whoever takes the devices from it takes the finalizer,
    /// too.
    fn may_follow(&self, observed: &Self) -> bool {
        self.uid == observed.uid
            && self.allocation.is_some()
            && observed.allocation.is_none()
            && observed.has_finalizer()
    }
}

impl Kind for ResourceClaimTemplate {
    const NAME: &'static str = "ResourceClaimTemplate";
    const PLURAL: &'static str = "resourceclaimtemplates";
    const VERSIONS: &'static [&'static str] = VERSIONS;
    const WITHOUT: Option<&'static str> = Some("no claims are made from them");
    const WAKES_PODS: bool = false;

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireResourceClaimTemplate>()?.take()
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::wire::testing::table;

    fn show_ask(ask: &DeviceAsk) -> String {
        let mut words = vec![ask.class.to_string()];
        words.push(match &ask.mode {
            AllocationMode::ExactCount(count) => format!("x{count}"),
            AllocationMode::All => "all".to_owned(),
            AllocationMode::Other(word) => format!("mode {word}"),
        });
        words
            .extend(ask.selectors.iter().map(|one| format!("[{}]", one.as_deref().unwrap_or("?"))));
        for one in &ask.tolerations {
            let (operator, seconds) = (one.operator.as_str(), one.seconds);
            words.push(format!("{} {operator} {}:{} {seconds:?}", one.key, one.value, one.effect));
        }
        if let Some(capacity) = &ask.capacity {
            words.push(format!("{} amounts", capacity.len()));
            words.extend(capacity.iter().map(|(name, amount)| format!("{name}={amount}")));
        }
        words.join(" ")
    }

    fn show_spec(spec: &ClaimSpec) -> String {
        let requests = spec.requests.iter().map(|request| {
            let kind = match &request.kind {
                RequestKind::Unknown => "unknown".to_owned(),
                RequestKind::Exactly { ask, admin_access } => {
                    let admin = admin_access.map_or_else(String::new, |is| format!(" admin {is}"));
                    format!("{}{admin}", show_ask(ask))
                }
                RequestKind::FirstAvailable(all) => {
                    let all = all.iter().map(|one| format!("{}: {}", one.name, show_ask(&one.ask)));
                    all.collect::<Vec<_>>().join(" | ")
                }
            };
            format!("{}: {kind}", request.name)
        });
        let constraints =
            spec.constraints.iter().map(|one| format!("{:?} {:?}", one.requests, one.kind));
        let config = spec.config.iter().map(|one| {
            let opaque = one.opaque.as_ref().map(|one| (one.driver.as_str(), &*one.parameters));
            format!("{:?} {opaque:?}", one.requests)
        });
        requests.chain(constraints).chain(config).collect::<Vec<_>>().join("; ")
    }

    /// Checks what a list of requests, and other fields after it, are read as.
    #[track_caller]
    fn spec(cases: &[(&str, &str)]) {
        for (devices, expected) in cases {
            let json = format!(r#"{{"devices":{{"requests":{devices}}}}}"#);
            table(|spec: Spec| spec.take(), &[(&json, expected)], |spec| show_spec(&spec));
        }
    }

    #[test]
    fn requests_are_read_in_the_shape_of_each_version_with_its_defaults() {
        let fields = r#""deviceClassName":"gpu","selectors":[{"cel":{"expression":"true"}}],"allocationMode":"All",
            "adminAccess":true,"tolerations":[{"key":"k","effect":"NoExecute","tolerationSeconds":5},
            {"operator":"Exists"},{"operator":"Near"}],"capacity":{"requests":{"memory":"1Gi","a.io/x":2}}"#;
        let expected = "r: gpu all [true] k Equal :NoExecute Some(5)  Exists : None  Near : None \
                        2 amounts a.io/x=2 memory=1Gi admin true";
        spec(&[
            (&format!(r#"[{{"name":"r","exactly":{{{fields}}}}}]"#), expected),
            (&format!(r#"[{{"name":"r",{fields}}}]"#), expected),
            (
                r#"[{"name":"a","exactly":{"deviceClassName":"gpu"}},
                    {"name":"b","exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":3}},
                    {"name":"c","deviceClassName":"gpu","capacity":{}}]"#,
                "a: gpu x1; b: gpu x3; c: gpu x1 0 amounts",
            ),
            (
                r#"[{"name":"r","firstAvailable":[{"name":"a","deviceClassName":"big"},
                    {"name":"b","deviceClassName":"small","count":2}]}]"#,
                "r: a: big x1 | b: small x2",
            ),
        ]);
    }

    #[test]
    fn what_is_not_known_of_a_claim_is_kept_and_reported_later() {
        spec(&[
            (r#"[{"name":"r"}]"#, "r: unknown"),
            (r#"[{"name":"r","fromLater":{"deviceClassName":"a"}}]"#, "r: unknown"),
            (r#"[{"name":"r","exactly":{}}]"#, "r:  x1"),
            (
                r#"[{"name":"r","exactly":{"deviceClassName":"a","allocationMode":"Some","count":7}}]"#,
                "r: a mode Some",
            ),
            (
                r#"[{"name":"r","exactly":{"deviceClassName":"a","selectors":[{"rego":{}}]}}]"#,
                "r: a x1 [?]",
            ),
            (
                r#"[{"name":"r"}],"constraints":[{"requests":["r"]}]"#,
                r#"r: unknown; ["r"] Unknown"#,
            ),
            (
                r#"[{"name":"r"}],"config":[{"requests":["r"],"wasm":{}}]"#,
                r#"r: unknown; ["r"] None"#,
            ),
        ]);
    }

    #[test]
    fn constraints_and_configurations_are_read() {
        spec(&[(
            r#"[{"name":"r","firstAvailable":[{"name":"s"}]}],"constraints":[{"requests":["r","r/s"],"matchAttribute":"a.io/model"},
                {"distinctAttribute":"a.io/slot"}],
                "config":[{"requests":["r"],"opaque":{"driver":"a.io","parameters":{"b":1,"a":2}}}]"#,
            r#"r: s:  x1; ["r", "r/s"] MatchAttribute("a.io/model"); [] DistinctAttribute("a.io/slot"); ["r"] Some(("a.io", "{\"a\":2,\"b\":1}"))"#,
        )]);
    }

    #[test]
    fn a_claim_is_read_with_its_owner_and_status() {
        let show =
            |claim: ResourceClaim| {
                let owner = claim.controller.as_ref().map(|owner| owner.uid.as_str());
                let (key, version) = (&claim.key, &claim.resource_version);
                let mut words = vec![format!("{key} {} {version} {owner:?}", claim.uid)];
                words.push(format!("{} {:?}", claim.is_extended, claim.finalizers));
                words.extend(claim.reserved_for.iter().map(|one| {
                    format!("{}/{} {} {}", one.api_group, one.resource, one.name, one.uid)
                }));
                for status in &claim.devices {
                    words.push(format!("{}/{}/{}", status.driver, status.pool, status.device));
                    let conditions = status.conditions.iter();
                    words.extend(conditions.map(|one| {
                        format!("{} {} {} {}", one.name, one.is_true, one.reason, one.message)
                    }));
                }
                words.join(" ")
            };
        table(
            WireResourceClaim::take,
            &[
                (r#"{"metadata":{"name":"c"}}"#, r#"default/c   None false []"#),
                (
                    r#"{"metadata":{"name":"c","namespace":"a","uid":"u","resourceVersion":"7","finalizers":["f"],
                        "annotations":{"resource.kubernetes.io/extended-resource-claim":"true"},
                        "ownerReferences":[{"kind":"Pod","name":"p","uid":"o","controller":true}]},
                        "status":{"reservedFor":[{"resource":"pods","name":"p","uid":"o"}],
                        "devices":[{"driver":"d","pool":"p","device":"x","conditions":[
                            {"type":"up","status":"True","reason":"R","message":"M"},
                            {"type":"ok","status":"Unknown"}]}]}}"#,
                    r#"a/c u 7 Some("o") true ["f"] /pods p o d/p/x up true R M ok false  "#,
                ),
                (
                    r#"{"metadata":{"name":"c"},"status":{"allocation":{"allocationTimestamp":"soon"}}}"#,
                    r#"status.allocation.allocationTimestamp: Invalid value: "soon": must be a time in RFC 3339, such as "2006-01-02T15:04:05Z""#,
                ),
            ],
            show,
        );
    }

    #[test]
    fn what_is_read_of_a_claim_is_written_back() {
        let spec = r#"{"devices":{
            "requests":[
                {"name":"r","exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":2,"adminAccess":true,
                    "selectors":[{"cel":{"expression":"true"}}],"capacity":{"requests":{"memory":"1Gi"}},
                    "tolerations":[{"key":"k","operator":"Equal","value":"v","effect":"NoExecute","tolerationSeconds":5}]}},
                {"name":"s","firstAvailable":[{"name":"a","deviceClassName":"gpu","allocationMode":"All"}]}],
            "constraints":[{"requests":["r"],"matchAttribute":"a.io/b"},{"distinctAttribute":"a.io/c"}],
            "config":[{"requests":["r"],"opaque":{"driver":"a.io","parameters":{"x":[1]}}}]}}"#;
        let read: Spec = serde_json::from_str(spec).expect("it is a spec");
        let json: Value = serde_json::from_str(spec).expect("it is JSON");
        let read = read.take().expect("it is valid");
        assert_eq!(read.to_json("resource.k8s.io/v1"), json);
        let flat = read.to_json("resource.k8s.io/v1beta1");
        let manifest = serde_json::json!({ "metadata": {}, "spec": json });
        let kind = crate::KindRef::of::<ResourceClaim>();
        for (version, spec) in [("v1", &json), ("v1beta2", &json), ("v1beta1", &flat)] {
            let converted = kind.convert(manifest.clone(), &format!("resource.k8s.io/{version}"));
            assert_eq!(converted, serde_json::json!({ "metadata": {}, "spec": spec }), "{version}");
        }
        assert_eq!(flat["devices"]["requests"][0]["deviceClassName"], "gpu");
        let again: Spec = serde_json::from_value(flat).expect("it is a spec");
        assert_eq!(again.take(), Ok(read));
    }

    #[test]
    fn an_allocation_is_written_as_it_is_read() {
        for allocation in [
            r#"{"devices":{}}"#,
            r#"{"devices":{"results":[
                {"request":"r/s","driver":"d","pool":"p","device":"x","adminAccess":true,
                    "bindingConditions":["up"],"bindingFailureConditions":["down"],
                    "tolerations":[{"key":"k","operator":"Exists"}]},
                {"request":"t","driver":"d","pool":"p","device":"y","shareID":"id",
                    "consumedCapacity":{"bandwidth":"5G","queues":"1"}}],
                "config":[{"source":"FromClass","requests":["r/s"],"opaque":{"driver":"d","parameters":{"a":1}}},
                    {"source":"FromClaim"}]},
                "allocationTimestamp":"2026-01-02T03:04:05Z",
                "nodeSelector":{"nodeSelectorTerms":[{
                    "matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}],
                    "matchExpressions":[{"key":"b","operator":"In","values":["2","1"]},
                        {"key":"a","operator":"Exists"}]}]}}"#,
        ] {
            let read: WireAllocation = serde_json::from_str(allocation).expect("it is one");
            let json: Value = serde_json::from_str(allocation).expect("it is JSON");
            assert_eq!(read.take().expect("it is valid").to_json(), json);
        }
    }
}
