//! How plugin sets are merged with those of the default profile.

use expect_test::{Expect, expect};
use plimsoll_config::{Catalogue, Point, load};
use plimsoll_framework::{FeatureGates, Release};
use plimsoll_plugins::{default_profile, in_tree};

use crate::catalogue::{HEAD, lines, profiles};

#[track_caller]
fn check(text: &str, expected: &Expect) {
    expected.assert_eq(&profiles(text));
}

/// Only what `text` changes about one point.
#[track_caller]
fn check_point(point: &str, text: &str, expected: &Expect) {
    let start = format!("  {point}: ");
    let shown = profiles(text);
    let plugins = shown.lines().find_map(|line| line.strip_prefix(&start));
    expected.assert_eq(plugins.unwrap_or_default());
}

#[test]
fn without_profiles_there_is_the_default_one() {
    check(
        "",
        &expect![[r#"
            default-scheduler
              preEnqueue: SchedulingGates DefaultPreemption
              queueSort: PrioritySort
              preFilter: NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              filter: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              postFilter: DefaultPreemption
              preScore: TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread InterPodAffinity NodeResourcesBalancedAllocation
              score: TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1
              bind: DefaultBinder
              unavailable: VolumeBinding DynamicResources
        "#]],
    );
}

#[test]
fn a_single_profile_may_be_nameless() {
    check(
        "profiles:\n- percentageOfNodesToScore: 5\n",
        &expect![[r#"
            default-scheduler
              preEnqueue: SchedulingGates DefaultPreemption
              queueSort: PrioritySort
              preFilter: NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              filter: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              postFilter: DefaultPreemption
              preScore: TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread InterPodAffinity NodeResourcesBalancedAllocation
              score: TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1
              bind: DefaultBinder
              unavailable: VolumeBinding DynamicResources
        "#]],
    );
}

#[test]
fn a_plugin_is_disabled_at_one_point_only() {
    let text = "
profiles:
- plugins:
    score:
      disabled: [{name: NodeAffinity}]
";
    check(
        text,
        &expect![[r#"
            default-scheduler
              preEnqueue: SchedulingGates DefaultPreemption
              queueSort: PrioritySort
              preFilter: NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              filter: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              postFilter: DefaultPreemption
              preScore: TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread InterPodAffinity NodeResourcesBalancedAllocation
              score: TaintToleration=3 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1
              bind: DefaultBinder
              unavailable: VolumeBinding DynamicResources
        "#]],
    );
}

#[test]
fn a_star_disables_all_defaults_of_a_point() {
    let text = "
profiles:
- plugins:
    score:
      disabled: [{name: '*'}]
      enabled: [{name: ImageLocality}]
    preScore:
      disabled: [{name: '*'}]
";
    check(
        text,
        &expect![[r#"
            default-scheduler
              preEnqueue: SchedulingGates DefaultPreemption
              queueSort: PrioritySort
              preFilter: NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              filter: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              postFilter: DefaultPreemption
              score: ImageLocality=1
              bind: DefaultBinder
              unavailable: VolumeBinding DynamicResources
        "#]],
    );
}

#[test]
fn a_weight_at_the_point_overrides_the_default_one() {
    let text = "
profiles:
- plugins:
    score:
      enabled:
      - {name: ImageLocality, weight: 10}
      - {name: NodeAffinity, weight: 7}
";
    check_point(
        "score",
        text,
        &expect![
            "ImageLocality=10 NodeAffinity=7 TaintToleration=3 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1"
        ],
    );
}

#[test]
fn an_entry_without_weight_weighs_one() {
    let text = "
profiles:
- plugins:
    score:
      enabled: [{name: TaintToleration}, {name: NodeAffinity, weight: 0}]
";
    check_point(
        "score",
        text,
        &expect![
            "TaintToleration=1 NodeAffinity=1 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1"
        ],
    );
}

#[test]
fn a_plugin_that_no_default_names_comes_last() {
    let text = "
profiles:
- plugins:
    score:
      enabled: [{name: ExampleScore, weight: 4}, {name: ImageLocality, weight: 2}]
";
    check_point(
        "score",
        text,
        &expect![
            "ImageLocality=2 TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ExampleScore=4"
        ],
    );
}

#[test]
fn disabled_and_enabled_again_is_enabled_at_the_point() {
    let text = "
profiles:
- plugins:
    score:
      disabled: [{name: PodTopologySpread}]
      enabled: [{name: PodTopologySpread, weight: 19}]
";
    check_point(
        "score",
        text,
        &expect![
            "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1 PodTopologySpread=19"
        ],
    );
}

#[test]
fn multi_point_enables_a_plugin_wherever_it_works() {
    let text = "
profiles:
- plugins:
    multiPoint:
      enabled: [{name: ExampleScore, weight: 5}, {name: GangScheduling}]
";
    check(
        text,
        &expect![[r#"
            default-scheduler
              preEnqueue: SchedulingGates DefaultPreemption GangScheduling
              queueSort: PrioritySort
              preFilter: NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              filter: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity ExampleScore
              postFilter: DefaultPreemption
              preScore: TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread InterPodAffinity NodeResourcesBalancedAllocation
              score: TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1 ExampleScore=5
              permit: GangScheduling
              bind: DefaultBinder
              unavailable: VolumeBinding DynamicResources
        "#]],
    );
}

#[test]
fn multi_point_changes_the_weight_of_a_default_in_its_place() {
    let text = "
profiles:
- plugins:
    multiPoint:
      enabled: [{name: NodeResourcesFit, weight: 9}]
";
    check_point(
        "score",
        text,
        &expect![
            "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=9 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1"
        ],
    );
}

#[test]
fn multi_point_moves_what_it_disables_and_enables() {
    let text = "
profiles:
- plugins:
    multiPoint:
      disabled: [{name: TaintToleration}, {name: NodePorts}]
      enabled: [{name: TaintToleration, weight: 4}]
";
    check_point(
        "filter",
        text,
        &expect![
            "NodeUnschedulable NodeName NodeAffinity NodeResourcesFit PodTopologySpread InterPodAffinity TaintToleration"
        ],
    );
    check_point(
        "score",
        text,
        &expect![
            "NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1 TaintToleration=4"
        ],
    );
}

#[test]
fn multi_point_star_leaves_only_what_is_enabled() {
    let text = "
profiles:
- plugins:
    multiPoint:
      disabled: [{name: '*'}]
      enabled: [{name: DefaultBinder}, {name: PrioritySort}, {name: ExampleScore}]
";
    check(
        text,
        &expect![[r#"
            default-scheduler
              queueSort: PrioritySort
              filter: ExampleScore
              score: ExampleScore=1
              bind: DefaultBinder
        "#]],
    );
}

#[test]
fn the_point_takes_precedence_over_multi_point_in_order_and_weight() {
    let text = "
profiles:
- plugins:
    multiPoint:
      disabled: [{name: '*'}]
      enabled:
      - {name: PrioritySort}
      - {name: DefaultBinder}
      - {name: ExampleScore}
      - {name: NodeAffinity, weight: 5}
      - {name: ImageLocality, weight: 5}
    score:
      enabled:
      - {name: TaintToleration, weight: 2}
      - {name: ImageLocality, weight: 6}
      - {name: NodeAffinity, weight: 3}
";
    check_point(
        "score",
        text,
        &expect!["ImageLocality=6 NodeAffinity=3 ExampleScore=1 TaintToleration=2"],
    );
}

#[test]
fn a_multi_point_plugin_can_be_disabled_at_a_point() {
    let text = "
profiles:
- plugins:
    multiPoint:
      enabled: [{name: ExampleScore}]
    filter:
      disabled: [{name: ExampleScore}]
";
    check_point(
        "filter",
        text,
        &expect![
            "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity"
        ],
    );
    check_point(
        "score",
        text,
        &expect![
            "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1 ExampleScore=1"
        ],
    );
}

#[test]
fn every_profile_is_merged_separately() {
    let text = "
profiles:
- schedulerName: all
- schedulerName: no-score
  plugins:
    preScore: {disabled: [{name: '*'}]}
    score: {disabled: [{name: '*'}]}
";
    check(
        text,
        &expect![[r#"
            all
              preEnqueue: SchedulingGates DefaultPreemption
              queueSort: PrioritySort
              preFilter: NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              filter: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              postFilter: DefaultPreemption
              preScore: TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread InterPodAffinity NodeResourcesBalancedAllocation
              score: TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 NodeResourcesBalancedAllocation=1 ImageLocality=1
              bind: DefaultBinder
              unavailable: VolumeBinding DynamicResources
            no-score
              preEnqueue: SchedulingGates DefaultPreemption
              queueSort: PrioritySort
              preFilter: NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              filter: NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit PodTopologySpread InterPodAffinity
              postFilter: DefaultPreemption
              bind: DefaultBinder
              unavailable: VolumeBinding DynamicResources
        "#]],
    );
}

#[test]
fn another_queue_sort_replaces_the_default_one() {
    let text = "
profiles:
- plugins:
    queueSort:
      disabled: [{name: '*'}]
      enabled: [{name: OtherQueueSort}]
";
    check_point("queueSort", text, &expect!["OtherQueueSort"]);
}

#[test]
fn plugins_of_pod_groups_have_their_points() {
    let text = "
profiles:
- plugins:
    placementGenerate: {enabled: [{name: TopologyPlacementGenerator}]}
    placementScore: {enabled: [{name: PodGroupPodsCount}]}
";
    check_point("placementGenerate", text, &expect!["TopologyPlacementGenerator"]);
    check_point("placementScore", text, &expect!["PodGroupPodsCount=1"]);
}

#[test]
fn a_disabled_plugin_is_not_reported_as_unavailable() {
    let text = "
profiles:
- plugins:
    multiPoint:
      disabled: [{name: VolumeBinding}, {name: DynamicResources}]
";
    check_point("unavailable", text, &expect![[""]]);
}

/// The plugins that make room for groups in the configuration whose fields after apiVersion and kind are `text`, or what is
/// wrong with it, under a release with groups of pods.
fn room_for_groups(release: Release, text: &str) -> String {
    let gates = FeatureGates::of(release).with("GenericWorkload", true);
    let catalogue = Catalogue::of(&in_tree(), &default_profile()).with_gates(gates);
    match load("test.yaml", &format!("{HEAD}{text}"), &catalogue) {
        Ok(configuration) => {
            let plugins = &configuration.profiles[0].points[&Point::PodGroupPostFilter];
            plugins.iter().map(|plugin| plugin.name).collect::<Vec<_>>().join(" ")
        }
        Err(errors) => lines(&errors),
    }
}

#[test]
fn room_is_made_for_groups_unless_that_is_switched_off() {
    let room = |text| room_for_groups(Release::V1_37, text);
    assert_eq!(room(""), "DefaultPreemption");
    let off =
        "profiles: [{plugins: {podGroupPostFilter: {disabled: [{name: DefaultPreemption}]}}}]";
    assert_eq!(room(off), "");
    // What is said about pods does not matter.
    let pods = "profiles: [{plugins: {postFilter: {disabled: [{name: '*'}]}}}]";
    assert_eq!(room(pods), "DefaultPreemption");
    let nowhere = "profiles: [{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}}]";
    assert_eq!(room(nowhere), "");
    let only_there = "profiles: [{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}, \
                      podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}}}]";
    assert_eq!(room(only_there), "DefaultPreemption");
}

#[test]
fn a_plugin_that_makes_no_room_for_groups_is_refused_there() {
    let text = "profiles:\n- plugins:\n    podGroupPostFilter: {enabled: [{name: NodeName}]}\n";
    expect![[r#"
        test.yaml:5: profiles[0].plugins.podGroupPostFilter.enabled[0].name: plugin "NodeName" does not extend PodGroupPostFilterPlugin plugin
    "#]]
    .assert_eq(&room_for_groups(Release::V1_37, text));
}

#[test]
fn release_1_36_has_no_point_that_makes_room_for_groups() {
    assert_eq!(room_for_groups(Release::V1_36, ""), "");
    let text = "profiles:\n- plugins:\n    podGroupPostFilter: {}\n";
    expect![[r#"
        test.yaml:5: profiles[0].plugins.podGroupPostFilter: unknown field `podGroupPostFilter`: release 1.36 does not have it, and makes room for groups with the plugins at `postFilter`; remove it, or decide as release 1.37
    "#]]
    .assert_eq(&room_for_groups(Release::V1_36, text));
}
