//! Authentication and authorization of requests.
//!
//! As in kube-scheduler this is delegated to the API server: it authenticates tokens (TokenReview) and
//! authorizes requests (SubjectAccessReview), and its answers are cached.

mod allowed_paths;
mod authenticate;
mod authorize;
mod cache;
mod lookup;
mod proxy;
mod review;
mod token;
mod user;
mod x509;

pub(in crate::serve) use allowed_paths::AllowedPaths;
pub(in crate::serve) use authenticate::Authenticator;
pub(in crate::serve) use authorize::{Access, AuthorizationResult, Authorizer, AuthorizerError};
pub(in crate::serve) use cache::NoChance;
pub(in crate::serve) use lookup::{ClusterAuthorities, Lookup, LookupError};
pub(in crate::serve) use user::RequestUserInfo;
