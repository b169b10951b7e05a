//! A handle for tests, without a scheduler.

use plimsoll_framework::metrics::Measurement;
use plimsoll_framework::{
    Assume, Assumption, CycleState, EventRecorder, Handle, Metrics, ObjectWrite, PodEvent, Time,
    WaitingDecision, WaitingPod, WaitingPods, Writes,
};

/// The data behind a [`Handle`], for tests of the points from Reserve on: what a plugin is given, and what it did.
#[derive(Debug, Default)]
pub struct HandleParts {
    /// The current time.
    pub now: Time,
    /// What plugins share.
    pub shared: CycleState,
    /// The pods that wait at Permit.
    pub waiting: Vec<WaitingPod>,
    /// The decisions about them.
    pub decisions: Vec<WaitingDecision>,
    /// The assumptions that were made.
    pub assumed: Vec<Assumption>,
    /// The writes that were requested.
    pub written: Vec<ObjectWrite>,
    /// What was measured.
    pub measured: Vec<Measurement>,
    /// The events that were recorded.
    pub events: Vec<PodEvent>,
}

impl HandleParts {
    /// The handle for plugin `plugin`.
    pub fn handle(&mut self, plugin: &'static str) -> Handle<'_> {
        Handle {
            now: self.now,
            shared: &mut self.shared,
            assume: Assume::new(&mut self.assumed),
            waiting: WaitingPods::new(plugin, &self.waiting, &mut self.decisions),
            writes: Writes::new(&mut self.written),
            metrics: Metrics::new(&mut self.measured),
            events: EventRecorder::new(&mut self.events),
        }
    }
}
