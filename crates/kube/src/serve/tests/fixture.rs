//! A test server, certificate authorities, and a client that sends exactly the given bytes.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use plimsoll_api::{KindRef, ObjectKey, PodKey};
use plimsoll_engine::metrics::Family;
use plimsoll_engine::{ClusterSnapshot, Decision, PendingPod};
use plimsoll_framework::{PodInfo, Time};
use plimsoll_ui::{ClusterAndQueue, CountedCluster};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::fake::{FakeApiServer, FakeResponse, ReceivedRequest};
use crate::serve::limits::Patience;
use crate::serve::options::Options;
use crate::serve::server::Server;
use crate::serve::server_state::ServerState;
use crate::serve::{
    AdviceError, Advisor, CapacityQuestion, Clients, Explained, ManifestError, ManifestSource,
    ProcessInfo, SchedulerView, ServeError, ServerSources, Soon, Unresponsive, VerbosityError,
    WhyGroupQuestion, WhyQuestion,
};

/// The token of `jane`, which must not appear anywhere.
pub(super) const TOKEN: &str = "jane-s3cr3t-t0k3n";

/// A certificate authority for tests.
pub(super) struct Signer {
    params: CertificateParams,
    key: KeyPair,
    pub(super) pem: String,
}

/// A certificate with its key, in PEM.
pub(super) struct Signed {
    pub(super) cert: String,
    pub(super) key: String,
}

impl Signer {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("there is chance");
        let pem = params.self_signed(&key).expect("it is right").pem();
        Signer { params, key, pem }
    }

    /// A certificate for a client.
    pub(super) fn client(&self, name: &str, groups: &[&str]) -> Signed {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    /// A certificate for a server of this name.
    pub(super) fn server(&self, name: &str) -> Signed {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Signed {
        let key = KeyPair::generate().expect("there is chance");
        let issuer = Issuer::from_params(&self.params, &self.key);
        let cert = params.signed_by(&key, &issuer).expect("it is right");
        Signed { cert: cert.pem(), key: key.serialize_pem() }
    }
}

/// A scheduler with given answers.
pub(super) struct FakeScheduler {
    pub(super) families: Vec<Family>,
    pub(super) explained: Explained,
    pub(super) pods: Vec<PodInfo>,
    pub(super) leads: bool,
    pub(super) silent: bool,
    pub(super) resets: Mutex<u32>,
    pub(super) asked: Mutex<Vec<PodKey>>,
    pub(super) answer: Result<Value, AdviceError>,
    /// What it has compared, if it is a shadow.
    pub(super) comparison: Option<Value>,
}

impl Default for FakeScheduler {
    fn default() -> Self {
        FakeScheduler {
            families: Vec::new(),
            explained: Explained::Unknown,
            pods: Vec::new(),
            leads: true,
            silent: false,
            resets: Mutex::default(),
            asked: Mutex::default(),
            answer: Err(AdviceError::Unknown("pod x/y is unknown".to_owned())),
            comparison: None,
        }
    }
}

/// It has one answer to all questions, with the manifests of some objects as `found` if it has that.
pub(super) struct FakeAdvisor(pub(super) Result<Value, AdviceError>);

/// The objects whose manifests it looks for.
pub(super) const READ: [(&str, &str, &str); 3] =
    [("ResourceClaim", "shop", "gpus"), ("StorageClass", "", "fast"), ("Horse", "shop", "h")];

impl FakeAdvisor {
    fn with(&self, manifests: &dyn ManifestSource) -> Result<Value, AdviceError> {
        let mut answer = self.0.clone()?;
        if answer.get("found").is_none() {
            return Ok(answer);
        }
        let found = READ.into_iter().map(|(kind, namespace, name)| {
            let read = manifests.read(kind, &ObjectKey::new(namespace, name));
            read.unwrap_or_else(|error| Some(json!(error.to_string())))
        });
        answer["found"] = found.collect();
        Ok(answer)
    }
}

impl Advisor for FakeAdvisor {
    fn why(&self, question: WhyQuestion) -> Result<Value, AdviceError> {
        self.with(&*question.manifests)
    }

    fn why_group(&self, question: WhyGroupQuestion) -> Result<Value, AdviceError> {
        self.with(&*question.manifests)
    }

    fn rebalance(&self, _: ClusterSnapshot, _: &Value) -> Result<Value, AdviceError> {
        self.0.clone()
    }

    fn decision_text(&self, decision: &Decision) -> String {
        format!("{} is decided", decision.pod)
    }

    fn what_if(&self, _: ClusterSnapshot, _: &Value) -> Result<Value, AdviceError> {
        self.0.clone()
    }

    /// The answer also has the namespaces whose shapes are not named.
    fn capacity(&self, question: CapacityQuestion) -> Result<Value, AdviceError> {
        let mut answer = self.0.clone()?;
        if !question.hidden.is_empty() {
            answer["hidden"] = question.hidden.into_iter().collect();
        }
        Ok(answer)
    }

    /// It has a journal if its answer is a history.
    fn has_journal(&self) -> bool {
        self.0.as_ref().is_ok_and(|answer| answer["attempts"].is_array())
    }

    fn history(&self, _: &PodKey) -> Option<Result<Value, AdviceError>> {
        self.has_journal().then(|| self.0.clone())
    }
}

impl FakeScheduler {
    fn soon<T: Send + 'static>(&self, answer: T) -> Soon<'_, T> {
        let answer = if self.silent { Err(Unresponsive) } else { Ok(answer) };
        futures::future::ready(answer).boxed()
    }
}

impl SchedulerView for FakeScheduler {
    fn metrics(&self) -> Soon<'_, Vec<Family>> {
        self.soon(self.families.clone())
    }

    fn reset_metrics(&self) -> Soon<'_, ()> {
        *self.resets.lock().expect("no test panics in it") += 1;
        self.soon(())
    }

    fn explain(&self, pod: PodKey) -> Soon<'_, Explained> {
        self.asked.lock().expect("no test panics in it").push(pod);
        self.soon(self.explained.clone())
    }

    fn pods(&self) -> Soon<'_, Vec<PodInfo>> {
        self.soon(self.pods.clone())
    }

    fn dump(&self) -> Soon<'_, String> {
        self.soon("0 nodes\n".to_owned())
    }

    fn snapshot(&self, _: Option<PodKey>) -> Soon<'_, (ClusterSnapshot, Option<PendingPod>)> {
        let snapshot = ClusterSnapshot {
            taken: Time::from_millis(1_725_603_591_000),
            nodes: Vec::new(),
            pods: self.pods.clone(),
            nominated: Vec::new(),
            objects: Vec::new(),
        };
        self.soon((snapshot, None))
    }

    fn snapshot_of_group(&self, group: ObjectKey) -> Soon<'_, (ClusterSnapshot, Vec<PendingPod>)> {
        self.asked.lock().expect("no test panics in it").push(group);
        let snapshot = ClusterSnapshot {
            taken: Time::from_millis(1_725_603_591_000),
            nodes: Vec::new(),
            pods: self.pods.clone(),
            nominated: Vec::new(),
            objects: Vec::new(),
        };
        self.soon((snapshot, Vec::new()))
    }

    fn picture(&self) -> Soon<'_, ClusterAndQueue> {
        let snapshot = ClusterSnapshot {
            taken: Time::from_millis(1_725_603_591_000),
            nodes: Vec::new(),
            pods: self.pods.clone(),
            nominated: Vec::new(),
            objects: Vec::new(),
        };
        self.soon(ClusterAndQueue { cluster: snapshot, queue: Vec::new() })
    }

    fn counts(&self) -> Soon<'_, CountedCluster> {
        let mut counted = CountedCluster::default();
        counted.taken = Time::from_millis(1_725_603_591_000);
        self.soon(counted)
    }

    fn manifest(
        &self,
        kind: KindRef,
        key: ObjectKey,
    ) -> BoxFuture<'_, Result<Option<Value>, ManifestError>> {
        let manifest = match kind.as_str() {
            "Pod" => self.pods.iter().any(|known| known.key == key).then(|| json!({})),
            kind => Some(json!(format!("{kind} {key}"))),
        };
        futures::future::ready(Ok(manifest)).boxed()
    }

    fn comparison(&self) -> Option<Soon<'_, Value>> {
        self.comparison.clone().map(|compared| self.soon(compared))
    }

    fn advisor(&self) -> Arc<dyn Advisor> {
        Arc::new(FakeAdvisor(self.answer.clone()))
    }

    fn configuration(&self) -> Arc<str> {
        r#"{"apiVersion":"kubescheduler.config.k8s.io/v1"}"#.into()
    }

    fn default_configuration(&self) -> Arc<str> {
        r#"{"apiVersion":"kubescheduler.config.k8s.io/v1","parallelism":16}"#.into()
    }

    fn is_leader(&self) -> bool {
        self.leads
    }

    fn set_verbosity(&self, level: &str) -> Result<(), VerbosityError> {
        level.parse::<u8>().map(|_| ()).map_err(|_| VerbosityError::NoNumber(level.to_owned()))
    }
}

/// An API server that knows only `jane`, by her token, and allows what `may` says.
pub(super) fn api_server(may: impl Fn(&str) -> bool + Send + 'static) -> FakeApiServer {
    FakeApiServer::new(move |seen: &ReceivedRequest, _| {
        let spec = &seen.body["spec"];
        let status = match seen.line.rsplit('/').next() {
            Some("tokenreviews") if spec["token"] == TOKEN => json!({
                "authenticated": true,
                "user": { "username": "jane", "uid": "7", "groups": ["devs"], "extra": { "a": ["b"] } },
            }),
            Some("tokenreviews") => {
                json!({ "authenticated": false, "error": "[invalid bearer token, token lookup failed]" })
            }
            Some("subjectaccessreviews") => {
                let path = spec["nonResourceAttributes"]["path"].as_str().unwrap_or_default();
                json!({ "allowed": spec["user"] == "jane" && may(path) })
            }
            _ => return FakeResponse::not_found(),
        };
        FakeResponse::Response(201, json!({ "kind": "Review", "status": status }))
    })
}

/// The settings of a server, and its clients.
pub(super) struct ServerFixture {
    pub(super) options: Options,
    pub(super) clients: Clients,
    pub(super) scheduler: Arc<FakeScheduler>,
    pub(super) process: ProcessInfo,
    pub(super) patience: Patience,
    /// Who signs the certificate of the server.
    pub(super) signer: Signer,
    pub(super) files: TempDir,
}

impl ServerFixture {
    /// A server that asks `fake`.
    pub(super) fn new(fake: Option<&FakeApiServer>) -> Self {
        let (signer, files) = (Signer::new("serving"), TempDir::new().expect("there is room"));
        let client = fake.map(FakeApiServer::client);
        let mut setup = ServerFixture {
            options: Options::default(),
            clients: Clients { authentication: client.clone(), authorization: client },
            scheduler: Arc::default(),
            process: ProcessInfo { profiling: true, ..ProcessInfo::default() },
            patience: Patience::default(),
            signer,
            files,
        };
        let own = setup.signer.server("localhost");
        setup.options.serving.cert_file = Some(setup.file("tls.crt", &own.cert));
        setup.options.serving.key_file = Some(setup.file("tls.key", &own.key));
        setup.options.authentication.skip_lookup = true;
        setup
    }

    /// A file with this text.
    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.files.path().join(name);
        std::fs::write(&path, text).expect("there is room");
        path
    }

    pub(super) async fn start(self) -> RunningServer {
        self.try_start().await.expect("all is right")
    }

    pub(super) async fn try_start(self) -> Result<RunningServer, ServeError> {
        let ServerFixture { options, clients, scheduler, process, patience, signer, files } = self;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let sources = ServerSources { scheduler: scheduler.clone(), clients, process };
        let mut server = Server::on(listener, &options, sources).await?;
        server.patience = patience;
        let address = server.address().expect("it is bound");
        let (state, stop) = (server.state.clone(), CancellationToken::new());
        let ended = tokio::spawn(server.serve(stop.clone()));
        Ok(RunningServer { address, state, stop, ended, scheduler, signer, files })
    }
}

/// A server that runs.
pub(super) struct RunningServer {
    pub(super) address: SocketAddr,
    pub(super) state: Arc<ServerState>,
    pub(super) stop: CancellationToken,
    pub(super) ended: tokio::task::JoinHandle<()>,
    pub(super) scheduler: Arc<FakeScheduler>,
    pub(super) signer: Signer,
    pub(super) files: TempDir,
}

/// An answer.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) code: u16,
    /// The lines of the head, in lower case.
    pub(super) head: String,
    pub(super) body: String,
}

impl HttpAnswer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("it is JSON")
    }
}

impl RunningServer {
    /// A connection, with a certificate or without.
    pub(super) async fn connect(&self, own: Option<&Signed>) -> TlsStream<TcpStream> {
        self.connect_by(own, &[], "localhost").await.expect("the server takes anybody")
    }

    /// The same, with one of these protocols, to the server by a name.
    pub(super) async fn connect_by(
        &self,
        own: Option<&Signed>,
        protocols: &[&[u8]],
        name: &str,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        let root =
            CertificateDer::from_pem_slice(self.signer.pem.as_bytes()).expect("a certificate");
        roots.add(root).expect("it is right");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("they are known")
            .with_root_certificates(roots);
        let mut config = match own {
            None => config.with_no_client_auth(),
            Some(own) => {
                let cert = CertificateDer::from_pem_slice(own.cert.as_bytes()).expect("it is PEM");
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("it is PEM");
                config.with_client_auth_cert(vec![cert], key).expect("they belong together")
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Asks for a path with some headers.
    pub(super) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> HttpAnswer {
        self.ask(None, "GET", path, headers, "").await
    }

    /// Asks as `jane`.
    pub(super) async fn get_as_jane(&self, path: &str) -> HttpAnswer {
        self.get(path, &[("Authorization", &format!("Bearer {TOKEN}"))]).await
    }

    /// Asks on a connection of its own.
    pub(super) async fn ask(
        &self,
        own: Option<&Signed>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> HttpAnswer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
        for (name, value) in headers {
            write!(request, "{name}: {value}\r\n").expect("a text takes everything");
        }
        if !body.is_empty() {
            let length = body.len();
            write!(request, "Content-Length: {length}\r\n").expect("a text takes everything");
        }
        request.push_str("\r\n");
        request.push_str(body);
        let mut stream = self.connect(own).await;
        stream.write_all(request.as_bytes()).await.expect("it takes it");
        answer(&mut stream).await
    }
}

/// Reads an answer to its end.
pub(super) async fn answer(stream: &mut TlsStream<TcpStream>) -> HttpAnswer {
    let mut bytes = Vec::new();
    // A server that stops reading may close the connection while the request is still being written.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).expect("it is text");
    let (head, body) = text.split_once("\r\n\r\n").expect("it has a head");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("it has a status");
    let head = head.to_ascii_lowercase();
    let body =
        if head.contains("transfer-encoding: chunked") { joined(body) } else { body.to_owned() };
    HttpAnswer { code, head, body }
}

/// Puts the parts of a chunked body together.
fn joined(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, more)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a length");
        body.push_str(&more[..length]);
        rest = more[length..].trim_start_matches("\r\n");
    }
    body
}
