//! The cluster as an instance has it: what it believes, put over the objects of the API server.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::wording::{count, some_of};

/// The annotation with the place of a pod in the queue. Nothing reads it but people.
pub(crate) const QUEUE: &str = "plimsoll.io/queue";
/// At most so many objects are named in a note.
const NAMES: usize = 5;

/// What an instance believes: the answer of `/api/v1/instance`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Belief {
    as_of: String,
    nodes: BTreeSet<String>,
    placed: Vec<Placed>,
    waiting: Vec<Waiting>,
}

#[derive(Debug, Deserialize)]
struct Placed {
    pod: String,
    uid: String,
    node: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    pod: String,
    uid: String,
    profile: String,
    state: String,
    node: Option<String>,
    nominated_node: Option<String>,
    attempts: u32,
    queued_at: String,
    #[serde(default)]
    rejected_by: Vec<String>,
}

/// A snapshot as an instance has it.
#[derive(Debug, Default)]
pub(crate) struct Believed {
    /// The places in the queue, each with the index of its pod among the manifests. They name no object.
    pub(crate) queue: Vec<(usize, String)>,
    /// How it differs from what the API server has, for people.
    pub(crate) notes: Vec<String>,
}

impl Belief {
    /// Reads the answer of an instance.
    pub(crate) fn of(answer: &Value) -> Result<Self> {
        Belief::deserialize(answer).context("the instance is of another version: /api/v1/instance")
    }

    /// Makes of the objects of the API server those that the instance believes to be there.
    pub(crate) fn put_over(&self, manifests: &mut Vec<Value>) -> Believed {
        let placed: BTreeMap<&str, &Placed> =
            self.placed.iter().map(|one| (one.pod.as_str(), one)).collect();
        let waiting: BTreeMap<&str, &Waiting> =
            self.waiting.iter().map(|one| (one.pod.as_str(), one)).collect();
        let (mut unknown, mut unlisted) = (Vec::new(), placed.len() + waiting.len());
        let (mut assumed, mut elsewhere) = (0, Vec::new());
        let mut queue = BTreeMap::new();
        manifests.retain_mut(|manifest| {
            let name = full_name(manifest);
            match manifest["kind"].as_str() {
                Some("Node") if !self.nodes.contains(&name) => {
                    unknown.push(format!("node {name}"));
                    return false;
                }
                Some("Pod") => {}
                _ => return true,
            }
            let uid = manifest["metadata"]["uid"].as_str().unwrap_or_default();
            let node = manifest["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
            if let Some(one) = placed.get(name.as_str()).filter(|one| one.uid == uid) {
                unlisted -= 1;
                if node != Some(one.node.as_str()) {
                    elsewhere.push(name);
                    manifest["spec"]["nodeName"] = json!(one.node);
                }
                return true;
            }
            if let Some(one) = waiting.get(name.as_str()).filter(|one| one.uid == uid) {
                unlisted -= 1;
                if node != one.node.as_deref() {
                    match one.node {
                        Some(_) => assumed += 1,
                        None => elsewhere.push(name.clone()),
                    }
                }
                one.put_over(manifest);
                queue.insert(name, one.place());
                return true;
            }
            // Without a node it has ended, or another scheduler is to place it: an instance need not know it.
            let has_ended =
                matches!(manifest["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            if node.is_none() || has_ended {
                return true;
            }
            unknown.push(format!("pod {name}"));
            false
        });
        let mut believed = Believed::default();
        for (at, manifest) in manifests.iter().enumerate() {
            if manifest["kind"] == "Pod"
                && let Some(place) = queue.remove(&full_name(manifest))
            {
                believed.queue.push((at, place));
            }
        }
        believed.notes = self.notes(assumed, &elsewhere, (&unknown, unlisted));
        believed
    }

    fn notes(
        &self,
        assumed: usize,
        elsewhere: &[String],
        (unknown, unlisted): (&[String], usize),
    ) -> Vec<String> {
        let mut notes = vec![format!(
            "the instance had this picture at {}: {} waiting",
            self.as_of,
            count(self.waiting.len(), "pod")
        )];
        if 0 < assumed {
            notes.push(format!(
                "{} for which the instance has chosen a node, and which the API server has not yet on it: what it assumes of \
                 their claims is not in the snapshot",
                count(assumed, "pod")
            ));
        }
        if !elsewhere.is_empty() {
            let names = some_of(elsewhere, NAMES);
            notes.push(format!(
                "the instance has these pods on other nodes than the API server: {names}"
            ));
        }
        if !unknown.is_empty() {
            let names = some_of(unknown, NAMES);
            notes.push(format!("left out, as the instance does not know them: {names}"));
        }
        if 0 < unlisted {
            notes.push(format!(
                "not in the snapshot, as the API server does not have them: {} that the instance knows",
                count(unlisted, "pod")
            ));
        }
        notes
    }
}

impl Waiting {
    /// Makes the manifest say what the instance believes of the pod.
    fn put_over(&self, manifest: &mut Value) {
        let mut set = |part: &str, field: &str, value: Option<&str>| match value {
            Some(value) => manifest[part][field] = json!(value),
            None => {
                if let Some(fields) = manifest.get_mut(part).and_then(Value::as_object_mut) {
                    fields.remove(field);
                }
            }
        };
        set("spec", "nodeName", self.node.as_deref());
        set("spec", "schedulerName", Some(&self.profile));
        set("status", "nominatedNodeName", self.nominated_node.as_deref());
    }

    /// Its place in the queue, without names of objects.
    fn place(&self) -> String {
        let attempts = count(self.attempts as usize, "attempt");
        let by = match self.rejected_by.as_slice() {
            [] => String::new(),
            plugins => format!(", rejected by {}", plugins.join(", ")),
        };
        format!("{} since {}, {attempts}{by}", self.state, self.queued_at)
    }
}

/// `namespace/name`, or the name of an object without a namespace.
fn full_name(manifest: &Value) -> String {
    let text = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: &str, spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "shop", "name": name, "uid": uid}, "spec": spec})
    }

    fn belief() -> Belief {
        let waiting = |name: &str, state: &str, more: &Value| {
            let mut one = json!({"pod": format!("shop/{name}"), "uid": name, "profile": "packing",
                "state": state, "attempts": 2, "queuedAt": "2026-11-25T19:00:00Z"});
            let fields = one.as_object_mut().expect("it is an object");
            fields.extend(more.as_object().expect("it is an object").clone());
            one
        };
        let answer = json!({
            "asOf": "2026-11-25T19:00:01Z", "nodes": ["n1", "n2"],
            "placed": [
                {"pod": "shop/placed", "uid": "placed", "node": "n1"},
                {"pod": "shop/replaced", "uid": "old", "node": "n1"},
            ],
            "waiting": [
                waiting("assumed", "inFlight", &json!({"node": "n2"})),
                waiting("waits", "unschedulable", &json!({"rejectedBy": ["NodeResourcesFit"]})),
                waiting("nominated", "backoff", &json!({"nominatedNode": "n1"})),
            ],
        });
        Belief::of(&answer).expect("it is an answer")
    }

    #[test]
    fn the_snapshot_has_what_the_instance_believes() {
        let node =
            |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let mut manifests = vec![
            node("n1"),
            node("n2"),
            node("unseen"),
            pod("placed", "placed", &json!({"nodeName": "n1"})),
            pod("assumed", "assumed", &json!({"schedulerName": "default-scheduler"})),
            pod("waits", "waits", &json!({})),
            pod("nominated", "nominated", &json!({})),
            // It was deleted and made again, which the instance has not seen yet.
            pod("replaced", "new", &json!({"nodeName": "n2"})),
            pod("foreign", "foreign", &json!({"schedulerName": "other"})),
        ];
        let believed = belief().put_over(&mut manifests);
        let names: Vec<String> = manifests.iter().map(full_name).collect();
        let expected = [
            "n1",
            "n2",
            "shop/placed",
            "shop/assumed",
            "shop/waits",
            "shop/nominated",
            "shop/foreign",
        ];
        assert_eq!(names, expected);
        let spec = |at: usize| &manifests[at]["spec"];
        assert_eq!(spec(2), &json!({"nodeName": "n1"}));
        assert_eq!(spec(3), &json!({"nodeName": "n2", "schedulerName": "packing"}));
        assert_eq!(spec(4), &json!({"schedulerName": "packing"}));
        assert_eq!(manifests[5]["status"], json!({"nominatedNodeName": "n1"}));
        assert_eq!(spec(5), &json!({"schedulerName": "packing"}));
        assert_eq!(spec(6), &json!({"schedulerName": "other"}), "it is left alone");
        let waits =
            "unschedulable since 2026-11-25T19:00:00Z, 2 attempts, rejected by NodeResourcesFit";
        assert_eq!(believed.queue[1], (4, waits.to_owned()));
        assert_eq!(believed.queue.len(), 3);
        let notes = believed.notes.join("\n");
        for part in [
            "at 2026-11-25T19:00:01Z: 3 pods waiting",
            "1 pod for which the instance has chosen a node",
            "does not know them: node unseen, pod shop/replaced",
            "does not have them: 1 pod that the instance knows",
        ] {
            assert!(notes.contains(part), "{part}: {notes}");
        }
    }
}
