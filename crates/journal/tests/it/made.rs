//! Decisions for tests.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use plimsoll_api::{Pod, PodKey, Str};
use plimsoll_engine::{
    AttemptContext, BindingEnd, Decision, GroupDecision, GroupResult, MemberDecision, MemberResult,
    NodeDecision, NodeVerdict, Outcome, Recorder as _, RejectionCount,
};
use plimsoll_framework::{Code, Nomination, Time};
use plimsoll_journal::{Journal, JournalRecorder, Retention, WhenFull};

/// Something that a scheduler does.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Attempt(i64, Box<Decision>),
    /// The last attempt of a pod of this name ends so.
    Bound(i64, String, Option<String>),
    Group(i64, Box<GroupDecision>),
}

/// Shows a journal what it does.
pub(crate) struct Scheduler {
    recorder: JournalRecorder,
    /// The sequence of the last attempt.
    last: u64,
    /// The last attempts by the names of their pods.
    tried: HashMap<Str, Decision>,
}

/// Begins a journal.
pub(crate) fn begin(path: &Path, retention: Retention, full: WhenFull) -> (Journal, Scheduler) {
    let begun = Journal::begin(path, retention, full, |_| ());
    let (journal, recorder) = begun.expect("it can be written");
    (journal, Scheduler { recorder, last: 0, tried: HashMap::new() })
}

impl Scheduler {
    pub(crate) fn does(&mut self, entry: Entry) {
        match entry {
            Entry::Attempt(now, mut decision) => {
                self.last += 1;
                let context = decision.context.as_mut().expect("it was an attempt");
                context.sequence = self.last;
                self.recorder.decided(at(now), &decision);
                self.tried.insert(decision.pod.name.clone(), *decision);
            }
            Entry::Bound(now, name, error) => {
                let Decision { pod, attempt, context, .. } = &self.tried[name.as_str()];
                let context = context.as_ref().expect("it was an attempt");
                let (sequence, first_ready) = (context.sequence, context.first_ready);
                let (error, attempt) = (error.as_deref(), *attempt);
                let end = BindingEnd { pod, sequence, attempt, first_ready, error };
                self.recorder.binding_ended(at(now), &end);
            }
            Entry::Group(now, decision) => self.recorder.decided_group(at(now), &decision),
        }
    }

    pub(crate) fn flush(&mut self) {
        self.recorder.flush();
    }

    pub(crate) fn lost(&self) -> u64 {
        self.recorder.lost()
    }
}

pub(crate) fn key(name: &str) -> PodKey {
    PodKey::new("shop", name)
}

pub(crate) fn pod(name: &str, uid: &str) -> Arc<Pod> {
    let mut pod = Pod { key: key(name), uid: uid.into(), ..Pod::default() };
    pod.scheduler_name = "default-scheduler".into();
    Arc::new(pod)
}

pub(crate) fn at(millis: i64) -> Time {
    Time::from_millis(millis)
}

/// A decision about a pod that was queued a second before.
pub(crate) fn decision(name: &str, number: u32, now: i64, outcome: Outcome) -> Decision {
    let rejectors = match &outcome {
        Outcome::Unschedulable { .. } => vec!["NodeResourcesFit"],
        _ => Vec::new(),
    };
    let rejections = rejectors.iter().map(|&plugin| RejectionCount {
        plugin,
        reason: plimsoll_framework::Reason::Insufficient("cpu".into()),
        nodes: 3,
    });
    let is_placed = matches!(outcome, Outcome::Scheduled { .. });
    let context = AttemptContext {
        sequence: 0,
        pod: pod(name, &format!("uid-{name}")),
        fingerprint: 0,
        woken_by: "PodAdd".into(),
        queued: at(now - 1000),
        first_ready: Some(at(now - 1000)),
        judged: 3,
        rejections: rejections.collect(),
        rejectors,
        feasible: is_placed.then_some(2),
        margin: is_placed.then_some(1),
        best: None,
    };
    Decision { context: Some(context), ..Decision::of_pod(key(name), number, outcome) }
}

pub(crate) fn scheduled(node: &str) -> Outcome {
    Outcome::Scheduled { node: node.into(), best: vec![node.into()] }
}

pub(crate) fn unschedulable(message: &str, victims: &[&str]) -> Outcome {
    let nomination = (!victims.is_empty()).then(|| Nomination {
        node: "n1".into(),
        victims: victims.iter().map(|name| key(name)).collect(),
        broken_budgets: 0,
        says: plimsoll_framework::Reason::Text(""),
    });
    Outcome::Unschedulable { message: message.to_owned(), pre_filter: None, nomination }
}

pub(crate) fn entry(now: i64, decision: &Decision) -> Entry {
    Entry::Attempt(now, Box::new(decision.clone()))
}

/// A group of which the first member has a node, and the second one has not.
pub(crate) fn group(number: u32, result: GroupResult, victims: &[&str]) -> GroupDecision {
    let nodes = Vec::new();
    let placed = MemberResult::Scheduled { node: "n1".into(), best: vec!["n1".into()] };
    let left = MemberResult::Unschedulable { message: "no room".to_owned(), nominated: None };
    GroupDecision {
        group: key("train"),
        is_composite: false,
        attempt: number,
        result,
        message: (result != GroupResult::Scheduled)
            .then(|| "minCount (2) cannot be met".to_owned()),
        placement: Some("rack-1".into()),
        placements: Vec::new(),
        pods: vec![
            MemberDecision { pod: key("train-0"), result: placed, nodes: nodes.clone() },
            MemberDecision { pod: key("train-1"), result: left, nodes },
        ],
        victims: victims.iter().map(|name| key(name)).collect(),
        broken_budgets: None,
        condition: None,
        groups: Vec::new(),
    }
}

pub(crate) fn group_entry(now: i64, decision: &GroupDecision) -> Entry {
    Entry::Group(now, Box::new(decision.clone()))
}

pub(crate) fn bound(now: i64, name: &str, error: Option<&str>) -> Entry {
    Entry::Bound(now, name.to_owned(), error.map(str::to_owned))
}

/// Two feasible nodes with scores, and one that is rejected.
pub(crate) fn nodes() -> Vec<NodeDecision> {
    let scored = |total| NodeVerdict::Scored { scores: vec![("Fit".into(), total)], total };
    let rejected = NodeVerdict::Rejected {
        plugin: "TaintToleration".into(),
        code: Code::Unschedulable,
        reasons: vec![plimsoll_framework::Reason::Text("node(s) had untolerated taint(s)")],
    };
    let node = |name: &str, verdict| NodeDecision { name: name.into(), verdict };
    vec![node("n1", scored(80)), node("n2", scored(95)), node("n3", rejected)]
}
