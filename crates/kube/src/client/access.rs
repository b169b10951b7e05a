//! Where the API server is, and who we are to it: a kubeconfig, or what a pod finds in its cluster.

use std::fmt::{self, Display};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use http::{HeaderValue, Uri};
use kube::config::{
    AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedContext,
};
use plimsoll_config::ClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::ExposeSecret;

/// What a pod is given by its cluster.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The only form in which objects are read and written here.
pub(super) const JSON: &str = "application/json";

/// How the API server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The path of a kubeconfig (`clientConnection.kubeconfig` or `--kubeconfig`); without one, what the
    /// cluster gives a pod.
    pub kubeconfig: Option<PathBuf>,
    /// The address of the API server (`--master`), instead of the one in the kubeconfig.
    pub master: Option<String>,
    /// `clientConnection.contentType`. Whatever it says, JSON is spoken.
    pub content_type: String,
    /// `clientConnection.acceptContentTypes`. Whatever it says, JSON is spoken.
    pub accept_content_types: String,
}

impl Access {
    /// As a configuration file and `--master` say.
    pub fn new(connection: &ClientConnection, master: Option<String>) -> Self {
        let path = &connection.kubeconfig;
        Access {
            kubeconfig: (!path.is_empty()).then(|| PathBuf::from(path)),
            master: master.filter(|address| !address.is_empty()),
            content_type: connection.content_type.clone(),
            accept_content_types: connection.accept_content_types.clone(),
        }
    }

    /// The content type that is asked for and not spoken.
    pub(super) fn unspoken(&self) -> Option<&str> {
        let mut asked = self.accept_content_types.split(',').chain([self.content_type.as_str()]);
        asked.find(|one| !one.is_empty() && !one.trim().starts_with(JSON)).map(str::trim)
    }
}

/// Why the API server cannot be reached. Prints as `WHERE: FIELD: PROBLEM; REMEDY`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {}{problem}; {remedy}", if field.is_empty() { String::new() } else { format!("{field}: ") })]
pub struct AccessError {
    /// The file, or what else the settings were taken from.
    pub place: String,
    /// The field in it, such as `users[admin].user.tokenFile`; may be empty.
    pub field: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

/// All that a connection is made from.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Where it comes from, for people.
    pub(super) place: String,
    pub(super) config: kube::Config,
    /// A token that is read from a file again and again.
    pub(super) token_file: Option<PathBuf>,
    /// How the user is named in errors.
    pub(super) user: String,
    /// Whether a program is asked for credentials.
    pub(super) has_exec: bool,
    /// What a person is told where that program is missing.
    pub(super) install_hint: Option<String>,
    /// Stands for the content of all files that were read; tokens in files of their own excepted.
    pub(super) print: u64,
}

/// Reads what `access` names.
pub(super) async fn load(access: &Access) -> Result<Loaded, AccessError> {
    let mut loaded = match (&access.kubeconfig, &access.master) {
        (Some(path), _) => from_kubeconfig(path).await?,
        // As in client_config.go, BuildConfigFromFlags: an address alone is enough.
        (None, Some(master)) => {
            Loaded::bare(kube::Config::new(uri("--master", "", master, false)?))
        }
        (None, None) => in_cluster(Path::new(SERVICE_ACCOUNT), |name| std::env::var(name).ok())?,
    };
    if let (Some(_), Some(master)) = (&access.kubeconfig, &access.master) {
        loaded.config.cluster_url = uri("--master", "", master, loaded.wants_tls())?;
    }
    // What is tried again is for whoever sends a request to say.
    loaded.config.default_retry = false;
    Ok(loaded)
}

impl Loaded {
    fn bare(config: kube::Config) -> Self {
        Loaded {
            place: "--master".to_owned(),
            config,
            token_file: None,
            user: String::new(),
            has_exec: false,
            install_hint: None,
            print: 0,
        }
    }

    /// Whether anything speaks for TLS where an address does not say.
    fn wants_tls(&self) -> bool {
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

fn fault(place: &str, field: &str, problem: impl Display, remedy: &str) -> AccessError {
    AccessError {
        place: place.to_owned(),
        field: field.to_owned(),
        problem: problem.to_string(),
        remedy: remedy.to_owned(),
    }
}

/// What a pod has: `env` gives its environment, `dir` holds its service account.
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

async fn from_kubeconfig(path: &Path) -> Result<Loaded, AccessError> {
    let place = format!("kubeconfig {}", path.display());
    let text = std::fs::read(path).map_err(|error| {
        let remedy = "name a readable file in --kubeconfig or clientConnection.kubeconfig";
        fault(&place, "", format!("cannot be read: {error}"), remedy)
    })?;
    let file = Kubeconfig::read_from(path).map_err(|error| unreadable(&place, &error))?;
    let chosen = Chosen::of(&place, &file)?;
    let mut files = Files { place: &place, print: DefaultHasher::new() };
    files.print.write(&text);
    chosen.check_cluster(&mut files)?;
    chosen.check_user(&mut files)?;
    let (user, print) = (chosen.user_field.clone(), files.print.finish());
    let exec = chosen.user.and_then(|user| user.exec.as_ref());
    let (has_exec, install_hint) =
        (exec.is_some(), exec.and_then(|exec| exec.install_hint.clone()));
    let server = chosen.cluster.server.clone().unwrap_or_default();
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(|error| unreadable(&place, &error))?;
    // As in transport/token_source.go: a file with a token wins over a token, and is read again.
    let token_file = config.auth_info.token_file.take().map(PathBuf::from);
    if token_file.is_some() {
        config.auth_info.token = None;
    }
    let mut loaded =
        Loaded { token_file, user, has_exec, install_hint, print, ..Loaded::bare(config) };
    loaded.config.cluster_url = uri(&place, "server", &server, loaded.wants_tls())?;
    loaded.place = place;
    Ok(loaded)
}

/// What kube says about a kubeconfig, without quoting from it: it holds secrets.
fn unreadable(place: &str, error: &KubeconfigError) -> AccessError {
    let remedy = "compare it with one that kubectl can use (kubectl --kubeconfig FILE config view)";
    match error {
        KubeconfigError::Parse(error) => {
            let at = error.location().map_or_else(String::new, |at| {
                format!("line {}, column {}: ", at.line(), at.column())
            });
            fault(place, "", format!("{at}this is no kubeconfig"), remedy)
        }
        other => fault(place, "", other, remedy),
    }
}

/// What the current context of a kubeconfig comes to.
struct Chosen<'a> {
    place: &'a str,
    cluster: &'a Cluster,
    cluster_field: String,
    user: Option<&'a AuthInfo>,
    user_field: String,
}

impl<'a> Chosen<'a> {
    fn of(place: &'a str, file: &'a Kubeconfig) -> Result<Self, AccessError> {
        let names = |all: Vec<&str>| match all.as_slice() {
            [] => "it has none".to_owned(),
            all => format!("it has {}", all.join(", ")),
        };
        let contexts = || names(file.contexts.iter().map(|one| one.name.as_str()).collect());
        let current = file.current_context.as_deref().filter(|name| !name.is_empty());
        let Some(current) = current else {
            let problem = format!("no context is chosen; {}", contexts());
            let remedy = "choose one (kubectl --kubeconfig FILE config use-context NAME)";
            return Err(fault(place, "current-context", problem, remedy));
        };
        let context = file.contexts.iter().find(|one| one.name == current);
        let Some(NamedContext { context: Some(context), .. }) = context else {
            let problem = format!("there is no context {current:?}; {}", contexts());
            let remedy =
                "choose one that exists (kubectl --kubeconfig FILE config use-context NAME)";
            return Err(fault(place, "current-context", problem, remedy));
        };
        let cluster = file.clusters.iter().find(|one| one.name == context.cluster);
        let cluster = cluster.and_then(|one| one.cluster.as_ref()).ok_or_else(|| {
            let all = names(file.clusters.iter().map(|one| one.name.as_str()).collect());
            let problem = format!("there is no cluster {:?}; {all}", context.cluster);
            let field = format!("contexts[{current}].context.cluster");
            fault(place, &field, problem, "name a cluster of the file")
        })?;
        let mut user = None;
        if let Some(name) = context.user.as_deref().filter(|name| !name.is_empty()) {
            let found = file.auth_infos.iter().find(|one| one.name == name);
            user = Some(found.and_then(|one| one.auth_info.as_ref()).ok_or_else(|| {
                let all = names(file.auth_infos.iter().map(|one| one.name.as_str()).collect());
                let problem = format!("there is no user {name:?}; {all}");
                let field = format!("contexts[{current}].context.user");
                fault(place, &field, problem, "name a user of the file")
            })?);
        }
        Ok(Chosen {
            place,
            cluster,
            cluster_field: format!("clusters[{}].cluster", context.cluster),
            user,
            user_field: format!("users[{}].user", context.user.as_deref().unwrap_or_default()),
        })
    }

    fn check_cluster(&self, files: &mut Files<'_>) -> Result<(), AccessError> {
        let field = |name: &str| format!("{}.{name}", self.cluster_field);
        let Cluster { server, certificate_authority, certificate_authority_data, .. } =
            self.cluster;
        if server.as_deref().is_none_or(str::is_empty) {
            let remedy = "give the address of the API server, such as https://10.0.0.1:6443";
            return Err(fault(self.place, &field("server"), "Required value", remedy));
        }
        if let (Some(path), None) = (certificate_authority, certificate_authority_data) {
            let field = field("certificate-authority");
            let pem = files.read(&field, path)?;
            certificates(self.place, &field, &pem)?;
        }
        Ok(())
    }

    fn check_user(&self, files: &mut Files<'_>) -> Result<(), AccessError> {
        let Some(user) = self.user else { return Ok(()) };
        let field = |name: &str| format!("{}.{name}", self.user_field);
        if let (Some(path), None) = (&user.client_certificate, &user.client_certificate_data) {
            let field = field("client-certificate");
            let pem = files.read(&field, path)?;
            certificates(self.place, &field, &pem)?;
        }
        if let (Some(path), None) = (&user.client_key, &user.client_key_data) {
            files.read(&field("client-key"), path)?;
        }
        let has_certificate =
            user.client_certificate.is_some() || user.client_certificate_data.is_some();
        let has_key = user.client_key.is_some() || user.client_key_data.is_some();
        if has_certificate != has_key {
            let missing = if has_certificate { "client-key" } else { "client-certificate" };
            let problem = "Required value: certificate and key belong together";
            let remedy = "give both, or neither";
            return Err(fault(self.place, &field(missing), problem, remedy));
        }
        if let Some(token) = &user.token
            && HeaderValue::try_from(token.expose_secret()).is_err()
        {
            let remedy = "give a token as one line";
            return Err(fault(self.place, &field("token"), "this is no token", remedy));
        }
        if let Some(path) = &user.token_file {
            let field = field("tokenFile");
            std::fs::metadata(path).map_err(|error| {
                fault(self.place, &field, format!("{path}: {error}"), "name a readable file")
            })?;
        }
        if let Some(exec) = &user.exec
            && exec.command.as_deref().is_none_or(str::is_empty)
        {
            let remedy = "name the program that prints credentials";
            return Err(fault(self.place, &field("exec.command"), "Required value", remedy));
        }
        Ok(())
    }
}

/// The files that a kubeconfig names.
struct Files<'a> {
    place: &'a str,
    print: DefaultHasher,
}

impl Files<'_> {
    fn read(&mut self, field: &str, path: &str) -> Result<Vec<u8>, AccessError> {
        let content = std::fs::read(path).map_err(|error| {
            fault(self.place, field, format!("{path}: {error}"), "name a readable file")
        })?;
        content.hash(&mut self.print);
        Ok(content)
    }
}

/// The certificates in a PEM file; at least one.
fn certificates(place: &str, field: &str, pem: &[u8]) -> Result<Vec<Vec<u8>>, AccessError> {
    let remedy = "give certificates in PEM form (-----BEGIN CERTIFICATE-----)";
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| fault(place, field, format!("is no PEM: {error}"), remedy))?;
    if all.is_empty() {
        return Err(fault(place, field, "holds no certificate", remedy));
    }
    Ok(all.into_iter().map(|one| one.to_vec()).collect())
}

/// An address. As in rest/url_utils.go, DefaultServerURL: one without a scheme is http, or https where
/// certificates are given.
fn uri(place: &str, field: &str, address: &str, has_tls: bool) -> Result<Uri, AccessError> {
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
