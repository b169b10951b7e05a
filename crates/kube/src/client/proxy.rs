//! Finds the proxy to the API server, if there is one.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

/// The proxy to `server`: `given` in the kubeconfig, or that of the environment (`HTTPS_PROXY`,
/// `HTTP_PROXY`, `NO_PROXY`, also in lower case). As in net/http, ProxyFromEnvironment: the environment
/// does not apply to servers on this machine.
///
/// An unsupported kind of proxy is an error.
pub(super) fn to(
    server: &Uri,
    given: Option<&str>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Option<Intercept>, ProxyError> {
    let variable = |name: &str| {
        let value = env(name).filter(|value| !value.is_empty());
        value.or_else(|| env(&name.to_ascii_lowercase())).unwrap_or_default()
    };
    let matcher = match given.filter(|address| !address.is_empty()) {
        Some(address) => Matcher::builder().all(address.to_owned()).build(),
        None if server.host().is_some_and(is_this_machine) => return Ok(None),
        None => Matcher::builder()
            .https(variable("HTTPS_PROXY"))
            .http(variable("HTTP_PROXY"))
            .no(variable("NO_PROXY"))
            .build(),
    };
    let proxy = matcher.intercept(server);
    match proxy.as_ref().map(|proxy| proxy.uri().scheme_str()) {
        None if given.is_some_and(|address| !address.is_empty()) => Err(ProxyError::NoAddress),
        None | Some(Some("http")) => Ok(proxy),
        Some(scheme) => Err(ProxyError::Scheme(scheme.unwrap_or_default().to_owned())),
    }
}

/// A proxy that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyError {
    #[error("is no address of a proxy")]
    NoAddress,
    // The rest of the address may contain a password.
    #[error("{0} proxies cannot be used")]
    Scheme(String),
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proxy to `server` in an environment.
    fn through(server: &str, given: &str, env: &[(&str, &str)]) -> String {
        let server = server.parse().expect("the case is an address");
        let env = |name: &str| {
            let found = env.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match to(&server, Some(given), env) {
            Ok(Some(proxy)) => {
                let auth = if proxy.basic_auth().is_some() { " with a password" } else { "" };
                format!("{}{auth}", proxy.uri())
            }
            Ok(None) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_proxy_is_the_one_that_is_given_or_that_of_the_environment() {
        let https = ("HTTPS_PROXY", "http://a:b@proxy:3128");
        let no = ("no_proxy", "10.0.0.0/8,.cluster.local");
        for (server, given, env, expected) in [
            ("https://k8s:6443", "", &[][..], "none"),
            ("https://k8s:6443", "", &[https], "http://proxy:3128/ with a password"),
            ("https://k8s:6443", "", &[("https_proxy", "proxy:1")], "http://proxy:1/"),
            ("https://k8s:6443", "", &[("HTTP_PROXY", "http://proxy")], "none"),
            ("https://10.1.2.3", "", &[https, no], "none"),
            ("https://api.cluster.local", "", &[https, no], "none"),
            ("https://11.1.2.3", "", &[https, no], "http://proxy:3128/ with a password"),
            ("https://localhost:6443", "", &[https], "none"),
            ("https://[::1]:6443", "", &[https], "none"),
            ("https://127.0.0.1", "http://mine:8080", &[https, no], "http://mine:8080/"),
            ("https://10.1.2.3", "http://mine:8080", &[https, no], "http://mine:8080/"),
            ("https://k8s", "socks5://mine:1080", &[], "socks5 proxies cannot be used"),
            ("https://k8s", "http://a b", &[], "is no address of a proxy"),
        ] {
            assert_eq!(through(server, given, env), expected, "{server} {given} {env:?}");
        }
    }
}
