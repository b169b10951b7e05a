//! What is served to people and machines: health, metrics, the configuration, and why a pod is where it is.
//!
//! HTTPS as kube-scheduler serves it, on 10259 with given or self-signed certificates, for whoever the API
//! server says may see it. [`Server::bind`] listens, [`Server::serve`] serves until it is told to stop. What
//! is served is asked for through [`Inside`]; [`Desk`] puts the questions to an engine on a thread of its own.
//!
//! | Path | What |
//! |---|---|
//! | `/healthz`, `/livez`, `/readyz` | health, open to everybody; `?verbose`, `?exclude=NAME`, and each check by itself below |
//! | `/metrics`, `/metrics/resources`, `/metrics/slis` | for Prometheus; `DELETE /metrics` begins to count anew |
//! | `/configz` | the configuration in effect |
//! | `/explain?pod=NAMESPACE/NAME` | what would be decided about a pending pod, and why |
//! | `/debug/cache` | nodes, pods and the queue as the engine knows them |
//! | `/debug/flags/v` | `PUT` sets how much is logged, with `enableProfiling` |
//! | `/flagz`, `/statusz` | the flags in effect, and what runs since when: text, or JSON and YAML of `config.k8s.io` |
//!
//! `/debug/pprof` is not served: its profiles are of Go's runtime, which is not here.

mod activity;
mod auth;
mod connection;
mod desk;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gate;
mod guests;
mod health;
mod inside;
mod limits;
mod listen;
mod metrics;
mod negotiate;
mod options;
mod rate;
mod reply;
mod routes;
mod server;
mod site;
#[cfg(test)]
mod tests;
mod tls;
mod told;
mod zpages;

pub use desk::{Desk, Question};
pub use inside::{Explained, Inside, Silent, Soon, VerbosityError};
pub use listen::ListenError;
pub use options::{AuthnOptions, AuthzOptions, OptionError, Options, ProxyOptions, ServingOptions};
pub use server::{Ask, Clients, ServeError, Server};
pub use told::{Build, Check, Checks, Feature, Told};
