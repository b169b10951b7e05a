//! One extender: its address, and calls to it.

use std::error::Error;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use plimsoll_api::Pod;
use plimsoll_config::Extender;
use plimsoll_engine::{ExtenderQuestion, ExtenderReply};
use rustls::pki_types::ServerName;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::fault::{CallFault, ConfigFault};
use super::request::{self, Pieces};
use super::response::{self, AskedExtender};
use super::{Around, chain, tls};

/// The largest answer: a list of about a thousand large nodes.
pub(super) const MOST_RECEIVED: usize = 64 << 20;

/// At most this many calls to one extender are in flight. Only bindings reach this number.
const MOST_AT_ONCE: usize = 32;

/// At most this many further calls may wait, and this long: the engine no longer waits for a call that
/// takes longer.
const MOST_WAITING: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// As in net/http and apimachinery's util/net/http.go.
const IDLE_FOR: Duration = Duration::from_secs(90);
const IDLE_CONNECTIONS: usize = 25;

/// One extender.
pub(super) struct Endpoint {
    config: Extender,
    client: Client<HttpsConnector<HttpConnector>, Pieces>,
    slots: Semaphore,
    waiting: AtomicUsize,
}

impl Endpoint {
    /// The way to an extender. Nothing is sent yet.
    pub(super) fn new(config: Extender) -> Result<Self, ConfigFault> {
        let uri = config.url_prefix.parse::<Uri>();
        let uri = uri.map_err(|error| ConfigFault::Url(error.to_string()))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(ConfigFault::Secret);
        }
        let https = HttpsConnectorBuilder::new();
        let https = match uri.scheme_str() {
            Some("https") => https.with_tls_config(tls::client_config(&config)?).https_only(),
            // Plain connections need no certificates: this connector makes no other connections.
            Some("http") => https.with_tls_config(plain()).https_or_http(),
            _ => return Err(ConfigFault::Scheme),
        };
        let server_name = config.tls_config.as_ref().map_or("", |tls| tls.server_name.as_str());
        let https = match server_name {
            "" => https,
            name => {
                let name = ServerName::try_from(name.to_owned());
                let name = name.map_err(|error| ConfigFault::ServerName(error.to_string()))?;
                https.with_server_name_resolver(FixedServerNameResolver::new(name))
            }
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(https.enable_all_versions().wrap_connector(tcp));
        let slots = Semaphore::new(MOST_AT_ONCE);
        Ok(Endpoint { config, client, slots, waiting: AtomicUsize::new(0) })
    }

    /// Whether its failures are ignored.
    pub(super) fn is_ignorable(&self) -> bool {
        self.config.ignorable
    }

    /// Its URL, which names it.
    pub(super) fn name(&self) -> &str {
        &self.config.url_prefix
    }

    /// Asks, and reads the answer.
    pub(super) async fn call(
        &self,
        question: &ExtenderQuestion,
        pod: &Pod,
        around: &Around,
    ) -> Result<ExtenderReply, CallFault> {
        let _slot = self.slot().await?;
        let may_take = match question {
            ExtenderQuestion::Bind(_) => (around.may_write)().ok_or(CallFault::NotLeading)?,
            _ => Duration::MAX,
        };
        let originals = around.originals.as_ref();
        let body = request::write(question, pod, self.config.node_cache_capable, originals)?;
        let in_time = self.config.timeout().min(may_take);
        let text = self.post(self.verb(question), body, in_time).await?;
        let extender = AskedExtender {
            url_prefix: &self.config.url_prefix,
            node_cache_capable: self.config.node_cache_capable,
        };
        response::read(extender, question, &text)
    }

    async fn slot(&self) -> Result<tokio::sync::SemaphorePermit<'_>, CallFault> {
        let too_many = || CallFault::TooMany(self.name().to_owned());
        if let Ok(slot) = self.slots.try_acquire() {
            return Ok(slot);
        }
        let waiting = CallCount::new(&self.waiting);
        if MOST_WAITING < waiting.before {
            return Err(too_many());
        }
        match timeout(PATIENCE, self.slots.acquire()).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(too_many()),
        }
    }

    fn verb(&self, question: &ExtenderQuestion) -> &str {
        match question {
            ExtenderQuestion::Filter(_) => &self.config.filter_verb,
            ExtenderQuestion::Prioritize(_) => &self.config.prioritize_verb,
            ExtenderQuestion::Preempt(_) => &self.config.preempt_verb,
            ExtenderQuestion::Bind(_) => &self.config.bind_verb,
        }
    }

    /// Sends, and reads the body of the answer, all in time. As in extender.go, send.
    async fn post(&self, verb: &str, body: Pieces, in_time: Duration) -> Result<Bytes, CallFault> {
        let url = format!("{}/{verb}", self.config.url_prefix.trim_end_matches('/'));
        let json = HeaderValue::from_static("application/json");
        let request = Request::post(url.as_str()).header(CONTENT_TYPE, json).body(body);
        let request =
            request.map_err(|error| CallFault::Url { url: url.clone(), why: error.to_string() })?;
        let deadline = tokio::time::Instant::now() + in_time;
        let response = match tokio::time::timeout_at(deadline, self.client.request(request)).await {
            Ok(response) => response.map_err(|error| CallFault::NotSent {
                url: url.clone(),
                why: cause(&error, &url),
            })?,
            Err(_) => return Err(CallFault::LateHeaders(url)),
        };
        if response.status() != StatusCode::OK {
            let code = response.status().as_u16();
            return Err(CallFault::Refused { verb: verb.to_owned(), url, code });
        }
        match tokio::time::timeout_at(deadline, collect(response.into_body(), &url)).await {
            Ok(text) => text,
            Err(_) => Err(CallFault::LateBody),
        }
    }
}

/// Counts the waiting calls.
struct CallCount<'a> {
    all: &'a AtomicUsize,
    before: usize,
}

impl<'a> CallCount<'a> {
    fn new(all: &'a AtomicUsize) -> Self {
        CallCount { all, before: all.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for CallCount<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

/// TLS settings that trust no certificate.
fn plain() -> rustls::ClientConfig {
    let nobody = rustls::RootCertStore::empty();
    rustls::ClientConfig::builder().with_root_certificates(nobody).with_no_client_auth()
}

async fn collect(body: Incoming, url: &str) -> Result<Bytes, CallFault> {
    match Limited::new(body, MOST_RECEIVED).collect().await {
        Ok(all) => Ok(all.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(CallFault::LongAnswer(url.to_owned())),
        Err(error) => match error.downcast_ref::<hyper::Error>() {
            Some(error) if error.is_incomplete_message() => Err(CallFault::CutOff),
            _ => {
                let why = chain(error.as_ref());
                Err(CallFault::NotReceived { url: url.to_owned(), why })
            }
        },
    }
}

/// The cause of a failed request. The most common ones have the messages of Go's net/http.
fn cause(error: &hyper_util::client::legacy::Error, url: &str) -> String {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && io.kind() == ErrorKind::ConnectionRefused
        {
            let uri: Option<Uri> = url.parse().ok();
            let authority = uri.as_ref().and_then(Uri::authority);
            let address = authority.map_or("", |address| address.as_str());
            return format!("dial tcp {address}: connect: connection refused");
        }
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message) {
            return "EOF".to_owned();
        }
        next = error.source();
    }
    chain(error)
}
