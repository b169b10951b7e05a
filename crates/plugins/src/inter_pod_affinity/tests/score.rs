use plimsoll_testkit::expect;

use super::check;

#[test]
fn domains_of_pods_that_a_pod_likes_come_first_and_of_those_it_dislikes_last() {
    check(
        "
        node a zone=z1
        node b zone=z1
        node c zone=z2
        node d
        pod db app=db on a
        pod web app=web on c
        pod p likes-5:zone:app=db
        pod q dislikes-5:zone:app=db
        pod r likes-5:zone:app=db likes-3:zone:app=web
        ",
        &expect![[r"
            p a Success
            p b Success
            p c Success
            p d Success
            p a score 100
            p b score 100
            p c score 0
            p d score 0
            q a Success
            q b Success
            q c Success
            q d Success
            q a score 0
            q b score 0
            q c score 100
            q d score 100
            r a Success
            r b Success
            r c Success
            r d Success
            r a score 100
            r b score 100
            r c score 60
            r d score 0
        "]],
    );
}

#[test]
fn weights_add_up_over_pods_terms_and_topology_keys() {
    check(
        "
        node a zone=z1 rack=r1
        node b zone=z1 rack=r2
        node c zone=z2 rack=r1
        node d zone=z2 rack=r2
        pod db app=db on a
        pod db-2 app=db on b
        pod web app=web on d
        pod p likes-2:zone:app=db likes-1:rack:app=db dislikes-3:rack:app=web
        ",
        &expect![[r"
            p a Success
            p b Success
            p c Success
            p d Success
            p a score 100
            p b score 57
            p c score 42
            p d score 0
        "]],
    );
}

#[test]
fn fractions_are_cut_off() {
    check(
        "
        node a zone=z1
        node b zone=z2
        node c zone=z3
        pod x app=x on a
        pod y app=y on b
        pod p likes-7:zone:app=x likes-3:zone:app=y
        ",
        &expect![[r"
            p a Success
            p b Success
            p c Success
            p a score 100
            p b score 42
            p c score 0
        "]],
    );
}

#[test]
fn what_other_pods_like_counts_too() {
    check(
        "
        namespace team-a team=a
        node a zone=z1
        node b zone=z2
        node c zone=z3
        pod friend likes-8:zone:app=p likes-2:zone:app=p@team=a on a
        pod foe dislikes-8:zone:app=p on b
        pod p app=p
        pod team-a/p app=p
        pod q app=q
        ",
        &expect![[r"
            p a Success
            p b Success
            p c Success
            p a score 100
            p b score 0
            p c score 50
            team-a/p a Success
            team-a/p b Success
            team-a/p c Success
            team-a/p a score 100
            team-a/p b score 0
            team-a/p c score 0
            q a Success
            q b Success
            q c Success
            q skips score
        "]],
    );
}

#[test]
fn what_other_pods_want_counts_as_much_as_is_configured() {
    let cluster = "
        node a zone=z1
        node b zone=z2
        node c zone=z3
        pod friend wants:zone:app=p on a
        pod fan likes-20:zone:app=p on b
        pod p app=p
    ";
    check(
        cluster,
        &expect![[r"
        p a Success
        p b Success
        p c Success
        p a score 5
        p b score 100
        p c score 0
    "]],
    );
    check(
        &format!(r#"args {{"hardPodAffinityWeight": 50}}{cluster}"#),
        &expect![[r"
        p a Success
        p b Success
        p c Success
        p a score 100
        p b score 40
        p c score 0
    "]],
    );
    check(
        &format!(r#"args {{"hardPodAffinityWeight": 0}}{cluster}"#),
        &expect![[r"
        p a Success
        p b Success
        p c Success
        p a score 0
        p b score 100
        p c score 0
    "]],
    );
}

#[test]
fn what_other_pods_shun_does_not_count() {
    check(
        "
        node a zone=z1
        node b zone=z2
        pod db app=db shuns:zone:app=p on a
        pod p app=p
        ",
        &expect![[r"
            p a Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules
            p b Success
            p skips score
        "]],
    );
}

#[test]
fn other_pods_can_be_ignored_for_pods_without_preferences() {
    check(
        r#"
        args {"ignorePreferredTermsOfExistingPods": true}
        node a zone=z1
        node b zone=z2
        node c zone=z3
        pod friend app=friend likes-8:zone:app=p on a
        pod db app=db on b
        pod p app=p
        pod q app=p wants:zone:app
        pod r app=p likes-2:zone:app=db
        "#,
        &expect![[r"
            p a Success
            p b Success
            p c Success
            p skips score
            q a Success
            q b Success
            q c UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules
            q skips score
            r a Success
            r b Success
            r c Success
            r a score 100
            r b score 25
            r c score 0
        "]],
    );
}

#[test]
fn a_pod_is_skipped_if_no_term_speaks_of_a_pod_in_a_domain() {
    check(
        "
        node a zone=z1
        node b
        pod db app=db on b
        pod web app=web on a
        pod p likes-5:zone:app=db
        pod q likes-5:rack:app=web
        ",
        &expect![[r"
            p a Success
            p b Success
            p skips score
            q a Success
            q b Success
            q skips score
        "]],
    );
}

#[test]
fn terms_that_cancel_out_make_scores_of_zero() {
    check(
        "
        node a zone=z1
        node b zone=z2
        pod db app=db on a
        pod p likes-5:zone:app=db dislikes-5:zone:app=db
        ",
        &expect![[r"
            p a Success
            p b Success
            p a score 0
            p b score 0
        "]],
    );
}

#[test]
fn preferred_terms_speak_of_pods_in_their_namespaces_only() {
    check(
        "
        namespace team-a team=a
        namespace team-b team=b
        node a zone=z1
        node b zone=z2
        pod team-a/db app=db on a
        pod own likes-5:zone:app=db
        pod named likes-5:zone:app=db@team-a
        pod selected likes-5:zone:app=db@team=a
        pod not-selected likes-5:zone:app=db@team=b
        pod all likes-5:zone:app=db@*
        ",
        &expect![[r"
            own a Success
            own b Success
            own skips score
            named a Success
            named b Success
            named a score 100
            named b score 0
            selected a Success
            selected b Success
            selected a score 100
            selected b score 0
            not-selected a Success
            not-selected b Success
            not-selected skips score
            all a Success
            all b Success
            all a score 100
            all b score 0
        "]],
    );
}
