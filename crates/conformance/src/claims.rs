//! The claims of a case in mode `trace`: after each decision they are as PreBind leaves them.

use std::collections::BTreeMap;

use plimsoll_engine::Decision;
use serde_json::{Value, json};

/// The claims of a case as manifests, by namespace and name.
pub(crate) struct Claims {
    of: BTreeMap<String, Value>,
    n_shares: usize,
}

impl Claims {
    /// Those among the objects of a case.
    pub(crate) fn of(objects: &[Value]) -> Self {
        let claims = objects.iter().filter(|object| object["kind"] == "ResourceClaim");
        let named = claims.map(|claim| {
            let text = |key: &str| claim["metadata"][key].as_str().unwrap_or_default().to_owned();
            (format!("{}/{}", text("namespace"), text("name")), claim.clone())
        });
        Claims { of: named.collect(), n_shares: 0 }
    }

    /// The claims that a decision changes, as they are afterwards.
    pub(crate) fn after(&mut self, decision: &Decision, objects: &[Value]) -> Vec<Value> {
        let key = |key: &str| decision.described.decision.get(key);
        let list = |name: &str| key(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let name = decision.pod.to_string();
        let pod = objects.iter().find(|object| {
            object["kind"] == "Pod"
                && object["metadata"]["name"] == decision.pod.name.as_str()
                && object["metadata"]["namespace"] == decision.pod.namespace.as_str()
        });
        let uid = pod.map_or(json!(name), |pod| pod["metadata"]["uid"].clone());
        let consumer =
            json!({"resource": "pods", "name": decision.pod.name.as_str(), "uid": uid.clone()});
        let mut changed = Vec::new();
        for allocation in list("allocations") {
            let claim_name = allocation["claim"].as_str().unwrap_or_default();
            let mut results = allocation["devices"].clone();
            for result in results.as_array_mut().into_iter().flatten() {
                let result = result.as_object_mut().expect("it describes a device");
                if result.remove("shared").is_some() {
                    self.n_shares += 1;
                    result.insert("shareID".to_owned(), json!(format!("share-{}", self.n_shares)));
                }
            }
            let made = json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {
                    "namespace": decision.pod.namespace.as_str(),
                    "name": format!("{}-extended", decision.pod.name),
                    "uid": format!("{name}-extended"),
                },
                "spec": { "devices": {} },
            });
            // The claim for extended resources has no name in the record.
            let is_made = claim_name.ends_with("/<extended-resources>");
            let known = self.of.get(claim_name).filter(|_| !is_made);
            let mut claim = known.cloned().unwrap_or(made);
            claim["status"] = json!({
                "allocation": {
                    "devices": { "results": results },
                    "nodeSelector": allocation.get("nodeSelector"),
                },
                "reservedFor": [consumer.clone()],
            });
            if !is_made {
                self.of.insert(claim_name.to_owned(), claim.clone());
            }
            changed.push(claim);
        }
        for name in list("reserved") {
            let Some(claim) = self.of.get_mut(name.as_str().unwrap_or_default()) else { continue };
            let mut consumers =
                claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
            consumers.push(consumer.clone());
            claim["status"]["reservedFor"] = Value::Array(consumers);
            changed.push(claim.clone());
        }
        let deallocated = key("deallocated").and_then(Value::as_str);
        if let Some(claim) = deallocated.and_then(|name| self.of.get_mut(name)) {
            claim["status"] = json!({});
            changed.push(claim.clone());
        }
        changed
    }
}
