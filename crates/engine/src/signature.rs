//! The signatures of queued pods, and which pods are equal.
//!
//! Most pods come from a template. A function that reads only template fields has the same answer for
//! all pods of the template.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;
use plimsoll_api::{Asks, Pod, PodTemplate, Resources};
use plimsoll_framework::PodInfo;
use plimsoll_framework::parts::PodReads;
use rustc_hash::FxHasher;

/// The most signatures that are known at a time. If pods are rarely equal, such as those of a StatefulSet
/// with individual labels, more would not help.
const SIGNATURES_LIMIT: usize = 1 << 14;
/// The most memory for the representative pods, in bytes. Most pods take about a kilobyte, and some
/// take a thousand.
const MOST_BYTES: usize = 64 << 20;

/// The parts that differ between pods of one template.
pub(crate) const OWN_PARTS: PodReads =
    PodReads::KEY.union(PodReads::UID).union(PodReads::ANNOTATIONS);

/// The number of a signature. Two pods with the same number are equal; equal pods usually have the same
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueSignature(pub(crate) u32);

/// Assigns numbers to signatures of pods.
///
/// Pods with the same signature are equal in the given parts, and in fields that belong to no part but are read by
/// the engine and at points that get whole pods: scheduler name, preemption policy, nominated node,
/// deletion, phase. They may differ in their creation time.
#[derive(Debug)]
pub(crate) struct QueueSignatures {
    parts: PodReads,
    limit: usize,
    known: HashTable<KnownSignature>,
    /// The approximate size of their pods in bytes.
    bytes: usize,
    next: u32,
    /// The last pod, with its signature: pods of one template mostly come one after the other.
    last: Option<(QueueSignature, PodInfo)>,
}

#[derive(Debug)]
struct KnownSignature {
    hash: u64,
    id: QueueSignature,
    /// An example pod.
    pod: PodInfo,
}

impl Default for QueueSignatures {
    /// All parts except [`OWN_PARTS`].
    fn default() -> Self {
        QueueSignatures::by(PodReads::all().difference(OWN_PARTS))
    }
}

impl QueueSignatures {
    /// QueueSignatures of pods that are equal in `parts`.
    pub(crate) fn by(parts: PodReads) -> Self {
        QueueSignatures {
            parts,
            limit: SIGNATURES_LIMIT,
            known: HashTable::new(),
            bytes: 0,
            next: 0,
            last: None,
        }
    }

    /// The signature of `pod`.
    ///
    /// At [`SIGNATURES_LIMIT`] signatures or [`MOST_BYTES`], all are dropped. A number is never reused, but
    /// later pods get a new one.
    ///
    /// # Panics
    /// After 2³² signatures.
    pub(crate) fn intern(&mut self, pod: &PodInfo) -> QueueSignature {
        if let Some((id, last)) = &self.last
            && are_alike(self.parts, last, pod)
        {
            return *id;
        }
        let id = self.find(pod);
        self.last = Some((id, pod.clone()));
        id
    }

    /// Whether two pods may have the same signature.
    pub(crate) fn are_alike(&self, one: &Pod, other: &Pod) -> bool {
        are_alike(self.parts, one, other)
    }

    fn find(&mut self, pod: &PodInfo) -> QueueSignature {
        let hash = hash_of(self.parts, pod);
        let same =
            |known: &KnownSignature| known.hash == hash && are_alike(self.parts, &known.pod, pod);
        if let Some(known) = self.known.find(hash, same) {
            return known.id;
        }
        if self.limit <= self.known.len() || MOST_BYTES <= self.bytes {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += pod.bytes();
        let id = QueueSignature(self.next);
        self.next = self.next.checked_add(1).expect("fewer than 2^32 pods come");
        let known = KnownSignature { hash, id, pod: pod.clone() };
        self.known.insert_unique(hash, known, |known| known.hash);
        id
    }
}

/// Whether two pods are equal in `parts` and in the fields that always count.
pub(crate) fn are_alike(parts: PodReads, one: &Pod, other: &Pod) -> bool {
    one.nominated_node == other.nominated_node
        && one.deletion == other.deletion
        && one.preempted == other.preempted
        && one.started == other.started
        && one.phase == other.phase
        && one.scheduler_name == other.scheduler_name
        && one.preemption_policy == other.preemption_policy
        && are_in_one_group(one, other)
        && parts_are_alike(parts, one, other)
}

/// Whether two pods are members of the same group, or of none.
fn are_in_one_group(one: &Pod, other: &Pod) -> bool {
    one.scheduling_group == other.scheduling_group
        && (one.scheduling_group.is_none() || one.key.namespace == other.key.namespace)
}

/// Whether two pods are equal in `parts`.
pub(crate) fn parts_are_alike(parts: PodReads, one: &Pod, other: &Pod) -> bool {
    parts_of_pods_are_alike(parts, one, other)
        && templates_are_alike(parts, &one.template, &other.template)
}

/// The same without what is in their templates.
pub(crate) fn parts_of_pods_are_alike(parts: PodReads, one: &Pod, other: &Pod) -> bool {
    let on = |part| parts.intersects(part);
    // Every field is named, so that a new field is not forgotten.
    let Pod {
        key,
        uid,
        annotations,
        created: _,
        deletion: _,
        started: _,
        phase: _,
        preempted: _,
        node_name,
        nominated_node: _,
        // Such a pod is rejected before any plugin reads it.
        unreadable: _,
        edition: _,
        resources: _,
        devices,
        template: _,
    } = one;
    (!on(PodReads::KEY) || *key == other.key)
        && (!on(PodReads::NAMESPACE) || key.namespace == other.key.namespace)
        && (!on(PodReads::UID) || *uid == other.uid)
        && (!on(PodReads::ANNOTATIONS) || *annotations == other.annotations)
        && (!on(PodReads::PINNED_NODE) || *node_name == other.node_name)
        && (!on(PodReads::RESOURCE_CLAIMS) || *devices == other.devices)
}

/// Whether two templates are equal in `parts`.
pub(crate) fn templates_are_alike(
    parts: PodReads,
    one: &Arc<PodTemplate>,
    other: &Arc<PodTemplate>,
) -> bool {
    if Arc::ptr_eq(one, other) {
        return true;
    }
    let on = |part| parts.intersects(part);
    let PodTemplate {
        labels,
        controller,
        scheduler_name: _,
        priority,
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
        non_zero_requests,
        limits: _,
        host_ports,
        images,
        required_features,
        volumes,
        resource_claims,
        container_devices,
    } = &**one;
    let takes_the_same = !on(PodReads::REQUESTS)
        || (*asks == other.asks
            && *requests == other.requests
            && *non_zero_requests == other.non_zero_requests);
    takes_the_same
        && (!on(PodReads::LABELS) || *labels == other.labels)
        && (!on(PodReads::CONTROLLER) || *controller == other.controller)
        && (!on(PodReads::PRIORITY) || *priority == other.priority)
        && (!on(PodReads::SCHEDULING_GATES) || *scheduling_gates == other.scheduling_gates)
        && (!on(PodReads::SCHEDULING_GROUP) || *scheduling_group == other.scheduling_group)
        && (!on(PodReads::NODE_SELECTION) || *node_selection == other.node_selection)
        && (!on(PodReads::PREFERRED_NODES) || *preferred_nodes == other.preferred_nodes)
        && (!on(PodReads::TOLERATIONS) || *tolerations == other.tolerations)
        && (!on(PodReads::POD_AFFINITY) || *affinity == other.affinity)
        && (!on(PodReads::SPREAD) || *spread == other.spread)
        && (!on(PodReads::HOST_PORTS) || *host_ports == other.host_ports)
        && (!on(PodReads::IMAGES) || *images == other.images)
        && (!on(PodReads::REQUIRED_FEATURES) || *required_features == other.required_features)
        && (!on(PodReads::VOLUMES) || *volumes == other.volumes)
        && (!on(PodReads::RESOURCE_CLAIMS)
            || (*resource_claims == other.resource_claims
                && *container_devices == other.container_devices))
}

/// A hash that is the same for pods that [are alike](are_alike).
fn hash_of(parts: PodReads, pod: &Pod) -> u64 {
    let mut hash = Summary(FxHasher::default());
    hash.parts(parts, pod);
    hash.add(pod.nominated_node.is_some(), &pod.nominated_node);
    hash.add(true, &pod.scheduler_name);
    hash.add(pod.scheduling_group.is_some(), &pod.scheduling_group);
    hash.0.finish()
}

/// A hash that is the same for pods that are [equal in `parts`](parts_are_alike).
pub(crate) fn parts_hash(parts: PodReads, pod: &Pod) -> u64 {
    let mut hash = Summary(FxHasher::default());
    hash.parts(parts, pod);
    hash.0.finish()
}

struct Summary(FxHasher);

impl Summary {
    /// Fields that are rarely set are hashed only if they are set.
    fn parts(&mut self, parts: PodReads, pod: &Pod) {
        let hash = self;
        let on = |part| parts.intersects(part);
        hash.add(on(PodReads::KEY), &pod.key.name);
        hash.add(on(PodReads::KEY | PodReads::NAMESPACE), &pod.key.namespace);
        hash.add(on(PodReads::UID), &pod.uid);
        hash.add(on(PodReads::ANNOTATIONS) && !pod.annotations.is_empty(), &pod.annotations);
        hash.add(on(PodReads::LABELS), &pod.labels);
        hash.add(on(PodReads::CONTROLLER) && pod.controller.is_some(), &pod.controller);
        hash.add(on(PodReads::PRIORITY), &pod.priority);
        hash.add(on(PodReads::SCHEDULING_GATES), &pod.scheduling_gates);
        let group = &pod.scheduling_group;
        hash.add(on(PodReads::SCHEDULING_GROUP) && group.is_some(), group);
        hash.add(on(PodReads::PINNED_NODE), &pod.node_name);
        if on(PodReads::REQUESTS) {
            hash.asks(&pod.asks);
            hash.resources(&pod.requests);
        }
        let selects = !pod.node_selection.is_any();
        hash.add(on(PodReads::NODE_SELECTION) && selects, &pod.node_selection);
        hash.add(on(PodReads::PREFERRED_NODES), &pod.preferred_nodes);
        hash.add(on(PodReads::TOLERATIONS), &pod.tolerations);
        hash.add(on(PodReads::POD_AFFINITY) && !pod.affinity.is_empty(), &pod.affinity);
        hash.add(on(PodReads::SPREAD), &pod.spread);
        hash.add(on(PodReads::HOST_PORTS), &pod.host_ports);
        hash.add(on(PodReads::IMAGES), &pod.images);
        hash.add(on(PodReads::REQUIRED_FEATURES), &pod.required_features);
        hash.add(on(PodReads::VOLUMES), &pod.volumes);
        hash.add(on(PodReads::RESOURCE_CLAIMS), &pod.resource_claims);
        hash.add(on(PodReads::RESOURCE_CLAIMS), &pod.container_devices);
    }

    fn add(&mut self, counts: bool, part: &impl Hash) {
        if counts {
            part.hash(&mut self.0);
        }
    }

    /// The amounts that must fit; the other two rarely differ from these.
    fn asks(&mut self, asks: &Asks) {
        self.resources(&asks.fit);
        (asks.room.milli_cpu, asks.room.memory).hash(&mut self.0);
    }

    fn resources(&mut self, of: &Resources) {
        (of.milli_cpu, of.memory, of.ephemeral_storage).hash(&mut self.0);
        self.add(!of.scalar.is_empty(), &of.scalar);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::devices::ContainerDevices;
    use plimsoll_api::{
        AffinityTerm, Controller, HostPort, Labels, NodeSelectorTerm, PodKey, PodPhase,
        PodResourceClaim, PodVolume, PodVolumeKind, PreemptionPolicy, Selector, SpreadConstraint,
        Timestamp, Toleration, WhenUnsatisfiable,
    };

    use super::*;

    fn pod() -> Pod {
        Pod { key: PodKey::new("default", "p"), uid: "u".into(), ..Pod::default() }
    }

    fn labels(text: &str) -> Labels {
        [("key", text)].into_iter().collect()
    }

    /// Whether a pod still has the signature of [`pod`] after a change.
    fn alike(signatures: &mut QueueSignatures, change: impl FnOnce(&mut Pod)) -> bool {
        let mut other = pod();
        change(&mut other);
        signatures.intern(&pod().into()) == signatures.intern(&other.into())
    }

    #[test]
    fn pods_of_one_template_are_alike() {
        let mut signatures = QueueSignatures::default();
        assert!(alike(&mut signatures, |pod| pod.key.name = "q".into()));
        assert!(alike(&mut signatures, |pod| pod.uid = "v".into()));
        assert!(alike(&mut signatures, |pod| pod.annotations = labels("x")));
        assert!(alike(&mut signatures, |pod| pod.created = Some(Timestamp::default())));
    }

    /// The name of a difference, and how to make it.
    type Difference = (&'static str, fn(&mut Pod));

    #[test]
    fn pods_that_differ_in_anything_else_are_not_alike() {
        let all: [Difference; 29] = [
            ("namespace", |pod| pod.key.namespace = "other".into()),
            ("labels", |pod| pod.labels = labels("x")),
            ("deletion", |pod| pod.deletion = Some(Timestamp::default())),
            ("preempted", |pod| pod.preempted = true),
            ("started", |pod| pod.started = Some(Timestamp::default())),
            ("phase", |pod| pod.phase = PodPhase::Running),
            ("controller", |pod| {
                let [api_version, kind, name, uid] = std::array::from_fn(|_| "x".into());
                pod.controller = Some(Controller { api_version, kind, name, uid });
            }),
            ("scheduler name", |pod| pod.scheduler_name = "x".into()),
            ("priority", |pod| pod.priority = 1),
            ("preemption policy", |pod| pod.preemption_policy = PreemptionPolicy::Never),
            ("node name", |pod| pod.node_name = Some("a".into())),
            ("nominated node", |pod| pod.nominated_node = Some("a".into())),
            ("gates", |pod| pod.scheduling_gates.push("x".into())),
            ("node selector", |pod| pod.node_selection.selector = labels("x")),
            ("preferred nodes", |pod| {
                pod.preferred_nodes.0.push((1, NodeSelectorTerm::default()));
            }),
            ("tolerations", |pod| {
                pod.tolerations.push(Toleration::default());
            }),
            ("affinity", |pod| pod.affinity.required.push(term())),
            ("spread", |pod| pod.spread.push(constraint())),
            ("fit", |pod| pod.asks.fit.memory = 1),
            ("balance", |pod| pod.asks.balance.milli_cpu = 1),
            ("requests", |pod| pod.requests.milli_cpu = 1),
            ("non-zero requests", |pod| pod.non_zero_requests.memory = 1),
            ("ports", |pod| {
                let (protocol, ip) = ("TCP".into(), "0.0.0.0".into());
                pod.host_ports.push(HostPort { protocol, ip, port: 80 });
            }),
            ("images", |pod| pod.images.containers = 2),
            ("features", |pod| pod.required_features.push("x".into())),
            ("volumes", |pod| {
                let kind = PodVolumeKind::Claim("c".into());
                pod.volumes.push(PodVolume { name: "v".into(), kind });
            }),
            ("claims", |pod| pod.resource_claims.push(PodResourceClaim::default())),
            ("container claims", |pod| pod.container_devices.push(ContainerDevices::default())),
            ("claim statuses", |pod| pod.devices = Some(Box::default())),
        ];
        let mut signatures = QueueSignatures::default();
        for (what, change) in all {
            assert!(!alike(&mut signatures, change), "{what}");
        }
    }

    fn term() -> AffinityTerm {
        AffinityTerm {
            selector: Selector::default(),
            namespaces: Vec::new(),
            namespace_selector: Selector::default(),
            topology_key: "zone".into(),
        }
    }

    fn constraint() -> SpreadConstraint {
        SpreadConstraint {
            max_skew: 1,
            topology_key: "zone".into(),
            when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
            selector: Selector::default(),
            without_label_keys: None,
            min_domains: 1,
            honor_node_affinity: true,
            honor_node_taints: false,
        }
    }

    #[test]
    fn only_the_parts_that_count_tell_pods_apart() {
        let mut signatures = QueueSignatures::by(PodReads::TOLERATIONS | PodReads::UID);
        assert!(alike(&mut signatures, |pod| pod.labels = labels("x")));
        assert!(alike(&mut signatures, |pod| pod.key.name = "q".into()));
        assert!(!alike(&mut signatures, |pod| pod.uid = "v".into()));
        assert!(!alike(&mut signatures, |pod| pod.scheduler_name = "x".into()));
    }

    #[test]
    fn signatures_of_large_pods_are_forgotten_sooner() {
        let mut signatures = QueueSignatures::default();
        let mut of = |gate: usize| {
            let gates = (0..100_000).map(|n| format!("{gate}/{n}").into()).collect();
            signatures.intern(&PodInfo::new(PodTemplate {
                scheduling_gates: gates,
                ..PodTemplate::default()
            }))
        };
        let first = of(0);
        assert_eq!(of(0), first);
        for gate in 1..60 {
            of(gate);
        }
        assert_ne!(of(0), first);
        assert!(signatures.known.len() < 60);
    }

    #[test]
    fn a_number_is_never_given_twice_although_signatures_are_forgotten() {
        let mut signatures = QueueSignatures { limit: 2, ..QueueSignatures::default() };
        let mut of = |app: &str| {
            let template = PodTemplate { labels: labels(app), ..PodTemplate::default() };
            signatures.intern(&PodInfo::new(template))
        };
        let (a, b) = (of("a"), of("b"));
        assert_eq!((of("a"), of("b")), (a, b));
        let c = of("c");
        let again = of("a");
        assert!(a != b && ![a, b].contains(&c) && ![a, b, c].contains(&again));
        assert_eq!(of("a"), again);
    }
}
