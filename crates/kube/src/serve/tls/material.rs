//! The TLS inputs at one moment, and the material that results from them.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::clients::{AnyClient, AuthorityError, CertificateAuthority};
use super::sni::Certificates;
use super::terms::TlsSettings;

/// A certificate with its chain, and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::serve) struct Pair {
    pub(in crate::serve) cert: Vec<u8>,
    pub(in crate::serve) key: Vec<u8>,
}

/// A key is never printed.
impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pair")
    }
}

impl Pair {
    /// The certificate and its key.
    pub(super) fn load(&self, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, PairError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.cert).collect();
        let chain = chain.map_err(|error| PairError::NoPem(format!("{error:?}")))?;
        if chain.is_empty() {
            return Err(PairError::NoCertificate);
        }
        // The reason could tell something of the key.
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| PairError::NoKey)?;
        Ok(Arc::new(CertifiedKey::from_der(chain, key, provider)?))
    }
}

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum PairError {
    #[error("the certificate is no PEM: {0}")]
    NoPem(String),
    #[error("there is no certificate in the file")]
    NoCertificate,
    #[error("there is no private key in PEM in the file")]
    NoKey,
    #[error(transparent)]
    Unusable(#[from] rustls::Error),
}

/// What cannot be used of what was read, and why.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum MaterialError {
    #[error("serving certificate: {0}")]
    Own(PairError),
    #[error("SNI certificate: {0}")]
    Named(PairError),
    #[error("client CA: {0}")]
    ClientCa(AuthorityError),
    #[error("request header CA: {0}")]
    ProxyCa(AuthorityError),
    #[error("--tls-cipher-suites and --tls-min-version leave nothing: {0}")]
    TlsSettings(rustls::Error),
}

/// All that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct Inputs {
    pub(in crate::serve) own: Pair,
    /// For some names.
    pub(in crate::serve) named: Vec<(Pair, Vec<String>)>,
    /// Authorities of clients, in PEM.
    pub(in crate::serve) client_ca: Option<Vec<u8>>,
    pub(in crate::serve) proxy: Option<ProxyInputs>,
}

/// The settings of proxies that name users in headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct ProxyInputs {
    /// Their authorities, in PEM.
    pub(in crate::serve) ca: Vec<u8>,
    /// Their names; none for any.
    pub(in crate::serve) names: Vec<String>,
    pub(in crate::serve) username_headers: Vec<String>,
    pub(in crate::serve) uid_headers: Vec<String>,
    pub(in crate::serve) group_headers: Vec<String>,
    pub(in crate::serve) extra_prefixes: Vec<String>,
}

/// The TLS material of the server.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Material {
    pub(in crate::serve) config: Arc<ServerConfig>,
    pub(in crate::serve) clients: Option<CertificateAuthority>,
    pub(in crate::serve) proxy: Option<Arc<Proxy>>,
}

/// Trusted proxies.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Proxy {
    pub(in crate::serve) authority: CertificateAuthority,
    pub(in crate::serve) inputs: ProxyInputs,
}

impl Material {
    /// What to make of `inputs`.
    pub(in crate::serve) fn new(
        inputs: &Inputs,
        terms: &TlsSettings,
        protocols: &[&[u8]],
    ) -> Result<Self, MaterialError> {
        let provider = &terms.provider;
        let own = inputs.own.load(provider).map_err(MaterialError::Own)?;
        let mut named = Vec::new();
        for (pair, names) in &inputs.named {
            let key = pair.load(provider).map_err(MaterialError::Named)?;
            named.push((key, names.clone()));
        }
        let clients = inputs.client_ca.as_ref().map(|pem| CertificateAuthority::new(pem, provider));
        let clients = clients.transpose().map_err(MaterialError::ClientCa)?;
        let proxy = inputs.proxy.clone().map(|proxy| {
            let authority = CertificateAuthority::new(&proxy.ca, provider)?;
            Ok(Arc::new(Proxy { authority, inputs: proxy }))
        });
        let proxy = proxy.transpose().map_err(MaterialError::ProxyCa)?;

        let authorities = clients.iter().chain(proxy.iter().map(|proxy| &proxy.authority));
        let verifier = AnyClient::new(provider.clone(), authorities);
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(terms.versions)
            .map_err(MaterialError::TlsSettings)?;
        let mut config = config
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(Arc::new(Certificates::new(own, &named)));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Material { config: Arc::new(config), clients, proxy })
    }
}
