use std::collections::BTreeSet;

use plimsoll_framework::prelude::*;
use plimsoll_testkit::{Cluster, Scenario, expect};

use super::super::filter::AffinityCounts;
use super::super::{InterPodAffinity, InterPodAffinityArgs};
use super::{check, entry, parsed};

#[test]
fn affinity_needs_a_pod_that_the_term_speaks_of_in_the_domain() {
    check(
        "
        node a zone=z1
        node b zone=z2
        pod db app=db tier=back on a
        pod in wants:zone:app=db
        pod not-in wants:zone:app!=web
        pod exists wants:zone:app
        pod absent wants:zone:!gen
        pod all wants:zone:app=db,tier=back,!gen
        pod not-all wants:zone:app=db,tier=front
        pod everything wants:zone:*
        ",
        &expect![[r"
            in a Success
            in b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            in skips score
            not-in a Success
            not-in b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            not-in skips score
            exists a Success
            exists b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            exists skips score
            absent a Success
            absent b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            absent skips score
            all a Success
            all b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            all skips score
            not-all a UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            not-all b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            everything a Success
            everything b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            everything skips score
        "]],
    );
}

#[test]
fn terms_speak_of_pods_in_their_namespaces_only() {
    check(
        "
        namespace team-a team=a
        namespace team-b team=b
        node a zone=z1
        node b zone=z2
        pod team-a/db app=db on a
        pod own wants:zone:app=db
        pod named wants:zone:app=db@team-a
        pod selected wants:zone:app=db@team=a
        pod not-selected wants:zone:app=db@team=b
        pod all wants:zone:app=db@*
        pod team-a/neighbour wants:zone:app=db
        ",
        &expect![[r"
            own a UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            own b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            named a Success
            named b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            named skips score
            selected a Success
            selected b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            selected skips score
            not-selected a UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            not-selected b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            all a Success
            all b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            all skips score
            team-a/neighbour a Success
            team-a/neighbour b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            team-a/neighbour skips score
        "]],
    );
}

#[test]
fn one_pod_must_meet_all_affinity_terms() {
    check(
        "
        node a zone=z1 rack=r1
        node b zone=z1 rack=r2
        node c zone=z2 rack=r2
        node d zone=z1
        pod db app=db on a
        pod back tier=back on a
        pod both app=db tier=back on b
        pod p wants:zone:app=db wants:rack:tier=back
        ",
        &expect![[r"
            p a UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            p b Success
            p c UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            p d UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            p skips score
        "]],
    );
}

#[test]
fn the_first_pod_of_its_kind_needs_no_other() {
    check(
        "
        node a zone=z1 rack=r1
        node b zone=z2
        pod first app=db wants:zone:app=db
        pod stranger app=web wants:zone:app=db
        pod both app=db wants:zone:app=db wants:rack:app
        pod one-of-two app=db wants:zone:app=db wants:rack:tier
        ",
        &expect![[r"
            first a Success
            first b Success
            first skips score
            stranger a UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            stranger b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            both a Success
            both b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            both skips score
            one-of-two a UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            one-of-two b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
        "]],
    );
}

#[test]
fn a_second_pod_of_its_kind_goes_to_the_first() {
    check(
        "
        node a zone=z1
        node b zone=z2
        node c
        pod first app=db on a
        pod second app=db wants:zone:app=db
        ",
        &expect![[r"
            second a Success
            second b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            second c UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            second skips score
        "]],
    );
}

#[test]
fn a_pod_in_no_domain_leaves_the_next_one_the_first() {
    check(
        "
        node a
        node b zone=z2
        pod first app=db on a
        pod second app=db wants:zone:app=db
        ",
        &expect![[r"
            second a UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            second b Success
            second skips score
        "]],
    );
}

#[test]
fn anti_affinity_closes_the_domain_of_any_pod_that_any_term_speaks_of() {
    check(
        "
        node a zone=z1
        node b zone=z1
        node c zone=z2 rack=r2
        node d
        pod db app=db on a
        pod web app=web on c
        pod p shuns:zone:app=db
        pod q shuns:zone:app=db shuns:rack:app=web
        pod r shuns:zone:app=cache
        ",
        &expect![[r"
            p a Unschedulable: node(s) didn't match pod anti-affinity rules
            p b Unschedulable: node(s) didn't match pod anti-affinity rules
            p c Success
            p d Success
            p skips score
            q a Unschedulable: node(s) didn't match pod anti-affinity rules
            q b Unschedulable: node(s) didn't match pod anti-affinity rules
            q c Unschedulable: node(s) didn't match pod anti-affinity rules
            q d Success
            q skips score
            r a Success
            r b Success
            r c Success
            r d Success
            r skips score
        "]],
    );
}

/// Because of a bug, kube-scheduler 1.35 to 1.37 selects every namespace in both cases
/// (kubernetes/kubernetes#141526).
#[test]
fn namespaces_can_be_selected_by_what_they_are_not() {
    check(
        "
        namespace team-a team=a
        namespace team-b team=b
        namespace bare
        node a zone=z1
        node b zone=z2
        node c zone=z3
        pod team-a/db app=db on a
        pod team-b/db app=db on b
        pod bare/db app=db on c
        pod not-a wants:zone:app=db@team!=a
        pod untold wants:zone:app=db@!team
        pod away-from-others shuns:zone:app=db@team!=a
        pod away-from-untold shuns:zone:app=db@!team
        ",
        &expect![[r"
            not-a a UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            not-a b Success
            not-a c Success
            not-a skips score
            untold a UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            untold b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            untold c Success
            untold skips score
            away-from-others a Success
            away-from-others b Unschedulable: node(s) didn't match pod anti-affinity rules
            away-from-others c Unschedulable: node(s) didn't match pod anti-affinity rules
            away-from-others skips score
            away-from-untold a Success
            away-from-untold b Success
            away-from-untold c Unschedulable: node(s) didn't match pod anti-affinity rules
            away-from-untold skips score
        "]],
    );
}

#[test]
fn anti_affinity_of_a_pod_closes_its_domain_to_all_that_it_speaks_of() {
    check(
        "
        namespace team-a team=a
        node a zone=z1 rack=r1
        node b zone=z1
        node c zone=z2 rack=r1
        node d
        pod db app=db shuns:zone:app=web shuns:rack:app=web@team=a on a
        pod web app=web
        pod db-2 app=db
        pod team-a/web app=web
        ",
        &expect![[r"
            web a Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules
            web b Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules
            web c Success
            web d Success
            web skips score
            db-2 a Success
            db-2 b Success
            db-2 c Success
            db-2 d Success
            db-2 skips score
            team-a/web a Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules
            team-a/web b Success
            team-a/web c Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules
            team-a/web d Success
            team-a/web skips score
        "]],
    );
}

#[test]
fn what_cannot_be_cured_by_evicting_pods_is_told_first() {
    check(
        "
        node a zone=z1
        node b zone=z2
        node c zone=z3
        pod db app=db on a
        pod web app=web on a
        pod web-2 app=web shuns:zone:app=p on b
        pod cache app=cache shuns:zone:app=p on c
        pod p app=p wants:zone:app=db shuns:zone:app=web
        pod q app=p wants:zone:app shuns:zone:app=web
        ",
        &expect![[r"
            p a Unschedulable: node(s) didn't match pod anti-affinity rules
            p b UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            p c UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            q a Unschedulable: node(s) didn't match pod anti-affinity rules
            q b Unschedulable: node(s) didn't match pod anti-affinity rules
            q c Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules
        "]],
    );
}

/// The verdict on node `a` after pods were added and removed.
fn dry_run(scenario: &str, without: &[&str], with: &[&str]) -> String {
    let scenario = parsed(scenario);
    let cluster = Cluster::of(&scenario);
    let points = entry().make(None, &FeatureGates::default()).expect("the defaults are right");
    let filter = points.filter.expect("the plugin is a filter");
    let pod = scenario.pending.last().expect("a pod is judged");
    let prepared = filter.prepare(pod, &mut CycleState::default(), &cluster.view());
    let filters = [prepared];
    let (looked, nominated) = (BTreeSet::new(), NominatedPods::default());
    let dry_run = DryRun::new(pod, &filters, &looked, &nominated, cluster.view());
    let without: Vec<PodKey> = without.iter().map(|name| PodKey::new("default", *name)).collect();
    let with = with.iter().map(|name| scenario.pending.iter().find(|pod| pod.key.name == *name));
    let with: Vec<PodInfo> = with.map(|pod| pod.expect("it is pending").clone()).collect();
    let mut node = dry_run.node(cluster.row("a").expect("there is a node a"));
    for key in &without {
        assert!(node.remove(key), "{key} is on the node");
    }
    for pod in &with {
        node.add(pod);
    }
    match node.verdict() {
        Verdict::Pass => "Success".to_owned(),
        Verdict::Fail(rejection) => rejection.to_string(),
    }
}

#[test]
fn without_the_pods_that_stand_in_its_way_a_pod_would_run() {
    let scenario = "
        node a zone=z1
        node b zone=z2
        pod db app=db on a
        pod hermit shuns:zone:app on a
        pod p app=p shuns:zone:app=db";
    assert_eq!(dry_run(scenario, &[], &[]), "node(s) didn't match pod anti-affinity rules");
    let existing = "node(s) didn't satisfy existing pods anti-affinity rules";
    assert_eq!(dry_run(scenario, &["db"], &[]), existing);
    assert_eq!(dry_run(scenario, &["db", "hermit"], &[]), "Success");
}

#[test]
fn without_the_others_of_its_kind_a_pod_would_be_the_first() {
    let scenario = "
        node a zone=z1
        node b zone=z2
        pod db app=db on a
        pod p app=db wants:zone:app=db shuns:zone:app=db";
    assert_eq!(dry_run(scenario, &[], &[]), "node(s) didn't match pod anti-affinity rules");
    assert_eq!(dry_run(scenario, &["db"], &[]), "Success");
}

#[test]
fn a_pod_that_comes_in_a_what_if_counts_only_for_a_pod_of_whom_rules_speak() {
    let scenario = "
        node a zone=z1 rack=r1
        node b zone=z2
        pod hermit shuns:rack:app
        pod p app=p shuns:zone:app=db";
    let existing = "node(s) didn't satisfy existing pods anti-affinity rules";
    assert_eq!(dry_run(scenario, &[], &["hermit"]), existing);
    let free = "
        node a zone=z1 rack=r1
        node b zone=z2
        pod hermit shuns:rack:app
        pod p app=p";
    assert_eq!(dry_run(free, &[], &["hermit"]), "Success");
}

fn plugin() -> InterPodAffinity {
    InterPodAffinity::new(InterPodAffinityArgs::default(), &FeatureGates::default())
}

fn counts(plugin: &InterPodAffinity, pod: &PodInfo, cluster: &Cluster) -> AffinityCounts {
    type Everything = <InterPodAffinity as PreFilter>::Cluster;
    let part = (&pod.affinity, &pod.key.namespace, &pod.labels);
    match plugin.pre_filter(part, Everything::of(&cluster.view())) {
        Ok(Some(counts)) => counts,
        _ => panic!("the plugin looks at every pod"),
    }
}

fn labels(cluster: &Cluster, row: Row) -> &Labels {
    &cluster.nodes.node(row).labels
}

#[test]
fn a_state_is_made_anew_when_rules_begin_or_cease_to_speak_of_the_pod() {
    let scenario = parsed(
        "
        node a zone=z1
        pod hermit shuns:zone:app on a
        pod other app=db on a
        pod p app=p
        pod q
        ",
    );
    let plugin = plugin();
    let [hermit, other] = &scenario.placed[..] else { panic!("there are two") };
    let [spoken_of, free] = &scenario.pending[..] else { panic!("there are two") };
    let after = |pod: &PodInfo, cluster: &Cluster, change: PodChange<'_>| {
        let mut counts = counts(&plugin, pod, cluster);
        plugin.update(&mut counts, change, labels(cluster, Row::from_index(0)))
    };
    let full = Cluster::of(&scenario);
    assert_eq!(after(spoken_of, &full, PodChange::Removed(hermit)), Update::Rebuild);
    assert_eq!(after(spoken_of, &full, PodChange::Removed(other)), Update::Exact);
    assert_eq!(after(free, &full, PodChange::Removed(hermit)), Update::Exact);
    let empty = Cluster::of(&Scenario { placed: Vec::new(), ..scenario.clone() });
    assert_eq!(after(spoken_of, &empty, PodChange::Added(hermit)), Update::Rebuild);
    assert_eq!(after(spoken_of, &empty, PodChange::Added(other)), Update::Exact);
    assert_eq!(after(free, &empty, PodChange::Added(hermit)), Update::Exact);
}

#[test]
fn a_domain_that_the_state_does_not_know_is_counted() {
    let scenario = parsed(
        "
        node a zone=z1
        node b zone=z2
        node c zone=z1 rack=r1
        pod hermit shuns:zone:app on a
        pod recluse shuns:rack:app on c
        pod p app=p
        ",
    );
    let [hermit, recluse] = &scenario.placed[..] else { panic!("there are two") };
    let before = Scenario { placed: vec![hermit.clone()], ..scenario.clone() };
    let cluster = Cluster::of(&before);
    let plugin = plugin();
    let known = counts(&plugin, &scenario.pending[0], &cluster);
    let passes_after = |pod: &PodInfo, node: &Labels| {
        let mut counts = known.clone();
        assert_eq!(plugin.update(&mut counts, PodChange::Added(pod), node), Update::Exact);
        PreFilter::filter(&plugin, &counts, node).passes()
    };
    assert!(!passes_after(hermit, labels(&cluster, Row::from_index(1))));
    let rack: Labels = [("rack", "r1")].into_iter().collect();
    assert!(!passes_after(recluse, &rack));
    let z3: Labels = [("zone", "z3")].into_iter().collect();
    assert!(!passes_after(hermit, &z3));
}
