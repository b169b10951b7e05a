//! The credentials of the user, for a server that is not the API server but asks it who the user is.

use std::sync::Arc;

use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::link::Built;
use super::{Connection, user_agent};

/// An HTTPS connection to a server that gets the credentials of the user.
pub(crate) struct DelegatedSession {
    built: Arc<Built>,
    sender: Arc<Mutex<SendRequest<Body>>>,
}

impl Connection {
    /// The user whose rights requests to the API server have instead of those of the user itself, if the kubeconfig says so.
    /// Only the API server can act as somebody else.
    pub(crate) fn impersonated(&self) -> Option<String> {
        let built = self.link.current();
        let user = &built.loaded.config.auth_info;
        let other = user.impersonate.clone().filter(|name| !name.is_empty());
        other.or_else(|| user.impersonate_groups.as_ref()?.first().cloned())
    }

    /// Begins HTTPS over `stream`, whose other end is known to be the server: its certificate is not verified.
    pub(crate) async fn delegate<S>(&self, stream: S) -> Result<DelegatedSession, BoxError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let built = self.link.current();
        let mut tls = built.tls.clone();
        let provider = tls.crypto_provider().clone();
        tls.dangerous().set_certificate_verifier(Arc::new(KnownPeer(provider)));
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // A request that is not answered has the error, too.
            let _ = connection.await;
        });
        Ok(DelegatedSession { built, sender: Arc::new(Mutex::new(sender)) })
    }
}

impl DelegatedSession {
    /// Sends a request with the credentials of the user, and returns the response whatever its status is.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, BoxError> {
        let headers = request.headers_mut();
        headers.insert(http::header::HOST, HeaderValue::from_static("localhost"));
        headers.insert(USER_AGENT, user_agent("kubectl"));
        if let Some(token) = &self.built.token {
            headers.insert(AUTHORIZATION, token.header());
        }
        let sender = self.sender.clone();
        let over = tower::service_fn(move |request: Request<Body>| {
            let sender = sender.clone();
            async move {
                let mut sender = sender.lock().await;
                sender.ready().await?;
                sender.send_request(request).await
            }
        });
        let stack = ServiceBuilder::new()
            .option_layer(self.built.auth.as_ref())
            .map_err(BoxError::from)
            .service(over);
        stack.oneshot(request).await
    }
}

/// Accepts every certificate: the other end of the stream is known. The other end must have the key of its certificate.
#[derive(Debug)]
struct KnownPeer(Arc<CryptoProvider>);

impl ServerCertVerifier for KnownPeer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
