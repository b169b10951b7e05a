//! Decisions from memory that find no node or leave room for nominated pods. Each is audited.

use expect_test::expect;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::flush_left;
use super::lab::Lab;
use crate::{Options, Scans};

/// Runs a script and compares the trace. All but `from_scratch` decisions are made from memory.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(script: &str, from_scratch: usize, expected: expect_test::Expect) {
    let mut lab = Lab::default();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        lab.act(line);
    }
    assert_eq!(lab.audit_memory(), [""; 0]);
    let (audited, trace) = (lab.audited(), flush_left(&lab.trace()));
    expected.assert_eq(&trace);
    let n_decisions = trace.lines().filter(|line| line.contains(" #")).count();
    assert_eq!(n_decisions, usize::try_from(audited).expect("few") + from_scratch, "{trace}");
}

#[test]
fn a_diagnosis_is_repeated_until_something_changes() {
    check(
        "0 node a cpu=2
         0 node b cpu=2 zone=z
         0 pod p cpu=3
         1 pod q cpu=3
         2 pod r cpu=3 zone=z
         3 node b cpu=3 zone=z
         4 pod s cpu=3 zone=y",
        0,
        expect![[r#"
            0s p #1 !! 0/2 nodes are available: 2 Insufficient cpu.
            1s q #1 !! 0/2 nodes are available: 2 Insufficient cpu.
            2s r #1 !! 0/2 nodes are available: 2 Insufficient cpu.
            3s p #2 -> b
            3s bind p to b
            3s q #2 !! 0/2 nodes are available: 2 Insufficient cpu.
            3s r #2 !! 0/2 nodes are available: 2 Insufficient cpu.
            4s s #1 !! 0/2 nodes are available: 2 Insufficient cpu.
        "#]],
    );
}

#[test]
fn the_reasons_follow_each_change_of_a_node() {
    let script = "0 node a cpu=2
         0 node b cpu=2 zone=z
         0 node c cpu=1 zone=z
         0 pod p cpu=2 zone=x
         1 pod q cpu=2 on=a
         1 pod r cpu=2 zone=x
         2 delete pod q
         2 pod s cpu=2 zone=x
         3 node c cpu=4 zone=y
         3 pod t cpu=2 zone=x";
    check(
        script,
        0,
        expect![[r#"
            0s p #1 !! 0/3 nodes are available: 1 Insufficient cpu, 2 wrong zone.
            1s r #1 !! 0/3 nodes are available: 1 wrong zone, 2 Insufficient cpu.
            2s p #2 !! 0/3 nodes are available: 1 Insufficient cpu, 2 wrong zone.
            2s s #1 !! 0/3 nodes are available: 1 Insufficient cpu, 2 wrong zone.
            3s r #2 !! 0/3 nodes are available: 1 Insufficient cpu, 2 wrong zone.
            3s s #2 !! 0/3 nodes are available: 3 wrong zone.
            3s t #1 !! 0/3 nodes are available: 3 wrong zone.
        "#]],
    );
}

#[test]
fn preemption_candidates_hold_until_their_nodes_change() {
    let script = "0 node a cpu=2
         0 node b cpu=2
         0 evictions linger
         0 pod low-a cpu=2 on=a
         0 pod low-b cpu=2 prio=4 on=b
         1 pod one cpu=2 prio=5 oust=yes
         2 pod two cpu=2 prio=5 oust=yes
         3 pod three cpu=2 prio=5 oust=yes
         4 pod low-too cpu=0 on=b prio=9
         5 pod four cpu=2 prio=6 oust=yes";
    check(
        script,
        0,
        expect![[r#"
            1s one #1 !! 0/2 nodes are available: 2 Insufficient cpu.
            1s evict low-a for one
            1s nominate one to a
            2s two #1 !! 0/2 nodes are available: 2 Insufficient cpu.
            2s evict low-b for two
            2s nominate two to b
            3s three #1 !! 0/2 nodes are available: 2 Insufficient cpu. nobody to oust
            5s four #1 !! 0/2 nodes are available: 2 Insufficient cpu.
            5s nominate one to nothing
            5s evict low-a for four
            5s nominate four to a
            5s one #2 !! 0/2 nodes are available: 2 Insufficient cpu. nobody to oust
            5s two #2 !! 0/2 nodes are available: 2 Insufficient cpu.
            5s evict low-b for two
            5s three #2 !! 0/2 nodes are available: 2 Insufficient cpu. nobody to oust
        "#]],
    );
}

#[test]
fn a_nominated_pod_tries_its_node_before_all_others() {
    let script = "0 node a cpu=2
         0 pod low cpu=2 on=a
         0 evictions linger
         1 pod high cpu=2 prio=5 oust=yes
         2 node b cpu=1
         3 pod same cpu=1 prio=5
         30 delete pod low
         40 pod late cpu=1 prio=5";
    check(
        script,
        0,
        expect![[r#"
            1s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            1s evict low for high
            1s nominate high to a
            3s same #1 -> b
            3s bind same to b
            30s high #2 -> a
            30s bind high to a
            40s late #1 !! 0/2 nodes are available: 2 Insufficient cpu.
        "#]],
    );
}

#[test]
fn pods_leave_room_for_a_nominated_pod_of_equal_or_higher_priority() {
    let script = "0 node a cpu=2
         0 evictions linger
         0 pod low cpu=1 on=a
         0 pod high cpu=2 prio=5 oust=yes
         1 pod p cpu=1 prio=5
         2 pod q cpu=1 prio=6
         3 delete pod high
         3 delete pod q
         4 pod r cpu=1 prio=5";
    check(
        script,
        0,
        expect![[r#"
            0s high #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            0s evict low for high
            0s nominate high to a
            1s p #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            2s q #1 -> a
            2s bind q to a
            3s p #2 !! 0/1 nodes are available: 1 Insufficient cpu.
            3s p #3 -> a
            3s bind p to a
            4s r #1 !! 0/1 nodes are available: 1 Insufficient cpu.
        "#]],
    );
}

#[test]
fn pods_that_limit_their_nodes_share_a_diagnosis() {
    let script = "0 node a cpu=2
         0 node b cpu=4
         0 pod p cpu=3 for=plain-lab only=a
         1 pod q cpu=3 for=plain-lab only=a
         2 pod r cpu=3 for=plain-lab only=a+b";
    check(
        script,
        1,
        expect![[r#"
            0s p #1 !! 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [Only].
            1s q #1 !! 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [Only].
            2s r #1 -> b
            2s bind r to b
        "#]],
    );
}

#[test]
fn a_diagnosis_is_repeated_only_for_pods_of_equal_priority() {
    let script = "0 node a cpu=2
         0 pod low cpu=2 prio=3 on=a
         1 pod p cpu=2 oust=yes for=plain-lab only=a
         2 pod q cpu=2 oust=yes for=plain-lab only=a prio=2
         2 pod s cpu=2 oust=yes for=plain-lab only=a prio=2
         3 pod r cpu=2 oust=yes for=plain-lab only=a prio=4";
    check(
        script,
        6,
        expect![[r#"
            1s p #1 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            2s q #1 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            2s s #1 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            3s r #1 !! 0/1 nodes are available: 1 Insufficient cpu.
            3s evict low for r
            3s nominate r to a
            3s p #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            3s q #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
            3s r #2 -> a
            3s bind r to a
            3s s #2 !! 0/1 nodes are available: 1 Insufficient cpu. nobody to oust
        "#]],
    );
}

#[test]
fn a_node_that_cannot_be_judged_is_an_error_although_another_fits() {
    let script = "0 node a cpu=2 sound=yes
         0 node b cpu=2
         0 pod p cpu=1 broken=yes for=plain-lab";
    check(
        script,
        1,
        expect![[r#"
        0s p #1 error: running "Broken" filter plugin: cannot judge
    "#]],
    );
}

#[test]
fn a_label_that_is_no_topology_key_changes_one_node_only() {
    let mut lab = Lab::default();
    for line in [
        "0 node a cpu=2",
        "0 node b cpu=2",
        "0 pod p cpu=2",
        "1 node b cpu=2 zone=z",
        "2 pod q cpu=1 zone=z",
        "3 node b cpu=2 zone=z colour=red",
        "4 pod r cpu=1 zone=z",
        "5 pod s cpu=1 zone=z",
    ] {
        lab.act(line);
    }
    assert_eq!(lab.node_sets_built(), 1);
    let trace = lab.trace();
    let bound = ["p to a", "q to b", "r to b"].map(|bound| trace.contains(bound));
    assert_eq!(bound, [true; 3], "{trace}");
}

/// What is remembered follows nodes that come, go, get a taint or another size: all nodes are looked at for the first of the
/// equal pods only.
#[test]
fn nodes_that_come_go_or_change_are_patched() {
    let mut lab = Lab::new(Options { scans: Scans::Never, ..Options::default() });
    for line in ["0 node a cpu=2", "0 node b cpu=2", "0 node c cpu=2"] {
        lab.act(line);
    }
    lab.act("0 pod p cpu=2 for=plain-lab");
    let made = lab.rankings_made();
    assert_ne!(made, 0);
    for line in [
        "1 delete node b",
        "1 pod q cpu=2 for=plain-lab",
        "2 node d cpu=2",
        "2 pod r cpu=2 for=plain-lab",
        "3 node a cpu=4",
        "3 pod s cpu=2 for=plain-lab",
        "4 node d cpu=4 taint=old",
        "4 pod t cpu=2 for=plain-lab",
        "5 node d cpu=6 taint=old cordoned=yes",
        "5 pod u cpu=2 for=plain-lab",
        "6 node c cpu=2 zone=z",
        "6 node b cpu=2",
        "6 pod v cpu=2 for=plain-lab",
    ] {
        lab.act(line);
        assert_eq!((lab.node_sets_built(), lab.rankings_made()), (1, made), "{line}");
    }
    assert_eq!(lab.audited(), 7, "all are decided from memory");
    let trace = lab.trace();
    let bound = ["p to a", "q to c", "r to d", "s to a", "t to d", "u to d", "v to b"];
    let bound = bound.map(|bound| trace.contains(bound));
    assert_eq!(bound, [true; 7], "{trace}");
}

/// A random line of a script at this second: a pod comes, goes or comes to a node, or a node comes, goes or changes.
fn random_line(rng: &mut Pcg64, second: u32) -> String {
    let earlier = rng.random_range(0..second.max(1));
    let mut any = |from: &[&'static str]| from[rng.random_range(0..from.len())];
    let node = any(&["a", "b", "c", "d", "e", "b1", "b2"]);
    let zone = any(&["", " zone=x", " zone=y", " zone=z"]);
    let cpu = any(&["1", "2", "3"]);
    let what = match any(&["pod", "pod", "pod", "on", "gone", "node", "node", "no node"]) {
        "pod" => {
            let profile = any(&["", " for=plain-lab", " for=plain-lab", " for=filters-lab"]);
            let ousts = any(&[" prio=1", " prio=5 oust=yes", " prio=9 oust=yes"]);
            format!("pod p{second} cpu={cpu}{zone}{profile}{ousts}")
        }
        "on" => format!("pod p{second} cpu={cpu}{zone} on={node}"),
        "gone" => format!("delete pod p{earlier}"),
        "node" => {
            let taint = any(&["", "", " taint=old", " cordoned=yes"]);
            format!("node {node} cpu={cpu}{zone}{taint}")
        }
        _ => format!("delete node {node}"),
    };
    format!("{second} {what}")
}

/// Rankings, domain counts, diagnoses with candidates, nominations and the order of names are patched change by change. After
/// each of them they are as if they were derived from the nodes.
#[test]
fn after_every_change_all_is_as_if_it_were_derived_anew() {
    let mut n_audited = 0;
    for seed in 0..30 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut lab = Lab::default();
        if seed % 2 == 1 {
            lab.act("0 evictions linger");
        }
        for second in 0..60 {
            let line = random_line(&mut rng, second);
            lab.act(&line);
            assert_eq!(lab.audit_memory(), [""; 0], "seed {seed}, after {line:?}");
        }
        n_audited += lab.audited();
    }
    assert!(200 < n_audited, "only {n_audited} decisions are made from memory");
}
