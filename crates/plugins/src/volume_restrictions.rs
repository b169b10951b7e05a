//! VolumeRestrictions: volumes with a limit on concurrent use.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_framework::events::Object;
use plimsoll_framework::prelude::*;

use crate::pod_claims;

const DISK_CONFLICT: &str = "node(s) had no available disk";
const CLAIM_IN_USE: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";

/// Rejects nodes on which another pod uses a disk of the pod that cannot be shared, and all nodes while
/// another pod uses a `ReadWriteOncePod` claim of the pod.
///
/// A writable disk cannot be mounted twice on a node: the second pod would not start, or would damage
/// the data of the first one. This holds for inline disks of pods; AWS disks cannot be shared even for
/// reading. Only one pod in the whole cluster may use a claim with the access mode `ReadWriteOncePod`.
///
/// ```yaml
/// kind: PersistentVolumeClaim
/// spec: {accessModes: [ReadWriteOncePod]}
/// ```
#[derive(Clone, Copy, Debug)]
pub struct VolumeRestrictions;

impl Plugin for VolumeRestrictions {
    const NAME: &'static str = "VolumeRestrictions";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        VolumeRestrictions
    }
}

/// The inline disks of a pod, each with whether it is read-only.
///
/// Indexed by all names under which another volume would be the same disk, since a pod may have ten
/// thousand disks, and so may each pod on a node.
#[derive(Clone, Debug, Default)]
struct Disks(BTreeMap<DiskName, ReadOnly>);

/// A name of a disk; an RBD image has one name for each of its monitors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DiskName {
    Gce(Str),
    Ebs(Str),
    Iscsi(Str),
    Rbd { monitor: Str, pool: Str, image: Str },
}

/// Whether all mounts of a disk are read-only.
type ReadOnly = bool;

/// Volumes that other pods must not use.
#[derive(Clone, Debug)]
pub struct Exclusive {
    disks: Disks,
    /// The `ReadWriteOncePod` claims of the pod.
    claims: BTreeSet<Str>,
    /// How many of them other pods use.
    in_use: i32,
}

impl PreFilter for VolumeRestrictions {
    type Pod = (PodNamespace, PodVolumes);
    type Node = Pods;
    type Cluster = (Volumes, VolumesInUse);
    type State = Exclusive;

    fn applies(&self, (_, volumes): (&Str, &[PodVolume])) -> bool {
        let is_disk =
            |volume: &PodVolume| inline(volume).is_some_and(|(source, _)| is_disk(source));
        pod_claims::named(volumes).next().is_some() || volumes.iter().any(is_disk)
    }

    fn pre_filter(
        &self,
        (namespace, volumes): (&Str, &[PodVolume]),
        (store, in_use): (VolumeStore<'_>, &VolumesInUse),
    ) -> Result<Option<Exclusive>, Rejection> {
        let claims = exclusive_claims(store, namespace, volumes)?;
        let used = claims.iter().filter(|name| 0 < in_use.n_uses(namespace, name));
        let in_use = i32::try_from(used.count()).unwrap_or(i32::MAX);
        let disks = Disks::of(volumes);
        let nothing = disks.0.is_empty() && in_use == 0;
        Ok((!nothing).then_some(Exclusive { disks, claims, in_use }))
    }

    fn filter(&self, exclusive: &Exclusive, pods: &PodSet) -> Verdict {
        if pods.iter().any(|pod| exclusive.disks.conflict_with(&pod.volumes)) {
            return Verdict::unschedulable(DISK_CONFLICT);
        }
        if 0 < exclusive.in_use {
            return Verdict::unschedulable(CLAIM_IN_USE);
        }
        Verdict::Pass
    }

    fn may_err(&self, _: &Exclusive) -> bool {
        false
    }

    /// As in volume_restrictions.go, updateWithPod: only the name of the claim counts, whatever the
    /// namespace of the pod, and each pod that uses the same claim counts. A new state would count
    /// differently, so it is requested.
    fn update(&self, exclusive: &mut Exclusive, change: PodChange<'_>, _: &PodSet) -> Update {
        let of_pod = pod_claims::named(&change.pod().volumes);
        let common = of_pod.filter(|name| exclusive.claims.contains(*name)).count();
        if common == 0 {
            return Update::Exact;
        }
        let common = i32::try_from(common).unwrap_or(i32::MAX);
        exclusive.in_use = exclusive.in_use.saturating_add(change.sign().saturating_mul(common));
        Update::Rebuild
    }
}

/// A claim that is in use keeps pods off all nodes alike. For disks nothing is remembered.
impl FilterByKey for VolumeRestrictions {
    type Key = ();

    fn key(&self, exclusive: &Exclusive, _: Ref<'_, Self::Cluster>) -> Option<()> {
        exclusive.disks.0.is_empty().then_some(())
    }

    fn key_bytes(&self, (): &()) -> usize {
        0
    }

    fn concerns(&self, _: &AnyObject, _: Ref<'_, Self::Cluster>) -> ConcernedNodes {
        ConcernedNodes::none()
    }
}

/// The `ReadWriteOncePod` claims among `volumes`.
fn exclusive_claims(
    store: VolumeStore<'_>,
    namespace: &Str,
    volumes: &[PodVolume],
) -> Result<BTreeSet<Str>, Rejection> {
    let mut claims = BTreeSet::new();
    for name in pod_claims::named(volumes) {
        let claim = pod_claims::find(store, namespace, name).map_err(Rejection::unresolvable)?;
        if claim.access_modes.contains(AccessModes::READ_WRITE_ONCE_POD) {
            claims.insert(name.clone());
        }
    }
    Ok(claims)
}

/// An inline disk, and whether it is read-only.
fn inline(volume: &PodVolume) -> Option<(&VolumeSource, ReadOnly)> {
    match &volume.kind {
        PodVolumeKind::Inline { source, read_only } => Some((source, *read_only)),
        PodVolumeKind::Claim(_) | PodVolumeKind::Ephemeral(_) => None,
    }
}

/// Whether it is a disk that cannot always be shared.
fn is_disk(source: &VolumeSource) -> bool {
    use VolumeSource::{AwsElasticBlockStore, GcePersistentDisk, Iscsi, Rbd};
    matches!(
        source,
        GcePersistentDisk { .. } | AwsElasticBlockStore { .. } | Rbd { .. } | Iscsi { .. }
    )
}

/// The names of a disk that cannot always be shared. As in volume_restrictions.go, isVolumeConflict:
/// RBD images are the same if they share a monitor.
fn names(source: &VolumeSource) -> SmallVec<[DiskName; 1]> {
    use VolumeSource::{AwsElasticBlockStore, GcePersistentDisk, Iscsi, Rbd};
    match source {
        GcePersistentDisk { name } => smallvec![DiskName::Gce(name.clone())],
        AwsElasticBlockStore { volume_id } => smallvec![DiskName::Ebs(volume_id.clone())],
        Iscsi { iqn } => smallvec![DiskName::Iscsi(iqn.clone())],
        Rbd { monitors, pool, image } => {
            let by_monitor = monitors.iter().cloned();
            let name =
                |monitor| DiskName::Rbd { monitor, pool: pool.clone(), image: image.clone() };
            by_monitor.map(name).collect()
        }
        _ => SmallVec::new(),
    }
}

impl Disks {
    fn of(volumes: &[PodVolume]) -> Self {
        let mut disks = Disks::default();
        for (source, read_only) in volumes.iter().filter_map(inline) {
            for name in names(source) {
                *disks.0.entry(name).or_insert(true) &= read_only;
            }
        }
        disks
    }

    /// Whether a pod with `volumes` conflicts on one of the disks. As in volume_restrictions.go,
    /// isVolumeConflict: read-only disks can be shared, except those of AWS.
    fn conflict_with(&self, volumes: &[PodVolume]) -> bool {
        let mut disks = volumes.iter().filter_map(inline);
        !self.0.is_empty()
            && disks.any(|(source, read_only)| {
                names(source).iter().any(|name| match self.0.get(name) {
                    Some(own) => matches!(name, DiskName::Ebs(_)) || !(*own && read_only),
                    None => false,
                })
            })
    }
}

/// As in volume_restrictions.go, the functions isSchedulableAfter…: the deletion of a pod in the same
/// namespace with a disk or a claim of this one, a claim that was missing, and any new node. The access
/// mode of the claim is ignored.
impl Requeue for VolumeRestrictions {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::of::<Pod>(Action::DELETE),
            // Unlike in kube-scheduler: the pods of a node that is gone use no claim any more.
            ClusterEvent::of::<Node>(Action::ADD | Action::DELETE),
            ClusterEvent::of::<PersistentVolumeClaim>(Action::ADD),
        ]
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let helps = match change.object {
            Object::Assigned { before: Some(gone), .. } => shares_volumes(pod, gone),
            Object::Other(_) => change.of::<PersistentVolumeClaim>().is_none_or(|claim| {
                claim.after.is_some_and(|claim| pod_claims::names(pod, &claim.key))
            }),
            Object::Assigned { before: None, .. } | Object::Itself { .. } => false,
            Object::Node { .. } => true,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

/// Unlike in kube-scheduler, whose hint ignores pods of other namespaces: disks do not have a
/// namespace.
fn shares_volumes(pod: &Pod, gone: &Pod) -> bool {
    let same_claim = || {
        let own: BTreeSet<&Str> = pod_claims::named(&pod.volumes).collect();
        pod_claims::named(&gone.volumes).any(|name| own.contains(name))
    };
    let same_disk = || Disks::of(&pod.volumes).conflict_with(&gone.volumes);
    same_disk() || (pod.key.namespace == gone.key.namespace && same_claim())
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<VolumeRestrictions>().pre_filter().requeue().filter_by_key().done()
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use plimsoll_testkit::laws;

    use super::*;
    use crate::node_change::tests::hint_after_pod;
    use crate::pod_claims::tests::{came, claim, claimed, inline, moved_to, pod_with, store};

    type Parts = (PodNamespace, PodVolumes);
    type Rest = (Volumes, VolumesInUse);

    fn gce(name: &str) -> VolumeSource {
        VolumeSource::GcePersistentDisk { name: name.into() }
    }

    fn ebs(id: &str) -> VolumeSource {
        VolumeSource::AwsElasticBlockStore { volume_id: id.into() }
    }

    fn iscsi(iqn: &str) -> VolumeSource {
        VolumeSource::Iscsi { iqn: iqn.into() }
    }

    fn rbd(monitors: &[&str], pool: &str, image: &str) -> VolumeSource {
        let monitors = monitors.iter().copied().map(Str::from).collect();
        VolumeSource::Rbd { monitors, pool: pool.into(), image: image.into() }
    }

    fn to_read(source: VolumeSource) -> PodVolumeKind {
        PodVolumeKind::Inline { source, read_only: true }
    }

    fn exclusive(name: &str) -> PersistentVolumeClaim {
        let access_modes = AccessModes::READ_WRITE_ONCE_POD;
        PersistentVolumeClaim { access_modes, ..claim(name, "") }
    }

    fn shared(name: &str) -> PersistentVolumeClaim {
        let access_modes = AccessModes::READ_WRITE_MANY;
        PersistentVolumeClaim { access_modes, ..claim(name, "") }
    }

    /// A cluster of one node with these pods, and these claims.
    fn cluster(
        placed: &[PodInfo],
        claims: impl IntoIterator<Item = PersistentVolumeClaim>,
    ) -> (Columns, Stores, Row) {
        let mut nodes = Columns::default();
        let row = nodes.add(Node { name: "n".into(), ..Node::default() });
        for pod in placed {
            nodes.place(row, pod);
        }
        (nodes, store(claims.into_iter().map(AnyObject::new)), row)
    }

    fn prepare(
        pod: &PodInfo,
        nodes: &Columns,
        stores: &Stores,
    ) -> Result<Option<Exclusive>, Rejection> {
        let parts = pod.part::<Parts>();
        if !VolumeRestrictions.applies(parts) {
            return Ok(None);
        }
        VolumeRestrictions.pre_filter(parts, Rest::of(&View { nodes, stores }))
    }

    /// The verdict on a node for a pod with this volume, if a pod with that volume is there.
    fn verdict(volume: PodVolumeKind, taken: PodVolumeKind) -> Verdict {
        let (nodes, stores, row) = cluster(&[pod_with([taken])], []);
        let prepared = prepare(&pod_with([volume]), &nodes, &stores).expect("no claim is missing");
        let prepared = prepared.expect("the pod has a disk");
        VolumeRestrictions.filter(&prepared, nodes.pods_on(row))
    }

    #[test]
    fn a_disk_is_shared_only_to_read() {
        let disks = [
            (gce("a"), gce("b")),
            (iscsi("a"), iscsi("b")),
            (rbd(&["m", "n"], "p", "i"), rbd(&["o"], "p", "i")),
        ];
        let conflict = Verdict::unschedulable("node(s) had no available disk");
        for (disk, other) in disks {
            assert_eq!(verdict(inline(disk.clone()), inline(disk.clone())), conflict);
            assert_eq!(verdict(inline(disk.clone()), to_read(disk.clone())), conflict);
            assert_eq!(verdict(to_read(disk.clone()), inline(disk.clone())), conflict);
            assert!(verdict(to_read(disk.clone()), to_read(disk.clone())).passes());
            assert!(verdict(inline(disk), inline(other)).passes());
        }
    }

    #[test]
    fn an_aws_disk_is_never_shared() {
        let conflict = Verdict::unschedulable("node(s) had no available disk");
        assert_eq!(verdict(to_read(ebs("a")), to_read(ebs("a"))), conflict);
        assert!(verdict(inline(ebs("a")), inline(ebs("b"))).passes());
        assert!(verdict(inline(ebs("a")), inline(gce("a"))).passes());
    }

    #[test]
    fn an_rbd_image_is_the_same_where_one_monitor_is() {
        let ours = || inline(rbd(&["m", "n"], "p", "i"));
        assert!(!verdict(ours(), inline(rbd(&["n", "o"], "p", "i"))).passes());
        assert!(verdict(ours(), inline(rbd(&["n"], "q", "i"))).passes());
        assert!(verdict(ours(), inline(rbd(&["n"], "p", "j"))).passes());
    }

    #[test]
    fn a_pod_without_such_volumes_is_not_judged() {
        let (nodes, stores, _) = cluster(&[pod_with([inline(gce("a"))])], [shared("a")]);
        for pod in [
            pod_with([]),
            pod_with([claimed("a")]),
            pod_with([inline(VolumeSource::Nfs), PodVolumeKind::Ephemeral("p-v".into())]),
        ] {
            let prepared = prepare(&pod, &nodes, &stores).expect("no claim is missing");
            assert!(prepared.is_none());
        }
    }

    #[test]
    fn a_claim_for_one_pod_keeps_others_off_all_nodes() {
        let user = pod_with([claimed("one"), claimed("many")]);
        let (nodes, stores, row) = cluster(&[user], [exclusive("one"), shared("many")]);
        let judge = |pod: &PodInfo| {
            let prepared = prepare(pod, &nodes, &stores).expect("no claim is missing");
            prepared.map(|prepared| VolumeRestrictions.filter(&prepared, nodes.pods_on(row)))
        };
        let rejected = Verdict::unschedulable(
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
             already in-use by another pod",
        );
        assert_eq!(judge(&pod_with([claimed("one")])), Some(rejected));
        assert_eq!(judge(&pod_with([claimed("many")])), None);
    }

    #[test]
    fn a_claim_of_that_name_in_another_namespace_is_another_one() {
        let user = moved_to("other", &pod_with([claimed("one")]));
        let (nodes, stores, _) = cluster(&[user], [exclusive("one")]);
        let prepared = prepare(&pod_with([claimed("one")]), &nodes, &stores);
        assert!(prepared.expect("no claim is missing").is_none());
    }

    #[test]
    fn a_claim_that_does_not_exist_rejects_the_pod_for_all_nodes() {
        let (nodes, stores, _) = cluster(&[], [shared("many")]);
        let pod = pod_with([inline(gce("a")), claimed("many"), claimed("one")]);
        let why = prepare(&pod, &nodes, &stores).expect_err("a claim is missing");
        let expected = "persistentvolumeclaim \"one\" not found".to_owned();
        assert_eq!(why, Rejection::unresolvable(expected));
    }

    #[test]
    fn a_claim_is_free_once_all_its_users_are_gone() {
        let user = pod_with([claimed("one"), claimed("two")]);
        let (nodes, stores, row) = cluster(from_ref(&user), [exclusive("one"), exclusive("two")]);
        let prepared = prepare(&user, &nodes, &stores).expect("no claim is missing");
        let mut prepared = prepared.expect("both claims are used");
        let pods = nodes.pods_on(row);
        let mut passes_after = |change: PodChange<'_>| {
            VolumeRestrictions.update(&mut prepared, change, pods);
            VolumeRestrictions.filter(&prepared, pods).passes()
        };
        let [of_one, of_two, of_three] =
            ["one", "two", "three"].map(|name| pod_with([claimed(name)]));
        let of_two = moved_to("other", &of_two);
        assert!(!passes_after(PodChange::Removed(&of_one)));
        assert!(!passes_after(PodChange::Removed(&of_three)));
        // As upstream, whatever the namespace.
        assert!(passes_after(PodChange::Removed(&of_two)));
        assert!(!passes_after(PodChange::Added(&of_one)));
    }

    #[test]
    fn the_end_of_a_pod_helps_if_it_had_a_disk_or_claim_of_the_pod() {
        let waiting = pod_with([inline(gce("a")), claimed("one")]);
        let hint = |gone: &PodInfo| {
            let object = Object::Assigned { before: Some(gone), after: None, row: None };
            hint_after_pod(&VolumeRestrictions, &waiting, object)
        };
        for (volume, elsewhere) in [(inline(gce("a")), Hint::Queue), (claimed("one"), Hint::Skip)] {
            let gone = pod_with([volume]);
            assert_eq!(hint(&gone), Hint::Queue);
            assert_eq!(hint(&moved_to("other", &gone)), elsewhere);
        }
        assert_eq!(hint(&pod_with([inline(gce("b")), claimed("two")])), Hint::Skip);
        let made_for_it = PodVolumeKind::Ephemeral("one".into());
        assert_eq!(hint(&pod_with([made_for_it])), Hint::Skip);
    }

    #[test]
    fn only_a_new_claim_of_the_pod_is_worth_another_attempt() {
        let waiting = pod_with([claimed("one")]);
        let hint =
            |claim| hint_after_pod(&VolumeRestrictions, &waiting, Object::Other(&came(claim)));
        assert_eq!(hint(claim("one", "")), Hint::Queue);
        assert_eq!(hint(claim("two", "")), Hint::Skip);
        let elsewhere = ObjectKey::new("other", "one");
        assert_eq!(hint(PersistentVolumeClaim { key: elsewhere, ..claim("one", "") }), Hint::Skip);
    }

    #[test]
    fn the_laws_hold() {
        let scenario = r#"
            node a
            node b
            pvc one {"accessModes": ["ReadWriteOncePod"]}
            pvc free {"accessModes": ["ReadWriteOncePod"]}
            pvc many {"accessModes": ["ReadWriteMany"]}
            pvc other/one {"accessModes": ["ReadWriteOncePod"]}
            pod x on a {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]}
            pod y on b {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]}
            pod z on b {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "many"}}]}
            pod other/x on a {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]}
            pod disk on a {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]}
            pod p {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]}
            pod q {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "free"}},
                               {"name": "w", "gcePersistentDisk": {"pdName": "d"}}]}
            pod r {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "lost"}}]}
        "#;
        laws(&entry(), [scenario]);
    }

    #[test]
    fn a_node_that_goes_may_have_held_the_pod_that_used_the_claim() {
        let goes = ClusterEvent::of::<Node>(Action::DELETE);
        let hears = |one: &ClusterEvent| one.kind == goes.kind && one.action.contains(goes.action);
        assert!(VolumeRestrictions.events().iter().any(hears));
        let node = Node { name: "a".into(), ..Node::default() };
        let object = Object::Node { before: Some(&node), after: None };
        let waiting = pod_with([claimed("one")]);
        assert_eq!(hint_after_pod(&VolumeRestrictions, &waiting, object), Hint::Queue);
    }
}
