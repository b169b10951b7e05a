//! What plugins may read beside nodes and pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_api::{
    Labels, Namespace, Node, ObjectKey, PodDisruptionBudget, PodKey, Selecting, SelectingKind,
    Selector, Str,
};

pub use crate::assume_store::AssumeStore;
pub use crate::object_store::{KeyRef, Named, ObjectStore, Versions};
pub use crate::volume_store::{VolumeChange, VolumeStore};

/// The namespaces of the cluster.
#[derive(Clone, Debug, Default)]
pub struct NamespaceStore(BTreeMap<Str, Labels>);

impl NamespaceStore {
    /// The labels of namespace `name`; none where it is not known.
    pub fn labels(&self, name: &str) -> &Labels {
        static NONE: Labels = Labels::empty();
        self.0.get(name).unwrap_or(&NONE)
    }

    /// Takes in a namespace; whether that changed anything.
    pub fn set(&mut self, namespace: Namespace) -> bool {
        let before = self.0.insert(namespace.name, namespace.labels.clone());
        before != Some(namespace.labels)
    }

    /// Forgets a namespace; whether it was known.
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }
}

/// Services, ReplicationControllers, ReplicaSets and StatefulSets with their selectors.
#[derive(Clone, Debug, Default)]
pub struct SelectingStore(BTreeMap<(Str, SelectingKind, Str), Selector>);

impl SelectingStore {
    /// The selectors of all objects of one kind in one namespace, in the order of their names.
    pub fn of_kind(
        &self,
        namespace: &str,
        kind: SelectingKind,
    ) -> impl Iterator<Item = (&Str, &Selector)> {
        let from = (Str::from(namespace), kind, Str::default());
        let same = move |key: &(Str, SelectingKind, Str)| key.0 == from.0 && key.1 == from.1;
        let start = (Str::from(namespace), kind, Str::default());
        self.0
            .range(start..)
            .take_while(move |(key, _)| same(key))
            .map(|(key, selector)| (&key.2, selector))
    }

    /// The selector of one object.
    pub fn get(&self, kind: SelectingKind, namespace: &str, name: &str) -> Option<&Selector> {
        self.0.get(&(namespace.into(), kind, name.into()))
    }

    /// Takes in an object; whether that changed anything.
    pub fn set(&mut self, object: Selecting) -> bool {
        let key = (object.key.namespace, object.kind, object.key.name);
        self.0.insert(key, object.selector.clone()) != Some(object.selector)
    }

    /// Forgets an object; whether it was known.
    pub fn remove(&mut self, kind: SelectingKind, key: &ObjectKey) -> bool {
        self.0.remove(&(key.namespace.clone(), kind, key.name.clone())).is_some()
    }
}

/// One image in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ImageState {
    size: i64,
    nodes: BTreeSet<Str>,
}

/// Which images lie on how many nodes.
#[derive(Clone, Debug, Default)]
pub struct ImageStore(BTreeMap<Str, ImageState>);

impl ImageStore {
    /// Size in bytes of the image with this name, and how many nodes hold it. As in cache.go,
    /// addNodeImageStates, the size is what the first node that had the image said.
    pub fn get(&self, name: &str) -> Option<(i64, usize)> {
        self.0.get(name).map(|image| (image.size, image.nodes.len()))
    }

    /// Takes in the images of a node in place of those it had before.
    pub fn set(&mut self, before: Option<&Node>, after: Option<&Node>) {
        for (node, image) in
            before.into_iter().flat_map(|node| node.images.iter().map(move |i| (node, i)))
        {
            for name in &image.names {
                self.forget(name, &node.name);
            }
        }
        for (node, image) in
            after.into_iter().flat_map(|node| node.images.iter().map(move |i| (node, i)))
        {
            for name in &image.names {
                let state = self.0.entry(name.clone());
                let state =
                    state.or_insert(ImageState { size: image.size, nodes: BTreeSet::new() });
                state.nodes.insert(node.name.clone());
            }
        }
    }

    fn forget(&mut self, image: &Str, node: &Str) {
        if let Some(state) = self.0.get_mut(image) {
            state.nodes.remove(node);
            if state.nodes.is_empty() {
                self.0.remove(image);
            }
        }
    }
}

/// PodDisruptionBudgets.
pub type PdbStore = ObjectStore<PodDisruptionBudget>;

/// The pods whose eviction was refused a short while ago: they stay where they are.
#[derive(Clone, Debug, Default)]
pub struct RefusedEvictions(BTreeSet<PodKey>);

impl RefusedEvictions {
    /// Whether the eviction of a pod was refused.
    pub fn contains(&self, pod: &PodKey) -> bool {
        self.0.contains(pod)
    }

    /// The eviction of a pod was refused.
    pub fn add(&mut self, pod: PodKey) {
        self.0.insert(pod);
    }

    /// The pod may be evicted again.
    pub fn remove(&mut self, pod: &PodKey) {
        self.0.remove(pod);
    }
}

/// Everything that plugins may read beside nodes and pods.
#[derive(Clone, Debug, Default)]
pub struct Stores {
    /// Namespaces.
    pub namespaces: NamespaceStore,
    /// Services, ReplicationControllers, ReplicaSets and StatefulSets.
    pub selecting: SelectingStore,
    /// Images on nodes.
    pub images: ImageStore,
    /// Volumes, the claims on them, and what provides them. Shared, since plugins keep it in their
    /// states.
    pub volumes: Arc<VolumeStore>,
    /// PodDisruptionBudgets.
    pub budgets: PdbStore,
    /// Pods whose eviction was refused.
    pub refused: RefusedEvictions,
}

impl Stores {
    /// The volumes, to be changed. What plugins have kept stays as it was when they looked.
    pub fn volumes_mut(&mut self) -> &mut VolumeStore {
        Arc::make_mut(&mut self.volumes)
    }
}
