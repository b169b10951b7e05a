//! Which changes wake a pod that the plugin has rejected. The cases are in `hints.txt`: the objects before, a claim as it is
//! assumed, what comes, changes or goes, and the hint.
//!
//! The cases whose names are single words are those of `Test_isSchedulableAfterClaimChange` and
//! `Test_isSchedulableAfterPodChange` in upstream's `dynamicresources_test.go`, under the names that they have there. Left
//! out are `backoff-wrong-old-object` and `backoff-wrong-new-object`, which are about objects of a wrong type, and
//! `wrong-pod`: the engine tells of the change of a pending pod only for that pod. The other cases are about changes of
//! which upstream hears nothing, or which its tests leave out.

use plimsoll_api::{AnyObject, KindRef};
use plimsoll_framework::events::{Object, named_pod_actions};
use plimsoll_testkit::{Cluster, Scenario};

use super::upstream::{Snippets, expand, snippets};
use super::*;

/// The statement that says what happens; the rest of the case is the cluster before.
fn split(case: &str) -> (&str, &str) {
    let starts = ["\ncomes ", "\ngoes "].map(|word| case.find(word));
    let at = starts.into_iter().flatten().min().expect("something comes or goes");
    (&case[..at], case[at..].trim())
}

fn parsed(text: &str, snippets: &Snippets<'_>) -> Scenario {
    Scenario::parse(&expand(text, snippets)).unwrap_or_else(|error| panic!("{error}"))
}

/// The hint for the only pending pod.
fn hint(before: &str, change: &str, snippets: &Snippets<'_>) -> Hint {
    let (before, assumed) = before.split_once("\nassumed ").unwrap_or((before, ""));
    let mut scenario = parsed(before, snippets);
    let assumed = parsed(assumed, snippets).objects;
    let pod = scenario.pending[0].clone();
    let (verb, object) = change.split_once(' ').expect("a word and an object");
    if verb == "goes" {
        return hint_after_end(&mut scenario, &assumed, object);
    }
    let come = parsed(object, snippets);
    let mut cluster = cluster_of(&scenario, &assumed);
    if let Some(after) = come.pending.first() {
        assert_eq!(after.key, pod.key, "the change of another pending pod is not told");
        let event = ClusterEvent::of::<Pod>(named_pod_actions(&pod, after));
        let object = Object::Itself { before: &pod };
        return hint_for(after, &Change { event, object, view: cluster.view() });
    }
    let versions = cluster.stores.set(&come.objects[0]).expect("it is another object");
    let event = ClusterEvent::of_versions(&versions);
    let object = Object::Other(&versions);
    hint_for(&pod, &Change { event, object, view: cluster.view() })
}

/// The hint after `object`, a claim or a pod on a node, is gone.
fn hint_after_end(scenario: &mut Scenario, assumed: &[AnyObject], object: &str) -> Hint {
    let (kind, name) = object.split_once(' ').expect("a kind and a name");
    let pod = scenario.pending[0].clone();
    if kind == "pod" {
        let at = scenario.placed.iter().position(|placed| placed.key.name == name);
        let gone = scenario.placed.remove(at.expect("the pod is on a node"));
        let cluster = cluster_of(scenario, assumed);
        let event = ClusterEvent::of::<Pod>(Action::DELETE);
        let object = Object::Assigned { before: Some(&gone), after: None, row: None };
        return hint_for(&pod, &Change { event, object, view: cluster.view() });
    }
    assert_eq!(kind, "claim");
    let mut cluster = cluster_of(scenario, assumed);
    let key = ObjectKey::new("default", name);
    let versions = cluster.stores.remove(KindRef::of::<ResourceClaim>(), &key);
    let versions = versions.expect("the claim is there");
    let event = ClusterEvent::of_versions(&versions);
    let object = Object::Other(&versions);
    hint_for(&pod, &Change { event, object, view: cluster.view() })
}

fn cluster_of(scenario: &Scenario, assumed: &[AnyObject]) -> Cluster {
    let mut cluster = Cluster::of(scenario);
    cluster.stores.keep(KindRef::of::<ResourceClaim>());
    for claim in assumed {
        cluster.stores.assume(claim);
    }
    cluster
}

/// The hint of the plugin: nothing wakes a pod for which it does not wait.
fn hint_for(pod: &PodInfo, change: &Change<'_>) -> Hint {
    let plugin = DynamicResources::new(DynamicResourcesArgs::default(), &FeatureGates::default());
    match plugin.events().iter().any(|event| event.covers(change.event)) {
        true => plugin.hint(pod, change),
        false => Hint::Skip,
    }
}

#[test]
fn changes_that_may_help_wake_pods() {
    let (common, _) = include_str!("upstream.txt").split_once("\n# ").expect("there are cases");
    let snippets = snippets(common);
    let cases = include_str!("hints.txt").strip_prefix("# ").expect("it begins with a case");
    let mut failures = Vec::new();
    let (mut of_upstream, mut ours) = (0, 0);
    for case in cases.split("\n# ") {
        let (name, inside) = case.split_once('\n').expect("a case has a name");
        let (inside, expected) = inside.split_once("\n=>\n").expect("a case expects something");
        let (before, change) = split(inside);
        let found = format!("{:?}", hint(before, change, &snippets));
        if found != expected.trim() {
            failures.push(format!("{name}: {found} instead of {}", expected.trim()));
        }
        if name.contains(' ') { ours += 1 } else { of_upstream += 1 }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // A case that is lost by a mistake in the file would not be missed otherwise.
    assert_eq!((of_upstream, ours), (10, 13));
}
