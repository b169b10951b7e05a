//! Events that plugins record about pods.

/// Whether an event is news or a problem (`type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodEventKind {
    /// It is as it should be.
    Normal,
    /// Somebody may have to act.
    Warning,
}

/// An event about the pod, such as `kubectl describe pod` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// Whether it is news or a problem.
    pub kind: PodEventKind,
    /// Why, in one word for programs, such as `BindingConditionsPending`.
    pub reason: &'static str,
    /// What was being done, such as `Scheduling`.
    pub action: &'static str,
    /// The text for people. More than 1024 bytes are cut.
    pub note: String,
}

/// With this a plugin records events about the pod (`EventRecorder` in kube-scheduler). They are recorded even if the call
/// fails.
#[derive(Debug)]
pub struct EventRecorder<'a>(&'a mut Vec<PodEvent>);

impl<'a> EventRecorder<'a> {
    /// Events are added to `recorded`, in order.
    pub fn new(recorded: &'a mut Vec<PodEvent>) -> Self {
        EventRecorder(recorded)
    }

    /// Records an event. A reason and an action are words like `Scheduling`, at most 128 bytes long.
    pub fn record(
        &mut self,
        kind: PodEventKind,
        reason: &'static str,
        action: &'static str,
        note: impl Into<String>,
    ) {
        self.0.push(PodEvent { kind, reason, action, note: note.into() });
    }
}
