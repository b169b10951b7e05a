//! NodeVolumeLimits: how many volumes can be attached to a node.

mod keys;

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;

use crate::csi_migration::{self, InTree};
use crate::pod_claims::{self, NAMELESS_CLAIM};

/// With this gate a driver can require that it runs on the nodes of its volumes; other nodes are
/// rejected. On since 1.37.
const VOLUME_LIMIT_SCALING: &str = "VolumeLimitScaling";

const TOO_MANY: &str = "node(s) exceed max volume count";

/// Rejects nodes to which the volumes of the pod cannot all be attached.
///
/// A machine has a limited number of slots for disks, and its CSINode has the limit of each CSI driver.
/// The plugin counts the volumes of the pods on the node, each once however many pods use it, and those
/// that are still attached although no pod uses them any more. A claim that is not bound yet counts as
/// a volume of its class's driver. Volumes of former in-tree plugins count as volumes of the CSI driver
/// that now serves them.
///
/// ```yaml
/// kind: CSINode
/// spec:
///   drivers: [{name: ebs.csi.aws.com, nodeID: i-1, allocatable: {count: 25}}]
/// ```
#[derive(Clone, Debug)]
pub struct NodeVolumeLimits {
    drivers_must_run: bool,
}

impl Plugin for NodeVolumeLimits {
    const NAME: &'static str = "NodeVolumeLimits";
    type Args = NoArgs;
    fn new(_: NoArgs, gates: &FeatureGates) -> Self {
        let by_default = Release::V1_37 <= gates.release();
        NodeVolumeLimits { drivers_must_run: gates.enabled(VOLUME_LIMIT_SCALING, by_default) }
    }
}

/// A volume that needs a slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Slot {
    /// This comes first, since it distinguishes slots faster than the driver.
    volume: VolumeIdentity,
    driver: Str,
}

/// The identity of a volume within its driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum VolumeIdentity {
    /// The driver's handle.
    Handle(Str),
    /// The claim for which it will be provisioned or found.
    Claim(ObjectKey),
}

type Slots = BTreeSet<Slot>;

/// The pod's volumes, and the data to find those of other pods.
#[derive(Debug)]
pub struct PodVolumeSlots {
    /// For nodes with a CSINode, where CSI drivers serve former in-tree plugins.
    with_drivers: Result<Slots, Rejection>,
    /// For nodes without a CSINode.
    without_drivers: Result<Slots, Rejection>,
    /// Whether judging a node may fail because of the volumes of a pod there.
    others_may_err: bool,
    /// The pod's claims; `None` if it has other volumes that may take a slot.
    claims: Option<SmallVec<[ObjectKey; 1]>>,
    store: KeptVolumes,
}

impl PreFilter for NodeVolumeLimits {
    type Pod = (PodKey, PodUid, PodVolumes);
    type Node = (Name, Pods);
    type Cluster = (Volumes, ObjectsOf<Volumes>, VolumesInUse);
    type State = Arc<PodVolumeSlots>;

    fn applies(&self, (_, _, volumes): (&PodKey, &Str, &[PodVolume])) -> bool {
        volumes.iter().any(may_take_slot)
    }

    fn pre_filter(
        &self,
        (key, uid, volumes): (&PodKey, &Str, &[PodVolume]),
        (store, _, in_use): Ref<'_, Self::Cluster>,
    ) -> Result<Option<Arc<PodVolumeSlots>>, Rejection> {
        let pod = Mounts { key, uid, volumes };
        Ok(Some(Arc::new(PodVolumeSlots {
            with_drivers: pod.slots_wanted(store, VolumeServers::Migrated),
            without_drivers: pod.slots_wanted(store, VolumeServers::Original),
            others_may_err: 0 < in_use.n_special(),
            claims: pod.claims(),
            store: store.keep(),
        })))
    }

    fn filter(&self, wanted: &Arc<PodVolumeSlots>, (name, pods): (&Str, &PodSet)) -> Verdict {
        self.judge(wanted, name, pods).map_or_else(Verdict::Fail, |()| Verdict::Pass)
    }

    /// A claim that a pod names is an error only if its name is empty. All other errors come from special volumes.
    fn may_err(&self, wanted: &Arc<PodVolumeSlots>) -> bool {
        let errs = |slots: &Result<Slots, Rejection>| {
            slots.as_ref().is_err_and(|why| why.code == Code::Error)
        };
        wanted.others_may_err || errs(&wanted.with_drivers) || errs(&wanted.without_drivers)
    }

    fn update(&self, _: &mut Arc<PodVolumeSlots>, _: PodChange<'_>, _: (&Str, &PodSet)) -> Update {
        Update::Exact
    }
}

impl NodeVolumeLimits {
    /// As in csi.go, Filter.
    fn judge(&self, wanted: &PodVolumeSlots, name: &Str, pods: &PodSet) -> Result<(), Rejection> {
        let csi_node = wanted.store.store().csi_nodes.get(name.as_str());
        let (slots, plugins) = match csi_node {
            Some(_) => (&wanted.with_drivers, VolumeServers::Migrated),
            None => (&wanted.without_drivers, VolumeServers::Original),
        };
        let slots = slots.as_ref().map_err(Clone::clone)?;
        if self.drivers_must_run {
            drivers_run(slots, csi_node.map(Arc::as_ref), wanted.store.store())?;
        }
        let limits = csi_node.map_or(&[][..], |node| &node.drivers).iter();
        let limits: SmallVec<[_; 4]> =
            limits.filter_map(|driver| Some((&driver.name, driver.limit?))).collect();
        if slots.is_empty() || limits.is_empty() {
            return Ok(());
        }
        let attachments = wanted.store.store().attachments.by_index(name);
        // Most nodes have enough slots even if all volumes are different. A special volume may be one that
        // prevents judging the node.
        let VolumeNumbers { claims, special } = pods.volumes();
        let at_most = claims + attachments.count() + slots.len();
        let least = limits.iter().map(|&(_, limit)| usize::try_from(limit).unwrap_or(0)).min();
        if special == 0 && least.is_some_and(|least| at_most <= least) {
            return Ok(());
        }

        let attached = attached_to(name, wanted.store.store());
        let mut taken = Vec::with_capacity(pods.len());
        for pod in pods.iter() {
            Mounts::of(pod).add_slots_taken(wanted.store.store(), plugins, &mut taken)?;
        }
        taken.sort_unstable();
        taken.dedup();
        let is_free = |slot: &&Slot| taken.binary_search(slot).is_err();
        for (driver, limit) in limits {
            let new = slots.iter().filter(is_free).filter(|slot| slot.driver == *driver).count();
            // As upstream, a volume that is attached but not used by a pod of the node counts in
            // addition to the pod's, even if it is the same volume.
            let idle = attached.iter().filter(is_free);
            let used = taken.iter().chain(idle).filter(|slot| slot.driver == *driver).count();
            if 0 < new && usize::try_from(limit).unwrap_or(0) < used + new {
                return Err(Rejection::unschedulable(TOO_MANY));
            }
        }
        Ok(())
    }
}

/// As in csi.go, checkCSIDriverOnNode: a driver that requires it must run on the node.
fn drivers_run(
    slots: &Slots,
    csi_node: Option<&CsiNode>,
    store: VolumeStore<'_>,
) -> Result<(), Rejection> {
    let must_run = |driver: &Str| {
        store.csi_drivers.get(driver.as_str()).is_some_and(|driver| driver.required_on_node)
    };
    let runs = |driver: &Str| csi_node.is_some_and(|node| node.driver(driver).is_some());
    match slots.iter().map(|slot| &slot.driver).find(|driver| must_run(driver) && !runs(driver)) {
        Some(driver) => {
            let why = format!("{driver} CSI driver is not installed on the node");
            Err(Rejection::unschedulable(why))
        }
        None => Ok(()),
    }
}

/// The volumes that are attached to a node; only those of CSI drivers. As in csi.go,
/// getNodeVolumeAttachmentInfo.
fn attached_to(node: &Str, store: VolumeStore<'_>) -> Slots {
    let mut slots = Slots::new();
    for attachment in store.attachments.by_index(node).filter(|one| !one.attacher.is_empty()) {
        let Attached::Volume(name) = &attachment.attached else { continue };
        let Some(volume) = store.volumes.observed(name.as_str()) else { continue };
        let VolumeSource::Csi { handle, .. } = &volume.source else { continue };
        slots.insert(Slot {
            driver: attachment.attacher.clone(),
            volume: VolumeIdentity::Handle(handle.clone()),
        });
    }
    slots
}

/// What serves the volumes of former in-tree plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VolumeServers {
    /// The in-tree plugins themselves.
    Original,
    /// CSI drivers. As in nodevolumelimits' utils.go, isCSIMigrationOn, every node with a CSINode.
    Migrated,
}

/// The volumes of a pod, and their owner.
#[derive(Clone, Copy)]
struct Mounts<'a> {
    key: &'a PodKey,
    uid: &'a Str,
    volumes: &'a [PodVolume],
}

impl<'a> Mounts<'a> {
    fn of(pod: &'a PodInfo) -> Self {
        Mounts { key: &pod.key, uid: &pod.uid, volumes: &pod.volumes }
    }

    /// The claims; `None` if there are other volumes that may take a slot.
    fn claims(self) -> Option<SmallVec<[ObjectKey; 1]>> {
        let taking = self.volumes.iter().filter(|volume| may_take_slot(volume));
        let key = |name: &Str| ObjectKey::new(self.key.namespace.clone(), name.clone());
        taking.map(|volume| volume.claim().map(key)).collect()
    }

    /// The slots that a pending pod needs. A claim that does not exist rejects it.
    fn slots_wanted(
        self,
        store: VolumeStore<'_>,
        plugins: VolumeServers,
    ) -> Result<Slots, Rejection> {
        let mut slots = Slots::new();
        for volume in self.volumes {
            match self.slot(volume, store, plugins)? {
                ClaimSlot::Slot(slot) => {
                    slots.insert(slot);
                }
                ClaimSlot::None => {}
                ClaimSlot::NoClaim(why) => {
                    let namespace = &self.key.namespace;
                    let name = volume.claim().expect("only a claim can be missing");
                    let why = format!("looking up PVC {namespace}/{name}: {why}");
                    return Err(Rejection::unresolvable(why));
                }
            }
        }
        Ok(slots)
    }

    /// The slots that a pod on a node takes. A claim that does not exist takes none.
    fn add_slots_taken(
        self,
        store: VolumeStore<'_>,
        plugins: VolumeServers,
        slots: &mut Vec<Slot>,
    ) -> Result<(), Rejection> {
        for volume in self.volumes {
            if let ClaimSlot::Slot(slot) = self.slot(volume, store, plugins)? {
                slots.push(slot);
            }
        }
        Ok(())
    }

    /// As in csi.go, filterAttachableVolumes.
    fn slot(
        self,
        volume: &PodVolume,
        store: VolumeStore<'_>,
        plugins: VolumeServers,
    ) -> Result<ClaimSlot, Rejection> {
        let name = match &volume.kind {
            PodVolumeKind::Claim(name) | PodVolumeKind::Ephemeral(name) => name,
            PodVolumeKind::Inline { source, .. } => {
                let slot = slot_of_in_tree(source, &Labels::empty(), plugins).map_err(|why| {
                    let name = &volume.name;
                    Rejection::error(format!("converting volume({name}) from inline to csi: {why}"))
                })?;
                return Ok(slot.map_or(ClaimSlot::None, ClaimSlot::Slot));
            }
        };
        if name.is_empty() {
            return Err(Rejection::error(NAMELESS_CLAIM));
        }
        let claim = match pod_claims::find(store, &self.key.namespace, name) {
            Ok(claim) => claim,
            Err(why) => return Ok(ClaimSlot::NoClaim(why)),
        };
        if let PodVolumeKind::Ephemeral(_) = volume.kind {
            pod_claims::check_made_for(claim, self.key, self.uid).map_err(Rejection::error)?;
        }
        Ok(slot_of_claim(claim, store, plugins).map_or(ClaimSlot::None, ClaimSlot::Slot))
    }
}

/// The slot of one volume of a pod.
enum ClaimSlot {
    Slot(Slot),
    None,
    /// Its claim does not exist, for this reason.
    NoClaim(String),
}

/// As in csi.go, getCSIDriverInfo. A volume that could not be served needs no slot, and neither does
/// one without a name.
fn slot_of_claim(
    claim: &PersistentVolumeClaim,
    store: VolumeStore<'_>,
    plugins: VolumeServers,
) -> Option<Slot> {
    let volume = claim.volume.as_ref().and_then(|name| store.volumes.observed(name.as_str()));
    match volume {
        Some(volume) => slot_of_volume(volume, plugins),
        None => slot_of_class(claim, store, plugins),
    }
}

/// The slot of a volume.
fn slot_of_volume(volume: &PersistentVolume, plugins: VolumeServers) -> Option<Slot> {
    let slot = match &volume.source {
        VolumeSource::Csi { driver, handle } => {
            Slot { driver: driver.clone(), volume: VolumeIdentity::Handle(handle.clone()) }
        }
        source => slot_of_in_tree(source, &volume.labels, plugins).ok()??,
    };
    let nameless = slot.driver.is_empty() || slot.volume == VolumeIdentity::Handle(Str::default());
    (!nameless).then_some(slot)
}

/// The slot of a volume that is yet to be provisioned or found. As in csi.go, getCSIDriverInfoFromSC.
fn slot_of_class(
    claim: &PersistentVolumeClaim,
    store: VolumeStore<'_>,
    plugins: VolumeServers,
) -> Option<Slot> {
    let class = store.classes.get(claim.class.as_str())?;
    let driver = match InTree::named(&class.provisioner) {
        Some(plugin) => migrated(plugin, plugins)?.driver().into(),
        None => class.provisioner.clone(),
    };
    let slot = Slot { driver, volume: VolumeIdentity::Claim(claim.key.clone()) };
    (!slot.driver.is_empty()).then_some(slot)
}

/// The slot of a volume of a former in-tree plugin; `None` if it needs none. The error says why its
/// driver could not serve it.
fn slot_of_in_tree(
    source: &VolumeSource,
    labels: &Labels,
    plugins: VolumeServers,
) -> Result<Option<Slot>, String> {
    let plugin = InTree::of(source).and_then(|plugin| migrated(plugin, plugins));
    let (Some(plugin), Some(handle)) = (plugin, csi_migration::handle(source, labels)) else {
        return Ok(None);
    };
    Ok(Some(Slot { driver: plugin.driver().into(), volume: VolumeIdentity::Handle(handle?) }))
}

/// The plugin, if a CSI driver serves its volumes.
fn migrated(plugin: InTree, plugins: VolumeServers) -> Option<InTree> {
    (plugins == VolumeServers::Migrated && plugin.is_migrated()).then_some(plugin)
}

/// Whether a volume of a pod may have to be attached. As in csi.go, PreFilter.
fn may_take_slot(volume: &PodVolume) -> bool {
    match &volume.kind {
        PodVolumeKind::Claim(_) | PodVolumeKind::Ephemeral(_) => true,
        PodVolumeKind::Inline { source, .. } => InTree::of(source).is_some(),
    }
}

/// As in csi.go, the functions isSchedulableAfter…: a CSINode was added or a limit was raised, a pod
/// with volumes was deleted, a missing claim was added, or a volume was detached that may have used a
/// slot that the pod needs. Of further events kube-scheduler hears nothing, so that pods which they help wait there
/// until the queue is flushed, which is five minutes at most. Here they are tried at once; the decisions are the same.
impl Requeue for NodeVolumeLimits {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::of::<CsiNode>(Action::ADD | Action::UPDATE),
            // Unlike in kube-scheduler, also pods that come: their volumes are on the node already.
            ClusterEvent::of::<Pod>(Action::ADD | Action::DELETE),
            // Unlike in kube-scheduler: a new node has room for all volumes until its drivers are told.
            ClusterEvent::of::<Node>(Action::ADD),
            // Unlike in kube-scheduler, also claims that are bound: their volume may take another slot than
            // a claim does that is not, or none.
            ClusterEvent::of::<PersistentVolumeClaim>(Action::ADD | Action::UPDATE),
            // Unlike in kube-scheduler: a claim may name a volume that comes later, and then takes that volume's slot.
            ClusterEvent::of::<PersistentVolume>(Action::ADD),
            ClusterEvent::of::<VolumeAttachment>(Action::DELETE),
        ]
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let helps = match change.object {
            Object::Assigned { before: Some(gone), .. } => gone.volumes.iter().any(may_take_slot),
            Object::Other(_) => volume_helps(pod, change),
            Object::Assigned { before: None, after: Some(came), .. } => brings_volume(pod, came),
            Object::Assigned { .. } | Object::Itself { .. } => false,
            Object::Node { .. } => true,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

/// Whether an added pod may have a volume of the pod.
fn brings_volume(pod: &Pod, came: &Pod) -> bool {
    let is_inline = |one: &PodVolume| matches!(one.kind, PodVolumeKind::Inline { .. });
    let has_inline = |pod: &Pod| pod.volumes.iter().any(is_inline);
    let claim = |one: &PodVolume| {
        let is = |own: &PodVolume| own.claim().is_some() && own.claim() == one.claim();
        pod.volumes.iter().any(is)
    };
    let same_claim = pod.key.namespace == came.key.namespace && came.volumes.iter().any(claim);
    same_claim || (has_inline(pod) && has_inline(came))
}

fn volume_helps(pod: &Pod, change: &Change<'_>) -> bool {
    if let Some(Versions { before: Some(before), after: Some(after), .. }) = change.of::<CsiNode>()
    {
        return limit_rose(&before, &after);
    }
    if let Some(Versions { before, after: Some(claim), .. }) = change.of::<PersistentVolumeClaim>()
    {
        let mut claims = pod.volumes.iter().filter_map(PodVolume::claim);
        return match before {
            Some(before) => before.volume != claim.volume,
            None => {
                pod.key.namespace == claim.key.namespace
                    && claims.any(|name| *name == claim.key.name)
            }
        };
    }
    if let Some(Versions { after: Some(volume), .. }) = change.of::<PersistentVolume>() {
        return volume.claim.is_some();
    }
    if let Some(Versions { before: Some(attachment), .. }) = change.of::<VolumeAttachment>() {
        return pod.volumes.iter().any(|volume| may_need(volume, &attachment.attacher));
    }
    true
}

/// Whether the limit of a driver was raised; no limit counts as 0.
fn limit_rose(before: &CsiNode, after: &CsiNode) -> bool {
    after.drivers.iter().any(|driver| {
        let limit_before = before.driver(&driver.name).and_then(|driver| driver.limit);
        limit_before.unwrap_or(0) < driver.limit.unwrap_or(0)
    })
}

/// Whether the volume may need a slot of `driver`. Any claim may; claims of generic ephemeral volumes
/// are ignored, as upstream.
fn may_need(volume: &PodVolume, driver: &str) -> bool {
    match &volume.kind {
        PodVolumeKind::Claim(_) => true,
        PodVolumeKind::Ephemeral(_) => false,
        PodVolumeKind::Inline { source, .. } => {
            let broken = matches!(csi_migration::handle(source, &Labels::empty()), Some(Err(_)));
            broken || InTree::of(source).is_some_and(|plugin| plugin.driver() == driver)
        }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<NodeVolumeLimits>().pre_filter().requeue().filter_by_key().done()
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{check, expect, laws};

    use super::*;
    use crate::node_change::tests::hint_after_pod;
    use crate::pod_claims::tests::{
        came, changed, claim, claimed, inline, moved_to, pod_naming, pod_with, store,
    };

    /// Node `a` has a limit of two volumes of the driver `d`, and node `b` has no limit. The claims
    /// `c1` to `c4` are bound, `late` is not.
    const CLUSTER: &str = r#"
        node a
        node b
        csinode a {"drivers": [{"name": "d", "allocatable": {"count": 2}}, {"name": "e"}]}
        sc of-d {"provisioner": "d"}
        pv v1 {"csi": {"driver": "d", "volumeHandle": "1"}}
        pv v2 {"csi": {"driver": "d", "volumeHandle": "2"}}
        pv v3 {"csi": {"driver": "d", "volumeHandle": "3"}}
        pv v4 {"csi": {"driver": "e", "volumeHandle": "4"}}
        pvc c1 {"volumeName": "v1"}
        pvc c2 {"volumeName": "v2"}
        pvc c3 {"volumeName": "v3"}
        pvc c4 {"volumeName": "v4"}
        pvc late {"storageClassName": "of-d"}
    "#;

    /// A pod with these claims, on `node` unless that is empty.
    fn pod(name: &str, node: &str, claims: &[&str]) -> String {
        let name = if node.is_empty() { name.to_owned() } else { format!("{name} on {node}") };
        pod_naming(&name, claims)
    }

    fn judged(parts: &[&str], expected: &expect_test::Expect) {
        let scenario = parts.concat();
        check(entry(), &scenario, expected);
        laws(&entry(), [scenario]);
    }

    #[test]
    fn a_node_holds_as_many_volumes_of_a_driver_as_it_says() {
        judged(
            &[
                CLUSTER,
                &pod("x", "a", &["c1"]),
                &pod("y", "a", &["c2"]),
                &pod("third", "", &["c3"]),
                &pod("of-other-driver", "", &["c4"]),
                &pod("none", "", &[]),
            ],
            &expect![[r#"
                third a Unschedulable: node(s) exceed max volume count
                third b Success
                of-other-driver a Success
                of-other-driver b Success
                none a Success
                none b Success
            "#]],
        );
    }

    #[test]
    fn a_volume_that_a_pod_of_the_node_uses_takes_no_other_slot() {
        judged(
            &[
                CLUSTER,
                &pod("x", "a", &["c1"]),
                &pod("y", "a", &["c1", "c2"]),
                &pod("shares", "", &["c1"]),
                &pod("shares-one", "", &["c1", "c3"]),
            ],
            &expect![[r#"
                shares a Success
                shares b Success
                shares-one a Unschedulable: node(s) exceed max volume count
                shares-one b Success
            "#]],
        );
    }

    #[test]
    fn a_claim_that_is_not_bound_counts_once_for_the_driver_of_its_class() {
        judged(
            &[
                CLUSTER,
                r#"
                pvc prebound {"storageClassName": "of-d", "volumeName": "gone"}
                pvc without-class {"volumeName": "gone"}
                "#,
                &pod("x", "a", &["late"]),
                &pod("y", "a", &["late", "without-class", "missing"]),
                &pod("one", "", &["c1"]),
                &pod("two", "", &["prebound", "c1"]),
                &pod("shares", "", &["late", "c1"]),
                &pod("of-no-driver", "", &["without-class"]),
            ],
            &expect![[r#"
                one a Success
                one b Success
                two a Unschedulable: node(s) exceed max volume count
                two b Success
                shares a Success
                shares b Success
                of-no-driver a Success
                of-no-driver b Success
            "#]],
        );
    }

    #[test]
    fn what_is_attached_counts_unless_a_pod_of_the_node_uses_it() {
        judged(
            &[
                CLUSTER,
                r#"
                va x {"attacher": "d", "nodeName": "a", "source": {"persistentVolumeName": "v1"}}
                va y {"attacher": "d", "nodeName": "a", "source": {"persistentVolumeName": "v2"}}
                va z {"attacher": "d", "nodeName": "a", "source": {"persistentVolumeName": "gone"}}
                va elsewhere {"attacher": "d", "nodeName": "b", "source": {"persistentVolumeName": "v3"}}
                "#,
                &pod("x", "a", &["c1"]),
                &pod("another", "", &["c3"]),
                &pod("attached-only", "", &["c2"]),
                &pod("attached-and-used", "", &["c1"]),
            ],
            &expect![[r#"
                another a Unschedulable: node(s) exceed max volume count
                another b Success
                attached-only a Unschedulable: node(s) exceed max volume count
                attached-only b Success
                attached-and-used a Success
                attached-and-used b Success
            "#]],
        );
    }

    #[test]
    fn volumes_of_old_plugins_count_for_the_driver_that_serves_them_now() {
        judged(
            &[
                r#"
                node a
                node without-drivers
                csinode a {"drivers": [
                    {"name": "ebs.csi.aws.com", "allocatable": {"count": 2}},
                    {"name": "file.csi.azure.com", "allocatable": {"count": 0}},
                    {"name": "csi.inline", "allocatable": {"count": 0}}]}
                sc old {"provisioner": "kubernetes.io/aws-ebs"}
                sc never {"provisioner": "kubernetes.io/azure-file"}
                pv v1 {"awsElasticBlockStore": {"volumeID": "vol-1"}}
                pv v2 {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-2"}}
                pv broken {"awsElasticBlockStore": {"volumeID": "aws://disk"}}
                pv local {"hostPath": {"path": "/tmp"}}
                pvc c1 {"volumeName": "v1"}
                pvc c2 {"volumeName": "v2"}
                pvc broken {"volumeName": "broken"}
                pvc local {"volumeName": "local"}
                pvc late {"storageClassName": "old"}
                pvc share {"storageClassName": "never"}
                "#,
                &pod("x", "a", &["c1", "c2"]),
                &pod("late", "", &["late"]),
                &pod("shares", "", &["c1", "c2"]),
                &pod("uncounted", "", &["broken", "local", "share"]),
                r#"
                pod inline {"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "vol-3"}}]}
                pod shares-inline {"volumes": [
                    {"name": "d", "awsElasticBlockStore": {"volumeID": "aws:///vol-2"}}]}
                pod broken-inline {"volumes": [
                    {"name": "d", "awsElasticBlockStore": {"volumeID": "aws://disk"}}]}
                pod of-unserved {"volumes": [
                    {"name": "d", "azureFile": {"secretName": "s", "shareName": "s"}},
                    {"name": "e", "csi": {"driver": "csi.inline"}}]}
                "#,
            ],
            &expect![[r#"
                late a Unschedulable: node(s) exceed max volume count
                late without-drivers Success
                shares a Success
                shares without-drivers Success
                uncounted a Success
                uncounted without-drivers Success
                inline a Unschedulable: node(s) exceed max volume count
                inline without-drivers Success
                shares-inline a Success
                shares-inline without-drivers Success
                broken-inline a Error: converting volume(d) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://disk)
                broken-inline without-drivers Success
                of-unserved a Success
                of-unserved without-drivers Success
            "#]],
        );
    }

    #[test]
    fn a_claim_made_for_the_pod_must_be_its_own() {
        let ephemeral = r#"{"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}"#;
        judged(
            &[
                CLUSTER,
                r#"
                pvc own-v {"storageClassName": "of-d", "owner": "default/own"}
                pvc foreign-v {"storageClassName": "of-d", "owner": "default/other"}
                pvc placed-v {"storageClassName": "of-d", "owner": "default/placed"}
                "#,
                &format!("pod placed on a {ephemeral}\n"),
                &pod("x", "a", &["c1"]),
                &format!("pod own {ephemeral}\n"),
                &format!("pod foreign {ephemeral}\n"),
                &format!("pod lost {ephemeral}\n"),
            ],
            &expect![[r#"
                own a Unschedulable: node(s) exceed max volume count
                own b Success
                foreign a Error: PVC default/foreign-v was not created for pod default/foreign (pod is not owner)
                foreign b Error: PVC default/foreign-v was not created for pod default/foreign (pod is not owner)
                lost a UnschedulableAndUnresolvable: looking up PVC default/lost-v: persistentvolumeclaim "lost-v" not found
                lost b UnschedulableAndUnresolvable: looking up PVC default/lost-v: persistentvolumeclaim "lost-v" not found
            "#]],
        );
    }

    #[test]
    fn a_pod_on_the_node_whose_claim_is_anothers_is_an_error() {
        judged(
            &[
                CLUSTER,
                r#"
                pvc placed-v {"storageClassName": "of-d"}
                pod placed on a {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}
                "#,
                &pod("p", "", &["c1"]),
            ],
            &expect![[r#"
                p a Error: PVC default/placed-v was not created for pod default/placed (pod is not owner)
                p b Success
            "#]],
        );
    }

    #[test]
    fn since_1_37_a_driver_can_be_needed_on_the_node() {
        let drivers = r#"
            csidriver d {"preventPodSchedulingIfMissing": true}
            csidriver e {"preventPodSchedulingIfMissing": false}
        "#;
        let pods = [pod("of-d", "", &["c1"]), pod("of-e", "", &["c4"])];
        let judged_where = |head, expected| {
            judged(&[head, CLUSTER, drivers, &pods[0], &pods[1]], expected);
        };
        let needed = expect![[r#"
            of-d a Success
            of-d b Unschedulable: d CSI driver is not installed on the node
            of-e a Success
            of-e b Success
        "#]];
        judged_where("release 1.37", &needed);
        judged_where("release 1.36\ngate VolumeLimitScaling=true", &needed);
        let not_needed = expect![[r#"
            of-d a Success
            of-d b Success
            of-e a Success
            of-e b Success
        "#]];
        judged_where("release 1.36", &not_needed);
        judged_where("gate VolumeLimitScaling=false", &not_needed);
    }

    #[test]
    fn the_volumes_of_the_cluster_are_kept_without_a_copy() {
        let cluster = store([AnyObject::new(claim("a", ""))]);
        let pod = pod_with([claimed("a")]);
        let parts = (&pod.key, &pod.uid, pod.volumes.as_slice());
        let wanted = NodeVolumeLimits { drivers_must_run: false }
            .pre_filter(parts, (VolumeStore::of(&cluster), &cluster, &VolumesInUse::default()));
        let wanted = wanted.expect("the claim exists").expect("it may take a slot");
        assert!(Arc::ptr_eq(wanted.store.store().claims, VolumeStore::of(&cluster).claims));
    }

    fn hint(pod: &PodInfo, object: Object<'_>) -> Hint {
        let plugin = NodeVolumeLimits { drivers_must_run: false };
        hint_after_pod(&plugin, pod, object)
    }

    fn ebs() -> PodVolumeKind {
        inline(VolumeSource::AwsElasticBlockStore { volume_id: "vol-1".into() })
    }

    #[test]
    fn the_end_of_a_pod_helps_if_its_volumes_may_have_taken_slots() {
        let waiting = pod_with([claimed("a")]);
        let hint = |kinds: Vec<PodVolumeKind>| {
            let gone = pod_with(kinds);
            hint(&waiting, Object::Assigned { before: Some(&gone), after: None, row: None })
        };
        assert_eq!(hint(vec![claimed("b")]), Hint::Queue);
        assert_eq!(hint(vec![PodVolumeKind::Ephemeral("p-v".into())]), Hint::Queue);
        assert_eq!(hint(vec![ebs()]), Hint::Queue);
        assert_eq!(hint(vec![inline(VolumeSource::Nfs)]), Hint::Skip);
        assert_eq!(hint(vec![]), Hint::Skip);
    }

    #[test]
    fn a_claim_that_is_bound_may_take_another_slot_than_before() {
        let waiting = pod_with([claimed("a")]);
        let hint = |before: &str, after: &str| {
            let change = changed(claim("b", before), claim("b", after));
            hint(&waiting, Object::Other(&change))
        };
        assert_eq!(hint("", "v"), Hint::Queue);
        assert_eq!(hint("v", "v"), Hint::Skip);
    }

    #[test]
    fn a_new_claim_helps_the_pods_that_use_it() {
        let change = came(claim("a", ""));
        let hint = |pod: &PodInfo| hint(pod, Object::Other(&change));
        let pod = pod_with([claimed("a")]);
        assert_eq!(hint(&pod), Hint::Queue);
        assert_eq!(hint(&pod_with([PodVolumeKind::Ephemeral("a".into())])), Hint::Queue);
        assert_eq!(hint(&moved_to("other", &pod)), Hint::Skip);
        assert_eq!(hint(&pod_with([claimed("b")])), Hint::Skip);
        assert_eq!(hint(&pod_with([ebs()])), Hint::Skip);
    }

    #[test]
    fn a_volume_that_was_detached_helps_if_the_pod_may_need_its_slot() {
        let hint = |kinds: Vec<PodVolumeKind>, attacher: &str| {
            let attachment =
                VolumeAttachment { attacher: attacher.into(), ..VolumeAttachment::default() };
            let gone = Versions { before: Some(Arc::new(attachment)), after: None, dropped: None };
            hint(&pod_with(kinds), Object::Other(&gone.into()))
        };
        let gce = || inline(VolumeSource::GcePersistentDisk { name: "d".into() });
        assert_eq!(hint(vec![claimed("a")], "d"), Hint::Queue);
        assert_eq!(hint(vec![ebs()], "ebs.csi.aws.com"), Hint::Queue);
        assert_eq!(hint(vec![gce()], "ebs.csi.aws.com"), Hint::Skip);
        assert_eq!(hint(vec![gce(), claimed("a")], "ebs.csi.aws.com"), Hint::Queue);
        assert_eq!(hint(vec![PodVolumeKind::Ephemeral("p-v".into())], "d"), Hint::Skip);
        assert_eq!(hint(vec![], "d"), Hint::Skip);
    }

    #[test]
    fn a_pod_that_comes_helps_if_it_may_have_a_volume_of_the_pod() {
        let waiting = pod_with([claimed("a"), ebs()]);
        let hint = |came: &PodInfo| {
            hint(&waiting, Object::Assigned { before: None, after: Some(came), row: None })
        };
        assert_eq!(hint(&pod_with([claimed("a")])), Hint::Queue);
        assert_eq!(hint(&pod_with([ebs()])), Hint::Queue);
        assert_eq!(hint(&pod_with([claimed("b")])), Hint::Skip);
        assert_eq!(hint(&moved_to("other", &pod_with([claimed("a")]))), Hint::Skip);
    }

    #[test]
    fn a_new_node_helps_since_nothing_is_known_of_its_drivers() {
        let plugin = NodeVolumeLimits { drivers_must_run: false };
        let hears = |one: &ClusterEvent| one.kind.is::<Node>() && one.action.contains(Action::ADD);
        assert!(plugin.events().iter().any(hears));
        let object = Object::Node { before: None, after: None };
        assert_eq!(hint(&pod_with([claimed("a")]), object), Hint::Queue);
    }

    #[test]
    fn a_node_helps_if_its_drivers_are_told_first_or_can_hold_more() {
        let node = |drivers: &[(&str, Option<i32>)]| {
            let driver = |&(name, limit): &(&str, Option<i32>)| CsiNodeDriver {
                name: name.into(),
                limit,
                ..CsiNodeDriver::default()
            };
            CsiNode { drivers: drivers.iter().map(driver).collect(), ..CsiNode::default() }
        };
        let waiting = pod_with([claimed("a")]);
        let hint = |change| hint(&waiting, Object::Other(&change));
        assert_eq!(hint(came(node(&[]))), Hint::Queue);
        let before = || node(&[("d", Some(2)), ("e", None)]);
        let after = |drivers| hint(changed(before(), node(drivers)));
        assert_eq!(after(&[("d", Some(3))]), Hint::Queue);
        assert_eq!(after(&[("d", Some(1)), ("e", Some(1))]), Hint::Queue);
        assert_eq!(after(&[("d", Some(2)), ("f", Some(1))]), Hint::Queue);
        assert_eq!(after(&[("d", Some(2)), ("f", None)]), Hint::Skip);
        assert_eq!(after(&[("d", None)]), Hint::Skip);
    }
}
