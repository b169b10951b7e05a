//! The laws catch plugins that break them.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use plimsoll_framework::prelude::*;
use plimsoll_testkit::{expect, laws, random_scenarios};
use serde::Deserialize;

/// Lets a zone have no more than two pods, with the fault that its args ask for.
struct Crowd(Mistake);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Mistake {
    #[default]
    None,
    /// Counts pods that leave as pods that come.
    Sign,
    /// Ignores changes, but says that its state is exact.
    Deaf,
    /// Shares its counts among all copies of a state.
    Shared,
    /// Treats the first node differently from the others.
    Order,
    /// Panics if a node has no zone.
    Panic,
    /// Gives scores above the limit.
    Range,
}

#[derive(Default, Deserialize)]
struct Args {
    fault: Mistake,
}

impl Plugin for Crowd {
    const NAME: &'static str = "Crowd";
    type Args = Args;
    fn new(args: Args, _: &FeatureGates) -> Self {
        Crowd(args.fault)
    }
}

#[derive(Default)]
struct ZoneCounts {
    zones: BTreeMap<Str, Arc<AtomicI32>>,
    first: Str,
    shared: bool,
}

impl ZoneCounts {
    fn add(&mut self, zone: &Str, pods: i32) {
        self.zones.entry(zone.clone()).or_default().fetch_add(pods, Ordering::Relaxed);
    }
}

impl Clone for ZoneCounts {
    fn clone(&self) -> Self {
        let copy = |(zone, count): (&Str, &Arc<AtomicI32>)| {
            let own = Arc::new(AtomicI32::new(count.load(Ordering::Relaxed)));
            (zone.clone(), if self.shared { count.clone() } else { own })
        };
        ZoneCounts {
            zones: self.zones.iter().map(copy).collect(),
            first: self.first.clone(),
            ..*self
        }
    }
}

impl PreFilter for Crowd {
    type Pod = ();
    type Node = (Name, Labels);
    type Cluster = Nodes<(Name, Labels, Pods)>;
    type State = ZoneCounts;

    fn pre_filter(
        &self,
        (): (),
        nodes: NodesRef<'_, (Name, Labels, Pods)>,
    ) -> Result<Option<ZoneCounts>, Rejection> {
        let mut counts = ZoneCounts { shared: self.0 == Mistake::Shared, ..ZoneCounts::default() };
        for (name, labels, pods) in nodes.iter() {
            if counts.first.is_empty() {
                counts.first.clone_from(name);
            }
            match labels.get("zone") {
                Some(zone) => counts.add(zone, i32::try_from(pods.len()).expect("few pods")),
                None => assert!(self.0 != Mistake::Panic, "a node has no zone"),
            }
        }
        Ok(Some(counts))
    }

    fn filter(&self, counts: &ZoneCounts, (name, labels): (&Str, &Labels)) -> Verdict {
        if self.0 == Mistake::Order && *name == counts.first {
            return Verdict::unschedulable("node(s) came first");
        }
        let count = labels.get("zone").and_then(|zone| counts.zones.get(zone));
        match count.map_or(0, |count| count.load(Ordering::Relaxed)) {
            ..=2 => Verdict::Pass,
            _ => Verdict::unschedulable("node(s) were in a crowded zone"),
        }
    }

    fn update(
        &self,
        counts: &mut ZoneCounts,
        change: PodChange<'_>,
        (_, labels): (&Str, &Labels),
    ) -> Update {
        if let Some(zone) = labels.get("zone").filter(|_| self.0 != Mistake::Deaf) {
            counts.add(zone, if self.0 == Mistake::Sign { 1 } else { change.sign() });
        }
        Update::Exact
    }
}

impl Score for Crowd {
    type Pod = ();
    type Node = ();
    fn score(&self, (): (), (): ()) -> i64 {
        if self.0 == Mistake::Range { 101 } else { 100 }
    }
}

/// The report of the laws.
fn complaint(fault: &str) -> String {
    complaint_about(&Entry::of::<Crowd>().pre_filter().score().done(), fault)
}

fn complaint_about(entry: &Entry, fault: &str) -> String {
    let args = format!("args {{\"fault\": \"{fault}\"}}");
    let scenarios = random_scenarios(0..20).map(|scenario| format!("{args}\n{scenario}"));
    let held = catch_unwind(AssertUnwindSafe(|| laws(entry, scenarios)));
    match held {
        Ok(()) => "no complaint\n".to_owned(),
        Err(panic) => {
            format!("{}\n", panic.downcast_ref::<String>().expect("laws panic with text"))
        }
    }
}

#[test]
fn a_plugin_that_keeps_the_laws_passes() {
    assert_eq!(complaint("None"), "no complaint\n");
}

#[test]
fn a_wrong_update_is_caught() {
    expect![[r#"
        Crowd breaks a law: a change that is undone changes nothing, but
        n0 Unschedulable: node(s) were in a crowded zone, expected Success
        when team-b/p0 leaves n0 and default/p20 is judged
        in this scenario:
        args {"fault":"Sign"}
        # seed 0
        node n0 zone=z1
        pod team-b/p0 on n0
        pod default/p20
    "#]]
    .assert_eq(&complaint("Sign"));
}

#[test]
fn a_change_that_is_ignored_is_caught() {
    expect![[r#"
        Crowd breaks a law: `update` gives the same verdicts as preparing again, but
        n1 Unschedulable: node(s) were in a crowded zone, expected Success
        n4 Unschedulable: node(s) were in a crowded zone, expected Success
        n5 Unschedulable: node(s) were in a crowded zone, expected Success
        when default/p0 leaves n5 and team-b/p20 is judged
        in this scenario:
        args {"fault":"Deaf"}
        # seed 1
        node n1 zone=z2
        node n4 zone=z2
        node n5 zone=z2
        pod default/p0 on n5
        pod default/p1 on n1
        pod team-b/p3 on n4
        pod team-b/p20
    "#]]
    .assert_eq(&complaint("Deaf"));
}

#[test]
fn a_state_that_copies_share_is_caught() {
    expect![[r#"
        Crowd breaks a law: updating a copy does not change the original, but
        n1 Success, expected Unschedulable: node(s) were in a crowded zone
        n4 Success, expected Unschedulable: node(s) were in a crowded zone
        n5 Success, expected Unschedulable: node(s) were in a crowded zone
        when default/p0 leaves n5 and team-b/p20 is judged
        in this scenario:
        args {"fault":"Shared"}
        # seed 1
        node n1 zone=z2
        node n4 zone=z2
        node n5 zone=z2
        pod default/p0 on n5
        pod default/p1 on n1
        pod team-b/p3 on n4
        pod team-b/p20
    "#]]
    .assert_eq(&complaint("Shared"));
}

#[test]
fn a_verdict_that_depends_on_the_order_of_nodes_is_caught() {
    expect![[r#"
        Crowd breaks a law: the order of rows is irrelevant, but with nodes and pods reversed the verdicts are
        p20 n0 Success
        p20 n1 Unschedulable: node(s) came first
        p20 n0 score 100
        instead of
        p20 n0 Unschedulable: node(s) came first
        p20 n1 Success
        p20 n1 score 100

        in this scenario:
        args {"fault":"Order"}
        # seed 0
        node n0
        node n1
        pod default/p20
    "#]].assert_eq(&complaint("Order"));
}

#[test]
fn a_panic_is_caught() {
    expect![[r#"
        Crowd breaks a law: it panics: a node has no zone
        in this scenario:
        args {"fault":"Panic"}
        # seed 2
        node n0
        pod team-b/p20
    "#]]
    .assert_eq(&complaint("Panic"));
}

#[test]
fn a_score_out_of_range_is_caught() {
    expect![[r#"
        Crowd breaks a law: normalised scores are 0 to 100, but n0 has 101 for default/p20
        in this scenario:
        args {"fault":"Range"}
        # seed 0
        node n0
        pod default/p20
    "#]]
    .assert_eq(&complaint("Range"));
}
