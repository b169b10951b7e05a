//! A connection that cannot write.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use http::{Method, Request};
use tower::{BoxError, Service};

use super::access::{Access, AccessError};
use super::metrics::RestMetrics;
use super::{Connection, connect};
use crate::api_resource::ServedVersions;
use crate::limit::{Rate, TokenBucket};

/// The paths of reviews: who has a token, and what a user may do. They are asked by POST requests, and nothing is kept of them.
const REVIEWS: [&str; 2] = [
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
];

/// A connection to an API server that cannot write: its clients send nothing but GET requests, except for one that also asks for
/// reviews.
///
/// Whoever holds only this changes nothing in the cluster, whatever its credentials allow.
#[derive(Clone, Debug)]
pub struct ReadOnlyConnection {
    connection: Connection,
    /// The versions in which the API server has what is watched through it.
    served: ServedVersions,
}

/// Reads the address of the API server and the credentials, as [`connect`] does.
pub async fn connect_read_only(
    access: Access,
    metrics: Arc<RestMetrics>,
) -> Result<ReadOnlyConnection, AccessError> {
    let connection = connect(access, metrics).await?;
    Ok(ReadOnlyConnection { connection, served: ServedVersions::default() })
}

impl ReadOnlyConnection {
    /// A client with its own rate limit. `name` is the end of its user agent, such as `shadow`.
    ///
    /// Must be called within a tokio runtime, like all requests.
    pub fn client(&self, name: &str, rate: Rate) -> kube::Client {
        self.client_that(Passes::Reads, name, rate)
    }

    /// A client that also asks the API server who has a token and what a user may do, for a server that is open only to some.
    pub fn reviewer(&self) -> kube::Client {
        self.client_that(Passes::ReadsAndReviews, "review", Rate::UNLIMITED)
    }

    fn client_that(&self, passes: Passes, name: &str, rate: Rate) -> kube::Client {
        let service = self.connection.service(name, TokenBucket::new(rate));
        kube::Client::new(ReadOnly { service, passes }, self.connection.namespace())
    }

    /// The versions in which the API server has the kinds that are watched through this connection.
    pub(crate) fn served(&self) -> &ServedVersions {
        &self.served
    }

    /// The address of the API server.
    pub fn host(&self) -> String {
        self.connection.host()
    }
}

/// A request that would not only read.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path} is refused: this connection only reads")]
struct Refused {
    method: Method,
    path: String,
}

/// Which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passes {
    Reads,
    ReadsAndReviews,
}

impl Passes {
    fn allow(self, method: &Method, path: &str) -> bool {
        *method == Method::GET
            || (self == Passes::ReadsAndReviews
                && *method == Method::POST
                && REVIEWS.contains(&path))
    }
}

/// Passes on requests that change nothing, and refuses all others.
#[derive(Clone, Debug)]
struct ReadOnly<S> {
    service: S,
    passes: Passes,
}

impl<S, B> Service<Request<B>> for ReadOnly<S>
where
    S: Service<Request<B>, Error = BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<Ready<Result<S::Response, BoxError>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if self.passes.allow(request.method(), request.uri().path()) {
            return Either::Right(self.service.call(request));
        }
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        Either::Left(ready(Err(Refused { method, path }.into())))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_testserver::{Options, TestServer};

    use super::*;

    async fn send(
        server: &TestServer,
        passes: Passes,
        method: Method,
        path: &str,
    ) -> Result<u16, String> {
        let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
        let access = Access { kubeconfig: Some(kubeconfig), ..Access::default() };
        let connection = connect_read_only(access, Arc::default()).await.expect("it is right");
        let client = connection.client_that(passes, "test", Rate::UNLIMITED);
        let request = Request::builder().method(method).uri(path);
        let request = request.body(kube::client::Body::empty()).expect("it is right");
        let response = client.send(request).await;
        response.map(|response| response.status().as_u16()).map_err(|error| format!("{error:?}"))
    }

    #[tokio::test]
    async fn it_reads_and_refuses_to_write() {
        let server = TestServer::start(Options::default());
        let read = send(&server, Passes::Reads, Method::GET, "/api/v1/pods").await;
        assert_eq!(read, Ok(200));
        let before = server.counts().all_requests();
        for (method, path) in [
            (Method::POST, "/api/v1/namespaces/default/pods/p/binding"),
            (Method::PATCH, "/api/v1/namespaces/default/pods/p/status"),
            (Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"),
            (Method::DELETE, "/api/v1/namespaces/default/pods/p"),
        ] {
            for passes in [Passes::Reads, Passes::ReadsAndReviews] {
                let error = send(&server, passes, method.clone(), path).await;
                let error = error.expect_err("it writes");
                let told = format!("{method} {path} is refused: this connection only reads");
                assert!(
                    error.contains(&format!("method: {method}")) || error.contains(&told),
                    "{error}"
                );
            }
        }
        assert_eq!(server.counts().all_requests(), before, "nothing was sent");
    }

    #[test]
    fn only_one_client_asks_for_reviews() {
        for path in REVIEWS {
            assert!(Passes::ReadsAndReviews.allow(&Method::POST, path), "{path}");
            assert!(!Passes::ReadsAndReviews.allow(&Method::PUT, path), "{path}");
            assert!(!Passes::Reads.allow(&Method::POST, path), "{path}");
        }
        let other = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x";
        assert!(!Passes::ReadsAndReviews.allow(&Method::POST, other));
    }
}
