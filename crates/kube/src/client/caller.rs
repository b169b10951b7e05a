//! Sends requests without a task for each.
//!
//! A `kube::Client` passes each request to a task, and the response back through a channel. In a scheduler
//! that writes thousands of times a second, this is a large part of the cost of a request.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use tower::{BoxError, Service, ServiceExt};

use super::metrics::ResponseBody;

type SendResult = Result<Response<ResponseBody>, kube::Error>;

/// Sends requests to the API server in the task of the caller. Clones share connections and limits.
#[derive(Clone)]
pub struct Caller(Arc<dyn Fn(Request<Body>) -> BoxFuture<'static, SendResult> + Send + Sync>);

impl Caller {
    /// Sends requests through `service`.
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
            Box::pin(async move { sent.await.map_err(kube_error) })
        }))
    }

    /// Sends a request, and returns the response whatever its status is.
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

/// Converts the errors of layers, as `kube::Client` does.
fn kube_error(error: BoxError) -> kube::Error {
    let error = match error.downcast::<kube::Error>() {
        Ok(error) => return *error,
        Err(error) => error,
    };
    match error.downcast::<hyper::Error>() {
        Ok(error) => kube::Error::HyperError(*error),
        Err(error) => kube::Error::Service(error),
    }
}
