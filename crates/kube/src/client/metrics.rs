//! The metrics of requests to the API server, as in client-go.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Body as _;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

use crate::limit::is_watch;

/// As in component-base's metrics/prometheus/restclient/metrics.go.
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
const BYTES: [f64; 11] = [
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// The code of a request without a response.
const NO_ANSWER: &str = "<error>";

/// `rest_client_*`: requests by code, their duration and sizes, and waits for the client-side rate limit.
#[derive(Clone, Debug)]
pub struct RestMetrics {
    requests: IntCounterVec,
    duration: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
    limiter: HistogramVec,
}

impl Default for RestMetrics {
    fn default() -> Self {
        let by_verb = |name: &str, help: &str, buckets: &[f64]| {
            let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            HistogramVec::new(opts, &["verb", "host"]).expect("name and labels are well-formed")
        };
        let requests = Opts::new(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
        );
        RestMetrics {
            requests: IntCounterVec::new(requests, &["code", "method", "host"])
                .expect("name and labels are well-formed"),
            duration: by_verb(
                "rest_client_request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host.",
                &SECONDS,
            ),
            request_size: by_verb(
                "rest_client_request_size_bytes",
                "Request size in bytes. Broken down by verb and host.",
                &BYTES,
            ),
            response_size: by_verb(
                "rest_client_response_size_bytes",
                "Response size in bytes. Broken down by verb and host.",
                &BYTES,
            ),
            limiter: by_verb(
                "rest_client_rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds. Broken down by verb, and host.",
                &SECONDS,
            ),
        }
    }
}

impl RestMetrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        registry.register(Box::new(self.requests.clone()))?;
        for histogram in [&self.duration, &self.request_size, &self.response_size, &self.limiter] {
            registry.register(Box::new(histogram.clone()))?;
        }
        Ok(())
    }

    /// Records a request with the `code` of its response, if there was one.
    pub(crate) fn answered(&self, method: &Method, host: &str, code: Option<StatusCode>) {
        let code = code.as_ref().map_or(NO_ANSWER, StatusCode::as_str);
        self.requests.with_label_values(&[code, method.as_str(), host]).inc();
    }

    /// Records how long a request waited for the client-side rate limit.
    pub(crate) fn limited(&self, method: &Method, host: &str, waited: Duration) {
        let limiter = self.limiter.with_label_values(&[method.as_str(), host]);
        limiter.observe(waited.as_secs_f64());
    }

    fn took(&self, method: &Method, host: &str, time: Duration) {
        let duration = self.duration.with_label_values(&[method.as_str(), host]);
        duration.observe(time.as_secs_f64());
    }

    fn sizes(&self, method: &Method, host: &str, request: Option<u64>, response: Option<u64>) {
        for (size, histogram) in [(request, &self.request_size), (response, &self.response_size)] {
            if let Some(size) = size {
                #[expect(clippy::cast_precision_loss, reason = "buckets are coarse")]
                histogram.with_label_values(&[method.as_str(), host]).observe(size as f64);
            }
        }
    }
}

/// Records each request.
#[derive(Clone, Debug)]
pub(super) struct MetricsLayer {
    pub(super) metrics: Arc<RestMetrics>,
    pub(super) host: Arc<str>,
}

impl<S> Layer<S> for MetricsLayer {
    type Service = MeasuredService<S>;
    fn layer(&self, inner: S) -> MeasuredService<S> {
        MeasuredService { layer: self.clone(), inner }
    }
}

/// A service whose requests are recorded.
#[derive(Clone, Debug)]
pub(super) struct MeasuredService<S> {
    layer: MetricsLayer,
    inner: S,
}

/// The body of a response.
pub(crate) type ResponseBody = UnsyncBoxBody<bytes::Bytes, BoxError>;

impl<S, A> Service<Request<A>> for MeasuredService<S>
where
    S: Service<Request<A>, Response = Response<ResponseBody>, Error = BoxError>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    A: hyper::body::Body + Send + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let MetricsLayer { metrics, host } = self.layer.clone();
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            let method = request.method().clone();
            // As in rest/request.go: the duration of a watch means nothing.
            let is_timed = !is_watch(request.uri().query());
            let sent = request.body().size_hint().exact().filter(|&size| 0 < size);
            let start = Instant::now();
            let answer = inner.call(request).await;
            if is_timed {
                metrics.took(&method, &host, start.elapsed());
                let received = answer.as_ref().ok().and_then(|one| one.body().size_hint().exact());
                metrics.sizes(&method, &host, sent, received);
            }
            answer
        })
    }
}
