//! What recorders are shown of attempts, and of how their binding cycles end.

use std::sync::mpsc::{Sender, channel};

use expect_test::{Expect, expect};
use plimsoll_framework::{Time, WaitingDecision};

use super::lab::Lab;
use super::play;
use crate::{Audit, BindingEnd, Decision, Effect, Event, Outcome, Recorder};

/// Notes attempts and ends in its own words.
#[derive(Debug)]
struct Notes(Sender<String>);

impl Notes {
    fn add(&self, now: Time, text: &str) {
        let note = format!("{}s {text}\n", now.millis() / 1000);
        self.0.send(note).expect("the test waits for notes");
    }
}

impl Recorder for Notes {
    fn observed(&mut self, _: Time, _: &Event) {}
    fn decided(&mut self, now: Time, decision: &Decision) {
        let context = decision.context.as_ref().expect("all pods are there");
        let outcome = match &decision.outcome {
            Outcome::Scheduled { node, .. } => format!("-> {node}"),
            Outcome::Unschedulable { message, .. } => {
                format!("!! {message} {:?}", context.rejectors)
            }
            Outcome::Error { message } => format!("error: {message}"),
        };
        let name = &decision.pod.name;
        self.add(now, &format!("[{}] {name} #{} {outcome}", context.sequence, decision.attempt));
    }
    fn binding_ended(&mut self, now: Time, end: &BindingEnd<'_>) {
        let BindingEnd { pod, sequence, attempt, first_ready, error } = *end;
        let how = error.map_or_else(|| "is bound".to_owned(), |error| format!("is not: {error}"));
        let ready = first_ready.map(|ready| format!(", ready at {}s", ready.millis() / 1000));
        let ready = ready.unwrap_or_default();
        self.add(now, &format!("[{sequence}] {} #{attempt} {how}{ready}", pod.name));
    }
    fn stepped(&mut self, _: Time, _: &[Effect], _: &Audit) {}
    fn wound_up(&mut self, _: Time, _: &[Effect]) {}
    fn waiting_pod(&mut self, _: &WaitingDecision) {}
}

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(script: &str, expected: Expect) {
    let mut lab = Lab::default();
    let (to, notes) = channel();
    lab.record_to(Box::new(Notes(to)));
    play(&mut lab, script);
    expected.assert_eq(&notes.try_iter().collect::<String>());
}

#[test]
fn an_end_names_the_attempt_that_it_belongs_to() {
    check(
        "0 node a cpu=2
         0 binds hang
         0 pod p cpu=1
         1 pod q cpu=1
         1 pod r cpu=1
         5 answer q ok
         6 answer p fail
         9 answer r ok",
        expect![[r#"
            0s [1] p #1 -> a
            1s [2] q #1 -> a
            1s [3] r #1 !! 0/1 nodes are available: 1 Insufficient cpu. ["Cpu"]
            5s [2] q #1 is bound, ready at 1s
            6s [1] p #1 is not: running Bind plugin "Binder": refused, ready at 0s
            6s [4] r #2 -> a
            8s [5] p #2 !! 0/1 nodes are available: 1 Insufficient cpu. ["Cpu"]
            9s [4] r #2 is bound, ready at 1s
        "#]],
    );
}

#[test]
fn a_pod_that_is_rejected_once_it_has_a_node_is_shown_as_rejected() {
    check(
        "0 node a cpu=2
         0 pod p hold=HoldB
         1 pod q permit=deny",
        expect![[r#"
            0s [1] p #1 !! 0/1 nodes are available: 1 reservation refused. ["HoldB"]
            1s [2] q #1 !! 0/1 nodes are available: 1 permit denied. ["Group"]
        "#]],
    );
}

#[test]
fn a_binding_cycle_that_ends_before_its_binding_says_why() {
    check(
        "0 node a cpu=9
         0 node b cpu=9
         0 pod late permit=wait
         0 pod gone permit=wait
         0 pod refused permit=wait
         0 pod elsewhere permit=wait
         1 delete pod gone
         2 reject refused Group
         3 pod elsewhere on=b
         30 wait",
        expect![[r#"
            0s [1] late #1 -> a
            0s [2] gone #1 -> a
            0s [3] refused #1 -> a
            0s [4] elsewhere #1 -> a
            1s [2] gone #1 is not: the pod was deleted
            2s [3] refused #1 is not: not today, ready at 0s
            2s [5] refused #2 -> a
            3s [4] elsewhere #1 is not: the pod was bound by something else
            20s [1] late #1 is not: rejected due to timeout after waiting 20s at plugin Group, ready at 0s
            20s [6] late #2 -> a
            22s [5] refused #2 is not: rejected due to timeout after waiting 20s at plugin Group, ready at 0s
            22s [7] refused #3 -> a
        "#]],
    );
}
