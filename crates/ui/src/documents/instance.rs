//! What an instance believes of its cluster: which nodes and pods it knows, where pods are or are assumed to be, and what
//! waits in its queue. The objects themselves are in the API server.

use plimsoll_api::Str;
use serde::Serialize;

use crate::picture::{Picture, PicturePod, PodState, text_of};

/// What an instance believes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstancePicture<'a> {
    as_of: String,
    /// The names of the nodes.
    nodes: Vec<&'a Str>,
    /// The pods on nodes.
    placed: Vec<PlacedRow<'a>>,
    /// The pods that are not bound yet.
    waiting: Vec<WaitingRow<'a>>,
}

#[derive(Debug, Serialize)]
struct PlacedRow<'a> {
    pod: String,
    uid: &'a Str,
    node: Option<&'a Str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WaitingRow<'a> {
    pod: String,
    uid: &'a Str,
    /// The scheduler name of the profile that decides it.
    profile: &'a Str,
    state: PodState,
    /// The node that was chosen, and on which it is assumed to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a Str>,
    /// The node on which room is made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    nominated_node: Option<&'a Str>,
    attempts: u32,
    queued_at: String,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rejected_by: &'a [&'static str],
}

/// What an instance believes of its cluster.
pub(crate) fn instance(picture: &Picture) -> InstancePicture<'_> {
    let (mut placed, mut waiting) = (Vec::new(), Vec::new());
    for pod in picture.pods() {
        let PicturePod { info, state, queued } = pod;
        let (name, uid, node) = (info.key.to_string(), &info.uid, info.node());
        let Some(queued) = queued else {
            placed.push(PlacedRow { pod: name, uid, node });
            continue;
        };
        waiting.push(WaitingRow {
            pod: name,
            uid,
            profile: &info.scheduler_name,
            state,
            node,
            nominated_node: picture.nominated.get(&info.key),
            attempts: queued.attempts,
            queued_at: text_of(queued.since),
            rejected_by: &queued.rejectors,
        });
    }
    let nodes = picture.counts.nodes.iter().map(|node| &node.node.name).collect();
    InstancePicture { as_of: picture.as_of(), nodes, placed, waiting }
}
