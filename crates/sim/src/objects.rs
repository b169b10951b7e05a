//! Objects that plugins write, as an API server without controllers would keep them.

use std::collections::BTreeMap;

use plimsoll_api::wire::Object;
use plimsoll_api::{KindRef, Kinds, ObjectKey};
use plimsoll_engine::{Event, WriteCause, WriteError};
use plimsoll_framework::{ObjectWrite, WriteVerb};
use serde_json::{Value, json};

/// The objects of kinds that plugins bring, as JSON: what a patch changes may be more than what a plugin reads.
#[derive(Debug, Default)]
pub(crate) struct PluginObjects {
    manifests: BTreeMap<(KindRef, ObjectKey), Value>,
    /// How often something was written.
    version: u64,
}

impl PluginObjects {
    /// An object is there from the beginning.
    pub(crate) fn set(&mut self, kind: KindRef, key: ObjectKey, manifest: Value) {
        self.manifests.insert((kind, key), manifest);
    }

    /// Does what a plugin has written; what is seen of it. Nobody who reads other fields of the kinds of Kubernetes takes
    /// part in a simulation: of these nothing is seen.
    pub(crate) fn write(&mut self, write: &ObjectWrite) -> Result<Option<Event>, WriteError> {
        if Kinds::built_in().iter().any(|kind| kind == write.kind) {
            return Ok(None);
        }
        let place = (write.kind, write.key.clone());
        let known = self.manifests.get(&place);
        let missing = || error(write, WriteCause::NotFound, "not found");
        let manifest = match &write.verb {
            WriteVerb::Create(_) if known.is_some() => {
                return Err(error(write, WriteCause::AlreadyExists, "already exists"));
            }
            WriteVerb::Create(manifest) => {
                let uid = format!("{}-{}", write.kind.plural(), self.version + 1);
                let mut manifest = manifest.to_value();
                merge(&mut manifest, &json!({ "metadata": { "uid": uid } }));
                manifest
            }
            WriteVerb::Update(manifest) => {
                let known = known.ok_or_else(missing)?;
                let mut manifest = manifest.to_value();
                check(write, known, &manifest)?;
                merge(&mut manifest, &json!({ "metadata": { "uid": known["metadata"]["uid"] } }));
                manifest
            }
            WriteVerb::Patch { merge: patch, .. } => {
                let known = known.ok_or_else(missing)?;
                let patch = patch.to_value();
                check(write, known, &patch)?;
                let mut manifest = known.clone();
                merge(&mut manifest, &patch);
                manifest
            }
            WriteVerb::Delete { uid } => {
                let known = known.ok_or_else(missing)?;
                if !uid.is_empty() && known["metadata"]["uid"] != uid.as_str() {
                    return Err(error(write, WriteCause::Conflict, "has another uid"));
                }
                self.manifests.remove(&place);
                return Ok(Some(Event::gone(write.kind, write.key.clone())));
            }
        };
        self.written(write, manifest).map(Some)
    }

    fn written(&mut self, write: &ObjectWrite, mut manifest: Value) -> Result<Event, WriteError> {
        let ObjectWrite { kind, key, .. } = write;
        let version = (self.version + 1).to_string();
        let mut head = json!({ "metadata": { "name": key.name, "resourceVersion": version } });
        if kind.is_namespaced() {
            head["metadata"]["namespace"] = json!(key.namespace);
        }
        merge(&mut manifest, &head);
        let api_version = manifest["apiVersion"].as_str().unwrap_or(kind.versions()[0]);
        let reader = kind.reader(api_version).ok_or_else(|| {
            error(write, WriteCause::Refused, &format!("has no version {api_version:?}"))
        })?;
        let object: Object = reader
            .read(&manifest.to_string())
            .map_err(|why| error(write, WriteCause::Refused, &why.to_string()))?;
        let event = Event::is(object).expect("a reader reads its own kind");
        self.version += 1;
        self.manifests.insert((*kind, key.clone()), manifest);
        Ok(event)
    }
}

/// As the API server puts it: `teamquotas.example.com "quota" not found`.
fn error(write: &ObjectWrite, cause: WriteCause, why: &str) -> WriteError {
    let (plural, group) = (write.kind.plural(), write.kind.group());
    WriteError::new(cause, format!("{plural}.{group} {:?} {why}", write.key.name))
}

/// Whether what is written takes for granted what is there.
fn check(write: &ObjectWrite, known: &Value, written: &Value) -> Result<(), WriteError> {
    for field in ["uid", "resourceVersion"] {
        let wanted = &written["metadata"][field];
        if !wanted.is_null() && *wanted != known["metadata"][field] {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(error(write, WriteCause::Conflict, why));
        }
    }
    Ok(())
}

/// A JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            if let Value::Object(target) = target {
                target.remove(name);
            }
        } else {
            merge(&mut target[name], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::wire::{Manifest, WireError};
    use plimsoll_api::{Kind, ObjectMeta};
    use plimsoll_engine::Observation;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Gadget {
        metadata: ObjectMeta,
        spec: Spec,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Spec {
        size: u32,
    }

    impl Kind for Gadget {
        const NAME: &'static str = "Gadget";
        const PLURAL: &'static str = "gadgets";
        const VERSIONS: &'static [&'static str] = &["example.com/v1"];
        fn read(manifest: Manifest<'_>) -> Result<Self, WireError> {
            manifest.parse()
        }
        fn key(&self) -> ObjectKey {
            self.metadata.key()
        }
    }

    fn write(verb: WriteVerb) -> ObjectWrite {
        let key = ObjectKey::new("default", "g");
        ObjectWrite { kind: KindRef::of::<Gadget>(), key, verb, purpose: 0 }
    }

    /// What comes of a write, in words.
    fn done(objects: &mut PluginObjects, verb: WriteVerb) -> String {
        match objects.write(&write(verb)) {
            Ok(Some(Event::Object(Observation::Is(object)))) => {
                let gadget: &Gadget = object.get().expect("it is a gadget");
                let meta = &gadget.metadata;
                format!("{} {} {}", gadget.spec.size, meta.uid, meta.resource_version)
            }
            Ok(Some(Event::Object(Observation::Gone((kind, key))))) => {
                format!("{kind} {key} is gone")
            }
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("{:?}: {error}", error.cause),
        }
    }

    #[test]
    fn writes_do_what_an_api_server_does() {
        let mut objects = PluginObjects::default();
        let patch = |merge: Value| WriteVerb::Patch { subresource: None, merge: merge.into() };
        let delete = |uid: &str| WriteVerb::Delete { uid: uid.into() };
        let spec = |size: Value| json!({ "spec": { "size": size } });
        let modified = "Conflict: gadgets.example.com \"g\" the object has been modified; \
                        please apply your changes to the latest version and try again";
        for (verb, expected) in [
            (patch(spec(json!(2))), "NotFound: gadgets.example.com \"g\" not found"),
            (delete(""), "NotFound: gadgets.example.com \"g\" not found"),
            (
                WriteVerb::Create(spec(json!("x")).into()),
                "Refused: gadgets.example.com \"g\" spec.size: invalid type: string \"x\", expected u32",
            ),
            (WriteVerb::Create(spec(json!(1)).into()), "1 gadgets-1 1"),
            (
                WriteVerb::Create(spec(json!(1)).into()),
                "AlreadyExists: gadgets.example.com \"g\" already exists",
            ),
            (patch(spec(json!(2))), "2 gadgets-1 2"),
            (patch(json!({ "metadata": { "resourceVersion": "1" } })), modified),
            (WriteVerb::Update(spec(json!(3)).into()), "3 gadgets-1 3"),
            (delete("another"), "Conflict: gadgets.example.com \"g\" has another uid"),
            (delete("gadgets-1"), "Gadget default/g is gone"),
            (delete(""), "NotFound: gadgets.example.com \"g\" not found"),
        ] {
            assert_eq!(done(&mut objects, verb.clone()), expected, "{verb:?}");
        }
    }
}
