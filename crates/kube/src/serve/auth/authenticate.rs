//! Who sends a request: a proxy's word, a certificate, a token, or nobody in particular.

use std::time::Duration;

use http::HeaderMap;
use kube::Client;
use rustls::pki_types::CertificateDer;

use super::cache::NoChance;
use super::token::{self, Tokens};
use super::user::User;
use super::{proxy, x509};
use crate::serve::tls::Material;

/// The request says who sends it, and that is not true or cannot be known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in crate::serve) struct Unauthenticated(String);

/// Learns who sends requests.
pub(in crate::serve) struct Authenticator {
    /// `None` where the API server cannot be asked: then no token counts.
    tokens: Option<Tokens>,
}

impl Authenticator {
    /// Tokens are asked about through `client`, and what is said of them holds for `token_ttl`.
    pub(in crate::serve) fn new(
        client: Option<Client>,
        token_ttl: Duration,
    ) -> Result<Self, NoChance> {
        let tokens = client.map(|client| Tokens::new(client, token_ttl));
        Ok(Authenticator { tokens: tokens.transpose()? })
    }

    /// Who sends a request. As in authenticatorfactory/delegating.go: each way is tried in turn, and the
    /// first that knows the sender is right. Who does not try to say who they are is anonymous; who tries
    /// and fails is nobody.
    pub(in crate::serve) async fn who(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &HeaderMap,
        material: &Material,
    ) -> Result<User, Unauthenticated> {
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
                Ok(Some(user)) => return Ok(User::clone(&user).authenticated()),
                Ok(None) => wrong.push("invalid bearer token".to_owned()),
                Err(why) => wrong.push(why),
            }
        }
        match wrong.is_empty() {
            true => Ok(User::anonymous()),
            false => Err(Unauthenticated(wrong.join(", "))),
        }
    }
}
