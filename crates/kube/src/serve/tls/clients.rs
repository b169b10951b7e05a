//! Certificates of clients.
//!
//! A client may present any certificate: the handshake only checks that it has the key. Whether the
//! certificate is trusted is checked for each request, as in kube-scheduler. An untrusted certificate
//! then leads to `401 Unauthorized` instead of a broken connection.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

/// Authorities of client certificates.
#[derive(Clone, Debug)]
pub(in crate::serve) struct CertificateAuthority(Arc<dyn ClientCertVerifier>);

impl CertificateAuthority {
    /// The certificates in a PEM file.
    pub(in crate::serve) fn new(
        pem: &[u8],
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, AuthorityError> {
        let mut roots = RootCertStore::empty();
        for cert in CertificateDer::pem_slice_iter(pem) {
            let cert = cert.map_err(|error| AuthorityError::NoPem(format!("{error:?}")))?;
            roots.add(cert).map_err(AuthorityError::Certificate)?;
        }
        if roots.is_empty() {
            return Err(AuthorityError::Empty);
        }
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        Ok(CertificateAuthority(verifier.build()?))
    }

    /// Whether a certificate, with its chain behind it, is of these authorities and good now.
    pub(in crate::serve) fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<(), Unproved> {
        let Some((own, others)) = chain.split_first() else {
            return Err(Unproved::Missing);
        };
        self.0.verify_client_cert(own, others, UnixTime::now())?;
        Ok(())
    }

    fn subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }
}

/// Why a PEM file holds no authority.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum AuthorityError {
    #[error("no PEM: {0}")]
    NoPem(String),
    #[error("a certificate cannot be read: {0}")]
    Certificate(rustls::Error),
    #[error("data does not contain any valid RSA or ECDSA certificates")]
    Empty,
    #[error(transparent)]
    Unusable(#[from] VerifierBuilderError),
}

/// Why a certificate does not prove who a client is.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum Unproved {
    #[error("there is no certificate")]
    Missing,
    #[error(transparent)]
    Rejected(#[from] rustls::Error),
}

/// Takes any certificate, but only from who has its key.
#[derive(Debug)]
pub(super) struct AnyClient {
    provider: Arc<CryptoProvider>,
    /// Sent to clients, which may have several certificates.
    subjects: Vec<DistinguishedName>,
}

impl AnyClient {
    /// Sends the names of these authorities to clients.
    pub(super) fn new<'a>(
        provider: Arc<CryptoProvider>,
        authorities: impl Iterator<Item = &'a CertificateAuthority>,
    ) -> Self {
        let subjects = authorities.flat_map(CertificateAuthority::subjects).cloned().collect();
        AnyClient { provider, subjects }
    }
}

impl ClientCertVerifier for AnyClient {
    fn offer_client_auth(&self) -> bool {
        // As in secure_serving.go: without any authority no client certificate is requested.
        !self.subjects.is_empty()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
