//! Kubeconfigs: what the current context of one comes to, and what is wrong with it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use http::HeaderValue;
use kube::config::{
    AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedContext,
};
use secrecy::ExposeSecret;

use super::access::{AccessError, Loaded, certificates, fault, uri};

/// Reads the kubeconfig at `path`, as far as its current context reaches.
pub(super) async fn read(path: &Path) -> Result<Loaded, AccessError> {
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
    let (cluster, proxy_url) = (chosen.cluster_field.clone(), chosen.cluster.proxy_url.clone());
    let proxy_url = proxy_url.filter(|address| !address.is_empty());
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(|error| unreadable(&place, &error))?;
    // As in transport/token_source.go: a file with a token wins over a token, and is read again.
    let token_file = config.auth_info.token_file.take().map(PathBuf::from);
    if token_file.is_some() {
        config.auth_info.token = None;
    }
    let mut loaded = Loaded {
        token_file,
        user,
        has_exec,
        install_hint,
        cluster,
        proxy_url,
        print,
        ..Loaded::bare(config)
    };
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
