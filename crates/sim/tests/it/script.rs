//! Simulations written as scripts: events with their times, and the expected results.
//!
//! A line is a time in seconds and an event: a statement of a scenario, or one of
//!
//! ```text
//! 5 delete pod p            5 delete node a
//! 5 bind works              5 bind refused|lost|unanswered, or late 20
//! 5 grace 30                how long victims take to go
//! 5 storage 1 30            how long binding and provisioning take
//! 5 wait
//! ```
//!
//! The other verbs of faults are `patch`, `evict`, `provision` and `terminate`.

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::Expect;
use plimsoll_api::{PodKey, Str};
use plimsoll_engine::{Detail, Effect, Event, Observation, Options, Outcome, Scheduler, Write};
use plimsoll_framework::Time;
use plimsoll_sim::{
    Extent, Happening, InitialCluster, Lifecycle, Manner, RequestFaults, RequestVerb,
    SimulatedCluster, Simulation, VolumeDelays,
};
use plimsoll_testkit::Scenario;

use crate::profiles::default_profiles;

/// Runs a script with an auditor, and compares the results: decisions, writes, and messages about the
/// pods.
pub(crate) fn check(script: &str, expected: &Expect) {
    let mut stage = ScriptRun::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        stage.act(line);
    }
    let violations: Vec<String> =
        stage.simulation.violations().iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{violations:?}");
    expected.assert_eq(&stage.trace);
}

struct ScriptRun {
    simulation: Simulation,
    trace: String,
}

impl ScriptRun {
    fn new() -> Self {
        let options = Options { detail: Detail::Outcome, ..Options::default() };
        let scheduler =
            Scheduler::new(default_profiles(), options, 0).expect("there is one profile");
        let world = SimulatedCluster::new(Lifecycle::default(), RequestFaults::default());
        let simulation =
            Simulation::audited(world, scheduler, InitialCluster::default(), Extent::Decisions);
        ScriptRun { simulation, trace: String::new() }
    }

    fn act(&mut self, line: &str) {
        let (at, what) = line.split_once(' ').expect("a line begins with a time");
        let at: i64 = at.parse().expect("a time is in seconds");
        self.advance_to(Time::from_millis(at * 1000));
        let words: Vec<&str> = what.split_whitespace().collect();
        let world = self.simulation.world_mut();
        match words[..] {
            ["wait"] => {}
            ["delete", "pod", name] => {
                let gone = Happening::IsDeleted(PodKey::new("default", name), Duration::ZERO);
                world.plan(Time::from_millis(at * 1000), gone);
            }
            ["delete", "node", name] => {
                let gone = Event::Node(Box::new(Observation::Gone(Str::from(name))));
                self.simulation.happens(gone);
            }
            ["grace", seconds] => world.lifecycle.grace = span(seconds),
            ["storage", binding, provisioning] => {
                world.storage = VolumeDelays {
                    binding_after: span(binding),
                    provisioning_after: span(provisioning),
                };
            }
            [verb @ ("bind" | "patch" | "evict" | "provision" | "terminate"), ref how @ ..] => {
                world.faults.set(verb_of(verb), manner(how));
            }
            _ => self.objects(what),
        }
        self.settle();
    }

    /// Adds the objects of a statement.
    fn objects(&mut self, statement: &str) {
        let scenario = Scenario::parse(statement).unwrap_or_else(|error| panic!("{error}"));
        let mut events = Vec::new();
        events.extend(
            scenario.nodes.into_iter().map(|node| Event::Node(Box::new(Observation::Is(node)))),
        );
        events.extend(scenario.objects.into_iter().map(Event::object));
        let pods = scenario.pending.into_iter();
        events.extend(pods.map(|pod| Event::pod((*pod).clone())));
        for event in events {
            self.simulation.happens(event);
        }
    }

    /// Runs the simulation to `time`, including everything that is due then.
    fn advance_to(&mut self, time: Time) {
        // A change without effect is scheduled then, so that the simulation reaches this time.
        let nothing = Happening::IsUngated(PodKey::new("default", ""));
        self.simulation.world_mut().plan(time, nothing);
        while self.simulation.now() < time {
            if !self.step(Some(time)) {
                break;
            }
        }
    }

    fn settle(&mut self) {
        let now = self.simulation.now();
        while self.step(Some(now)) {}
    }

    fn step(&mut self, until: Option<Time>) -> bool {
        let decisions = self.simulation.advance_until(until);
        let now = self.simulation.now();
        for decision in decisions.iter().flatten() {
            let (name, attempt) = (&decision.pod.name, decision.attempt);
            let what = match &decision.outcome {
                Outcome::Scheduled { node, .. } => format!("-> {node}"),
                Outcome::Unschedulable { nomination: Some(nomination), .. } => {
                    format!("clears {}", nomination.node)
                }
                Outcome::Unschedulable { .. } => "!!".to_owned(),
                Outcome::Error { .. } => "error".to_owned(),
            };
            self.note(now, &format!("{name} #{attempt} {what}"));
        }
        for (at, effect) in self.simulation.take_written() {
            self.wrote(at, &effect);
        }
        decisions.is_some()
    }

    fn wrote(&mut self, at: Time, effect: &Effect) {
        let pod = &effect.pod.key.name;
        let text = match &effect.write {
            Write::GroupCondition(write) => {
                format!(
                    "condition {} {}: {}",
                    write.group, write.condition.reason, write.condition.message
                )
            }
            Write::Bind(binding) => format!("bind {pod} to {}", binding.node),
            Write::Object(write) => {
                format!("{} {} {} for {pod}", write.verb.as_str(), write.kind, write.key)
            }
            Write::Evict(eviction) => format!("evict {} for {pod}", eviction.victim.key.name),
            Write::Nominate(node) => {
                format!("nominate {pod} to {}", node.as_deref().unwrap_or("nothing"))
            }
            Write::Condition(condition) => {
                format!("condition {pod} {}: {}", condition.reason, condition.message)
            }
            Write::Extender(call) => format!("ask {:?} for {pod}", call.extender),
            Write::Record(record) => format!("event {pod} {}: {}", record.reason, record.note),
        };
        self.note(at, &text);
    }

    fn note(&mut self, at: Time, text: &str) {
        writeln!(self.trace, "{}s {text}", at.millis() / 1000).expect("text can grow");
    }
}

fn span(seconds: &str) -> Duration {
    Duration::from_secs(seconds.parse().expect("a span is in seconds"))
}

fn verb_of(word: &str) -> RequestVerb {
    match word {
        "bind" => RequestVerb::Bind,
        "patch" => RequestVerb::Write,
        "evict" => RequestVerb::Evict,
        "provision" => RequestVerb::Provision,
        _ => RequestVerb::Terminate,
    }
}

fn manner(words: &[&str]) -> Manner {
    match words {
        ["works"] => Manner::Works,
        ["refused"] => Manner::Refused,
        ["lost"] => Manner::Lost,
        ["unanswered"] => Manner::Unanswered,
        ["late", seconds] => Manner::Late(span(seconds)),
        other => panic!("{other:?} is no manner"),
    }
}
