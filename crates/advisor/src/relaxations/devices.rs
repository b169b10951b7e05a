//! Claims on devices: fewer devices, less that they must be, and more that the pod puts up with.

use plimsoll_api::devices::{ClaimSource, DeviceTaint};
use plimsoll_api::{DeviceClass, DeviceTaintRule, ObjectKey, Pod, ResourceSlice};
use plimsoll_framework::View;
use serde_json::{Value, json};

use super::{Field, Relaxation, Steps, list};
use crate::change::Reference;
use crate::draft::{CLAIM_TEMPLATE, Draft, Make, Manifests, Step};
use crate::remedy::{RemedyKind, size};

/// At most so many numbers of devices are tried, the largest first.
const MOST_COUNTS: i64 = 16;
/// At most so many classes and taints are tried for one request.
const MOST: usize = 6;

/// The pod without one of its claims on devices.
pub(crate) fn dropped(manifest: &Value, claim: &Value) -> Relaxation {
    let name = &claim["name"];
    let named = list(manifest, "/spec/resourceClaims");
    let mut steps = vec![Step {
        of: None,
        what: Make::Without("/spec/resourceClaims".to_owned(), claim.clone()),
    }];
    debug_assert!(named.contains(claim), "it is one of the pod's");
    for containers in ["containers", "initContainers"] {
        for (at, container) in list(manifest, &format!("/spec/{containers}")).iter().enumerate() {
            let used = list(container, "/resources/claims").iter();
            for one in used.filter(|one| one["name"] == *name) {
                let field = format!("/spec/{containers}/{at}/resources/claims");
                steps.push(Step { of: None, what: Make::Without(field, one.clone()) });
            }
        }
    }
    Relaxation::Steps(Steps {
        text: format!("drop the claim {} on devices", name.as_str().unwrap_or_default()),
        size: size::NO_DEVICES,
        kind: RemedyKind::Pod,
        field: Field::Devices,
        all: steps,
    })
}

/// What could be given up of a claim of the pod, which it calls `name`. Its manifest, or that of its template, is added to
/// `base`.
pub(crate) fn changes(
    pod: &Pod,
    view: View<'_>,
    manifests: Manifests<'_>,
    base: &mut Draft,
    name: &str,
) -> Vec<Relaxation> {
    let Some(claim) = pod.resource_claims.iter().find(|one| one.name == name) else {
        return Vec::new();
    };
    let key = |name: &str| ObjectKey::new(pod.key.namespace.clone(), name);
    let (of, at) = match &claim.source {
        ClaimSource::Claim(name) => (Reference::of("ResourceClaim", &key(name)), "/spec/devices"),
        ClaimSource::Template(name) => {
            (Reference::of(CLAIM_TEMPLATE, &key(name)), "/spec/spec/devices")
        }
        ClaimSource::Unknown => return Vec::new(),
    };
    if !base.objects.contains_key(&of) {
        let Some(manifest) = manifests.find(&of) else { return Vec::new() };
        base.objects.insert(of.clone(), manifest);
    }
    let manifest = &base.objects[&of];
    let in_claim = Claim { view, what: wording(&of), of: of.clone(), manifest };
    let mut all = Vec::new();
    for (index, request) in list(manifest, &format!("{at}/requests")).iter().enumerate() {
        let field = format!("{at}/requests/{index}");
        let name = request["name"].as_str().unwrap_or_default();
        let alternatives = list(request, "/firstAvailable");
        if request["exactly"].is_object() {
            all.extend(in_claim.of_request(name, &format!("{field}/exactly")));
        } else if alternatives.is_empty() {
            // In v1beta1 a request has the fields itself.
            all.extend(in_claim.of_request(name, &field));
        }
        for (other, alternative) in alternatives.iter().enumerate() {
            let name = format!("{name}/{}", alternative["name"].as_str().unwrap_or_default());
            all.extend(in_claim.of_request(&name, &format!("{field}/firstAvailable/{other}")));
        }
    }
    let field = format!("{at}/constraints");
    for constraint in list(manifest, &field) {
        let what = ["matchAttribute", "distinctAttribute"]
            .into_iter()
            .find_map(|kind| Some(format!("{kind} {}", constraint[kind].as_str()?)));
        let what = what.unwrap_or_default();
        all.push(in_claim.steps(
            format!("drop the constraint \"{what}\" of {}", in_claim.what),
            size::CONSTRAINT,
            Make::Without(field.clone(), constraint.clone()),
        ));
    }
    all
}

/// What a claim is called.
fn wording(of: &Reference) -> String {
    let kind = if of.kind == CLAIM_TEMPLATE { "claim template" } else { "claim" };
    format!("the {kind} {}", of.name)
}

/// A claim or its template.
struct Claim<'a> {
    view: View<'a>,
    of: Reference,
    what: String,
    manifest: &'a Value,
}

impl Claim<'_> {
    fn steps(&self, text: String, size: u32, what: Make) -> Relaxation {
        let all = vec![Step { of: Some(self.of.clone()), what }];
        Relaxation::Steps(Steps { text, size, kind: RemedyKind::Pod, field: Field::Devices, all })
    }

    /// What could be given up of the request whose fields are at `field`.
    fn of_request(&self, name: &str, field: &str) -> Vec<Relaxation> {
        let Some(request) = self.manifest.pointer(field) else { return Vec::new() };
        let mut all: Vec<_> = self.fewer(name, field, request).into_iter().collect();
        for selector in list(request, "/selectors") {
            let expression = selector["cel"]["expression"].as_str().unwrap_or_default();
            all.push(self.steps(
                format!("drop the selector \"{expression}\" of request {name} of {}", self.what),
                size::SELECTOR,
                Make::Without(format!("{field}/selectors"), selector.clone()),
            ));
        }
        for taint in self.taints(request) {
            all.push(self.tolerated(name, field, &taint));
        }
        let class = request["deviceClassName"].as_str().unwrap_or_default();
        let classes = self.view.stores.of::<DeviceClass>().iter();
        for other in classes.filter(|other| other.name != class).take(MOST) {
            all.push(self.steps(
                format!(
                    "ask for the device class {} instead of {class} in request {name} of {}",
                    other.name, self.what
                ),
                size::DEVICE_CLASS,
                Make::Set(format!("{field}/deviceClassName"), json!(other.name)),
            ));
        }
        all
    }

    /// Fewer devices than the request asks for.
    fn fewer(&self, name: &str, field: &str, request: &Value) -> Option<Relaxation> {
        let is_count = request["allocationMode"].as_str().is_none_or(|mode| mode == "ExactCount");
        let asked = request["count"].as_i64().filter(|asked| is_count && 1 < *asked)?;
        let grades =
            (1..asked).rev().take(usize::try_from(MOST_COUNTS).unwrap_or(1)).map(|count| {
                let part = i64::from(size::WHOLE_REQUEST) * (asked - count) / asked;
                Steps {
                    text: format!(
                        "ask for {count} instead of {asked} devices in request {name} of {}",
                        self.what
                    ),
                    size: size::REQUEST + u32::try_from(part).unwrap_or(size::WHOLE_REQUEST),
                    kind: RemedyKind::Pod,
                    field: Field::Devices,
                    all: vec![Step {
                        of: Some(self.of.clone()),
                        what: Make::Set(format!("{field}/count"), json!(count)),
                    }],
                }
            });
        Some(Relaxation::Graded(grades.collect()))
    }

    /// The taints of devices that the request does not tolerate, with those of rules.
    fn taints(&self, request: &Value) -> Vec<DeviceTaint> {
        let tolerated = list(request, "/tolerations");
        let is_tolerated = |taint: &DeviceTaint| {
            tolerated.iter().any(|one| {
                one["key"] == taint.key.as_str()
                    && (one["operator"] == "Exists" || one["value"] == taint.value.as_str())
            })
        };
        let slices = self.view.stores.of::<ResourceSlice>().iter();
        let devices = slices.flat_map(|slice| &slice.devices).flat_map(|device| &device.taints);
        let rules = self.view.stores.of::<DeviceTaintRule>().iter().map(|rule| &rule.taint);
        let mut taints: Vec<DeviceTaint> = Vec::new();
        for taint in devices.chain(rules) {
            let is_new = !taints.contains(taint);
            if is_new && taint.prevents_allocation() && !is_tolerated(taint) {
                taints.push(taint.clone());
            }
            if MOST <= taints.len() {
                break;
            }
        }
        taints
    }

    fn tolerated(&self, name: &str, field: &str, taint: &DeviceTaint) -> Relaxation {
        let DeviceTaint { key, value, effect } = taint;
        let toleration = match value.as_str() {
            "" => json!({"key": key, "operator": "Exists", "effect": effect}),
            value => json!({"key": key, "operator": "Equal", "value": value, "effect": effect}),
        };
        let equals = if value.is_empty() { "" } else { "=" };
        self.steps(
            format!(
                "tolerate the device taint {key}{equals}{value}:{effect} in request {name} of {}",
                self.what
            ),
            size::TOLERATION,
            Make::Push(format!("{field}/tolerations"), toleration),
        )
    }
}
