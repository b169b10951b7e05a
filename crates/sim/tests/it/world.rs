//! A scheduler with the default profile that is told of objects, and may decide nothing from scratch.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::Expect;
use plimsoll_api::wire::{self, Object};
use plimsoll_api::{Pod, PodKey};
use plimsoll_engine::metrics::Value;
use plimsoll_engine::{Effect, Event, Next, Observation, Options, Scans, Scheduler, Write};
use plimsoll_framework::{Time, WriteVerb};
use serde_json::Value as Json;

use crate::profiles::default_profiles;

/// A scheduler that is told of objects and whose writes succeed at once.
struct World {
    scheduler: Scheduler,
    pods: BTreeMap<PodKey, Arc<Pod>>,
    now: Time,
    report: String,
}

impl World {
    fn new(scans: Scans) -> Self {
        let options = Options { audit_every: 1, scans, ..Options::default() };
        let scheduler = Scheduler::new(default_profiles(), options, 0).expect("there is one");
        World { scheduler, pods: BTreeMap::new(), now: Time::ZERO, report: String::new() }
    }

    /// Tells of objects, and decides all pods that are ready.
    fn tell(&mut self, objects: &[Json]) {
        for object in objects {
            let object = wire::object_from_str(&object.to_string()).expect("it is an object");
            if let Object::Pod(pod) = &object {
                self.pods.insert(pod.key.clone(), Arc::new(Pod::clone(pod)));
            }
            self.scheduler.observe(self.now, Event::is(object).expect("its kind is read"));
        }
        loop {
            let mut effects = Vec::new();
            let next = self.scheduler.step(self.now, &mut effects);
            if effects.is_empty() && !matches!(next, Next::Again) {
                return;
            }
            for effect in effects {
                self.answer(effect);
            }
        }
    }

    /// Does what is asked for, and reports what users notice of it.
    fn answer(&mut self, effect: Effect) {
        let name = effect.pod.key.name.clone();
        let mut changed = None;
        match effect.write {
            Write::Bind(binding) => {
                self.say(&format!("{name} on {}", binding.node));
                let pod = &self.pods[&effect.pod.key];
                changed = Some(Pod { node_name: Some(binding.node), ..Pod::clone(pod) });
            }
            Write::Nominate(node) => {
                let pod = &self.pods[&effect.pod.key];
                changed = Some(Pod { nominated_node: node, ..Pod::clone(pod) });
            }
            Write::Condition(condition) => {
                self.say(&format!("{name}: {}: {}", condition.reason, condition.message));
            }
            Write::Object(write) => {
                let WriteVerb::Patch { merge, .. } = write.verb else { panic!("{write:?}") };
                self.say(&format!("{name} patches {} with {merge}", write.key.name));
            }
            Write::Evict(eviction) => {
                self.say(&format!("{name} evicts {}", eviction.victim.key.name));
                self.pods.remove(&eviction.victim.key);
                self.scheduler.observe(self.now, Event::Done(effect.id, Ok(())));
                self.scheduler.observe(self.now, Event::pod_gone(eviction.victim.key.clone()));
                return;
            }
            _ => {}
        }
        self.scheduler.observe(self.now, Event::Done(effect.id, Ok(())));
        if let Some(pod) = changed.map(Arc::new) {
            self.pods.insert(pod.key.clone(), pod.clone());
            self.scheduler.observe(self.now, Event::Pod(Observation::Is(pod)));
        }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.report, "{line}").expect("a string takes all");
    }

    /// How many decisions were made from a source.
    fn n_decisions(&self, source: &str) -> u64 {
        let families = self.scheduler.metrics();
        let family = families.iter().find(|one| one.descriptor.name == "plimsoll_decisions_total");
        let series = family.expect("decisions are counted").series.iter();
        let of_source = series.filter(|one| one.labels.iter().any(|label| *label == *source));
        of_source
            .map(|one| match one.value {
                Value::Number(n) => n,
                Value::Float(_) | Value::Histogram(_) => panic!("decisions are counted"),
            })
            .sum()
    }
}

/// Tells of `steps` in turn, with and without scans. All decisions are made from memory, and none differs from
/// one from scratch.
#[track_caller]
pub(crate) fn check(steps: &[Vec<Json>], expected: &Expect) {
    let mut reports = Vec::new();
    for scans in [Scans::Never, Scans::Always, Scans::WhereCheaper] {
        let mut world = World::new(scans);
        for objects in steps {
            world.tell(objects);
        }
        assert_eq!(world.scheduler.audit().differences, [], "{scans:?}");
        assert_eq!(world.n_decisions("scratch"), 0, "{scans:?}\n{}", world.report);
        assert!(0 < world.n_decisions("memory"));
        reports.push(world.report);
    }
    expected.assert_eq(&reports[0]);
    assert_eq!(reports[1], reports[0]);
    assert_eq!(reports[2], reports[0]);
}
