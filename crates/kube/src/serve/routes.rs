//! What is served where.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{any, get};
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use plimsoll_api::PodKey;
use plimsoll_engine::record::DecisionRecord;

use super::health::Health;
use super::inside::{Explained, Silent};
use super::site::Site;
use super::{gate, limits, metrics, reply, zpages};

type Here = State<Arc<Site>>;
type Pairs = Query<Vec<(String, String)>>;

/// What is served where. As in kube-scheduler the method does not matter for paths that change nothing.
pub(super) fn routes(site: Arc<Site>) -> Router {
    let mut router = Router::new();
    for (endpoint, _) in site.health.endpoints() {
        let all =
            async move |State(site): Here, Query(query): Pairs| site.health.all(endpoint, &query);
        // The names of checks may contain slashes.
        let one = async move |State(site): Here, Path(name): Path<String>| {
            Health::one(&site.health, endpoint, &name)
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
        .route("/debug/cache", get(dump))
        .route("/debug/flags/v", any(verbosity))
        .route("/flagz", any(zpages::flags))
        .route("/statusz", any(zpages::status))
        .fallback(async || reply::not_found())
        .layer(from_fn_with_state(site.clone(), gate::pass))
        .with_state(site)
}

/// `DELETE` resets the metrics. As in component-base's metrics/http.go, HandlerWithReset.
async fn all_metrics(State(site): Here, method: Method) -> Response {
    if method == Method::DELETE {
        return match site.inside.reset_metrics().await {
            Ok(()) => reply::error(StatusCode::OK, "metrics reset"),
            Err(silent) => unavailable(silent),
        };
    }
    match site.inside.metrics().await {
        Ok(engine) => metrics::all(&engine, &site.registries, &site.build, &site.features),
        Err(silent) => unavailable(silent),
    }
}

/// As in app/server.go, installMetricHandler: only the leader serves them, so that no pod is reported
/// twice.
async fn resources(State(site): Here) -> Response {
    if !site.inside.is_leader() {
        return Response::new(Body::empty());
    }
    match site.inside.pods().await {
        Ok(pods) => metrics::resources(pods),
        Err(silent) => unavailable(silent),
    }
}

async fn slis(State(site): Here) -> Response {
    metrics::slis(&site.health)
}

/// As in component-base's configz/configz.go.
async fn configuration(State(site): Here) -> Response {
    let configuration = site.inside.configuration();
    reply::json(StatusCode::OK, format!("{{\"componentconfig\":{configuration}}}"))
}

/// What would be decided about a pending pod, and why.
async fn explain(State(site): Here, Query(query): Pairs) -> Response {
    let pod = match wanted(&query) {
        Ok(pod) => pod,
        Err(why) => return reply::error(StatusCode::BAD_REQUEST, &why),
    };
    let gone = |why: &str| reply::error(StatusCode::NOT_FOUND, &format!("pod {pod} {why}"));
    match site.inside.explain(pod.clone()).await {
        Ok(Explained::Decision(decision)) => {
            match serde_json::to_string(&DecisionRecord::of(&decision)) {
                Ok(record) => reply::json(StatusCode::OK, record + "\n"),
                Err(error) => {
                    reply::error(StatusCode::INTERNAL_SERVER_ERROR, &format!("no record: {error}"))
                }
            }
        }
        Ok(Explained::Placed) => {
            gone("is not pending: it has a node, or is being bound to one; see its events for why")
        }
        Ok(Explained::Unknown) => {
            gone("is not known: there is no such pod, or another scheduler is to place it")
        }
        Err(silent) => unavailable(silent),
    }
}

/// The pod in a query. The error says what is wrong with the query.
fn wanted(query: &[(String, String)]) -> Result<PodKey, String> {
    const USAGE: &str = "ask for one pending pod: /explain?pod=NAMESPACE/NAME";
    let [(key, pod)] = query else { return Err(USAGE.to_owned()) };
    if key != "pod" {
        return Err(format!("unknown parameter {key:?}; {USAGE}"));
    }
    match pod.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(PodKey::new(namespace, name))
        }
        _ => Err(format!("pod {pod:?} is no NAMESPACE/NAME; {USAGE}")),
    }
}

async fn dump(State(site): Here) -> Response {
    match site.inside.dump().await {
        Ok(text) => reply::text(StatusCode::OK, text),
        Err(silent) => unavailable(silent),
    }
}

/// As in routes/flags.go, StringFlagPutHandler, and logs.go, GlogSetter.
async fn verbosity(State(site): Here, method: Method, body: Body) -> Response {
    if !site.profiling {
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
    match site.inside.set_verbosity(&level) {
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

fn unavailable(silent: Silent) -> Response {
    reply::busy(StatusCode::SERVICE_UNAVAILABLE, &silent.to_string(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_asked_for_by_namespace_and_name() {
        let ask = |pairs: &[(&str, &str)]| {
            let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
            wanted(&pairs.iter().map(owned).collect::<Vec<_>>())
        };
        assert_eq!(ask(&[("pod", "team/web-0")]), Ok(PodKey::new("team", "web-0")));
        for wrong in [
            &[][..],
            &[("pod", "web-0")],
            &[("pod", "/web-0")],
            &[("pod", "a/b/c")],
            &[("node", "a/b")],
            &[("pod", "a/b"), ("pod", "a/c")],
        ] {
            let why = ask(wrong).expect_err("it is wrong");
            assert!(why.contains("/explain?pod=NAMESPACE/NAME"), "{why}");
        }
    }
}
