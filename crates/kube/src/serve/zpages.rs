//! `/flagz` and `/statusz`: pages for people.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::response::Response;
use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::site::Site;
use super::{metrics, reply};

const COMPONENT: &str = "kube-scheduler";

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";

const NOT_ACCEPTABLE: &str = "media type not acceptable, must be: text/plain";

/// The flags in effect. As in zpages/flagz/flagz.go.
pub(super) async fn flags(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    if !takes_text(&headers) {
        return reply::error(StatusCode::NOT_ACCEPTABLE, NOT_ACCEPTABLE);
    }
    let mut flags: Vec<_> = site.flags.iter().collect();
    flags.sort();
    let mut text = format!("\n{COMPONENT} flagz\n{WARNING}\n\n");
    for (name, value) in flags {
        writeln!(text, "{name}={value}").expect("a text takes everything");
    }
    reply::text(StatusCode::OK, text)
}

/// What runs, and since when. As in zpages/statusz/statusz.go.
pub(super) async fn status(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    if !takes_text(&headers) {
        return reply::error(StatusCode::NOT_ACCEPTABLE, NOT_ACCEPTABLE);
    }
    let started = metrics::started();
    let text = status_text(started, SystemTime::now(), &site.build.git_version);
    reply::text(StatusCode::OK, text)
}

fn status_text(started: Option<SystemTime>, now: SystemTime, version: &str) -> String {
    let mut text = format!("\n{COMPONENT} statusz\n{WARNING}\n\n");
    if let Some(started) = started {
        let up = now.duration_since(started).unwrap_or_default();
        let lines = format!("Started: {}\nUp: {}\n", unix_date(started), uptime(up));
        text.push_str(&lines);
    }
    writeln!(text, "Binary version: {version}").expect("a text takes everything");
    text
}

/// As in zpages/httputil: whoever takes no plain text gets nothing else.
fn takes_text(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accept
        .flat_map(|value| value.split(','))
        .map(|kind| kind.split(';').next().unwrap_or_default().trim())
        .peekable();
    kinds.peek().is_none() || kinds.any(|kind| matches!(kind, "text/plain" | "text/*" | "*/*"))
}

/// As Go's time.UnixDate: `Fri Sep  6 06:19:51 UTC 2024`.
fn unix_date(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH);
    time.to_zoned(TimeZone::UTC).strftime("%a %b %e %H:%M:%S UTC %Y").to_string()
}

fn uptime(up: Duration) -> String {
    let seconds = up.as_secs();
    format!("{} hr {:02} min {:02} sec", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use expect_test::expect;

    use super::*;

    #[test]
    fn the_page_says_what_runs_and_since_when() {
        let started = UNIX_EPOCH + Duration::from_secs(1_725_603_591);
        let text = status_text(Some(started), started + Duration::from_secs(3723), "v1.36.2");
        expect![[r#"

            kube-scheduler statusz
            Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.

            Started: Fri Sep  6 06:19:51 UTC 2024
            Up: 1 hr 02 min 03 sec
            Binary version: v1.36.2
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn who_takes_no_text_gets_none() {
        for (accept, takes) in [
            (None, true),
            (Some("text/plain;q=0.5, application/json"), true),
            (Some("*/*"), true),
            (Some("application/json"), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, accept.parse().expect("a header"));
            }
            assert_eq!(takes_text(&headers), takes, "{accept:?}");
        }
    }
}
