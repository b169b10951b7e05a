//! Authorizes requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde::{Deserialize, Serialize};

use super::allowed_paths::AllowedPaths;
use super::cache::{AnswerCache, NoChance};
use super::review::{ReviewKind, Reviewer};
use super::user::RequestUserInfo;
use crate::serve::options::{AuthzOptions, OptionError};

/// At most this many answers are cached. As in authorizer/webhook/webhook.go.
const ANSWERS: usize = 8192;

/// Answers about paths and names longer than this are not cached, since clients choose the length. As in
/// webhook.go, shouldCache.
const LONG: usize = 10_000;

const ACCESS_REVIEW: ReviewKind = ReviewKind {
    api_version: "authorization.k8s.io/v1",
    name: "SubjectAccessReview",
    path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
};

/// `SubjectAccessReview.spec`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccessReviewSpec<'a> {
    #[serde(flatten)]
    access: Access<'a>,
    user: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
}

/// What a user wants to do.
#[derive(Clone, Copy, Debug, Serialize)]
pub(in crate::serve) enum Access<'a> {
    /// A request for a path of this server.
    #[serde(rename = "nonResourceAttributes")]
    Path {
        /// The path.
        path: &'a str,
        /// The method, in lower case.
        verb: &'a str,
    },
    /// A request of the API server for objects. Whoever may not make it must not learn of them here either.
    #[serde(rename = "resourceAttributes")]
    Resource {
        /// Their namespace; empty for all namespaces.
        #[serde(skip_serializing_if = "str::is_empty")]
        namespace: &'a str,
        /// Such as `list`.
        verb: &'a str,
        /// The API group of the resource; empty for the core group.
        #[serde(skip_serializing_if = "str::is_empty")]
        group: &'a str,
        /// Such as `pods`.
        resource: &'a str,
        /// The name of a single object; empty for all.
        #[serde(skip_serializing_if = "str::is_empty")]
        name: &'a str,
    },
}

impl Access<'_> {
    /// How many bytes a client has chosen.
    fn len(&self) -> usize {
        match self {
            Access::Path { path, verb } => path.len() + verb.len(),
            Access::Resource { namespace, verb, group, resource, name } => {
                namespace.len() + verb.len() + group.len() + resource.len() + name.len()
            }
        }
    }
}

/// `SubjectAccessReview.status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AccessReviewStatus {
    allowed: bool,
    denied: bool,
    reason: String,
}

/// The result of an authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) enum AuthorizationResult {
    /// The request is allowed.
    Allowed,
    /// The request is forbidden, with the reason if known.
    Forbidden(String),
    /// The API server could not decide.
    Unknown(String),
}

/// Authorizes requests.
pub(in crate::serve) struct Authorizer {
    paths: AllowedPaths,
    groups: Vec<String>,
    /// `None` without access to the API server: then everything else is forbidden.
    reviews: Option<Reviews>,
}

struct Reviews {
    reviewer: Reviewer,
    allow_ttl: Duration,
    deny_ttl: Duration,
    answers: AnswerCache<Arc<AuthorizationResult>>,
}

/// Why there is no authorizer.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum AuthorizerError {
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error(transparent)]
    NoChance(#[from] NoChance),
}

impl Authorizer {
    /// Requests for paths that are not open, by users outside the privileged groups, are reviewed
    /// through `client`.
    pub(in crate::serve) fn new(
        client: Option<Client>,
        options: &AuthzOptions,
    ) -> Result<Self, AuthorizerError> {
        let reviews = client.map(|client| {
            Ok::<_, NoChance>(Reviews {
                reviewer: Reviewer::new(client),
                allow_ttl: options.allow_ttl,
                deny_ttl: options.deny_ttl,
                answers: AnswerCache::new(ANSWERS)?,
            })
        });
        Ok(Authorizer {
            paths: AllowedPaths::new(&options.always_allow_paths)?,
            groups: options.always_allow_groups.clone(),
            reviews: reviews.transpose()?,
        })
    }

    /// Whether `user` may do this. As in options/authorization.go, toAuthorizer: groups, then paths, then the API
    /// server.
    pub(in crate::serve) async fn may(
        &self,
        user: &RequestUserInfo,
        access: Access<'_>,
    ) -> AuthorizationResult {
        let is_open = matches!(access, Access::Path { path, .. } if self.paths.has(path));
        if is_open || user.groups.iter().any(|group| self.groups.contains(group)) {
            return AuthorizationResult::Allowed;
        }
        match &self.reviews {
            None => AuthorizationResult::Forbidden(String::new()),
            Some(reviews) => reviews.may(user, access).await,
        }
    }
}

impl Reviews {
    async fn may(&self, user: &RequestUserInfo, access: Access<'_>) -> AuthorizationResult {
        let spec = AccessReviewSpec {
            access,
            user: &user.name,
            groups: &user.groups,
            extra: &user.extra,
            uid: &user.uid,
        };
        let key = match serde_json::to_vec(&spec) {
            Ok(key) => key,
            Err(error) => return AuthorizationResult::Unknown(error.to_string()),
        };
        let review = async || {
            let reviewed = self.reviewer.review::<AccessReviewStatus>(&ACCESS_REVIEW, &spec).await;
            let authorization = reviewed
                .map_or_else(|why| AuthorizationResult::Unknown(why.to_string()), authorization_of);
            let holds = match authorization {
                _ if LONG <= access.len() => Duration::ZERO,
                AuthorizationResult::Allowed => self.allow_ttl,
                AuthorizationResult::Forbidden(_) => self.deny_ttl,
                AuthorizationResult::Unknown(_) => Duration::ZERO,
            };
            (holds, Arc::new(authorization))
        };
        AuthorizationResult::clone(&*self.answers.get(&key, review).await)
    }
}

/// As in webhook.go, Authorize.
fn authorization_of(status: AccessReviewStatus) -> AuthorizationResult {
    match status {
        AccessReviewStatus { denied: true, allowed: true, .. } => AuthorizationResult::Unknown(
            "webhook subject access review returned both allow and deny response".to_owned(),
        ),
        AccessReviewStatus { allowed: true, .. } => AuthorizationResult::Allowed,
        AccessReviewStatus { reason, .. } => AuthorizationResult::Forbidden(reason),
    }
}
