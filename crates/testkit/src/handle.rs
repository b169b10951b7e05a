//! A handle without a scheduler.

use plimsoll_framework::metrics::Measurement;
use plimsoll_framework::{
    Assume, Assumption, CycleState, Handle, Metrics, ObjectWrite, Time, WaitingDecision,
    WaitingPod, WaitingPods, Writes,
};

/// What a plugin gets a [`Handle`] to, and what it does with it: for tests of the points from Reserve on.
#[derive(Debug, Default)]
pub struct HandleParts {
    /// Now.
    pub now: Time,
    /// What plugins tell each other.
    pub shared: CycleState,
    /// The pods that wait at Permit.
    pub waiting: Vec<WaitingPod>,
    /// What was decided about them.
    pub decisions: Vec<WaitingDecision>,
    /// What is taken to be so.
    pub assumed: Vec<Assumption>,
    /// What is to be written.
    pub written: Vec<ObjectWrite>,
    /// What was measured.
    pub measured: Vec<Measurement>,
}

impl HandleParts {
    /// The handle of plugin `plugin`.
    pub fn handle(&mut self, plugin: &'static str) -> Handle<'_> {
        Handle {
            now: self.now,
            shared: &mut self.shared,
            assume: Assume::new(&mut self.assumed),
            waiting: WaitingPods::new(plugin, &self.waiting, &mut self.decisions),
            writes: Writes::new(&mut self.written),
            metrics: Metrics::new(&mut self.measured),
        }
    }
}
