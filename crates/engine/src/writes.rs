//! The writes of plugins: those that were requested, those whose answers are awaited, and what plugins make of the
//! answers once no binding cycle waits for them.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use plimsoll_framework::points::PostFilterPoint;
use plimsoll_framework::{
    Assumption, CycleState, NodeRejection, ObjectWrite, Placement, PodInfo, Point, Time,
    WriteCause, WriteError,
};
use rustc_hash::FxBuildHasher;

use crate::cycle::AttemptFailure;
use crate::effect::{Effect, EffectId, EventRecord, Write};
use crate::handle_output::HandleOutput;
use crate::queue::{Audience, Surroundings};
use crate::scheduler::Scheduler;

/// A write that a plugin has requested.
#[derive(Clone, Debug)]
pub(crate) struct RequestedWrite {
    pub(crate) plugin: &'static str,
    /// The extension point at which it was requested.
    pub(crate) point: Point,
    /// The pod for which it is requested, on its node.
    pub(crate) pod: PodInfo,
    pub(crate) write: ObjectWrite,
    /// The number of attempts in a row, this one included.
    pub(crate) tries: u32,
}

/// A plugin may answer a failed write with another one this many times in a row. Beyond that, a write that always fails
/// would only keep the API server busy.
const MOST_TRIES: u32 = 8;

impl RequestedWrite {
    /// Another write, because this one failed.
    pub(crate) fn again(&self, write: ObjectWrite) -> Self {
        RequestedWrite { write, tries: self.tries + 1, ..self.clone() }
    }

    /// Whether the plugin may write again if this one fails.
    pub(crate) fn may_be_tried_again(&self) -> bool {
        self.tries < MOST_TRIES
    }
}

/// The writes of plugins whose answers are awaited.
#[derive(Debug, Default)]
pub(crate) struct SentWrites {
    sent: HashMap<EffectId, (RequestedWrite, Time), FxBuildHasher>,
    deadlines: BTreeSet<(Time, EffectId)>,
}

impl SentWrites {
    /// Adds a write that was sent. Its answer is awaited until `deadline`.
    pub(crate) fn add(&mut self, effect: EffectId, said: RequestedWrite, deadline: Time) {
        self.sent.insert(effect, (said, deadline));
        self.deadlines.insert((deadline, effect));
    }

    /// Removes a write that was answered, or that timed out.
    pub(crate) fn take(&mut self, effect: EffectId) -> Option<RequestedWrite> {
        let (said, deadline) = self.sent.remove(&effect)?;
        self.deadlines.remove(&(deadline, effect));
        Some(said)
    }

    /// The writes that have timed out.
    pub(crate) fn overdue(&self, now: Time) -> Vec<EffectId> {
        let due = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now);
        due.map(|(_, effect)| *effect).collect()
    }

    /// Whether no answer is awaited.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// When the next write times out.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

impl Scheduler {
    /// Tells the PostFilter plugins that want to know how the attempt ended, and sends what they write.
    pub(crate) fn tell_after_post_filter(
        &mut self,
        now: Time,
        pod: &PodInfo,
        failure: &AttemptFailure,
        (rejected, shared): (&[NodeRejection], &mut CycleState),
        effects: &mut Vec<Effect>,
    ) {
        let profile = self.profiles.get(&pod.scheduler_name).expect("it was just used");
        let mut was_asked = true;
        for (plugin, _) in profile.at(Point::PostFilter) {
            let is_asked = was_asked;
            was_asked &= plugin.name != failure.post_filter_ended_by;
            let is_told =
                |it: &&PostFilterPoint| it.is_told() && (is_asked || !it.is_told_only_if_asked());
            let Some(point) = plugin.points.post_filter.as_ref().filter(is_told) else { continue };
            let mut output = HandleOutput::default();
            let (waiting, decisions) = (self.waiting.pods(), &mut self.waiting_decisions);
            let mut handle = output.handle(plugin.name, now, &mut *shared, waiting, decisions);
            let nomination = failure.nomination.as_ref();
            point.after_post_filter(pod, nomination, rejected, &self.cache.view(), &mut handle);
            self.plugin_metrics.record(output.measured);
            self.said_events.extend(output.events.into_iter().map(|event| (pod.clone(), event)));
            self.cache.assume_objects(output.assumed);
            self.said_writes.extend(requested(plugin.name, pod, output.written));
        }
        self.send_writes(now, effects);
    }

    /// Lets the plugins do something for a group that does not fit, and says what. Each is asked for the members that it has
    /// rejected, `unfit` with their rejectors, until it does something for one. Without `effects` they are only asked.
    pub(crate) fn remedy_for_group(
        &mut self,
        now: Time,
        unfit: &[(&PodInfo, &BTreeSet<&'static str>)],
        effects: Option<&mut Vec<Effect>>,
    ) -> Vec<String> {
        let Some((first, _)) = unfit.first() else { return Vec::new() };
        let profile = self.profiles.get(&first.scheduler_name).expect("it was just used");
        let plugins = profile.at(Point::PostFilter);
        let plugins: Vec<_> = plugins
            .filter_map(|(plugin, _)| Some((plugin.name, plugin.points.group_remedy.clone()?)))
            .collect();
        let mut said = Vec::new();
        for (name, point) in plugins {
            let is_its = |(_, rejectors): &&(&PodInfo, &BTreeSet<_>)| rejectors.contains(name);
            for (member, _) in unfit.iter().filter(is_its) {
                let (mut output, mut shared) = (HandleOutput::default(), CycleState::new());
                let (waiting, decisions) = (self.waiting.pods(), &mut self.waiting_decisions);
                let mut handle = output.handle(name, now, &mut shared, waiting, decisions);
                let handle = effects.is_some().then_some(&mut handle);
                let reason = point.group_remedy(member, &self.cache.view(), handle);
                if let Some(reason) = reason {
                    self.plugin_metrics.record(output.measured);
                    let events = output.events.into_iter();
                    self.said_events.extend(events.map(|event| ((*member).clone(), event)));
                    self.cache.assume_objects(output.assumed);
                    self.said_writes.extend(requested(name, member, output.written));
                    said.push(reason.to_string());
                    break;
                }
            }
        }
        if let Some(effects) = effects {
            self.send_writes(now, effects);
        }
        said
    }

    /// Sends the requested writes that no binding cycle waits for.
    pub(crate) fn send_writes(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.said_writes.is_empty() {
            return;
        }
        for said in std::mem::take(&mut self.said_writes) {
            let id = self.write(&said.pod, Write::Object(said.write.clone()), effects);
            self.sent_writes.add(id, said, now + self.options.write_timeout);
        }
    }

    /// Writes the events that plugins have recorded.
    pub(crate) fn write_events(&mut self, effects: &mut Vec<Effect>) {
        for (pod, event) in std::mem::take(&mut self.said_events) {
            self.write(&pod, Write::Record(EventRecord::of_plugin(event)), effects);
        }
    }

    /// A write of a plugin was answered that no binding cycle waits for.
    pub(crate) fn object_answered(
        &mut self,
        now: Time,
        said: &RequestedWrite,
        answer: Result<(), WriteError>,
        effects: &mut Vec<Effect>,
    ) {
        let profile = self.profiles.get(&said.pod.scheduler_name);
        let plugin = profile.and_then(|profile| profile.named(said.plugin));
        let asked = plugin.and_then(|plugin| plugin.points.answered.as_ref());
        // It would be refused again.
        let is_refused = answer.as_ref().is_err_and(|error| error.cause == WriteCause::Refused);
        let failed = match asked.filter(|_| answer.is_ok() || said.may_be_tried_again()) {
            None => answer.err().map(|error| error.message),
            Some(point) => {
                let (mut output, mut shared) = (HandleOutput::default(), CycleState::new());
                let waiting = self.waiting.pods();
                let decisions = &mut self.waiting_decisions;
                let mut handle = output.handle(said.plugin, now, &mut shared, waiting, decisions);
                let (pod, view, write) = (&said.pod, self.cache.view(), &said.write);
                let outcome = match pod.node() {
                    Some(node) => {
                        let at = Placement { pod, node, row: self.cache.row(node), view };
                        point.answered(write, &answer, &at, &mut handle)
                    }
                    None => point.answered_without_node(write, &answer, pod, &view, &mut handle),
                };
                self.plugin_metrics.record(output.measured);
                let events = output.events.into_iter().map(|event| (said.pod.clone(), event));
                self.said_events.extend(events);
                if outcome.is_ok() {
                    self.said_writes
                        .extend(output.written.into_iter().map(|write| said.again(write)));
                    let is_dropped = |one: &Assumption| matches!(one, Assumption::AsSeen(..));
                    let frees = output.assumed.iter().any(is_dropped);
                    self.cache.assume_objects(output.assumed);
                    if frees {
                        // What was kept for the pod after it was given up is free now.
                        self.freed(now, &said.pod, Audience::All);
                    }
                }
                outcome.err().map(|why| why.to_string())
            }
        };
        let is_remedy = said.point == Point::PostFilter;
        if let Some(why) = failed {
            self.write(&said.pod, Write::Record(EventRecord::unwritten(said, &why)), effects);
            let is_known = self.names.find(&said.pod.key).is_some();
            if is_remedy && is_known && !is_refused {
                self.unhelped.begin(now, said.pod.key.clone());
            }
        } else if is_remedy && self.said_writes.is_empty() {
            self.unhelped.forget(&said.pod.key);
        }
        self.send_writes(now, effects);
    }

    /// Retries pods for which a write of PostFilter has failed, after a pause: no change of the cluster tells that nothing has
    /// helped them. Without a pause an idle scheduler would try them, and send the write, again and again.
    pub(crate) fn retry_unhelped(&mut self, now: Time) {
        for pod in self.unhelped.over(now) {
            if let Some(id) = self.names.find(&pod) {
                let with = Surroundings { profiles: &self.profiles, cache: &self.cache };
                self.queue.retry(now, id, with);
            }
        }
    }
}

/// The writes of a plugin at PostFilter.
fn requested<'a>(
    plugin: &'static str,
    pod: &'a PodInfo,
    written: Vec<ObjectWrite>,
) -> impl Iterator<Item = RequestedWrite> + 'a {
    let point = Point::PostFilter;
    let requested =
        move |write| RequestedWrite { plugin, point, pod: pod.clone(), write, tries: 1 };
    written.into_iter().map(requested)
}
