//! Sends requests one by one.
//!
//! A `kube::Client` hands each request to a task of its own, and the answer comes back through another
//! channel. For a scheduler that writes thousands of times a second that is much of what a request costs.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use tower::{BoxError, Service, ServiceExt};

use super::metrics::ResponseBody;

type SendResult = Result<Response<ResponseBody>, kube::Error>;

/// Sends requests to the API server from where it is asked to. Clones share connections and limits.
#[derive(Clone)]
pub struct Caller(Arc<dyn Fn(Request<Body>) -> BoxFuture<'static, SendResult> + Send + Sync>);

impl Caller {
    /// Sends requests by `service`.
    pub(super) fn new<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<ResponseBody>, Error = BoxError>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send,
    {
        Caller(Arc::new(move |request| {
            let sent = service.clone().oneshot(request);
            Box::pin(async move { sent.await.map_err(told) })
        }))
    }

    /// Sends a request; the answer, whatever its status.
    pub(crate) async fn send(&self, request: Request<Body>) -> SendResult {
        (self.0)(request).await
    }
}

impl From<kube::Client> for Caller {
    fn from(client: kube::Client) -> Self {
        Caller(Arc::new(move |request| {
            let client = client.clone();
            Box::pin(async move {
                let answer = client.send(request).await?;
                Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()))
            })
        }))
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}

/// As `kube::Client` tells the errors of its layers.
fn told(error: BoxError) -> kube::Error {
    let error = match error.downcast::<kube::Error>() {
        Ok(error) => return *error,
        Err(error) => error,
    };
    match error.downcast::<hyper::Error>() {
        Ok(error) => kube::Error::HyperError(*error),
        Err(error) => kube::Error::Service(error),
    }
}
