//! Estimates how much memory a pod takes, for code that keeps pods after they are deleted.
//!
//! A pod may be as large as a request to the API server, and most are a thousand times smaller. Limits
//! on kept pods are therefore in bytes.

use std::mem::size_of;

use crate::devices::{
    ClaimSource, ContainerDevices, ContainerResourceClaim, ExtendedClaimStatus, ExtendedRequest,
    NodeAllocatableClaimStatus, PodClaimStatus,
};
use crate::{
    AffinityTerm, Controller, HostPort, Labels, NodeSelectorTerm, Pod, PodAffinity, PodDevices,
    PodResourceClaim, PodTemplate, PodVolume, PodVolumeKind, Quantity, Requirement, Resources,
    Scalars, Selector, SpreadConstraint, Str, Test, Toleration, VolumeSource, WeightedTerm,
};

/// A text of up to this many bytes is stored inline; a longer one is on the heap.
const INLINE: usize = size_of::<Str>();

/// How many bytes of a value are on the heap.
trait Elsewhere {
    fn elsewhere(&self) -> usize;
}

impl Elsewhere for Str {
    fn elsewhere(&self) -> usize {
        if self.len() <= INLINE { 0 } else { self.len() }
    }
}

impl<T: Elsewhere> Elsewhere for Option<T> {
    fn elsewhere(&self) -> usize {
        self.as_ref().map_or(0, T::elsewhere)
    }
}

impl<T: Elsewhere> Elsewhere for Box<T> {
    fn elsewhere(&self) -> usize {
        size_of::<T>() + T::elsewhere(self)
    }
}

impl<T: Elsewhere> Elsewhere for Vec<T> {
    fn elsewhere(&self) -> usize {
        self.len() * size_of::<T>() + self.iter().map(T::elsewhere).sum::<usize>()
    }
}

impl Elsewhere for Labels {
    fn elsewhere(&self) -> usize {
        let one = |(key, value): (&Str, &Str)| 2 * INLINE + key.elsewhere() + value.elsewhere();
        self.iter().map(one).sum()
    }
}

impl Elsewhere for Scalars {
    fn elsewhere(&self) -> usize {
        self.keys().map(|name| size_of::<(Str, i64)>() + name.elsewhere()).sum()
    }
}

impl Elsewhere for Resources {
    fn elsewhere(&self) -> usize {
        self.scalar.elsewhere()
    }
}

impl Elsewhere for Requirement {
    fn elsewhere(&self) -> usize {
        let values = match &self.test {
            Test::In(values) | Test::NotIn(values) => values.elsewhere(),
            _ => 0,
        };
        self.key.elsewhere() + values
    }
}

impl Elsewhere for Selector {
    fn elsewhere(&self) -> usize {
        match self {
            Selector::All(requirements) => requirements.elsewhere(),
            Selector::Nothing => 0,
        }
    }
}

impl Elsewhere for AffinityTerm {
    fn elsewhere(&self) -> usize {
        let AffinityTerm { selector, namespaces, namespace_selector, topology_key } = self;
        selector.elsewhere()
            + namespaces.elsewhere()
            + namespace_selector.elsewhere()
            + topology_key.elsewhere()
    }
}

impl Elsewhere for WeightedTerm {
    fn elsewhere(&self) -> usize {
        self.term.elsewhere()
    }
}

impl Elsewhere for PodAffinity {
    fn elsewhere(&self) -> usize {
        let PodAffinity { required, preferred, required_anti, preferred_anti } = self;
        required.elsewhere()
            + preferred.elsewhere()
            + required_anti.elsewhere()
            + preferred_anti.elsewhere()
    }
}

impl Elsewhere for SpreadConstraint {
    fn elsewhere(&self) -> usize {
        self.topology_key.elsewhere()
            + self.selector.elsewhere()
            + self.without_label_keys.elsewhere()
    }
}

impl Elsewhere for NodeSelectorTerm {
    fn elsewhere(&self) -> usize {
        self.labels.elsewhere() + self.fields.elsewhere() + self.faults.elsewhere()
    }
}

impl Elsewhere for (i32, NodeSelectorTerm) {
    fn elsewhere(&self) -> usize {
        self.1.elsewhere()
    }
}

impl Elsewhere for Toleration {
    fn elsewhere(&self) -> usize {
        self.key.elsewhere() + self.value.elsewhere()
    }
}

impl Elsewhere for HostPort {
    fn elsewhere(&self) -> usize {
        self.protocol.elsewhere() + self.ip.elsewhere()
    }
}

impl Elsewhere for Controller {
    fn elsewhere(&self) -> usize {
        let Controller { api_version, kind, name, uid } = self;
        [api_version, kind, name, uid].into_iter().map(Str::elsewhere).sum()
    }
}

impl Elsewhere for VolumeSource {
    fn elsewhere(&self) -> usize {
        match self {
            VolumeSource::Csi { driver: one, handle: other }
            | VolumeSource::AzureDisk { name: one, uri: other } => {
                one.elsewhere() + other.elsewhere()
            }
            VolumeSource::AzureFile { secret, secret_namespace, share } => {
                secret.elsewhere() + secret_namespace.elsewhere() + share.elsewhere()
            }
            VolumeSource::Rbd { monitors, pool, image } => {
                monitors.elsewhere() + pool.elsewhere() + image.elsewhere()
            }
            VolumeSource::GcePersistentDisk { name: id }
            | VolumeSource::AwsElasticBlockStore { volume_id: id }
            | VolumeSource::Cinder { volume_id: id }
            | VolumeSource::Portworx { volume_id: id }
            | VolumeSource::Vsphere { path: id }
            | VolumeSource::Iscsi { iqn: id } => id.elsewhere(),
            VolumeSource::Local
            | VolumeSource::HostPath
            | VolumeSource::Nfs
            | VolumeSource::Other => 0,
        }
    }
}

impl Elsewhere for PodVolume {
    fn elsewhere(&self) -> usize {
        let kind = match &self.kind {
            PodVolumeKind::Claim(name) | PodVolumeKind::Ephemeral(name) => name.elsewhere(),
            PodVolumeKind::Inline { source, .. } => source.elsewhere(),
        };
        self.name.elsewhere() + kind
    }
}

impl Elsewhere for PodResourceClaim {
    fn elsewhere(&self) -> usize {
        let source = match &self.source {
            ClaimSource::Unknown => 0,
            ClaimSource::Claim(name) | ClaimSource::Template(name) => name.elsewhere(),
        };
        self.name.elsewhere() + source
    }
}

impl Elsewhere for ContainerDevices {
    fn elsewhere(&self) -> usize {
        self.container.elsewhere() + self.claims.elsewhere() + self.extended.elsewhere()
    }
}

impl Elsewhere for ExtendedRequest {
    fn elsewhere(&self) -> usize {
        self.resource.elsewhere()
    }
}

impl Elsewhere for ContainerResourceClaim {
    fn elsewhere(&self) -> usize {
        self.name.elsewhere() + self.request.elsewhere()
    }
}

impl Elsewhere for PodDevices {
    fn elsewhere(&self) -> usize {
        self.claims.elsewhere() + self.extended.elsewhere() + self.node_allocatable.elsewhere()
    }
}

impl Elsewhere for PodClaimStatus {
    fn elsewhere(&self) -> usize {
        self.name.elsewhere() + self.claim.elsewhere()
    }
}

impl Elsewhere for ExtendedClaimStatus {
    fn elsewhere(&self) -> usize {
        self.claim.elsewhere() + self.requests.elsewhere()
    }
}

impl Elsewhere for (Str, Str, Str) {
    fn elsewhere(&self) -> usize {
        self.0.elsewhere() + self.1.elsewhere() + self.2.elsewhere()
    }
}

impl Elsewhere for NodeAllocatableClaimStatus {
    fn elsewhere(&self) -> usize {
        self.claim.elsewhere() + self.containers.elsewhere() + self.resources.elsewhere()
    }
}

impl Elsewhere for (Str, Quantity) {
    fn elsewhere(&self) -> usize {
        self.0.elsewhere()
    }
}

impl PodTemplate {
    /// An estimate of its size in bytes.
    pub fn bytes(&self) -> usize {
        // Every field is named, so that a new field is not forgotten.
        let PodTemplate {
            labels,
            controller,
            scheduler_name,
            priority: _,
            preemption_policy: _,
            scheduling_gates,
            scheduling_group,
            node_selection,
            preferred_nodes,
            tolerations,
            affinity,
            spread,
            asks,
            requests,
            non_zero_requests: _,
            limits,
            host_ports,
            images,
            required_features,
            volumes,
            resource_claims,
            container_devices,
        } = self;
        let amounts = [&asks.fit, &asks.balance, &asks.room, requests, limits];
        size_of::<PodTemplate>()
            + labels.elsewhere()
            + controller.elsewhere()
            + scheduler_name.elsewhere()
            + scheduling_gates.elsewhere()
            + scheduling_group.elsewhere()
            + node_selection.selector.elsewhere()
            + node_selection.terms.elsewhere()
            + preferred_nodes.0.elsewhere()
            + tolerations.elsewhere()
            + affinity.elsewhere()
            + spread.elsewhere()
            + amounts.into_iter().map(Resources::elsewhere).sum::<usize>()
            + host_ports.elsewhere()
            + images.names.elsewhere()
            + required_features.elsewhere()
            + volumes.elsewhere()
            + resource_claims.elsewhere()
            + container_devices.elsewhere()
    }
}

impl NodeSelectorTerm {
    /// An estimate of its size in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.elsewhere()
    }
}

impl Selector {
    /// An estimate of its size in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.elsewhere()
    }
}

impl Pod {
    /// An estimate of its size in bytes, including its template.
    pub fn bytes(&self) -> usize {
        size_of::<Pod>()
            + self.annotations.elsewhere()
            + self.devices.elsewhere()
            + self.template.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PodKey, WhenUnsatisfiable};

    fn bytes(change: impl FnOnce(&mut Pod)) -> usize {
        let mut pod = Pod { key: PodKey::new("a", "p"), ..Pod::default() };
        change(&mut pod);
        pod.bytes()
    }

    fn many<T>(n: usize, one: impl Fn(Str) -> T) -> Vec<T> {
        (0..n).map(|number| one(format!("a-name-of-more-than-24-bytes-{number}").into())).collect()
    }

    fn pod_claim(name: Str) -> PodResourceClaim {
        PodResourceClaim { source: ClaimSource::Claim(name.clone()), name }
    }

    fn one_container(container: Str) -> ContainerDevices {
        ContainerDevices { container, ..ContainerDevices::default() }
    }

    fn claim_status(name: Str) -> PodClaimStatus {
        PodClaimStatus { name, claim: None }
    }

    #[test]
    fn every_field_that_can_be_large_counts() {
        const N: usize = 1000;
        let small = bytes(|_| {});
        assert!(small < 4096, "{small}");
        let constraint = |topology_key| SpreadConstraint {
            max_skew: 1,
            topology_key,
            when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
            selector: Selector::default(),
            without_label_keys: None,
            min_domains: 1,
            honor_node_affinity: true,
            honor_node_taints: false,
        };
        let term = |topology_key| AffinityTerm {
            selector: Selector::default(),
            namespaces: Vec::new(),
            namespace_selector: Selector::default(),
            topology_key,
        };
        let port = |ip| HostPort { protocol: "TCP".into(), ip, port: 80 };
        let volume = |name| PodVolume { name, kind: PodVolumeKind::Claim("c".into()) };
        let toleration =
            |key| Toleration { key: Some(key), value: None, effect: None, comparison: None };
        let requirement = |values| Requirement { key: "k".into(), test: Test::In(values) };
        let large: [(&str, usize); 15] = [
            ("labels", bytes(|pod| pod.labels = many(N, |key| (key, "")).into_iter().collect())),
            (
                "annotations",
                bytes(|pod| pod.annotations = many(N, |key| (key, "")).into_iter().collect()),
            ),
            ("constraints", bytes(|pod| pod.spread = many(N, constraint))),
            ("affinity", bytes(|pod| pod.affinity.required = many(N, term))),
            ("anti-affinity", bytes(|pod| pod.affinity.required_anti = many(N, term))),
            ("tolerations", bytes(|pod| pod.tolerations = many(N, toleration))),
            ("ports", bytes(|pod| pod.host_ports = many(N, port))),
            ("images", bytes(|pod| pod.images.names = many(N, |name| name))),
            ("gates", bytes(|pod| pod.scheduling_gates = many(N, |name| name))),
            ("volumes", bytes(|pod| pod.volumes = many(N, volume))),
            ("claims", bytes(|pod| pod.resource_claims = many(N, pod_claim))),
            ("container claims", bytes(|pod| pod.container_devices = many(N, one_container))),
            (
                "claim statuses",
                bytes(|pod| {
                    let claims = many(N, claim_status);
                    let devices = PodDevices { claims, ..PodDevices::default() };
                    pod.devices = Some(Box::new(devices));
                }),
            ),
            (
                "resources",
                bytes(|pod| pod.requests.scalar = many(N, |name| (name, 1)).into_iter().collect()),
            ),
            (
                "values",
                bytes(|pod| {
                    let labels = vec![requirement(many(N, |value| value))];
                    let term = NodeSelectorTerm { labels, ..NodeSelectorTerm::default() };
                    pod.node_selection.terms = Some(vec![term]);
                }),
            ),
        ];
        for (what, bytes) in large {
            assert!(small + N * 40 < bytes, "{what}: {bytes}");
        }
    }
}
