//! The allowed versions, cipher suites and curves of TLS, by Go's names.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

use crate::serve::options::{OptionError, ServingOptions};

/// The suites of Go that rustls also has.
const SUITES: [(&str, CipherSuite); 11] = [
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// The suites of Go that rustls rejects as too weak. A list may contain them if it also contains
/// others.
const WEAK_SUITES: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// The versions by Go's names. rustls has none before 1.2.
const VERSIONS: [&str; 4] = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];

/// The numbers of P-256, P-384 and X25519, and those that Go knows but that are not available here.
const CURVES: [(i64, &dyn SupportedKxGroup); 3] = [
    (23, ring::kx_group::SECP256R1),
    (24, ring::kx_group::SECP384R1),
    (29, ring::kx_group::X25519),
];
const OTHER_CURVES: [i64; 2] = [25, 4588];

/// A name with a larger edit distance is not a typing error.
const FAR: usize = 8;

/// The allowed versions, suites and curves.
#[derive(Clone, Debug)]
pub(in crate::serve) struct TlsSettings {
    /// The suites and curves, from ring.
    pub(in crate::serve) provider: Arc<CryptoProvider>,
    /// The versions, the newest first.
    pub(in crate::serve) versions: &'static [&'static SupportedProtocolVersion],
    /// Requested ones that are not available, for the log.
    pub(in crate::serve) left_out: Vec<String>,
}

impl TlsSettings {
    /// Parses the flags. The error has everything that is wrong with them.
    pub(in crate::serve) fn new(options: &ServingOptions) -> Result<Self, Vec<OptionError>> {
        let (mut errors, mut left_out) = (Vec::new(), Vec::new());
        let mut provider = ring::default_provider();
        let versions = versions(&options.min_tls_version, &mut left_out).unwrap_or_else(|error| {
            errors.push(error);
            BOTH
        });
        choose_suites(&mut provider, &options.cipher_suites, &mut left_out, &mut errors);
        choose_curves(&mut provider, &options.curve_preferences, &mut left_out, &mut errors);
        match errors.is_empty() {
            true => Ok(TlsSettings { provider: Arc::new(provider), versions, left_out }),
            false => Err(errors),
        }
    }
}

const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
const NEWEST: &[&SupportedProtocolVersion] = &[&TLS13];

fn versions(
    min: &str,
    left_out: &mut Vec<String>,
) -> Result<&'static [&'static SupportedProtocolVersion], OptionError> {
    match min {
        "" | "VersionTLS12" => Ok(BOTH),
        "VersionTLS13" => Ok(NEWEST),
        "VersionTLS10" | "VersionTLS11" => {
            left_out.push(min.to_owned());
            Ok(BOTH)
        }
        other => Err(OptionError(format!(
            "--tls-min-version {other:?} is unknown: use one of {}",
            VERSIONS.join(", ")
        ))),
    }
}

/// As in Go, suites of TLS 1.3 are always offered.
fn choose_suites(
    provider: &mut CryptoProvider,
    names: &[String],
    left_out: &mut Vec<String>,
    errors: &mut Vec<OptionError>,
) {
    if names.is_empty() {
        return;
    }
    let mut wanted = Vec::new();
    for name in names {
        match SUITES.iter().find(|(known, _)| known == name) {
            Some((_, suite)) => wanted.push(*suite),
            None if WEAK_SUITES.contains(&name.as_str()) => left_out.push(name.clone()),
            None => errors.push(OptionError(unknown_suite(name))),
        }
    }
    if wanted.is_empty() && errors.is_empty() {
        let text = "--tls-cipher-suites names only suites that are too weak to be served: leave it out, or add \
                    one such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        errors.push(OptionError(text.to_owned()));
    }
    provider.cipher_suites.retain(|suite| match suite {
        SupportedCipherSuite::Tls13(_) => true,
        SupportedCipherSuite::Tls12(_) => wanted.contains(&suite.suite()),
    });
}

fn unknown_suite(name: &str) -> String {
    let all = SUITES.iter().map(|(known, _)| *known).chain(WEAK_SUITES);
    let near = all.map(|known| (strsim::levenshtein(name, known), known)).min();
    let hint = match near {
        Some((distance, known)) if distance <= FAR => format!("did you mean {known}?"),
        _ => "see https://golang.org/pkg/crypto/tls/#pkg-constants".to_owned(),
    };
    format!("--tls-cipher-suites: cipher suite {name} not supported or doesn't exist; {hint}")
}

fn choose_curves(
    provider: &mut CryptoProvider,
    numbers: &[i64],
    left_out: &mut Vec<String>,
    errors: &mut Vec<OptionError>,
) {
    if numbers.is_empty() {
        return;
    }
    let mut wanted = Vec::new();
    for number in numbers {
        match CURVES.iter().find(|(known, _)| known == number) {
            Some((_, curve)) => wanted.push(*curve),
            None if OTHER_CURVES.contains(number) => left_out.push(format!("curve {number}")),
            None => errors.push(OptionError(format!(
                "--tls-curve-preferences: {number} is no curve: use some of 23 (P-256), 24 (P-384), \
                 29 (X25519)"
            ))),
        }
    }
    if wanted.is_empty() && errors.is_empty() {
        errors.push(OptionError(
            "--tls-curve-preferences names no curve that can be served: add 23 (P-256), 24 (P-384) or \
             29 (X25519)"
                .to_owned(),
        ));
    }
    provider.kx_groups = wanted;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(min: &str, suites: &[&str], curves: &[i64]) -> Result<TlsSettings, String> {
        let options = ServingOptions {
            min_tls_version: min.to_owned(),
            cipher_suites: suites.iter().map(|&name| name.to_owned()).collect(),
            curve_preferences: curves.to_vec(),
            ..ServingOptions::default()
        };
        let message =
            |errors: Vec<OptionError>| errors.into_iter().map(|error| error.0 + "\n").collect();
        TlsSettings::new(&options).map_err(message)
    }

    fn suites(terms: &TlsSettings) -> Vec<CipherSuite> {
        terms.provider.cipher_suites.iter().map(SupportedCipherSuite::suite).collect()
    }

    #[test]
    fn names_of_go_choose_suites_and_those_of_tls_1_3_stay() {
        let name = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        let chosen = terms("", &[name, "TLS_RSA_WITH_RC4_128_SHA"], &[]).expect("it is known");
        let suites = suites(&chosen);
        assert!(suites.contains(&CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256));
        assert!(suites.contains(&CipherSuite::TLS13_AES_256_GCM_SHA384));
        assert!(!suites.contains(&CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384));
        assert_eq!(chosen.left_out, ["TLS_RSA_WITH_RC4_128_SHA"]);
    }

    #[test]
    fn an_unknown_name_is_an_error_that_says_what_was_meant() {
        let error = terms("", &["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA265"], &[]).unwrap_err();
        assert!(error.contains("did you mean TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256?"), "{error}");
        let error = terms("", &["ROT13"], &[]).unwrap_err();
        assert!(error.contains("pkg-constants"), "{error}");
        let error = terms("", &["TLS_RSA_WITH_RC4_128_SHA"], &[]).unwrap_err();
        assert!(error.contains("too weak"), "{error}");
    }

    #[test]
    fn versions_before_1_2_are_not_served() {
        assert_eq!(terms("VersionTLS13", &[], &[]).expect("it is known").versions.len(), 1);
        let old = terms("VersionTLS10", &[], &[]).expect("it is known");
        assert_eq!((old.versions.len(), old.left_out), (2, vec!["VersionTLS10".to_owned()]));
        assert!(terms("1.2", &[], &[]).unwrap_err().contains("VersionTLS12"));
    }

    #[test]
    fn curves_are_numbers() {
        let chosen = terms("", &[], &[24, 25]).expect("they are known");
        assert_eq!(chosen.provider.kx_groups.len(), 1);
        assert_eq!(chosen.left_out, ["curve 25"]);
        assert!(terms("", &[], &[7]).unwrap_err().contains("7 is no curve"));
        assert!(terms("", &[], &[4588]).unwrap_err().contains("add 23"));
    }
}
