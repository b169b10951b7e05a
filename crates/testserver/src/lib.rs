//! A Kubernetes API server in memory, for tests.
//!
//! It speaks HTTP/1.1 and HTTP/2, with TLS or without, and holds objects as the JSON they came as. Clients find in it
//! what schedulers and kubectl use of kube-apiserver: lists and watches with everything that belongs to them, writes
//! with their conflicts, bindings, evictions, leases, events, discovery, reviews. Errors are those of kube-apiserver to
//! the letter.
//!
//! What a real server does not offer: faults on demand ([`Faults`]), a log of what was written and counts of what was
//! asked ([`Counts`]), and the objects in the test's own hands ([`Store`]).
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
//! What it is not: there are no controllers, no kubelets, no garbage collection, no validation beyond what a scheduler
//! runs into, no server-side apply, no answers in protobuf.

mod access;
mod api;
mod asker;
pub mod bulk;
mod connection;
mod counts;
mod defaults;
mod events;
mod failure;
mod faults;
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

pub use access::{Access, Right, User};
pub use asker::{Answer, Asker, Talk};
pub use counts::{Applied, Counts, Request};
pub use failure::Failure;
pub use faults::{Fault, Faults, Trouble, When};
pub use kinds::CustomKind;
pub use options::{Options, Terminating};
pub use server::{StartError, TestServer};
pub use store::{Break, Store};
pub use tls::ClientCertificate;
