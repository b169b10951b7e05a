//! Authenticates tokens through the API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use kube::Client;
use serde::{Deserialize, Serialize};

use super::cache::{AnswerCache, NoChance};
use super::review::{ReviewError, ReviewKind, Reviewer};
use super::user::RequestUserInfo;

/// At most this many answers are cached. As in cached_token_authenticator.go.
const ANSWERS: usize = 32 * 128;

const TOKEN_REVIEW: ReviewKind = ReviewKind {
    api_version: "authentication.k8s.io/v1",
    name: "TokenReview",
    path: "/apis/authentication.k8s.io/v1/tokenreviews",
};

/// `TokenReview.spec`.
#[derive(Serialize)]
struct TokenReviewSpec<'a> {
    token: &'a str,
}

/// `TokenReview.status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenReviewStatus {
    authenticated: bool,
    user: UserInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// The answer about a token: its user, or none if it is invalid. An error if there was no answer.
type TokenResult = Result<Option<Arc<RequestUserInfo>>, ReviewError>;

/// Authenticates tokens.
pub(super) struct Tokens {
    reviewer: Reviewer,
    holds: Duration,
    answers: AnswerCache<TokenResult>,
}

impl Tokens {
    pub(super) fn new(client: Client, holds: Duration) -> Result<Self, NoChance> {
        Ok(Tokens { reviewer: Reviewer::new(client), holds, answers: AnswerCache::new(ANSWERS)? })
    }

    /// The user of a token. Positive and negative answers of the API server are cached. If it does not
    /// answer, only those who already wait get that error.
    pub(super) async fn whose(&self, token: &str) -> TokenResult {
        let review = async || {
            let reviewed = self
                .reviewer
                .review::<TokenReviewStatus>(&TOKEN_REVIEW, TokenReviewSpec { token })
                .await;
            match reviewed {
                Ok(status) => (self.holds, Ok(status.user().map(Arc::new))),
                Err(error) => (Duration::ZERO, Err(error)),
            }
        };
        self.answers.get(token.as_bytes(), review).await
    }
}

impl TokenReviewStatus {
    fn user(self) -> Option<RequestUserInfo> {
        let UserInfo { username, uid, groups, extra } = self.user;
        self.authenticated.then_some(RequestUserInfo { name: username, uid, groups, extra })
    }
}

/// The bearer token of a request. As in request/bearertoken/bearertoken.go.
pub(super) fn of(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let mut parts = header.trim().splitn(3, ' ');
    let is_bearer = parts.next()?.eq_ignore_ascii_case("bearer");
    parts.next().filter(|token| is_bearer && !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bearer_tokens_are_tokens() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            ("  bearer abc more", Some("abc")),
            ("Bearer", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, header.parse().expect("a header"));
            assert_eq!(of(&headers), token, "{header}");
        }
        assert_eq!(of(&HeaderMap::new()), None);
    }
}
