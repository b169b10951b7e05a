//! The options of a test server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::access::User;
use crate::kinds::CustomKind;

/// What a [`crate::TestServer`] starts with. `Options::default()` is a plain, open server of release 1.36 with TLS.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen; port 0 takes a free one. Default: `127.0.0.1:0`.
    pub address: SocketAddr,
    /// Whether to serve HTTPS, with a certificate of the server's own authority, or plain HTTP.
    /// Default: true.
    pub tls: bool,
    /// The minor release whose versions are served, 20 to 37, and which `/version` says. Default: 36.
    pub release: u32,
    /// Groups (`resource.k8s.io`) or versions (`policy/v1`) that are not served although the release has them.
    pub without: Vec<String>,
    /// Alpha groups or versions that are served, too: `scheduling.k8s.io/v1alpha2`.
    pub also: Vec<String>,
    /// Kinds that the server has beside those of Kubernetes.
    pub custom: Vec<CustomKind>,
    /// Whether watches can begin with the present objects (`sendInitialEvents`). `None`: as the release does by
    /// default, from 1.32 on.
    pub streaming_lists: Option<bool>,
    /// How many changes of each kind are kept for watches and continued lists. Default: 200,000.
    pub history: usize,
    /// How many applied writes the log keeps. Default: 2,000,000.
    pub log: usize,
    /// How often an idle watch gets a bookmark, if it asked for them. Default: 1 minute, as kube-apiserver.
    pub bookmarks: Duration,
    /// How long a watch without `timeoutSeconds` lasts. Default: 30 minutes.
    pub watch_timeout: Duration,
    /// What happens to a deleted pod that had a node, since there is no kubelet. Default: it is removed
    /// at once.
    pub terminating: Terminating,
    /// What happens to a deleted namespace once it is empty: until it is removed, nothing can be
    /// created in it. Default: it is removed at once. `Kept` simulates an API server without the
    /// namespace controller.
    pub terminating_namespaces: Terminating,
    /// Users by their tokens, for TokenReviews and SubjectAccessReviews and, with `authenticate`, for the server.
    pub users: Vec<User>,
    /// Whether only `users` may use the server, each with its rights. Default: false, everybody may do
    /// everything.
    pub authenticate: bool,
    /// Whether every different request is remembered with all its details, for
    /// [`crate::RequestCounts::different_requests`]. Default: false.
    pub remember_requests: bool,
    /// The seed of uids and generated names; `None` for a random one. Default: `None`.
    pub seed: Option<u64>,
    /// Threads that serve. Default: 2.
    pub threads: usize,
}

/// What happens to a deleted pod that ran on a node, or to a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminating {
    /// It terminates, and is removed after this time. Zero is at once, but watches still see it
    /// terminate first.
    GoneAfter(Duration),
    /// It stays until it is deleted with a grace period of zero, as a kubelet would.
    Kept,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls: true,
            release: 36,
            without: Vec::new(),
            also: Vec::new(),
            custom: Vec::new(),
            streaming_lists: None,
            history: 200_000,
            log: 2_000_000,
            bookmarks: Duration::from_mins(1),
            watch_timeout: Duration::from_mins(30),
            terminating: Terminating::GoneAfter(Duration::ZERO),
            terminating_namespaces: Terminating::GoneAfter(Duration::ZERO),
            users: Vec::new(),
            authenticate: false,
            remember_requests: false,
            seed: None,
            threads: 2,
        }
    }
}

impl Options {
    /// Plain HTTP instead of TLS.
    pub fn plain(self) -> Self {
        Self { tls: false, ..self }
    }

    pub(crate) fn has_streaming_lists(&self) -> bool {
        self.streaming_lists.unwrap_or(32 <= self.release)
    }
}
