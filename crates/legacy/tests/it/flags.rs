//! The changes that old flags make to a configuration.

use expect_test::{Expect, expect};
use plimsoll_config::Configuration;
use plimsoll_document::Document;
use plimsoll_legacy::config::{
    Migration, PolicyPlace, Provider, load, load_beside_policy, policy_place, rename_profile,
    set_hard_pod_affinity_weight, with_policy, with_provider,
};

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

/// Combines a Policy with a configuration whose fields after apiVersion and kind are `text`.
#[track_caller]
fn check(text: &str, expected: &Expect) {
    let text = format!("{HEAD}{text}");
    let documents = Document::parse_all("s.yaml", &text).expect("it is YAML");
    let policy = loaded("policy.yaml", POLICY);
    let combined = with_policy(loaded("s.yaml", &text), &documents[0], &policy);
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
fn a_configuration_of_v1alpha1_names_the_place_of_its_policy() {
    let text = |source: &str| {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\n\
             schedulerName: own\nbindTimeoutSeconds: 20\nalgorithmSource: {source}\n"
        )
    };
    let document = |text: &str| Document::parse_all("s.yaml", text).expect("it is YAML").remove(0);
    let provider = document(&text("{provider: DefaultProvider}"));
    assert_eq!(policy_place(&provider), None);
    assert_eq!(
        policy_place(&document(
            &text("{policy: {file: {path: p.json}}}").replace("v1alpha1", "v1")
        )),
        None
    );
    let named = text("{policy: {file: {path: p.json}}}");
    assert_eq!(policy_place(&document(&named)), Some(PolicyPlace::File("p.json".to_owned())));
    let map =
        |map: &str| policy_place(&document(&text(&format!("{{policy: {{configMap: {map}}}}}"))));
    let at = |namespace: &str| {
        let (namespace, name) = (namespace.to_owned(), "p".to_owned());
        Some(PolicyPlace::ConfigMap { namespace, name })
    };
    assert_eq!(map("{name: p}"), at("kube-system"));
    assert_eq!(map("{name: p, namespace: team-a}"), at("team-a"));
    assert_eq!(map("{namespace: team-a}"), None);
    let in_map = text("{policy: {configMap: {name: p}}}");
    assert!(load_beside_policy("s.yaml", &in_map, &catalogue()).is_ok());
    assert!(load("s.yaml", &named, &catalogue()).is_err());
    let beside = load_beside_policy("s.yaml", &named, &catalogue()).expect("it is valid");
    let policy = loaded("p.json", POLICY);
    let configuration = with_policy(beside, &document(&named), &policy).expect("it has no plugins");
    assert_eq!(configuration.profiles[0].points, policy.profiles[0].points);
    assert_eq!(configuration.origin.priorities, policy.origin.priorities);
    expect![[r#"
        s.yaml:4: bindTimeoutSeconds: is bindTimeoutSeconds in the args of VolumeBinding in v1
        s.yaml:5: algorithmSource: is dropped: v1 lists the plugins of the Policy
        p.json:6: alwaysCheckAllPredicates: has no counterpart in v1: if several filters reject a node, only the reasons of the first are reported
        profile own: keeps weights that differ from those of v1: ImageLocality 3 (v1: 1); to use those of v1, write them
        profile own: leaves out plugins of v1's default profile: NodeAffinity, NodePorts, NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, PodTopologySpread, InterPodAffinity, NodeResourcesBalancedAllocation; enable them to use them
        percentageOfNodesToScore: is not set: Plimsoll looks at all nodes, kube-scheduler at a share that adapts to their number; set it to 0 to use such a share
        equally good nodes: `simulate` and `explain` take the one whose name comes first, `run` and kube-scheduler one at random; `simulate --tie-break random` takes one at random, too
        unschedulable pods: are tried again after 5 minutes at the latest (before 1.24 after 60 seconds); nothing needs to be done: an event that could help a pod wakes it at once
        plugins that still exist: work as in the release that decides, and pods with scheduling gates wait in every profile
    "#]].assert_eq(&lines(&Migration::of(&configuration, &catalogue()).notes));
    let fields = format!("{named}hardPodAffinitySymmetricWeight: 5\n");
    let weighed = |configuration: Configuration| {
        let text = lines(&configuration.warnings);
        let args = &configuration.profiles[0].args;
        let weight = &args["InterPodAffinity"]["hardPodAffinityWeight"];
        format!("{text}weight {weight}, timeout {}\n", args["VolumeBinding"]["bindTimeoutSeconds"])
    };
    let beside = load_beside_policy("s.yaml", &fields, &catalogue()).expect("it is valid");
    let all = loaded("all.json", "{kind: Policy, apiVersion: v1}");
    let both = with_policy(beside, &document(&fields), &all).expect("it has no plugins");
    expect![[r#"
        s.yaml:6: hardPodAffinitySymmetricWeight: has no effect: the Policy sets it, or else it is 1
        weight 1, timeout 20
    "#]]
    .assert_eq(&weighed(both));
    let plain = fields.replace("{policy: {file: {path: p.json}}}", "{}");
    let both =
        with_provider(loaded("s.yaml", &plain), &document(&plain), Provider::Default, &catalogue());
    expect![[r#"
        weight 5, timeout 20
    "#]]
    .assert_eq(&weighed(both.expect("it has no plugins")));
    let configured = format!("{named}plugins: {{score: {{disabled: [{{name: '*'}}]}}}}\n");
    let beside = load_beside_policy("s.yaml", &configured, &catalogue()).expect("it is valid");
    let error = with_policy(beside, &document(&configured), &policy).expect_err("it has plugins");
    expect!["s.yaml:6: plugins: cannot set a Plugin config and Policy config: keep one profile here, without plugins and args, or leave out the flag that names a Policy"].assert_eq(&error.to_string());
}

#[test]
fn old_configurations_apply_their_plugins_on_top_of_a_provider() {
    let upon = |version: &str, enabled: &str| {
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n\
             profiles: [{{plugins: {{score: {{enabled: [{{name: {enabled}, weight: 5}}]}}}}}}]\n"
        );
        let document = Document::parse_all("s.yaml", &text).expect("it is YAML").remove(0);
        let provider = Provider::ClusterAutoscaler;
        match with_provider(loaded("s.yaml", &text), &document, provider, &catalogue()) {
            Err(errors) => lines(&errors),
            Ok(configuration) => {
                let shown = shown(&configuration.profiles);
                let scores = shown.lines().find(|line| line.starts_with("  score"));
                format!("{}\n", scores.expect("it scores").trim_start())
            }
        }
    };
    expect![[r#"
        score: NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesMostAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=2 TaintToleration=1 NodeLabel=5
    "#]].assert_eq(&upon("v1beta1", "NodeLabel"));
    expect![[r#"
        score: NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesMostAllocated=1 NodeAffinity=1 NodePreferAvoidPods=10000 TaintToleration=1 PodTopologySpread=1 NodeLabel=5
    "#]].assert_eq(&upon("v1alpha2", "NodeLabel"));
    expect![[r#"
        s.yaml:3: profiles[0].plugins.score.enabled[0].name: plugin "NodeResourcesMostAllocated" already registered as "ScorePlugin": it is enabled by default, so disable it here, too
    "#]].assert_eq(&upon("v1beta1", "NodeResourcesMostAllocated"));
    expect![[r#"
        s.yaml:3: profiles[0].plugins: cannot be combined with an algorithm provider: leave out --algorithm-provider, and enable its plugins here
    "#]].assert_eq(&upon("v1", "NodeLabel"));
}

#[test]
fn a_policy_can_be_combined_with_a_configuration_without_plugins() {
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
        s.yaml:3: extenders: has no effect: the extenders of the Policy replace them
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
    rename_profile(&mut configuration, "own");
    assert_eq!(configuration.profiles[0].scheduler_name, "own");
    assert_eq!(configuration.effective.profiles[0].scheduler_name.as_deref(), Some("own"));
}

#[test]
fn the_weight_of_hard_affinity_is_set_where_it_counts() {
    let mut configuration = Configuration::default_for(&catalogue());
    set_hard_pod_affinity_weight(&mut configuration, 7);
    assert_eq!(configuration.profiles[0].args["InterPodAffinity"]["hardPodAffinityWeight"], 7);
    let again = loaded("again.json", &configuration.effective.to_value().to_string());
    assert_eq!(again.profiles[0].args, configuration.profiles[0].args);
}
