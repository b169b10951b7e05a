//! The annotation in which a node lists controllers whose pods should rather go elsewhere.

use serde::Deserialize;

use super::primitive::{List, time};
use crate::{AvoidedController, Labels, Str};

/// As in core/v1/annotation_key_constants.go, PreferAvoidPodsAnnotationKey.
pub(super) const KEY: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

/// v1 AvoidPods.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AvoidPods {
    prefer_avoid_pods: List<Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Entry {
    pod_signature: Option<Signature>,
    eviction_time: Option<Str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Signature {
    pod_controller: Option<Controller>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Controller {
    kind: Option<Str>,
    uid: Option<Str>,
}

/// The controllers that the annotation names. As in node_prefer_avoid_pods.go, Score: an annotation that cannot be
/// parsed is ignored. So is an entry without a controller, which the API server rejects.
pub(super) fn avoided(annotations: &Labels) -> Vec<AvoidedController> {
    let Some(text) = annotations.get(KEY) else { return Vec::new() };
    let Ok(AvoidPods { prefer_avoid_pods: List(entries) }) = serde_json::from_str(text) else {
        return Vec::new();
    };
    let readable = |entry: &Entry| time("evictionTime", entry.eviction_time.as_ref()).is_ok();
    if !entries.iter().all(readable) {
        return Vec::new();
    }
    let controllers = entries.into_iter().filter_map(|entry| entry.pod_signature?.pod_controller);
    let avoided = controllers.map(|controller| AvoidedController {
        kind: controller.kind.unwrap_or_default(),
        uid: controller.uid.unwrap_or_default(),
    });
    avoided.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let annotations = [(KEY, text)].into_iter().collect();
        let found = avoided(&annotations);
        let found: Vec<_> = found.iter().map(|one| (one.kind.as_str(), one.uid.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn the_controllers_are_read_with_kind_and_uid() {
        check(
            r#"{"preferAvoidPods": [
                {"podSignature": {"podController": {"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "name": "web", "uid": "u-1", "controller": true}},
                 "evictionTime": "2016-01-01T00:00:00Z", "reason": "some", "message": "text"},
                {"podSignature": {"podController": {"kind": "ReplicationController"}}}]}"#,
            &[("ReplicaSet", "u-1"), ("ReplicationController", "")],
        );
    }

    #[test]
    fn an_annotation_that_cannot_be_parsed_is_ignored() {
        for text in [
            "",
            "{",
            "[]",
            r#"{"preferAvoidPods": "all"}"#,
            r#"{"preferAvoidPods": [{"podSignature": {"podController": {"uid": "u"}}, "evictionTime": "x"}]}"#,
            r#"{"preferAvoidPods": [{"podSignature": {"podController": {"uid": "u"}}}, 7]}"#,
        ] {
            check(text, &[]);
        }
        assert_eq!(avoided(&Labels::empty()), []);
    }

    #[test]
    fn only_an_entry_without_a_controller_is_ignored() {
        check(
            r#"{"preferAvoidPods": [null, {"podSignature": {}},
                {"podSignature": {"podController": {"kind": "ReplicaSet", "uid": "u"}}}]}"#,
            &[("ReplicaSet", "u")],
        );
    }
}
