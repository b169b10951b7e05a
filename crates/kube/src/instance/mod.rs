//! Reaches an instance that runs in the cluster, through the API server, with the credentials of the user.
//!
//! [`Instance::find`] looks for the pods of the scheduler and prefers the one that leads. [`Instance::open`] forwards a port
//! of it, as `kubectl port-forward` does, and begins HTTPS inside: the instance gets the token or the certificate of the user,
//! and asks the API server what the user may do.

mod find;
mod session;

pub use self::find::{Instance, Whereabouts};
pub use self::session::{InstanceAnswer, InstanceSession};
use crate::request::GetError;

/// Why an instance cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// No pod of a scheduler runs.
    #[error(
        "no instance runs: of the pods in namespace {namespace} with {wanted}, {found}; name the place with \
         --scheduler-namespace, --scheduler-selector, --service or --scheduler-pod"
    )]
    NoInstance {
        /// The namespace.
        namespace: String,
        /// What was looked for.
        wanted: String,
        /// How many pods there are.
        found: String,
    },
    /// Several schedulers run.
    #[error(
        "several schedulers run in namespace {namespace}: {names}; choose one, such as --scheduler-selector={first}"
    )]
    Several {
        /// The namespace.
        namespace: String,
        /// Their labels.
        names: String,
        /// One of them.
        first: String,
    },
    /// The API server does not do what is needed to find the instance, or to reach it.
    #[error("cannot {doing}: {why}")]
    ApiServer {
        /// What was being done.
        doing: String,
        /// Why it failed.
        why: String,
    },
    /// A right is missing for that.
    #[error("cannot {doing}: {why}; deploy/questions.yaml has a role with what is needed")]
    Forbidden {
        /// What was being done.
        doing: String,
        /// The right, in the words of the API server.
        why: String,
    },
    /// The user of the kubeconfig, or the flags, ask to act as somebody else.
    #[error(
        "cannot act as {0}: the scheduler checks the credentials themselves, and only the API server can act as another \
         user; give a token of the other user (--token=\"$(kubectl create token NAME)\" for a service account)"
    )]
    Impersonation(String),
    /// The connection through the API server broke, or could not be made.
    #[error("cannot reach port {port} of pod {pod}: {why}")]
    Unreachable {
        /// The pod, as `namespace/name`.
        pod: String,
        /// The port.
        port: u16,
        /// Why.
        why: String,
    },
}

impl InstanceError {
    fn of_api_server(doing: &str, error: &GetError) -> Self {
        let doing = doing.to_owned();
        match error.status_error() {
            Some(status) if status.code == 403 => {
                InstanceError::Forbidden { doing, why: status.message.clone() }
            }
            _ => InstanceError::ApiServer { doing, why: error.to_string() },
        }
    }
}
