//! Which kinds are watched, and what happens to those that cannot be.

use plimsoll_api::{CsiStorageCapacity, KindRef, Kinds, Pod, PodDisruptionBudget};
use plimsoll_config::{Catalogue, load};
use plimsoll_engine::{Options, Profile, Scheduler};
use plimsoll_framework::FeatureGates;
use plimsoll_kube::api_resource::ApiResource;
use plimsoll_kube::discovery::{Discovered, discover};
use serde_json::{Value, json};

use super::{Watcher, quick};
use crate::fake::{Fake, pod};

fn budget(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version}})
}

/// The kinds that a scheduler with these plugins watches.
fn needed(plugins: &str) -> String {
    needed_with(plugins, &FeatureGates::default())
}

/// The same with these feature gates.
fn needed_with(plugins: &str, gates: &FeatureGates) -> String {
    let registry = plimsoll_plugins::in_tree();
    let catalogue = Catalogue::of(&registry, &plimsoll_plugins::default_profile());
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- {plugins}"
    );
    let configuration = load("config", &text, &catalogue).expect("it is valid");
    let profiles = Profile::all_of(&configuration.profile_specs(), &registry, gates);
    let profiles = profiles.expect("the plugins are made");
    let scheduler = Scheduler::new(profiles, Options::default(), 0).expect("there is a profile");
    let kinds = scheduler.kinds();
    kinds.into_iter().map(KindRef::as_str).collect::<Vec<_>>().join(" ")
}

#[test]
fn only_what_the_plugins_of_a_profile_read_is_watched() {
    let all = |gates: &FeatureGates| needed_with("schedulerName: all", gates);
    let built_in = Kinds::built_in();
    // Groups of pods are off.
    let every = built_in
        .iter()
        .map(KindRef::as_str)
        .filter(|kind| !["PodGroup", "CompositePodGroup"].contains(kind));
    let every: Vec<&str> = every.collect();
    let rules = FeatureGates::default().with("DRADeviceTaintRules", true);
    assert_eq!(all(&rules), every.join(" "));
    // Few clusters have taint rules, and kube-scheduler's role does not allow to read them without the gate.
    let usual: Vec<&str> = every.into_iter().filter(|kind| *kind != "DeviceTaintRule").collect();
    let without = FeatureGates::default().with("DRADeviceTaintRules", false);
    assert_eq!(all(&without), usual.join(" "));
    let few = |names: &[&str]| {
        let names = names.iter().chain(&["PrioritySort", "DefaultBinder"]);
        let enabled: Vec<String> = names.map(|name| format!("{{name: {name}}}")).collect();
        let enabled = enabled.join(", ");
        needed(&format!(
            "plugins: {{multiPoint: {{disabled: [{{name: '*'}}], enabled: [{enabled}]}}}}"
        ))
    };
    assert_eq!(few(&["NodeResourcesFit"]), "Pod Node");
    let devices = "Pod Node ResourceClaim ResourceSlice DeviceClass DeviceTaintRule";
    assert_eq!(few(&["DynamicResources"]), devices);
    assert_eq!(few(&["DefaultPreemption"]), "Pod Node PodDisruptionBudget");
    assert_eq!(few(&["InterPodAffinity", "TaintToleration"]), "Pod Node Namespace");
}

#[tokio::test]
async fn the_best_version_that_the_server_has_is_found() {
    let core = ("/api/v1", &["pods", "nodes", "pods/binding"][..]);
    let budgets = &["poddisruptionbudgets"][..];
    let capacity = KindRef::of::<CsiStorageCapacity>();
    for (groups, expected, missing) in [
        (vec![core, ("/apis/policy/v1", budgets)], Some("policy/v1"), vec![capacity]),
        (vec![core, ("/apis/policy/v1beta1", budgets)], Some("policy/v1beta1"), vec![capacity]),
        (
            vec![core, ("/apis/policy/v1", &[])],
            None,
            vec![capacity, KindRef::of::<PodDisruptionBudget>()],
        ),
    ] {
        let fake = Fake::with(&groups).await;
        let kinds = [KindRef::of::<Pod>(), capacity, KindRef::of::<PodDisruptionBudget>()];
        let discovered = discover(&fake.client().await, &kinds).await.expect("the server answers");
        let mut resources = vec![ApiResource { kind: KindRef::of::<Pod>(), api_version: "v1" }];
        resources.extend(expected.map(|api_version| ApiResource {
            kind: KindRef::of::<PodDisruptionBudget>(),
            api_version,
        }));
        assert_eq!(discovered, Discovered { resources, missing });
    }
}

#[tokio::test]
async fn scheduling_does_not_wait_for_a_kind_that_the_server_lacks() {
    let mut fake = Fake::start().await;
    let mut watcher =
        Watcher::on(&fake, &[KindRef::of::<Pod>(), KindRef::of::<PodDisruptionBudget>()], quick())
            .await;
    fake.next().await.no_streaming();
    fake.next().await.list("10", "", &[pod("a", "1")]);
    watcher.synced().await;
    assert_eq!(watcher.next().await, "a");
}

#[tokio::test]
async fn budgets_of_an_old_server_are_listed() {
    let groups =
        [("/api/v1", &["pods"][..]), ("/apis/policy/v1beta1", &["poddisruptionbudgets"][..])];
    let mut fake = Fake::with(&groups).await;
    let mut watcher = Watcher::on(&fake, &[KindRef::of::<PodDisruptionBudget>()], quick()).await;
    let asked = fake.next().await;
    assert_eq!(asked.path, "/apis/policy/v1beta1/poddisruptionbudgets");
    asked.no_streaming();
    fake.next().await.list("10", "", &[budget("b", "1")]);
    assert_eq!(watcher.next().await, "budget b");
}

#[tokio::test]
async fn scheduling_starts_without_a_forbidden_kind_which_is_listed_once_it_is_allowed() {
    let groups = [("/api/v1", &["pods"][..]), ("/apis/policy/v1", &["poddisruptionbudgets"][..])];
    let mut fake = Fake::with(&groups).await;
    let mut watcher = Watcher::on(&fake, &[KindRef::of::<PodDisruptionBudget>()], quick()).await;
    fake.next().await.refuse(403, "Forbidden");
    watcher.synced().await;
    fake.next().await.no_streaming();
    fake.next().await.list("10", "", &[budget("b", "1")]);
    assert_eq!(watcher.next().await, "budget b");
}

#[tokio::test]
async fn scheduling_does_not_start_without_pods_or_nodes() {
    let mut fake = Fake::start().await;
    let watcher = Watcher::pods(&fake).await;
    for _ in 0..5 {
        fake.next().await.refuse(403, "Forbidden");
        assert!(!watcher.watches.unsynced().borrow().is_empty());
    }
}

#[tokio::test]
async fn a_version_that_is_missing_after_an_upgrade_is_discovered_again() {
    let groups = [("/apis/policy/v1", &["poddisruptionbudgets"][..])];
    let mut fake = Fake::with(&groups).await;
    let mut watcher = Watcher::on(&fake, &[KindRef::of::<PodDisruptionBudget>()], quick()).await;
    fake.next().await.no_streaming();
    fake.next().await.list("10", "", &[budget("b", "1"), budget("c", "2")]);
    assert_eq!(watcher.next_events(2).await, "budget b, budget c");
    fake.next().await.refuse(404, "NotFound");
    let relist = fake.next().await;
    assert_eq!(relist.path, "/apis/policy/v1/poddisruptionbudgets");
    relist.list("20", "", &[budget("b", "1")]);
    assert_eq!(watcher.next().await, "-budget c");
}
