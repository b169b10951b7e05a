//! The HTTPS server: health, metrics, the configuration, and explanations of decisions.
//!
//! It serves HTTPS as kube-scheduler does, on port 10259 with given or self-signed certificates, to
//! users whom the API server authorizes. [`Server::bind`] listens, and [`Server::serve`] serves until
//! it is stopped. The content comes through [`SchedulerView`]; [`EngineHandle`] sends the questions to an engine on
//! its own thread.
//!
//! | Path | What |
//! |---|---|
//! | `/healthz`, `/livez`, `/readyz` | health, open to everybody; `?verbose`, `?exclude=NAME`, and each check by itself below |
//! | `/metrics`, `/metrics/resources`, `/metrics/slis` | for Prometheus; `DELETE /metrics` resets the metrics |
//! | `/configz` | the configuration in effect |
//! | `/explain?pod=NAMESPACE/NAME` | what would be decided about a pending pod, and why |
//! | `/api/v1/why?pod=NAMESPACE/NAME` | the least that would have to change so that a pod fits, or why it is on its node |
//! | `/api/v1/why-group?group=NAMESPACE/NAME` | the same for a group of pods |
//! | `POST /api/v1/what-if`, `/api/v1/capacity` | what would happen if the cluster changed; how many more pods fit |
//! | `POST /api/v1/rebalance` | which pods should move |
//! | `/api/v1/overview`, `nodes`, `node`, `pods`, `pod`, `groups`, `devices`, `config`, `timeline`, `events` | what the page shows |
//! | `/api/v1/openapi.json` | the description of `/api/v1` |
//! | `/ui/` | the page |
//! | `/debug/cache` | nodes, pods and the queue as the engine knows them |
//! | `/debug/flags/v` | `PUT` sets the log level, with `enableProfiling` |
//! | `/flagz`, `/statusz` | the flags in effect, and what runs since when: text, or JSON and YAML of `config.k8s.io` |
//!
//! `/debug/pprof` is not served, since its profiles are those of Go's runtime.

mod activity;
mod advisor;
mod api;
mod auth;
mod capacity_question;
mod connection;
mod connections;
mod engine_handle;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gate;
mod health;
mod limits;
mod listen;
mod metrics;
mod negotiate;
mod options;
mod process_info;
mod query;
mod rate;
mod reply;
mod routes;
mod scheduler_view;
mod server;
mod server_state;
#[cfg(test)]
mod tests;
mod tls;
mod ui;
mod zpages;

pub use advisor::{AdviceError, Advisor, ManifestSource, WhyGroupQuestion, WhyQuestion};
pub use api::OPENAPI;
pub use capacity_question::{CapacityQuestion, CapacityRequest, CapacitySubject};
pub(crate) use engine_handle::SnapshotQueries;
pub use engine_handle::{EngineHandle, EngineQuery};
pub use listen::ListenError;
pub use options::{AuthnOptions, AuthzOptions, OptionError, Options, ProxyOptions, ServingOptions};
pub use process_info::{Build, Feature, HealthCheck, HealthChecks, ProcessInfo};
pub use scheduler_view::{
    Explained, ManifestError, SchedulerView, Soon, Unresponsive, VerbosityError,
};
pub use server::{Clients, ServeError, Server, ServerSources};
