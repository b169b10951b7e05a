//! EBSLimits, GCEPDLimits, AzureDiskLimits and CinderLimits: how many disks of former in-tree volume
//! plugins can be attached to a node.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::Arc;

use plimsoll_framework::prelude::*;
use plimsoll_plugins::csi_migration::InTree;
use plimsoll_plugins::pod_claims::{self, NAMELESS_CLAIM};
use serde::Deserialize;

const TOO_MANY: &str = "node(s) exceed max volume count";

/// Without this gate no plugin is replaced by a CSI driver. On in 1.20.
const CSI_MIGRATION: &str = "CSIMigration";

/// Labels that name the instance type of a node, the first before the second. If they differ, release
/// 1.20 takes one at random.
const INSTANCE_TYPE: [&str; 2] =
    ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"];

/// Disks of Amazon's EBS. At most 39, since the root volume counts as one; 25 on nitro instances.
#[derive(Debug)]
pub enum Ebs {}
/// Persistent disks of Google's cloud. At most 16.
#[derive(Debug)]
pub enum GcePd {}
/// Disks of Azure. At most 16.
#[derive(Debug)]
pub enum AzureDisk {}
/// Volumes of OpenStack's Cinder. At most 256.
#[derive(Debug)]
pub enum Cinder {}

/// EBSLimits.
pub type EBSLimits = InTreeVolumeLimits<Ebs>;
/// GCEPDLimits.
pub type GCEPDLimits = InTreeVolumeLimits<GcePd>;
/// AzureDiskLimits.
pub type AzureDiskLimits = InTreeVolumeLimits<AzureDisk>;
/// CinderLimits.
pub type CinderLimits = InTreeVolumeLimits<Cinder>;

/// One kind of disk.
#[derive(Debug)]
pub struct Disk {
    /// The name of the plugin that counts them.
    name: &'static str,
    /// The in-tree plugin that serves them.
    plugin: InTree,
    /// The resource with a node's limit.
    resource: &'static str,
    /// The gate with which a CSI driver may serve them instead. Off in 1.20.
    gate: &'static str,
}

/// A kind of disk as a type.
pub trait DiskKind: Send + Sync + 'static {
    /// The kind.
    const DISK: Disk;
    /// The default limit of a node with these labels.
    fn most(labels: &Labels) -> i64;
}

impl DiskKind for Ebs {
    const DISK: Disk = Disk {
        name: "EBSLimits",
        plugin: InTree::AwsElasticBlockStore,
        resource: "attachable-volumes-aws-ebs",
        gate: "CSIMigrationAWS",
    };
    fn most(labels: &Labels) -> i64 {
        if is_nitro(instance_type(labels)) { 25 } else { 39 }
    }
}

impl DiskKind for GcePd {
    const DISK: Disk = Disk {
        name: "GCEPDLimits",
        plugin: InTree::GcePersistentDisk,
        resource: "attachable-volumes-gce-pd",
        gate: "CSIMigrationGCE",
    };
    fn most(_: &Labels) -> i64 {
        16
    }
}

impl DiskKind for AzureDisk {
    const DISK: Disk = Disk {
        name: "AzureDiskLimits",
        plugin: InTree::AzureDisk,
        resource: "attachable-volumes-azure-disk",
        gate: "CSIMigrationAzureDisk",
    };
    fn most(_: &Labels) -> i64 {
        16
    }
}

impl DiskKind for Cinder {
    const DISK: Disk = Disk {
        name: "CinderLimits",
        plugin: InTree::Cinder,
        resource: "attachable-volumes-cinder",
        gate: "CSIMigrationOpenStack",
    };
    fn most(_: &Labels) -> i64 {
        256
    }
}

fn instance_type(labels: &Labels) -> &str {
    INSTANCE_TYPE.into_iter().find_map(|key| labels.get(key)).map_or("", Str::as_str)
}

/// As in attach_limit.go of release 1.20, EBSNitroLimitRegex, whose anchor applies only to the first of
/// its three alternatives.
fn is_nitro(instance_type: &str) -> bool {
    ["c5", "m5", "r5"].iter().any(|family| instance_type.starts_with(family))
        || ["t3", "z1d"].iter().any(|family| instance_type.contains(family))
}

/// Rejects nodes to which the disks of the pod cannot all be attached.
///
/// The plugin counts the disks of one kind that the pods on the node use, each once however many pods
/// use it, together with those of the pod. A claim counts as the volume to which it is bound. A claim
/// that is not bound, or whose volume does not exist, counts as itself if its class provisions such
/// disks. A claim that does not exist does not count. The limit is that in `status.allocatable` of the
/// node; otherwise that of the args; otherwise it depends on the kind. A pod without such disks is not
/// judged.
///
/// If the gates `CSIMigration` and that of the kind are on and the CSINode says that a CSI driver
/// serves these disks, NodeVolumeLimits counts them instead.
///
/// ```yaml
/// kind: Node
/// status:
///   allocatable: {attachable-volumes-aws-ebs: "25"}
/// ```
#[derive(Debug)]
pub struct InTreeVolumeLimits<K> {
    most: Option<NonZeroU32>,
    may_be_migrated: bool,
    kind: PhantomData<fn() -> K>,
}

/// The args of these plugins. Release 1.20 has none and reads the environment, which the IO layer does
/// here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct MaxVolumesArgs {
    /// The limit for nodes that do not have their own: 1 or more, as in the environment variable
    /// `KUBE_MAX_PD_VOLS`. Without it, the default limit of the kind.
    pub max_volumes: Option<NonZeroU32>,
}

impl<K: DiskKind> Plugin for InTreeVolumeLimits<K> {
    const NAME: &'static str = K::DISK.name;
    type Args = MaxVolumesArgs;
    fn new(args: MaxVolumesArgs, gates: &FeatureGates) -> Self {
        InTreeVolumeLimits {
            most: args.max_volumes,
            may_be_migrated: gates.enabled(CSI_MIGRATION, true)
                && gates.enabled(K::DISK.gate, false),
            kind: PhantomData,
        }
    }
}

/// The identity of a disk within its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DiskIdentity {
    /// Its own name.
    Disk(Str),
    /// The claim for which it will be or was provisioned.
    Claim(ObjectKey),
}

type Disks = BTreeSet<DiskIdentity>;

/// The disks of the pod, and the data to find those of other pods.
#[derive(Debug)]
pub struct PodDisks {
    disks: Result<Disks, Rejection>,
    store: KeptVolumes,
}

impl<K: DiskKind> PreFilter for InTreeVolumeLimits<K> {
    type Pod = (PodNamespace, PodVolumes);
    type Node = (Name, Labels, Allocatable, Pods);
    type Cluster = Volumes;
    type State = Arc<PodDisks>;

    fn applies(&self, (_, volumes): (&Str, &[PodVolume])) -> bool {
        volumes.iter().any(|volume| match &volume.kind {
            PodVolumeKind::Claim(_) | PodVolumeKind::Ephemeral(_) => true,
            PodVolumeKind::Inline { source, .. } => name_of(source, K::DISK.plugin).is_some(),
        })
    }

    fn pre_filter(
        &self,
        (namespace, volumes): (&Str, &[PodVolume]),
        store: VolumeStore<'_>,
    ) -> Result<Option<Arc<PodDisks>>, Rejection> {
        let mut disks = Disks::new();
        let found = add_disks(K::DISK.plugin, namespace, volumes, store, &mut disks);
        let disks = found.map(|()| disks);
        let none = disks.as_ref().is_ok_and(Disks::is_empty);
        Ok((!none).then(|| Arc::new(PodDisks { disks, store: store.keep() })))
    }

    fn filter(&self, wanted: &Arc<PodDisks>, node: Ref<'_, Self::Node>) -> Verdict {
        self.judge(wanted, node).map_or_else(Verdict::Fail, |()| Verdict::Pass)
    }

    fn update(&self, _: &mut Arc<PodDisks>, _: PodChange<'_>, _: Ref<'_, Self::Node>) -> Update {
        Update::Exact
    }
}

impl<K: DiskKind> InTreeVolumeLimits<K> {
    /// As in non_csi.go of release 1.20, Filter. Disks that are already attached do not count again,
    /// but a node with too many of them still rejects the pod.
    fn judge(
        &self,
        wanted: &PodDisks,
        (name, labels, Allocatable(allocatable), pods): (&Str, &Labels, &Allocatable, &PodSet),
    ) -> Result<(), Rejection> {
        let disks = wanted.disks.as_ref().map_err(Clone::clone)?;
        if self.is_migrated(wanted.store.store(), name) {
            return Ok(());
        }
        let mut all = disks.clone();
        for pod in pods.iter() {
            let namespace = &pod.key.namespace;
            add_disks(K::DISK.plugin, namespace, &pod.volumes, wanted.store.store(), &mut all)?;
        }
        let usual = || self.most.map_or_else(|| K::most(labels), |most| most.get().into());
        let most = allocatable.scalar.get(K::DISK.resource).copied().unwrap_or_else(usual);
        if i64::try_from(all.len()).is_ok_and(|count| count <= most) {
            return Ok(());
        }
        Err(Rejection::unschedulable(TOO_MANY))
    }

    /// As in utils.go of release 1.20, isCSIMigrationOn.
    fn is_migrated(&self, store: VolumeStore<'_>, node: &Str) -> bool {
        let plugins = || store.csi_nodes.get(node.as_str()).map(|node| &node.migrated_plugins);
        self.may_be_migrated
            && plugins().is_some_and(|all| all.iter().any(|one| *one == K::DISK.plugin.name()))
    }
}

/// Adds the disks of `plugin` among the volumes of a pod in `namespace`.
///
/// As in non_csi.go of release 1.20, filterVolumes. A claim of a generic ephemeral volume counts like
/// others, as in later releases. In 1.20 they existed only with a gate.
fn add_disks(
    plugin: InTree,
    namespace: &Str,
    volumes: &[PodVolume],
    store: VolumeStore<'_>,
    disks: &mut Disks,
) -> Result<(), Rejection> {
    for volume in volumes {
        let disk = match &volume.kind {
            PodVolumeKind::Inline { source, .. } => {
                name_of(source, plugin).cloned().map(DiskIdentity::Disk)
            }
            PodVolumeKind::Claim(name) | PodVolumeKind::Ephemeral(name) if name.is_empty() => {
                return Err(Rejection::error(NAMELESS_CLAIM));
            }
            PodVolumeKind::Claim(name) | PodVolumeKind::Ephemeral(name) => {
                let claim = pod_claims::find(store, namespace, name).ok();
                claim.and_then(|claim| disk_of_claim(plugin, claim, store))
            }
        };
        disks.extend(disk);
    }
    Ok(())
}

fn disk_of_claim(
    plugin: InTree,
    claim: &PersistentVolumeClaim,
    store: VolumeStore<'_>,
) -> Option<DiskIdentity> {
    let volume = claim.volume.as_ref().and_then(|name| store.volumes.observed(name.as_str()));
    if let Some(volume) = volume {
        return name_of(&volume.source, plugin).cloned().map(DiskIdentity::Disk);
    }
    let class = store.classes.get(claim.class.as_str())?;
    (class.provisioner == plugin.name()).then(|| DiskIdentity::Claim(claim.key.clone()))
}

/// The name of a disk, if `plugin` serves it.
fn name_of(source: &VolumeSource, plugin: InTree) -> Option<&Str> {
    let name = match source {
        VolumeSource::AwsElasticBlockStore { volume_id } | VolumeSource::Cinder { volume_id } => {
            volume_id
        }
        VolumeSource::GcePersistentDisk { name } | VolumeSource::AzureDisk { name, .. } => name,
        _ => return None,
    };
    (InTree::of(source) == Some(plugin)).then_some(name)
}

/// The plugins, where they stand.
pub fn entries() -> [Entry; 4] {
    [entry::<Ebs>(), entry::<GcePd>(), entry::<AzureDisk>(), entry::<Cinder>()]
}

fn entry<K: DiskKind>() -> Entry {
    Entry::of::<InTreeVolumeLimits<K>>().pre_filter().not_at(Point::PreFilter).done()
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{check, expect, laws};
    use serde_json::{Value, json};

    use super::*;

    fn judged(entry: Entry, parts: &[&str], expected: &expect_test::Expect) {
        let scenario = parts.concat();
        laws(&entry, [scenario.as_str()]);
        check(entry, &scenario, expected);
    }

    /// A pod with these inline disks, each written as `FIELD NAME`.
    fn pod(name: &str, disks: &[&str]) -> String {
        let volume = |(at, disk): (usize, &&str)| {
            let (kind, name) = disk.split_once(' ').expect("a disk is written as FIELD NAME");
            let source = match kind {
                "ebs" => json!({"awsElasticBlockStore": {"volumeID": name}}),
                "gce" => json!({"gcePersistentDisk": {"pdName": name}}),
                "azure" => json!({"azureDisk": {"diskName": name, "diskURI": "uri"}}),
                "cinder" => json!({"cinder": {"volumeID": name}}),
                _ => panic!("no disk is of {kind}"),
            };
            let Value::Object(mut volume) = source else { unreachable!("it is an object") };
            volume.insert("name".to_owned(), format!("v{at}").into());
            Value::Object(volume)
        };
        let volumes: Vec<Value> = disks.iter().enumerate().map(volume).collect();
        format!("\npod {name} {}\n", json!({ "volumes": volumes }))
    }

    /// A pod with volumes for these claims.
    fn pod_naming(name: &str, claims: &[&str]) -> String {
        let volume =
            |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
        let volumes: Vec<Value> = claims.iter().map(volume).collect();
        format!("\npod {name} {}\n", json!({ "volumes": volumes }))
    }

    /// One disk of each kind fits on node `a`.
    const ONE_EACH: &str = r#"
        node a {"allocatable": {
            "attachable-volumes-aws-ebs": "1", "attachable-volumes-gce-pd": "1",
            "attachable-volumes-azure-disk": "1", "attachable-volumes-cinder": "1"}}
        node b
    "#;

    #[test]
    fn each_plugin_counts_disks_of_its_kind_by_their_names() {
        let kinds = ["ebs", "gce", "azure", "cinder"];
        for (entry, kind) in entries().into_iter().zip(kinds) {
            let of = |name| format!("{kind} {name}");
            let others = kinds.iter().filter(|other| **other != kind);
            let others: Vec<String> = others.map(|other| format!("{other} y")).collect();
            let others: Vec<&str> = others.iter().map(String::as_str).collect();
            judged(
                entry,
                &[
                    ONE_EACH,
                    &pod("user on a", &[&of("x")]),
                    &pod("same", &[&of("x")]),
                    &pod("another", &[&of("y")]),
                    &pod("both", &[&of("x"), &of("y")]),
                    &pod("of-other-kinds", &others),
                    &pod("without", &[]),
                ],
                &expect![[r#"
                    same a Success
                    same b Success
                    another a Unschedulable: node(s) exceed max volume count
                    another b Success
                    both a Unschedulable: node(s) exceed max volume count
                    both b Success
                    of-other-kinds a Success
                    of-other-kinds b Success
                    without a Success
                    without b Success
                "#]],
            );
        }
    }

    #[test]
    fn a_node_that_holds_too_many_rejects_even_what_it_holds() {
        judged(
            entry::<Ebs>(),
            &[ONE_EACH, &pod("user on a", &["ebs x", "ebs y"]), &pod("same", &["ebs x"])],
            &expect![[r#"
                same a Unschedulable: node(s) exceed max volume count
                same b Success
            "#]],
        );
    }

    #[test]
    fn a_claim_counts_as_its_volume_or_for_itself_if_its_class_makes_such_disks() {
        judged(
            entry::<GcePd>(),
            &[
                ONE_EACH,
                r#"
                sc of-gce {"provisioner": "kubernetes.io/gce-pd"}
                sc of-csi {"provisioner": "pd.csi.storage.gke.io"}
                pv v {"gcePersistentDisk": {"pdName": "x"}}
                pv other {"csi": {"driver": "pd.csi.storage.gke.io", "volumeHandle": "x"}}
                pvc bound {"volumeName": "v"}
                pvc bound-to-other {"volumeName": "other", "storageClassName": "of-gce"}
                pvc lost {"volumeName": "gone", "storageClassName": "of-gce"}
                pvc lost-without-class {"volumeName": "gone"}
                pvc unbound {"storageClassName": "of-gce"}
                pvc unbound-of-other {"storageClassName": "of-csi"}
                pvc elsewhere/unbound {"storageClassName": "of-gce"}
                "#,
                &pod("user on a", &["gce x"]),
                &pod_naming("same", &["bound"]),
                &pod_naming("other-kind", &["bound-to-other"]),
                &pod_naming("lost", &["lost"]),
                &pod_naming("lost-without-class", &["lost-without-class"]),
                &pod_naming("unbound", &["unbound"]),
                &pod_naming("unbound-of-other", &["unbound-of-other"]),
                &pod_naming("missing", &["missing"]),
                &pod_naming("in-other-namespace", &["elsewhere"]),
            ],
            &expect![[r#"
                same a Success
                same b Success
                other-kind a Success
                other-kind b Success
                lost a Unschedulable: node(s) exceed max volume count
                lost b Success
                lost-without-class a Success
                lost-without-class b Success
                unbound a Unschedulable: node(s) exceed max volume count
                unbound b Success
                unbound-of-other a Success
                unbound-of-other b Success
                missing a Success
                missing b Success
                in-other-namespace a Success
                in-other-namespace b Success
            "#]],
        );
    }

    #[test]
    fn a_claim_that_is_not_bound_counts_once_for_all_its_pods() {
        judged(
            entry::<Cinder>(),
            &[
                ONE_EACH,
                r#"
                sc of-cinder {"provisioner": "kubernetes.io/cinder"}
                pvc one {"storageClassName": "of-cinder"}
                pvc two {"storageClassName": "of-cinder"}
                "#,
                &pod_naming("user on a", &["one"]),
                &pod_naming("same", &["one"]),
                &pod_naming("another", &["two"]),
            ],
            &expect![[r#"
                same a Success
                same b Success
                another a Unschedulable: node(s) exceed max volume count
                another b Success
            "#]],
        );
    }

    /// Whether a node without its own limit accepts one more disk if it has `count` of them.
    fn takes_one_more<K: DiskKind>(labels: &[(&str, &str)], args: Value, count: usize) -> bool {
        let args = serde_json::from_value(args).expect("the tests give args");
        let plugin = InTreeVolumeLimits::<K>::new(args, &FeatureGates::default());
        let disks = (0..=count).map(|i| DiskIdentity::Disk(format!("{i}").into())).collect();
        let wanted =
            PodDisks { disks: Ok(disks), store: VolumeStore::of(&Stores::default()).keep() };
        let labels = labels.iter().copied().collect();
        let allocatable = Allocatable(Resources::default());
        let none = PodSet::default();
        plugin.judge(&wanted, (&"a".into(), &labels, &allocatable, &none)).is_ok()
    }

    #[test]
    fn a_node_that_says_nothing_takes_as_many_as_is_usual() {
        let none = || json!({});
        for (most, takes) in [
            (39, takes_one_more::<Ebs> as fn(&[(&str, &str)], Value, usize) -> bool),
            (16, takes_one_more::<GcePd>),
            (16, takes_one_more::<AzureDisk>),
            (256, takes_one_more::<Cinder>),
        ] {
            assert!(takes(&[], none(), most - 1));
            assert!(!takes(&[], none(), most));
        }
    }

    #[test]
    fn a_nitro_instance_takes_25_of_ebs() {
        let [stable, beta] = INSTANCE_TYPE;
        for (labels, is_nitro) in [
            (&[(stable, "m5.large")][..], true),
            (&[(beta, "c5d.large")], true),
            (&[(beta, "r5")], true),
            (&[(stable, "t3.micro")], true),
            (&[(stable, "xt3")], true),
            (&[(stable, "z1d.large")], true),
            (&[(stable, "am5.large")], false),
            (&[(stable, "m4.large")], false),
            (&[(stable, "m4.large"), (beta, "m5.large")], false),
            (&[("instance-type", "m5.large")], false),
        ] {
            let most = if is_nitro { 25 } else { 39 };
            assert!(takes_one_more::<Ebs>(labels, json!({}), most - 1), "{labels:?}");
            assert!(!takes_one_more::<Ebs>(labels, json!({}), most), "{labels:?}");
        }
        assert!(!takes_one_more::<GcePd>(&[(stable, "m5.large")], json!({}), 16));
    }

    #[test]
    fn args_say_how_many_unless_the_node_does() {
        let two = || json!({"maxVolumes": 2});
        assert!(takes_one_more::<Ebs>(&[], two(), 1));
        assert!(!takes_one_more::<Ebs>(&[(INSTANCE_TYPE[0], "m5.large")], two(), 2));
        judged(
            entry::<Ebs>(),
            &[
                "args {\"maxVolumes\": 1}",
                r#"
                node a {"allocatable": {"attachable-volumes-aws-ebs": "2"}}
                node b
                node zero {"allocatable": {"attachable-volumes-aws-ebs": "0"}}
                "#,
                &pod("one", &["ebs x"]),
                &pod("two", &["ebs x", "ebs y"]),
            ],
            &expect![[r#"
                one a Success
                one b Success
                one zero Unschedulable: node(s) exceed max volume count
                two a Success
                two b Unschedulable: node(s) exceed max volume count
                two zero Unschedulable: node(s) exceed max volume count
            "#]],
        );
        let made = entry::<Ebs>().make(Some(&json!({"maxVolumes": 0})), &FeatureGates::default());
        let told = made.err().map(|error| error.to_string());
        let expected = "args.maxVolumes of plugin EBSLimits: invalid value: integer `0`, expected a \
                        nonzero u32";
        assert_eq!(told.as_deref(), Some(expected));
    }

    #[test]
    fn disks_that_a_csi_driver_serves_are_not_counted_if_gate_and_node_say_so() {
        const ANNOTATED: &str = r#"
            csinode a {"annotations": {
                "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/cinder,kubernetes.io/aws-ebs"}}
        "#;
        let full = pod("user on a", &["ebs x"]);
        let another = pod("another", &["ebs y"]);
        let rejected = || {
            expect![[r#"
                another a Unschedulable: node(s) exceed max volume count
                another b Success
            "#]]
        };
        for gates in
            ["", "gate CSIMigrationAWS=true CSIMigration=false", "gate CSIMigrationGCE=true"]
        {
            judged(entry::<Ebs>(), &[gates, ONE_EACH, ANNOTATED, &full, &another], &rejected());
        }
        let on = "gate CSIMigrationAWS=true";
        judged(entry::<Ebs>(), &[on, ONE_EACH, "\ncsinode a\n", &full, &another], &rejected());
        judged(
            entry::<Ebs>(),
            &[on, ONE_EACH, ANNOTATED, &full, &another],
            &expect![[r#"
                another a Success
                another b Success
            "#]],
        );
    }

    #[test]
    fn they_stand_at_filter_alone() {
        for entry in entries() {
            assert_eq!(*entry.points(), [Point::Filter].into(), "{}", entry.name());
        }
    }
}
