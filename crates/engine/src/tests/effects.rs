//! What effects tell those who carry them out.

use plimsoll_api::{Edition, Pod};
use plimsoll_framework::{Point, Time};

use super::lab;
use crate::{Effect, Event, Observation, Options, Scheduler, Write};

fn scheduler() -> Scheduler {
    let profile = lab::profile("lab", None, |point| point != Point::Permit);
    Scheduler::new(vec![profile], Options::default(), 0).expect("one profile orders the queue")
}

fn with_edition(pod: Pod, resource_version: &str) -> Pod {
    let edition = Edition { resource_version: resource_version.into(), ..Edition::default() };
    Pod { edition, ..pod }
}

/// Steps until something is written.
fn written(scheduler: &mut Scheduler, now: Time) -> Vec<Effect> {
    let mut effects = Vec::new();
    for _ in 0..10 {
        scheduler.step(now, &mut effects);
        if !effects.is_empty() {
            break;
        }
    }
    effects
}

#[test]
fn a_pod_is_written_about_as_it_was_last_seen() {
    let mut scheduler = scheduler();
    scheduler.observe(Time::ZERO, Event::pod(with_edition(lab::pod("p", &[]), "1")));
    // A heartbeat, an annotation of somebody else: the same pod for every decision.
    scheduler.observe(Time::ZERO, Event::pod(with_edition(lab::pod("p", &[]), "2")));
    let effects = written(&mut scheduler, Time::ZERO);
    assert!(effects.iter().any(|effect| matches!(effect.write, Write::Condition(_))));
    for effect in &effects {
        assert_eq!(effect.pod.edition.resource_version, "2", "{:?}", effect.write);
    }
}

#[test]
fn victim_and_preemptor_are_both_told() {
    let mut scheduler = scheduler();
    let node = Observation::Is(lab::node("a", &["cpu=1"]));
    scheduler.observe(Time::ZERO, Event::Node(Box::new(node)));
    let low = with_edition(lab::pod("low", &["cpu=1", "on=a", "uid=u1"]), "7");
    scheduler.observe(Time::ZERO, Event::pod(low));
    let high = with_edition(lab::pod("high", &["cpu=1", "prio=5", "uid=u2", "oust=yes"]), "8");
    scheduler.observe(Time::ZERO, Event::pod(high));
    let effects = written(&mut scheduler, Time::ZERO);
    let eviction = effects.iter().find_map(|effect| match &effect.write {
        Write::Evict(eviction) => Some((effect, eviction)),
        _ => None,
    });
    let (effect, eviction) = eviction.expect("there is room only where the low one is");
    let told = |pod: &Pod| (pod.uid.to_string(), pod.edition.resource_version.to_string());
    assert_eq!(told(&effect.pod), ("u2".to_owned(), "8".to_owned()));
    assert_eq!(told(&eviction.victim), ("u1".to_owned(), "7".to_owned()));
}
