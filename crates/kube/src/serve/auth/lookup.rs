//! Authorities that the cluster publishes: the ConfigMap `kube-system/extension-apiserver-authentication`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use rustls::crypto::ring;
use serde::Deserialize;

use crate::call::{self, ApiError, ApiRequest};
use crate::client::Caller;
use crate::serve::tls::{AuthorityError, CertificateAuthority, ProxyInputs};

const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const TIMEOUT: Duration = Duration::from_secs(10);

/// Looks authorities up.
#[derive(Clone)]
pub(in crate::serve) struct Lookup {
    caller: Caller,
}

impl std::fmt::Debug for Lookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lookup")
    }
}

/// The authorities that the cluster publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct ClusterAuthorities {
    /// Authorities of clients, in PEM.
    pub(in crate::serve) client_ca: Option<Vec<u8>>,
    /// The settings of proxies.
    pub(in crate::serve) proxy: Option<ProxyInputs>,
}

/// Nothing usable was found.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum LookupError {
    #[error("{0}")]
    Request(String),
    #[error("ConfigMap kube-system/extension-apiserver-authentication: {key}: {why}")]
    Content { key: &'static str, why: String },
    #[error("ConfigMap kube-system/extension-apiserver-authentication: {key}: {why}")]
    Authority { key: &'static str, why: AuthorityError },
}

/// A ConfigMap, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    data: BTreeMap<String, String>,
}

impl Lookup {
    pub(in crate::serve) fn new(client: Client) -> Self {
        Lookup { caller: client.into() }
    }

    /// Reads the present state from the cluster.
    pub(in crate::serve) async fn look_up(&self) -> Result<ClusterAuthorities, LookupError> {
        let result =
            call::send_and_read(&self.caller, &ApiRequest::get(PATH.to_owned()), TIMEOUT).await;
        let bytes = result.map_err(|failed: ApiError| LookupError::Request(failed.to_string()))?;
        let map: ConfigMap = serde_json::from_slice(&bytes).map_err(|error| {
            LookupError::Request(format!("the ConfigMap cannot be read: {error}"))
        })?;
        map.authorities()
    }
}

impl ConfigMap {
    /// As in options/authentication.go, createRequestHeaderConfig, and
    /// headerrequest/requestheader_controller.go, getRequestHeaderBundleFromConfigMap.
    fn authorities(&self) -> Result<ClusterAuthorities, LookupError> {
        let proxy = match self.authority("requestheader-client-ca-file")? {
            None => None,
            Some(ca) => Some(ProxyInputs {
                ca,
                names: self.list("requestheader-allowed-names")?,
                username_headers: self.list("requestheader-username-headers")?,
                uid_headers: self.list("requestheader-uid-headers")?,
                group_headers: self.list("requestheader-group-headers")?,
                extra_prefixes: self.list("requestheader-extra-headers-prefix")?,
            }),
        };
        Ok(ClusterAuthorities { client_ca: self.authority("client-ca-file")?, proxy })
    }

    /// Usable authorities.
    fn authority(&self, key: &'static str) -> Result<Option<Vec<u8>>, LookupError> {
        let Some(pem) = self.data.get(key).filter(|pem| !pem.trim().is_empty()) else {
            return Ok(None);
        };
        let usable = CertificateAuthority::new(pem.as_bytes(), &Arc::new(ring::default_provider()));
        usable.map_err(|why| LookupError::Authority { key, why })?;
        Ok(Some(pem.clone().into_bytes()))
    }

    /// A list of texts, encoded as JSON.
    fn list(&self, key: &'static str) -> Result<Vec<String>, LookupError> {
        let Some(text) = self.data.get(key).filter(|text| !text.is_empty()) else {
            return Ok(Vec::new());
        };
        let list = serde_json::from_str(text);
        list.map_err(|error| LookupError::Content { key, why: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(data: &[(&str, &str)]) -> ConfigMap {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        ConfigMap { data: data.iter().map(owned).collect() }
    }

    #[test]
    fn the_config_map_is_read_as_the_api_server_writes_it() {
        let made = rcgen::generate_simple_self_signed(vec!["ca".to_owned()]).expect("it is made");
        let pem = made.cert.pem();
        let authorities = map(&[
            ("client-ca-file", &pem),
            ("requestheader-client-ca-file", &pem),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ])
        .authorities()
        .expect("it is right");
        assert_eq!(authorities.client_ca.as_deref(), Some(pem.as_bytes()));
        let proxy = authorities.proxy.expect("it has a proxy");
        assert_eq!(proxy.names, ["front-proxy-client"]);
        assert_eq!(proxy.username_headers, ["X-Remote-User"]);
        assert!(proxy.uid_headers.is_empty());
    }

    #[test]
    fn an_empty_config_map_has_no_authorities_and_an_invalid_one_is_an_error() {
        assert_eq!(map(&[]).authorities().expect("it is right"), ClusterAuthorities::default());
        let error = map(&[("client-ca-file", "hello")]).authorities().expect_err("it is no PEM");
        assert!(error.to_string().contains("client-ca-file"), "{error}");
    }
}
