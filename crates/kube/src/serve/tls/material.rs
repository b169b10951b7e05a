//! The TLS inputs at one moment, and the material that results from them.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::clients::{AnyClient, Authority};
use super::sni::Certificates;
use super::terms::Terms;

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
    /// Loads the certificate and its key. The error says why they cannot be used.
    pub(super) fn load(&self, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.cert).collect();
        let chain = chain.map_err(|error| format!("the certificate is no PEM: {error:?}"))?;
        if chain.is_empty() {
            return Err("there is no certificate in the file".to_owned());
        }
        // The reason could reveal parts of the key.
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_| "there is no private key in PEM in the file".to_owned())?;
        let key = CertifiedKey::from_der(chain, key, provider);
        key.map(Arc::new).map_err(|error| error.to_string())
    }
}

/// Everything that was read.
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
    pub(in crate::serve) clients: Option<Authority>,
    pub(in crate::serve) proxy: Option<Arc<Proxy>>,
}

/// Trusted proxies.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Proxy {
    pub(in crate::serve) authority: Authority,
    pub(in crate::serve) told: ProxyInputs,
}

impl Material {
    /// Creates the material from `inputs`. The error says what cannot be used, and why.
    pub(in crate::serve) fn new(
        inputs: &Inputs,
        terms: &Terms,
        protocols: &[&[u8]],
    ) -> Result<Self, String> {
        let provider = &terms.provider;
        let own = inputs.own.load(provider);
        let own = own.map_err(|why| format!("serving certificate: {why}"))?;
        let mut named = Vec::new();
        for (pair, names) in &inputs.named {
            let key = pair.load(provider).map_err(|why| format!("SNI certificate: {why}"))?;
            named.push((key, names.clone()));
        }
        let clients = inputs.client_ca.as_ref().map(|pem| Authority::new(pem, provider));
        let clients = clients.transpose().map_err(|why| format!("client CA: {why}"))?;
        let proxy = inputs.proxy.clone().map(|told| {
            let authority = Authority::new(&told.ca, provider)?;
            Ok::<_, String>(Arc::new(Proxy { authority, told }))
        });
        let proxy = proxy.transpose().map_err(|why| format!("request header CA: {why}"))?;

        let authorities = clients.iter().chain(proxy.iter().map(|proxy| &proxy.authority));
        let verifier = AnyClient::new(provider.clone(), authorities);
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(terms.versions)
            .map_err(|error| {
                format!("--tls-cipher-suites and --tls-min-version leave nothing: {error}")
            })?;
        let mut config = config
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(Arc::new(Certificates::new(own, &named)));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Material { config: Arc::new(config), clients, proxy })
    }
}
