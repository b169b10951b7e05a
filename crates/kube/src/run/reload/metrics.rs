//! The metrics of reloads. The names are those of Prometheus, after the prefix.

use prometheus::{Gauge, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::ReloadOutcome;

/// The values of the label `result`.
const RESULTS: [&str; 3] = ["applied", "checked", "refused"];

/// The gauges and counters.
#[derive(Clone, Debug)]
pub(crate) struct ReloadMetrics {
    successful: IntGauge,
    succeeded_at: Gauge,
    reloads: IntCounterVec,
    info: IntGaugeVec,
    trial: IntGaugeVec,
}

impl ReloadMetrics {
    /// The metrics of an instance that has begun with the configuration of this hash, `now` seconds after 1970.
    pub(crate) fn new(hash: &str, now: f64) -> Self {
        const WELL_FORMED: &str = "name and labels are well-formed";
        let metrics = ReloadMetrics {
            successful: IntGauge::new(
                "plimsoll_config_last_reload_successful",
                "Whether the last new configuration was valid, and is in effect unless it was only to be checked.",
            )
            .expect(WELL_FORMED),
            succeeded_at: Gauge::new(
                "plimsoll_config_last_reload_success_timestamp_seconds",
                "When the configuration in effect was taken in, in seconds since 1970.",
            )
            .expect(WELL_FORMED),
            reloads: IntCounterVec::new(
                Opts::new(
                    "plimsoll_config_reloads_total",
                    "Number of new configurations, by what became of them.",
                ),
                &["result"],
            )
            .expect(WELL_FORMED),
            info: IntGaugeVec::new(
                Opts::new("plimsoll_config_info", "The hash of the configuration in effect."),
                &["hash"],
            )
            .expect(WELL_FORMED),
            trial: IntGaugeVec::new(
                Opts::new(
                    "plimsoll_config_trial_pods",
                    "Number of pods that were decided under the configuration before and under the last new one, by whether they came out the same.",
                ),
                &["outcome"],
            )
            .expect(WELL_FORMED),
        };
        for result in RESULTS {
            metrics.reloads.with_label_values(&[result]);
        }
        metrics.successful.set(1);
        metrics.succeeded_at.set(now);
        metrics.info.with_label_values(&[hash]).set(1);
        metrics.set_trial(&ReloadOutcome::default());
        metrics
    }

    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        registry.register(Box::new(self.successful.clone()))?;
        registry.register(Box::new(self.succeeded_at.clone()))?;
        registry.register(Box::new(self.reloads.clone()))?;
        registry.register(Box::new(self.info.clone()))?;
        registry.register(Box::new(self.trial.clone()))
    }

    /// A configuration was refused.
    pub(super) fn refused(&self) {
        self.successful.set(0);
        self.reloads.with_label_values(&["refused"]).inc();
    }

    /// A configuration was tried, and only that was to be done.
    pub(super) fn checked(&self, outcome: &ReloadOutcome) {
        self.successful.set(1);
        self.set_trial(outcome);
        self.reloads.with_label_values(&["checked"]).inc();
    }

    /// The configuration of this hash is in effect since `now`.
    pub(super) fn applied(&self, outcome: &ReloadOutcome, hash: &str, now: f64) {
        self.successful.set(1);
        self.succeeded_at.set(now);
        self.set_trial(outcome);
        self.reloads.with_label_values(&["applied"]).inc();
        self.info.reset();
        self.info.with_label_values(&[hash]).set(1);
    }

    fn set_trial(&self, outcome: &ReloadOutcome) {
        let set = |label: &str, n: usize| {
            let gauge = self.trial.with_label_values(&[label]);
            gauge.set(i64::try_from(n).unwrap_or(i64::MAX));
        };
        set("different", outcome.different);
        set("same", outcome.tried - outcome.different);
    }
}
