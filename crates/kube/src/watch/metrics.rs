//! The metrics of watches.

use prometheus::{IntGauge, IntGaugeVec, Opts, Registry};

use plimsoll_api::KindRef;

/// `plimsoll_unreadable_objects`: objects that cannot be read completely, by kind.
#[derive(Clone, Debug)]
pub struct WatchMetrics {
    unreadable: IntGaugeVec,
}

impl Default for WatchMetrics {
    fn default() -> Self {
        let unreadable = Opts::new(
            "plimsoll_unreadable_objects",
            "Number of objects that cannot be read, in whole or in part, by kind.",
        );
        WatchMetrics {
            unreadable: IntGaugeVec::new(unreadable, &["kind"])
                .expect("name and labels are well-formed"),
        }
    }
}

impl WatchMetrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        registry.register(Box::new(self.unreadable.clone()))
    }

    /// The number of objects of a kind that cannot be read completely.
    pub(super) fn unreadable(&self, kind: KindRef) -> IntGauge {
        self.unreadable.with_label_values(&[kind.as_str()])
    }
}
