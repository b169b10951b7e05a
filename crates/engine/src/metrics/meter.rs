//! Measures durations, if there is a stopwatch.

use std::time::Duration;

use plimsoll_framework::Code;

use super::Stopwatch;

/// A stopwatch that may be missing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch(Option<Stopwatch>);

/// A start time; empty without a stopwatch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lap(Option<Duration>);

impl Watch {
    pub(crate) fn new(stopwatch: Option<Stopwatch>) -> Self {
        Watch(stopwatch)
    }

    /// Reads the stopwatch.
    pub(crate) fn start(self) -> Lap {
        Lap(self.0.map(|read| read()))
    }

    /// The duration since `lap`.
    pub(crate) fn since(self, lap: Lap) -> Option<Duration> {
        self.start().after(lap)
    }
}

impl Lap {
    /// Whether there is a stopwatch.
    pub(crate) fn is_measured(self) -> bool {
        self.0.is_some()
    }

    /// The duration since `earlier`.
    pub(crate) fn after(self, earlier: Lap) -> Option<Duration> {
        Some(self.0?.saturating_sub(earlier.0?))
    }
}

/// The extension points of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MeteredPoint {
    PreEnqueue,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Unreserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
}

impl MeteredPoint {
    /// How many there are.
    pub(crate) const COUNT: usize = MeteredPoint::PostBind as usize + 1;

    /// All of them, in their order.
    pub(crate) const ALL: [MeteredPoint; MeteredPoint::COUNT] = [
        MeteredPoint::PreEnqueue,
        MeteredPoint::PreFilter,
        MeteredPoint::Filter,
        MeteredPoint::PostFilter,
        MeteredPoint::PreScore,
        MeteredPoint::Score,
        MeteredPoint::Reserve,
        MeteredPoint::Unreserve,
        MeteredPoint::Permit,
        MeteredPoint::PreBind,
        MeteredPoint::Bind,
        MeteredPoint::PostBind,
    ];

    /// The value of the label `extension_point`. As in scheduler/metrics/metrics.go.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            MeteredPoint::PreEnqueue => "PreEnqueue",
            MeteredPoint::PreFilter => "PreFilter",
            MeteredPoint::Filter => "Filter",
            MeteredPoint::PostFilter => "PostFilter",
            MeteredPoint::PreScore => "PreScore",
            MeteredPoint::Score => "Score",
            MeteredPoint::Reserve => "Reserve",
            MeteredPoint::Unreserve => "Unreserve",
            MeteredPoint::Permit => "Permit",
            MeteredPoint::PreBind => "PreBind",
            MeteredPoint::Bind => "Bind",
            MeteredPoint::PostBind => "PostBind",
        }
    }
}

/// The status of an extension point in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    Success,
    Error,
    Unschedulable,
    Unresolvable,
    Wait,
    Pending,
}

impl Status {
    /// How many there are.
    pub(crate) const COUNT: usize = Status::Pending as usize + 1;

    /// All of them, in their order.
    pub(crate) const ALL: [Status; Status::COUNT] = [
        Status::Success,
        Status::Error,
        Status::Unschedulable,
        Status::Unresolvable,
        Status::Wait,
        Status::Pending,
    ];

    /// The value of the label `status`. As in Code.String of kube-scheduler/framework/interface.go.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Status::Success => "Success",
            Status::Error => "Error",
            Status::Unschedulable => "Unschedulable",
            Status::Unresolvable => "UnschedulableAndUnresolvable",
            Status::Wait => "Wait",
            Status::Pending => "Pending",
        }
    }
}

impl From<Code> for Status {
    fn from(code: Code) -> Self {
        match code {
            Code::Unschedulable => Status::Unschedulable,
            Code::UnschedulableAndUnresolvable => Status::Unresolvable,
            Code::Pending => Status::Pending,
            Code::Error => Status::Error,
        }
    }
}

/// The measurements of one scheduling cycle from scratch. Without a stopwatch it takes no memory and
/// does nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct CycleMeter(Option<Box<Readings>>);

/// The measurements.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings {
    watch: Watch,
    /// Whether single plugins are measured.
    samples: bool,
    pub(super) stages: Vec<(MeteredPoint, Status, Duration)>,
    /// The PreScore time of all plugins so far.
    pre_scored: Duration,
    /// The time of each of several equal runs.
    pub(super) plugins: Vec<(&'static str, MeteredPoint, Status, Duration, u32)>,
    pub(super) evaluations: Vec<(&'static str, MeteredPoint, u32)>,
}

impl CycleMeter {
    /// Measures extension points, and single plugins if `samples`.
    pub(crate) fn new(watch: Watch, samples: bool) -> Self {
        let readings = || Box::new(Readings { watch, samples, ..Readings::default() });
        CycleMeter(watch.0.map(|_| readings()))
    }

    /// Whether anything is measured.
    pub(crate) fn measures(&self) -> bool {
        self.0.is_some()
    }

    /// Starts an extension point.
    pub(crate) fn start(&self) -> Lap {
        self.0.as_ref().map_or_else(Lap::default, |readings| readings.watch.start())
    }

    /// Starts a plugin. The stopwatch is always read, so that its provider sees that a long decision
    /// makes progress.
    pub(crate) fn start_plugin(&self) -> Lap {
        let Some(readings) = &self.0 else { return Lap::default() };
        let lap = readings.watch.start();
        if readings.samples { lap } else { Lap::default() }
    }

    /// Records an extension point.
    pub(crate) fn stage(&mut self, stage: MeteredPoint, status: Status, lap: Lap) {
        let Some(readings) = &mut self.0 else { return };
        if let Some(span) = readings.watch.since(lap) {
            readings.stages.push((stage, status, span));
        }
    }

    /// Records that a plugin has scored `n_nodes`. It began at `began`, and its PreScore ended at
    /// `prepared`, if it is enabled there.
    pub(crate) fn scored(
        &mut self,
        plugin: &'static str,
        (began, prepared): (Lap, Lap),
        n_nodes: usize,
    ) {
        let Some(readings) = &mut self.0 else { return };
        let pre_score = prepared.after(began);
        readings.pre_scored += pre_score.unwrap_or_default();
        if !readings.samples {
            return;
        }
        if let Some(span) = pre_score {
            readings.plugins.push((plugin, MeteredPoint::PreScore, Status::Success, span, 1));
        }
        let began = if pre_score.is_some() { prepared } else { began };
        self.plugin(plugin, MeteredPoint::Score, Status::Success, began, n_nodes);
    }

    /// Records PreScore and Score, which began at `lap`.
    pub(crate) fn all_scored(&mut self, status: Status, lap: Lap) {
        let Some(readings) = &mut self.0 else { return };
        if let Some(span) = readings.watch.since(lap) {
            let pre_scored = readings.pre_scored.min(span);
            readings.stages.push((MeteredPoint::PreScore, Status::Success, pre_scored));
            readings.stages.push((MeteredPoint::Score, status, span.saturating_sub(pre_scored)));
        }
    }

    /// Records a plugin that ran this many `times` in one call: each run gets an equal share of the
    /// time.
    pub(crate) fn plugin(
        &mut self,
        plugin: &'static str,
        stage: MeteredPoint,
        status: Status,
        lap: Lap,
        times: usize,
    ) {
        let Some(readings) = &mut self.0 else { return };
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        if let Some(span) = readings.watch.since(lap).filter(|_| 0 < times) {
            readings.plugins.push((plugin, stage, status, span / times, times));
        }
    }

    /// Counts this many calls of a plugin.
    pub(crate) fn evaluated(&mut self, plugin: &'static str, stage: MeteredPoint, times: usize) {
        let Some(readings) = &mut self.0 else { return };
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        if 0 < times {
            readings.evaluations.push((plugin, stage, times));
        }
    }

    /// Takes the measurements.
    pub(super) fn readings(&mut self) -> Option<Box<Readings>> {
        self.0.take()
    }
}
