//! For every rule of a configuration there is a case that breaks it.

use expect_test::{Expect, expect};

use crate::catalogue::errors;

#[track_caller]
fn check(text: &str, expected: &Expect) {
    expected.assert_eq(&errors(text));
}

#[test]
fn the_client_may_not_have_a_negative_burst() {
    check(
        "clientConnection:\n  burst: -1\n",
        &expect![[r#"
            test.yaml:4: clientConnection.burst: Invalid value: -1: must be non-negative
        "#]],
    );
}

#[test]
fn durations_of_the_election_are_positive() {
    let text = "
leaderElection:
  leaseDuration: -1s
  renewDeadline: -2s
  retryPeriod: -3ms
";
    check(
        text,
        &expect![[r#"
            test.yaml:5: leaderElection.leaseDuration: Invalid value: -1s: must be greater than zero
            test.yaml:6: leaderElection.renewDeadline: Invalid value: -2s: must be greater than zero
            test.yaml:7: leaderElection.retryPeriod: Invalid value: -3ms: must be greater than zero
        "#]],
    );
}

#[test]
fn a_lease_is_longer_than_its_renewal() {
    check(
        "leaderElection:\n  leaseDuration: 10s\n",
        &expect![[r#"
            test.yaml:4: leaderElection.leaseDuration: Invalid value: 10s: must be greater than `RenewDeadline`
        "#]],
    );
}

#[test]
fn the_lock_is_a_lease() {
    check(
        "leaderElection:\n  resourceLock: endpoints\n",
        &expect![[r#"
            test.yaml:4: leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"
        "#]],
    );
}

#[test]
fn without_an_election_its_settings_do_not_matter() {
    check(
        "leaderElection: {leaderElect: false, resourceLock: x, retryPeriod: -1s}",
        &expect![[r#"
            no error
        "#]],
    );
}

#[test]
fn parallelism_is_positive() {
    check(
        "parallelism: 0\n",
        &expect![[r#"
            test.yaml:3: parallelism: Invalid value: 0: should be an integer value greater than zero
        "#]],
    );
}

#[test]
fn percentages_are_between_0_and_100() {
    let text = "
percentageOfNodesToScore: 101
profiles:
- percentageOfNodesToScore: -1
";
    check(
        text,
        &expect![[r#"
            test.yaml:4: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]
            test.yaml:6: profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]
        "#]],
    );
}

#[test]
fn backoffs_are_positive_and_in_order() {
    check(
        "podInitialBackoffSeconds: 0\n",
        &expect![[r#"
            test.yaml:3: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0
        "#]],
    );
    check(
        "podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 4\n",
        &expect![[r#"
            test.yaml:4: podMaxBackoffSeconds: Invalid value: 4: must be greater than or equal to PodInitialBackoffSeconds
        "#]],
    );
}

#[test]
fn several_profiles_have_names_that_differ() {
    let text = "
profiles:
- schedulerName: a
- schedulerName: a
- schedulerName: a
- percentageOfNodesToScore: 1
";
    check(
        text,
        &expect![[r#"
            test.yaml:6: profiles[1].schedulerName: Duplicate value: profiles[0].schedulerName
            test.yaml:7: profiles[2].schedulerName: Duplicate value: profiles[1].schedulerName
            test.yaml:8: profiles[3].schedulerName: Required value
        "#]],
    );
    check(
        "profiles:\n- schedulerName: ''\n",
        &expect![[r#"
            test.yaml:4: profiles[0].schedulerName: Required value
        "#]],
    );
}

#[test]
fn removed_plugins_are_refused() {
    let text = "
profiles:
- plugins:
    filter:
      enabled:
      - name: EBSLimits
      - name: NodeName
      - name: GCEPDLimits
    multiPoint:
      enabled:
      - name: CinderLimits
    placementScore:
      enabled:
      - name: CinderLimits
  pluginConfig:
  - name: AzureDiskLimits
";
    check(
        text,
        &expect![[r#"
            test.yaml:8: profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")
            test.yaml:10: profiles[0].plugins.filter.enabled[2]: Invalid value: "GCEPDLimits": was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")
            test.yaml:13: profiles[0].plugins.multiPoint.enabled[0].name: PreFilterPlugin "CinderLimits" does not exist
            test.yaml:16: profiles[0].plugins.placementScore.enabled[0].name: PlacementScorePlugin "CinderLimits" does not exist
            test.yaml:18: profiles[0].pluginConfig[0]: Invalid value: "AzureDiskLimits": was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")
        "#]],
    );
}

#[test]
fn a_plugin_that_is_enabled_exists() {
    let text = "
profiles:
- plugins:
    preEnqueue: {enabled: [{name: A}]}
    queueSort: {enabled: [{name: A}]}
    preFilter: {enabled: [{name: A}]}
    filter: {enabled: [{name: A}]}
    postFilter: {enabled: [{name: A}]}
    preScore: {enabled: [{name: A}]}
    score: {enabled: [{name: A}]}
    reserve: {enabled: [{name: A}]}
    permit: {enabled: [{name: A}]}
    preBind: {enabled: [{name: A}]}
    bind: {enabled: [{name: A}]}
    postBind: {enabled: [{name: A}]}
    placementGenerate: {enabled: [{name: A}]}
    placementScore: {enabled: [{name: A}]}
    multiPoint: {enabled: [{name: A}]}
";
    check(
        text,
        &expect![[r#"
            test.yaml:6: profiles[0].plugins.preEnqueue.enabled[0].name: PreEnqueuePlugin "A" does not exist
            test.yaml:7: profiles[0].plugins.queueSort.enabled[0].name: QueueSortPlugin "A" does not exist
            test.yaml:8: profiles[0].plugins.preFilter.enabled[0].name: PreFilterPlugin "A" does not exist
            test.yaml:9: profiles[0].plugins.filter.enabled[0].name: FilterPlugin "A" does not exist
            test.yaml:10: profiles[0].plugins.postFilter.enabled[0].name: PostFilterPlugin "A" does not exist
            test.yaml:11: profiles[0].plugins.preScore.enabled[0].name: PreScorePlugin "A" does not exist
            test.yaml:12: profiles[0].plugins.score.enabled[0].name: ScorePlugin "A" does not exist
            test.yaml:13: profiles[0].plugins.reserve.enabled[0].name: ReservePlugin "A" does not exist
            test.yaml:14: profiles[0].plugins.permit.enabled[0].name: PermitPlugin "A" does not exist
            test.yaml:15: profiles[0].plugins.preBind.enabled[0].name: PreBindPlugin "A" does not exist
            test.yaml:16: profiles[0].plugins.bind.enabled[0].name: BindPlugin "A" does not exist
            test.yaml:17: profiles[0].plugins.postBind.enabled[0].name: PostBindPlugin "A" does not exist
            test.yaml:18: profiles[0].plugins.placementGenerate.enabled[0].name: PlacementGeneratePlugin "A" does not exist
            test.yaml:19: profiles[0].plugins.placementScore.enabled[0].name: PlacementScorePlugin "A" does not exist
            test.yaml:20: profiles[0].plugins.multiPoint.enabled[0].name: PreFilterPlugin "A" does not exist
        "#]],
    );
}

#[test]
fn a_plugin_works_only_at_its_points() {
    let text = "
profiles:
- plugins:
    filter:
      enabled:
      - name: ImageLocality
    score:
      enabled:
      - name: NodeName
";
    check(
        text,
        &expect![[r#"
            test.yaml:8: profiles[0].plugins.filter.enabled[0].name: plugin "ImageLocality" does not extend FilterPlugin plugin
            test.yaml:11: profiles[0].plugins.score.enabled[0].name: plugin "NodeName" does not extend ScorePlugin plugin
        "#]],
    );
}

#[test]
fn a_plugin_is_enabled_once_at_a_point() {
    let text = "
profiles:
- plugins:
    filter:
      enabled:
      - name: NodeName
      - name: NodeName
";
    check(
        text,
        &expect![[r#"
            test.yaml:9: profiles[0].plugins.filter.enabled[1].name: plugin "NodeName" already registered as "FilterPlugin"
        "#]],
    );
}

#[test]
fn a_plugin_is_enabled_once_by_multi_point() {
    let text = "
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: ExampleScore
      - name: ExampleScore
    filter:
      disabled:
      - name: ExampleScore
";
    check(
        text,
        &expect![[r#"
            test.yaml:9: profiles[0].plugins.multiPoint.enabled[1].name: plugin "ExampleScore" already registered as "ScorePlugin"
        "#]],
    );
}

#[test]
fn a_default_is_overridden_once_by_multi_point() {
    let text = "
profiles:
- plugins:
    multiPoint:
      enabled:
      - {name: NodeAffinity, weight: 1}
      - {name: NodeAffinity, weight: 2}
";
    check(
        text,
        &expect![[r#"
            test.yaml:8: profiles[0].plugins.multiPoint.enabled[0].name: plugin "NodeAffinity" already registered as "PreFilterPlugin"
        "#]],
    );
}

#[test]
fn a_profile_sorts_the_queue_in_one_way() {
    let text = "
profiles:
- plugins:
    queueSort:
      enabled: [{name: OtherQueueSort}]
";
    check(
        text,
        &expect![[r#"
            test.yaml:6: profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 2
        "#]],
    );
    let text = "
profiles:
- plugins:
    queueSort:
      disabled: [{name: '*'}]
";
    check(
        text,
        &expect![[r#"
            test.yaml:6: profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0
        "#]],
    );
    let text = "
profiles:
- plugins:
    queueSort:
      enabled:
      - name: PrioritySort
      - name: OtherQueueSort
";
    check(
        text,
        &expect![[r#"
            test.yaml:6: profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled
        "#]],
    );
}

#[test]
fn all_profiles_sort_the_queue_in_the_same_way() {
    let text = "
profiles:
- schedulerName: a
- schedulerName: b
  plugins:
    queueSort:
      enabled: [{name: OtherQueueSort}]
      disabled: [{name: '*'}]
";
    check(
        text,
        &expect![[r#"
            test.yaml:8: profiles[1].plugins.queueSort: Invalid value: {"disabled":[{"name":"*"}],"enabled":[{"name":"OtherQueueSort"}]}: must be the same for all profiles
        "#]],
    );
}

#[test]
fn all_profiles_sort_the_queue_with_the_same_args() {
    let text = "
profiles:
- schedulerName: a
  plugins: &sort
    queueSort:
      enabled: [{name: OtherQueueSort}]
      disabled: [{name: '*'}]
  pluginConfig:
  - name: OtherQueueSort
    args: {by: age}
- schedulerName: b
  plugins: *sort
  pluginConfig:
  - name: OtherQueueSort
    args: {by: size}
- schedulerName: c
  plugins: *sort
  pluginConfig:
  - name: OtherQueueSort
    args: {by: age}
";
    check(
        text,
        &expect![[r#"
            test.yaml:15: profiles[1].pluginConfig.args: Invalid value: {"by":"size"}: queueSort must be the same for all profiles
        "#]],
    );
}

#[test]
fn a_profile_binds() {
    let text = "
profiles:
- schedulerName: lazy
  plugins:
    bind:
      disabled: [{name: DefaultBinder}]
";
    check(
        text,
        &expect![[r#"
            test.yaml:7: profiles[0].plugins.bind: at least one bind plugin is needed for profile with scheduler name "lazy"
        "#]],
    );
}

#[test]
fn one_plugin_generates_placements() {
    let text = "
profiles:
- plugins:
    placementGenerate:
      enabled: [{name: TopologyPlacementGenerator}, {name: OtherPlacementGenerator}]
";
    check(
        text,
        &expect![[r#"
            test.yaml:6: profiles[0].plugins.placementGenerate: at most one placement generate plugin is allowed for profile with scheduler name "default-scheduler", but got 2
        "#]],
    );
}

#[test]
fn a_plugin_is_configured_once() {
    let text = "
profiles:
- pluginConfig:
  - name: NodeAffinity
  - name: NodeAffinity
";
    check(
        text,
        &expect![[r#"
            test.yaml:7: profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"
        "#]],
    );
}

#[test]
fn a_plugin_has_no_negative_weight() {
    let text = "
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: ImageLocality
        weight: -1
    score:
      disabled: [{name: TaintToleration}]
      enabled:
      - name: TaintToleration
        weight: -2
      - name: NodeAffinity
        weight: 0
    filter:
      enabled:
      - name: NodeAffinity
        weight: -3
";
    check(
        text,
        &expect![[r#"
            test.yaml:9: profiles[0].plugins.multiPoint.enabled[0].weight: Invalid value: -1: must not be negative: leave it out for a weight of 1
            test.yaml:14: profiles[0].plugins.score.enabled[0].weight: Invalid value: -2: must not be negative: leave it out for a weight of 1
        "#]],
    );
}

#[test]
fn an_extender_that_ranks_has_a_weight() {
    let text = "
extenders:
- urlPrefix: http://localhost
  prioritizeVerb: rank
- urlPrefix: http://localhost
  filterVerb: filter
- urlPrefix: http://localhost
  prioritizeVerb: rank
  weight: -1
";
    check(
        text,
        &expect![[r#"
            test.yaml:5: extenders[0].weight: Invalid value: 0: must have a positive weight applied to it
            test.yaml:11: extenders[2].weight: Invalid value: -1: must have a positive weight applied to it
        "#]],
    );
}

#[test]
fn only_one_extender_binds() {
    let text = "
extenders:
- bindVerb: bind
- bindVerb: bind
";
    check(
        text,
        &expect![[r#"
            test.yaml:4: extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind
        "#]],
    );
}

#[test]
fn extenders_manage_extended_resources_each_once() {
    let text = "
extenders:
- managedResources:
  - name: example.com/foo
  - name: cpu
  - name: a b/c
- managedResources:
  - name: example.com/bar
  - name: example.com/foo
";
    check(
        text,
        &expect![[r#"
            test.yaml:7: extenders[0].managedResources[1].name: Invalid value: "cpu": is an invalid extended resource name
            test.yaml:8: extenders[0].managedResources[2].name: Invalid value: "a b/c": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            test.yaml:11: extenders[1].managedResources[1].name: Invalid value: "example.com/foo": duplicate extender managed resource name
        "#]],
    );
}

#[test]
fn all_errors_are_reported_at_once_in_the_order_of_the_file() {
    let text = "
paralellism: 5
podInitialBackoffSeconds: \"1\"
leaderElection:
  leaderElect: \"true\"
  leaseDuration: 15
extenders:
- tlsConfig:
    caData: not base64
profiles:
- schedulerName: a
  plugins:
    score:
      enabled:
      - name: Typo
        wait: 2
- schedulerName: 5
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: Best
        resource: []
      ignoredResource: [cpu]
";
    check(
        text,
        &expect![[r#"
            test.yaml:4: paralellism: unknown field `paralellism`, expected one of `apiVersion`, `kind`, `parallelism`, `leaderElection`, `clientConnection`, `enableProfiling`, `enableContentionProfiling`, `percentageOfNodesToScore`, `podInitialBackoffSeconds`, `podMaxBackoffSeconds`, `profiles`, `extenders`, `delayCacheUntilActive`
            test.yaml:5: podInitialBackoffSeconds: invalid type: string "1", expected i64
            test.yaml:7: leaderElection.leaderElect: invalid type: string "true", expected a boolean
            test.yaml:8: leaderElection.leaseDuration: invalid type: integer `15`, expected a duration such as "15s"
            test.yaml:11: extenders[0].tlsConfig.caData: illegal base64 data
            test.yaml:17: profiles[0].plugins.score.enabled[0].name: ScorePlugin "Typo" does not exist
            test.yaml:18: profiles[0].plugins.score.enabled[0].wait: unknown field `wait`, expected `name` or `weight`
            test.yaml:19: profiles[1].schedulerName: invalid type: integer `5`, expected a string
            test.yaml:24: profiles[1].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Best": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
            test.yaml:25: profiles[1].pluginConfig[0].args.scoringStrategy.resource: unknown field `resource`, expected one of `type`, `resources`, `requestedToCapacityRatio`
            test.yaml:26: profiles[1].pluginConfig[0].args.ignoredResource: unknown field `ignoredResource`, expected one of `apiVersion`, `kind`, `ignoredResources`, `ignoredResourceGroups`, `scoringStrategy`, `rejectOvercommittedNodes`
        "#]],
    );
}

#[test]
fn null_is_the_same_as_absent() {
    let text = "
parallelism:
leaderElection:
clientConnection: ~
profiles:
- schedulerName: null
  plugins:
    score:
      enabled:
      disabled:
  pluginConfig:
  - name: NodeAffinity
    args:
  - name: DefaultPreemption
    args: {minCandidateNodesAbsolute: null}
extenders:
";
    check(
        text,
        &expect![[r#"
            no error
        "#]],
    );
}
