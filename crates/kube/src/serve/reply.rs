//! Answers, with the messages of the API machinery.

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use serde::Serialize;

use super::auth::RequestUserInfo;
use super::negotiate::MediaType;

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// User agents of people, who get indented JSON. As in negotiation/negotiate.go, isPrettyPrint.
const PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// An answer that is text.
pub(super) fn text(code: StatusCode, body: impl Into<Body>) -> Response {
    of_type(code, PLAIN, body)
}

/// An error as Go's plain HTTP server sends it: a line of text.
pub(super) fn error(code: StatusCode, why: &str) -> Response {
    text(code, format!("{why}\n"))
}

/// An answer that is JSON.
pub(super) fn json(code: StatusCode, body: impl Into<Body>) -> Response {
    of_type(code, JSON, body)
}

/// An answer of some type.
pub(super) fn of_type(code: StatusCode, kind: HeaderValue, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// An answer that is an object, in JSON or YAML. `content_type` says which object.
pub(super) fn object(
    code: StatusCode,
    media_type: MediaType,
    pretty: bool,
    content_type: &str,
    value: &impl Serialize,
) -> Response {
    let body = match (media_type, pretty) {
        (MediaType::Yaml, _) => {
            serde_json::to_value(value).map(|value| plimsoll_config::to_yaml(&value))
        }
        (_, true) => serde_json::to_string_pretty(value),
        (_, false) => serde_json::to_string(value).map(|line| line + "\n"),
    };
    let kind = HeaderValue::from_str(content_type).unwrap_or(JSON);
    of_type(code, kind, body.unwrap_or_default())
}

/// The path does not exist. As in net/http, NotFound, which kube-scheduler uses.
pub(super) fn not_found() -> Response {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// The server is busy. The client may retry after `seconds`.
pub(super) fn busy(code: StatusCode, why: &str, seconds: u64) -> Response {
    let mut response = error(code, why);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// An internal error. As in responsewriters/errors.go, InternalError.
pub(super) fn internal(uri: &Uri, why: &str) -> Response {
    let text = format!("Internal Server Error: {:?}: {why}", uri.to_string());
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    error(StatusCode::INTERNAL_SERVER_ERROR, &text)
}

/// Answers must not be cached, unless they say otherwise. As in filters/cachecontrol.go.
pub(super) fn uncached(mut response: Response) -> Response {
    let value = HeaderValue::from_static("no-cache, private");
    response.headers_mut().entry(CACHE_CONTROL).or_insert(value);
    response
}

/// `Status` of the API machinery.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorStatus<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: Empty,
    #[serde(rename = "status")]
    outcome: &'a str,
    message: &'a str,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Empty>,
    code: u16,
}

#[derive(Serialize)]
struct Empty {}

/// The credentials are invalid. As in filters/authentication.go, Unauthorized.
pub(super) fn unauthorized(headers: &HeaderMap, uri: &Uri) -> Response {
    with_details(headers, uri, StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None)
}

/// The user may not do this. As in responsewriters/errors.go, Forbidden.
pub(super) fn forbidden(
    headers: &HeaderMap,
    uri: &Uri,
    user: &RequestUserInfo,
    verb: &str,
    why: &str,
) -> Response {
    let mut message =
        format!("forbidden: User {:?} cannot {verb} path {:?}", user.name, uri.path());
    if !why.is_empty() {
        message.push_str(": ");
        message.push_str(why);
    }
    with_details(headers, uri, StatusCode::FORBIDDEN, "Forbidden", &message, Some(Empty {}))
}

/// No form that the client accepts is available. As in negotiation/errors.go.
pub(super) fn not_acceptable(media_type: MediaType, pretty: bool, message: &str) -> Response {
    let code = StatusCode::NOT_ACCEPTABLE;
    object(
        code,
        media_type,
        pretty,
        media_type.as_str(),
        &ErrorStatus::new(code, "NotAcceptable", message, None),
    )
}

/// A failure, as an object of the API machinery.
pub(super) fn status(
    headers: &HeaderMap,
    uri: &Uri,
    code: StatusCode,
    reason: &str,
    message: &str,
) -> Response {
    with_details(headers, uri, code, reason, message, None)
}

fn with_details(
    headers: &HeaderMap,
    uri: &Uri,
    code: StatusCode,
    reason: &str,
    message: &str,
    details: Option<Empty>,
) -> Response {
    let status = ErrorStatus::new(code, reason, message, details);
    object(code, MediaType::Json, is_for_people(headers, uri), MediaType::Json.as_str(), &status)
}

impl<'a> ErrorStatus<'a> {
    fn new(code: StatusCode, reason: &'a str, message: &'a str, details: Option<Empty>) -> Self {
        ErrorStatus {
            kind: "Status",
            api_version: "v1",
            metadata: Empty {},
            outcome: "Failure",
            message,
            reason,
            details,
            code: code.as_u16(),
        }
    }
}

/// Whether a person reads the answer. As in negotiation/negotiate.go, isPrettyPrint.
pub(super) fn is_for_people(headers: &HeaderMap, uri: &Uri) -> bool {
    let mut query = uri.query().unwrap_or_default().split('&');
    if let Some(asked) = query.find_map(|part| part.strip_prefix("pretty=")) {
        return matches!(asked, "1" | "true");
    }
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
    agent.is_some_and(|agent| PEOPLE.iter().any(|people| agent.starts_with(people)))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use http_body_util::BodyExt as _;

    use super::*;

    async fn check(response: Response, expected: Expect) {
        let body = response.into_body().collect().await.expect("it is at hand").to_bytes();
        expected.assert_eq(std::str::from_utf8(&body).expect("it is text"));
    }

    fn uri(text: &str) -> Uri {
        text.parse().expect("a URI")
    }

    #[tokio::test]
    async fn refusals_are_told_as_the_api_server_tells_them() {
        let (none, at) = (HeaderMap::new(), uri("/metrics?x=y"));
        let anonymous = RequestUserInfo::anonymous();
        check(
            forbidden(&none, &at, &anonymous, "get", ""),
            expect![[r#"
                {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"forbidden: User \"system:anonymous\" cannot get path \"/metrics\"","reason":"Forbidden","details":{},"code":403}
            "#]],
        )
        .await;
        check(
            unauthorized(&none, &at),
            expect![[r#"
                {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}
            "#]],
        )
        .await;
        let mut curl = HeaderMap::new();
        curl.insert(USER_AGENT, HeaderValue::from_static("curl/8.0"));
        check(
            forbidden(&curl, &at, &anonymous, "get", "no rule"),
            expect![[r#"
                {
                  "kind": "Status",
                  "apiVersion": "v1",
                  "metadata": {},
                  "status": "Failure",
                  "message": "forbidden: User \"system:anonymous\" cannot get path \"/metrics\": no rule",
                  "reason": "Forbidden",
                  "details": {},
                  "code": 403
                }"#]],
        )
        .await;
        assert!(!is_for_people(&curl, &uri("/x?pretty=false")));
        assert!(is_for_people(&none, &uri("/x?a=b&pretty=1")));
    }

    #[tokio::test]
    async fn an_error_here_tells_where_and_why_and_nothing_that_a_browser_would_run() {
        check(
            internal(&uri("/metrics"), "<b>&</b>"),
            expect![[r#"
                Internal Server Error: "/metrics": &lt;b&gt;&amp;&lt;/b&gt;
            "#]],
        )
        .await;
    }
}
