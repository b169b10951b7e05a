//! The options of the server: one field for each flag of kube-scheduler.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use super::auth::AllowedPaths;
use super::tls::{self, SniFiles};

/// An invalid flag; the text names it and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(pub String);

/// All options of the server. The defaults are those of kube-scheduler.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where and how.
    pub serving: ServingOptions,
    /// Authentication.
    pub authentication: AuthnOptions,
    /// Authorization.
    pub authorization: AuthzOptions,
}

impl Options {
    /// All errors in them.
    pub fn validate(&self) -> Vec<OptionError> {
        let mut errors = self.serving.validate();
        errors.extend(self.authentication.validate());
        errors.extend(self.authorization.validate());
        errors
    }
}

/// Where and how HTTPS is served.
#[derive(Clone, Debug)]
pub struct ServingOptions {
    /// `--bind-address`. An unspecified address (`0.0.0.0`, `::`) stands for every interface, IPv4 and
    /// IPv6 alike.
    pub bind_address: IpAddr,
    /// `--secure-port`. 0 serves nothing at all.
    pub port: i64,
    /// `--tls-cert-file`: a certificate in PEM, followed by its chain.
    pub cert_file: Option<PathBuf>,
    /// `--tls-private-key-file`: its key.
    pub key_file: Option<PathBuf>,
    /// `--cert-dir`: where a self-signed certificate is kept if no files are given. Without it a new one
    /// is made at each start, and stays in memory.
    pub cert_dir: Option<PathBuf>,
    /// `--tls-sni-cert-key`: `CERT,KEY` or `CERT,KEY:NAME,NAME`, one for each time the flag is given.
    pub sni: Vec<String>,
    /// `--tls-min-version`, such as `VersionTLS13`; empty for TLS 1.2.
    pub min_tls_version: String,
    /// `--tls-cipher-suites`, by Go's names; empty for all secure ones. As in Go, those of TLS 1.3
    /// cannot be configured.
    pub cipher_suites: Vec<String>,
    /// `--tls-curve-preferences`, by the numbers of TLS: 23 for P-256, 24 for P-384, 29 for X25519; empty
    /// for all of these.
    pub curve_preferences: Vec<i64>,
    /// `--http2-max-streams-per-connection`; 0 for the default of 100.
    pub max_streams: i64,
    /// `--disable-http2-serving`.
    pub disable_http2: bool,
    /// `--permit-port-sharing`: `SO_REUSEPORT`.
    pub permit_port_sharing: bool,
    /// `--permit-address-sharing`: `SO_REUSEADDR`. Go sets it on every listening socket anyway.
    pub permit_address_sharing: bool,
}

impl Default for ServingOptions {
    /// As in kube-scheduler.
    fn default() -> Self {
        ServingOptions {
            bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 10259,
            cert_file: None,
            key_file: None,
            cert_dir: None,
            sni: Vec::new(),
            min_tls_version: String::new(),
            cipher_suites: Vec::new(),
            curve_preferences: Vec::new(),
            max_streams: 0,
            disable_http2: false,
            permit_port_sharing: false,
            permit_address_sharing: false,
        }
    }
}

impl ServingOptions {
    /// All errors in them.
    pub fn validate(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        if u16::try_from(self.port).is_err() {
            let port = self.port;
            errors.push(OptionError(format!(
                "--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
            )));
        }
        match (&self.cert_file, &self.key_file) {
            (Some(_), None) => errors.push(OptionError(
                "--tls-cert-file needs its key: give --tls-private-key-file, too".to_owned(),
            )),
            (None, Some(_)) => errors.push(OptionError(
                "--tls-private-key-file needs its certificate: give --tls-cert-file, too"
                    .to_owned(),
            )),
            _ => {}
        }
        if u32::try_from(self.max_streams).is_err() {
            errors.push(OptionError(format!(
                "--http2-max-streams-per-connection {} must be between 0 and {}; 0 is the default",
                self.max_streams,
                u32::MAX
            )));
        }
        errors.extend(self.sni.iter().filter_map(|value| SniFiles::parse(value).err()));
        errors.extend(tls::TlsSettings::new(self).err().into_iter().flatten());
        errors
    }
}

/// Authentication of requests.
#[derive(Clone, Debug)]
pub struct AuthnOptions {
    /// `--authentication-token-webhook-cache-ttl`: how long the answer to a token review is cached.
    pub token_cache_ttl: Duration,
    /// `--client-ca-file`: the authorities of client certificates. Without it the authorities are
    /// looked up in the cluster.
    pub client_ca_file: Option<PathBuf>,
    /// `--requestheader-*`: the trusted proxies.
    pub proxy: ProxyOptions,
    /// `--authentication-skip-lookup`: nothing is looked up in the cluster.
    pub skip_lookup: bool,
    /// `--authentication-tolerate-lookup-failure`: the server starts even if the lookup fails.
    pub tolerate_lookup_failure: bool,
}

impl Default for AuthnOptions {
    /// As in kube-scheduler.
    fn default() -> Self {
        AuthnOptions {
            token_cache_ttl: Duration::from_secs(10),
            client_ca_file: None,
            proxy: ProxyOptions::default(),
            skip_lookup: false,
            tolerate_lookup_failure: true,
        }
    }
}

/// Proxies that may name the user in headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyOptions {
    /// `--requestheader-client-ca-file`: the authorities of proxy certificates. Without it everything
    /// here is looked up in the cluster.
    pub client_ca_file: Option<PathBuf>,
    /// `--requestheader-allowed-names`: common names of proxies; empty for any.
    pub allowed_names: Vec<String>,
    /// `--requestheader-username-headers`: the first one that is present names the user.
    pub username_headers: Vec<String>,
    /// `--requestheader-uid-headers`.
    pub uid_headers: Vec<String>,
    /// `--requestheader-group-headers`.
    pub group_headers: Vec<String>,
    /// `--requestheader-extra-headers-prefix`.
    pub extra_prefixes: Vec<String>,
}

impl Default for ProxyOptions {
    /// As in kube-scheduler.
    fn default() -> Self {
        ProxyOptions {
            client_ca_file: None,
            allowed_names: Vec::new(),
            username_headers: vec!["x-remote-user".to_owned()],
            uid_headers: Vec::new(),
            group_headers: vec!["x-remote-group".to_owned()],
            extra_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }
}

impl AuthnOptions {
    /// All errors in them. As in options/authentication.go, Validate.
    pub fn validate(&self) -> Vec<OptionError> {
        let proxy = &self.proxy;
        let lists = [
            ("requestheader-username-headers", &proxy.username_headers),
            ("requestheader-uid-headers", &proxy.uid_headers),
            ("requestheader-group-headers", &proxy.group_headers),
            ("requestheader-extra-headers-prefix", &proxy.extra_prefixes),
            ("requestheader-allowed-names", &proxy.allowed_names),
        ];
        let mut errors = Vec::new();
        for (flag, values) in lists {
            if values.iter().any(|value| value.trim().is_empty()) {
                let text =
                    format!("empty value in \"{flag}\": remove it, or name a value in --{flag}");
                errors.push(OptionError(text));
            }
        }
        if proxy.client_ca_file.is_some() && proxy.username_headers.is_empty() {
            errors.push(OptionError(
                "--requestheader-client-ca-file needs a header that names the user: give \
                 --requestheader-username-headers, such as X-Remote-User"
                    .to_owned(),
            ));
        }
        errors
    }
}

/// Authorization.
#[derive(Clone, Debug)]
pub struct AuthzOptions {
    /// `--authorization-webhook-cache-authorized-ttl`: how long a positive answer is cached.
    pub allow_ttl: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`: how long a negative answer is cached.
    pub deny_ttl: Duration,
    /// `--authorization-always-allow-paths`: the paths that everybody may see. A `*` at the end matches
    /// anything.
    pub always_allow_paths: Vec<String>,
    /// Groups that may do everything.
    pub always_allow_groups: Vec<String>,
}

impl Default for AuthzOptions {
    /// As in kube-scheduler.
    fn default() -> Self {
        let paths = ["/healthz", "/readyz", "/livez"];
        AuthzOptions {
            allow_ttl: Duration::from_secs(10),
            deny_ttl: Duration::from_secs(10),
            always_allow_paths: paths.map(str::to_owned).to_vec(),
            always_allow_groups: vec!["system:masters".to_owned()],
        }
    }
}

impl AuthzOptions {
    /// All errors in them.
    pub fn validate(&self) -> Vec<OptionError> {
        AllowedPaths::new(&self.always_allow_paths).err().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(errors: Vec<OptionError>) -> Vec<String> {
        errors.into_iter().map(|error| error.0).collect()
    }

    #[test]
    fn what_kube_scheduler_does_by_default_is_right() {
        assert!(messages(ServingOptions::default().validate()).is_empty());
        assert!(messages(AuthnOptions::default().validate()).is_empty());
        assert!(messages(AuthzOptions::default().validate()).is_empty());
    }

    #[test]
    fn an_error_names_the_flag_and_the_remedy_and_all_are_told() {
        let options = ServingOptions {
            port: 70_000,
            cert_file: Some("tls.crt".into()),
            max_streams: -1,
            sni: vec!["only.crt".to_owned()],
            min_tls_version: "TLS13".to_owned(),
            cipher_suites: vec!["TLS_AES_128_GCM_SHA265".to_owned()],
            ..ServingOptions::default()
        };
        let errors = messages(options.validate());
        for part in [
            "--secure-port 70000 must be between 0 and 65535",
            "give --tls-private-key-file, too",
            "--http2-max-streams-per-connection -1 must be between",
            "--tls-sni-cert-key \"only.crt\"",
            "--tls-min-version \"TLS13\"",
            "did you mean TLS_AES_128_GCM_SHA256?",
        ] {
            assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
        }
    }

    #[test]
    fn headers_of_proxies_have_names() {
        let proxy = ProxyOptions { group_headers: vec![" ".to_owned()], ..ProxyOptions::default() };
        let errors = messages(AuthnOptions { proxy, ..AuthnOptions::default() }.validate());
        assert!(
            errors[0].starts_with("empty value in \"requestheader-group-headers\""),
            "{errors:?}"
        );
        let proxy = ProxyOptions {
            client_ca_file: Some("ca.crt".into()),
            username_headers: Vec::new(),
            ..ProxyOptions::default()
        };
        let errors = messages(AuthnOptions { proxy, ..AuthnOptions::default() }.validate());
        assert!(errors[0].contains("--requestheader-username-headers"), "{errors:?}");
    }

    #[test]
    fn a_star_stands_only_at_the_end_of_a_path() {
        let paths = vec!["/a/*/b".to_owned()];
        let options = AuthzOptions { always_allow_paths: paths, ..AuthzOptions::default() };
        let errors = messages(options.validate());
        assert!(errors[0].contains("only trailing * allowed"), "{errors:?}");
    }
}
