//! What watches have found, for whoever looks at the page of metrics.

use prometheus::{IntGauge, IntGaugeVec, Opts, Registry};

use plimsoll_api::KindRef;

/// `plimsoll_unreadable_objects`: objects of which a part cannot be read, by kind.
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
    /// Puts them on a page of metrics.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        registry.register(Box::new(self.unreadable.clone()))
    }

    /// How many objects of a kind cannot be read.
    pub(super) fn unreadable(&self, kind: KindRef) -> IntGauge {
        self.unreadable.with_label_values(&[kind.as_str()])
    }
}
