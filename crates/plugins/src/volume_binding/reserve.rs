//! From the choice of a node to bound claims: assumptions, writes, and waiting.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_framework::prelude::*;
use serde_json::{Map, Value, json};

use super::VolumeBinding;
use super::claims::{ClaimingPod, PodClaims};
use super::find::FoundVolumes;
use super::migration;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

const TIMED_OUT: &str = "context deadline exceeded";

/// The claims that are being bound for a pod.
#[derive(Clone, Debug, Default)]
pub struct HeldClaims {
    bindings: Vec<StaticBinding>,
    provisions: Vec<DynamicProvision>,
}

/// A claim to bind to a volume.
#[derive(Clone, Debug)]
struct StaticBinding {
    claim: Arc<PersistentVolumeClaim>,
    /// The observed state.
    volume: Arc<PersistentVolume>,
    /// The required state; `None` if it already has it.
    reserved: Option<PersistentVolume>,
}

/// A claim for which to provision a volume.
#[derive(Clone, Debug)]
struct DynamicProvision {
    claim: Arc<PersistentVolumeClaim>,
    /// The required state; `None` if it already has it.
    selected: Option<PersistentVolumeClaim>,
}

/// As in binder.go, `AssumePodVolumes` and `RevertAssumedPodVolumes`.
impl Reserve for VolumeBinding {
    type Reservation = HeldClaims;

    fn applies(&self, pod: &PodInfo) -> bool {
        !pod.volumes.is_empty()
    }

    fn reserve(
        &self,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<HeldClaims, Rejection> {
        let claims = PodClaims::of(ClaimingPod::from(at.pod), VolumeStore::of(at.view.stores))?;
        if claims.are_bound() {
            return Ok(HeldClaims::default());
        }
        let Some(row) = at.row else {
            return Err(Rejection::error(format!("no pod volumes found for node {:?}", at.node)));
        };
        let held =
            HeldClaims::new(&claims.find(at.node, &at.view.nodes.node(row).labels)?, at.node);
        for volume in held.bindings.iter().filter_map(|one| one.reserved.as_ref()) {
            handle.assume.is(volume.clone());
        }
        for claim in held.provisions.iter().filter_map(|one| one.selected.as_ref()) {
            handle.assume.is(claim.clone());
        }
        Ok(held)
    }

    /// Objects that have changed meanwhile, and may be reserved for another pod, are not reverted.
    fn unreserve(&self, held: HeldClaims, at: &Placement<'_>, handle: &mut Handle<'_>) {
        let known = VolumeStore::of(at.view.stores);
        for volume in held.bindings.iter().filter_map(|one| one.reserved.as_ref()) {
            if known.volumes.get(&volume.name).is_some_and(|latest| **latest == *volume) {
                handle.assume.as_seen::<PersistentVolume>(&Kind::key(volume));
            }
        }
        for claim in held.provisions.iter().filter_map(|one| one.selected.as_ref()) {
            if known.claims.get(&claim.key).is_some_and(|latest| **latest == *claim) {
                handle.assume.as_seen::<PersistentVolumeClaim>(&claim.key);
            }
        }
    }
}

/// As in binder.go, `BindPodVolumes`.
impl PreBind for VolumeBinding {
    type Held = HeldClaims;

    fn pre_bind(&self, held: &HeldClaims, _: &Placement<'_>, handle: &mut Handle<'_>) {
        for binding in &held.bindings {
            if let Some(merge) = binding.patch() {
                handle.writes.patch::<PersistentVolume>(Kind::key(&*binding.volume), merge);
            }
        }
        for provision in &held.provisions {
            if let Some(merge) = provision.patch() {
                handle.writes.patch::<PersistentVolumeClaim>(provision.claim.key.clone(), merge);
            }
        }
    }

    fn ready(&self, held: &HeldClaims, at: &Placement<'_>, _: &mut Handle<'_>) -> Readiness {
        match held.ready(at) {
            Ok(true) => Readiness::Ready,
            Ok(false) => Readiness::Waiting,
            Err(why) => Readiness::Failed(not_bound(&why)),
        }
    }

    fn timeout(&self) -> Duration {
        self.bind_timeout
    }

    fn timed_out(&self, _: &HeldClaims) -> Rejection {
        not_bound(TIMED_OUT)
    }
}

#[cold]
fn not_bound(why: &str) -> Rejection {
    Rejection::error(format!("binding volumes: {why}"))
}

impl HeldClaims {
    fn new(found: &FoundVolumes<'_>, node: &Str) -> Self {
        let bindings = found.bindings.iter().map(|(waiting, volume)| StaticBinding {
            claim: waiting.claim.clone(),
            volume: (*volume).clone(),
            reserved: reserved_for(&waiting.claim, volume),
        });
        let provisions = found.provisions.iter().map(|provision| {
            let claim = provision.claim.claim.clone();
            let selected = (claim.selected_node.as_ref() != Some(node)).then(|| {
                PersistentVolumeClaim { selected_node: Some(node.clone()), ..(*claim).clone() }
            });
            DynamicProvision { claim, selected }
        });
        HeldClaims { bindings: bindings.collect(), provisions: provisions.collect() }
    }

    /// Whether all claims are bound; the error says why they never will be. Only observed state counts,
    /// not assumptions. As in binder.go, `checkBindings`.
    fn ready(&self, at: &Placement<'_>) -> Result<bool, String> {
        if self.bindings.is_empty() && self.provisions.is_empty() {
            return Ok(true);
        }
        let node = at.node;
        let Some(row) = at.row else {
            return Err(format!("failed to get node {node:?}: node {node:?} not found"));
        };
        let site = BindingSite {
            node,
            labels: &at.view.nodes.node(row).labels,
            cluster: VolumeStore::of(at.view.stores),
        };
        for binding in &self.bindings {
            if !binding.is_bound(site)? {
                return Ok(false);
            }
        }
        for provision in &self.provisions {
            if !provision.is_bound(site)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The volume with a reservation for the claim; `None` if it has that already. As in pv_helpers.go,
/// `GetBindVolumeToClaim`: a reservation by the user is only completed with the uid.
fn reserved_for(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Option<PersistentVolume> {
    let by = ClaimRef { key: claim.key.clone(), uid: claim.uid.clone() };
    let bound_by_controller = volume.bound_by_controller || !volume.is_reserved_for(claim);
    if volume.claim.as_ref() == Some(&by) && volume.bound_by_controller == bound_by_controller {
        return None;
    }
    Some(PersistentVolume { claim: Some(by), bound_by_controller, ..volume.clone() })
}

impl StaticBinding {
    fn patch(&self) -> Option<Value> {
        let reserved = self.reserved.as_ref()?;
        let mut metadata = precondition(&self.volume.uid, &self.volume.resource_version);
        if reserved.bound_by_controller != self.volume.bound_by_controller {
            metadata.insert("annotations".into(), json!({ BOUND_BY_CONTROLLER: "yes" }));
        }
        let claim = &self.claim;
        let mut reference = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.key.namespace,
            "name": claim.key.name,
            "uid": claim.uid,
        });
        if !claim.resource_version.is_empty() {
            reference["resourceVersion"] = json!(claim.resource_version);
        }
        Some(json!({ "metadata": metadata, "spec": { "claimRef": reference } }))
    }

    fn is_bound(&self, site: BindingSite<'_>) -> Result<bool, String> {
        let failed = |why| format!("failed to check binding: {why}");
        let name = &self.volume.name;
        let volume = site.volume(name).map_err(failed)?;
        let claim = site.claim(&self.claim.key).map_err(failed)?;
        if site.cluster.volumes.is_assumed(name) {
            return Ok(false);
        }
        let translated = |why| format!("failed to translate pv to csi: {why}");
        site.check_reached(&*site.migrated(volume).map_err(translated)?)?;
        if volume.claim.as_ref().is_none_or(|by| by.uid.is_empty()) {
            return Err(format!("ClaimRef got reset for pv {name:?}"));
        }
        Ok(claim.is_fully_bound())
    }
}

impl DynamicProvision {
    fn patch(&self) -> Option<Value> {
        let node = self.selected.as_ref()?.selected_node.as_ref()?;
        let mut metadata = precondition(&self.claim.uid, &self.claim.resource_version);
        metadata.insert("annotations".into(), json!({ SELECTED_NODE: node }));
        Some(json!({ "metadata": metadata }))
    }

    fn is_bound(&self, site: BindingSite<'_>) -> Result<bool, String> {
        let failed = |why| format!("failed to check provisioning pvc: {why}");
        let claim = site.claim(&self.claim.key).map_err(failed)?;
        if site.cluster.claims.is_assumed(&self.claim.key) {
            return Ok(false);
        }
        // A provisioner that cannot serve the node removes the selected node.
        if claim.selected_node.as_ref() != Some(site.node) {
            return Err(format!("provisioning failed for PVC {:?}", claim.key.name));
        }
        if let Some(name) = &claim.volume {
            // The claim may be observed before its volume.
            let Ok(volume) = site.volume(name) else { return Ok(false) };
            site.check_reached(&*site.migrated(volume)?)?;
        }
        Ok(claim.is_fully_bound())
    }
}

/// A precondition, so that the API server refuses to change an object that differs from the observed
/// one.
fn precondition(uid: &Str, resource_version: &Str) -> Map<String, Value> {
    [("uid", uid), ("resourceVersion", resource_version)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect()
}

/// The chosen node, and the observed volumes.
#[derive(Clone, Copy)]
struct BindingSite<'a> {
    node: &'a Str,
    labels: &'a Labels,
    cluster: VolumeStore<'a>,
}

impl<'a> BindingSite<'a> {
    fn volume(self, name: &str) -> Result<&'a Arc<PersistentVolume>, String> {
        let volume = self.cluster.volumes.observed(name);
        volume.ok_or_else(|| format!("persistentvolumes {name:?} not found"))
    }

    fn claim(self, key: &ObjectKey) -> Result<&'a Arc<PersistentVolumeClaim>, String> {
        let claim = self.cluster.claims.observed(key);
        claim.ok_or_else(|| format!("persistentvolumeclaims \"{key}\" not found"))
    }

    /// The volume in its form on the node.
    fn migrated(self, volume: &'a PersistentVolume) -> Result<Cow<'a, PersistentVolume>, String> {
        let is_migrated = |plugin: &str| {
            let here = self.cluster.csi_nodes.get(self.node);
            here.is_some_and(|here| here.migrated_plugins.iter().any(|one| one == plugin))
        };
        if !migration::in_tree_plugin(&volume.source).is_some_and(is_migrated) {
            return Ok(Cow::Borrowed(volume));
        }
        let migrated = migration::migrated(volume).map(Cow::Owned);
        migrated.map_err(|why| format!("could not translate pv: {why}"))
    }

    fn check_reached(self, volume: &PersistentVolume) -> Result<(), String> {
        if volume.reaches(self.labels) {
            return Ok(());
        }
        let (volume, node) = (&volume.name, self.node);
        Err(format!(
            "pv {volume:?} node affinity doesn't match node {node:?}: no matching NodeSelectorTerms"
        ))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{Cluster, HandleParts, Scenario, expect};

    use super::super::VolumeBindingArgs;
    use super::*;

    /// A pod with a claim for which there is a volume, and one for which a volume must be provisioned.
    const BOTH: &str = r#"
        node a zone=z1
        sc local {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        sc made {"provisioner": "csi.a", "volumeBindingMode": "WaitForFirstConsumer"}
        pv disk {"storageClassName": "local", "metadata": {"resourceVersion": "3"}}
        pvc data {"storageClassName": "local", "metadata": {"resourceVersion": "4"}}
        pvc new {"storageClassName": "made", "metadata": {"resourceVersion": "5"}}
        pod p {"volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "new", "persistentVolumeClaim": {"claimName": "new"}}
        ]}
    "#;

    const RESERVED: &str = r#"
        pv disk {"storageClassName": "local", "metadata": {"resourceVersion": "6"},
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
            "claimRef": {"namespace": "default", "name": "data", "uid": "default/data"}}
    "#;
    const SELECTED: &str = r#"
        pvc new {"storageClassName": "made", "metadata": {"resourceVersion": "7"},
            "annotations": {"volume.kubernetes.io/selected-node": "a"}}
    "#;
    const DATA_BOUND: &str = r#"
        pvc data {"storageClassName": "local", "volumeName": "disk", "metadata": {"resourceVersion": "8"},
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    "#;
    const NEW_BOUND: &str = r#"
        pvc new {"storageClassName": "made", "volumeName": "made", "metadata": {"resourceVersion": "9"},
            "annotations": {"pv.kubernetes.io/bind-completed": "yes",
                "volume.kubernetes.io/selected-node": "a"}}
    "#;

    /// The pending pod of a scenario, being bound to the node `a`.
    struct BindingScenario {
        cluster: Cluster,
        pod: PodInfo,
        node: Str,
    }

    impl BindingScenario {
        fn of(scenario: &str) -> Self {
            let scenario = Scenario::parse(scenario).expect("the scenario is right");
            let pod = scenario.pending.first().expect("there is a pod").clone();
            BindingScenario { cluster: Cluster::of(&scenario), pod, node: "a".into() }
        }

        fn placement(&self) -> Placement<'_> {
            let row = self.cluster.row(&self.node);
            Placement { pod: &self.pod, node: &self.node, row, view: self.cluster.view() }
        }

        fn reserve(&mut self) -> HeldClaims {
            let mut parts = HandleParts::default();
            let held = plugin()
                .reserve(&self.placement(), &mut parts.handle(VolumeBinding::NAME))
                .expect("the node has what the pod needs");
            self.assume(parts.assumed);
            held
        }

        fn unreserve(&mut self, held: HeldClaims) {
            let mut parts = HandleParts::default();
            let handle = &mut parts.handle(VolumeBinding::NAME);
            plugin().unreserve(held, &self.placement(), handle);
            self.assume(parts.assumed);
        }

        fn assume(&mut self, said: Vec<Assumption>) {
            for one in said {
                match one {
                    Assumption::Is(object) => self.cluster.stores.assume(&object),
                    Assumption::Held(object) => self.cluster.stores.hold(&object),
                    Assumption::AsSeen(kind, key) => self.cluster.stores.restore(kind, &key),
                }
            }
        }

        fn see(&mut self, objects: &str) {
            let seen = Scenario::parse(objects).expect("the objects are right");
            for object in seen.objects {
                self.cluster.stores.set(&object);
            }
        }

        fn writes(&self, held: &HeldClaims) -> String {
            let mut parts = HandleParts::default();
            let handle = &mut parts.handle(VolumeBinding::NAME);
            plugin().pre_bind(held, &self.placement(), handle);
            let line = |one: &ObjectWrite| match &one.verb {
                WriteVerb::Patch { merge, .. } => format!("{} {}: {merge}\n", one.kind, one.key),
                other => panic!("only patches are expected, not {other:?}"),
            };
            parts.written.iter().map(line).collect()
        }

        fn ready(&self, held: &HeldClaims) -> String {
            let mut parts = HandleParts::default();
            let handle = &mut parts.handle(VolumeBinding::NAME);
            match plugin().ready(held, &self.placement(), handle) {
                Readiness::Failed(why) => format!("{}: {why}", why.code.as_str()),
                other => format!("{other:?}"),
            }
        }
    }

    fn plugin() -> VolumeBinding {
        VolumeBinding::new(VolumeBindingArgs::default(), &FeatureGates::default())
    }

    #[test]
    fn a_volume_is_reserved_and_a_node_selected_as_they_were_when_that_was_decided() {
        let mut way = BindingScenario::of(BOTH);
        let held = way.reserve();
        expect![[r#"
            PersistentVolume disk: {"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"},"resourceVersion":"3","uid":"disk"},"spec":{"claimRef":{"apiVersion":"v1","kind":"PersistentVolumeClaim","name":"data","namespace":"default","resourceVersion":"4","uid":"default/data"}}}
            PersistentVolumeClaim default/new: {"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"a"},"resourceVersion":"5","uid":"default/new"}}
        "#]]
        .assert_eq(&way.writes(&held));
    }

    #[test]
    fn the_smaller_of_two_claims_is_the_first_to_get_the_smallest_volume_that_fits() {
        let volume = |name: &str, size: u32| {
            format!(
                "pv {name} {{\"storageClassName\": \"local\", \"capacity\": {{\"storage\": {size}}}}}\n"
            )
        };
        let claim = |name: &str, size: u32| {
            let resources = format!("{{\"requests\": {{\"storage\": {size}}}}}");
            format!("pvc {name} {{\"storageClassName\": \"local\", \"resources\": {resources}}}\n")
        };
        let volumes =
            [("a", 9), ("b", 8), ("c", 1), ("d", 9)].map(|(name, size)| volume(name, size));
        let claims = [("large", 7), ("small", 2)].map(|(name, size)| claim(name, size));
        let pod = BOTH.replace(r#""data"}"#, r#""large"}"#).replace(r#""new"}"#, r#""small"}"#);
        let mut way = BindingScenario::of(&[pod, volumes.concat(), claims.concat()].concat());
        let held = way.reserve();
        let chosen =
            held.bindings.iter().map(|one| (one.claim.key.name.as_str(), &*one.volume.name));
        assert_eq!(chosen.collect::<Vec<_>>(), [("small", "b"), ("large", "a")]);
    }

    #[test]
    fn what_is_held_counts_until_it_is_given_back() {
        let mut way = BindingScenario::of(BOTH);
        let held = way.reserve();
        let new = ObjectKey::new("default", "new");
        let disk = |way: &BindingScenario| {
            way.cluster.stores.of::<PersistentVolume>().get("disk").cloned()
        };
        assert!(disk(&way).is_some_and(|disk| disk.claim.is_some()));
        let claims = way.cluster.stores.of::<PersistentVolumeClaim>();
        assert!(claims.get(&new).is_some_and(|new| new.selected_node.as_deref() == Some("a")));
        way.unreserve(held);
        assert!(disk(&way).is_some_and(|disk| disk.claim.is_none()));
        let claims = way.cluster.stores.of::<PersistentVolumeClaim>();
        assert!(claims.get(&new).is_some_and(|new| new.selected_node.is_none()));
    }

    #[test]
    fn a_pod_that_shares_a_claim_writes_nothing_that_another_is_writing() {
        let mut way = BindingScenario::of(BOTH);
        let first = way.reserve();
        let second = way.reserve();
        assert_eq!(way.writes(&second), "");
        way.unreserve(second);
        assert!(way.cluster.stores.of::<PersistentVolume>().is_assumed("disk"));
        way.unreserve(first);
        assert!(!way.cluster.stores.of::<PersistentVolume>().is_assumed("disk"));
    }

    #[test]
    fn what_another_pod_holds_since_is_not_given_back() {
        let mut way = BindingScenario::of(BOTH);
        let first = way.reserve();
        way.see(&RESERVED.replace(r#""claimRef""#, r#""was""#));
        let second = way.reserve();
        way.unreserve(first);
        assert!(way.cluster.stores.of::<PersistentVolume>().is_assumed("disk"));
        way.unreserve(second);
        assert!(!way.cluster.stores.of::<PersistentVolume>().is_assumed("disk"));
    }

    #[test]
    fn a_reservation_by_the_user_is_completed_and_stays_the_users() {
        let by_user = BOTH.replace(
            r#"pv disk {"#,
            r#"pv disk {"claimRef": {"namespace": "default", "name": "data"}, "#,
        );
        let mut way = BindingScenario::of(&by_user);
        let held = way.reserve();
        let writes = way.writes(&held);
        assert!(writes.contains(r#""uid":"default/data""#), "{writes}");
        assert!(!writes.contains("bound-by-controller"), "{writes}");
    }

    #[test]
    fn a_pod_waits_until_all_of_its_claims_are_seen_to_be_bound() {
        let mut way = BindingScenario::of(BOTH);
        let held = way.reserve();
        for (seen, ready) in [
            ("", "Waiting"),
            (RESERVED, "Waiting"),
            (SELECTED, "Waiting"),
            (DATA_BOUND, "Waiting"),
            (NEW_BOUND, "Waiting"),
            ("pv made", "Ready"),
        ] {
            way.see(seen);
            assert_eq!(way.ready(&held), ready, "after {seen}");
        }
    }

    #[test]
    fn claims_that_are_not_bound_in_time_are_told() {
        let held = BindingScenario::of(BOTH).reserve();
        let why = plugin().timed_out(&held);
        let told = format!("{}: {why}", why.code.as_str());
        assert_eq!(told, "Error: binding volumes: context deadline exceeded");
    }

    #[test]
    fn a_pod_whose_claims_are_bound_already_waits_for_nothing() {
        let mut way = BindingScenario::of(BOTH);
        way.see(DATA_BOUND);
        way.see(NEW_BOUND);
        let held = way.reserve();
        assert_eq!((way.writes(&held).as_str(), way.ready(&held).as_str()), ("", "Ready"));
    }

    #[test]
    fn a_pod_is_tried_anew_where_its_claims_will_not_be_bound() {
        let far = r#""nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z9"]}]}
        ]}}"#;
        let reset = RESERVED.replace(r#""claimRef""#, r#""was""#);
        let deselected = SELECTED.replace(r#""annotations""#, r#""was""#);
        let moved =
            RESERVED.replace(r#""storageClassName""#, &format!(r#"{far}, "storageClassName""#));
        let made_far = format!("{NEW_BOUND}\npv made {{{far}}}");
        for (seen, told) in [
            (reset, r#"ClaimRef got reset for pv "disk""#),
            (
                moved,
                r#"pv "disk" node affinity doesn't match node "a": no matching NodeSelectorTerms"#,
            ),
            (format!("{RESERVED}{DATA_BOUND}{deselected}"), r#"provisioning failed for PVC "new""#),
            (
                format!("{RESERVED}{DATA_BOUND}{made_far}"),
                r#"pv "made" node affinity doesn't match node "a": no matching NodeSelectorTerms"#,
            ),
        ] {
            let mut way = BindingScenario::of(BOTH);
            let held = way.reserve();
            way.see(&seen);
            assert_eq!(way.ready(&held), format!("Error: binding volumes: {told}"));
        }
    }

    #[test]
    fn what_is_gone_is_told() {
        let mut way = BindingScenario::of(BOTH);
        let held = way.reserve();
        let (data, disk) = (ObjectKey::new("default", "data"), ObjectKey::new("", "disk"));
        way.cluster.stores.remove(KindRef::of::<PersistentVolumeClaim>(), &data);
        assert_eq!(
            way.ready(&held),
            "Error: binding volumes: failed to check binding: persistentvolumeclaims \
             \"default/data\" not found"
        );
        way.cluster.stores.remove(KindRef::of::<PersistentVolume>(), &disk);
        assert_eq!(
            way.ready(&held),
            "Error: binding volumes: failed to check binding: persistentvolumes \"disk\" not found"
        );
        way.node = "b".into();
        assert_eq!(
            way.ready(&held),
            "Error: binding volumes: failed to get node \"b\": node \"b\" not found"
        );
    }
}
