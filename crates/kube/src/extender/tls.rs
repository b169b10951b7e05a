//! TLS settings of extenders.

use kube::Config;
use kube::client::ConfigExt;
use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use plimsoll_config::{Base64, Extender};
use rustls::ClientConfig;

use super::fault::ConfigFault;

/// Everything in a kubeconfig has a name, and here there is one of each.
const ONLY: &str = "extender";

/// The TLS settings of an extender. Reads the files that they name; data take precedence over files.
///
/// As in extender.go, makeTransport: with `enableHTTPS` and without a CA, certificates are not checked.
/// Otherwise, without a CA, those of the system count.
pub(super) fn client_config(extender: &Extender) -> Result<ClientConfig, ConfigFault> {
    let tls = extender.tls_config.clone().unwrap_or_default();
    let has_ca = !tls.ca_file.is_empty() || !tls.ca_data.is_empty();
    if tls.insecure && has_ca {
        // As in client-go's transport.go, TLSConfigFor.
        let why = "specifying a root certificates file with the insecure flag is not allowed";
        return Err(ConfigFault::Tls(why.to_owned()));
    }
    let is_insecure = tls.insecure || (extender.enable_https && !has_ca);
    let cluster = Cluster {
        server: Some(extender.url_prefix.clone()),
        certificate_authority: text(&tls.ca_file),
        certificate_authority_data: data(&tls.ca_data),
        ..Cluster::default()
    };
    let identity = AuthInfo {
        client_certificate: text(&tls.cert_file),
        client_certificate_data: data(&tls.cert_data),
        client_key: text(&tls.key_file),
        client_key_data: data(&tls.key_data).map(Into::into),
        ..AuthInfo::default()
    };
    let wrong = |error: &(dyn std::error::Error + 'static)| ConfigFault::Tls(super::chain(error));
    let mut config = Config::try_from(kubeconfig(cluster, identity)).map_err(|e| wrong(&e))?;
    config.accept_invalid_certs = is_insecure;
    if is_insecure {
        // Certificates are not checked, so no roots are needed: the system may have none.
        config.root_cert = Some(Vec::new());
    }
    let mut tls = config.rustls_client_config().map_err(|e| wrong(&e))?;
    // The connector sets the protocols itself.
    tls.alpn_protocols.clear();
    Ok(tls)
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn data(data: &Base64) -> Option<String> {
    (!data.is_empty()).then(|| data.as_str().replace(['\r', '\n'], ""))
}

fn kubeconfig(cluster: Cluster, identity: AuthInfo) -> Kubeconfig {
    let context =
        Context { cluster: ONLY.to_owned(), user: Some(ONLY.to_owned()), ..Context::default() };
    Kubeconfig {
        current_context: Some(ONLY.to_owned()),
        clusters: vec![NamedCluster {
            name: ONLY.to_owned(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: ONLY.to_owned(),
            auth_info: Some(identity),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: ONLY.to_owned(),
            context: Some(context),
            ..NamedContext::default()
        }],
        ..Kubeconfig::default()
    }
}
