//! The output of `check` for each extension point.

use std::collections::BTreeSet;

use plimsoll_framework::prelude::*;
use plimsoll_testkit::{check, check_among, expect};

/// Gives at each extension point the answer that the labels of the pod ask for.
struct Parrot;

impl Plugin for Parrot {
    const NAME: &'static str = "Parrot";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Parrot
    }
}

impl PreEnqueue for Parrot {
    type Pod = Labels;
    type Cluster = ();
    fn pre_enqueue(&self, pod: &Labels, (): ()) -> Gate {
        match pod.get("gate") {
            Some(_) => Gate::Closed(Rejection::unresolvable("waiting for the gate")),
            None => Gate::Open,
        }
    }
}

impl Filter for Parrot {
    type Pod = Labels;
    type Node = (Name, Labels);
    fn candidates(&self, pod: &Labels) -> Result<Candidates, Rejection> {
        match pod.get("only") {
            Some(name) if name == "nobody" => Err(Rejection::unresolvable("nobody will do")),
            Some(name) => Ok(Candidates::Only(BTreeSet::from([name.clone()]))),
            None => Ok(Candidates::All),
        }
    }
    fn filter(&self, pod: &Labels, (name, node): (&Str, &Labels)) -> Verdict {
        if pod.get("not") == Some(name) {
            return Verdict::Fail(Rejection {
                code: Code::Unschedulable,
                reasons: smallvec!["not this".into(), Reason::Insufficient("cpu".into())],
            });
        }
        if node.contains_key("closed") { Verdict::unresolvable("closed") } else { Verdict::Pass }
    }
}

impl Score for Parrot {
    type Pod = Labels;
    type Node = Labels;
    const NORMALIZE: Normalize = Normalize::Max { reverse: false };
    fn applies(&self, pod: &Labels) -> bool {
        !pod.contains_key("shy")
    }
    fn score(&self, _: &Labels, node: &Labels) -> i64 {
        node.get("like").and_then(|like| like.parse().ok()).unwrap_or(0)
    }
}

/// Nominates the node of the first rejection, with all pods on it as victims.
struct Bully;

impl Plugin for Bully {
    const NAME: &'static str = "Bully";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Bully
    }
}

impl PostFilter for Bully {
    fn post_filter(
        &self,
        _: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> PostFilterAnswer {
        let Some(first) = rejected.first() else {
            return PostFilterAnswer::Unschedulable("no node was rejected".into());
        };
        let nodes = dry_run.view().nodes;
        let victims = nodes.pods_on(first.row).iter().map(|pod| pod.key.clone()).collect();
        PostFilterAnswer::Nominated(Nomination {
            node: nodes.name_of(first.row).clone(),
            victims,
            broken_budgets: 0,
            says: "".into(),
        })
    }
}

fn parrot() -> Entry {
    Entry::of::<Parrot>().pre_enqueue().filter().at(Point::PreFilter).score().done()
}

#[test]
fn every_answer_is_printed_on_a_line() {
    check(
        parrot(),
        r"
        node b like=5
        node a like=10
        node c closed=true
        pod plain
        pod held gate=shut
        pod picky only=a
        pod choosy only=nobody
        pod team/averse not=b shy=true
        ",
        &expect![[r"
            plain gate open
            plain b Success
            plain a Success
            plain c UnschedulableAndUnresolvable: closed
            plain b score 50
            plain a score 100
            held gate closed: waiting for the gate
            held b Success
            held a Success
            held c UnschedulableAndUnresolvable: closed
            held b score 50
            held a score 100
            picky gate open
            picky only a
            picky a Success
            picky a score 100
            choosy gate open
            choosy * UnschedulableAndUnresolvable: nobody will do
            team/averse gate open
            team/averse b Unschedulable: not this, Insufficient cpu
            team/averse a Success
            team/averse c UnschedulableAndUnresolvable: closed
            team/averse skips score
        "]],
    );
}

#[test]
fn a_plugin_without_a_filter_scores_all_nodes() {
    check(
        Entry::of::<Parrot>().score().done(),
        r"
        node a like=1
        node b closed=true like=4
        pod p
        ",
        &expect![[r"
            p a score 25
            p b score 100
        "]],
    );
}

#[test]
fn a_post_filter_is_given_the_rejections_of_other_plugins() {
    let bully = || Entry::of::<Bully>().post_filter().done();
    check_among(
        &[Entry::of::<Parrot>().filter().done()],
        bully(),
        r"
        node a closed=true
        pod small on a
        pod p
        ",
        &expect![[r"
            p nominates a without small
        "]],
    );
    check(
        bully(),
        "pod p",
        &expect![[r"
        p is unschedulable: no node was rejected
    "]],
    );
}

#[test]
fn invalid_args_are_the_only_line() {
    check(
        parrot(),
        "args {\"volume\": 11}\nnode a\npod p",
        &expect![[r"
        args.volume of plugin Parrot: unknown field `volume`, there are no fields
    "]],
    );
}
