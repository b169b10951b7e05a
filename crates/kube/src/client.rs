//! The connection to the API server.
//!
//! [`connect`] reads a kubeconfig, or what the cluster gives a pod, and gives a [`Connection`]. From that
//! come clients, each with a limit, a name and TCP connections of its own, so that what one of them sends
//! is never in the way of another: a lease is renewed however many pods are being bound.
//!
//! A client tries nothing twice; whoever sends a request knows whether that is safe.

mod access;
mod caller;
mod explain;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod kubeconfig;
mod link;
mod metrics;
mod proxy;
mod transport;

use std::sync::Arc;

use http::HeaderValue;
use tower::ServiceBuilder;

pub use self::access::{Access, AccessError};
pub use self::caller::Caller;
pub use self::explain::{CredentialError, explain, was_never_sent};
use self::link::Link;
pub(crate) use self::metrics::ResponseBody;
pub use self::metrics::RestMetrics;
use self::metrics::{MeasuredService, MetricsLayer};
use self::transport::Transport;
use crate::limit::{LimitLayer, Limited, Rate, TokenBucket};

/// Finds out where the API server is and who we are, and reads all files for it. A program that prints
/// credentials is run; nothing is sent yet.
///
/// An error names the file, the field and what to do.
pub async fn connect(access: Access, metrics: Arc<RestMetrics>) -> Result<Connection, AccessError> {
    if let Some(asked) = access.unspoken() {
        tracing::info!(
            asked,
            "clientConnection.contentType has no effect: requests to the API server are JSON"
        );
    }
    let link = Link::new(access).await?;
    Ok(Connection { link: Arc::new(link), metrics })
}

/// The way to an API server. Clones share it.
#[derive(Clone, Debug)]
pub struct Connection {
    link: Arc<Link>,
    metrics: Arc<RestMetrics>,
}

impl Connection {
    /// A client with a limit of its own. `name` is what its user agent ends with: `scheduler`,
    /// `leader-election`; may be empty.
    ///
    /// Must be called within a tokio runtime, as all requests.
    pub fn client(&self, name: &str, rate: Rate) -> kube::Client {
        self.client_with(name, TokenBucket::new(rate))
    }

    /// A client that takes its tokens from `bucket`, which others may share.
    pub fn client_with(&self, name: &str, bucket: TokenBucket) -> kube::Client {
        kube::Client::new(self.service(name, bucket), self.namespace())
    }

    /// The same for those that send much: each request goes on its way at once, and through less.
    pub fn caller(&self, name: &str, rate: Rate) -> Caller {
        Caller::new(self.service(name, TokenBucket::new(rate)))
    }

    fn service(&self, name: &str, bucket: TokenBucket) -> MeasuredService<Limited<Transport>> {
        let (metrics, host) = (self.metrics.clone(), Arc::<str>::from(self.host()));
        let agent = user_agent(name);
        let transport = Transport::new(self.link.clone(), agent, metrics.clone(), host.clone());
        ServiceBuilder::new()
            .layer(MetricsLayer { metrics: metrics.clone(), host: host.clone() })
            .layer(LimitLayer::new(bucket, metrics, host))
            .service(transport)
    }

    /// The address of the API server.
    pub fn host(&self) -> String {
        let built = self.link.current();
        let authority = built.loaded.config.cluster_url.authority();
        // User names and passwords in addresses are nobody's business.
        let authority = authority.map_or("", |all| all.as_str());
        authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()
    }

    /// The namespace that the kubeconfig or the cluster says is ours.
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
