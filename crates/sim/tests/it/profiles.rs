//! The default profile, and others.

use plimsoll_config::{Catalogue, Configuration, GivenGates, load};
use plimsoll_engine::Profile;
use plimsoll_framework::{FeatureGates, ProfileSpec, Registry, Release};
use plimsoll_legacy::in_tree;
use plimsoll_plugins::default_profile;
use plimsoll_sim::perf::Workload;

/// The release of a seed: two have the oldest, then two the newest.
pub(crate) fn release_of(seed: u64) -> Release {
    if (seed / 2).is_multiple_of(2) { Release::OLDEST } else { Release::NEWEST }
}

/// The profiles without a configuration in the newest release.
pub(crate) fn default_profiles() -> Vec<Profile> {
    profiles_of(Release::NEWEST)
}

/// The profiles without a configuration.
pub(crate) fn profiles_of(release: Release) -> Vec<Profile> {
    profiles_from(&in_tree(), release)
}

/// The same, of plugins that are not accelerated.
pub(crate) fn plain_profiles_of(release: Release) -> Vec<Profile> {
    profiles_from(&in_tree().plain(), release)
}

fn profiles_from(registry: &Registry, release: Release) -> Vec<Profile> {
    let gates = GivenGates::of(release);
    let catalogue = Catalogue::of(registry, &default_profile()).with_gates(gates.plugins.clone());
    let specs = Configuration::default_for(&catalogue).profile_specs();
    Profile::all_of(&specs, registry, &gates.plugins).expect("the default profile is right")
}

/// The profiles that decide a workload.
pub(crate) fn profiles_for(workload: &Workload) -> Vec<Profile> {
    let configured = |text| configured(text, Release::NEWEST);
    workload.configuration.map_or_else(|| profiles_with(&gates_for(workload)), configured)
}

/// The feature gates of a workload in the newest release.
pub(crate) fn gates_for(workload: &Workload) -> FeatureGates {
    let on = |gate: &&str| format!("{gate}=true");
    let given: Vec<String> = workload.gates(Release::NEWEST).iter().map(on).collect();
    let gates = GivenGates::parse(Release::NEWEST, &given, &[]);
    gates.expect("the release has the gates").plugins
}

pub(crate) fn profiles_with(gates: &FeatureGates) -> Vec<Profile> {
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.clone());
    let specs = Configuration::default_for(&catalogue).profile_specs();
    Profile::all_of(&specs, &registry, gates).expect("the default profile is right")
}

/// The default profile with a change.
pub(crate) fn changed_profiles(change: impl Fn(&mut ProfileSpec)) -> Vec<Profile> {
    let (registry, gates) = (in_tree(), GivenGates::of(Release::NEWEST));
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.plugins.clone());
    let mut specs = Configuration::default_for(&catalogue).profile_specs();
    specs.iter_mut().for_each(change);
    Profile::all_of(&specs, &registry, &gates.plugins).expect("the changed profile is right")
}

/// Profiles with plugins of earlier releases, other strategies, other weights, a share of the nodes, and the
/// first feasible node.
pub(crate) const CONFIGURATIONS: [&str; 4] = [
    r#"
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled:
      - {name: SelectorSpread, weight: 2}
      - {name: NodeLabel, weight: 3}
      - {name: ServiceAffinity, weight: 2}
      - {name: NodePreferAvoidPods, weight: 10}
      - {name: RequestedToCapacityRatio, weight: 2}
      - {name: NodeResourceLimits, weight: 1}
      disabled:
      - {name: NodeResourcesBalancedAllocation}
  pluginConfig:
  - name: NodeLabel
    args: {presentLabelsPreference: [disk], absentLabelsPreference: [size]}
  - name: ServiceAffinity
    args: {affinityLabels: [disk], antiAffinityLabelsPreference: [topology.kubernetes.io/zone]}
"#,
    r#"
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled:
      - {name: NodeResourcesMostAllocated, weight: 2}
      - {name: NodeResourcesLeastAllocated, weight: 1}
      - {name: NodeLabel, weight: 1}
  pluginConfig:
  - name: NodeLabel
    args: {absentLabels: [retired], presentLabels: [kubernetes.io/hostname]}
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 3}, {name: example.com/gpu, weight: 2}]
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 50}
  - name: NodeAffinity
    args:
      addedAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 7, preference: {matchExpressions: [{key: size, operator: Gt, values: ["2"]}]}}
"#,
    r#"
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 50
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: memory, weight: 1}, {name: cpu, weight: 2}]
        requestedToCapacityRatio:
          shape: [{utilization: 0, score: 2}, {utilization: 60, score: 10}, {utilization: 100, score: 0}]
  - name: InterPodAffinity
    args: {ignorePreferredTermsOfExistingPods: true, hardPodAffinityWeight: 0}
"#,
    r#"
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 0
profiles:
- plugins:
    score:
      disabled: [{name: "*"}]
    preScore:
      disabled: [{name: "*"}]
"#,
];

/// The profiles of a configuration.
pub(crate) fn configured(text: &str, release: Release) -> Vec<Profile> {
    configured_with(text, &GivenGates::of(release).plugins)
}

/// The same with these feature gates.
pub(crate) fn configured_with(text: &str, gates: &FeatureGates) -> Vec<Profile> {
    let registry = in_tree();
    let catalogue = Catalogue::of(&registry, &default_profile()).with_gates(gates.clone());
    let configuration =
        load("scheduler.yaml", text, &catalogue).expect("the configuration is right");
    Profile::all_of(&configuration.profile_specs(), &registry, gates)
        .expect("its profiles are right")
}
