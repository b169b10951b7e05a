//! `/flagz` and `/statusz`: information about the process, as text for people and as objects for
//! programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::response::Response;
use http::header::WARNING as WARNING_HEADER;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::negotiate::{ApiVersion, MediaType, Negotiated, NotAcceptable, negotiate};
use super::process_info::Build;
use super::server_state::ServerState;
use super::{metrics, reply};
use crate::wire_time;

const COMPONENT: &str = "kube-scheduler";

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";

/// The other pages, for `paths` of `/statusz`. As in kube-scheduler these are the first segments of the
/// paths that are served when `/statusz` is added, without those for debugging.
const PATHS: [&str; 6] = ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"];

/// The flags in effect. As in apiserver's server/flagz.
pub(super) async fn flags(
    State(state): State<Arc<ServerState>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let flags: BTreeMap<&str, &str> =
        state.flags.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let text = || {
        let mut text = format!("\n{COMPONENT} flagz\n{WARNING}\n");
        for (name, value) in &flags {
            writeln!(text, "{name}={value}").expect("a text takes everything");
        }
        text
    };
    page(&headers, &uri, "Flagz", text, |head| Flagz { head, flags: &flags })
}

/// What runs, and since when. As in apiserver's server/statusz.
pub(super) async fn status(
    State(state): State<Arc<ServerState>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let status = StatusPage::new(metrics::started(), SystemTime::now(), &state.build);
    page(&headers, &uri, "Statusz", || status.text(), |head| Statusz { head, status: &status })
}

/// A page in the media type that the client accepts.
fn page<T: Serialize>(
    headers: &HeaderMap,
    uri: &Uri,
    kind: &'static str,
    text: impl FnOnce() -> String,
    object: impl FnOnce(PageHead) -> T,
) -> Response {
    let (media_type, version, pretty) = match negotiate(headers, uri, kind) {
        Ok(Negotiated::Text) => return reply::text(StatusCode::OK, text()),
        Ok(Negotiated::Object { media_type, version, pretty }) => (media_type, version, pretty),
        Err(NotAcceptable { media_type, pretty }) => {
            let message = NotAcceptable::message();
            return reply::not_acceptable(media_type.unwrap_or(MediaType::Json), pretty, &message);
        }
    };
    let head = PageHead {
        kind,
        api_version: version.api_version(),
        metadata: PageMetadata { name: COMPONENT },
    };
    let content_type = Negotiated::content_type(media_type, version, kind);
    let mut response =
        reply::object(StatusCode::OK, media_type, pretty, &content_type, &object(head));
    if version == ApiVersion::V1Alpha1 {
        let page = kind.to_ascii_lowercase();
        let warning = format!(
            "299 - \"This version of the {page} endpoint is deprecated. Please use a newer version.\""
        );
        if let Ok(warning) = HeaderValue::try_from(warning) {
            response.headers_mut().insert(WARNING_HEADER, warning);
        }
    }
    response
}

/// The first fields of every object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageHead {
    kind: &'static str,
    api_version: String,
    metadata: PageMetadata,
}

#[derive(Serialize)]
struct PageMetadata {
    name: &'static str,
}

/// `Flagz` of `config.k8s.io`.
#[derive(Serialize)]
struct Flagz<'a> {
    #[serde(flatten)]
    head: PageHead,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    flags: &'a BTreeMap<&'a str, &'a str>,
}

/// `Statusz` of `config.k8s.io`.
#[derive(Serialize)]
struct Statusz<'a> {
    #[serde(flatten)]
    head: PageHead,
    #[serde(flatten)]
    status: &'a StatusPage,
}

/// What runs, and since when.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusPage {
    #[serde(serialize_with = "seconds")]
    start_time: Timestamp,
    uptime_seconds: u64,
    go_version: String,
    binary_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    emulation_version: String,
    paths: [&'static str; PATHS.len()],
}

impl StatusPage {
    fn new(started: Option<SystemTime>, now: SystemTime, build: &Build) -> Self {
        let started = started.unwrap_or(SystemTime::UNIX_EPOCH);
        let up = now.duration_since(started).unwrap_or(Duration::ZERO);
        let version = &build.git_version;
        StatusPage {
            start_time: Timestamp::try_from(started).unwrap_or(Timestamp::UNIX_EPOCH),
            uptime_seconds: up.as_secs(),
            go_version: build.go_version.clone(),
            binary_version: version.strip_prefix('v').unwrap_or(version).to_owned(),
            emulation_version: build.emulation_version.clone(),
            paths: PATHS,
        }
    }

    fn text(&self) -> String {
        let mut text = format!("\n{COMPONENT} statusz\n{WARNING}\n\n");
        let paths = self.paths.join(" ");
        for (name, value) in [
            ("Started", &unix_date(self.start_time)),
            ("Up", &uptime(self.uptime_seconds)),
            ("Go version", &self.go_version),
            ("Binary version", &self.binary_version),
            ("Emulation version", &self.emulation_version),
            ("Paths", &paths),
        ] {
            // Plimsoll is not built with Go, so this value may be empty; empty lines are left out.
            if !value.is_empty() {
                writeln!(text, "{name}: {value}").expect("a text takes everything");
            }
        }
        text
    }
}

fn seconds<S: serde::Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&wire_time::seconds(*time))
}

/// As Go's time.UnixDate: `Fri Sep  6 06:19:51 UTC 2024`.
fn unix_date(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%a %b %e %H:%M:%S UTC %Y").to_string()
}

fn uptime(seconds: u64) -> String {
    format!("{} hr {:02} min {:02} sec", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use expect_test::expect;

    use super::*;

    fn status() -> StatusPage {
        let started = UNIX_EPOCH + Duration::from_secs(1_725_603_591);
        let build = Build {
            git_version: "v1.36.2".to_owned(),
            emulation_version: "1.36".to_owned(),
            ..Build::default()
        };
        StatusPage::new(Some(started), started + Duration::from_secs(3723), &build)
    }

    #[test]
    fn the_page_says_what_runs_and_since_when() {
        expect![[r#"

            kube-scheduler statusz
            Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.

            Started: Fri Sep  6 06:19:51 UTC 2024
            Up: 1 hr 02 min 03 sec
            Binary version: 1.36.2
            Emulation version: 1.36
            Paths: /configz /flagz /healthz /livez /metrics /readyz
        "#]]
        .assert_eq(&status().text());
    }

    #[test]
    fn the_object_has_the_fields_of_statusz_in_their_order() {
        let head = PageHead {
            kind: "Statusz",
            api_version: ApiVersion::V1Beta1.api_version(),
            metadata: PageMetadata { name: COMPONENT },
        };
        let object = Statusz { head, status: &status() };
        expect![[r#"
            {
              "kind": "Statusz",
              "apiVersion": "config.k8s.io/v1beta1",
              "metadata": {
                "name": "kube-scheduler"
              },
              "startTime": "2024-09-06T06:19:51Z",
              "uptimeSeconds": 3723,
              "goVersion": "",
              "binaryVersion": "1.36.2",
              "emulationVersion": "1.36",
              "paths": [
                "/configz",
                "/flagz",
                "/healthz",
                "/livez",
                "/metrics",
                "/readyz"
              ]
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&object).expect("it is JSON"));
    }
}
