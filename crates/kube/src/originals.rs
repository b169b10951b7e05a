//! Pods and nodes as the API server wrote them, for HTTP extenders: these are told more of an object than
//! scheduling reads. Kept only where an extender is configured.

use std::sync::{Arc, PoisonError, RwLock};

use plimsoll_api::{ObjectKey, PodKey, Str};
use rustc_hash::FxHashMap;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Where pods and nodes are found as the API server wrote them.
pub trait Originals: Send + Sync {
    /// The pod, if it is known.
    fn pod(&self, key: &PodKey) -> Option<Arc<RawValue>>;
    /// The node, if it is known.
    fn node(&self, name: &str) -> Option<Arc<RawValue>>;
}

/// Originals that watches keep up to date.
#[derive(Debug, Default)]
pub struct Kept {
    pods: RwLock<FxHashMap<PodKey, Arc<RawValue>>>,
    nodes: RwLock<FxHashMap<Str, Arc<RawValue>>>,
}

impl Originals for Kept {
    fn pod(&self, key: &PodKey) -> Option<Arc<RawValue>> {
        self.pods.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn node(&self, name: &str) -> Option<Arc<RawValue>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

impl Kept {
    /// A pod as it is, in JSON that has been read before.
    pub(crate) fn pod_is(&self, key: PodKey, json: &str) {
        if let Some(original) = reduced(json) {
            self.pods.write().unwrap_or_else(PoisonError::into_inner).insert(key, original);
        }
    }

    /// A node as it is, in JSON that has been read before.
    pub(crate) fn node_is(&self, name: Str, json: &str) {
        if let Some(original) = reduced(json) {
            self.nodes.write().unwrap_or_else(PoisonError::into_inner).insert(name, original);
        }
    }

    /// A pod is gone.
    pub(crate) fn pod_gone(&self, key: &ObjectKey) {
        self.pods.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// A node is gone.
    pub(crate) fn node_gone(&self, name: &str) {
        self.nodes.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// An object without `metadata.managedFields`, which is often the larger half of it. As in scheduler.go,
/// newPodInformer, which drops them of pods.
fn reduced(json: &str) -> Option<Arc<RawValue>> {
    let Fields(fields) = serde_json::from_str(json).ok()?;
    let mut out = String::with_capacity(json.len());
    for (key, value) in fields {
        if key == "metadata" && value.get().starts_with('{') {
            let Fields(inner) = serde_json::from_str(value.get()).ok()?;
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
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Deserialize<'a> for Fields<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'a> Visitor<'a> for InOrder {
            type Value = Fields<'a>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Fields<'a>, A::Error> {
                let mut fields = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some(field) = map.next_entry::<String, &'a RawValue>()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_original_is_what_the_server_wrote_but_for_its_managed_fields() {
        let kept = Kept::default();
        let key = PodKey::new("b", "a");
        kept.pod_is(
            key.clone(),
            r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[{"x":{}}],"labels":{"q\"":"1"}},
                "spec":{ "weird": 1.50, "z":[1] },"status":{}}"#,
        );
        let original = kept.pod(&key).expect("it was kept");
        assert_eq!(
            original.get(),
            r#"{"kind":"Pod","metadata":{"name":"a","labels":{"q\"":"1"}},"spec":{ "weird": 1.50, "z":[1] },"status":{}}"#
        );
        kept.pod_gone(&key);
        assert!(kept.pod(&key).is_none());
        kept.node_is("n".into(), r#"{"metadata":{"name":"n"}}"#);
        assert!(kept.node("n").is_some() && kept.node("m").is_none());
        kept.node_gone("n");
        assert!(kept.node("n").is_none());
    }
}
