//! A settled cluster: what controllers have done before a scheduler starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::{
    AnyObject, ClaimPhase, Labels, ObjectKey, PersistentVolumeClaim, Pod, PodGroup, PodKey,
    ResourceClaim, Str,
};
use plimsoll_engine::{Event, Observation};
use plimsoll_framework::Time;
use rustc_hash::FxHashMap;

use crate::claims::{ClaimController, ClaimObjects};
use crate::cluster::InitialCluster;
use crate::lifecycle;
use crate::volumes::SimulatedVolumes;

impl InitialCluster {
    /// Groups of pods share no claims any more. An API server without `DRAWorkloadResourceClaims` keeps them from being
    /// written; pods of such a group then get claims of their own.
    pub fn drop_group_claims(&mut self) {
        for object in &mut self.objects {
            if let Some(group) = object.get::<PodGroup>()
                && !(group.resource_claims.is_empty() && group.claim_statuses.is_empty())
            {
                let without = PodGroup {
                    resource_claims: Vec::new(),
                    claim_statuses: Vec::new(),
                    ..group.clone()
                };
                *object = without.into();
            }
        }
    }

    /// The cluster after the API server and the controllers have done their work, which hand-written
    /// files do not contain: claims and pods that claim devices get a uid, volumes become available,
    /// claims that do not wait for a pod get their volumes, and pods get the claims on devices that are
    /// made from templates. Pods on nodes without a start time were started last.
    ///
    /// A claim with the phase `Pending` comes from an API server. It stays as it is: the controllers have seen it, and
    /// have not bound it so far.
    #[must_use]
    pub fn settled(mut self) -> Self {
        for object in &mut self.objects {
            if let Some(claim) = object.get::<PersistentVolumeClaim>()
                && claim.uid.is_empty()
            {
                let uid = uid_of(&claim.key);
                *object = PersistentVolumeClaim { uid, ..claim.clone() }.into();
            }
            if let Some(claim) = object.get::<ResourceClaim>()
                && claim.uid.is_empty()
            {
                let uid = uid_of(&claim.key);
                *object = ResourceClaim { uid, ..claim.clone() }.into();
            }
            if let Some(group) = object.get::<PodGroup>()
                && group.uid.is_empty()
                && !group.resource_claims.is_empty()
            {
                // A claim is reserved for a uid.
                *object = PodGroup { uid: uid_of(&group.key), ..group.clone() }.into();
            }
        }
        self.make_claims();
        self.start_pods();
        let labels = |node: &Str| -> Option<&Labels> {
            self.nodes.iter().find(|one| one.name == *node).map(|one| &one.labels)
        };
        let mut volumes = SimulatedVolumes::default();
        let is_pending = |object: &&AnyObject| {
            let claim = object.get::<PersistentVolumeClaim>();
            claim.is_some_and(|claim| claim.phase == ClaimPhase::Pending)
        };
        for object in self.objects.iter().filter(|object| !is_pending(object)) {
            volumes.happens(&Observation::Is(object.clone()));
        }
        let mut settled = BTreeMap::new();
        // Each iteration advances a volume or a claim by one step, and no step is repeated.
        loop {
            let mut changes = volumes.bind();
            for order in volumes.orders() {
                let node = order.node.as_ref().and_then(labels);
                changes.extend(volumes.provision(&order, node));
            }
            if changes.is_empty() {
                break;
            }
            for object in changes {
                let seen = Observation::Is(object);
                volumes.happens(&seen);
                if let Observation::Is(object) = seen {
                    settled.insert((object.kind(), object.key()), object);
                }
            }
        }
        for object in &mut self.objects {
            if let Some(changed) = settled.remove(&(object.kind(), object.key())) {
                *object = changed;
            }
        }
        self.objects.extend(settled.into_values());
        for object in &mut self.objects {
            if let Some(claim) = object.get::<PersistentVolumeClaim>()
                && claim.phase == ClaimPhase::Unset
            {
                let phase = ClaimPhase::Pending;
                *object = PersistentVolumeClaim { phase, ..claim.clone() }.into();
            }
        }
        self
    }

    /// Gives pods on nodes a start time that have none, after those of all others.
    fn start_pods(&mut self) {
        let started = lifecycle::started_after(
            self.pods.iter().filter_map(|pod| pod.started).max(),
            self.begins(),
        );
        for pod in &mut self.pods {
            if pod.node_name.is_some() && pod.started.is_none() {
                pod.started = started;
            }
        }
    }

    /// Makes claims on devices from templates.
    fn make_claims(&mut self) {
        let mut controller = ClaimController::default();
        self.claim_templates().for_each(|template| controller.add_template(template));
        let mut claims = ClaimObjects::default();
        for object in &self.objects {
            let seen = Observation::Is(object.clone());
            claims.observe(&seen);
            if object.get::<PodGroup>().is_some() {
                controller.happens(None, &seen);
            }
        }
        let mut pods = FxHashMap::default();
        for pod in &mut self.pods {
            let may_claim = !pod.resource_claims.is_empty() || !pod.container_devices.is_empty();
            if may_claim && pod.uid.is_empty() {
                // A claim is reserved for a uid.
                pod.uid = uid_of(&pod.key);
            }
            if !pod.resource_claims.is_empty() {
                controller.pod_is(pod);
                pods.insert(pod.key.clone(), Arc::new(pod.clone()));
            }
        }
        let mut changed: BTreeMap<PodKey, Pod> = BTreeMap::new();
        for event in controller.work(Time::ZERO, &pods, &mut claims) {
            match event {
                Event::Pod(Observation::Is(pod)) => {
                    changed.insert(pod.key.clone(), Pod::clone(&pod));
                }
                Event::Object(Observation::Is(object)) => {
                    let is_it = |known: &&mut AnyObject| {
                        (known.kind(), known.key()) == (object.kind(), object.key())
                    };
                    match self.objects.iter_mut().find(is_it) {
                        Some(group) => *group = object,
                        None => self.objects.push(object),
                    }
                }
                other => unreachable!("claims are only made: {other:?}"),
            }
        }
        for pod in &mut self.pods {
            if let Some(changed) = changed.remove(&pod.key) {
                *pod = changed;
            }
        }
    }
}

/// A uid for an object without one.
fn uid_of(key: &ObjectKey) -> Str {
    format!("{}.{}", key.namespace, key.name).into()
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{
        AnyObject, BindingMode, PersistentVolume, StorageClass, Timestamp, VolumePhase,
    };

    use super::*;

    fn claim(name: &str, class: &str) -> AnyObject {
        AnyObject::new(PersistentVolumeClaim {
            key: ObjectKey::new("shop", name),
            class: class.into(),
            ..PersistentVolumeClaim::default()
        })
    }

    fn class(name: &str, provisioner: &str, binding_mode: BindingMode) -> AnyObject {
        let (name, provisioner) = (name.into(), provisioner.into());
        AnyObject::new(StorageClass { name, provisioner, binding_mode, ..StorageClass::default() })
    }

    #[test]
    fn what_waits_for_no_pod_is_bound_and_what_waits_for_one_could_be() {
        let disk = PersistentVolume {
            name: "disk".into(),
            class: "now".into(),
            ..PersistentVolume::default()
        };
        let local = PersistentVolume {
            name: "local".into(),
            class: "late".into(),
            ..PersistentVolume::default()
        };
        let cluster = InitialCluster {
            objects: vec![
                class("now", "kubernetes.io/no-provisioner", BindingMode::Immediate),
                class("late", "kubernetes.io/no-provisioner", BindingMode::WaitForFirstConsumer),
                class("made", "csi.example.com", BindingMode::Immediate),
                claim("a", "now"),
                claim("b", "late"),
                claim("c", "made"),
                AnyObject::new(disk),
                AnyObject::new(local),
            ],
            ..InitialCluster::default()
        };
        let n_objects = cluster.objects.len();
        let settled = cluster.settled();
        let (mut claims, mut volumes) = (Vec::new(), Vec::new());
        for object in &settled.objects {
            if let Some(claim) = object.get::<PersistentVolumeClaim>() {
                assert!(!claim.uid.is_empty());
                claims.push((claim.key.name.as_str(), claim.phase, claim.volume.as_deref()));
            }
            if let Some(volume) = object.get::<PersistentVolume>() {
                volumes.push((volume.name.as_str(), volume.phase));
            }
        }
        assert_eq!(
            claims,
            [
                ("a", ClaimPhase::Bound, Some("disk")),
                ("b", ClaimPhase::Pending, None),
                ("c", ClaimPhase::Bound, Some("pvc-shop.c")),
            ]
        );
        assert_eq!(
            volumes,
            [
                ("disk", VolumePhase::Bound),
                ("local", VolumePhase::Available),
                ("pvc-shop.c", VolumePhase::Bound),
            ]
        );
        assert_eq!(settled.objects.len(), n_objects + 1);
        // At rest it stays as it is.
        assert_eq!(settled.clone().settled().objects, settled.objects);
    }

    #[test]
    fn a_claim_that_an_api_server_calls_pending_is_pending() {
        let pending = PersistentVolumeClaim {
            key: ObjectKey::new("shop", "a"),
            uid: "a".into(),
            class: "made".into(),
            phase: ClaimPhase::Pending,
            ..PersistentVolumeClaim::default()
        };
        let cluster = InitialCluster {
            objects: vec![
                class("made", "csi.example.com", BindingMode::Immediate),
                AnyObject::new(pending),
            ],
            ..InitialCluster::default()
        };
        assert_eq!(cluster.clone().settled().objects, cluster.objects);
    }

    #[test]
    fn a_pod_on_a_node_without_a_start_time_was_started_last() {
        let pod = |name: &str, node: Option<&str>, started: Option<i64>| Pod {
            key: PodKey::new("shop", name),
            node_name: node.map(Str::from),
            started: started.map(|at| Timestamp::from_second(at).expect("it is in range")),
            ..Pod::default()
        };
        let pods = vec![
            pod("early", Some("n"), Some(1)),
            pod("unknown", Some("n"), None),
            pod("late", Some("n"), Some(2)),
            pod("pending", None, None),
        ];
        let mut pods = InitialCluster { pods, ..InitialCluster::default() }.settled().pods;
        assert_eq!(pods.pop().and_then(|pod| pod.started), None, "it has no node");
        pods.sort_by_key(|pod| pod.started);
        assert_eq!(
            pods.iter().map(|pod| &*pod.key.name).collect::<Vec<_>>(),
            ["early", "late", "unknown"]
        );
    }
}
