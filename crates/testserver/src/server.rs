//! The server itself: started, stopped and started again by a test, which need not be asynchronous.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use thiserror::Error;
use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::access::AccessRules;
use crate::api::ApiHandler;
use crate::connection::{self, Listener, ListenerCommand};
use crate::counts::{RequestCounts, RequestLog};
use crate::faults::FaultInjector;
use crate::kinds;
use crate::options::Options;
use crate::store::{ObjectStore, SharedStore};
use crate::tls::{ClientCertificate, SigningAuthority};

/// Why a server could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address is in use, or does not belong to this machine.
    #[error("listening on {address}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The threads could not be started.
    #[error("starting the threads of the server")]
    Runtime(#[source] io::Error),
    /// The certificates could not be created.
    #[error("making certificates")]
    Certificate(#[from] rcgen::Error),
    /// Certificates that do not fit together.
    #[error("setting up TLS")]
    Tls(#[from] rustls::Error),
}

/// An API server in memory. It runs on threads of its own until it is dropped.
#[derive(Debug)]
pub struct TestServer {
    store: ObjectStore,
    faults: Arc<FaultInjector>,
    access: Arc<AccessRules>,
    requests: Arc<RequestLog>,
    address: SocketAddr,
    authority: Option<SigningAuthority>,
    admin: String,
    commands: mpsc::UnboundedSender<ListenerCommand>,
    files: RwLock<Vec<PathBuf>>,
    runtime: Option<Runtime>,
}

impl TestServer {
    /// Starts a server. Panics if that is impossible; [`TestServer::try_start`] says why instead.
    pub fn start(options: Options) -> Self {
        match Self::try_start(options) {
            Ok(server) => server,
            Err(error) => panic!("the test server cannot start: {error:?}"),
        }
    }

    /// Starts a server. When it returns, the port is open.
    pub fn try_start(mut options: Options) -> Result<Self, StartError> {
        for kind in &options.custom {
            kinds::add(kind);
            options.also.push(kind.api_version.clone());
        }
        let address = options.address;
        let refused = |source| StartError::Listen { address, source };
        let reserved = reserve(address).map_err(refused)?;
        let address = reserved.local_addr().map_err(refused)?;
        let listener = connection::listen(address).map_err(refused)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_name("testserver")
            .enable_all()
            .build()
            .map_err(StartError::Runtime)?;
        let authority = options.tls.then(SigningAuthority::new).transpose()?;
        let tls = authority.as_ref().map(|a| a.acceptor(address.ip())).transpose()?;
        let shared = Arc::new(SharedStore::new(options));
        let admin = shared.lock().new_uid();
        let options = &shared.options;
        let access =
            Arc::new(AccessRules::new(options.users.clone(), options.authenticate, admin.clone()));
        let (downtime, downtimes) = mpsc::unbounded_channel();
        let (commands, received) = mpsc::unbounded_channel();
        let api = ApiHandler {
            shared: Arc::clone(&shared),
            requests: Arc::new(RequestLog::new(options.remember_requests)),
            faults: Arc::new(FaultInjector::new(Arc::clone(&shared))),
            access: Arc::clone(&access),
            downtime,
        };
        let store = ObjectStore { shared: Arc::clone(&shared) };
        furnish(&store, authority.as_ref());
        let (faults, requests) = (Arc::clone(&api.faults), Arc::clone(&api.requests));
        let listening = Listener { api, address, tls, commands: received, downtimes, reserved };
        let guard = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(refused)?;
        drop(guard);
        runtime.spawn(listening.run(listener));
        runtime.spawn(reap(shared));
        Ok(Self {
            store,
            faults,
            access,
            requests,
            address,
            authority,
            admin,
            commands,
            files: RwLock::default(),
            runtime: Some(runtime),
        })
    }

    /// `https://127.0.0.1:41234`.
    pub fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate of the authority as PEM; `None` over plain HTTP.
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_ref().map(|authority| authority.pem.as_str())
    }

    /// A kubeconfig whose user may do everything.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_of(&self.admin)
    }

    /// A kubeconfig with a token, known to the server or not.
    pub fn kubeconfig_of(&self, token: &str) -> String {
        let mut text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\ncontexts:\n- name: test\n  context:\n    cluster: \
             test\n    user: test\nusers:\n- name: test\n  user:\n    token: {token:?}\nclusters:\n- name: test\n  \
             cluster:\n    server: {}\n",
            self.url()
        );
        if let Some(pem) = self.authority() {
            let data = BASE64_STANDARD.encode(pem);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "    certificate-authority-data: {data}");
        }
        text
    }

    /// Writes [`TestServer::kubeconfig`] to a file that is removed together with the server.
    pub fn kubeconfig_file(&self) -> io::Result<PathBuf> {
        let name = format!("plimsoll-testserver-{}-{}", std::process::id(), self.address.port());
        let path = std::env::temp_dir().join(name);
        self.write_kubeconfig(&path)?;
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.push(path.clone());
        Ok(path)
    }

    /// Writes [`TestServer::kubeconfig`] to `path`.
    pub fn write_kubeconfig(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.kubeconfig())
    }

    /// A certificate that the server accepts for the user `name` in `groups`. At most one group, since
    /// the certificates made here name one organisation. More groups are an error, and so is plain
    /// HTTP.
    pub fn client_certificate(
        &self,
        name: &str,
        groups: &[&str],
    ) -> Result<ClientCertificate, StartError> {
        let refuse = |why: &str| StartError::Tls(rustls::Error::General(why.to_owned()));
        let authority = self.authority.as_ref().ok_or_else(|| refuse("the server has no TLS"))?;
        if 1 < groups.len() {
            return Err(refuse("a certificate made here has one group at most"));
        }
        Ok(authority.client(name, groups.first().copied())?)
    }

    /// Its objects.
    pub fn store(&self) -> &ObjectStore {
        &self.store
    }

    /// Its faults.
    pub fn faults(&self) -> &FaultInjector {
        &self.faults
    }

    /// Its users.
    pub fn access(&self) -> &AccessRules {
        &self.access
    }

    /// The requests that it received, and what it did.
    pub fn counts(&self) -> RequestCounts {
        RequestCounts {
            shared: Arc::clone(&self.store.shared),
            requests: Arc::clone(&self.requests),
        }
    }

    /// Closes the port and every connection at once. Objects, versions and history stay.
    pub fn stop(&self) {
        let (done, wait) = std::sync::mpsc::channel();
        if self.commands.send(ListenerCommand::Stop(done)).is_ok() {
            // An error means that the server has already ended.
            let _ = wait.recv();
        }
    }

    /// Opens the port again, after [`TestServer::stop`].
    pub fn restart(&self) -> io::Result<()> {
        let (done, wait) = std::sync::mpsc::channel();
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        self.commands.send(ListenerCommand::Start(done)).map_err(|_| gone())?;
        wait.recv().map_err(|_| gone())?
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // An asynchronous test must not block until the runtime ends.
            runtime.shutdown_background();
        }
        for file in self.files.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // It may have been removed already.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// A socket that reserves the port while the server does not listen.
fn reserve(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Creates what every cluster has: namespaces, priority classes, and the CA by which other servers
/// authenticate their clients.
fn furnish(store: &ObjectStore, authority: Option<&SigningAuthority>) {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"].map(
        |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
    );
    let classes =
        [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
    let classes = classes.map(|(name, value)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
            "value": value,
        })
    });
    let authentication = authority.map(|authority| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
            "data": { "client-ca-file": authority.pem },
        })
    });
    let objects = namespaces.into_iter().chain(classes).chain(authentication);
    store.apply_all(objects).expect("these objects are valid");
}

/// Removes terminating pods when their time has come.
async fn reap(shared: Arc<SharedStore>) {
    loop {
        let next = shared.lock().reap();
        let next = next.map(tokio::time::Instant::from_std);
        tokio::select! {
            () = shared.dying.notified() => {}
            () = async { match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }} => {}
        }
    }
}
