//! Events are served in two groups: `v1` and `events.k8s.io/v1` show the same objects with different
//! field names (as in `pkg/apis/events/v1/conversion.go`). They are stored as those of the core group.

use serde_json::{Map, Value};

/// Field of the core group, field of `events.k8s.io`.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// An event of the core group, as `events.k8s.io` shows it.
pub(crate) fn to_events_group(event: Value) -> Value {
    renamed(event, |name| NAMES.iter().find(|(core, _)| *core == name).map(|(_, new)| *new))
}

/// An event of `events.k8s.io`, as the core group shows it.
pub(crate) fn to_core_group(event: Value) -> Value {
    renamed(event, |name| NAMES.iter().find(|(_, new)| *new == name).map(|(core, _)| *core))
}

fn renamed(event: Value, name_of: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = event else { return event };
    let rename = |(name, value): (String, Value)| match name_of(&name) {
        Some(other) => (other.to_owned(), value),
        None => (name, value),
    };
    Value::Object(fields.into_iter().map(rename).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_keeps_everything_on_its_way_there_and_back() {
        let new = json!({
            "metadata": {"name": "e"}, "regarding": {"name": "p"}, "note": "text", "eventTime": "t",
            "reportingController": "c", "reportingInstance": "i", "series": {"count": 2},
            "deprecatedSource": {"component": "c"}, "action": "Binding", "related": {"name": "n"},
        });
        let core = to_core_group(new.clone());
        assert_eq!(core["involvedObject"]["name"], "p");
        assert_eq!(core["message"], "text");
        assert_eq!(core["source"]["component"], "c");
        assert_eq!(core["reportingComponent"], "c");
        assert_eq!(to_events_group(core), new);
    }
}
