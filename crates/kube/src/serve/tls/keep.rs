//! Follows changes of certificate files and of the authorities in the cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio::time::Instant;

use super::material::{Inputs, Material, MaterialError, Pair, ProxyInputs};
use super::sni::SniFiles;
use super::terms::TlsSettings;
use crate::serve::auth::{ClusterAuthorities, Lookup, LookupError};
use crate::serve::limits;
use crate::serve::options::{Options, ProxyOptions};

/// How often the authorities are looked up in the cluster.
const LOOK_UP: Duration = Duration::from_mins(1);

/// Reads the TLS material of the server, and updates it.
#[derive(Debug)]
pub(in crate::serve) struct Keeper {
    terms: TlsSettings,
    protocols: Vec<&'static [u8]>,
    own: CertificateSource,
    named: Vec<SniFiles>,
    client_ca: Option<PathBuf>,
    proxy: ProxyOptions,
    lookup: Option<Lookup>,
    tolerant: bool,
    authorities: Option<(Instant, ClusterAuthorities)>,
    seen: Option<Inputs>,
}

/// Where the certificate comes from.
#[derive(Debug)]
pub(in crate::serve) enum CertificateSource {
    Files(PathBuf, PathBuf),
    Made(Pair),
}

/// Why there is no TLS material.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum KeepError {
    #[error("cannot read {path:?} ({flag}): {error}")]
    Read { path: PathBuf, flag: &'static str, error: std::io::Error },
    #[error(transparent)]
    Unusable(#[from] MaterialError),
    #[error(
        "unable to load configmap based request-header-client-ca-file: {0}; see \
         --authentication-tolerate-lookup-failure and --authentication-skip-lookup"
    )]
    LookUp(#[from] LookupError),
}

impl Keeper {
    /// Creates a keeper that reads these files, and looks up in the cluster what no file is given for.
    pub(in crate::serve) fn new(
        options: &Options,
        terms: TlsSettings,
        own: CertificateSource,
        named: Vec<SniFiles>,
        lookup: Option<Lookup>,
    ) -> Self {
        let (serving, authn) = (&options.serving, &options.authentication);
        let protocols: &[&'static [u8]] = match serving.disable_http2 {
            true => &[b"http/1.1"],
            false => &[b"h2", b"http/1.1"],
        };
        // As in options/authentication.go, ApplyTo: nothing is looked up for which a file is given.
        let missing = authn.client_ca_file.is_none() || authn.proxy.client_ca_file.is_none();
        Keeper {
            terms,
            protocols: protocols.to_vec(),
            own,
            named,
            client_ca: authn.client_ca_file.clone(),
            proxy: authn.proxy.clone(),
            lookup: lookup.filter(|_| missing && !authn.skip_lookup),
            tolerant: authn.tolerate_lookup_failure,
            authorities: None,
            seen: None,
        }
    }

    /// The initial material.
    pub(in crate::serve) async fn begin(&mut self) -> Result<Arc<Material>, KeepError> {
        let inputs = self.read().await?;
        let material = Material::new(&inputs, &self.terms, &self.protocols);
        self.seen = Some(inputs);
        Ok(Arc::new(material?))
    }

    /// Updates `material` periodically, until its receivers are dropped. If new material is unusable,
    /// this is logged once, and the last usable one stays.
    pub(in crate::serve) async fn keep(
        mut self,
        material: watch::Sender<Arc<Material>>,
        every: Duration,
    ) {
        self.tolerant = true;
        let mut last_error = String::new();
        while !material.is_closed() {
            tokio::time::sleep(every).await;
            let why = match self.read().await {
                Ok(inputs) if Some(&inputs) == self.seen.as_ref() => String::new(),
                Ok(inputs) => match Material::new(&inputs, &self.terms, &self.protocols) {
                    Ok(new) => {
                        tracing::info!("reloaded changed certificates");
                        self.seen = Some(inputs);
                        material.send_replace(Arc::new(new));
                        String::new()
                    }
                    Err(why) => why.to_string(),
                },
                Err(error) => error.to_string(),
            };
            if !why.is_empty() && why != last_error {
                tracing::warn!(%why, "could not reload certificates; the old ones stay in use");
            }
            last_error = why;
        }
    }

    async fn read(&mut self) -> Result<Inputs, KeepError> {
        let own = match &self.own {
            CertificateSource::Made(pair) => pair.clone(),
            CertificateSource::Files(cert, key) => Pair {
                cert: read(cert, "--tls-cert-file").await?,
                key: read(key, "--tls-private-key-file").await?,
            },
        };
        let mut named = Vec::new();
        for files in &self.named {
            let flag = "--tls-sni-cert-key";
            let pair =
                Pair { cert: read(&files.cert, flag).await?, key: read(&files.key, flag).await? };
            named.push((pair, files.names.clone()));
        }
        let authorities = self.look_up().await?;
        let client_ca = match &self.client_ca {
            Some(path) => Some(read(path, "--client-ca-file").await?),
            None => authorities.client_ca,
        };
        let proxy = match &self.proxy.client_ca_file {
            Some(path) => Some(ProxyInputs {
                ca: read(path, "--requestheader-client-ca-file").await?,
                names: self.proxy.allowed_names.clone(),
                username_headers: self.proxy.username_headers.clone(),
                uid_headers: self.proxy.uid_headers.clone(),
                group_headers: self.proxy.group_headers.clone(),
                extra_prefixes: self.proxy.extra_prefixes.clone(),
            }),
            None => authorities.proxy,
        };
        Ok(Inputs { own, named, client_ca, proxy })
    }

    /// Looks up the authorities in the cluster. If that fails, the last ones are kept. As in
    /// options/authentication.go, ApplyTo, a flag says whether a failure at the start is an error.
    async fn look_up(&mut self) -> Result<ClusterAuthorities, KeepError> {
        let Some(lookup) = &self.lookup else { return Ok(ClusterAuthorities::default()) };
        if let Some((at, authorities)) = &self.authorities
            && at.elapsed() < LOOK_UP
        {
            return Ok(authorities.clone());
        }
        let before = self.authorities.take().map(|(_, authorities)| authorities);
        let authorities = match lookup.look_up().await {
            Ok(authorities) => authorities,
            Err(error) if self.tolerant => {
                tracing::warn!(%error, "Error looking up in-cluster authentication configuration");
                if before.is_none() {
                    tracing::warn!(
                        "Continuing without authentication configuration. This may treat all requests as \
                         anonymous. To require authentication configuration lookup to succeed, set \
                         --authentication-tolerate-lookup-failure=false"
                    );
                }
                before.unwrap_or_default()
            }
            Err(error) => return Err(error.into()),
        };
        self.authorities = Some((Instant::now(), authorities.clone()));
        Ok(authorities)
    }
}

/// Reads a file, up to a limit that is larger than any certificates.
async fn read(path: &Path, flag: &'static str) -> Result<Vec<u8>, KeepError> {
    let failed = |error| KeepError::Read { path: path.to_owned(), flag, error };
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut bytes = Vec::new();
    let most = u64::try_from(limits::REVIEW_BYTES).unwrap_or(u64::MAX);
    file.take(most).read_to_end(&mut bytes).await.map_err(failed)?;
    Ok(bytes)
}
