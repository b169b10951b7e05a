//! Kinds of objects: what the API server calls them, and how they are read.

use std::any::{Any, TypeId};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ptr;
use std::sync::Arc;

use serde_json::Value;

use crate::store::{ErasedStore, Store};
use crate::wire::{Manifest, Object, Reader, WireError};
use crate::{
    CompositePodGroup, CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, DeviceTaintRule,
    Namespace, Node, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget,
    PodGroup, ReplicaSet, ReplicationController, ResourceClaim, ResourceSlice, Service,
    StatefulSet, StorageClass, Str, VolumeAttachment,
};

/// A kind of objects that scheduling reads, implemented by the type of one object.
///
/// The scheduler then watches the kind, accepts it in `-f` files, stores its objects for plugins, and wakes pods by
/// their events. In a cluster the scheduler's role must allow `get`, `list` and `watch` for the kind.
///
/// ```
/// use plimsoll_api::wire::{Manifest, WireError};
/// use plimsoll_api::{Kind, KindRef, Kinds, ObjectKey, ObjectMeta};
///
/// #[derive(Debug, PartialEq, serde::Deserialize)]
/// struct TeamQuota {
///     metadata: ObjectMeta,
///     spec: Spec,
/// }
///
/// #[derive(Debug, PartialEq, serde::Deserialize)]
/// struct Spec {
///     pods: usize,
/// }
///
/// impl Kind for TeamQuota {
///     const NAME: &'static str = "TeamQuota";
///     const PLURAL: &'static str = "teamquotas";
///     const VERSIONS: &'static [&'static str] = &["example.com/v1"];
///
///     fn read(manifest: Manifest<'_>) -> Result<Self, WireError> {
///         manifest.parse()
///     }
///     fn key(&self) -> ObjectKey {
///         self.metadata.key()
///     }
/// }
///
/// let kinds = Kinds::built_in().with(KindRef::of::<TeamQuota>());
/// assert!(kinds.find("example.com/v1", "TeamQuota").is_some());
/// ```
pub trait Kind: Any + fmt::Debug + PartialEq + Send + Sync {
    /// The name in manifests, such as `PodDisruptionBudget`.
    const NAME: &'static str;
    /// The name in paths and RBAC rules, such as `poddisruptionbudgets`.
    const PLURAL: &'static str;
    /// The versions that are read, such as `policy/v1`, the best first. All are of one API group.
    const VERSIONS: &'static [&'static str];
    /// Whether objects of this kind are in a namespace.
    const NAMESPACED: bool = true;
    /// The consequence if the API server does not have this kind, as text that follows "without it". `None`: the
    /// scheduler does not start without it.
    const WITHOUT: Option<&'static str> = Some("plugins that read it see no objects");

    /// Whether an unschedulable pod may be worth another attempt after such an object was added, changed or deleted.
    const WAKES_PODS: bool = true;

    /// Reads one object. Errors name the field.
    fn read(manifest: Manifest<'_>) -> Result<Self, WireError>
    where
        Self: Sized;
    /// A manifest in the best of the [`Kind::VERSIONS`], as it is written in `api_version`, which is another one of them.
    fn convert(manifest: Value, _api_version: &str) -> Value
    where
        Self: Sized,
    {
        manifest
    }
    /// Its namespace and name. The namespace of a cluster-wide object is ignored. A namespaced object without a
    /// namespace is in `default`.
    fn key(&self) -> ObjectKey;
    /// A value by which stores index objects, in addition to the key, such as the class of a volume (`IndexFunc` of
    /// client-go).
    fn index(&self) -> Option<&str> {
        None
    }
    /// Whether an object may yet become this state that it is assumed to have, although another one was `observed`
    /// since. The assumption is then used on. Usually it is dropped: see [`Store`].
    fn may_follow(&self, _observed: &Self) -> bool {
        false
    }
}

/// The properties of a [`Kind`], without its type.
struct Facts {
    id: TypeId,
    name: &'static str,
    plural: &'static str,
    versions: &'static [&'static str],
    namespaced: bool,
    without: Option<&'static str>,
    wakes_pods: bool,
    read: fn(Manifest<'_>) -> Result<Object, WireError>,
    convert: fn(Value, &str) -> Value,
    store: fn() -> Box<dyn ErasedStore>,
}

/// A [`Kind`] as a value.
#[derive(Clone, Copy)]
pub struct KindRef(&'static Facts);

/// Makes the [`Facts`] of a kind a constant.
struct FactsOf<K>(std::marker::PhantomData<K>);

impl<K: Kind> FactsOf<K> {
    const FACTS: Facts = Facts {
        id: TypeId::of::<K>(),
        name: K::NAME,
        plural: K::PLURAL,
        versions: K::VERSIONS,
        namespaced: K::NAMESPACED,
        without: K::WITHOUT,
        wakes_pods: K::WAKES_PODS,
        read: read::<K>,
        convert: K::convert,
        store: || Box::new(Arc::new(Store::<K>::default())),
    };
}

fn read<K: Kind>(manifest: Manifest<'_>) -> Result<Object, WireError> {
    let object = K::read(manifest)?;
    if object.key().name.is_empty() {
        return Err(WireError::nameless());
    }
    let object = Object::of(object);
    Ok(match object {
        Object::Other(other) if !BUILT_IN.contains(&KindRef::of::<K>()) => {
            Object::Other(other.with_manifest(manifest))
        }
        object => object,
    })
}

impl KindRef {
    /// The kind `K`.
    pub const fn of<K: Kind>() -> Self {
        KindRef(&FactsOf::<K>::FACTS)
    }

    /// Whether it is the kind `K`.
    pub fn is<K: Kind>(self) -> bool {
        self.0.id == TypeId::of::<K>()
    }

    /// The name in manifests, such as `CSINode`.
    pub const fn as_str(self) -> &'static str {
        self.0.name
    }

    /// The name in paths and RBAC rules, such as `csinodes`.
    pub const fn plural(self) -> &'static str {
        self.0.plural
    }

    /// The versions that are read, such as `policy/v1`, the best first.
    pub const fn versions(self) -> &'static [&'static str] {
        self.0.versions
    }

    /// Whether objects of this kind are in a namespace.
    pub const fn is_namespaced(self) -> bool {
        self.0.namespaced
    }

    /// The consequence if the API server does not have this kind, as text that follows "without it". `None`: nothing
    /// can be scheduled then.
    pub const fn without(self) -> Option<&'static str> {
        self.0.without
    }

    /// Whether an unschedulable pod may be worth another attempt after such an object was added, changed or deleted.
    pub const fn wakes_pods(self) -> bool {
        self.0.wakes_pods
    }

    /// The API group in RBAC rules; empty for the core group.
    pub fn group(self) -> &'static str {
        self.0
            .versions
            .first()
            .and_then(|version| version.split_once('/'))
            .map_or("", |(group, _)| group)
    }

    /// A reader of this kind in `api_version`; `None` for a version that is not read.
    pub fn reader(self, api_version: &str) -> Option<Reader> {
        let version = self.versions().iter().find(|version| **version == api_version)?;
        Some(Reader::new(self, version))
    }

    /// A manifest in the best version, as it is written in `api_version`.
    pub fn convert(self, manifest: Value, api_version: &str) -> Value {
        match self.versions().first() {
            Some(best) if *best != api_version => (self.0.convert)(manifest, api_version),
            _ => manifest,
        }
    }

    /// A store for objects of this kind.
    pub(crate) fn new_store(self) -> Box<dyn ErasedStore> {
        (self.0.store)()
    }

    /// Reads one object.
    pub(crate) fn read(self, manifest: Manifest<'_>) -> Result<Object, WireError> {
        (self.0.read)(manifest)
    }
}

impl PartialEq for KindRef {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for KindRef {}

impl Hash for KindRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

/// By name, and by group if two kinds have the same name.
impl Ord for KindRef {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.name, self.0.versions, self.0.id).cmp(&(other.0.name, other.0.versions, other.0.id))
    }
}

impl PartialOrd for KindRef {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for KindRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Debug for KindRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// The namespace of an object that names none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// The key of an object, with a namespace if, and only if, its kind is namespaced.
pub fn key_of<K: Kind>(object: &K) -> ObjectKey {
    let ObjectKey { namespace, name } = object.key();
    let namespace = match K::NAMESPACED {
        false => Str::const_new(""),
        true if namespace.is_empty() => Str::const_new(DEFAULT_NAMESPACE),
        true => namespace,
    };
    ObjectKey { namespace, name }
}

/// An object of any [`Kind`]; clones share it.
#[derive(Clone)]
pub struct AnyObject {
    object: Arc<dyn Erased>,
    /// The version and the JSON from which it was read, if a plugin brings its kind.
    manifest: Option<Arc<(&'static str, String)>>,
}

/// A [`Kind`] without its type.
trait Erased: Any + fmt::Debug + Send + Sync {
    fn kind(&self) -> KindRef;
    fn key(&self) -> ObjectKey;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<K: Kind> Erased for K {
    fn kind(&self) -> KindRef {
        KindRef::of::<K>()
    }
    fn key(&self) -> ObjectKey {
        key_of(self)
    }
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<K>().is_some_and(|other| self == other)
    }
}

impl AnyObject {
    /// An object of any kind.
    pub fn new<K: Kind>(object: K) -> Self {
        AnyObject::from(Arc::new(object))
    }

    /// The API version and the JSON from which it was read: [`KindRef::reader`] reads an equal object from them. Only
    /// objects of kinds that plugins bring have this, because nothing else can write them. `None` also for an object that
    /// was not read but made.
    pub fn manifest(&self) -> Option<(&'static str, &str)> {
        self.manifest.as_deref().map(|(version, json)| (*version, json.as_str()))
    }

    fn with_manifest(self, manifest: Manifest<'_>) -> Self {
        let manifest = Some(Arc::new((manifest.api_version(), manifest.json())));
        AnyObject { manifest, ..self }
    }

    /// Its kind.
    pub fn kind(&self) -> KindRef {
        self.object.kind()
    }

    /// Its namespace and name.
    pub fn key(&self) -> ObjectKey {
        self.object.key()
    }

    /// The object, if it is of kind `K`.
    pub fn get<K: Kind>(&self) -> Option<&K> {
        let any: &dyn Any = &*self.object;
        any.downcast_ref()
    }

    /// The object, shared, if it is of kind `K`.
    pub fn shared<K: Kind>(&self) -> Option<Arc<K>> {
        let any: Arc<dyn Any + Send + Sync> = self.object.clone();
        any.downcast().ok()
    }
}

impl<K: Kind> From<K> for AnyObject {
    fn from(object: K) -> Self {
        AnyObject::new(object)
    }
}

impl<K: Kind> From<Arc<K>> for AnyObject {
    fn from(object: Arc<K>) -> Self {
        AnyObject { object, manifest: None }
    }
}

impl PartialEq for AnyObject {
    fn eq(&self, other: &Self) -> bool {
        // Most are compared with themselves.
        ptr::addr_eq(Arc::as_ptr(&self.object), Arc::as_ptr(&other.object))
            || self.object.equals(&*other.object)
    }
}

impl Eq for AnyObject {}

impl fmt::Debug for AnyObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}

/// The kinds of Kubernetes that scheduling reads.
const BUILT_IN: [KindRef; 21] = [
    KindRef::of::<Pod>(),
    KindRef::of::<Node>(),
    KindRef::of::<Namespace>(),
    KindRef::of::<Service>(),
    KindRef::of::<ReplicationController>(),
    KindRef::of::<ReplicaSet>(),
    KindRef::of::<StatefulSet>(),
    KindRef::of::<PersistentVolume>(),
    KindRef::of::<PersistentVolumeClaim>(),
    KindRef::of::<StorageClass>(),
    KindRef::of::<CsiNode>(),
    KindRef::of::<CsiDriver>(),
    KindRef::of::<CsiStorageCapacity>(),
    KindRef::of::<VolumeAttachment>(),
    KindRef::of::<PodDisruptionBudget>(),
    KindRef::of::<ResourceClaim>(),
    KindRef::of::<ResourceSlice>(),
    KindRef::of::<DeviceClass>(),
    KindRef::of::<DeviceTaintRule>(),
    KindRef::of::<PodGroup>(),
    KindRef::of::<CompositePodGroup>(),
];

/// The kinds that are read: those of Kubernetes, and those that plugins add.
#[derive(Clone, Debug)]
pub struct Kinds(Vec<KindRef>);

impl Kinds {
    /// The kinds of Kubernetes.
    pub fn built_in() -> Self {
        Kinds(BUILT_IN.to_vec())
    }

    /// The same kinds and `kind`.
    #[must_use]
    pub fn with(mut self, kind: KindRef) -> Self {
        self.add(kind);
        self
    }

    /// Adds a kind, if it is not there yet.
    ///
    /// # Panics
    /// If it has no version, or if another kind has the same name and version.
    pub fn add(&mut self, kind: KindRef) {
        if self.0.contains(&kind) {
            return;
        }
        assert!(!kind.versions().is_empty(), "kind {kind} has no version");
        for version in kind.versions() {
            let known = self.find(version, kind.as_str());
            assert!(known.is_none(), "there are two kinds named {version} {kind}");
        }
        self.0.push(kind);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = KindRef> {
        self.0.iter().copied()
    }

    /// The kind named `kind` that has `api_version`, with that version.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<(KindRef, &'static str)> {
        self.0.iter().filter(|known| known.as_str() == kind).find_map(|&known| {
            let version = known.versions().iter().find(|version| **version == api_version)?;
            Some((known, *version))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_returned_only_as_its_own_kind() {
        let object =
            AnyObject::from(StorageClass { name: "fast".into(), ..StorageClass::default() });
        assert_eq!(object.kind(), KindRef::of::<StorageClass>());
        assert_eq!(object.key(), ObjectKey::new("", "fast"));
        assert!(object.get::<StorageClass>().is_some_and(|class| class.name == "fast"));
        assert!(object.get::<CsiNode>().is_none() && object.shared::<CsiNode>().is_none());
        assert_eq!(object, object.clone());
        assert_ne!(object, StorageClass::default().into());
        assert_ne!(AnyObject::from(CsiNode::default()), CsiDriver::default().into());
    }

    #[test]
    fn all_versions_of_a_kind_are_of_one_group() {
        for kind in Kinds::built_in().iter() {
            for version in kind.versions() {
                let group = version.split_once('/').map_or("", |(group, _)| group);
                assert_eq!(group, kind.group(), "{kind}");
            }
        }
        assert_eq!(KindRef::of::<Node>().group(), "");
        assert_eq!(KindRef::of::<CsiNode>().group(), "storage.k8s.io");
    }

    #[derive(Debug, PartialEq)]
    struct OtherPod;
    impl Kind for OtherPod {
        const NAME: &'static str = "Pod";
        const PLURAL: &'static str = "pods";
        const VERSIONS: &'static [&'static str] = &["v1"];
        fn read(_: Manifest<'_>) -> Result<Self, WireError> {
            Ok(OtherPod)
        }
        fn key(&self) -> ObjectKey {
            ObjectKey::default()
        }
    }

    #[test]
    #[should_panic(expected = "there are two kinds named v1 Pod")]
    fn two_kinds_with_one_name_and_version_are_rejected() {
        let _ = Kinds::built_in().with(KindRef::of::<OtherPod>());
    }
}
