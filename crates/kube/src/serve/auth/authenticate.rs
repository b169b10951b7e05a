//! Authenticates requests: by the headers of a proxy, a certificate, a token, or as anonymous.

use std::time::Duration;

use http::HeaderMap;
use kube::Client;
use rustls::pki_types::CertificateDer;

use super::cache::NoChance;
use super::token::{self, Tokens};
use super::user::RequestUserInfo;
use super::{proxy, x509};
use crate::serve::tls::Material;

/// The credentials of the request are invalid or cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in crate::serve) struct Unauthenticated(String);

/// Authenticates requests.
pub(in crate::serve) struct Authenticator {
    /// `None` without access to the API server: then no token is accepted.
    tokens: Option<Tokens>,
}

impl Authenticator {
    /// Tokens are reviewed through `client`, and the answers are cached for `token_ttl`.
    pub(in crate::serve) fn new(
        client: Option<Client>,
        token_ttl: Duration,
    ) -> Result<Self, NoChance> {
        let tokens = client.map(|client| Tokens::new(client, token_ttl));
        Ok(Authenticator { tokens: tokens.transpose()? })
    }

    /// The sender of a request. As in authenticatorfactory/delegating.go: each method is tried in turn,
    /// and the first that recognizes the sender wins. A request without credentials is anonymous; one
    /// with invalid credentials is refused.
    pub(in crate::serve) async fn who(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &HeaderMap,
        material: &Material,
    ) -> Result<RequestUserInfo, Unauthenticated> {
        let mut wrong = Vec::new();
        if !chain.is_empty() {
            if let Some(trusted) = &material.proxy {
                match proxy::user(chain, headers, trusted) {
                    Ok(Some(user)) => return Ok(user.authenticated()),
                    Ok(None) => {}
                    Err(why) => wrong.push(why.to_string()),
                }
            }
            if let Some(authority) = &material.clients {
                match x509::user(chain, authority) {
                    Ok(Some(user)) => return Ok(user.authenticated()),
                    Ok(None) => {}
                    Err(why) => wrong.push(why.to_string()),
                }
            }
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, token::of(headers)) {
            match tokens.whose(token).await {
                Ok(Some(user)) => return Ok(RequestUserInfo::clone(&user).authenticated()),
                Ok(None) => wrong.push("invalid bearer token".to_owned()),
                Err(error) => wrong.push(error.to_string()),
            }
        }
        match wrong.is_empty() {
            true => Ok(RequestUserInfo::anonymous()),
            false => Err(Unauthenticated(wrong.join(", "))),
        }
    }
}
