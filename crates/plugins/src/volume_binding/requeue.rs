//! When to try a pod again whose claims could not be satisfied.

use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;

use super::VolumeBinding;

/// As in volume_binding.go, `EventsToRegister` and its `isSchedulableAfter...` functions. There, a pod
/// is not woken when another one releases a volume that was only assumed for it, since no volume
/// changes then.
impl Requeue for VolumeBinding {
    fn events(&self) -> Vec<ClusterEvent> {
        const COMES_OR_CHANGES: Action = Action::ADD.union(Action::UPDATE);
        vec![
            ClusterEvent::of::<StorageClass>(COMES_OR_CHANGES),
            ClusterEvent::of::<PersistentVolumeClaim>(COMES_OR_CHANGES),
            ClusterEvent::of::<PersistentVolume>(COMES_OR_CHANGES),
            ClusterEvent::of::<Node>(Action::ADD | Action::UPDATE_NODE_LABEL),
            ClusterEvent::of::<Pod>(Action::DELETE),
            ClusterEvent::of::<CsiNode>(COMES_OR_CHANGES),
            ClusterEvent::of::<CsiDriver>(Action::UPDATE),
            ClusterEvent::of::<CsiStorageCapacity>(COMES_OR_CHANGES),
        ]
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let helps = match change.object {
            Object::Other(_) => may_help(pod, change),
            Object::Assigned { before: Some(gone), .. } => {
                gives_up(gone, VolumeStore::of(change.view.stores))
            }
            Object::Assigned { before: None, .. } => false,
            _ => true,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

/// Whether a pod that is gone from its node had claims that were not bound yet.
fn gives_up(gone: &PodInfo, cluster: VolumeStore<'_>) -> bool {
    let mut names = gone.volumes.iter().filter_map(PodVolume::claim);
    names.any(|name| {
        let key = ObjectKey::new(gone.key.namespace.clone(), name.clone());
        cluster.claims.get(&key).is_some_and(|claim| !claim.is_fully_bound())
    })
}

fn may_help(pod: &PodInfo, change: &Change<'_>) -> bool {
    if let Some(claim) = change.of::<PersistentVolumeClaim>() {
        let mut claims = pod.volumes.iter().filter_map(PodVolume::claim);
        return claim.after.is_some_and(|claim| {
            claim.key.namespace == pod.key.namespace && claims.any(|name| *name == claim.key.name)
        });
    }
    // Of a class, nothing else can change.
    if let Some(class) = change.of::<StorageClass>() {
        return changed(&class, |before, after| {
            before.allowed_topologies != after.allowed_topologies
        });
    }
    if let Some(node) = change.of::<CsiNode>() {
        return changed(&node, |before, after| before.migrated_plugins != after.migrated_plugins);
    }
    if let Some(driver) = change.of::<CsiDriver>() {
        return changed(&driver, |before, after| {
            before.storage_capacity && !after.storage_capacity && mounts_inline(pod, &after.name)
        });
    }
    if let Some(left) = change.of::<CsiStorageCapacity>() {
        return changed(&left, |before, after| {
            let grown =
                |limit: i64| before.limit().is_none_or(|before| before.at_most_value() < limit);
            after.limit().is_some_and(|limit| grown(limit.at_most_value()))
        });
    }
    true
}

/// Whether an object was added, or changed as `in_the_way` says.
fn changed<T>(versions: &Versions<T>, in_the_way: impl Fn(&T, &T) -> bool) -> bool {
    match (&versions.before, &versions.after) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(before), Some(after)) => in_the_way(before, after),
    }
}

/// Whether the pod has an inline volume of a driver. As in kube-scheduler, claims are ignored.
fn mounts_inline(pod: &PodInfo, name: &str) -> bool {
    pod.volumes.iter().any(|volume| match &volume.kind {
        PodVolumeKind::Inline { source: VolumeSource::Csi { driver, .. }, .. } => driver == name,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{Cluster, Scenario};

    use super::super::VolumeBindingArgs;
    use super::*;

    const POD: &str = r#"
        pod p {"volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "inline", "csi": {"driver": "csi.a"}}
        ]}
    "#;

    /// Whether the change from `before`, if there was one, to `after` wakes the pod.
    fn wakes(before: &str, after: &str) -> bool {
        let scenario = Scenario::parse(&format!("{POD}\n{before}")).expect("it is right");
        let mut cluster = Cluster::of(&scenario);
        let seen = Scenario::parse(after).expect("it is right").objects;
        let [object] = &seen[..] else { panic!("one object is seen, not {seen:?}") };
        let change = cluster.stores.set(object).expect("it differs");
        let plugin = VolumeBinding::new(VolumeBindingArgs::default(), &FeatureGates::default());
        let event = ClusterEvent::of_versions(&change);
        if !plugin.events().iter().any(|waited| waited.covers(event)) {
            return false;
        }
        let change = Change { event, object: Object::Other(&change), view: cluster.view() };
        plugin.hint(&scenario.pending[0], &change) == Hint::Queue
    }

    #[test]
    fn claims_of_the_pod_wake_it_when_they_come_or_change() {
        assert!(wakes("", "pvc data"));
        assert!(wakes("pvc data", r#"pvc data {"volumeName": "pv1"}"#));
        assert!(wakes("", "pvc p-tmp"));
        assert!(!wakes("", "pvc other"));
        assert!(!wakes("", "pvc other/data"));
    }

    #[test]
    fn volumes_and_classes_wake_it_when_they_come_or_reach_other_nodes() {
        assert!(wakes("", "pv any"));
        assert!(wakes("pv any", r#"pv any {"status": {"phase": "Released"}}"#));
        assert!(wakes("", "sc any"));
        let topologies = r#""allowedTopologies": [
            {"matchLabelExpressions": [{"key": "zone", "values": ["z"]}]}
        ]"#;
        assert!(wakes("sc any", &format!("sc any {{{topologies}}}")));
        let annotated =
            r#"{"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}"#;
        assert!(!wakes("sc any", &format!("sc any {annotated}")));
    }

    #[test]
    fn a_node_that_serves_volumes_in_another_way_wakes_it() {
        let migrated = r#"csinode a {"annotations": {
            "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"
        }}"#;
        assert!(wakes("", "csinode a"));
        assert!(wakes("csinode a", migrated));
        let with_driver = r#"csinode a {"drivers": [{"name": "csi.a", "nodeID": "a"}]}"#;
        assert!(!wakes("csinode a", with_driver));
    }

    #[test]
    fn more_storage_or_a_driver_that_stops_counting_it_wakes_it() {
        let left = |amount| format!(r#"csicapacity c {{"capacity": "{amount}Gi"}}"#);
        assert!(wakes("", &left(1)));
        assert!(wakes(&left(1), &left(2)));
        assert!(wakes("csicapacity c", &left(1)));
        assert!(!wakes(&left(2), &left(1)));
        assert!(!wakes(&left(1), "csicapacity c"));
        let counting = |name| format!(r#"csidriver {name} {{"storageCapacity": true}}"#);
        assert!(wakes(&counting("csi.a"), "csidriver csi.a"));
        assert!(!wakes("csidriver csi.a", &counting("csi.a")));
        assert!(!wakes(&counting("csi.b"), "csidriver csi.b"));
        assert!(!wakes("", "csidriver csi.a"));
    }

    #[test]
    fn a_pod_that_goes_before_its_claims_are_bound_gives_up_what_it_held() {
        let wakes = |claim: &str| {
            let gone =
                r#"{"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]}"#;
            let scenario = format!("{POD}\nnode a\npod gone on a {gone}\npvc v {claim}");
            let scenario = Scenario::parse(&scenario).expect("it is right");
            let cluster = Cluster::of(&scenario);
            let plugin = VolumeBinding::new(VolumeBindingArgs::default(), &FeatureGates::default());
            let event = ClusterEvent::of::<Pod>(Action::DELETE);
            assert!(plugin.events().iter().any(|waited| waited.covers(event)));
            let object =
                Object::Assigned { before: scenario.placed.first(), after: None, row: None };
            let change = Change { event, object, view: cluster.view() };
            plugin.hint(&scenario.pending[0], &change) == Hint::Queue
        };
        assert!(wakes("{}"));
        let bound =
            r#"{"volumeName": "disk", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}"#;
        assert!(!wakes(bound));
    }
}
