//! A Kubernetes API server in memory, for tests.
//!
//! It serves HTTP/1.1 and HTTP/2, with or without TLS, and stores objects as JSON. It implements the
//! parts of kube-apiserver that schedulers and kubectl use: lists and watches with all their options,
//! writes with their conflicts, bindings, evictions, leases, events, discovery, reviews. Its error
//! messages are exactly those of kube-apiserver.
//!
//! Unlike a real server it offers faults on demand ([`FaultInjector`]), a log of writes and counts of requests
//! ([`RequestCounts`]), and direct access to the objects ([`ObjectStore`]).
//!
//! ```
//! use plimsoll_testserver::{Options, TestServer};
//! use serde_json::json;
//!
//! let server = TestServer::start(Options::default());
//! let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
//! server.store().apply(node).expect("the node is valid");
//! assert!(server.url().starts_with("https://127.0.0.1:"));
//! assert_eq!(server.store().len("nodes"), 1);
//! ```
//!
//! It has no controllers, no kubelets, no garbage collection, no server-side apply and no answers in
//! protobuf, and it validates only what matters to a scheduler.

mod access;
mod api;
pub mod bulk;
mod connection;
mod counts;
mod defaults;
mod devices;
mod events;
mod failure;
mod faults;
mod https_client;
mod kinds;
mod options;
mod protobuf;
mod request;
mod respond;
mod selector;
mod server;
mod store;
mod tls;
mod validate;

pub use access::{AccessRules, Right, User};
pub use counts::{Applied, Request, RequestCounts};
pub use failure::FailureStatus;
pub use faults::{FaultInjector, FaultKind, InjectedFault, When};
pub use https_client::{HttpsClient, HttpsResponse, TlsConnection};
pub use kinds::CustomKind;
pub use options::{Options, Terminating};
pub use server::{StartError, TestServer};
pub use store::{Break, ObjectStore};
pub use tls::ClientCertificate;
