//! What old flags change about a configuration.

use expect_test::{Expect, expect};
use plimsoll_config::{Configuration, load};
use plimsoll_document::Document;

use crate::catalogue::{HEAD, lines, shown};
use crate::policies::catalogue;

const POLICY: &str = "\
kind: Policy
apiVersion: v1
predicates: [{name: HostName}]
priorities: [{name: ImageLocalityPriority, weight: 3}]
extenders: [{urlPrefix: of-the-policy, filterVerb: filter}]
alwaysCheckAllPredicates: true
";

fn loaded(name: &str, text: &str) -> Configuration {
    load(name, text, &catalogue()).unwrap_or_else(|errors| panic!("{}", lines(&errors)))
}

/// A Policy beside a configuration whose fields after apiVersion and kind are `text`.
#[track_caller]
fn check(text: &str, expected: &Expect) {
    let text = format!("{HEAD}{text}");
    let documents = Document::parse_all("s.yaml", &text).expect("it is YAML");
    let policy = loaded("policy.yaml", POLICY);
    let combined = loaded("s.yaml", &text).with_policy(&documents[0], &policy);
    expected.assert_eq(&match combined {
        Err(error) => format!("{error}\n"),
        Ok(configuration) => {
            let again = configuration.effective.to_value().to_string();
            assert_eq!(
                loaded("again.json", &again).profiles[0].points,
                configuration.profiles[0].points
            );
            assert!(configuration.profiles[0].run_all_filters);
            format!(
                "{}{}backoff of {} s, extender {}\n",
                lines(&configuration.warnings),
                shown(&configuration.profiles),
                configuration.pod_max_backoff_seconds,
                configuration.extenders[0].url_prefix,
            )
        }
    });
}

#[test]
fn a_policy_stands_beside_a_configuration_without_plugins() {
    check(
        "podMaxBackoffSeconds: 60\nprofiles: [{schedulerName: own}]\n",
        &expect![[r#"
        own
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: NodeUnschedulable NodeName TaintToleration
          postFilter: DefaultPreemption
          score: ImageLocality=3
          bind: DefaultBinder
        backoff of 60 s, extender of-the-policy
    "#]],
    );
    check(
        "extenders: [{urlPrefix: of-the-file}]\n",
        &expect![[r#"
        s.yaml:3: extenders: has no effect: the extenders of the Policy take their place
        default-scheduler
          preEnqueue: SchedulingGates
          queueSort: PrioritySort
          filter: NodeUnschedulable NodeName TaintToleration
          postFilter: DefaultPreemption
          score: ImageLocality=3
          bind: DefaultBinder
        backoff of 10 s, extender of-the-policy
    "#]],
    );
}

#[test]
fn a_policy_beside_plugins_is_refused() {
    check(
        "profiles:\n- plugins: {score: {disabled: [{name: '*'}]}}\n",
        &expect![[r#"
            s.yaml:4: profiles[0].plugins: cannot set a Plugin config and Policy config: keep one profile here, without plugins and args, or leave out the flag that names a Policy
        "#]],
    );
    check(
        "profiles:\n- pluginConfig: [{name: InterPodAffinity}]\n",
        &expect![[r#"
            s.yaml:4: profiles[0].pluginConfig: cannot set a Plugin config and Policy config: keep one profile here, without plugins and args, or leave out the flag that names a Policy
        "#]],
    );
    check(
        "profiles:\n- schedulerName: a\n- schedulerName: b\n",
        &expect![[r#"
            s.yaml:3: profiles: cannot set a Plugin config and Policy config: keep one profile here, without plugins and args, or leave out the flag that names a Policy
        "#]],
    );
}

#[test]
fn the_only_profile_is_renamed() {
    let mut configuration = loaded("policy.yaml", POLICY);
    configuration.rename_profile("own");
    assert_eq!(configuration.profiles[0].scheduler_name, "own");
    assert_eq!(configuration.effective.profiles[0].scheduler_name.as_deref(), Some("own"));
}

#[test]
fn the_weight_of_hard_affinity_is_set_where_it_counts() {
    let mut configuration = Configuration::default_for(&catalogue());
    configuration.set_hard_pod_affinity_weight(7);
    assert_eq!(configuration.profiles[0].args["InterPodAffinity"]["hardPodAffinityWeight"], 7);
    let again = loaded("again.json", &configuration.effective.to_value().to_string());
    assert_eq!(again.profiles[0].args, configuration.profiles[0].args);
}
