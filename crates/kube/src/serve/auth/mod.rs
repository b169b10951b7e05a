//! Who sends a request, and whether they may.
//!
//! As with kube-scheduler the API server has the last word: it says whose a token is (TokenReview) and what
//! they may do (SubjectAccessReview), and its answers hold for a while.

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
pub(in crate::serve) use authorize::{Authorizer, AuthorizerError, Verdict};
pub(in crate::serve) use cache::NoChance;
pub(in crate::serve) use lookup::{Lookup, LookupError};
pub(in crate::serve) use user::User;
