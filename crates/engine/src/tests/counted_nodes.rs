//! A plugin says on which nodes pods count, and by which part of a node: the engine counts again when that changes.

use std::collections::BTreeMap;

use plimsoll_framework::prelude::*;

use super::lab;
use crate::{
    Detail, Effect, Engine, Event, Next, Observation, Options, Outcome, Profile, Scheduler,
};

/// The most pods that a zone may have on nodes that are not cordoned.
const MOST: i64 = 2;

/// Lets a zone have few pods. Those on cordoned nodes do not count.
struct Few;

impl Plugin for Few {
    const NAME: &'static str = "Few";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Few
    }
}

fn verdict(count: i64) -> Verdict {
    match count < MOST {
        true => Verdict::Pass,
        false => Verdict::unschedulable("the zone is full"),
    }
}

impl PreFilter for Few {
    type Pod = ();
    type Node = Labels;
    type Cluster = Nodes<(Labels, Unschedulable, Pods)>;
    type State = BTreeMap<Str, i64>;

    fn pre_filter(
        &self,
        (): (),
        nodes: NodesRef<'_, (Labels, Unschedulable, Pods)>,
    ) -> Result<Option<Self::State>, Rejection> {
        let mut zones = BTreeMap::new();
        for (labels, is_cordoned, pods) in nodes.iter() {
            if let Some(zone) = labels.get("zone").filter(|_| !is_cordoned) {
                let count = i64::try_from(pods.len()).expect("few pods");
                *zones.entry(zone.clone()).or_default() += count;
            }
        }
        Ok(Some(zones))
    }

    fn filter(&self, zones: &Self::State, labels: &Labels) -> Verdict {
        verdict(labels.get("zone").and_then(|zone| zones.get(zone)).copied().unwrap_or(0))
    }
}

impl FilterByCounts for Few {
    type Objects = ();
    fn by_domain(&self, (): (), (): (), _: Neighbours<'_>) -> ByDomain<dyn DomainFilter> {
        let nodes = CountedNodes::all().that::<Unschedulable>(|is_cordoned| !is_cordoned);
        ByDomain::Counts(Box::new(CountsUncordoned([DomainTerm {
            key: TopologyKey::Label("zone".into()),
            nodes,
        }])))
    }
}

struct CountsUncordoned([DomainTerm; 1]);

impl DomainCounter for CountsUncordoned {
    fn terms(&self) -> &[DomainTerm] {
        &self.0
    }
    fn counts_plain_pods(&self) -> bool {
        true
    }
    fn count(&self, _: Neighbour<'_>) -> Option<Counting> {
        Some(smallvec![(0, 1)])
    }
}

impl DomainFilter for CountsUncordoned {
    fn compares_domains(&self) -> bool {
        false
    }
    fn verdict(&self, term_counts: &[TermCount], _: &[TermTotals]) -> Verdict {
        verdict(term_counts[0].count)
    }
}

/// A profile with this filter, and one of nodes that a pod names.
pub(crate) fn profile() -> Profile {
    let few = Entry::of::<Few>().pre_filter().filter_by_counts().done();
    lab::profile_of(few, &["Sort", "Binder", "Only"])
}

fn scheduler(engine: Engine) -> Scheduler {
    let options = Options { engine, detail: Detail::Outcome, audit_every: 1, ..Options::default() };
    Scheduler::new(vec![profile()], options, 0).expect("there is a profile")
}

/// What becomes of a new pod at `now`: its node, or nothing.
fn placed(scheduler: &mut Scheduler, now: Time, name: &str) -> Option<String> {
    scheduler.observe(now, Event::pod(lab::pod(name, &[])));
    let mut effects: Vec<Effect> = Vec::new();
    while matches!(scheduler.step(now, &mut effects), Next::Again) {}
    let decision = scheduler.take_decisions().into_iter().find(|one| one.pod.name == name);
    let node = match decision.expect("it was tried").outcome {
        Outcome::Scheduled { node, .. } => node.to_string(),
        _ => return None,
    };
    scheduler.observe(now, Event::pod(lab::pod(name, &[&format!("on={node}")])));
    Some(node)
}

#[test]
fn pods_are_counted_again_when_a_node_begins_or_ceases_to_count() {
    for engine in [Engine::Fast, Engine::Reference] {
        let mut scheduler = scheduler(engine);
        let set = |scheduler: &mut Scheduler, name: &str, words: &[&str]| {
            let node = Observation::Is(lab::node(name, words));
            scheduler.observe(Time::ZERO, Event::Node(Box::new(node)));
        };
        set(&mut scheduler, "a", &["zone=z"]);
        set(&mut scheduler, "b", &["zone=z"]);
        let place = |scheduler: &mut Scheduler, name| placed(scheduler, Time::ZERO, name);
        assert!(place(&mut scheduler, "p1").is_some());
        assert!(place(&mut scheduler, "p2").is_some());
        assert_eq!(place(&mut scheduler, "p3"), None, "the zone is full");

        set(&mut scheduler, "a", &["zone=z", "cordoned=yes"]);
        set(&mut scheduler, "b", &["zone=z", "cordoned=yes"]);
        assert!(place(&mut scheduler, "p4").is_some(), "no pod counts");

        set(&mut scheduler, "a", &["zone=z"]);
        set(&mut scheduler, "b", &["zone=z"]);
        assert_eq!(place(&mut scheduler, "p5"), None, "all pods count again");
        let differences = &scheduler.audit().differences;
        assert!(differences.is_empty(), "{differences:?}");
    }
}
