//! One stored object: its JSON, serialized once and shared by every list and watch, and the fields that
//! selectors use.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::kinds::{ResourceKind, StoredForm};

/// An object as it is at one resource version. It never changes: a write stores another.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Empty for kinds of the cluster.
    pub(crate) namespace: String,
    /// `metadata.name`.
    pub(crate) name: String,
    /// `metadata.uid`.
    pub(crate) uid: String,
    /// `metadata.resourceVersion`.
    pub(crate) version: u64,
    /// The key within its kind: `namespace/name`, or the name alone.
    pub(crate) key: Arc<str>,
    labels: Box<[(String, String)]>,
    fields: Box<[String]>,
    /// Everything except `apiVersion` and `kind`, as in the items of lists.
    body: Bytes,
    /// The same in the other form that the kind has, if it has one.
    as_other: OnceLock<Bytes>,
}

/// The key of an object among its kind.
pub(crate) fn key_of(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Text at a path, empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The metadata of an object; one that has none gets an empty one.
pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    field_object(object, "metadata")
}

/// The object under `field`, made if there is none.
pub(crate) fn field_object<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let value = &mut object[field];
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it has just been made an object")
}

impl Stored {
    /// Serializes `object`, whose metadata is complete except for the resource version.
    pub(crate) fn new(kind: &ResourceKind, mut object: Value, version: u64) -> Self {
        let meta = metadata(&mut object);
        meta.insert("resourceVersion".to_owned(), version.to_string().into());
        let owned = |key: &str| {
            meta.get(key).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
        };
        let (namespace, name, uid) = (owned("namespace"), owned("name"), owned("uid"));
        let labels = meta.get("labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect();
        let fields = kind.fields.iter().map(|(name, at)| field_text(&object, name, at)).collect();
        if let Some(object) = object.as_object_mut() {
            object.remove("apiVersion");
            object.remove("kind");
        }
        let body = serde_json::to_vec(&object).expect("JSON values can be written").into();
        let key = key_of(&namespace, &name).into();
        Self { namespace, name, uid, version, key, labels, fields, body, as_other: OnceLock::new() }
    }

    pub(crate) fn labels(&self) -> &[(String, String)] {
        &self.labels
    }

    /// The value of a selectable field, by its place in [`ResourceKind::fields`]; empty if there is none.
    pub(crate) fn field(&self, at: usize) -> &str {
        self.fields.get(at).map(String::as_str).unwrap_or_default()
    }

    /// The JSON object without `apiVersion` and `kind`, as lists hold it.
    pub(crate) fn item(&self, form: StoredForm) -> &Bytes {
        match form {
            StoredForm::Stored => &self.body,
            other => self.as_other.get_or_init(|| {
                let object = other.show(self.value());
                serde_json::to_vec(&object).expect("JSON values can be written").into()
            }),
        }
    }

    /// The stored object without `apiVersion` and `kind`.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).expect("what was written as JSON is JSON")
    }

    /// The object as a group and version shows it.
    pub(crate) fn shown(&self, form: StoredForm, api_version: &str, kind: &str) -> Value {
        let mut object = form.show(self.value());
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object
    }
}

fn field_text(object: &Value, name: &str, pointer: &str) -> String {
    match (object.pointer(pointer), name) {
        (Some(Value::String(text)), _) => text.clone(),
        (Some(Value::Bool(value)), _) => value.to_string(),
        (Some(Value::Number(value)), _) => value.to_string(),
        (_, "spec.unschedulable" | "spec.hostNetwork") => "false".to_owned(),
        // As in event/strategy.go: the source of a new event is its reporting controller.
        (_, "source") => text(object, "/reportingComponent").to_owned(),
        _ => String::new(),
    }
}
