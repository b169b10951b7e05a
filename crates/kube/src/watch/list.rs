//! Lists all objects of a kind, in pages. Each page is parsed while it arrives.

use std::fmt::Write;
use std::time::Duration;

use plimsoll_api::Str;

use super::feed::{Closed, Feed};
use super::frames::{OBJECT_LIMIT, Text};
use super::list_parser::{ListMeta, ListParseError, ListParser};
use super::tracker::ObjectTracker;
use plimsoll_api::Pod;

use crate::api_resource::ApiResource;
use crate::request::{GetError, SILENCE, StatusError, get, piece};

/// The number of objects on a page. As in tools/pager/pager.go, defaultPageSize.
const PAGE: u32 = 500;
/// The timeout until a response begins. The API server has a limit of a minute.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Finished pods use no resources of a node. As in scheduler.go, newPodInformer.
const UNFINISHED_PODS: &str =
    "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";

/// Why a list or a watch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListWatchError {
    /// The receiver of the events was dropped.
    Closed,
    /// A request failed.
    Failed(GetError),
}

impl From<GetError> for ListWatchError {
    fn from(error: GetError) -> Self {
        ListWatchError::Failed(error)
    }
}

impl From<ListParseError> for ListWatchError {
    fn from(error: ListParseError) -> Self {
        ListWatchError::Failed(GetError::Broken(error.to_string()))
    }
}

impl From<Closed> for ListWatchError {
    fn from(_: Closed) -> Self {
        ListWatchError::Closed
    }
}

/// The path and query of a request for all objects of `resource`. Empty parameters are omitted.
pub(super) fn path(resource: ApiResource, parameters: &[(&str, &str)]) -> String {
    let mut path = resource.path();
    let mut mark = '?';
    if resource.kind.is::<Pod>() {
        path.push(mark);
        path.push_str(UNFINISHED_PODS);
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

/// Percent-encodes all but unreserved characters.
pub(crate) fn encode(value: &str, out: &mut String) {
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

/// How lists of a kind are paginated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pagination {
    /// A list from the watch cache of the server came in pages, so the server has no watch cache. Every
    /// list is then requested in pages.
    is_forced: bool,
}

/// Lists all objects at `version` or later; an empty version requests the latest one. Returns the version
/// from which to watch.
///
/// As in tools/cache/reflector.go, list, and tools/pager/pager.go: a list with a minimum version is
/// requested without pages, since the watch cache of the server has none. If a page has expired (410),
/// the whole list is requested.
pub(super) async fn list(
    client: &kube::Client,
    resource: ApiResource,
    version: &str,
    pagination: &mut Pagination,
    objects: &mut ObjectTracker,
    feed: &mut Feed,
) -> Result<Str, ListWatchError> {
    let limit = PAGE.to_string();
    let in_pages = pagination.is_forced || version.is_empty() || version == "0";
    let limit = if in_pages { limit.as_str() } else { "" };
    objects.begin_list();
    let first = [("limit", limit), ("resourceVersion", version)];
    let mut meta = page(client, &path(resource, &first), objects, feed).await?;
    while let Some(next) = meta.next().map(str::to_owned) {
        pagination.is_forced |= version == "0";
        let following = [("limit", limit), ("continue", next.as_str())];
        meta = match page(client, &path(resource, &following), objects, feed).await {
            Err(ListWatchError::Failed(error))
                if error.status_error().is_some_and(StatusError::is_expired) =>
            {
                objects.begin_list();
                let whole = [("resourceVersion", version)];
                page(client, &path(resource, &whole), objects, feed).await?
            }
            result => result?,
        };
    }
    let Some(version) = meta.resource_version() else {
        return Err(GetError::Broken("the list has no resourceVersion".to_owned()).into());
    };
    let version = version.into();
    objects.end_list(feed).await?;
    Ok(version)
}

/// Requests one page and processes its objects.
async fn page(
    client: &kube::Client,
    path: &str,
    objects: &mut ObjectTracker,
    feed: &mut Feed,
) -> Result<ListMeta, ListWatchError> {
    let mut body = get(client, path, TIMEOUT).await?.into_body();
    let mut parser = ListParser::new();
    while let Some(piece) = piece(&mut body, SILENCE).await? {
        parser.push(&piece)?;
        while let Some(item) = parser.take() {
            objects.item(&item, feed);
            if feed.is_full() {
                objects.flush(feed).await?;
            }
        }
    }
    objects.flush(feed).await?;
    Ok(parser.finish()?)
}

/// The text of every object of `resource`, for who needs them once.
///
/// An object that is too large to be read is an error, because the result would lack it.
pub(crate) async fn list_texts(
    client: &kube::Client,
    resource: ApiResource,
) -> Result<Vec<Box<str>>, GetError> {
    let limit = PAGE.to_string();
    let (mut texts, mut next) = (Vec::new(), None::<String>);
    loop {
        let following = next.as_deref().unwrap_or_default();
        let parameters = [("limit", limit.as_str()), ("continue", following)];
        let read = page_of_texts(client, &path(resource, &parameters), &mut texts).await;
        let meta = match read {
            // The page has expired: the whole list, without pages.
            Err(error) if error.status_error().is_some_and(StatusError::is_expired) => {
                texts.clear();
                page_of_texts(client, &path(resource, &[]), &mut texts).await?
            }
            read => read?,
        };
        next = meta.next().map(str::to_owned);
        if next.is_none() {
            return Ok(texts);
        }
    }
}

async fn page_of_texts(
    client: &kube::Client,
    path: &str,
    texts: &mut Vec<Box<str>>,
) -> Result<ListMeta, GetError> {
    let broken = |why: &dyn std::fmt::Display| GetError::Broken(why.to_string());
    let mut body = get(client, path, TIMEOUT).await?.into_body();
    let mut parser = ListParser::new();
    while let Some(piece) = piece(&mut body, SILENCE).await? {
        parser.push(&piece).map_err(|error| broken(&error))?;
        while let Some(item) = parser.take() {
            let Text::Whole(bytes) = item else {
                return Err(broken(&format_args!("an object is larger than {OBJECT_LIMIT} bytes")));
            };
            let text = std::str::from_utf8(&bytes).map_err(|error| broken(&error))?;
            texts.push(text.into());
        }
    }
    parser.finish().map_err(|error| broken(&error))
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{KindRef, Node};

    use super::*;

    #[test]
    fn a_query_is_escaped_and_excludes_finished_pods() {
        let resource = ApiResource { kind: KindRef::of::<Pod>(), api_version: "v1" };
        assert_eq!(
            path(resource, &[("limit", "500"), ("continue", "a+/=b"), ("resourceVersion", "")]),
            "/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed\
             &limit=500&continue=a%2B%2F%3Db"
        );
        let resource = ApiResource { kind: KindRef::of::<Node>(), api_version: "v1" };
        assert_eq!(path(resource, &[("watch", "true")]), "/api/v1/nodes?watch=true");
    }
}
