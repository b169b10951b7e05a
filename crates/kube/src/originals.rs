//! Pods and nodes as the API server wrote them, for HTTP extenders, which receive fields that scheduling
//! does not read. They are stored only if an extender is configured.

use std::sync::{Arc, PoisonError, RwLock};

use plimsoll_api::{ObjectKey, PodKey, Str};
use rustc_hash::FxHashMap;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Gives pods and nodes as the API server wrote them.
pub trait Originals: Send + Sync {
    /// The pod, if it is known.
    fn pod(&self, key: &PodKey) -> Option<Arc<RawValue>>;
    /// The node, if it is known.
    fn node(&self, name: &str) -> Option<Arc<RawValue>>;
}

/// Stores originals; watches keep it up to date.
#[derive(Debug, Default)]
pub struct OriginalStore {
    pods: RwLock<FxHashMap<PodKey, Arc<RawValue>>>,
    nodes: RwLock<FxHashMap<Str, Arc<RawValue>>>,
}

impl Originals for OriginalStore {
    fn pod(&self, key: &PodKey) -> Option<Arc<RawValue>> {
        self.pods.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn node(&self, name: &str) -> Option<Arc<RawValue>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

impl OriginalStore {
    /// Stores a pod. `json` is valid.
    pub(crate) fn set_pod(&self, key: PodKey, json: &str) {
        if let Some(original) = reduced(json) {
            self.pods.write().unwrap_or_else(PoisonError::into_inner).insert(key, original);
        }
    }

    /// Stores a node. `json` is valid.
    pub(crate) fn set_node(&self, name: Str, json: &str) {
        if let Some(original) = reduced(json) {
            self.nodes.write().unwrap_or_else(PoisonError::into_inner).insert(name, original);
        }
    }

    /// Removes a deleted pod.
    pub(crate) fn remove_pod(&self, key: &ObjectKey) {
        self.pods.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Removes a deleted node.
    pub(crate) fn remove_node(&self, name: &str) {
        self.nodes.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// An object without `metadata.managedFields`, often its larger half. As in scheduler.go,
/// newPodInformer, which drops them from pods.
fn reduced(json: &str) -> Option<Arc<RawValue>> {
    let OrderedFields(fields) = serde_json::from_str(json).ok()?;
    let mut out = String::with_capacity(json.len());
    for (key, value) in fields {
        if key == "metadata" && value.get().starts_with('{') {
            let OrderedFields(inner) = serde_json::from_str(value.get()).ok()?;
            let mut metadata = String::with_capacity(value.get().len());
            for (key, value) in inner.into_iter().filter(|(key, _)| key != "managedFields") {
                push(&mut metadata, &key, value.get())?;
            }
            push(&mut out, &key, &format!("{{{metadata}}}"))?;
        } else {
            push(&mut out, &key, value.get())?;
        }
    }
    RawValue::from_string(format!("{{{out}}}")).ok().map(Arc::from)
}

fn push(out: &mut String, key: &str, value: &str) -> Option<()> {
    if !out.is_empty() {
        out.push(',');
    }
    out.push_str(&serde_json::to_string(key).ok()?);
    out.push(':');
    out.push_str(value);
    Some(())
}

/// The fields of an object in their order.
struct OrderedFields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Deserialize<'a> for OrderedFields<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'a> Visitor<'a> for InOrder {
            type Value = OrderedFields<'a>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'a>>(
                self,
                mut map: A,
            ) -> Result<OrderedFields<'a>, A::Error> {
                let mut fields = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some(field) = map.next_entry::<String, &'a RawValue>()? {
                    fields.push(field);
                }
                Ok(OrderedFields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_original_is_what_the_server_wrote_without_its_managed_fields() {
        let originals = OriginalStore::default();
        let key = PodKey::new("b", "a");
        originals.set_pod(
            key.clone(),
            r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[{"x":{}}],"labels":{"q\"":"1"}},
                "spec":{ "weird": 1.50, "z":[1] },"status":{}}"#,
        );
        let original = originals.pod(&key).expect("it is stored");
        assert_eq!(
            original.get(),
            r#"{"kind":"Pod","metadata":{"name":"a","labels":{"q\"":"1"}},"spec":{ "weird": 1.50, "z":[1] },"status":{}}"#
        );
        originals.remove_pod(&key);
        assert!(originals.pod(&key).is_none());
        originals.set_node("n".into(), r#"{"metadata":{"name":"n"}}"#);
        assert!(originals.node("n").is_some() && originals.node("m").is_none());
        originals.remove_node("n");
        assert!(originals.node("n").is_none());
    }
}
