//! The address of the API server and the credentials: from a kubeconfig, or from the service account of a
//! pod.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use http::Uri;
use hyper_util::client::proxy::matcher::Intercept;
use plimsoll_config::ClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{kubeconfig, proxy};

/// The service account of a pod.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The only content type that is used here.
pub(super) const JSON: &str = "application/json";

/// How the API server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The path of a kubeconfig (`clientConnection.kubeconfig` or `--kubeconfig`); without one, the
    /// service account of the pod is used.
    pub kubeconfig: Option<PathBuf>,
    /// Further kubeconfigs, of which counts what the ones before do not have (`$KUBECONFIG`).
    pub further_kubeconfigs: Vec<PathBuf>,
    /// What is chosen instead of what the kubeconfig chooses.
    pub overrides: Overrides,
    /// The address of the API server (`--master`), instead of the one in the kubeconfig.
    pub master: Option<String>,
    /// `clientConnection.contentType`. It has no effect: JSON is always used.
    pub content_type: String,
    /// `clientConnection.acceptContentTypes`. It has no effect: JSON is always used.
    pub accept_content_types: String,
}

/// What the flags of kubectl choose instead of what a kubeconfig chooses.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The context (`--context`).
    pub context: Option<String>,
    /// The cluster (`--cluster`).
    pub cluster: Option<String>,
    /// The user (`--user`).
    pub user: Option<String>,
    /// A token in place of all credentials of the user (`--token`).
    pub token: Option<String>,
}

impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overrides { context, cluster, user, token: _ } = self;
        f.debug_struct("Overrides")
            .field("context", context)
            .field("cluster", cluster)
            .field("user", user)
            .finish_non_exhaustive()
    }
}

impl Access {
    /// From a configuration file and `--master`.
    pub fn new(connection: &ClientConnection, master: Option<String>) -> Self {
        let path = &connection.kubeconfig;
        Access {
            kubeconfig: (!path.is_empty()).then(|| PathBuf::from(path)),
            master: master.filter(|address| !address.is_empty()),
            content_type: connection.content_type.clone(),
            accept_content_types: connection.accept_content_types.clone(),
            ..Access::default()
        }
    }

    /// The configured content type, if it is not supported.
    pub(super) fn unsupported_content_type(&self) -> Option<&str> {
        let mut configured =
            self.accept_content_types.split(',').chain([self.content_type.as_str()]);
        configured.find(|one| !one.is_empty() && !one.trim().starts_with(JSON)).map(str::trim)
    }
}

/// An invalid access to the API server. Prints as `WHERE: FIELD: PROBLEM; REMEDY`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {}{problem}; {remedy}", if field.is_empty() { String::new() } else { format!("{field}: ") })]
pub struct AccessError {
    /// The file or other source of the settings.
    pub place: String,
    /// The field in it, such as `users[admin].user.tokenFile`; may be empty.
    pub field: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

/// The settings of a connection.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The source of the settings, for messages.
    pub(super) place: String,
    pub(super) config: kube::Config,
    /// A file with a token, which is read periodically.
    pub(super) token_file: Option<PathBuf>,
    /// The name of the user in errors.
    pub(super) user: String,
    /// Whether a program prints the credentials.
    pub(super) has_exec: bool,
    /// The hint to users if that program is missing.
    pub(super) install_hint: Option<String>,
    /// The name of the cluster in errors.
    pub(super) cluster: String,
    /// `proxy-url` of the cluster.
    pub(super) proxy_url: Option<String>,
    /// The proxy to the API server.
    pub(super) proxy: Option<Intercept>,
    /// A hash of all files that were read, except for token files.
    pub(super) print: u64,
}

/// Reads the settings.
pub(super) async fn load(access: &Access) -> Result<Loaded, AccessError> {
    let mut loaded = match (&access.kubeconfig, &access.master) {
        (Some(path), _) => kubeconfig::read(path, access).await?,
        // As in client_config.go, BuildConfigFromFlags: an address alone is enough.
        (None, Some(master)) => {
            Loaded::bare(kube::Config::new(uri("--master", "", master, false)?))
        }
        (None, None) => in_cluster(Path::new(SERVICE_ACCOUNT), |name| std::env::var(name).ok())?,
    };
    if let (Some(_), Some(master)) = (&access.kubeconfig, &access.master) {
        loaded.config.cluster_url = uri("--master", "", master, loaded.wants_tls())?;
    }
    let environment = |name: &str| std::env::var(name).ok();
    let (server, given) = (&loaded.config.cluster_url, loaded.proxy_url.as_deref());
    loaded.proxy = proxy::to(server, given, environment).map_err(|problem| {
        let field = given
            .map_or_else(|| "HTTPS_PROXY".to_owned(), |_| format!("{}.proxy-url", loaded.cluster));
        fault(&loaded.place, &field, problem, "give an address such as http://10.0.0.1:3128")
    })?;
    // The sender of a request decides about retries.
    loaded.config.default_retry = false;
    Ok(loaded)
}

impl Loaded {
    pub(super) fn bare(config: kube::Config) -> Self {
        Loaded {
            place: "--master".to_owned(),
            config,
            token_file: None,
            user: String::new(),
            has_exec: false,
            install_hint: None,
            cluster: String::new(),
            proxy_url: None,
            proxy: None,
            print: 0,
        }
    }

    /// Whether to use TLS if an address has no scheme.
    pub(super) fn wants_tls(&self) -> bool {
        let auth = &self.config.auth_info;
        self.config.root_cert.is_some()
            || self.config.accept_invalid_certs
            || auth.client_certificate.is_some()
            || auth.client_certificate_data.is_some()
    }

    /// An error about a field of the user.
    pub(super) fn user_error(
        &self,
        field: &str,
        problem: impl Display,
        remedy: &str,
    ) -> AccessError {
        let dot = if self.user.is_empty() || field.is_empty() { "" } else { "." };
        fault(&self.place, &format!("{}{dot}{field}", self.user), problem, remedy)
    }
}

pub(super) fn fault(place: &str, field: &str, problem: impl Display, remedy: &str) -> AccessError {
    AccessError {
        place: place.to_owned(),
        field: field.to_owned(),
        problem: problem.to_string(),
        remedy: remedy.to_owned(),
    }
}

/// The settings in a pod with environment `env` and its service account in `dir`.
fn in_cluster(dir: &Path, env: impl Fn(&str) -> Option<String>) -> Result<Loaded, AccessError> {
    let place = "in-cluster configuration";
    let variable = |name: &str| {
        let given = env(name).filter(|value| !value.is_empty());
        given.ok_or_else(|| {
            let remedy =
                "give a kubeconfig (--kubeconfig or clientConnection.kubeconfig) outside a cluster";
            fault(place, name, "the environment variable is not set", remedy)
        })
    };
    let host = variable("KUBERNETES_SERVICE_HOST")?;
    let port = variable("KUBERNETES_SERVICE_PORT")?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let mut config = kube::Config::new(uri(
        place,
        "KUBERNETES_SERVICE_HOST",
        &format!("https://{host}:{port}"),
        true,
    )?);
    let remedy =
        "set automountServiceAccountToken of the pod or its ServiceAccount, or give a kubeconfig";
    let token = dir.join("token");
    std::fs::metadata(&token).map_err(|error| fault(place, &shown(&token), error, remedy))?;
    let authority = dir.join("ca.crt");
    let pem = std::fs::read(&authority)
        .map_err(|error| fault(place, &shown(&authority), error, remedy))?;
    config.root_cert = Some(certificates(place, &shown(&authority), &pem)?);
    config.root_cert_file = Some(authority);
    if let Ok(namespace) = std::fs::read_to_string(dir.join("namespace")) {
        namespace.trim().clone_into(&mut config.default_namespace);
    }
    Ok(Loaded { place: place.to_owned(), token_file: Some(token), ..Loaded::bare(config) })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The certificates in a PEM file; at least one.
pub(super) fn certificates(
    place: &str,
    field: &str,
    pem: &[u8],
) -> Result<Vec<Vec<u8>>, AccessError> {
    let remedy = "give certificates in PEM form (-----BEGIN CERTIFICATE-----)";
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| fault(place, field, format!("is no PEM: {error}"), remedy))?;
    if all.is_empty() {
        return Err(fault(place, field, "holds no certificate", remedy));
    }
    Ok(all.into_iter().map(|one| one.to_vec()).collect())
}

/// Parses an address. As in rest/url_utils.go, DefaultServerURL: without a scheme it is http, or https if
/// certificates are configured.
pub(super) fn uri(
    place: &str,
    field: &str,
    address: &str,
    has_tls: bool,
) -> Result<Uri, AccessError> {
    let wrong = |why: &dyn fmt::Display| {
        let remedy = "give an address such as https://10.0.0.1:6443";
        fault(place, field, format!("Invalid value: {address:?}: {why}"), remedy)
    };
    let full = match address.split_once("://") {
        Some(_) => address.to_owned(),
        None if has_tls => format!("https://{address}"),
        None => format!("http://{address}"),
    };
    let uri: Uri = full.parse().map_err(|error| wrong(&error))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err(wrong(&"http or https and a host are expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a pod with these files and variables finds.
    fn found(files: &[(&str, &str)], env: &[(&str, &str)]) -> Result<Loaded, String> {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).expect("it can be written");
        }
        let env = |name: &str| {
            let found = env.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        in_cluster(dir.path(), env)
            .map_err(|error| error.to_string().replace(&shown(dir.path()), "DIR"))
    }

    const ENV: [(&str, &str); 2] =
        [("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("KUBERNETES_SERVICE_PORT", "443")];

    #[test]
    fn a_pod_finds_the_api_server_and_its_account() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::default();
        let authority = params.self_signed(&key).expect("a certificate").pem();
        let files =
            [("token", "t\n"), ("ca.crt", authority.as_str()), ("namespace", "kube-system\n")];
        let loaded = found(&files, &ENV).expect("all is there");
        assert_eq!(loaded.config.cluster_url.to_string(), "https://10.0.0.1:443/");
        assert_eq!(loaded.config.default_namespace, "kube-system");
        assert!(loaded.token_file.is_some_and(|path| path.ends_with("token")));
        assert!(loaded.config.root_cert_file.is_some(), "it is read again when it is renewed");
        let six = [("KUBERNETES_SERVICE_HOST", "fd00::1"), ENV[1]];
        let loaded = found(&files, &six).expect("all is there");
        assert_eq!(loaded.config.cluster_url.to_string(), "https://[fd00::1]:443/");
    }

    #[test]
    fn what_a_pod_lacks_is_named_with_a_remedy() {
        let error = |files, env| found(files, env).expect_err("something is missing");
        assert_eq!(
            error(&[], &[]),
            "in-cluster configuration: KUBERNETES_SERVICE_HOST: the environment variable is not set; give a \
             kubeconfig (--kubeconfig or clientConnection.kubeconfig) outside a cluster"
        );
        let missing = error(&[], &ENV);
        assert!(
            missing.starts_with("in-cluster configuration: DIR/token: No such file"),
            "{missing}"
        );
        assert!(missing.contains("automountServiceAccountToken"), "{missing}");
        let wrong = error(&[("token", "t"), ("ca.crt", "none")], &ENV);
        assert!(
            wrong.contains("DIR/ca.crt: holds no certificate; give certificates in PEM"),
            "{wrong}"
        );
    }

    #[test]
    fn an_unsupported_content_type_is_noticed() {
        let asked = |content_type: &str, accept: &str| {
            let (content_type, accept_content_types) = (content_type.to_owned(), accept.to_owned());
            Access { content_type, accept_content_types, ..Access::default() }
                .unsupported_content_type()
                .map(str::to_owned)
        };
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(asked(protobuf, ""), Some(protobuf.to_owned()));
        assert_eq!(
            asked("application/json", &format!("application/json, {protobuf}")),
            Some(protobuf.to_owned())
        );
        assert_eq!(asked("", "application/json;q=1"), None);
    }
}
