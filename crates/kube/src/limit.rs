//! A client-side rate limit: a token bucket, as in client-go.
//!
//! A bucket holds up to `burst` tokens and gains `qps` tokens a second. Each request takes a token, or
//! waits for one in the order of arrival. Watches take none, as in rest/request.go.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

use crate::client::RestMetrics;

/// The defaults of client-go. As in rest/config.go, DefaultQPS and DefaultBurst.
const DEFAULT: Rate = Rate { qps: 5.0, burst: 10 };

/// A wait of this length is logged. As in rest/request.go, extraLongThrottleLatency.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// `clientConnection.qps` and `burst`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests a second. Negative: no limit. 0: 5 a second.
    pub qps: f32,
    /// Requests that may be sent at once after a pause. 0: as in client-go, 10.
    pub burst: i32,
}

impl Rate {
    /// No limit.
    pub const UNLIMITED: Rate = Rate { qps: -1.0, burst: 0 };
}

impl Default for Rate {
    /// The limit of kube-scheduler: 50 a second, and 100 at once.
    fn default() -> Self {
        Rate { qps: 50.0, burst: 100 }
    }
}

/// A token bucket. Clones share it.
#[derive(Clone, Debug)]
pub struct TokenBucket(Option<Arc<BucketInner>>);

#[derive(Debug)]
struct BucketInner {
    qps: f64,
    burst: f64,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    /// Negative if this many requests wait.
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        let or_default = |rate: Rate| Rate {
            qps: if rate.qps == 0.0 { DEFAULT.qps } else { rate.qps },
            burst: if rate.burst <= 0 { DEFAULT.burst } else { rate.burst },
        };
        let rate = or_default(rate);
        if rate.qps < 0.0 || !rate.qps.is_finite() {
            return TokenBucket(None);
        }
        let (qps, burst) = (f64::from(rate.qps), f64::from(rate.burst));
        let level = Mutex::new(Level { tokens: burst, at: Instant::now() });
        TokenBucket(Some(Arc::new(BucketInner { qps, burst, level })))
    }

    /// Takes a token, and returns how long to wait until it is available.
    fn take(&self, now: Instant) -> Duration {
        let Some(inner) = &self.0 else { return Duration::ZERO };
        let mut level = inner.level.lock().unwrap_or_else(PoisonError::into_inner);
        let gained = now.saturating_duration_since(level.at).as_secs_f64() * inner.qps;
        level.at = level.at.max(now);
        level.tokens = (level.tokens + gained).min(inner.burst) - 1.0;
        Duration::try_from_secs_f64(-level.tokens / inner.qps).unwrap_or(Duration::ZERO)
    }

    /// Returns a token that is no longer needed.
    fn give_back(&self) {
        if let Some(inner) = &self.0 {
            let mut level = inner.level.lock().unwrap_or_else(PoisonError::into_inner);
            level.tokens = (level.tokens + 1.0).min(inner.burst);
        }
    }

    /// Waits for a token. If the wait is cancelled, the token is returned.
    pub async fn wait(&self) -> Duration {
        let delay = self.take(Instant::now());
        if !delay.is_zero() {
            let mut promised = Promised(Some(self));
            tokio::time::sleep(delay).await;
            promised.0 = None;
        }
        delay
    }
}

/// A token that a request waits for.
struct Promised<'a>(Option<&'a TokenBucket>);

impl Drop for Promised<'_> {
    fn drop(&mut self) {
        if let Some(bucket) = self.0 {
            bucket.give_back();
        }
    }
}

/// Makes requests wait for a token of a bucket.
#[derive(Clone, Debug)]
pub struct LimitLayer {
    bucket: TokenBucket,
    metrics: Arc<RestMetrics>,
    host: Arc<str>,
}

impl LimitLayer {
    /// Waits are recorded in `metrics` under `host`.
    pub fn new(bucket: TokenBucket, metrics: Arc<RestMetrics>, host: Arc<str>) -> Self {
        LimitLayer { bucket, metrics, host }
    }
}

impl<S> Layer<S> for LimitLayer {
    type Service = Limited<S>;
    fn layer(&self, inner: S) -> Limited<S> {
        Limited { layer: self.clone(), inner }
    }
}

/// A service whose requests wait for tokens.
#[derive(Clone, Debug)]
pub struct Limited<S> {
    layer: LimitLayer,
    inner: S,
}

impl<S, A, B> Service<Request<A>> for Limited<S>
where
    S: Service<Request<A>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    A: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    // The future waits for the token, so that a waiting request does not block others in `poll_ready`.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let LimitLayer { bucket, metrics, host } = self.layer.clone();
        let clone = self.inner.clone();
        // The service that is ready is used; the clone becomes ready with the next `poll_ready`.
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            if !is_watch(request.uri().query()) {
                let waited = bucket.wait().await;
                metrics.limited(request.method(), &host, waited);
                if LONG_WAIT < waited {
                    let (method, path) = (request.method(), request.uri().path());
                    tracing::info!(
                        %method, path, waited_seconds = waited.as_secs_f32(),
                        "a request waited for the client-side rate limit (clientConnection.qps and burst)"
                    );
                }
            }
            inner.call(request).await
        })
    }
}

/// Whether a request starts a watch.
pub(crate) fn is_watch(query: Option<&str>) -> bool {
    let mut pairs = query.unwrap_or_default().split('&');
    pairs.any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(qps: f32, burst: i32) -> (TokenBucket, Instant) {
        (TokenBucket::new(Rate { qps, burst }), Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_burst_requests_come_at_the_rate() {
        let (bucket, start) = bucket(10.0, 3);
        let mut waits = Vec::new();
        for _ in 0..5 {
            waits.push(bucket.take(start).as_millis());
        }
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        let later = start + Duration::from_mins(1);
        let waits: Vec<u128> = (0..4).map(|_| bucket.take(later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100], "no more than the burst is saved up");
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_waiting_gives_the_token_back() {
        let (bucket, start) = bucket(1.0, 1);
        assert_eq!(bucket.wait().await, Duration::ZERO);
        assert!(tokio::time::timeout(Duration::from_millis(1), bucket.wait()).await.is_err());
        assert_eq!(bucket.wait().await, Duration::from_millis(999));
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_negative_rate_is_no_limit_and_nothing_given_is_the_default_of_client_go() {
        let (unlimited, start) = bucket(-1.0, 0);
        assert!((0..10_000).all(|_| unlimited.take(start).is_zero()));
        let (default, start) = bucket(0.0, 0);
        let free = (0..100).take_while(|_| default.take(start).is_zero()).count();
        assert_eq!(free, 10);
    }

    #[test]
    fn watches_are_told_from_lists() {
        for (query, expected) in [
            (None, false),
            (Some("limit=500"), false),
            (Some("allowWatchBookmarks=true"), false),
            (Some("watch=true&timeoutSeconds=300"), true),
            (Some("limit=1&watch=1"), true),
        ] {
            assert_eq!(is_watch(query), expected, "{query:?}");
        }
    }
}
