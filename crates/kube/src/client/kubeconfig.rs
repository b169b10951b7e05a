//! Reads the current context of a kubeconfig, and reports what is wrong with it.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use http::HeaderValue;
use kube::config::{
    AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedAuthInfo, NamedContext,
};
use secrecy::ExposeSecret;

use super::access::{Access, AccessError, Loaded, Overrides, certificates, fault, uri};

/// The name of the user of `--token`.
const TOKEN_USER: &str = "--token";

/// Reads the context of the kubeconfig at `path` that is current, or that `access` chooses.
pub(super) async fn read(path: &Path, access: &Access) -> Result<Loaded, AccessError> {
    let mut print = DefaultHasher::new();
    let mut place = format!("kubeconfig {}", path.display());
    let mut file = read_file(path, &mut print)?;
    for further in &access.further_kubeconfigs {
        write!(place, ":{}", further.display()).expect("text can grow");
        let next = read_file(further, &mut print)?;
        file = file.merge(next).map_err(|error| unreadable(&place, &error))?;
    }
    choose(&place, &mut file, &access.overrides)?;
    let chosen = SelectedContext::of(&place, &file)?;
    let mut files = KubeconfigFiles { place: &place, print };
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
    // As in transport/token_source.go: a token file takes precedence over a token, and is read periodically.
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

/// Reads one file. Its paths are relative to it.
fn read_file(path: &Path, print: &mut DefaultHasher) -> Result<Kubeconfig, AccessError> {
    let place = format!("kubeconfig {}", path.display());
    let bytes = std::fs::read(path).map_err(|error| {
        let remedy = "name a readable file in --kubeconfig or clientConnection.kubeconfig";
        fault(&place, "", format!("cannot be read: {error}"), remedy)
    })?;
    print.write(&bytes);
    let text =
        decoded(&bytes).map_err(|problem| fault(&place, "", problem, "save the file as UTF-8"))?;
    let mut file = Kubeconfig::from_yaml(&text).map_err(|error| unreadable(&place, &error))?;
    if let Some(folder) = path.parent() {
        in_folder(&mut file, folder);
    }
    Ok(file)
}

/// Chooses what the flags name.
fn choose(place: &str, file: &mut Kubeconfig, overrides: &Overrides) -> Result<(), AccessError> {
    let Overrides { context, cluster, user, token } = overrides;
    if context.is_some() {
        file.current_context.clone_from(context);
    }
    let current = file.current_context.clone().unwrap_or_default();
    let chosen = file.contexts.iter_mut().find(|one| one.name == current);
    if let Some(chosen) = chosen.and_then(|one| one.context.as_mut()) {
        if let Some(cluster) = cluster {
            chosen.cluster.clone_from(cluster);
        }
        if user.is_some() {
            chosen.user.clone_from(user);
        }
    }
    let Some(token) = token else { return Ok(()) };
    if HeaderValue::try_from(token).is_err() {
        return Err(fault(place, "--token", "this is no token", "give a token as one line"));
    }
    let chosen = file.contexts.iter_mut().find(|one| one.name == current);
    if let Some(chosen) = chosen.and_then(|one| one.context.as_mut()) {
        let info = AuthInfo { token: Some(token.clone().into()), ..AuthInfo::default() };
        let named =
            NamedAuthInfo { name: TOKEN_USER.to_owned(), auth_info: Some(info), ..<_>::default() };
        file.auth_infos.retain(|one| one.name != TOKEN_USER);
        file.auth_infos.push(named);
        chosen.user = Some(TOKEN_USER.to_owned());
    }
    Ok(())
}

/// The text of a file. A byte order mark means UTF-16, as written by editors on Windows. kube's `read_path`
/// does the same, but panics at half a character.
fn decoded(bytes: &[u8]) -> Result<String, &'static str> {
    const NO_UTF_16: &str = "is no text in UTF-16, though it begins with its mark";
    let utf_16 = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let (units, half) = rest.as_chunks::<2>();
        let units: Vec<u16> = units.iter().map(|&pair| unit(pair)).collect();
        if half.is_empty() {
            String::from_utf16(&units).map_err(|_| NO_UTF_16)
        } else {
            Err(NO_UTF_16)
        }
    };
    match bytes {
        [0xFF, 0xFE, rest @ ..] => utf_16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf_16(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] | rest => {
            String::from_utf8(rest.to_vec()).map_err(|_| "is no text in UTF-8")
        }
    }
}

/// Paths in a kubeconfig are relative to it. As in loader.go, ResolveLocalPaths: so is that of a program,
/// if it is a path.
fn in_folder(file: &mut Kubeconfig, folder: &Path) {
    let resolve = |path: &mut Option<String>| {
        let beside =
            path.as_deref().filter(|path| !path.is_empty() && Path::new(path).is_relative());
        if let Some(beside) = beside.and_then(|path| folder.join(path).to_str().map(str::to_owned))
        {
            *path = Some(beside);
        }
    };
    for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        resolve(&mut cluster.certificate_authority);
    }
    for user in file.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        let AuthInfo { client_certificate, client_key, token_file, exec, .. } = user;
        [client_certificate, client_key, token_file].into_iter().for_each(resolve);
        if let Some(exec) = exec
            && exec.command.as_ref().is_some_and(|name| name.contains(std::path::MAIN_SEPARATOR))
        {
            resolve(&mut exec.command);
        }
    }
}

/// An error of kube about a kubeconfig, without quotes from it, since it contains secrets.
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

/// The current context of a kubeconfig.
struct SelectedContext<'a> {
    place: &'a str,
    cluster: &'a Cluster,
    cluster_field: String,
    user: Option<&'a AuthInfo>,
    user_field: String,
}

impl<'a> SelectedContext<'a> {
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
        Ok(SelectedContext {
            place,
            cluster,
            cluster_field: format!("clusters[{}].cluster", context.cluster),
            user,
            user_field: format!("users[{}].user", context.user.as_deref().unwrap_or_default()),
        })
    }

    fn check_cluster(&self, files: &mut KubeconfigFiles<'_>) -> Result<(), AccessError> {
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

    fn check_user(&self, files: &mut KubeconfigFiles<'_>) -> Result<(), AccessError> {
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

/// Reads the files that a kubeconfig names.
struct KubeconfigFiles<'a> {
    place: &'a str,
    print: DefaultHasher,
}

impl KubeconfigFiles<'_> {
    fn read(&mut self, field: &str, path: &str) -> Result<Vec<u8>, AccessError> {
        let content = std::fs::read(path).map_err(|error| {
            fault(self.place, field, format!("{path}: {error}"), "name a readable file")
        })?;
        content.hash(&mut self.print);
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_text_in_the_form_that_its_mark_tells() {
        let utf_16: Vec<u8> = "é: 1".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let swapped: Vec<u8> = "é: 1".encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [
            "é: 1".as_bytes().to_vec(),
            [&[0xEF, 0xBB, 0xBF], "é: 1".as_bytes()].concat(),
            [&[0xFF, 0xFE], utf_16.as_slice()].concat(),
            [&[0xFE, 0xFF], swapped.as_slice()].concat(),
        ] {
            assert_eq!(decoded(&bytes).as_deref(), Ok("é: 1"), "{bytes:?}");
        }
        for bytes in
            [&[0xFF, 0xFE, b'a'][..], &[0xFE, 0xFF, 0, b'a', 0], &[0xFF, 0xFE, 0, 0xD8], &[0xC3]]
        {
            assert!(decoded(bytes).is_err(), "{bytes:?}");
        }
    }
}
