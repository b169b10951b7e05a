//! The question how many more pods fit: the body of `/api/v1/capacity`.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_api::ObjectKey;
use plimsoll_engine::ClusterSnapshot;
use serde::Deserialize;
use serde_json::Value;

use super::advisor::ManifestSource;
use super::query::pod_key;

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct CapacityRequest {
    /// What is counted.
    pub subject: CapacitySubject,
    /// Whether the pending pods are placed first.
    pub after_pending: bool,
    /// How many pods of copies at most; of all shapes it is about each.
    pub limit: Option<usize>,
    /// How many changes are wanted that would let one more in.
    pub remedies: Option<usize>,
    /// Whether the answer has a `text` for people beside the data.
    pub with_text: bool,
}

/// What is counted.
#[derive(Clone, Debug, PartialEq)]
pub enum CapacitySubject {
    /// The pods, workloads and groups that these manifests describe.
    Manifests(Vec<Value>),
    /// A group of the cluster, with all its pods.
    Group(ObjectKey),
    /// One pod of each controller of the cluster, and each of its groups, each by itself.
    AllShapes {
        /// Only those of this namespace.
        namespace: Option<String>,
    },
}

/// The question with what it is answered from.
#[derive(Clone, Debug)]
pub struct CapacityQuestion {
    /// What is asked.
    pub request: CapacityRequest,
    /// The cluster.
    pub snapshot: ClusterSnapshot,
    /// The manifests of a group and of its pods.
    pub manifests: Arc<dyn ManifestSource>,
    /// Shapes of these namespaces are counted without their names.
    pub hidden: BTreeSet<String>,
}

/// The body as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body {
    pods: Option<Vec<Value>>,
    group: Option<String>,
    all_shapes: Option<bool>,
    namespace: Option<String>,
    #[serde(default)]
    after_pending: bool,
    limit: Option<usize>,
    remedies: Option<usize>,
    #[serde(default)]
    text: bool,
}

impl CapacityRequest {
    /// Reads a body. The error names the field and the remedy.
    pub fn read(body: &Value) -> Result<Self, String> {
        let body = Body::deserialize(body).map_err(|error| error.to_string())?;
        let Body { pods, group, all_shapes, namespace, after_pending, limit, remedies, text } =
            body;
        if all_shapes == Some(false) {
            return Err(
                "allShapes: it can only be true; leave it out to count something else".to_owned()
            );
        }
        if namespace.is_some() && all_shapes.is_none() {
            return Err("namespace: it goes only with allShapes".to_owned());
        }
        let subject = match (pods, group, all_shapes.is_some()) {
            (Some(manifests), None, false) => CapacitySubject::Manifests(manifests),
            (None, Some(group), false) => {
                let key = pod_key(&group);
                CapacitySubject::Group(
                    key.ok_or_else(|| format!("group: write NAMESPACE/NAME instead of {group:?}"))?,
                )
            }
            (None, None, true) if namespace.as_deref() == Some("") => {
                return Err("namespace: it is empty; leave it out for all namespaces".to_owned());
            }
            (None, None, true) => CapacitySubject::AllShapes { namespace },
            (None, None, false) => {
                return Err("say what is counted: pods, group or allShapes".to_owned());
            }
            _ => return Err("give only one of pods, group and allShapes".to_owned()),
        };
        Ok(CapacityRequest { subject, after_pending, limit, remedies, with_text: text })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_thing_is_counted() {
        let subject = |body: Value| CapacityRequest::read(&body).map(|request| request.subject);
        let all = |namespace: Option<&str>| CapacitySubject::AllShapes {
            namespace: namespace.map(str::to_owned),
        };
        assert_eq!(subject(json!({"pods": [{}]})), Ok(CapacitySubject::Manifests(vec![json!({})])));
        let group = ObjectKey::new("shop", "train");
        assert_eq!(subject(json!({"group": "shop/train"})), Ok(CapacitySubject::Group(group)));
        assert_eq!(subject(json!({"allShapes": true})), Ok(all(None)));
        assert_eq!(subject(json!({"allShapes": true, "namespace": "shop"})), Ok(all(Some("shop"))));
        for (body, why) in [
            (json!({}), "say what is counted: pods, group or allShapes"),
            (json!({"allShapes": false}), "allShapes: it can only be true"),
            (json!({"pods": [{}], "allShapes": false}), "allShapes: it can only be true"),
            (json!({"pods": [], "allShapes": true}), "give only one of pods, group and allShapes"),
            (json!({"pods": [], "group": "a/b"}), "give only one of pods, group and allShapes"),
            (json!({"group": "train"}), "group: write NAMESPACE/NAME instead of \"train\""),
            (json!({"pods": [], "namespace": "a"}), "namespace: it goes only with allShapes"),
            (json!({"allShapes": true, "namespace": ""}), "namespace: it is empty"),
            (json!({"pods": [], "more": 1}), "unknown field `more`"),
            (json!({"group": 7}), "invalid type: integer `7`, expected a string"),
        ] {
            let error = subject(body).expect_err(why);
            assert!(error.starts_with(why), "{error}");
        }
    }
}
