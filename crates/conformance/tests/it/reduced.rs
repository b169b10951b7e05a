//! Manifests that are reduced to what decisions need are read as the same objects as the whole ones, so the decisions on them are
//! the same; and nothing else is left of them.

use plimsoll_api::wire::{self, Object, READ_ANNOTATIONS};
use plimsoll_api::{Kinds, Labels};
use plimsoll_conformance::suite;
use serde_json::{Value, json};

const SECRET: &str = "s3cret-that-nobody-reads";

/// Maps in which every key is read.
const TABLES: [&str; 17] = [
    "allocatable",
    "allocatedResources",
    "annotations",
    "attributes",
    "capacity",
    "consumedCapacity",
    "counters",
    "disruptedPods",
    "labels",
    "limits",
    "matchLabels",
    "nodeAllocatableResourceMappings",
    "nodeSelector",
    "overhead",
    "requests",
    "resources",
    "selector",
];

/// Adds a secret to every object in a manifest that is not a table.
fn plant(value: &mut Value, key: &str) {
    match value {
        Value::Array(items) => {
            for item in items {
                // A list is no table, even if it is called like one.
                plant(item, "");
            }
        }
        Value::Object(fields) => {
            for (key, value) in &mut *fields {
                plant(value, key);
            }
            if !TABLES.contains(&key) {
                fields.insert("notRead".to_owned(), json!({"value": SECRET, "more": [SECRET]}));
            }
            if key == "metadata" {
                let annotations = fields.entry("annotations").or_insert_with(|| json!({}));
                if let Some(annotations) = annotations.as_object_mut() {
                    annotations.insert("example.com/note".to_owned(), json!(SECRET));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The object without what decides nothing: annotations that are not read, and parameters of devices.
fn read(manifest: &Value) -> Object {
    let mut manifest = manifest.clone();
    without_parameters(&mut manifest);
    let of_interest = |annotations: &Labels| -> Labels {
        let kept = annotations.iter().filter(|(key, _)| READ_ANNOTATIONS.contains(&key.as_str()));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let mut object = wire::object(&manifest).expect("the corpus has objects that can be read");
    match &mut object {
        Object::Pod(pod) => pod.annotations = of_interest(&pod.annotations),
        Object::Node(node) => node.annotations = of_interest(&node.annotations),
        Object::Other(_) | Object::Unknown { .. } => {}
    }
    object
}

fn without_parameters(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_parameters),
        Value::Object(fields) => {
            if let Some(opaque) = fields.get_mut("opaque").and_then(Value::as_object_mut) {
                opaque.remove("parameters");
            }
            fields.values_mut().for_each(without_parameters);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[track_caller]
fn check(name: &str) {
    let kinds = Kinds::built_in();
    let (mut n_objects, mut n_before, mut n_after) = (0, 0, 0);
    for (case, _) in suite(name) {
        for object in &case.objects {
            let text = |field: &str| object[field].as_str().unwrap_or_default();
            let Some(reader) = kinds.reader(text("apiVersion"), text("kind")) else { continue };
            let mut planted = object.clone();
            plant(&mut planted, "");
            let reduced = reader.reduce(&planted, &|_| false).expect("it can be read");
            let shown = reduced.to_string();
            assert!(!shown.contains(SECRET), "{}: {shown}", case.name);
            assert_eq!(read(&reduced), read(object), "{}: {object} {reduced}", case.name);
            n_objects += 1;
            n_before += planted.to_string().len();
            n_after += shown.len();
        }
    }
    assert!(0 < n_objects && n_after < n_before, "suite {name} has objects");
}

macro_rules! suites {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    )* };
}

suites! {
    resources taints nodeaffinity ports images spread podaffinity mixed preemption nominated volumes
    dra_claims dra_extended
}
