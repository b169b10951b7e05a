//! Requests of resources.

use plimsoll_api::quantity::{Format, Quantity};
use plimsoll_api::resources::{self, CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY};
use plimsoll_api::{Pod, Str};
use serde_json::{Value, json};

use super::list;

/// Amounts in bytes are rounded down to these: 1 MiB.
const MEBIBYTE: i64 = 1 << 20;
const LISTS: [&str; 2] = ["containers", "initContainers"];
const KINDS: [&str; 2] = ["requests", "limits"];

/// The resources that the pod requests.
pub fn names(pod: &Pod) -> Vec<Str> {
    let known = [CPU, MEMORY, EPHEMERAL_STORAGE].map(Str::from);
    let names = known.into_iter().chain(pod.requests.scalar.keys().cloned());
    names.filter(|name| 0 < pod.requests.get(name)).collect()
}

/// Removes all requests and limits of a resource.
pub(super) fn remove(manifest: &mut Value, name: &str) {
    let Some(spec) = manifest["spec"].as_object_mut() else { return };
    for list in LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(resources) = container.get_mut("resources") {
                remove_from(resources, name);
            }
        }
    }
    if let Some(resources) = spec.get_mut("resources") {
        remove_from(resources, name);
    }
}

fn remove_from(resources: &mut Value, name: &str) {
    for kind in KINDS {
        if let Some(list) = resources.get_mut(kind).and_then(Value::as_object_mut) {
            list.remove(name);
        }
    }
}

/// A request that was lowered.
struct Lowered {
    /// The container; `None` for the pod as a whole.
    container: Option<String>,
    before: String,
    after: String,
}

/// Lowers the requests of a resource, so that the pod as a whole requests at most `total`, in the units of
/// [`Resources`](plimsoll_api::Resources). The largest requests are lowered first. Returns what was done in words; `None`
/// if nothing would be left of the requests.
pub fn lower(manifest: &mut Value, name: &str, total: i64) -> Option<String> {
    let overhead = amount(&manifest["spec"]["overhead"], name).map_or(0, |(amount, _)| amount);
    let budget = total.checked_sub(overhead).filter(|budget| 0 < *budget)?;
    let mut lowered = Vec::new();
    if let Some(resources) = manifest["spec"].get_mut("resources") {
        lowered.extend(lower_in(resources, name, budget, None));
    }
    let mut parallel = Vec::new();
    for list_name in LISTS {
        for (at, container) in list(manifest, &format!("/spec/{list_name}")).iter().enumerate() {
            let runs_on = list_name == "containers" || container["restartPolicy"] == "Always";
            if let Some((amount, _)) = requested(&container["resources"], name)
                && runs_on
            {
                parallel.push((list_name, at, amount));
            }
        }
    }
    let sum: i64 = parallel.iter().map(|(.., amount)| amount).sum();
    let mut excess = sum - budget;
    parallel.sort_by_key(|(list, at, amount)| (std::cmp::Reverse(*amount), *list, *at));
    for (list_name, at, amount) in parallel {
        if excess <= 0 {
            break;
        }
        let container = &mut manifest["spec"][list_name][at];
        let to = (amount - excess).max(0);
        excess -= amount - to;
        let name_of = container["name"].as_str().map(ToOwned::to_owned);
        lowered.extend(lower_in(&mut container["resources"], name, to, name_of));
    }
    // An init container runs beside those before it that go on.
    let mut beside = 0;
    let init = manifest.pointer_mut("/spec/initContainers").and_then(Value::as_array_mut);
    for container in init.into_iter().flatten() {
        let Some((amount, _)) = requested(&container["resources"], name) else { continue };
        if container["restartPolicy"] == "Always" {
            beside += amount;
            continue;
        }
        let name_of = container["name"].as_str().map(ToOwned::to_owned);
        let to = (budget - beside).max(0);
        lowered.extend(lower_in(&mut container["resources"], name, to, name_of));
    }
    let n_containers: usize =
        LISTS.iter().map(|name| list(manifest, &format!("/spec/{name}")).len()).sum();
    let texts = lowered.iter().map(|Lowered { container, before, after }| match container {
        Some(container) if 1 < n_containers => {
            format!("let container {container} request {after} {name} instead of {before}")
        }
        _ => format!("request {after} {name} instead of {before}"),
    });
    let texts: Vec<_> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(" and "))
}

/// Lowers the request in one `resources`, if it is larger than `to`.
fn lower_in(
    resources: &mut Value,
    name: &str,
    to: i64,
    container: Option<String>,
) -> Option<Lowered> {
    let (amount, before) = requested(resources, name)?;
    if amount <= to {
        return None;
    }
    let after = text_of(name, to);
    // Requests and limits of these may not differ.
    let both = resources::is_extended_resource_name(name) || name.starts_with(HUGE_PAGES_PREFIX);
    if both && resources["limits"].get(name).is_some() {
        resources["limits"][name] = json!(after);
    }
    if !both || resources["requests"].get(name).is_some() {
        resources["requests"][name] = json!(after);
    }
    Some(Lowered { container, before, after })
}

/// The request, or else the limit, which then counts as the request.
fn requested(resources: &Value, name: &str) -> Option<(i64, String)> {
    KINDS.iter().find_map(|kind| amount(&resources[*kind], name))
}

/// An amount in a list, in the units of the scheduler, and as it is written.
fn amount(list: &Value, name: &str) -> Option<(i64, String)> {
    let text = match list.get(name)? {
        Value::String(text) => text.clone(),
        number => number.to_string(),
    };
    let quantity = Quantity::parse(&text).ok()?;
    Some((resources::amount_in(&quantity, name), text))
}

/// An amount as it is written in a manifest. Bytes are rounded down to MiB.
pub(crate) fn text_of(name: &str, amount: i64) -> String {
    let is_bytes =
        matches!(name, MEMORY | EPHEMERAL_STORAGE) || name.starts_with(HUGE_PAGES_PREFIX);
    match name {
        CPU => Quantity::from_milli(amount, Format::DecimalSi).canonical(),
        _ if is_bytes && MEBIBYTE <= amount => {
            Quantity::new(amount / MEBIBYTE * MEBIBYTE, Format::BinarySi).canonical()
        }
        _ => Quantity::new(amount, Format::DecimalSi).canonical(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::pod_of;

    fn pod(spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    }

    /// Lowers cpu to `total`, and returns what was said and what the pod then requests.
    fn lowered(spec: &Value, name: &str, total: i64) -> Option<(String, i64)> {
        let mut manifest = pod(spec);
        let text = lower(&mut manifest, name, total)?;
        Some((text, pod_of(&manifest).expect("it is still right").requests.get(name)))
    }

    #[test]
    fn the_largest_request_is_lowered_and_the_others_only_if_that_is_not_enough() {
        let spec = json!({"containers": [
            {"name": "app", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
            {"name": "log", "resources": {"requests": {"cpu": "500m"}}},
        ]});
        let (text, total) = lowered(&spec, "cpu", 2000).expect("something is left");
        assert_eq!(
            (text.as_str(), total),
            ("let container app request 1500m cpu instead of 3", 2000)
        );
        let (text, total) = lowered(&spec, "cpu", 100).expect("something is left");
        assert!(text.contains("app request 0") && text.contains("log request 100m"), "{text}");
        assert_eq!(total, 100);
        assert_eq!(lowered(&spec, "cpu", 0), None);
    }

    #[test]
    fn init_containers_sidecars_overhead_and_limits_count() {
        let spec = json!({
            "overhead": {"memory": "100Mi"},
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"memory": "200Mi"}}},
                {"name": "init", "resources": {"requests": {"memory": "4Gi"}}},
            ],
            "containers": [{"name": "app", "resources": {"limits": {"memory": "2Gi"}}}],
        });
        let (_, total) = lowered(&spec, "memory", 1 << 30).expect("something is left");
        assert_eq!(total, 1 << 30);
    }

    #[test]
    fn what_must_be_equal_stays_equal() {
        let resources = json!({"requests": {"nvidia.com/gpu": 8}, "limits": {"nvidia.com/gpu": 8}});
        let spec = json!({"containers": [{"name": "app", "resources": resources}]});
        let mut manifest = pod(&spec);
        let text = lower(&mut manifest, "nvidia.com/gpu", 2).expect("something is left");
        assert_eq!(text, "request 2 nvidia.com/gpu instead of 8");
        let resources = &manifest["spec"]["containers"][0]["resources"];
        assert_eq!(resources["requests"], resources["limits"]);
    }

    #[test]
    fn without_a_request_nothing_of_the_resource_is_left() {
        let spec = json!({"containers": [
            {"name": "app", "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": 4}}},
        ]});
        let mut manifest = pod(&spec);
        remove(&mut manifest, "cpu");
        assert_eq!(pod_of(&manifest).expect("it is right").requests.get("cpu"), 0);
    }
}
