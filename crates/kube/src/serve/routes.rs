//! The paths of the server.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{any, get, post};
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use plimsoll_api::PodKey;
use plimsoll_engine::Decision;
use plimsoll_engine::record::DecisionRecord;

use super::health::Health;
use super::query::pod_key;
use super::scheduler_view::{Explained, Unresponsive};
use super::server_state::ServerState;
use super::{api, gate, limits, metrics, reply, ui, zpages};

pub(super) type AppState = State<Arc<ServerState>>;
pub(super) type Pairs = Query<Vec<(String, String)>>;

/// The paths of the server. As in kube-scheduler the method does not matter for paths that change nothing.
pub(super) fn routes(state: Arc<ServerState>) -> Router {
    let mut router = Router::new();
    for (endpoint, _) in state.health.endpoints() {
        let all = async move |State(state): AppState, Query(query): Pairs| {
            state.health.all(endpoint, &query)
        };
        // The names of checks may contain slashes.
        let one = async move |State(state): AppState, Path(name): Path<String>| {
            Health::one(&state.health, endpoint, &name)
        };
        router = router
            .route(&format!("/{endpoint}"), any(all))
            .route(&format!("/{endpoint}/{{*name}}"), any(one));
    }
    router
        .route("/metrics", any(all_metrics))
        .route("/metrics/resources", any(resources))
        .route("/metrics/slis", any(slis))
        .route("/configz", any(configuration))
        .route("/explain", get(explain))
        .route("/api/v1/why", get(api::why))
        .route("/api/v1/why-group", get(api::why_group))
        .route("/api/v1/what-if", post(api::what_if))
        .route("/api/v1/capacity", post(api::capacity))
        .route("/api/v1/rebalance", post(api::rebalance))
        .route("/api/v1/openapi.json", get(api::description))
        .route("/api/v1/events", get(api::events))
        .route("/api/v1/{question}", get(api::page))
        .route("/ui", get(ui::lead))
        .route("/ui/", get(ui::page))
        .route("/ui/{asset}", get(ui::page_asset))
        .route("/debug/cache", get(dump))
        .route("/debug/flags/v", any(verbosity))
        .route("/flagz", any(zpages::flags))
        .route("/statusz", any(zpages::status))
        .fallback(async || reply::not_found())
        .layer(from_fn_with_state(state.clone(), gate::pass))
        .with_state(state)
}

/// `DELETE` resets the metrics. As in component-base's metrics/http.go, HandlerWithReset.
async fn all_metrics(State(state): AppState, method: Method) -> Response {
    if method == Method::DELETE {
        return match state.scheduler.reset_metrics().await {
            Ok(()) => reply::error(StatusCode::OK, "metrics reset"),
            Err(silent) => unavailable(silent),
        };
    }
    match state.scheduler.metrics().await {
        Ok(engine) => metrics::all(&engine, &state.registries, &state.build, &state.features),
        Err(silent) => unavailable(silent),
    }
}

/// As in app/server.go, installMetricHandler: only the leader serves them, so that no pod is reported
/// twice.
async fn resources(State(state): AppState) -> Response {
    if !state.scheduler.is_leader() {
        return Response::new(Body::empty());
    }
    match state.scheduler.pods().await {
        Ok(pods) => metrics::resources(pods),
        Err(silent) => unavailable(silent),
    }
}

async fn slis(State(state): AppState) -> Response {
    metrics::slis(&state.health)
}

/// As in component-base's configz/configz.go.
async fn configuration(State(state): AppState) -> Response {
    let configuration = state.scheduler.configuration();
    reply::json(StatusCode::OK, format!("{{\"componentconfig\":{configuration}}}"))
}

/// What would be decided about a pending pod, and why.
async fn explain(State(state): AppState, Query(query): Pairs) -> Response {
    let (pod, with_text) = match requested_pod(&query) {
        Ok(requested) => requested,
        Err(error) => return reply::error(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let gone = |why: &str| reply::error(StatusCode::NOT_FOUND, &format!("pod {pod} {why}"));
    match state.scheduler.explain(pod.clone()).await {
        Ok(Explained::Decision(decision)) => match record(&state, &decision, with_text) {
            Ok(record) => reply::json(StatusCode::OK, record + "\n"),
            Err(error) => {
                reply::error(StatusCode::INTERNAL_SERVER_ERROR, &format!("no record: {error}"))
            }
        },
        Ok(Explained::Placed) => {
            gone("is not pending: it has a node, or is being bound to one; see its events for why")
        }
        Ok(Explained::Unknown) => {
            gone("is not known: there is no such pod, or another scheduler is to place it")
        }
        Err(silent) => unavailable(silent),
    }
}

/// The record of a decision as JSON, with a text for people if that is asked for.
fn record(state: &ServerState, decision: &Decision, with_text: bool) -> serde_json::Result<String> {
    let record = DecisionRecord::of(decision);
    if !with_text {
        return serde_json::to_string(&record);
    }
    let mut record = serde_json::to_value(&record)?;
    record["text"] = state.scheduler.advisor().decision_text(decision).into();
    Ok(record.to_string())
}

const EXPLAIN_USAGE: &str =
    "ask for one pending pod: /explain?pod=NAMESPACE/NAME, with text=true if you like";

/// An invalid query of `/explain`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum QueryError {
    #[error("{EXPLAIN_USAGE}")]
    NoPod,
    #[error("parameter {0:?} is given twice; {EXPLAIN_USAGE}")]
    Repeated(String),
    #[error("text {0:?} is neither true nor false; {EXPLAIN_USAGE}")]
    NoBool(String),
    #[error("unknown parameter {0:?}; {EXPLAIN_USAGE}")]
    UnknownParameter(String),
    #[error("pod {0:?} is no NAMESPACE/NAME; {EXPLAIN_USAGE}")]
    NoPodKey(String),
}

/// The pod in a query of `/explain`, and whether a text is asked for.
fn requested_pod(query: &[(String, String)]) -> Result<(PodKey, bool), QueryError> {
    let (mut pod, mut with_text) = (None, false);
    for (at, (key, value)) in query.iter().enumerate() {
        if query[..at].iter().any(|(other, _)| other == key) {
            return Err(QueryError::Repeated(key.clone()));
        }
        match key.as_str() {
            "pod" => {
                let key = pod_key(value);
                pod = Some(key.ok_or_else(|| QueryError::NoPodKey(value.clone()))?);
            }
            "text" => {
                with_text = value.parse().map_err(|_| QueryError::NoBool(value.clone()))?;
            }
            _ => return Err(QueryError::UnknownParameter(key.clone())),
        }
    }
    Ok((pod.ok_or(QueryError::NoPod)?, with_text))
}

async fn dump(State(state): AppState) -> Response {
    match state.scheduler.dump().await {
        Ok(text) => reply::text(StatusCode::OK, text),
        Err(silent) => unavailable(silent),
    }
}

/// As in routes/flags.go, StringFlagPutHandler, and logs.go, GlogSetter.
async fn verbosity(State(state): AppState, method: Method, body: Body) -> Response {
    if !state.profiling {
        return reply::not_found();
    }
    if method != Method::PUT {
        return reply::text(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
    }
    let read = Limited::new(body, limits::BODY_BYTES).collect().await;
    let level = match read {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).trim().to_owned(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return reply::error(StatusCode::PAYLOAD_TOO_LARGE, "http: request body too large");
        }
        Err(error) => {
            let text = format!("error reading request body: {error}");
            return reply::text(StatusCode::BAD_REQUEST, text);
        }
    };
    match state.scheduler.set_verbosity(&level) {
        Ok(()) => {
            let text = format!("successfully set klog.logging.verbosity to {level}");
            reply::text(StatusCode::OK, text)
        }
        Err(why) => {
            let text = format!("failed set klog.logging.verbosity {level}: {why}");
            reply::text(StatusCode::BAD_REQUEST, text)
        }
    }
}

pub(super) fn unavailable(silent: Unresponsive) -> Response {
    reply::busy(StatusCode::SERVICE_UNAVAILABLE, &silent.to_string(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_asked_for_by_namespace_and_name() {
        let parse = |pairs: &[(&str, &str)]| {
            let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
            requested_pod(&pairs.iter().map(owned).collect::<Vec<_>>())
        };
        let pod = PodKey::new("team", "web-0");
        assert_eq!(parse(&[("pod", "team/web-0")]), Ok((pod.clone(), false)));
        assert_eq!(parse(&[("pod", "team/web-0"), ("text", "true")]), Ok((pod, true)));
        for wrong in [
            &[][..],
            &[("pod", "web-0")],
            &[("pod", "/web-0")],
            &[("pod", "a/b/c")],
            &[("node", "a/b")],
            &[("pod", "a/b"), ("pod", "a/c")],
            &[("pod", "a/b"), ("text", "")],
        ] {
            let why = parse(wrong).expect_err("it is wrong").to_string();
            assert!(why.contains("/explain?pod=NAMESPACE/NAME"), "{why}");
        }
    }
}
