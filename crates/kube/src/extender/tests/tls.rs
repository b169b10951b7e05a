//! Extenders behind TLS.

use std::io::Write;
use std::sync::Arc;

use plimsoll_config::{Base64, Extender, ExtenderTlsConfig};
use plimsoll_engine::ExtenderReply;
use plimsoll_engine::extenders::Filtered;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::mpsc::unbounded_channel;
use tokio_rustls::TlsAcceptor;

use super::super::HttpExtenders;
use super::fake::{FakeExtender, Reaction};
use super::{ask, extender, filter, originals};
use crate::write::always;

/// A certificate authority.
struct TestAuthority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, in PEM.
struct ClientIdentity {
    certificate: String,
    key: String,
}

impl TestAuthority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are fine");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be made");
        TestAuthority(CertifiedIssuer::self_signed(params, key).expect("it can be signed"))
    }

    fn pem(&self) -> String {
        self.0.as_ref().pem()
    }

    fn signs(&self, name: &str) -> ClientIdentity {
        let key = KeyPair::generate().expect("a key can be made");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("it is a name");
        let certificate = params.signed_by(&key, &self.0).expect("it can be signed");
        ClientIdentity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("it is a certificate")
}

/// An extender that rejects all nodes. It requires client certificates of `clients`, if given.
async fn fake(identity: &ClientIdentity, clients: Option<&TestAuthority>) -> FakeExtender {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().expect("they are known");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate(&authority.pem())).expect("it is a certificate");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("it has roots"))
        }
    };
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("it is a key");
    let config = builder.with_single_cert(vec![certificate(&identity.certificate)], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.expect("they belong together")));
    FakeExtender::new(Reaction::Says(200, "{}".to_owned()), Some(acceptor)).await
}

fn base64(pem: &str) -> Base64 {
    use k8s_openapi::ByteString;
    let text = serde_json::to_value(ByteString(pem.as_bytes().to_vec())).expect("it is data");
    serde_json::from_value(text).expect("it is base64")
}

fn file(pem: &str) -> (tempfile::NamedTempFile, String) {
    let mut file = tempfile::NamedTempFile::new().expect("a file can be made");
    file.write_all(pem.as_bytes()).expect("it can be written");
    let path = file.path().to_str().expect("it is text").to_owned();
    (file, path)
}

fn reached(fake: &FakeExtender, tls: ExtenderTlsConfig) -> Extender {
    let url = format!("https://{}", fake.address);
    Extender { tls_config: Some(tls), ..extender(&url) }
}

const NOTHING: ExtenderReply =
    ExtenderReply::Filtered(Filtered { passed: Vec::new(), rejected: Vec::new() });

#[tokio::test]
async fn a_certificate_is_checked_against_the_authority_that_is_given() {
    let (authority, other) = (TestAuthority::new(), TestAuthority::new());
    let fake = fake(&authority.signs("127.0.0.1"), None).await;
    let (_ca, ca_file) = file(&authority.pem());
    let good = ExtenderTlsConfig { ca_file, ..ExtenderTlsConfig::default() };
    assert_eq!(ask(&reached(&fake, good.clone()), filter()).await, Ok(NOTHING));
    // Data take precedence over files.
    let wrong = ExtenderTlsConfig { ca_data: base64(&other.pem()), ..good };
    let error = ask(&reached(&fake, wrong), filter()).await.expect_err("nobody knows who signed");
    assert!(error.contains("invalid peer certificate"), "{error}");
    // By default the system's certificates are trusted.
    let error = ask(&reached(&fake, ExtenderTlsConfig::default()), filter()).await;
    assert!(error.expect_err("the system does not know it").contains("certificate"));
    assert_eq!(fake.got().len(), 1, "whoever is not known is told nothing");
}

#[tokio::test]
async fn a_certificate_must_be_for_the_host_or_for_the_name_that_is_given() {
    let authority = TestAuthority::new();
    let fake = fake(&authority.signs("extender.example"), None).await;
    let tls =
        ExtenderTlsConfig { ca_data: base64(&authority.pem()), ..ExtenderTlsConfig::default() };
    let error = ask(&reached(&fake, tls.clone()), filter()).await.expect_err("another host");
    assert!(error.contains("certificate not valid for name"), "{error}");
    let named = ExtenderTlsConfig { server_name: "extender.example".to_owned(), ..tls };
    assert_eq!(ask(&reached(&fake, named), filter()).await, Ok(NOTHING));
}

#[tokio::test]
async fn certificates_are_not_checked_where_that_is_said_or_https_is_enabled_without_an_authority()
{
    let fake = fake(&TestAuthority::new().signs("x"), None).await;
    let insecure = ExtenderTlsConfig { insecure: true, ..ExtenderTlsConfig::default() };
    assert_eq!(ask(&reached(&fake, insecure), filter()).await, Ok(NOTHING));
    let enabled = Extender { enable_https: true, ..extender(&format!("https://{}", fake.address)) };
    assert_eq!(ask(&enabled, filter()).await, Ok(NOTHING));
}

#[tokio::test]
async fn an_extender_may_want_a_certificate_of_ours() {
    let authority = TestAuthority::new();
    let fake = fake(&authority.signs("127.0.0.1"), Some(&authority)).await;
    let (ours, ca_data) = (authority.signs("scheduler"), base64(&authority.pem()));
    let without = ExtenderTlsConfig { ca_data, ..ExtenderTlsConfig::default() };
    assert!(ask(&reached(&fake, without.clone()), filter()).await.is_err());
    let data = ExtenderTlsConfig {
        cert_data: base64(&ours.certificate),
        key_data: base64(&ours.key),
        ..without.clone()
    };
    assert_eq!(ask(&reached(&fake, data), filter()).await, Ok(NOTHING));
    let ((_cert, cert_file), (_key, key_file)) = (file(&ours.certificate), file(&ours.key));
    let files = ExtenderTlsConfig { cert_file, key_file, ..without };
    assert_eq!(ask(&reached(&fake, files), filter()).await, Ok(NOTHING));
}

/// Why an extender cannot be called.
fn refused(extender: &Extender) -> String {
    let (sender, _) = unbounded_channel();
    let extenders = HttpExtenders::new([extender], originals(), always(), sender);
    extenders.expect_err("it cannot be called").to_string()
}

#[tokio::test]
async fn what_cannot_work_is_told_at_once() {
    let ours = TestAuthority::new().signs("scheduler");
    let tls = |tls: ExtenderTlsConfig| Extender {
        tls_config: Some(tls),
        ..extender("https://localhost")
    };
    let none = ExtenderTlsConfig::default();
    let both = ExtenderTlsConfig { insecure: true, ca_data: base64("x"), ..none.clone() };
    let no_file = ExtenderTlsConfig { ca_file: "/no/such/file".to_owned(), ..none.clone() };
    let no_key = ExtenderTlsConfig { cert_data: base64(&ours.certificate), ..none.clone() };
    let key = base64(&ours.key);
    let no_certificate = ExtenderTlsConfig {
        cert_data: base64("no certificate"),
        key_data: key.clone(),
        ca_data: base64(&TestAuthority::new().pem()),
        ..none.clone()
    };
    let no_name = ExtenderTlsConfig { server_name: "a b".to_owned(), insecure: true, ..none };
    for (extender, expected) in [
        (extender("localhost:80"), "urlPrefix must begin with http:// or https://"),
        (extender("http://me:secret@localhost"), "urlPrefix must not hold a user or password"),
        (extender("http://a b"), "urlPrefix: invalid"),
        (tls(both), "specifying a root certificates file with the insecure flag is not allowed"),
        (tls(no_file), "/no/such/file"),
        (tls(no_key), "client key"),
        (tls(no_certificate), "certificate"),
        (tls(no_name), "tlsConfig.serverName"),
    ] {
        let error = refused(&extender);
        assert!(error.contains(expected), "{error}, not {expected}");
        assert!(!error.contains("secret") && !error.contains(key.as_str()), "{error}");
        assert!(error.starts_with("extender 0 "), "{error}");
    }
}
