//! Replaces names by hashes, so that a snapshot can be shown to others.
//!
//! Equal texts have equal hashes wherever they are, so references match: the name of a node is also the value of its label
//! `kubernetes.io/hostname`, and the name of a namespace is in the terms of pod affinity. Everything is hashed that is not
//! known to be needed as it is: a field that is forgotten here shows in a decision, not in a leak.

use std::collections::BTreeMap;

use plimsoll_api::normalized_image_name;
use ring::hmac;
use serde_json::{Map, Value};

/// How many bytes of a hash are written, in hexadecimal digits. Two texts with one hash are an error, which is unlikely for
/// less than a million texts.
const BYTES: usize = 6;

/// Separates the parts of names such as `request/alternative`. Parts are hashed one by one, since rules take them apart.
const SEPARATOR: char = '/';
/// Separates the zones in a label of a volume, as in volume_zone.go.
const ZONES: &str = "__";

/// Fields whose texts are words, times, keys of labels, or names of resources, drivers and schedulers.
const KEPT: [&str; 48] = [
    "accessModes",
    "action",
    "allocationMode",
    "allocationTimestamp",
    "apiGroup",
    "apiVersion",
    "attacher",
    "bindingConditions",
    "bindingFailureConditions",
    "capacity",
    "creationTimestamp",
    "declaredFeatures",
    "deletionTimestamp",
    "disruptionMode",
    "distinctAttribute",
    "driver",
    "effect",
    "evictionTime",
    "expression",
    "extendedResourceName",
    "finalizers",
    "key",
    "kind",
    "matchAttribute",
    "matchLabelKeys",
    "maximumVolumeSize",
    "mismatchLabelKeys",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "operator",
    "phase",
    "preemptionPolicy",
    "protocol",
    "provisioner",
    "resource",
    "resourceName",
    "resourceVersion",
    "restartPolicy",
    "schedulerName",
    "shareID",
    "source",
    "startTime",
    "timeAdded",
    "topologyKey",
    "topologyKeys",
    "volumeBindingMode",
    "volumeMode",
    "whenUnsatisfiable",
];

/// The fields of a condition that are words.
const OF_CONDITIONS: [&str; 3] = ["reason", "status", "type"];

/// Maps from names of resources, attributes or counters to amounts and values: they stay, since expressions name them.
const KEPT_TABLES: [&str; 12] = [
    "allocatable",
    "allocatedResources",
    "attributes",
    "capacity",
    "consumedCapacity",
    "counters",
    "limits",
    "minResources",
    "nodeAllocatableResourceMappings",
    "overhead",
    "requests",
    "validRange",
];

/// Maps from keys of labels to values.
const LABELS: [&str; 5] = ["annotations", "labels", "matchLabels", "nodeSelector", "selector"];

/// Annotations whose values are names of drivers.
const DRIVERS: [&str; 4] = [
    "pv.kubernetes.io/provisioned-by",
    "storage.alpha.kubernetes.io/migrated-plugins",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
];

/// The annotation that is JSON.
const AVOIDED: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

/// The prefix of the resource that stands for a DeviceClass: the name of the class follows.
const CLASS_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";

/// Two texts have one hash.
#[derive(Debug, thiserror::Error)]
#[error("two names have one hash with this key: choose another one with --hash-key")]
pub(crate) struct Collision;

/// Hashes names with one key.
pub(crate) struct NameHash {
    key: hmac::Key,
    /// The text of each hash.
    texts: BTreeMap<String, String>,
    /// Names that controllers make of others: their hash is made of the hashes of those.
    derived: BTreeMap<String, String>,
    collides: bool,
}

impl NameHash {
    pub(crate) fn new(key: &[u8]) -> Self {
        NameHash {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            texts: BTreeMap::new(),
            derived: BTreeMap::new(),
            collides: false,
        }
    }

    /// Hashes the names in the reduced manifests of a cluster. Namespaced objects must have a namespace.
    pub(crate) fn hash_all(&mut self, manifests: &mut [Value]) -> Result<(), Collision> {
        for pod in manifests.iter().filter(|manifest| manifest["kind"] == "Pod") {
            self.derive_claims(pod);
        }
        for manifest in manifests {
            self.hash_object(manifest);
        }
        if self.collides { Err(Collision) } else { Ok(()) }
    }

    /// As in ephemeral.go, VolumeClaimName: the claim of an ephemeral volume is called by pod and volume.
    fn derive_claims(&mut self, pod: &Value) {
        let Some(name) = pod["metadata"]["name"].as_str() else { return };
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        for volume in volumes.filter(|volume| !volume["ephemeral"].is_null()) {
            if let Some(volume) = volume["name"].as_str() {
                let hash = format!("{}-{}", self.word(name), self.word(volume));
                self.derived.insert(format!("{name}-{volume}"), hash);
            }
        }
    }

    fn hash_object(&mut self, manifest: &mut Value) {
        // The object of a driver is called like the driver.
        let driver = (manifest["kind"] == "CSIDriver").then(|| manifest["metadata"]["name"].take());
        self.field("", "", manifest);
        if let Some(name) = driver {
            manifest["metadata"]["name"] = name;
        }
    }

    /// Hashes the value of the field `key` in an object that is in the field `within`. The items of a list are in the field
    /// of the list.
    fn field(&mut self, within: &str, key: &str, value: &mut Value) {
        match value {
            Value::Array(items) => {
                for item in items {
                    match item {
                        // A list is no table, even if it is called like one.
                        Value::Object(fields) => self.fields(key, fields),
                        item => self.field(within, key, item),
                    }
                }
            }
            Value::Object(fields) if is_kept_table(within, key) => {
                self.keys(fields, |hash, key| match key.strip_prefix(CLASS_RESOURCE) {
                    Some(class) => format!("{CLASS_RESOURCE}{}", hash.text(class)),
                    None => key.to_owned(),
                });
            }
            Value::Object(fields) => {
                if key == "disruptedPods" {
                    self.keys(fields, Self::text);
                }
                self.fields(key, fields);
            }
            Value::String(text) if LABELS.contains(&within) => {
                *text = match key {
                    AVOIDED => self.json(text),
                    key if DRIVERS.contains(&key) => return,
                    _ => self.text(text),
                };
            }
            Value::String(_) if is_kept(within, key) => {}
            Value::String(text) if is_image(within, key) => *text = self.image(text),
            Value::String(text) if key == "hostIP" && is_every_address(text) => {}
            Value::String(text) => *text = self.text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn fields(&mut self, within: &str, fields: &mut Map<String, Value>) {
        for (key, value) in fields {
            self.field(within, key, value);
        }
    }

    /// Replaces the keys of a table.
    fn keys(&mut self, table: &mut Map<String, Value>, new: impl Fn(&mut Self, &str) -> String) {
        let fields = std::mem::take(table);
        table.extend(fields.into_iter().map(|(key, value)| (new(self, &key), value)));
    }

    /// The hash of a name or a value of a label.
    pub(crate) fn text(&mut self, text: &str) -> String {
        if let Some(derived) = self.derived.get(text) {
            return derived.clone();
        }
        let parts = text.split(SEPARATOR).map(|part| {
            let zones: Vec<String> = part.split(ZONES).map(|zone| self.word(zone)).collect();
            zones.join(ZONES)
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// Numbers stay, since selectors and tolerations compare them; and so do the values of switches.
    fn word(&mut self, word: &str) -> String {
        if word.is_empty() || word == "true" || word == "false" || word.parse::<i64>().is_ok() {
            return word.to_owned();
        }
        let tag = hmac::sign(&self.key, word.as_bytes());
        let digits = tag.as_ref()[..BYTES].iter().map(|byte| format!("{byte:02x}"));
        // A name begins with a letter.
        let hash = format!("h{}", digits.collect::<String>());
        let first = self.texts.entry(hash.clone()).or_insert_with(|| word.to_owned());
        self.collides |= first != word;
        hash
    }

    /// Images are equal if their names are with the tag that they have by default.
    fn image(&mut self, name: &str) -> String {
        match name {
            "" => String::new(),
            name => format!("{}:1", self.word(&normalized_image_name(name))),
        }
    }

    fn json(&mut self, text: &str) -> String {
        let Ok(mut value) = serde_json::from_str::<Value>(text) else { return self.text(text) };
        self.field("", "", &mut value);
        value.to_string()
    }
}

fn is_kept(within: &str, key: &str) -> bool {
    KEPT.contains(&key)
        || within == "conditions" && OF_CONDITIONS.contains(&key)
        || within == "drivers" && key == "name"
}

fn is_kept_table(within: &str, key: &str) -> bool {
    KEPT_TABLES.contains(&key)
        || key == "resources" && within == "nodeAllocatableResourceClaimStatuses"
}

fn is_image(within: &str, key: &str) -> bool {
    match key {
        "image" => true,
        "reference" => within == "image",
        "names" => within == "images",
        _ => false,
    }
}

/// Whether a host port is taken on every address.
fn is_every_address(text: &str) -> bool {
    ["0.0.0.0", "::"].contains(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hashed(mut manifests: Vec<Value>) -> (Vec<Value>, NameHash) {
        let mut names = NameHash::new(b"a key of 16 bytes");
        names.hash_all(&mut manifests).expect("no two hashes are equal");
        (manifests, names)
    }

    #[test]
    fn references_still_match() {
        let (objects, mut names) = hashed(vec![
            json!({"kind": "Node", "metadata": {"name": "n1", "labels": {
                "kubernetes.io/hostname": "n1", "type": "large", "cores": "16"}}}),
            json!({"kind": "Pod", "metadata": {"name": "web-0", "namespace": "shop"}, "spec": {
                "nodeName": "n1", "schedulerName": "default-scheduler",
                "nodeSelector": {"type": "large"},
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [
                        {"key": "cores", "operator": "Gt", "values": ["8"]},
                        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}]}}},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            }}),
        ]);
        let node = names.text("n1");
        assert_eq!(objects[0]["metadata"]["name"], node);
        assert_eq!(objects[0]["metadata"]["labels"]["kubernetes.io/hostname"], node);
        assert_eq!(objects[0]["metadata"]["labels"]["cores"], "16");
        let spec = &objects[1]["spec"];
        assert_eq!(spec["nodeName"], node);
        assert_eq!(spec["nodeSelector"]["type"], objects[0]["metadata"]["labels"]["type"]);
        assert_ne!(spec["nodeSelector"]["type"], "large");
        let terms =
            &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let terms = &terms["nodeSelectorTerms"][0]["matchExpressions"];
        assert_eq!(terms[0], json!({"key": "cores", "operator": "Gt", "values": ["8"]}));
        assert_eq!(terms[1]["values"][0], node);
        assert_eq!(spec["schedulerName"], "default-scheduler");
        assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "1");
        let text = json!(objects).to_string();
        for name in ["web-0", "shop", "large", "\"n1\""] {
            assert!(!text.contains(name), "{name}: {text}");
        }
    }

    #[test]
    fn names_that_are_made_of_others_are_made_of_their_hashes() {
        let (objects, mut names) = hashed(vec![
            json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "web-0-scratch"}}),
            json!({"kind": "Pod", "metadata": {"name": "web-0"}, "spec": {"volumes": [
                {"name": "scratch", "ephemeral": {}}]}}),
            json!({"kind": "PersistentVolume", "metadata": {"name": "pv", "labels": {
                "topology.kubernetes.io/zone": "a__b"}}}),
            json!({"kind": "ResourceClaim", "spec": {"devices": {
                "requests": [{"name": "gpu", "firstAvailable": [{"name": "large"}]}],
                "constraints": [{"requests": ["gpu/large"], "matchAttribute": "example.com/model"}]}}}),
        ]);
        let claim = format!("{}-{}", names.word("web-0"), names.word("scratch"));
        assert_eq!(objects[0]["metadata"]["name"], claim);
        let zones = format!("{}__{}", names.word("a"), names.word("b"));
        assert_eq!(objects[2]["metadata"]["labels"]["topology.kubernetes.io/zone"], zones);
        let devices = &objects[3]["spec"]["devices"];
        assert_eq!(devices["requests"][0]["name"], names.word("gpu"));
        let constraint = &devices["constraints"][0];
        let request = format!("{}/{}", names.word("gpu"), names.word("large"));
        assert_eq!(
            *constraint,
            json!({"requests": [request], "matchAttribute": "example.com/model"})
        );
    }

    #[test]
    fn images_match_with_and_without_their_default_tag() {
        let (objects, _) = hashed(vec![
            json!({"kind": "Node", "status": {"images": [{"names": ["web:latest"], "sizeBytes": 7}]}}),
            json!({"kind": "Pod", "spec": {"containers": [{"image": "web"}]}}),
        ]);
        let image = &objects[1]["spec"]["containers"][0]["image"];
        assert_eq!(objects[0]["status"]["images"][0]["names"][0], *image);
        let image = image.as_str().expect("it is a text");
        assert_eq!(normalized_image_name(image), image);
    }

    #[test]
    fn drivers_and_resources_keep_their_names() {
        let (objects, mut names) = hashed(vec![
            json!({"kind": "CSIDriver", "metadata": {"name": "disks.example.com"}}),
            json!({"kind": "CSINode", "spec": {"drivers": [{"name": "disks.example.com"}]}}),
            json!({"kind": "Pod", "spec": {"containers": [{"resources": {"requests": {
                "example.com/gpu": "1", "deviceclass.resource.kubernetes.io/fast": "2"}}}]}}),
            json!({"kind": "PodGroup", "spec": {"minResources": {"memory": "4Gi"}}}),
        ]);
        assert_eq!(objects[0]["metadata"]["name"], "disks.example.com");
        assert_eq!(objects[1]["spec"]["drivers"][0]["name"], "disks.example.com");
        let class = format!("deviceclass.resource.kubernetes.io/{}", names.word("fast"));
        let requests = &objects[2]["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(*requests, json!({"example.com/gpu": "1", class: "2"}));
        assert_eq!(objects[3]["spec"]["minResources"]["memory"], "4Gi");
    }

    #[test]
    fn another_key_makes_other_hashes() {
        let mut one = NameHash::new(b"one key of 16 bytes");
        let mut other = NameHash::new(b"other key of 16 bytes");
        assert_ne!(one.text("web"), other.text("web"));
        assert_eq!(one.text("web"), one.text("web"));
    }
}
