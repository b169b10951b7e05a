//! What the server shows in addition to the answers of the scheduler.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Health checks, additional metrics, and information about the program.
#[derive(Debug, Default)]
pub struct ProcessInfo {
    /// The health checks.
    pub checks: HealthChecks,
    /// Additional metrics, such as those of requests to the API server.
    pub registries: Vec<prometheus::Registry>,
    /// The build, for `kubernetes_build_info` and `/statusz`.
    pub build: Build,
    /// The feature gates, for `kubernetes_feature_enabled`.
    pub features: Vec<Feature>,
    /// The flags in effect with their values, for `/flagz`.
    pub flags: Vec<(String, String)>,
    /// `enableProfiling`: whether `/debug/flags/v` may be set.
    pub profiling: bool,
}

/// The health checks. An endpoint without checks has `ping`, which always succeeds.
#[derive(Debug, Default)]
pub struct HealthChecks {
    /// `/healthz`.
    pub healthz: Vec<HealthCheck>,
    /// `/livez`.
    pub livez: Vec<HealthCheck>,
    /// `/readyz`.
    pub readyz: Vec<HealthCheck>,
}

/// One health check.
#[derive(Clone)]
pub struct HealthCheck {
    pub(super) name: String,
    pub(super) check: CheckFn,
}

/// Why a health check fails.
pub(super) type CheckError = Box<dyn Error + Send + Sync>;

/// Checks quickly whether something is healthy. The error says why not.
pub(super) type CheckFn = Arc<dyn Fn() -> Result<(), CheckError> + Send + Sync>;

impl HealthCheck {
    /// A check of this name. `check` must be fast, since everybody who can reach the port can call it.
    /// Its error is shown only to users who may see this check by itself.
    pub fn new<E: Into<Box<dyn Error + Send + Sync>>>(
        name: impl Into<String>,
        check: impl Fn() -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        HealthCheck { name: name.into(), check: Arc::new(move || check().map_err(Into::into)) }
    }

    /// Why it fails now; `None` if it does not.
    #[cfg(test)]
    pub(crate) fn failure(&self) -> Option<String> {
        (self.check)().err().map(|error| error.to_string())
    }

    /// The check that always succeeds.
    pub(super) fn ping() -> Self {
        HealthCheck::new("ping", || Ok::<_, Infallible>(()))
    }
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

/// Build information.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// Such as `1`.
    pub major: String,
    /// Such as `36`.
    pub minor: String,
    /// Such as `v1.36.2`.
    pub git_version: String,
    /// The release of kube-scheduler whose decisions it makes, such as `1.36`, for `/statusz`.
    pub emulation_version: String,
    /// The commit.
    pub git_commit: String,
    /// `clean` or `dirty`.
    pub git_tree_state: String,
    /// The build time, such as `2026-11-21T20:00:00Z`.
    pub build_date: String,
    /// The version of the language.
    pub go_version: String,
    /// The compiler.
    pub compiler: String,
    /// Such as `linux/amd64`.
    pub platform: String,
}

/// A feature gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: String,
    /// `ALPHA`, `BETA`, `DEPRECATED`, or nothing for one that is stable.
    pub stage: String,
    /// Whether it is on.
    pub enabled: bool,
}
