//! Rows and columns, as `kubectl get` prints them (as in `pkg/printers/internalversion/printers.go`):
//! all columns for the kinds that people look at while they try a scheduler, and name and age for the
//! others.

use std::borrow::Borrow;

use serde_json::{Value, json};

use super::list::metadata_of;
use crate::request::RequestTarget;
use crate::store::{Stored, text};

/// A column: name, whether only `-o wide` shows it.
type TableColumn = (&'static str, bool);

/// The cells of one object.
type TableCells = fn(&Value) -> Vec<Value>;

const POD: &[TableColumn] = &[
    ("Name", false),
    ("Ready", false),
    ("Status", false),
    ("Restarts", false),
    ("Age", false),
    ("IP", true),
    ("Node", true),
    ("Nominated Node", true),
    ("Readiness Gates", true),
];

const NODE: &[TableColumn] =
    &[("Name", false), ("Status", false), ("Roles", false), ("Age", false), ("Version", false)];

const EVENT: &[TableColumn] = &[
    ("Last Seen", false),
    ("Type", false),
    ("Reason", false),
    ("Object", false),
    ("Subobject", true),
    ("Source", true),
    ("Message", false),
    ("First Seen", true),
    ("Count", true),
    ("Name", true),
];

const LEASE: &[TableColumn] = &[("Name", false), ("Holder", false), ("Age", false)];

const WITH_STATUS: &[TableColumn] = &[("Name", false), ("Status", false), ("Age", false)];

const PLAIN: &[TableColumn] = &[("Name", false), ("Age", false)];

/// The table of some objects. `metadata` is that of the list they come from.
pub(super) fn of(
    target: &RequestTarget,
    objects: &[impl Borrow<Stored>],
    version: u64,
    metadata: Option<Value>,
) -> Value {
    let kind = target.id.kind().kind;
    let (columns, cells): (&[TableColumn], TableCells) = match kind {
        "Pod" => (POD, pod),
        "Node" => (NODE, node),
        "Event" => (EVENT, event),
        "Lease" => (LEASE, lease),
        "Namespace" | "PersistentVolumeClaim" | "PersistentVolume" => (WITH_STATUS, with_status),
        _ => (PLAIN, plain),
    };
    let definitions = columns.iter().map(|(name, is_wide)| {
        let format = if *name == "Name" { "name" } else { "" };
        json!({
            "name": name, "type": "string", "format": format, "description": name, "priority": i32::from(*is_wide),
        })
    });
    let rows = objects.iter().map(|object| {
        let object: &Stored = object.borrow();
        json!({
            "cells": cells(&object.value()),
            "object": metadata_of(object, target, "PartialObjectMetadata"),
        })
    });
    let metadata = metadata.unwrap_or_else(|| json!({ "resourceVersion": version.to_string() }));
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions.collect::<Vec<_>>(), "rows": rows.collect::<Vec<_>>(),
    })
}

fn plain(object: &Value) -> Vec<Value> {
    vec![name(object), age(object, "/metadata/creationTimestamp")]
}

fn with_status(object: &Value) -> Vec<Value> {
    let phase = text(object, "/status/phase").into();
    vec![name(object), phase, age(object, "/metadata/creationTimestamp")]
}

fn lease(object: &Value) -> Vec<Value> {
    let holder = text(object, "/spec/holderIdentity").into();
    vec![name(object), holder, age(object, "/metadata/creationTimestamp")]
}

fn pod(pod: &Value) -> Vec<Value> {
    let list = |at: &str| pod.pointer(at).and_then(Value::as_array).cloned().unwrap_or_default();
    let statuses = list("/status/containerStatuses");
    let ready = statuses.iter().filter(|status| status["ready"] == Value::Bool(true)).count();
    let restarts: u64 = statuses.iter().filter_map(|s| s["restartCount"].as_u64()).sum();
    let all = list("/spec/containers").len();
    let is_gated = list("/status/conditions")
        .iter()
        .any(|c| text(c, "/type") == "PodScheduled" && text(c, "/reason") == "SchedulingGated");
    let reason = text(pod, "/status/reason");
    let status = if pod.pointer("/metadata/deletionTimestamp").is_some() {
        "Terminating"
    } else if !reason.is_empty() {
        reason
    } else if is_gated {
        "SchedulingGated"
    } else {
        text(pod, "/status/phase")
    };
    let or_none = |at: &str| match text(pod, at) {
        "" => "<none>".into(),
        text => text.into(),
    };
    vec![
        name(pod),
        format!("{ready}/{all}").into(),
        status.into(),
        restarts.to_string().into(),
        age(pod, "/metadata/creationTimestamp"),
        or_none("/status/podIP"),
        or_none("/spec/nodeName"),
        or_none("/status/nominatedNodeName"),
        "<none>".into(),
    ]
}

fn node(node: &Value) -> Vec<Value> {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|c| text(c, "/type") == "Ready");
    let mut status = match ready.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles = labels.into_iter().flatten();
    let roles = roles.filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"));
    let roles: Vec<&str> = roles.collect();
    let roles = if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") };
    vec![
        name(node),
        status.into(),
        roles.into(),
        age(node, "/metadata/creationTimestamp"),
        text(node, "/status/nodeInfo/kubeletVersion").into(),
    ]
}

fn event(event: &Value) -> Vec<Value> {
    let first_of = |places: &[&'static str]| {
        places.iter().copied().find(|at| !text(event, at).is_empty()).unwrap_or("")
    };
    let last = first_of(&[
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ]);
    let first = first_of(&["/firstTimestamp", "/eventTime", "/metadata/creationTimestamp"]);
    let count = ["/series/count", "/count"].into_iter().find_map(|at| event.pointer(at)?.as_u64());
    let source = first_of(&["/source/component", "/reportingComponent"]);
    let kind = text(event, "/involvedObject/kind").to_ascii_lowercase();
    let object = format!("{kind}/{}", text(event, "/involvedObject/name"));
    vec![
        age(event, last),
        text(event, "/type").into(),
        text(event, "/reason").into(),
        object.into(),
        text(event, "/involvedObject/fieldPath").into(),
        text(event, source).into(),
        text(event, "/message").trim().into(),
        age(event, first),
        count.unwrap_or(1).to_string().into(),
        name(event),
    ]
}

fn name(object: &Value) -> Value {
    text(object, "/metadata/name").into()
}

fn age(object: &Value, at: &str) -> Value {
    let Ok(then) = text(object, at).parse::<jiff::Timestamp>() else { return "<unknown>".into() };
    human(jiff::Timestamp::now().as_second() - then.as_second()).into()
}

/// As `duration.HumanDuration`: two units where the first alone says little.
fn human(seconds: i64) -> String {
    let two = |big: i64, unit: char, small: i64, smaller: char| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{smaller}"),
    };
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let years = days / 365;
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, 'd', hours % 24, 'h')
    } else if years < 2 {
        format!("{days}d")
    } else if years < 8 {
        two(years, 'y', days % 365, 'd')
    } else {
        format!("{years}y")
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn ages_are_told_as_kubectl_does() {
        let told = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (700, "11m"),
            (10_800, "3h"),
            (11_460, "3h11m"),
            (90_000, "25h"),
            (200_000, "2d7h"),
            (864_000, "10d"),
            (63_158_400, "2y1d"),
        ];
        for (seconds, text) in told {
            assert_eq!(human(seconds), text);
        }
    }
}
