//! The metrics of the self-audit.

use plimsoll_engine::PlacedBy;
use plimsoll_framework::Point;
use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};

/// What is checked: the values of the label `check`.
const CHECKS: [&str; 5] = ["node_view", "pending_view", "decision", "sleeping_pod", "node"];

/// The points at which a binding can wait.
const POINTS: [Point; 3] = [Point::Permit, Point::PreBind, Point::Bind];

/// The counters and gauges.
#[derive(Clone, Debug)]
pub(crate) struct SelfAuditMetrics {
    checks: IntCounterVec,
    differences: IntCounterVec,
    /// Pods that slept although they would fit.
    pub(crate) sleeping: IntCounter,
    overdue: IntGaugeVec,
    overcommitted: IntGaugeVec,
}

impl Default for SelfAuditMetrics {
    fn default() -> Self {
        const WELL_FORMED: &str = "name and labels are well-formed";
        let metrics = SelfAuditMetrics {
            checks: IntCounterVec::new(
                Opts::new(
                    "plimsoll_self_audit_checks_total",
                    "Number of checks that this instance has made of its own work, by what was checked.",
                ),
                &["check"],
            )
            .expect(WELL_FORMED),
            differences: IntCounterVec::new(
                Opts::new(
                    "plimsoll_self_audit_differences_total",
                    "Number of differences between objects as the API server has them and as this instance knows them, by kind. Anything but 0 is a defect.",
                ),
                &["kind"],
            )
            .expect(WELL_FORMED),
            sleeping: IntCounter::new(
                "plimsoll_self_audit_sleeping_pods_total",
                "Number of unschedulable pods that no event had woken although they would fit. Unless a recording is written, they were woken.",
            )
            .expect(WELL_FORMED),
            overdue: IntGaugeVec::new(
                Opts::new(
                    "plimsoll_self_audit_overdue_bindings",
                    "Number of pods that have a node but have not been bound for too long, by the extension point at which they wait.",
                ),
                &["extension_point"],
            )
            .expect(WELL_FORMED),
            overcommitted: IntGaugeVec::new(
                Opts::new(
                    "plimsoll_self_audit_overcommitted_nodes",
                    "Number of nodes whose pods request more than the node has, by who must have placed these pods.",
                ),
                &["placed_by"],
            )
            .expect(WELL_FORMED),
        };
        // Every series exists from the start, so that an alert about a change sees the first one.
        for check in CHECKS {
            metrics.checks.with_label_values(&[check]);
        }
        for kind in ["Node", "Pod"] {
            metrics.differences.with_label_values(&[kind]);
        }
        metrics.set_overdue([0; 3]);
        for by in [PlacedBy::AnotherScheduler, PlacedBy::Kubelet, PlacedBy::Profile] {
            metrics.set_overcommitted(by, 0);
        }
        metrics
    }
}

impl SelfAuditMetrics {
    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        registry.register(Box::new(self.checks.clone()))?;
        registry.register(Box::new(self.differences.clone()))?;
        registry.register(Box::new(self.sleeping.clone()))?;
        registry.register(Box::new(self.overdue.clone()))?;
        registry.register(Box::new(self.overcommitted.clone()))
    }

    /// Counts checks of a kind, one of [`CHECKS`].
    pub(super) fn checked(&self, check: &'static str, n: usize) {
        self.checks.with_label_values(&[check]).inc_by(n as u64);
    }

    /// Counts a difference of an object of this kind.
    pub(super) fn differs(&self, kind: &str) {
        self.differences.with_label_values(&[kind]).inc();
    }

    /// How many bindings are overdue at Permit, PreBind and Bind.
    pub(super) fn set_overdue(&self, n: [usize; 3]) {
        for (point, n) in POINTS.iter().zip(n) {
            let gauge = self.overdue.with_label_values(&[point.as_str()]);
            gauge.set(i64::try_from(n).unwrap_or(i64::MAX));
        }
    }

    /// How many nodes are overcommitted because of pods of this origin.
    pub(super) fn set_overcommitted(&self, by: PlacedBy, n: usize) {
        let gauge = self.overcommitted.with_label_values(&[name_of(by)]);
        gauge.set(i64::try_from(n).unwrap_or(i64::MAX));
    }

    #[cfg(test)]
    pub(super) fn overdue(&self) -> [i64; 3] {
        POINTS.map(|point| self.overdue.with_label_values(&[point.as_str()]).get())
    }

    #[cfg(test)]
    pub(super) fn overcommitted(&self, by: PlacedBy) -> i64 {
        self.overcommitted.with_label_values(&[name_of(by)]).get()
    }
}

/// The value of the label `placed_by`.
pub(super) fn name_of(by: PlacedBy) -> &'static str {
    match by {
        PlacedBy::AnotherScheduler => "another_scheduler",
        PlacedBy::Kubelet => "kubelet",
        PlacedBy::Profile => "profile",
    }
}

/// The index of a point at which a binding waits.
pub(super) fn index_of(point: Point) -> usize {
    POINTS.iter().position(|one| *one == point).unwrap_or(0)
}
