//! Selects the certificate by the server name that a client requests.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::serve::options::OptionError;

/// A value of `--tls-sni-cert-key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct SniFiles {
    pub(in crate::serve) cert: PathBuf,
    pub(in crate::serve) key: PathBuf,
    /// Its names; empty to use those in the certificate.
    pub(in crate::serve) names: Vec<String>,
}

impl SniFiles {
    /// Reads `CERT,KEY` or `CERT,KEY:NAME,NAME`. As in namedcertkey_flag.go.
    pub(in crate::serve) fn parse(value: &str) -> Result<Self, OptionError> {
        let wrong = |why: &str| {
            OptionError(format!(
                "--tls-sni-cert-key {value:?}: {why}; write CERT,KEY or CERT,KEY:NAME,NAME"
            ))
        };
        let (files, names) = match value.split_once(':') {
            None => (value, Vec::new()),
            Some((_, names)) if names.trim().is_empty() => {
                return Err(wrong("empty names list is not allowed"));
            }
            Some((files, names)) => {
                (files, names.split(',').map(|name| name.trim().to_ascii_lowercase()).collect())
            }
        };
        match files.split(',').map(str::trim).collect::<Vec<_>>()[..] {
            [cert, key] if !cert.is_empty() && !key.is_empty() => {
                Ok(SniFiles { cert: cert.into(), key: key.into(), names })
            }
            _ => Err(wrong("expected comma separated certificate and key file paths")),
        }
    }
}

/// The certificates of the server, by name.
#[derive(Debug)]
pub(super) struct Certificates {
    default: Arc<CertifiedKey>,
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl Certificates {
    /// A certificate for all, and others for some names. As in
    /// dynamiccertificates/named_certificates.go: given names take precedence over those in
    /// certificates, and the first certificate with a name gets it.
    pub(super) fn new(
        default: Arc<CertifiedKey>,
        named: &[(Arc<CertifiedKey>, Vec<String>)],
    ) -> Self {
        let mut by_name = HashMap::new();
        for (key, names) in named {
            for name in names {
                by_name.entry(name.clone()).or_insert_with(|| key.clone());
            }
        }
        for (key, _) in named.iter().filter(|(_, names)| names.is_empty()) {
            for name in names_in(key) {
                by_name.entry(name).or_insert_with(|| key.clone());
            }
        }
        Certificates { default, by_name }
    }

    /// As in crypto/tls, getCertificate: the name itself, then with its first label replaced by a star,
    /// then its first two, and so on.
    fn find(&self, name: &str) -> Arc<CertifiedKey> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if let Some(key) = self.by_name.get(&name) {
            return key.clone();
        }
        let mut labels: Vec<&str> = name.split('.').collect();
        for i in 0..labels.len() {
            labels[i] = "*";
            if let Some(key) = self.by_name.get(&labels.join(".")) {
                return key.clone();
            }
        }
        self.default.clone()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(hello.server_name().map_or_else(|| self.default.clone(), |name| self.find(name)))
    }
}

/// The common name of a certificate, if it is a domain name, and its other domain names.
fn names_in(key: &CertifiedKey) -> Vec<String> {
    let Some(cert) = key.cert.first() else { return Vec::new() };
    let Ok((_, cert)) = X509Certificate::from_der(cert) else { return Vec::new() };
    let common = cert.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let is_domain = |name: &&str| {
        name.parse::<std::net::IpAddr>().is_err()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.*".contains(&b))
    };
    let mut names: Vec<String> = common.filter(is_domain).map(str::to_ascii_lowercase).collect();
    if let Ok(Some(others)) = cert.subject_alternative_name() {
        names.extend(others.value.general_names.iter().filter_map(|name| match name {
            x509_parser::extensions::GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        }));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tls::material::Pair;

    fn key(names: &[&str]) -> Arc<CertifiedKey> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("the names are right");
        let pair = Pair {
            cert: made.cert.pem().into_bytes(),
            key: made.signing_key.serialize_pem().into_bytes(),
        };
        pair.load(&rustls::crypto::ring::default_provider()).expect("they belong together")
    }

    #[test]
    fn files_and_names_are_told_apart() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let files = |given| SniFiles { cert: "a.crt".into(), key: "a.key".into(), names: given };
        assert_eq!(SniFiles::parse("a.crt, a.key"), Ok(files(Vec::new())));
        let several = SniFiles::parse("a.crt,a.key:*.Foo.com, foo.com");
        assert_eq!(several, Ok(files(names(&["*.foo.com", "foo.com"]))));
        for wrong in ["a.crt", "a.crt,", "a.crt,a.key:", "a,b,c"] {
            let error = SniFiles::parse(wrong).expect_err(wrong).0;
            assert!(error.starts_with("--tls-sni-cert-key"), "{error}");
        }
    }

    #[test]
    fn the_nearest_name_wins_and_names_that_were_given_trump_those_in_certificates() {
        let [all, own, given, wild] =
            [key(&["x"]), key(&["own.test", "b.test"]), key(&["y"]), key(&["z"])];
        let certificates = Certificates::new(
            all.clone(),
            &[
                (own.clone(), Vec::new()),
                (given.clone(), vec!["b.test".to_owned()]),
                (wild.clone(), vec!["*.b.test".to_owned(), "*.*.c.test".to_owned()]),
            ],
        );
        for (name, expected) in [
            ("own.test", &own),
            ("B.test.", &given),
            ("a.b.test", &wild),
            ("a.b.c.test", &wild),
            ("b.c.test", &all),
            ("a.a.b.test", &all),
            ("", &all),
        ] {
            assert!(Arc::ptr_eq(&certificates.find(name), expected), "{name}");
        }
    }
}
