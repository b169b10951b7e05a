//! VolumeZone: zones and regions of volumes.

use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;

use crate::place_labels::{BETA_REGION, BETA_ZONE, DELIMITER, REGION, ZONE};
use crate::pod_claims::{self, NAMELESS_CLAIM};

const CONFLICT: &str = "node(s) had no available volume zone";
const UNBOUND_WITHOUT_CLASS: &str = "PersistentVolumeClaim had no pv name and storageClass name";
const UNBOUND: &str = "PersistentVolume had no name";

/// The location labels of volumes and nodes, in the order in which they are checked.
const PLACE_LABELS: [&str; 4] = [BETA_ZONE, BETA_REGION, ZONE, REGION];

/// Rejects nodes that are in another zone or region than a volume of the pod.
///
/// Most disks can be attached only in the zone in which they were created. The labels of the volume say
/// where that is: `topology.kubernetes.io/zone` and `region`, or the older
/// `failure-domain.beta.kubernetes.io/zone` and `region`; a newer label of a node also matches the
/// older label of a volume. A node without any of these labels matches every location. Only bound
/// volumes count: VolumeBinding checks where others can be provisioned.
///
/// ```yaml
/// kind: PersistentVolume
/// metadata: {labels: {topology.kubernetes.io/zone: eu-1a__eu-1b}}   # two zones
/// ```
#[derive(Clone, Copy, Debug)]
pub struct VolumeZone;

impl Plugin for VolumeZone {
    const NAME: &'static str = "VolumeZone";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        VolumeZone
    }
}

/// The locations of a volume according to one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ZoneValues {
    label: &'static str,
    /// Sorted.
    values: Vec<Str>,
}

impl PreFilter for VolumeZone {
    type Pod = (PodNamespace, PodVolumes);
    type Node = Labels;
    type Cluster = Volumes;
    type State = Vec<ZoneValues>;

    fn applies(&self, (_, volumes): (&Str, &[PodVolume])) -> bool {
        pod_claims::named(volumes).next().is_some()
    }

    fn pre_filter(
        &self,
        (namespace, volumes): (&Str, &[PodVolume]),
        store: VolumeStore<'_>,
    ) -> Result<Option<Vec<ZoneValues>>, Rejection> {
        let mut places = Vec::new();
        for name in pod_claims::named(volumes) {
            let volume = bound_volume(store, namespace, name).map_err(Rejection::unresolvable)?;
            places.extend(volume.map(places_of).unwrap_or_default());
        }
        Ok((!places.is_empty()).then_some(places))
    }

    fn filter(&self, places: &Vec<ZoneValues>, node: &Labels) -> Verdict {
        let is_somewhere = PLACE_LABELS.iter().any(|&label| node.contains_key(label));
        if is_somewhere && !places.iter().all(|one| one.reaches(node)) {
            return Verdict::unresolvable(CONFLICT);
        }
        Verdict::Pass
    }

    fn may_err(&self, _: &Vec<ZoneValues>) -> bool {
        false
    }

    fn update(&self, _: &mut Vec<ZoneValues>, _: PodChange<'_>, _: &Labels) -> Update {
        Update::Exact
    }
}

/// All volumes in the same zones share their verdicts.
impl FilterByKey for VolumeZone {
    type Key = Vec<ZoneValues>;

    fn key(&self, places: &Vec<ZoneValues>, _: VolumeStore<'_>) -> Option<Vec<ZoneValues>> {
        Some(places.clone())
    }

    fn key_bytes(&self, places: &Vec<ZoneValues>) -> usize {
        let text = |value: &Str| size_of::<Str>() + value.len();
        let values = |place: &ZoneValues| place.values.iter().map(text).sum::<usize>();
        places.iter().map(|place| size_of::<ZoneValues>() + values(place)).sum()
    }

    fn concerns(&self, _: &AnyObject, _: VolumeStore<'_>) -> ConcernedNodes {
        ConcernedNodes::none()
    }
}

impl ZoneValues {
    /// Whether a node with these labels is in one of the locations.
    fn reaches(&self, node: &Labels) -> bool {
        let here = node.get(self.label).or_else(|| node.get(newer(self.label)));
        here.is_some_and(|here| self.values.contains(here))
    }
}

/// The label that replaced this one.
fn newer(label: &'static str) -> &'static str {
    match label {
        BETA_ZONE => ZONE,
        BETA_REGION => REGION,
        label => label,
    }
}

/// The volume to which the claim is bound; `None` while it waits for its first consumer. As in
/// volume_zone.go, getPVbyPod.
fn bound_volume<'a>(
    store: VolumeStore<'a>,
    namespace: &Str,
    name: &Str,
) -> Result<Option<&'a PersistentVolume>, Reason> {
    if name.is_empty() {
        return Err(NAMELESS_CLAIM.into());
    }
    let claim = pod_claims::find(store, namespace, name)?;
    if let Some(volume) = &claim.volume {
        let found = store.volumes.observed(volume.as_str());
        let found = found.ok_or_else(|| pod_claims::not_found("persistentvolume", volume))?;
        return Ok(Some(found));
    }
    if claim.class.is_empty() {
        return Err(UNBOUND_WITHOUT_CLASS.into());
    }
    let class = store.classes.get(claim.class.as_str());
    let class =
        class.ok_or_else(|| pod_claims::not_found("storageclass.storage.k8s.io", &claim.class))?;
    match class.binding_mode {
        BindingMode::WaitForFirstConsumer => Ok(None),
        BindingMode::Immediate => Err(UNBOUND.into()),
    }
}

/// The locations of the volume, by each of its labels that can be read.
fn places_of(volume: &PersistentVolume) -> Vec<ZoneValues> {
    let read = |label| {
        let values = listed(volume.labels.get(label)?)?;
        Some(ZoneValues { label, values })
    };
    PLACE_LABELS.into_iter().filter_map(read).collect()
}

/// The locations in the value of a label; `None` if one of them is empty. As in cloud-provider's
/// zones.go, LabelZonesToSet.
fn listed(value: &str) -> Option<Vec<Str>> {
    let places = value.split(DELIMITER).map(str::trim);
    let places = places.map(|place| (!place.is_empty()).then(|| Str::from(place)));
    let mut places = places.collect::<Option<Vec<Str>>>()?;
    places.sort_unstable();
    places.dedup();
    Some(places)
}

/// As in volume_zone.go, the functions isSchedulableAfter…: a claim of the pod was added or changed, a
/// volume was added or relabelled, a class with `WaitForFirstConsumer` was added, or a node was added
/// or relabelled.
impl Requeue for VolumeZone {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::of::<StorageClass>(Action::ADD),
            ClusterEvent::of::<Node>(Action::ADD | Action::UPDATE_NODE_LABEL),
            ClusterEvent::of::<PersistentVolumeClaim>(Action::ADD | Action::UPDATE),
            ClusterEvent::of::<PersistentVolume>(Action::ADD | Action::UPDATE),
        ]
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let helps = match change.object {
            Object::Other(_) => volume_helps(pod, change),
            Object::Assigned { .. } | Object::Itself { .. } => false,
            Object::Node { .. } => true,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

fn volume_helps(pod: &Pod, change: &Change<'_>) -> bool {
    if let Some(class) = change.of::<StorageClass>() {
        let waits = |class: &StorageClass| class.binding_mode == BindingMode::WaitForFirstConsumer;
        return class.after.is_some_and(|class| waits(&class));
    }
    if let Some(claim) = change.of::<PersistentVolumeClaim>() {
        return claim.after.is_some_and(|claim| pod_claims::names(pod, &claim.key));
    }
    if let Some(volume) = change.of::<PersistentVolume>() {
        let places = |one: &Option<_>| one.as_deref().map(places_of);
        return volume.before.is_none() || places(&volume.before) != places(&volume.after);
    }
    true
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<VolumeZone>().pre_filter().requeue().filter_by_key().done()
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::laws;

    use super::*;
    use crate::node_change::tests::hint_after_pod;
    use crate::pod_claims::tests::{
        came, changed, claim, claimed, inline, moved_to, pod_with, store,
    };

    fn volume(name: &str, labels: &[(&str, &str)]) -> PersistentVolume {
        PersistentVolume {
            name: name.into(),
            labels: labels.iter().copied().collect(),
            ..PersistentVolume::default()
        }
    }

    fn class(name: &str, binding_mode: BindingMode) -> StorageClass {
        StorageClass { name: name.into(), binding_mode, ..StorageClass::default() }
    }

    fn prepare(
        pod: &PodInfo,
        store: VolumeStore<'_>,
    ) -> Result<Option<Vec<ZoneValues>>, Rejection> {
        let parts = pod.part::<(PodNamespace, PodVolumes)>();
        if !VolumeZone.applies(parts) {
            return Ok(None);
        }
        VolumeZone.pre_filter(parts, store)
    }

    /// Whether a pod with a volume with these labels may run on a node with those labels.
    fn fits(of_volume: &[(&str, &str)], of_node: &[(&str, &str)]) -> bool {
        let store =
            store([AnyObject::new(volume("pv", of_volume)), AnyObject::new(claim("a", "pv"))]);
        let places = prepare(&pod_with([claimed("a")]), VolumeStore::of(&store))
            .expect("the claim is bound");
        let node = of_node.iter().copied().collect();
        let verdict = VolumeZone.filter(&places.expect("the volume is somewhere"), &node);
        let rejected = Verdict::unresolvable("node(s) had no available volume zone");
        assert!(verdict.passes() || verdict == rejected);
        verdict.passes()
    }

    #[test]
    fn a_volume_binds_the_pod_to_its_zone_and_region() {
        for label in PLACE_LABELS {
            assert!(fits(&[(label, "a"), ("x", "y")], &[(label, "a"), ("y", "x")]));
            assert!(!fits(&[(label, "a")], &[(label, "b")]));
        }
        assert!(!fits(&[(ZONE, "a"), (REGION, "r")], &[(ZONE, "a")]));
        assert!(!fits(&[(ZONE, "a")], &[(REGION, "r")]));
    }

    #[test]
    fn a_node_that_does_not_say_where_it_is_is_everywhere() {
        assert!(fits(&[(ZONE, "a"), (REGION, "r")], &[("x", "y")]));
        assert!(fits(&[(BETA_ZONE, "a__b")], &[]));
    }

    #[test]
    fn the_newer_label_of_a_node_stands_for_the_older_but_not_the_other_way_round() {
        assert!(fits(&[(BETA_ZONE, "a")], &[(ZONE, "a")]));
        assert!(fits(&[(BETA_REGION, "a")], &[(REGION, "a")]));
        assert!(!fits(&[(BETA_ZONE, "a")], &[(ZONE, "b")]));
        assert!(!fits(&[(BETA_ZONE, "a")], &[(BETA_ZONE, "b"), (ZONE, "a")]));
        assert!(!fits(&[(ZONE, "a")], &[(BETA_ZONE, "a")]));
    }

    #[test]
    fn a_volume_may_lie_in_several_zones() {
        for label in [ZONE, BETA_ZONE] {
            assert!(fits(&[(label, "c__a")], &[(label, "a")]));
            assert!(fits(&[(label, "c__ a ")], &[(label, "a")]));
            assert!(!fits(&[(label, "c__a")], &[(label, "b")]));
            assert!(!fits(&[(label, "c__a")], &[(label, "c__a")]));
        }
    }

    #[test]
    fn a_label_that_lists_nothing_is_passed_over() {
        let places = |value| places_of(&volume("pv", &[(ZONE, value), (REGION, "r")]));
        let region = vec![ZoneValues { label: REGION, values: vec!["r".into()] }];
        assert_eq!(places(""), region);
        assert_eq!(places("a__"), region);
        assert_eq!(places("a").len(), 2);
    }

    #[test]
    fn a_pod_without_bound_volumes_that_lie_somewhere_is_not_judged() {
        let waiting = PersistentVolumeClaim { class: "wait".into(), ..claim("unbound", "") };
        let store = store([
            AnyObject::new(volume("pv", &[("x", "y")])),
            AnyObject::new(claim("bound", "pv")),
            AnyObject::new(waiting),
            AnyObject::new(class("wait", BindingMode::WaitForFirstConsumer)),
        ]);
        for pod in [
            pod_with([]),
            pod_with([inline(VolumeSource::Nfs), PodVolumeKind::Ephemeral("p-v".into())]),
            pod_with([claimed("bound"), claimed("unbound")]),
        ] {
            assert_eq!(prepare(&pod, VolumeStore::of(&store)), Ok(None));
        }
    }

    #[test]
    fn a_claim_without_a_volume_rejects_the_pod_for_all_nodes_and_says_why() {
        let of_class = |name: &str, class: &str| {
            let class = class.into();
            AnyObject::new(PersistentVolumeClaim { class, ..claim(name, "") })
        };
        let store = store([
            of_class("no-class", ""),
            of_class("lost-class", "lost"),
            of_class("late", "now"),
            AnyObject::new(claim("lost-volume", "gone")),
            AnyObject::new(class("now", BindingMode::Immediate)),
        ]);
        for (name, why) in [
            ("", "PersistentVolumeClaim had no name"),
            ("lost", "persistentvolumeclaim \"lost\" not found"),
            ("no-class", "PersistentVolumeClaim had no pv name and storageClass name"),
            ("lost-class", "storageclass.storage.k8s.io \"lost\" not found"),
            ("late", "PersistentVolume had no name"),
            ("lost-volume", "persistentvolume \"gone\" not found"),
        ] {
            let rejected =
                prepare(&pod_with([claimed(name)]), VolumeStore::of(&store)).expect_err(why);
            assert_eq!(rejected.code, Code::UnschedulableAndUnresolvable);
            assert_eq!(rejected.to_string(), why);
        }
    }

    fn hint(pod: &PodInfo, change: &AnyVersions) -> Hint {
        hint_after_pod(&VolumeZone, pod, Object::Other(change))
    }

    #[test]
    fn a_claim_helps_the_pods_that_name_it() {
        let change = came(claim("a", "pv"));
        let pod = pod_with([claimed("a")]);
        assert_eq!(hint(&pod, &change), Hint::Queue);
        assert_eq!(hint(&moved_to("other", &pod), &change), Hint::Skip);
        assert_eq!(hint(&pod_with([claimed("b")]), &change), Hint::Skip);
        assert_eq!(hint(&pod_with([]), &change), Hint::Skip);
        let bound = changed(claim("a", ""), claim("a", "pv"));
        assert_eq!(hint(&pod, &bound), Hint::Queue);
    }

    #[test]
    fn a_class_helps_if_its_claims_wait_for_a_pod() {
        let hint = |mode| {
            let change = came(class("c", mode));
            hint(&pod_with([claimed("a")]), &change)
        };
        assert_eq!(hint(BindingMode::WaitForFirstConsumer), Hint::Queue);
        assert_eq!(hint(BindingMode::Immediate), Hint::Skip);
    }

    #[test]
    fn a_volume_helps_if_it_is_new_or_moved() {
        let pod = pod_with([claimed("a")]);
        let in_zone = |zone| volume("pv", &[(BETA_ZONE, zone)]);
        let hint = |change| hint(&pod, &change);
        assert_eq!(hint(came(in_zone("a"))), Hint::Queue);
        assert_eq!(hint(changed(in_zone("a"), in_zone("b"))), Hint::Queue);
        let both = volume("pv", &[(BETA_ZONE, "a"), (ZONE, "a")]);
        assert_eq!(hint(changed(in_zone("a"), both)), Hint::Queue);
        let elsewise = PersistentVolume { phase: VolumePhase::Bound, ..in_zone("a") };
        assert_eq!(hint(changed(in_zone("a"), elsewise)), Hint::Skip);
    }

    #[test]
    fn the_laws_hold() {
        let scenario = r#"
            node a topology.kubernetes.io/zone=z1
            node b topology.kubernetes.io/zone=z2
            node c
            pv v topology.kubernetes.io/zone=z1__z3
            pvc one {"volumeName": "v"}
            pod x on a {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]}
            pod p {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]}
            pod q {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "lost"}}]}
        "#;
        laws(&entry(), [scenario]);
    }
}
