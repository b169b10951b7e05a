//! The shared state for answering requests.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use rustls::pki_types::CertificateDer;
use tokio::sync::{Semaphore, watch};

use super::api::Pages;
use super::auth::{Authenticator, Authorizer};
use super::connections::Connections;
use super::health::Health;
use super::process_info::{Build, Feature};
use super::rate::{Handshakes, Rates};
use super::scheduler_view::SchedulerView;
use super::tls::Material;

/// The shared state for answering requests.
pub(super) struct ServerState {
    pub(super) scheduler: Arc<dyn SchedulerView>,
    pub(super) authenticator: Authenticator,
    pub(super) authorizer: Authorizer,
    pub(super) material: watch::Receiver<Arc<Material>>,
    pub(super) health: Health,
    pub(super) registries: Vec<prometheus::Registry>,
    pub(super) build: Build,
    pub(super) features: Vec<Feature>,
    pub(super) flags: Vec<(String, String)>,
    pub(super) profiling: bool,
    pub(super) rates: Mutex<Rates>,
    pub(super) handshakes: Mutex<Handshakes>,
    /// A permit for each request in progress.
    pub(super) work: Semaphore,
    /// The permit to answer a question on a copy of the cluster: there is one copy at a time.
    pub(super) advice: Arc<Semaphore>,
    /// What the page is told from.
    pub(super) pages: Pages,
    pub(super) connections: Connections,
}

/// The client of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    /// Its certificate chain; empty without a certificate.
    pub(super) chain: Vec<CertificateDer<'static>>,
}
