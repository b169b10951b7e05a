//! All objects of a kind by lists: in pages, each taken apart as it arrives.

use std::fmt::Write;
use std::time::Duration;

use plimsoll_api::Str;

use super::apply::Objects;
use super::feed::{Closed, Feed};
use super::items::{Items, ListMeta};
use plimsoll_api::Pod;

use crate::place::Place;
use crate::request::{Failure, Refusal, SILENCE, get, piece};

/// Objects on a page. As in tools/pager/pager.go, defaultPageSize.
const PAGE: u32 = 500;
/// How long the server may take before it begins to answer. Its own limit is a minute.
const WITHIN: Duration = Duration::from_secs(90);
/// Pods that have ended take nothing of any node. As in scheduler.go, newPodInformer.
const LIVING_PODS: &str = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";

/// Why objects could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nobody takes events in any more.
    Closed,
    /// The server refused, or the answer broke off.
    Failed(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failed(failure)
    }
}

impl From<Closed> for Trouble {
    fn from(_: Closed) -> Self {
        Trouble::Closed
    }
}

/// The path and query of a request for the objects at `place`; no parameter is empty.
pub(super) fn path(place: Place, parameters: &[(&str, &str)]) -> String {
    let mut path = place.path();
    let mut mark = '?';
    if place.kind.is::<Pod>() {
        path.push(mark);
        path.push_str(LIVING_PODS);
        mark = '&';
    }
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        path.push(mark);
        path.push_str(name);
        path.push('=');
        encode(value, &mut path);
        mark = '&';
    }
    path
}

/// As a query writes it: all but unreserved characters are escaped.
fn encode(value: &str, out: &mut String) {
    for &byte in value.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
}

/// What lists of a kind are known to be like.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habits {
    /// Even a list from the server's cache came in pages: it has no cache.
    has_pages: bool,
}

/// Has all objects told by lists, from `version` on or later; empty for the very latest. Gives the version
/// from which on to watch.
///
/// As in tools/cache/reflector.go, list, and tools/pager/pager.go: a list that must be of some version at
/// least is asked for whole, since the server's cache has no pages; and where a page is gone (410), all
/// is.
pub(super) async fn list(
    client: &kube::Client,
    place: Place,
    version: &str,
    habits: &mut Habits,
    objects: &mut Objects,
    feed: &mut Feed,
) -> Result<Str, Trouble> {
    let limit = PAGE.to_string();
    let in_pages = habits.has_pages || version.is_empty() || version == "0";
    let limit = if in_pages { limit.as_str() } else { "" };
    objects.begin_list();
    let first = [("limit", limit), ("resourceVersion", version)];
    let mut meta = page(client, &path(place, &first), objects, feed).await?;
    while let Some(next) = meta.next().map(str::to_owned) {
        habits.has_pages |= version == "0";
        let following = [("limit", limit), ("continue", next.as_str())];
        meta = match page(client, &path(place, &following), objects, feed).await {
            Err(Trouble::Failed(failure)) if failure.refusal().is_some_and(Refusal::is_expired) => {
                objects.begin_list();
                let whole = [("resourceVersion", version)];
                page(client, &path(place, &whole), objects, feed).await?
            }
            other => other?,
        };
    }
    let Some(version) = meta.resource_version() else {
        return Err(Failure::Broken("the list has no resourceVersion".to_owned()).into());
    };
    let version = version.into();
    objects.end_list(feed).await?;
    Ok(version)
}

/// Takes in one answer to a list.
async fn page(
    client: &kube::Client,
    path: &str,
    objects: &mut Objects,
    feed: &mut Feed,
) -> Result<ListMeta, Trouble> {
    let mut body = get(client, path, WITHIN).await?.into_body();
    let mut items = Items::new();
    while let Some(piece) = piece(&mut body, SILENCE).await? {
        items.push(&piece).map_err(Failure::Broken)?;
        while let Some(item) = items.take() {
            objects.item(&item, feed);
            if feed.is_full() {
                objects.flush(feed).await?;
            }
        }
    }
    objects.flush(feed).await?;
    Ok(items.finish().map_err(Failure::Broken)?)
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{KindRef, Node};

    use super::*;

    #[test]
    fn a_query_is_escaped_and_pods_that_have_ended_are_not_asked_for() {
        let place = Place { kind: KindRef::of::<Pod>(), api_version: "v1" };
        assert_eq!(
            path(place, &[("limit", "500"), ("continue", "a+/=b"), ("resourceVersion", "")]),
            "/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed\
             &limit=500&continue=a%2B%2F%3Db"
        );
        let place = Place { kind: KindRef::of::<Node>(), api_version: "v1" };
        assert_eq!(path(place, &[("watch", "true")]), "/api/v1/nodes?watch=true");
    }
}
