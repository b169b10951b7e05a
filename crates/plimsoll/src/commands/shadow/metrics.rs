//! The metrics of a shadow: how the comparison goes.

use anyhow::Result;
use plimsoll_framework::Time;
use plimsoll_shadow::{Agreement, Shadow};
use prometheus::{Gauge, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// What is compared, as it was counted by the shadow so far.
pub(super) struct ShadowMetrics {
    comparisons: IntCounterVec,
    disagreements: IntCounter,
    not_seen_pending: IntCounter,
    waiting_events: IntGauge,
    lag: Gauge,
}

/// The values of the label `verdict`, with their counts.
fn verdicts(counts: &Agreement) -> [(&'static str, u64); 8] {
    [
        ("same", counts.same),
        ("tie", counts.tie),
        ("worse", counts.worse),
        ("infeasible", counts.infeasible),
        ("unschedulable", counts.unschedulable),
        ("unjudged", counts.unjudged),
        ("both_pending", counts.both_pending),
        ("pending_although_fits", counts.pending_although_fits),
    ]
}

impl ShadowMetrics {
    /// The metrics of a shadow that judges by the configurations with these names.
    pub(super) fn new<'a>(configurations: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let comparisons = IntCounterVec::new(
            Opts::new(
                "plimsoll_shadow_comparisons_total",
                "Number of times that the other scheduler bound a pod, or found no node for one, and that was compared with what a configuration decides, by the outcome.",
            ),
            &["configuration", "verdict"],
        )?;
        // Every series exists from the start, so that an alert about a change sees the first one.
        for configuration in configurations {
            for (verdict, _) in verdicts(&Agreement::default()) {
                comparisons.with_label_values(&[configuration, verdict]);
            }
        }
        Ok(ShadowMetrics {
            comparisons,
            disagreements: IntCounter::new(
                "plimsoll_shadow_disagreements_total",
                "Number of disagreements with the other scheduler, of all configurations.",
            )?,
            not_seen_pending: IntCounter::new(
                "plimsoll_shadow_pods_not_seen_pending_total",
                "Number of pods that were not compared, since they were first seen on a node.",
            )?,
            waiting_events: IntGauge::new(
                "plimsoll_shadow_waiting_events",
                "Number of events of the cluster that wait to be processed. Each waits for the window at least.",
            )?,
            lag: Gauge::new(
                "plimsoll_shadow_lag_seconds",
                "How long the next event of the cluster has waited to be processed, after its window.",
            )?,
        })
    }

    /// A registry with the metrics.
    pub(super) fn registry(&self) -> Result<Registry> {
        let registry = Registry::new();
        registry.register(Box::new(self.comparisons.clone()))?;
        registry.register(Box::new(self.disagreements.clone()))?;
        registry.register(Box::new(self.not_seen_pending.clone()))?;
        registry.register(Box::new(self.waiting_events.clone()))?;
        registry.register(Box::new(self.lag.clone()))?;
        Ok(registry)
    }

    /// Takes over what the shadow has counted.
    pub(super) fn update(&self, shadow: &Shadow, now: Time) {
        for (configuration, counts) in shadow.agreements() {
            for (verdict, count) in verdicts(counts) {
                raise(&self.comparisons.with_label_values(&[configuration, verdict]), count);
            }
        }
        raise(&self.disagreements, shadow.disagreements());
        raise(&self.not_seen_pending, shadow.not_seen_pending());
        let waiting = shadow.waiting_events();
        self.waiting_events.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.lag.set(shadow.lag(now).as_secs_f64());
    }
}

/// Raises a counter to a count that only grows.
fn raise(counter: &IntCounter, count: u64) {
    counter.inc_by(count.saturating_sub(counter.get()));
}
