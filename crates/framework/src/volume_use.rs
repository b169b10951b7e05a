//! Which volumes the pods on nodes use. The columns keep this up to date, so that no filter has to look at every pod.

use hashbrown::HashMap;
use plimsoll_api::{KeyRef, ObjectKey, PodVolume, PodVolumeKind, VolumeSource};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::columns::Row;
use crate::pod_info::PodInfo;

/// How many volumes the pods on a node have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeNumbers {
    /// How many are claims that the pods name. A claim that several pods name counts for each of them.
    pub claims: usize,
    /// How many are claims made for the pod, claims without a name, or disks of a cloud that the pod names itself: what
    /// can only be understood by looking at it. Inline volumes of CSI drivers and of networks do not count.
    pub special: usize,
}

impl VolumeNumbers {
    /// Those of one pod.
    fn of(volumes: &[PodVolume]) -> Self {
        let mut numbers = VolumeNumbers::default();
        for volume in volumes {
            match &volume.kind {
                PodVolumeKind::Claim(name) if !name.is_empty() => numbers.claims += 1,
                PodVolumeKind::Inline { source, .. } if !is_of_cloud(source) => {}
                PodVolumeKind::Claim(_)
                | PodVolumeKind::Ephemeral(_)
                | PodVolumeKind::Inline { .. } => numbers.special += 1,
            }
        }
        numbers
    }

    pub(crate) fn add(&mut self, volumes: &[PodVolume]) {
        let of_pod = VolumeNumbers::of(volumes);
        self.claims += of_pod.claims;
        self.special += of_pod.special;
    }

    pub(crate) fn sub(&mut self, volumes: &[PodVolume]) {
        let of_pod = VolumeNumbers::of(volumes);
        self.claims -= of_pod.claims;
        self.special -= of_pod.special;
    }
}

/// Whether a volume is a disk or a share of a cloud, which CSI drivers serve since in-tree plugins were removed.
fn is_of_cloud(source: &VolumeSource) -> bool {
    !matches!(
        source,
        VolumeSource::Csi { .. }
            | VolumeSource::Rbd { .. }
            | VolumeSource::Iscsi { .. }
            | VolumeSource::Local
            | VolumeSource::HostPath
            | VolumeSource::Nfs
            | VolumeSource::Other
    )
}

/// The uses of a claim.
#[derive(Clone, Debug, Default)]
struct ClaimUses {
    /// How many volumes of pods are this claim.
    n: usize,
    /// The nodes of these pods, ascending, with how many of the volumes are there.
    rows: SmallVec<[(Row, u32); 1]>,
}

impl ClaimUses {
    fn add(&mut self, row: Row) {
        self.n += 1;
        match self.rows.binary_search_by_key(&row, |&(row, _)| row) {
            Ok(at) => self.rows[at].1 += 1,
            Err(at) => self.rows.insert(at, (row, 1)),
        }
    }

    fn sub(&mut self, row: Row) {
        let at = self.rows.binary_search_by_key(&row, |&(row, _)| row);
        let at = at.expect("what a pod uses was counted");
        self.n -= 1;
        self.rows[at].1 -= 1;
        if self.rows[at].1 == 0 {
            self.rows.remove(at);
        }
    }
}

/// The volumes that the pods on all nodes use.
#[derive(Clone, Debug, Default)]
pub struct VolumesInUse {
    /// Where pods have this claim as a volume.
    claims: HashMap<ObjectKey, ClaimUses, FxBuildHasher>,
    n_special: usize,
    /// Nothing is counted: these are the columns of a dry run.
    is_ignored: bool,
}

impl VolumesInUse {
    /// How many volumes of pods on nodes are the claim of this name. Claims made for a pod do not count.
    pub fn n_uses(&self, namespace: &str, name: &str) -> usize {
        self.claims.get(&KeyRef { namespace, name }).map_or(0, |uses| uses.n)
    }

    /// The nodes of the pods that have the claim of this name as a volume. Claims made for a pod do not count.
    pub fn rows_with(&self, namespace: &str, name: &str) -> impl Iterator<Item = Row> + '_ {
        let uses = self.claims.get(&KeyRef { namespace, name });
        uses.into_iter().flat_map(|uses| uses.rows.iter().map(|&(row, _)| row))
    }

    /// How many volumes on all nodes are [special](VolumeNumbers::special).
    pub fn n_special(&self) -> usize {
        self.n_special
    }

    /// Counts nothing from now on.
    pub(crate) fn ignore(&mut self) {
        *self = VolumesInUse { is_ignored: true, ..VolumesInUse::default() };
    }

    pub(crate) fn add(&mut self, row: Row, pod: &PodInfo) {
        if self.is_ignored {
            return;
        }
        self.n_special += VolumeNumbers::of(&pod.volumes).special;
        for key in claims_of(pod) {
            self.claims.entry(key).or_default().add(row);
        }
    }

    pub(crate) fn sub(&mut self, row: Row, pod: &PodInfo) {
        if self.is_ignored {
            return;
        }
        self.n_special -= VolumeNumbers::of(&pod.volumes).special;
        for key in claims_of(pod) {
            let left = self.claims.get_mut(&key).expect("what a pod uses was counted");
            left.sub(row);
            if left.n == 0 {
                self.claims.remove(&key);
            }
        }
    }
}

/// The claims that a pod names.
fn claims_of(pod: &PodInfo) -> impl Iterator<Item = ObjectKey> {
    pod.volumes.iter().filter_map(|volume| match &volume.kind {
        PodVolumeKind::Claim(name) => Some(ObjectKey::new(pod.key.namespace.clone(), name.clone())),
        PodVolumeKind::Ephemeral(_) | PodVolumeKind::Inline { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Node, Pod, PodTemplate};

    use super::*;
    use crate::columns::{Columns, Row};

    fn pod(name: &str, kinds: &[PodVolumeKind]) -> PodInfo {
        let volumes = kinds.iter().map(|kind| PodVolume { name: "v".into(), kind: kind.clone() });
        let template = PodTemplate { volumes: volumes.collect(), ..PodTemplate::default() };
        PodInfo::new(Pod::new(ObjectKey::new("default", name), template))
    }

    fn claim(name: &str) -> PodVolumeKind {
        PodVolumeKind::Claim(name.into())
    }

    fn inline(source: VolumeSource) -> PodVolumeKind {
        PodVolumeKind::Inline { source, read_only: false }
    }

    /// The volumes of a node, and how many uses the claims `a` and `b` have, with how many special volumes there are.
    fn used(nodes: &Columns, row: Row) -> (VolumeNumbers, [usize; 3]) {
        let all = &nodes.volumes_in_use;
        let of = |name| all.n_uses("default", name);
        (nodes.pods_on(row).volumes(), [of("a"), of("b"), all.n_special()])
    }

    #[test]
    fn volumes_are_counted_while_pods_come_go_and_change() {
        let mut nodes = Columns::default();
        let row = nodes.add(Node { name: "n".into(), ..Node::default() });
        let other = nodes.add(Node { name: "o".into(), ..Node::default() });
        let disk = VolumeSource::AwsElasticBlockStore { volume_id: "v".into() };
        nodes.place(row, &pod("p", &[claim("a"), claim("b"), inline(disk)]));
        nodes.place(other, &pod("q", &[claim("a"), PodVolumeKind::Ephemeral("q-v".into())]));
        assert_eq!(used(&nodes, row), (VolumeNumbers { claims: 2, special: 1 }, [2, 1, 2]));
        assert_eq!(nodes.volumes_in_use.n_uses("elsewhere", "a"), 0);

        let csi = VolumeSource::Csi { driver: "d".into(), handle: "".into() };
        let rows = |nodes: &Columns| nodes.volumes_in_use.rows_with("default", "a").collect();
        let both: Vec<Row> = rows(&nodes);
        assert_eq!(both, [row, other]);
        nodes.exchange(row, 0, &pod("p", &[claim("b"), inline(csi)]));
        let one: Vec<Row> = rows(&nodes);
        assert_eq!(one, [other]);
        assert_eq!(used(&nodes, row), (VolumeNumbers { claims: 1, special: 0 }, [1, 1, 1]));

        let before = nodes.row_pods(row);
        nodes.displace_at(row, 0);
        assert_eq!(used(&nodes, row), (VolumeNumbers::default(), [1, 0, 1]));
        nodes.put_back(row, before);
        assert_eq!(used(&nodes, row), (VolumeNumbers { claims: 1, special: 0 }, [1, 1, 1]));
        nodes.displace_at(row, 0);
        nodes.remove(other);
        assert_eq!(used(&nodes, other), (VolumeNumbers::default(), [0, 0, 0]));
    }

    #[test]
    fn a_dry_run_leaves_the_volumes_of_the_cluster_alone() {
        let mut nodes = Columns::default();
        let row = nodes.add(Node { name: "n".into(), ..Node::default() });
        nodes.place(row, &pod("p", &[claim("a"), claim("")]));
        let mut scratch = nodes.scratch(row);
        let only = Row::from_index(0);
        assert_eq!(scratch.pods_on(only).volumes(), VolumeNumbers { claims: 1, special: 1 });
        scratch.displace_at(only, 0);
        assert_eq!(scratch.pods_on(only).volumes(), VolumeNumbers::default());
        assert_eq!(used(&nodes, row).1, [1, 0, 1]);
    }
}
