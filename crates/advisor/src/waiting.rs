//! What holds a pod, since when, and what it waits for.

use std::collections::BTreeSet;

use plimsoll_api::{KindRef, Node, Pod, Timestamp};
use plimsoll_engine::{PendingPod, QueuePlace, ReservedRoom, Scheduler};
use plimsoll_framework::{Action, ClusterEvent, Time, WaitingPod};
use serde::Serialize;

/// Where a pod waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// `active`, `backoff`, `unschedulable`, `gated` or `inFlight`.
    pub place: &'static str,
    /// What holds it, if a plugin does, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Held>,
    /// The node that was chosen for it, if it is to be bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The plugins at Permit that have not allowed it yet, the first one to give up first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permits: Vec<AwaitedPermit>,
    /// The group for which room is reserved, so that the pod is not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<RoomForGroup>,
    /// Since when, as in RFC 3339: since it was added to the queue or returned there, or since it waits at Permit. `None` for
    /// files, which do not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// When it is tried next at the latest, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<String>,
    /// How often it was tried.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// The events that may wake it, such as `Node/Add`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub woken_by: Vec<String>,
}

/// What holds a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The plugin.
    pub plugin: String,
    /// Why.
    pub reason: String,
}

/// A plugin that a pod waits for at Permit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AwaitedPermit {
    /// The plugin.
    pub plugin: String,
    /// When the pod is rejected if the plugin has not allowed it by then, as in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// A group for which room is reserved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoomForGroup {
    /// `PodGroup` or `CompositePodGroup`.
    pub kind: &'static str,
    /// The group, as `namespace/name`.
    pub group: String,
    /// When others are tried again at the latest, as in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl RoomForGroup {
    fn of(room: &ReservedRoom, is_timed: bool) -> Self {
        let until = is_timed.then(|| text_of(room.until)).flatten();
        RoomForGroup { kind: room.group.kind(), group: room.group.key().to_string(), until }
    }
}

/// The plugins that a pod waits for at Permit.
fn permits(waiting: &WaitingPod, is_timed: bool) -> Vec<AwaitedPermit> {
    let mut pending = waiting.pending.clone();
    pending.sort_by_key(|(_, until)| *until);
    let permit = |(plugin, until): (&str, Time)| AwaitedPermit {
        plugin: plugin.to_owned(),
        until: is_timed.then(|| text_of(until)).flatten(),
    };
    pending.into_iter().map(permit).collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Waiting {
    /// Where a pod of the queue waits. `is_timed` says whether its times are those of a clock. `rejectors` are the plugins
    /// that reject it now; they count if it was not tried yet.
    pub(crate) fn of(
        scheduler: &Scheduler,
        known: &PendingPod,
        is_timed: bool,
        rejectors: &[&str],
    ) -> Self {
        let info = &known.info;
        let at_permit = known.at_permit.as_ref();
        let since = at_permit.map_or(info.queued, |waiting| waiting.since);
        let since = is_timed.then(|| text_of(since)).flatten();
        let next = known.next_attempt.filter(|_| is_timed).and_then(text_of);
        let mut plugins: Vec<&str> = info.rejectors().collect();
        if plugins.is_empty() {
            plugins = rejectors.to_vec();
        }
        let held_by = match &info.place {
            QueuePlace::Gated { plugin, why } => {
                Some(Held { plugin: (*plugin).to_owned(), reason: why.to_string() })
            }
            _ => None,
        };
        Waiting {
            place: place(&info.place),
            held_by,
            node: known.assumed_node.as_ref().map(ToString::to_string),
            permits: at_permit.map(|waiting| permits(waiting, is_timed)).unwrap_or_default(),
            reservation: known.behind.as_ref().map(|room| RoomForGroup::of(room, is_timed)),
            since,
            next_attempt: next,
            attempts: info.attempts,
            woken_by: names(&scheduler.events_for(&info.pod.scheduler_name, &plugins)),
        }
    }
}

/// A time of the scheduler as in RFC 3339.
fn text_of(time: Time) -> Option<String> {
    Timestamp::from_millisecond(time.millis()).ok().map(rfc_3339)
}

/// A time as in RFC 3339.
pub(crate) fn rfc_3339(time: Timestamp) -> String {
    time.to_string()
}

fn place(place: &QueuePlace) -> &'static str {
    match place {
        QueuePlace::Active => "active",
        QueuePlace::Backoff { .. } | QueuePlace::ErrorBackoff { .. } => "backoff",
        QueuePlace::Unschedulable => "unschedulable",
        QueuePlace::Gated { .. } => "gated",
        QueuePlace::InFlight => "inFlight",
    }
}

/// The names of events: the object as kube-scheduler calls it, and the action.
fn names(events: &BTreeSet<ClusterEvent>) -> Vec<String> {
    let mut names = BTreeSet::new();
    for event in events {
        let is_node_or_pod = event.kind.is::<Node>() || event.kind.is::<Pod>();
        let single = match is_node_or_pod {
            true => event.action,
            // Of other kinds it is not told apart what has changed.
            false => event.action.difference(Action::UPDATE.difference(Action::UPDATE_OTHER)),
        };
        for (flag, action) in single.iter_names() {
            names.insert(format!("{}/{}", object(event.kind, action), words(flag)));
        }
    }
    names.into_iter().collect()
}

fn object(kind: KindRef, action: Action) -> &'static str {
    let of_pending = Action::UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | Action::UPDATE_POD_TOLERATION;
    match (kind.is::<Pod>(), of_pending.contains(action)) {
        (true, true) => "PendingPod",
        (true, false) => "AssignedPod",
        (false, _) => kind.as_str(),
    }
}

/// `UPDATE_NODE_TAINT` as `UpdateNodeTaint`; that anything else changed is `Update`.
fn words(flag: &str) -> String {
    let flag = flag.strip_suffix("_OTHER").unwrap_or(flag);
    let words = flag.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_owned() + &rest.to_lowercase()
    });
    words.collect()
}
