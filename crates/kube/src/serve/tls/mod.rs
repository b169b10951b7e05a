//! The TLS side of the server: its own certificates and the authorities of its clients.

mod clients;
mod keep;
mod material;
mod self_signed;
mod sni;
mod terms;

pub(in crate::serve) use clients::{AuthorityError, CertificateAuthority, Unproved};
pub(in crate::serve) use keep::{CertificateSource, KeepError, Keeper};
pub(in crate::serve) use material::{Material, Proxy, ProxyInputs};
pub(in crate::serve) use self_signed::{SelfSignedError, own_certificate};
pub(in crate::serve) use sni::SniFiles;
pub(in crate::serve) use terms::TlsSettings;
