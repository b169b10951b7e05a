//! Certificates of clients: the common name is the user, organisations are groups.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ring::digest;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::user::RequestUserInfo;
use crate::serve::tls::{CertificateAuthority, Unproved};

/// The extra key for the id of a user's credential. As in user/user.go.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Why a certificate does not say who a client is.
#[derive(Debug, thiserror::Error)]
pub(super) enum X509Error {
    #[error(transparent)]
    Unproved(#[from] Unproved),
    #[error("x509: {0}")]
    Unreadable(String),
    #[error("x509: subject with cn={0} is not in the allowed list")]
    NotAllowed(String),
}

/// Who a client is, going by its certificate; nobody if that has no name. As in request/x509/x509.go.
pub(super) fn user(
    chain: &[CertificateDer<'_>],
    authority: &CertificateAuthority,
) -> Result<Option<RequestUserInfo>, X509Error> {
    authority.verify(chain)?;
    let Some(own) = chain.first() else { return Ok(None) };
    let cert = parse(own)?;
    let Some(name) = common_name(&cert) else { return Ok(None) };
    let organisations = cert.subject().iter_organization();
    let groups = organisations.filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
    let mut id = "X509SHA256=".to_owned();
    for byte in digest::digest(&digest::SHA256, own).as_ref() {
        write!(id, "{byte:02x}").expect("a text takes everything");
    }
    let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![id])]);
    Ok(Some(RequestUserInfo { name, uid: String::new(), groups, extra }))
}

/// The common name of a certificate that was verified.
pub(super) fn name(chain: &[CertificateDer<'_>]) -> Result<Option<String>, X509Error> {
    chain.first().map_or(Ok(None), |own| Ok(common_name(&parse(own)?)))
}

fn parse<'a>(cert: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, X509Error> {
    let parsed = X509Certificate::from_der(cert);
    parsed.map(|(_, cert)| cert).map_err(|error| X509Error::Unreadable(error.to_string()))
}

/// As in crypto/x509/pkix, FillFromRDNSequence: of several the last.
fn common_name(cert: &X509Certificate<'_>) -> Option<String> {
    let names = cert.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    names.last().filter(|name| !name.is_empty()).map(str::to_owned)
}
