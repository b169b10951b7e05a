//! The handle of a plugin, and what the plugin does with it.

use plimsoll_framework::metrics::Measurement;
use plimsoll_framework::{
    Assume, Assumption, CycleState, EventRecorder, Handle, Metrics, ObjectWrite, PodEvent, Time,
    WaitingDecision, WaitingPod, WaitingPods, Writes,
};

/// What a plugin did with its handle, beside its decisions about waiting pods.
#[derive(Debug, Default)]
pub(crate) struct HandleOutput {
    pub(crate) assumed: Vec<Assumption>,
    pub(crate) written: Vec<ObjectWrite>,
    pub(crate) measured: Vec<Measurement>,
    pub(crate) events: Vec<PodEvent>,
}

impl HandleOutput {
    /// The handle of `plugin`. What it decides about the `waiting` pods is added to `decisions`.
    pub(crate) fn handle<'a>(
        &'a mut self,
        plugin: &'static str,
        now: Time,
        shared: &'a mut CycleState,
        waiting: &'a [WaitingPod],
        decisions: &'a mut Vec<WaitingDecision>,
    ) -> Handle<'a> {
        Handle {
            now,
            shared,
            assume: Assume::new(&mut self.assumed),
            waiting: WaitingPods::new(plugin, waiting, decisions),
            writes: Writes::new(&mut self.written),
            metrics: Metrics::new(&mut self.measured),
            events: EventRecorder::new(&mut self.events),
        }
    }
}
