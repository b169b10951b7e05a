//! What plugins may read besides nodes and pods.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use plimsoll_api::{
    CsiDriver, CsiNode, CsiStorageCapacity, Kind, Labels, Namespace, Node, ObjectStores,
    PersistentVolume, PersistentVolumeClaim, PodDisruptionBudget, PodKey, ReplicaSet,
    ReplicationController, SelectingKind, Selector, Service, StatefulSet, StorageClass, Store, Str,
    VolumeAttachment,
};

use crate::labelled_pods::LabelledPods;
use crate::pod_groups::PodGroupStates;
use crate::time::Time;

/// Services, ReplicationControllers, ReplicaSets and StatefulSets with their selectors.
#[derive(Clone, Copy, Debug)]
pub struct SelectingStore<'a> {
    services: &'a Store<Service>,
    controllers: &'a Store<ReplicationController>,
    replica_sets: &'a Store<ReplicaSet>,
    stateful_sets: &'a Store<StatefulSet>,
}

impl<'a> SelectingStore<'a> {
    /// Those of a cluster.
    pub fn of(stores: &'a ObjectStores) -> Self {
        SelectingStore {
            services: stores.of(),
            controllers: stores.of(),
            replica_sets: stores.of(),
            stateful_sets: stores.of(),
        }
    }

    /// The objects of one kind in one namespace that select pods with these labels, with their selectors, in the order of
    /// their names.
    pub fn selecting(
        self,
        namespace: &str,
        kind: SelectingKind,
        labels: &Labels,
    ) -> Vec<(&'a Str, &'a Selector)> {
        match kind {
            SelectingKind::Service => {
                selecting(self.services, namespace, labels, |one| &one.selector)
            }
            SelectingKind::ReplicationController => {
                selecting(self.controllers, namespace, labels, |one| &one.selector)
            }
            SelectingKind::ReplicaSet => {
                selecting(self.replica_sets, namespace, labels, |one| &one.selector)
            }
            SelectingKind::StatefulSet => {
                selecting(self.stateful_sets, namespace, labels, |one| &one.selector)
            }
        }
    }

    /// The selector of one object.
    pub fn get(self, kind: SelectingKind, namespace: &str, name: &str) -> Option<&'a Selector> {
        let key = (namespace, name);
        match kind {
            SelectingKind::Service => self.services.get(key).map(|one| &one.selector),
            SelectingKind::ReplicationController => {
                self.controllers.get(key).map(|one| &one.selector)
            }
            SelectingKind::ReplicaSet => self.replica_sets.get(key).map(|one| &one.selector),
            SelectingKind::StatefulSet => self.stateful_sets.get(key).map(|one| &one.selector),
        }
    }
}

/// Asks only objects whose [index](Selector::index) is the value of one of the labels, or empty.
fn selecting<'a, K: Kind>(
    store: &'a Store<K>,
    namespace: &str,
    labels: &Labels,
    selector: fn(&K) -> &Selector,
) -> Vec<(&'a Str, &'a Selector)> {
    let mut values: Vec<&str> =
        labels.iter().map(|(_, value)| value.as_str()).chain([""]).collect();
    values.sort_unstable();
    values.dedup();
    let of_value = |value| store.by_index_in_namespace(namespace, value);
    let objects = values.into_iter().flat_map(of_value);
    let all = objects.map(|(name, object)| (name, selector(object)));
    let mut all: Vec<_> = all.filter(|(_, selector)| selector.matches(labels)).collect();
    all.sort_unstable_by_key(|&(name, _)| name);
    all
}

macro_rules! volumes {
    ($($(#[$doc:meta])* $field:ident: $kind:ident,)*) => {
        /// Volumes, the claims on them, and what provides them.
        #[derive(Clone, Copy, Debug)]
        pub struct VolumeStore<'a> {
            $($(#[$doc])* pub $field: &'a Arc<Store<$kind>>,)*
        }

        /// A snapshot of a [`VolumeStore`] that a state can keep.
        #[derive(Clone, Debug)]
        pub struct KeptVolumes {
            $($field: Arc<Store<$kind>>,)*
        }

        impl<'a> VolumeStore<'a> {
            /// Those of a cluster.
            pub fn of(stores: &'a ObjectStores) -> Self {
                VolumeStore { $($field: stores.of(),)* }
            }

            /// A snapshot that a state can keep.
            pub fn keep(self) -> KeptVolumes {
                KeptVolumes { $($field: self.$field.clone(),)* }
            }
        }

        impl KeptVolumes {
            /// The store of the snapshot.
            pub fn store(&self) -> VolumeStore<'_> {
                VolumeStore { $($field: &self.$field,)* }
            }
        }
    };
}

volumes! {
    /// PersistentVolumes. They can be looked up [by](Store::by_index) the name of the claim for which they are
    /// reserved, and free ones by their class.
    volumes: PersistentVolume,
    /// PersistentVolumeClaims.
    claims: PersistentVolumeClaim,
    /// StorageClasses.
    classes: StorageClass,
    /// CSINodes, by the name of their node.
    csi_nodes: CsiNode,
    /// CSIDrivers.
    csi_drivers: CsiDriver,
    /// CSIStorageCapacities.
    capacities: CsiStorageCapacity,
    /// VolumeAttachments. They can be looked up [by the name of their node](Store::by_index).
    attachments: VolumeAttachment,
}

/// The namespaces of the cluster.
pub type NamespaceStore = Store<Namespace>;

/// PodDisruptionBudgets.
pub type PdbStore = Store<PodDisruptionBudget>;

/// One image in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ImageState {
    size: i64,
    nodes: BTreeSet<Str>,
}

/// The images, with the nodes that hold them.
#[derive(Clone, Debug, Default)]
pub struct ImageStore(BTreeMap<Str, ImageState>);

impl ImageStore {
    /// The size in bytes of the image with this name, and how many nodes hold it. As in cache.go,
    /// addNodeImageStates: the size is the one that the first node with the image gave.
    pub fn get(&self, name: &str) -> Option<(i64, usize)> {
        self.0.get(name).map(|image| (image.size, image.nodes.len()))
    }

    /// Replaces the images of a node.
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

    /// The sizes of those images of `nodes` that are known, with their names.
    pub fn sizes_of<'a>(&self, nodes: impl IntoIterator<Item = &'a Node>) -> Vec<(Str, i64)> {
        let names = nodes.into_iter().flat_map(|node| &node.images).flat_map(|image| &image.names);
        names.filter_map(|name| Some((name.clone(), self.get(name)?.0))).collect()
    }

    /// Sets the sizes of images that some node holds. Which node gave the size first is then forgotten.
    pub fn set_sizes(&mut self, sizes: &[(Str, i64)]) {
        for (name, size) in sizes {
            if let Some(image) = self.0.get_mut(name) {
                image.size = *size;
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

/// The pods whose eviction was refused recently: they stay where they are.
#[derive(Clone, Debug, Default)]
pub struct RefusedEvictions(BTreeSet<PodKey>);

impl RefusedEvictions {
    /// Whether the eviction of the pod was refused.
    pub fn contains(&self, pod: &PodKey) -> bool {
        self.0.contains(pod)
    }

    /// Adds a pod whose eviction was refused.
    pub fn add(&mut self, pod: PodKey) {
        self.0.insert(pod);
    }

    /// Removes a pod: it may be evicted again.
    pub fn remove(&mut self, pod: &PodKey) {
        self.0.remove(pod);
    }
}

/// Everything that plugins may read besides nodes and pods.
#[derive(Clone, Debug, Default)]
pub struct Stores {
    /// Objects by their kinds.
    pub objects: ObjectStores,
    /// Images on nodes.
    pub images: ImageStore,
    /// Pods whose eviction was refused.
    pub refused: RefusedEvictions,
    /// The pods of each group.
    pub groups: PodGroupStates,
    /// The pods that have labels by which a plugin groups pods.
    pub labelled: LabelledPods,
    /// The current time of the scheduler; virtual time in a simulation.
    pub now: Time,
}

impl Deref for Stores {
    type Target = ObjectStores;

    fn deref(&self) -> &ObjectStores {
        &self.objects
    }
}

impl DerefMut for Stores {
    fn deref_mut(&mut self) -> &mut ObjectStores {
        &mut self.objects
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Requirement, Test};

    use super::*;

    fn equals(pairs: &[(&str, &str)]) -> Selector {
        Selector::All(pairs.iter().map(|(key, value)| Requirement::equals(*key, *value)).collect())
    }

    fn either(key: &str, values: [&str; 2]) -> Requirement {
        Requirement { key: key.into(), test: Test::In(values.map(Str::from).to_vec()) }
    }

    #[test]
    fn objects_are_found_by_any_label_that_they_ask_for() {
        let all = [
            ("default", "two", equals(&[("app", "web"), ("tier", "front")])),
            ("default", "one", equals(&[("tier", "front")])),
            ("default", "more", equals(&[("app", "web"), ("zone", "a")])),
            ("default", "either", Selector::All(vec![either("app", ["web", "db"])])),
            ("default", "neither", Selector::All(vec![either("app", ["mail", "db"])])),
            ("default", "everything", Selector::everything()),
            ("default", "nothing", Selector::Nothing),
            ("default", "same", equals(&[("name", "web")])),
            ("other", "elsewhere", equals(&[("app", "web")])),
        ];
        let mut stores = Stores::default();
        for (namespace, name, selector) in all {
            stores.set(&SelectingKind::Service.object(PodKey::new(namespace, name), selector));
        }
        let labels: Labels =
            [("app", "web"), ("tier", "front"), ("name", "web")].into_iter().collect();
        let selecting = |namespace, kind| {
            let found = SelectingStore::of(&stores).selecting(namespace, kind, &labels);
            found.into_iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        let here = ["either", "everything", "one", "same", "two"];
        assert_eq!(selecting("default", SelectingKind::Service), here);
        assert_eq!(selecting("other", SelectingKind::Service), ["elsewhere"]);
        assert_eq!(selecting("default", SelectingKind::ReplicaSet), [""; 0]);
    }
}
