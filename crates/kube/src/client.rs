//! The connection to the API server.
//!
//! [`connect`] reads a kubeconfig, or the service account of a pod, and returns a [`Connection`]. It
//! creates clients, each with its own rate limit, name and TCP connections, so that clients do not delay
//! each other: a lease is renewed however many pods are being bound.
//!
//! A client never retries; only the sender of a request knows whether that is safe.

mod access;
mod caller;
mod credentials;
mod explain;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod kubeconfig;
mod link;
mod metrics;
mod proxy;
mod read_only;
mod transport;

use std::sync::Arc;

use http::HeaderValue;
use tower::ServiceBuilder;

pub use self::access::{Access, AccessError, Overrides};
pub use self::caller::Caller;
pub(crate) use self::credentials::DelegatedSession;
pub use self::explain::{CredentialError, explain, was_never_sent};
use self::link::Link;
pub(crate) use self::metrics::ResponseBody;
pub use self::metrics::RestMetrics;
use self::metrics::{MeasuredService, MetricsLayer};
pub use self::read_only::{ReadOnlyConnection, connect_read_only};
use self::transport::{Transport, Versions};
use crate::limit::{LimitLayer, Limited, Rate, TokenBucket};

/// Reads the address of the API server and the credentials, and runs a program that prints credentials.
/// Sends nothing yet.
///
/// An error names the file, the field and the remedy.
pub async fn connect(access: Access, metrics: Arc<RestMetrics>) -> Result<Connection, AccessError> {
    if let Some(content_type) = access.unsupported_content_type() {
        tracing::info!(
            content_type,
            "clientConnection.contentType has no effect: requests to the API server are JSON"
        );
    }
    let link = Link::new(access).await?;
    Ok(Connection { link: Arc::new(link), metrics })
}

/// A connection to an API server. Clones share it.
#[derive(Clone, Debug)]
pub struct Connection {
    link: Arc<Link>,
    metrics: Arc<RestMetrics>,
}

impl Connection {
    /// A client with its own rate limit. `name` is the end of its user agent, such as `scheduler` or
    /// `leader-election`; it may be empty.
    ///
    /// Must be called within a tokio runtime, like all requests.
    pub fn client(&self, name: &str, rate: Rate) -> kube::Client {
        self.client_with(name, TokenBucket::new(rate))
    }

    /// A client that takes its tokens from `bucket`, which others may share.
    pub fn client_with(&self, name: &str, bucket: TokenBucket) -> kube::Client {
        kube::Client::new(self.service(name, bucket), self.namespace())
    }

    /// A client whose connections can become streams, as for a port-forward.
    pub(crate) fn upgrading_client(&self, name: &str) -> kube::Client {
        let bucket = TokenBucket::new(Rate::UNLIMITED);
        kube::Client::new(self.service_with(Versions::One, name, bucket), self.namespace())
    }

    /// The same for clients that send many requests: it has less overhead for each of them.
    pub fn caller(&self, name: &str, rate: Rate) -> Caller {
        Caller::new(self.service(name, TokenBucket::new(rate)))
    }

    fn service(&self, name: &str, bucket: TokenBucket) -> MeasuredService<Limited<Transport>> {
        self.service_with(Versions::All, name, bucket)
    }

    fn service_with(
        &self,
        versions: Versions,
        name: &str,
        bucket: TokenBucket,
    ) -> MeasuredService<Limited<Transport>> {
        let (metrics, host) = (self.metrics.clone(), Arc::<str>::from(self.host()));
        let agent = user_agent(name);
        let link = (self.link.clone(), versions);
        let transport = Transport::new(link, agent, metrics.clone(), host.clone());
        ServiceBuilder::new()
            .layer(MetricsLayer { metrics: metrics.clone(), host: host.clone() })
            .layer(LimitLayer::new(bucket, metrics, host))
            .service(transport)
    }

    /// The address of the API server.
    pub fn host(&self) -> String {
        let built = self.link.current();
        let authority = built.loaded.config.cluster_url.authority();
        // An address may contain a user name and a password, which must not be shown.
        let authority = authority.map_or("", |all| all.as_str());
        authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()
    }

    /// The default namespace of the kubeconfig or the service account.
    pub fn namespace(&self) -> String {
        self.link.current().loaded.config.default_namespace.clone()
    }
}

/// `plimsoll/v0.1.0 (linux/amd64)/scheduler`, in the form of rest/config.go, DefaultKubernetesUserAgent.
fn user_agent(name: &str) -> HeaderValue {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    let (version, os) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    let slash = if name.is_empty() { "" } else { "/" };
    let agent = format!("plimsoll/v{version} ({os}/{arch}){slash}{name}");
    HeaderValue::try_from(agent).unwrap_or(HeaderValue::from_static("plimsoll"))
}
