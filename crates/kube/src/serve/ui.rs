//! `/ui`: the files of the page. They say nothing about a cluster, so everybody may read them.

use axum::body::Body;
use axum::extract::Path;
use axum::response::Response;
use http::header::{ETAG, IF_NONE_MATCH, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use plimsoll_ui::{SECURITY_HEADERS, asset};

use super::reply;

/// Whether a path is one of the page's.
pub(super) fn is_of_page(path: &str) -> bool {
    path == "/ui" || path.starts_with("/ui/")
}

/// `/ui` leads to `/ui/`, also behind a proxy that puts something before it.
pub(super) async fn lead() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("ui/"));
    response
}

/// The page itself.
pub(super) async fn page(headers: HeaderMap) -> Response {
    file("", &headers)
}

/// A file of the page.
pub(super) async fn page_asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    file(&name, &headers)
}

fn file(name: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = asset(name) else { return reply::not_found() };
    let kind = HeaderValue::from_static(asset.content_type);
    let mut response = match headers.get(IF_NONE_MATCH).is_some_and(|known| known == asset.etag) {
        true => reply::of_type(StatusCode::NOT_MODIFIED, kind, Body::empty()),
        false => reply::of_type(StatusCode::OK, kind, asset.bytes),
    };
    for (name, value) in SECURITY_HEADERS {
        let name = HeaderName::from_static(name);
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().insert(ETAG, HeaderValue::from_static(asset.etag));
    response
}
