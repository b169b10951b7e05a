//! Events as they are sent.

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_api::Str;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::{EventObject, Occurrence};
use crate::call::{ApiRequest, STRATEGIC_MERGE_PATCH, segment};
use crate::wire_time::{micros, seconds};

/// The longest name of an object.
const NAME_MAX: usize = 253;

/// The API in which events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `events.k8s.io/v1`.
    Events,
    /// The core API, if there is no `events.k8s.io/v1` (before 1.19).
    Core,
}

/// An event.
#[derive(Clone, Debug)]
pub(super) struct WireEvent {
    pub(super) name: Box<str>,
    /// When it first happened.
    pub(super) at: Timestamp,
    pub(super) series: Option<Repeats>,
    pub(super) occurrence: Arc<Occurrence>,
}

/// How often it happened, and when it last happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeats {
    pub(super) count: u32,
    pub(super) last: Timestamp,
}

/// A reference to an object. As in client-go's tools/reference, GetReference.
#[derive(Clone, Copy, Debug, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectReference<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) uid: &'a str,
    api_version: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) resource_version: &'a str,
}

impl EventObject {
    pub(super) fn reference(&self) -> ObjectReference<'_> {
        match self {
            EventObject::Pod(pod) => ObjectReference {
                kind: "Pod",
                namespace: &pod.key.namespace,
                name: &pod.key.name,
                uid: &pod.uid,
                api_version: "v1",
                resource_version: &pod.edition.resource_version,
            },
            EventObject::Lease { namespace, name, uid, resource_version } => ObjectReference {
                kind: "Lease",
                namespace,
                name,
                uid,
                api_version: "coordination.k8s.io/v1",
                resource_version,
            },
        }
    }

    /// The API for events about it, if the API server has `dialect`.
    pub(super) fn dialect(&self, dialect: Dialect) -> Dialect {
        match self {
            EventObject::Pod(_) => dialect,
            EventObject::Lease { .. } => Dialect::Core,
        }
    }

    fn namespace(&self) -> &Str {
        match self {
            EventObject::Pod(pod) => &pod.key.namespace,
            EventObject::Lease { namespace, .. } => namespace,
        }
    }
}

/// The name of an event about `regarding`. As in client-go's tools/record/util, GenerateEventName.
pub(super) fn name_of(regarding: &EventObject, at: Timestamp) -> Box<str> {
    let about = regarding.reference().name;
    let mut name = String::with_capacity(about.len() + 17);
    // Nanoseconds since 1970 stay positive for two centuries.
    write!(name, "{about}.{:x}", at.as_nanosecond()).expect("text can grow");
    if NAME_MAX < name.len() { crate::identity::uuid().into() } else { name.into() }
}

/// A time that is written with microseconds.
struct Micros(Timestamp);

impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&micros(self.0))
    }
}

#[derive(Serialize)]
struct EventMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventSeries {
    count: u32,
    last_observed_time: Micros,
}

/// events.k8s.io/v1 Event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventsV1<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: EventMetadata<'a>,
    event_time: Micros,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<EventSeries>,
    reporting_controller: &'a str,
    reporting_instance: String,
    action: &'static str,
    reason: &'static str,
    regarding: ObjectReference<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    related: Option<ObjectReference<'a>>,
    note: &'a str,
    r#type: &'static str,
}

/// v1 Event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CoreV1<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: EventMetadata<'a>,
    involved_object: ObjectReference<'a>,
    reason: &'static str,
    message: &'a str,
    source: EventSource<'a>,
    first_timestamp: String,
    last_timestamp: String,
    count: u32,
    r#type: &'static str,
    reporting_component: &'a str,
    reporting_instance: &'static str,
}

#[derive(Serialize)]
struct EventSource<'a> {
    component: &'a str,
}

impl WireEvent {
    /// The request that creates this event.
    pub(super) fn create(&self, dialect: Dialect, hostname: &str) -> ApiRequest {
        let body = match dialect {
            Dialect::Events => crate::write::json(&self.events_v1(hostname)),
            Dialect::Core => crate::write::json(&self.core_v1()),
        };
        ApiRequest::post(self.collection(dialect), body)
    }

    /// The request that updates how often it happened.
    pub(super) fn repeat(&self, dialect: Dialect, repeats: Repeats) -> ApiRequest {
        let body = match dialect {
            Dialect::Events => json!({ "series": {
                "count": repeats.count,
                "lastObservedTime": micros(repeats.last),
            } }),
            Dialect::Core => json!({
                "count": repeats.count,
                "lastTimestamp": seconds(repeats.last),
            }),
        };
        let path = format!("{}/{}", self.collection(dialect), segment(&self.name));
        ApiRequest::patch(path, STRATEGIC_MERGE_PATCH, crate::write::json(&body))
    }

    fn events_v1(&self, hostname: &str) -> EventsV1<'_> {
        let Occurrence { controller, regarding, related, kind, reason, action, note } =
            &*self.occurrence;
        EventsV1 {
            api_version: "events.k8s.io/v1",
            kind: "Event",
            metadata: self.metadata(),
            event_time: Micros(self.at),
            series: self.series.map(|repeats| EventSeries {
                count: repeats.count,
                last_observed_time: Micros(repeats.last),
            }),
            reporting_controller: controller,
            reporting_instance: format!("{controller}-{hostname}"),
            action,
            reason,
            regarding: regarding.reference(),
            related: related.as_ref().map(EventObject::reference),
            note,
            r#type: kind,
        }
    }

    fn core_v1(&self) -> CoreV1<'_> {
        let Occurrence { controller, regarding, kind, reason, note, .. } = &*self.occurrence;
        CoreV1 {
            api_version: "v1",
            kind: "Event",
            metadata: self.metadata(),
            involved_object: regarding.reference(),
            reason,
            message: note,
            source: EventSource { component: controller },
            first_timestamp: seconds(self.at),
            last_timestamp: seconds(self.series.map_or(self.at, |repeats| repeats.last)),
            count: self.series.map_or(1, |repeats| repeats.count),
            r#type: kind,
            reporting_component: controller,
            reporting_instance: "",
        }
    }

    fn metadata(&self) -> EventMetadata<'_> {
        EventMetadata { name: &self.name, namespace: self.occurrence.regarding.namespace() }
    }

    fn collection(&self, dialect: Dialect) -> String {
        let api = match dialect {
            Dialect::Events => "/apis/events.k8s.io/v1",
            Dialect::Core => "/api/v1",
        };
        let namespace = segment(self.occurrence.regarding.namespace());
        format!("{api}/namespaces/{namespace}/events")
    }
}
