//! Migrating files of any version to v1.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use plimsoll_config::{Configuration, EnabledPlugin, Form, Point, ResolvedProfile};
use plimsoll_legacy::config::{Migration, Provider, load};
use serde_json::{Value, json};

use crate::catalogue::{catalogue_of_all_releases, lines};
use crate::old_versions::old;

#[track_caller]
fn check(configuration: &Configuration, expected: &Expect) {
    assert_same(configuration, "the test");
    expected.assert_eq(&Migration::of(configuration, &catalogue_of_all_releases()).to_yaml());
}

#[track_caller]
fn check_notes(configuration: &Configuration, expected: &Expect) {
    expected.assert_eq(&lines(&Migration::of(configuration, &catalogue_of_all_releases()).notes));
}

/// Reads the migrated file again: it must resolve to the same.
#[track_caller]
fn assert_same(configuration: &Configuration, what: &str) {
    let catalogue = catalogue_of_all_releases();
    let file = Migration::of(configuration, &catalogue).to_yaml();
    let again = match load("migrated.yaml", &file, &catalogue) {
        Ok(again) => again,
        Err(errors) => panic!("{what}\n{file}\n{}", lines(&errors)),
    };
    let wanted: Vec<_> = configuration.profiles.iter().map(as_in_v1).collect();
    let found: Vec<_> = again.profiles.iter().map(as_in_v1).collect();
    assert_eq!(found, wanted, "{what}\n{file}");
    assert_eq!(again.extenders, configuration.extenders, "{what}\n{file}");
    let numbers = |configuration: &Configuration| {
        let Configuration { pod_initial_backoff_seconds, pod_max_backoff_seconds, .. } =
            configuration;
        (configuration.parallelism, *pod_initial_backoff_seconds, *pod_max_backoff_seconds)
    };
    assert_eq!(numbers(&again), numbers(configuration), "{what}\n{file}");
    let effective = configuration.effective.to_value().to_string();
    if configuration.origin.form != Form::V1
        && let Err(errors) = load("effective.json", &effective, &catalogue)
    {
        panic!("{what}\n{effective}\n{}", lines(&errors));
    }
}

/// The profile with NodeVolumeLimits in place of the plugins that v1 refuses, and with args only of enabled plugins.
pub(crate) fn as_in_v1(profile: &ResolvedProfile) -> ResolvedProfile {
    let is_refused = |plugin: &EnabledPlugin| {
        ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"].contains(&plugin.name)
    };
    let mut profile = profile.clone();
    let filters = &profile.points[&Point::Filter];
    if let Some(first) = filters.iter().position(is_refused) {
        for (point, place) in [(Point::Filter, first), (Point::PreFilter, usize::MAX)] {
            let plugins = profile.points.get_mut(&point).expect("every point is there");
            plugins.retain(|plugin| !is_refused(plugin));
            if plugins.iter().all(|plugin| plugin.name != "NodeVolumeLimits") {
                let limits = EnabledPlugin { name: "NodeVolumeLimits", weight: 0 };
                plugins.insert(place.min(plugins.len()), limits);
            }
        }
    }
    let enabled: BTreeSet<_> = profile.plugins();
    profile.args.retain(|name, _| enabled.contains(name.as_str()));
    profile.args.retain(|name, _| !name.ends_with("Limits"));
    profile
}

#[test]
fn v1beta3_differs_by_plugins_only() {
    check(
        &old("v1beta3", ""),
        &expect![[r#"
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
        - schedulerName: default-scheduler
          plugins:
            multiPoint:
              disabled:
              - {name: DynamicResources}
    "#]],
    );
}

#[test]
fn v1beta2_keeps_its_weights() {
    check(
        &old("v1beta2", ""),
        &expect![[r#"
            apiVersion: kubescheduler.config.k8s.io/v1
            kind: KubeSchedulerConfiguration
            profiles:
            - schedulerName: default-scheduler
              plugins:
                multiPoint:
                  disabled:
                  - {name: DynamicResources}
                preFilter:
                  enabled:
                  - {name: NodeResourcesFit}
                  - {name: NodePorts}
                  - {name: VolumeRestrictions}
                  - {name: PodTopologySpread}
                  - {name: InterPodAffinity}
                  - {name: VolumeBinding}
                  - {name: VolumeZone}
                preScore:
                  disabled:
                  - {name: VolumeBinding}
                  enabled:
                  - {name: InterPodAffinity}
                  - {name: PodTopologySpread}
                score:
                  disabled:
                  - {name: VolumeBinding}
                  enabled:
                  - {name: NodeResourcesBalancedAllocation, weight: 1}
                  - {name: ImageLocality, weight: 1}
                  - {name: InterPodAffinity, weight: 1}
                  - {name: NodeResourcesFit, weight: 1}
                  - {name: NodeAffinity, weight: 1}
                  - {name: PodTopologySpread, weight: 2}
                  - {name: TaintToleration, weight: 1}
        "#]],
    );
    check_notes(
        &old("v1beta2", ""),
        &expect![[r#"
            profile default-scheduler: keeps weights that differ from those of v1: InterPodAffinity 1 (v1: 2), NodeAffinity 1 (v1: 2), TaintToleration 1 (v1: 3); to use those of v1, write them
            profile default-scheduler: leaves out plugins of v1's default profile: DynamicResources; enable them to use them
            profile default-scheduler: AzureDiskLimits, EBSLimits, GCEPDLimits become NodeVolumeLimits, which counts the same volumes as those of CSI drivers, up to the limits that the drivers report for each node; make sure that every node has a CSINode with limits: without one its volumes are not limited, and KUBE_MAX_PD_VOLS has no effect
            percentageOfNodesToScore: is not set: Plimsoll looks at all nodes, kube-scheduler at a share that adapts to their number; set it to 0 to use such a share
            equally good nodes: `simulate` and `explain` take the one whose name comes first, `run` and kube-scheduler one at random; `simulate --tie-break random` takes one at random, too
            unschedulable pods: are tried again after 5 minutes at the latest (before 1.24 after 60 seconds); nothing needs to be done: an event that could help a pod wakes it at once
            plugins that still exist: work as in the release that decides, and pods with scheduling gates wait in every profile
        "#]],
    );
}

#[test]
fn v1beta1_keeps_plugins_that_were_dropped() {
    let text = "
healthzBindAddress: 0.0.0.0:10251
parallelism: 4
percentageOfNodesToScore: 40
leaderElection: {resourceLock: endpoints, leaseDuration: 20s}
podMaxBackoffSeconds: 60
extenders:
- {urlPrefix: 'http://a', filterVerb: f, managedResources: [{name: a.b/c}], httpTimeout: 5s}
profiles:
- schedulerName: mine
  plugins:
    score:
      disabled: [{name: NodeResourcesLeastAllocated}]
      enabled: [{name: RequestedToCapacityRatio, weight: 3}]
  pluginConfig:
  - name: RequestedToCapacityRatio
    args: {shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 7}
";
    check(
        &old("v1beta1", text),
        &expect![[r#"
            apiVersion: kubescheduler.config.k8s.io/v1
            kind: KubeSchedulerConfiguration
            percentageOfNodesToScore: 40
            extenders:
            - urlPrefix: "http://a"
              filterVerb: f
              httpTimeout: "5s"
              managedResources:
              - {name: a.b/c}
            leaderElection: {leaseDuration: "20s"}
            parallelism: 4
            podMaxBackoffSeconds: 60
            profiles:
            - schedulerName: mine
              plugins:
                multiPoint:
                  disabled:
                  - {name: DynamicResources}
                preFilter:
                  enabled:
                  - {name: NodeResourcesFit}
                  - {name: NodePorts}
                  - {name: PodTopologySpread}
                  - {name: InterPodAffinity}
                  - {name: VolumeBinding}
                  - {name: VolumeRestrictions}
                  - {name: NodeVolumeLimits}
                  - {name: VolumeZone}
                preScore:
                  disabled:
                  - {name: NodeResourcesFit}
                  - {name: VolumeBinding}
                  enabled:
                  - {name: InterPodAffinity}
                  - {name: PodTopologySpread}
                score:
                  disabled:
                  - {name: "*"}
                  enabled:
                  - {name: NodeResourcesBalancedAllocation, weight: 1}
                  - {name: ImageLocality, weight: 1}
                  - {name: InterPodAffinity, weight: 1}
                  - {name: NodeAffinity, weight: 1}
                  - {name: NodePreferAvoidPods, weight: 10000}
                  - {name: PodTopologySpread, weight: 2}
                  - {name: TaintToleration, weight: 1}
                  - {name: RequestedToCapacityRatio, weight: 3}
              pluginConfig:
              - name: InterPodAffinity
                args: {hardPodAffinityWeight: 7}
              - name: NodeResourcesFit
                args: {rejectOvercommittedNodes: true}
              - name: RequestedToCapacityRatio
                args:
                  shape:
                  - {score: 10, utilization: 0}
                  - {score: 0, utilization: 100}
        "#]],
    );
    check_notes(
        &old("v1beta1", text),
        &expect![[r#"
            old.yaml:4: healthzBindAddress: is dropped: since 1.23 health and metrics are served only on the secure port, which the flags --bind-address and --secure-port set
            old.yaml:7: leaderElection.resourceLock: is "leases" in v1, which no longer has "endpoints": replicas with different locks do not see each other, so stop the old ones before you start the new
            profile mine: keeps weights that differ from those of v1: InterPodAffinity 1 (v1: 2), NodeAffinity 1 (v1: 2), TaintToleration 1 (v1: 3); to use those of v1, write them
            profile mine: leaves out plugins of v1's default profile: DynamicResources; enable them to use them
            profile mine: AzureDiskLimits, EBSLimits, GCEPDLimits become NodeVolumeLimits, which counts the same volumes as those of CSI drivers, up to the limits that the drivers report for each node; make sure that every node has a CSINode with limits: without one its volumes are not limited, and KUBE_MAX_PD_VOLS has no effect
            profile mine: keeps NodePreferAvoidPods, which kube-scheduler 1.36 does not know; for kube-scheduler, disable it, and taint the nodes with PreferNoSchedule instead of annotating them
            profile mine: keeps RequestedToCapacityRatio, which kube-scheduler 1.36 does not know; for kube-scheduler, enable NodeResourcesFit at score with the same weight and `scoringStrategy: {type: RequestedToCapacityRatio}` with the same shape and resources: it rounds the utilization down, where this plugin rounds it up, and leaves out extended resources that the pod does not request
            profile mine: keeps `rejectOvercommittedNodes` in the args of NodeResourcesFit, which kube-scheduler 1.36 does not know: a node whose pods request more than it has takes only pods that request nothing, as up to 1.22; for kube-scheduler, remove it: pods that do not request what is short may then go to such nodes
            equally good nodes: `simulate` and `explain` take the one whose name comes first, `run` and kube-scheduler one at random; `simulate --tie-break random` takes one at random, too
            unschedulable pods: are tried again after 5 minutes at the latest (before 1.24 after 60 seconds); nothing needs to be done: an event that could help a pod wakes it at once
            plugins that still exist: work as in the release that decides, and pods with scheduling gates wait in every profile
        "#]],
    );
}

#[test]
fn disk_limits_lose_their_args() {
    let text = "profiles:\n- pluginConfig:\n  - {name: EBSLimits, args: {maxVolumes: 3}}\n";
    let configuration = old("v1beta1", text);
    assert_eq!(configuration.profiles[0].args["EBSLimits"]["maxVolumes"], 3);
    assert_same(&configuration, text);
}

#[test]
fn v1alpha1_becomes_a_profile() {
    let text = "
algorithmSource: {provider: ClusterAutoscalerProvider}
hardPodAffinitySymmetricWeight: 5
disablePreemption: true
";
    check(
        &old("v1alpha1", text),
        &expect![[r#"
            apiVersion: kubescheduler.config.k8s.io/v1
            kind: KubeSchedulerConfiguration
            profiles:
            - schedulerName: default-scheduler
              plugins:
                multiPoint:
                  disabled:
                  - {name: DynamicResources}
                  - {name: DefaultPreemption}
                  enabled:
                  - {name: SelectorSpread}
                preFilter:
                  enabled:
                  - {name: NodeResourcesFit}
                  - {name: NodePorts}
                  - {name: InterPodAffinity}
                  - {name: PodTopologySpread}
                  - {name: VolumeRestrictions}
                  - {name: NodeVolumeLimits}
                  - {name: VolumeBinding}
                  - {name: VolumeZone}
                filter:
                  enabled:
                  - {name: NodeUnschedulable}
                  - {name: NodeResourcesFit}
                  - {name: NodeName}
                  - {name: NodePorts}
                  - {name: NodeAffinity}
                  - {name: VolumeRestrictions}
                  - {name: TaintToleration}
                  - {name: NodeVolumeLimits}
                  - {name: VolumeBinding}
                  - {name: VolumeZone}
                  - {name: InterPodAffinity}
                preScore:
                  disabled:
                  - {name: NodeResourcesFit}
                  - {name: VolumeBinding}
                  enabled:
                  - {name: InterPodAffinity}
                  - {name: SelectorSpread}
                  - {name: TaintToleration}
                  - {name: PodTopologySpread}
                score:
                  disabled:
                  - {name: "*"}
                  enabled:
                  - {name: NodeResourcesBalancedAllocation, weight: 1}
                  - {name: ImageLocality, weight: 1}
                  - {name: InterPodAffinity, weight: 1}
                  - {name: NodeResourcesMostAllocated, weight: 1}
                  - {name: NodeAffinity, weight: 1}
                  - {name: NodePreferAvoidPods, weight: 10000}
                  - {name: SelectorSpread, weight: 1}
                  - {name: TaintToleration, weight: 1}
                  - {name: PodTopologySpread, weight: 1}
              pluginConfig:
              - name: InterPodAffinity
                args: {hardPodAffinityWeight: 5}
              - name: NodeResourcesFit
                args: {rejectOvercommittedNodes: true}
              - name: PodTopologySpread
                args: {defaultingType: List}
        "#]],
    );
    check_notes(
        &old("v1alpha1", text),
        &expect![[r#"
            old.yaml:4: algorithmSource: is dropped: v1 lists the plugins of the provider
            old.yaml:5: hardPodAffinitySymmetricWeight: is hardPodAffinityWeight in the args of InterPodAffinity in v1
            old.yaml:6: disablePreemption: is expressed in v1 by disabling all plugins at postFilter
            profile default-scheduler: keeps weights that differ from those of v1: InterPodAffinity 1 (v1: 2), NodeAffinity 1 (v1: 2), TaintToleration 1 (v1: 3), PodTopologySpread 1 (v1: 2); to use those of v1, write them
            profile default-scheduler: leaves out plugins of v1's default profile: DynamicResources, DefaultPreemption; enable them to use them
            profile default-scheduler: AzureDiskLimits, EBSLimits, GCEPDLimits become NodeVolumeLimits, which counts the same volumes as those of CSI drivers, up to the limits that the drivers report for each node; make sure that every node has a CSINode with limits: without one its volumes are not limited, and KUBE_MAX_PD_VOLS has no effect
            profile default-scheduler: keeps NodePreferAvoidPods, which kube-scheduler 1.36 does not know; for kube-scheduler, disable it, and taint the nodes with PreferNoSchedule instead of annotating them
            profile default-scheduler: keeps NodeResourcesMostAllocated, which kube-scheduler 1.36 does not know; for kube-scheduler, enable NodeResourcesFit at score with the same weight and `scoringStrategy: {type: MostAllocated}` with the same resources: it leaves out what a node does not have and extended resources that the pod does not request, and scores an overfull node 100, where this plugin scores 0
            profile default-scheduler: keeps SelectorSpread, which kube-scheduler 1.36 does not know; for kube-scheduler, disable it: PodTopologySpread with `defaultingType: System` spreads the pods of services over nodes and zones, too, with other scores
            profile default-scheduler: keeps `rejectOvercommittedNodes` in the args of NodeResourcesFit, which kube-scheduler 1.36 does not know: a node whose pods request more than it has takes only pods that request nothing, as up to 1.22; for kube-scheduler, remove it: pods that do not request what is short may then go to such nodes
            percentageOfNodesToScore: is not set: Plimsoll looks at all nodes, kube-scheduler at a share that adapts to their number, and before 1.14 at half of them; set it to 0 to use such a share
            equally good nodes: `simulate` and `explain` take the one whose name comes first, `run` and kube-scheduler one at random; `simulate --tie-break random` takes one at random, too
            leaderElection.resourceLock: was "endpointsleases" by default, and is "leases": replicas with different locks do not see each other; stop the old ones before you start the new
            unschedulable pods: are tried again after 5 minutes at the latest (before 1.24 after 60 seconds); nothing needs to be done: an event that could help a pod wakes it at once
            plugins that still exist: work as in the release that decides, and pods with scheduling gates wait in every profile
        "#]],
    );
}

#[test]
fn a_file_of_v1_is_made_short() {
    let text = "
percentageOfNodesToScore: 0
leaderElection: {leaderElect: true}
profiles:
- plugins:
    multiPoint:
      disabled: [{name: '*'}]
      enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: ImageLocality, weight: 3}]
";
    check(
        &old("v1", text),
        &expect![[r#"
            apiVersion: kubescheduler.config.k8s.io/v1
            kind: KubeSchedulerConfiguration
            percentageOfNodesToScore: 0
            profiles:
            - schedulerName: default-scheduler
              plugins:
                multiPoint:
                  disabled:
                  - {name: "*"}
                  enabled:
                  - {name: PrioritySort}
                  - {name: DefaultBinder}
                score:
                  enabled:
                  - {name: ImageLocality, weight: 3}
        "#]],
    );
    check(
        &old("v1", ""),
        &expect![[r#"
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
        - schedulerName: default-scheduler
    "#]],
    );
    check_notes(&old("v1", ""), &expect![[r#""#]]);
}

#[test]
fn providers_are_spelled_out() {
    for name in ["DefaultProvider", "ClusterAutoscalerProvider"] {
        let catalogue = catalogue_of_all_releases();
        let provider: Provider = name.parse().expect("there is one");
        assert_same(&provider.configuration(&catalogue), name);
    }
}

#[test]
fn profiles_agree_on_the_order_of_the_queue() {
    let text = "
profiles:
- schedulerName: a
- schedulerName: b
  plugins:
    score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality}]}
    filter: {disabled: [{name: '*'}]}
    preFilter: {disabled: [{name: '*'}]}
    preScore: {disabled: [{name: '*'}]}
    reserve: {disabled: [{name: '*'}]}
    preBind: {disabled: [{name: '*'}]}
";
    check(
        &old("v1beta2", text),
        &expect![[r#"
            apiVersion: kubescheduler.config.k8s.io/v1
            kind: KubeSchedulerConfiguration
            profiles:
            - schedulerName: a
              plugins:
                multiPoint:
                  disabled:
                  - {name: DynamicResources}
                preFilter:
                  enabled:
                  - {name: NodeResourcesFit}
                  - {name: NodePorts}
                  - {name: VolumeRestrictions}
                  - {name: PodTopologySpread}
                  - {name: InterPodAffinity}
                  - {name: VolumeBinding}
                  - {name: VolumeZone}
                preScore:
                  disabled:
                  - {name: VolumeBinding}
                  enabled:
                  - {name: InterPodAffinity}
                  - {name: PodTopologySpread}
                score:
                  disabled:
                  - {name: VolumeBinding}
                  enabled:
                  - {name: NodeResourcesBalancedAllocation, weight: 1}
                  - {name: ImageLocality, weight: 1}
                  - {name: InterPodAffinity, weight: 1}
                  - {name: NodeResourcesFit, weight: 1}
                  - {name: NodeAffinity, weight: 1}
                  - {name: PodTopologySpread, weight: 2}
                  - {name: TaintToleration, weight: 1}
            - schedulerName: b
              plugins:
                multiPoint:
                  disabled:
                  - {name: "*"}
                  enabled:
                  - {name: SchedulingGates}
                  - {name: PrioritySort}
                  - {name: DefaultPreemption}
                  - {name: ImageLocality}
                  - {name: DefaultBinder}
        "#]],
    );
}

/// A deterministic random number generator.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % n
    }

    pub(crate) fn is_one_of(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A random configuration of a version; many are not valid.
pub(crate) fn random(version: &str, chance: &mut Chance) -> Value {
    let catalogue = catalogue_of_all_releases();
    let points: Vec<Point> = Point::ALL
        .into_iter()
        .filter(|point| *point < Point::PlacementGenerate)
        .filter(|point| !matches!(point, Point::PreEnqueue | Point::Bind))
        .collect();
    let mut profiles = Vec::new();
    for index in 0..=chance.below(3) {
        let mut sets = json!({});
        for &point in &points {
            if !chance.is_one_of(3) || point == Point::QueueSort {
                continue;
            }
            let mut set = json!({"enabled": [], "disabled": []});
            for plugin in catalogue.plugins().iter().filter(|p| p.points.contains(point)) {
                if chance.is_one_of(4) {
                    push(&mut set["disabled"], json!({"name": plugin.name}));
                    if chance.is_one_of(2) {
                        let weight = chance.below(5);
                        push(&mut set["enabled"], json!({"name": plugin.name, "weight": weight}));
                    }
                } else if chance.is_one_of(9) {
                    push(&mut set["enabled"], json!({"name": plugin.name}));
                }
            }
            if chance.is_one_of(4) {
                set["disabled"] = json!([{"name": "*"}]);
            }
            sets[point.key()] = set;
        }
        if matches!(version, "v1" | "v1beta3") && chance.is_one_of(2) {
            let any = catalogue.plugins()[2 + chance.below(12)].name;
            let weight = chance.below(4);
            sets["multiPoint"] = json!({"enabled": [{"name": any, "weight": weight}]});
        }
        let mut configs = json!([]);
        if chance.is_one_of(2) {
            let args = json!({"hardPodAffinityWeight": chance.below(100)});
            push(&mut configs, json!({"name": "InterPodAffinity", "args": args}));
        }
        if chance.is_one_of(2) {
            let args = json!({"presentLabels": ["zone"]});
            push(&mut configs, json!({"name": "NodeLabel", "args": args}));
        }
        let name = format!("profile-{index}");
        profiles.push(json!({"schedulerName": name, "plugins": sets, "pluginConfig": configs}));
    }
    let mut file = json!({
        "apiVersion": format!("kubescheduler.config.k8s.io/{version}"),
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    });
    if chance.is_one_of(2) {
        file["percentageOfNodesToScore"] = chance.below(101).into();
    }
    if version == "v1alpha1" {
        let profile = file["profiles"][0].take();
        for key in ["schedulerName", "plugins", "pluginConfig"] {
            file[key] = profile[key].clone();
        }
        if let Value::Object(fields) = &mut file {
            fields.remove("profiles");
        }
        if let Value::Object(sets) = &mut file["plugins"]
            && let Some(set) = sets.remove("preScore")
        {
            sets.insert("postFilter".to_owned(), set);
        }
    }
    file
}

fn push(list: &mut Value, element: Value) {
    list.as_array_mut().expect("it is a list").push(element);
}

#[test]
fn a_migrated_file_resolves_to_the_same() {
    let catalogue = catalogue_of_all_releases();
    for version in ["v1", "v1beta3", "v1beta2", "v1beta1", "v1alpha2", "v1alpha1"] {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        let mut n_valid = 0;
        for _ in 0..500 {
            let file = random(version, &mut chance).to_string();
            if let Ok(configuration) = load("random.json", &file, &catalogue) {
                assert_same(&configuration, &file);
                n_valid += 1;
            }
        }
        assert!(n_valid >= 50, "only {n_valid} of {version} are valid");
    }
}
