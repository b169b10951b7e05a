//! Volumes: another claim, a smaller one, and the storage behind them.

use plimsoll_api::storage::NO_PROVISIONER;
use plimsoll_api::{
    BindingMode, CsiNode, CsiStorageCapacity, ObjectKey, PersistentVolume, PersistentVolumeClaim,
    Pod, Quantity, StorageClass, Str, VolumePhase,
};
use plimsoll_framework::{Row, View};
use serde_json::{Value, json};

use super::{Field, Relaxation, Steps, list};
use crate::change::Reference;
use crate::draft::{Draft, Make, Manifests, Step};
use crate::remedy::{RemedyKind, size};

/// At most so many other claims, classes and pools are tried for one volume.
const MOST: usize = 4;
/// At most so many nodes get a volume or a larger limit, those first that miss by least.
const MOST_NODES: usize = 3;
/// A limit of a driver is raised by no more than this.
const MOST_MORE: i32 = 4;
const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const CLAIM: &str = "PersistentVolumeClaim";
/// Volumes of these kinds are no storage of their own.
const LOCAL: [&str; 6] =
    ["emptyDir", "configMap", "secret", "projected", "downwardAPI", "hostPath"];

/// The volumes of a pod that may keep it from nodes, by their places in the manifest.
pub(crate) fn storage_of(manifest: &Value) -> Vec<usize> {
    let is_storage = |volume: &Value| {
        let mut keys = volume.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        keys.any(|key| key != "name" && !LOCAL.contains(&key))
    };
    let volumes = list(manifest, "/spec/volumes").iter().enumerate();
    volumes.filter(|(_, volume)| is_storage(volume)).map(|(at, _)| at).collect()
}

/// An empty directory in place of a volume.
pub(crate) fn emptied(manifest: &Value, at: usize) -> Relaxation {
    let volume = &manifest["spec"]["volumes"][at];
    let name = volume["name"].as_str().unwrap_or_default();
    let what = match claim_name(manifest, at) {
        Some(claim) => format!("claim {claim}"),
        None => format!("volume {name}"),
    };
    Relaxation::Steps(Steps {
        text: format!("mount an empty directory in place of the {what} (emptyDir)"),
        size: size::NO_VOLUME,
        kind: RemedyKind::Pod,
        field: Field::Volumes,
        all: vec![set_volume(at, json!({"name": name, "emptyDir": {}}))],
    })
}

/// The claim of a volume, whether it is named or made for the pod.
pub(crate) fn claim_name(manifest: &Value, at: usize) -> Option<String> {
    let volume = &manifest["spec"]["volumes"][at];
    if volume["ephemeral"].is_object() {
        let (pod, name) = (manifest["metadata"]["name"].as_str()?, volume["name"].as_str()?);
        return Some(format!("{pod}-{name}"));
    }
    volume["persistentVolumeClaim"]["claimName"].as_str().map(ToOwned::to_owned)
}

fn set_volume(at: usize, volume: Value) -> Step {
    Step { of: None, what: Make::Set(format!("/spec/volumes/{at}"), volume) }
}

/// What is known while changes for a volume are collected.
pub(crate) struct Storage<'a> {
    pub(crate) pod: &'a Pod,
    /// Claims that are not mounted instead: those that it mounts already, and those of the other pods of its group.
    pub(crate) taken: &'a [Str],
    pub(crate) view: View<'a>,
    pub(crate) manifests: Manifests<'a>,
    /// The nodes that miss by least.
    pub(crate) near: &'a [Row],
}

impl Storage<'_> {
    /// What could be done about a volume that keeps the pod from nodes. Objects that would be changed are added to `base`.
    pub(crate) fn changes(&self, base: &mut Draft, at: usize) -> Vec<Relaxation> {
        let mut all = self.larger_limits(base);
        let Some(name) = claim_name(&base.pod, at) else { return all };
        let is_named = base.pod["spec"]["volumes"][at]["persistentVolumeClaim"].is_object();
        let key = ObjectKey::new(self.pod.key.namespace.clone(), name.as_str());
        let claims = self.view.stores.of::<PersistentVolumeClaim>();
        let claim = claims.get(&key);
        if is_named {
            all.extend(self.other_claims(&key, at));
            all.extend(self.new_claims(&key, claim.map(|claim| &**claim), at));
        }
        let Some(claim) = claim.filter(|claim| claim.volume.is_none()) else { return all };
        let reference = Reference::of(CLAIM, &key);
        if self.load(base, &reference) {
            all.extend(self.other_classes(claim, &reference));
            all.extend(self.less_storage(claim, &reference));
        }
        let classes = self.view.stores.of::<StorageClass>();
        match classes.get(&ObjectKey::new("", claim.class.clone())) {
            None => all.extend(self.missing_class(claim)),
            Some(class) => {
                all.extend(self.more_capacity(base, claim));
                if class.provisioner == NO_PROVISIONER
                    || class.binding_mode == BindingMode::Immediate
                {
                    all.extend(self.new_volumes(claim, class));
                }
            }
        }
        all
    }

    /// Whether the manifest of an object is known. It is then in `base`.
    fn load(&self, base: &mut Draft, object: &Reference) -> bool {
        if base.objects.contains_key(object) {
            return true;
        }
        let found = self.manifests.find(object);
        found.map(|manifest| base.objects.insert(object.clone(), manifest)).is_some()
    }

    /// Other claims of the namespace that could be mounted.
    fn other_claims(&self, key: &ObjectKey, at: usize) -> Vec<Relaxation> {
        let claims = self.view.stores.of::<PersistentVolumeClaim>();
        let is_free = |claim: &PersistentVolumeClaim| {
            !self.taken.contains(&claim.key.name)
                && !claim.is_terminating()
                && claim.controller.is_none()
        };
        let others = claims.in_namespace(&key.namespace).filter(|(_, claim)| is_free(claim));
        let field = format!("/spec/volumes/{at}/persistentVolumeClaim/claimName");
        let mount = |name: &str| Steps {
            text: format!("mount the claim {name} instead of {}", key.name),
            size: size::OTHER_CLAIM,
            kind: RemedyKind::Pod,
            field: Field::Volumes,
            all: vec![Step { of: None, what: Make::Set(field.clone(), json!(name)) }],
        };
        others.take(MOST).map(|(name, _)| Relaxation::Steps(mount(name))).collect()
    }

    /// A new claim of the same name if there is none, or beside the one that there is.
    fn new_claims(
        &self,
        key: &ObjectKey,
        like: Option<&PersistentVolumeClaim>,
        at: usize,
    ) -> Vec<Relaxation> {
        let taken = self.view.stores.of::<PersistentVolumeClaim>();
        let name = match like {
            None => key.name.to_string(),
            Some(_) => format!("{}-new", key.name),
        };
        let new = ObjectKey::new(key.namespace.clone(), name.as_str());
        if taken.get(&new).is_some() {
            return Vec::new();
        }
        let storage = like.map_or_else(|| "1Gi".to_owned(), |claim| claim.requested.canonical());
        let modes = like.map_or_else(Vec::new, |claim| {
            claim.access_modes.iter_names().map(|(name, _)| mode_name(name)).collect()
        });
        let modes = if modes.is_empty() { vec!["ReadWriteOnce"] } else { modes };
        let mut all = Vec::new();
        for class in self.waiting_classes(like.map(|claim| claim.class.as_str())) {
            let create = json!({
                "apiVersion": "v1", "kind": CLAIM,
                "metadata": {"name": name, "namespace": key.namespace},
                "spec": {
                    "accessModes": modes, "storageClassName": class.name,
                    "resources": {"requests": {"storage": storage}},
                },
            });
            let mut steps =
                vec![Step { of: Some(Reference::of(CLAIM, &new)), what: Make::Is(create) }];
            let (text, size) = if like.is_none() {
                let text = format!(
                    "create the claim {} (here with {storage} of the class {})",
                    key.name, class.name
                );
                (text, size::NEW_CLAIM)
            } else {
                let field = format!("/spec/volumes/{at}/persistentVolumeClaim/claimName");
                steps.push(Step { of: None, what: Make::Set(field, json!(name)) });
                let text = format!(
                    "mount a new, empty claim of the class {} instead of {}",
                    class.name, key.name
                );
                (text, size::EMPTY_CLAIM)
            };
            let (kind, field) = (RemedyKind::Pod, Field::Volumes);
            all.push(Relaxation::Steps(Steps { text, size, kind, field, all: steps }));
        }
        all
    }

    /// The classes whose claims wait for a pod: `first`, then the default, then by name.
    fn waiting_classes(&self, first: Option<&str>) -> Vec<&StorageClass> {
        let classes = self.view.stores.of::<StorageClass>().iter();
        let waits = |class: &&StorageClass| class.binding_mode == BindingMode::WaitForFirstConsumer;
        let mut classes: Vec<&StorageClass> = classes.map(|class| &**class).filter(waits).collect();
        classes.sort_by_key(|class| (Some(class.name.as_str()) != first, !class.is_default));
        classes.truncate(MOST);
        classes
    }

    /// Another class for a claim that is not bound.
    fn other_classes(&self, claim: &PersistentVolumeClaim, of: &Reference) -> Vec<Relaxation> {
        let classes = self.waiting_classes(None).into_iter();
        let others = classes.filter(|class| class.name != claim.class);
        let field = "/spec/storageClassName".to_owned();
        let other = |class: &StorageClass| Steps {
            text: format!("give the claim {} the class {}", claim.key.name, class.name),
            size: size::OTHER_CLASS,
            kind: RemedyKind::Pod,
            field: Field::Volumes,
            all: vec![Step {
                of: Some(of.clone()),
                what: Make::Set(field.clone(), json!(class.name)),
            }],
        };
        others.map(|class| Relaxation::Steps(other(class))).collect()
    }

    /// Less storage: as much as a pool can make, or as an available volume has.
    fn less_storage(&self, claim: &PersistentVolumeClaim, of: &Reference) -> Option<Relaxation> {
        let stores = self.view.stores;
        let pools = stores.of::<CsiStorageCapacity>().iter();
        let of_pools =
            pools.filter(|pool| pool.class == claim.class).filter_map(|pool| pool.limit().cloned());
        let volumes = stores.of::<PersistentVolume>().iter();
        let is_free = |volume: &&std::sync::Arc<PersistentVolume>| {
            volume.class == claim.class
                && volume.claim.is_none()
                && volume.phase == VolumePhase::Available
        };
        let of_volumes = volumes.filter(is_free).map(|volume| volume.capacity.clone());
        let is_less = |amount: &Quantity| !amount.is_zero() && *amount < claim.requested;
        let mut amounts: Vec<Quantity> = of_pools.chain(of_volumes).filter(is_less).collect();
        amounts.sort_by(|a, b| b.cmp(a));
        amounts.dedup();
        let (before, asked) = (claim.requested.canonical(), claim.requested.value().max(1));
        let grades = amounts.into_iter().map(|amount| {
            let part = i128::from(asked - amount.value()) * i128::from(size::WHOLE_REQUEST);
            let part = u32::try_from(part / i128::from(asked)).unwrap_or(size::WHOLE_REQUEST);
            let after = amount.canonical();
            let field = "/spec/resources/requests/storage".to_owned();
            Steps {
                text: format!(
                    "let the claim {} request {after} instead of {before}",
                    claim.key.name
                ),
                size: size::REQUEST + part,
                kind: RemedyKind::Pod,
                field: Field::Volumes,
                all: vec![Step { of: Some(of.clone()), what: Make::Set(field, json!(after)) }],
            }
        });
        let grades: Vec<Steps> = grades.collect();
        (!grades.is_empty()).then_some(Relaxation::Graded(grades))
    }

    /// A class of the name that the claim gives, like one that there is.
    fn missing_class(&self, claim: &PersistentVolumeClaim) -> Vec<Relaxation> {
        if claim.class.is_empty() {
            return Vec::new();
        }
        let name = Reference::of("StorageClass", &ObjectKey::new("", claim.class.clone()));
        let like = |class: &StorageClass| {
            let of = Reference::of("StorageClass", &ObjectKey::new("", class.name.clone()));
            let create = json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                "metadata": {"name": claim.class},
                "provisioner": class.provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            });
            // What drivers read of a class is known only to its manifest.
            let mut create = self.manifests.look(&of).unwrap_or(create);
            create["metadata"] = json!({"name": claim.class});
            Relaxation::Steps(Steps {
                text: format!("create the class {} like {}", claim.class, class.name),
                size: size::NEW_CLASS,
                kind: RemedyKind::Cluster,
                field: Field::Volumes,
                all: vec![Step { of: Some(name.clone()), what: Make::Is(create) }],
            })
        };
        self.waiting_classes(None).into_iter().map(like).collect()
    }

    /// A pool that can make the volume.
    fn more_capacity(&self, base: &mut Draft, claim: &PersistentVolumeClaim) -> Vec<Relaxation> {
        let pools = self.view.stores.of::<CsiStorageCapacity>().iter();
        let is_small = |pool: &&std::sync::Arc<CsiStorageCapacity>| {
            pool.class == claim.class && pool.limit().is_some_and(|limit| *limit < claim.requested)
        };
        let mut pools: Vec<_> = pools.filter(is_small).collect();
        pools.sort_by(|a, b| b.limit().cmp(&a.limit()));
        let wanted = claim.requested.canonical();
        let mut all = Vec::new();
        for pool in pools.into_iter().take(MOST) {
            let of = Reference::of("CSIStorageCapacity", &pool.key);
            if !self.load(base, &of) {
                continue;
            }
            let fields = [
                ("/capacity", pool.capacity.as_ref()),
                ("/maximumVolumeSize", pool.maximum_volume_size.as_ref()),
            ];
            let small =
                fields.into_iter().filter(|(_, is)| is.is_some_and(|is| *is < claim.requested));
            let steps = small.map(|(field, _)| Step {
                of: Some(of.clone()),
                what: Make::Set(field.to_owned(), json!(wanted)),
            });
            let before = pool.limit().map_or_else(String::new, Quantity::canonical);
            all.push(Relaxation::Steps(Steps {
                text: format!(
                    "make room for {wanted} in the storage pool {} of the class {} instead of {before}",
                    pool.key, pool.class
                ),
                size: size::STORAGE,
                kind: RemedyKind::Cluster,
                field: Field::Volumes,
                all: steps.collect(),
            }));
        }
        all
    }

    /// A volume that a claim without provisioning gets: on one of the nodes that miss by least, or for the claim alone.
    fn new_volumes(&self, claim: &PersistentVolumeClaim, class: &StorageClass) -> Vec<Relaxation> {
        let nodes = self.view.nodes;
        let storage = claim.requested.canonical();
        let modes = claim.access_modes.iter_names().map(|(name, _)| mode_name(name));
        let modes: Vec<_> = modes.collect();
        let volume = |name: &str, text: String, node: Option<&str>| {
            let mut spec = json!({
                "capacity": {"storage": storage}, "accessModes": modes,
                "storageClassName": claim.class, "local": {"path": format!("/mnt/{name}")},
            });
            if let Some(node) = node {
                spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{
                    "matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}],
                }]}});
            } else {
                let (namespace, name) = (&claim.key.namespace, &claim.key.name);
                spec["claimRef"] = json!({"namespace": namespace, "name": name});
            }
            let create = json!({
                "apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": {"name": name}, "spec": spec,
            });
            let of = Reference::of("PersistentVolume", &ObjectKey::new("", name));
            Relaxation::Steps(Steps {
                text,
                size: size::STORAGE,
                kind: RemedyKind::Cluster,
                field: Field::Volumes,
                all: vec![Step { of: Some(of), what: Make::Is(create) }],
            })
        };
        if class.binding_mode == BindingMode::Immediate {
            let name = format!("{}-{}", claim.key.namespace, claim.key.name);
            let text = format!("add a volume of {storage} for the claim {}", claim.key.name);
            return vec![volume(&name, text, None)];
        }
        let near = self.near.iter().take(MOST_NODES).map(|row| nodes.node(*row));
        let labelled = near.filter_map(|node| Some((node, node.labels.get(HOSTNAME)?)));
        let on = labelled.map(|(node, hostname)| {
            let name = format!("{}-{}", claim.key.name, node.name);
            let text =
                format!("add a volume of {storage} of the class {} on {}", claim.class, node.name);
            volume(&name, text, Some(hostname))
        });
        on.collect()
    }

    /// Larger limits of the drivers on the nodes that miss by least.
    fn larger_limits(&self, base: &mut Draft) -> Vec<Relaxation> {
        let stores = self.view.stores.of::<CsiNode>();
        let mut all = Vec::new();
        for row in self.near.iter().take(MOST_NODES) {
            let node = self.view.nodes.name_of(*row);
            let Some(limits) = stores.get(&ObjectKey::new("", node.clone())) else { continue };
            let of = Reference::of("CSINode", &ObjectKey::new("", node.clone()));
            if !limits.drivers.iter().any(|driver| driver.limit.is_some()) || !self.load(base, &of)
            {
                continue;
            }
            let drivers = list(&base.objects[&of], "/spec/drivers").to_vec();
            for (at, driver) in drivers.iter().enumerate() {
                let name = driver["name"].as_str().unwrap_or_default();
                let Some(limit) = limits.driver(name).and_then(|driver| driver.limit) else {
                    continue;
                };
                let field = format!("/spec/drivers/{at}/allocatable/count");
                let grades = (1..=MOST_MORE).map(|more| Steps {
                    text: format!(
                        "let {node} attach {} volumes of {name} instead of {limit}",
                        limit.saturating_add(more)
                    ),
                    size: size::ATTACH_LIMIT,
                    kind: RemedyKind::Cluster,
                    field: Field::Volumes,
                    all: vec![Step {
                        of: Some(of.clone()),
                        what: Make::Set(field.clone(), json!(limit.saturating_add(more))),
                    }],
                });
                let more = Relaxation::Graded(grades.collect());
                if !all.contains(&more) {
                    all.push(more);
                }
            }
        }
        all
    }
}

/// The name of an access mode on the wire.
pub(crate) fn mode_name(flag: &str) -> &'static str {
    match flag {
        "READ_ONLY_MANY" => "ReadOnlyMany",
        "READ_WRITE_MANY" => "ReadWriteMany",
        "READ_WRITE_ONCE_POD" => "ReadWriteOncePod",
        _ => "ReadWriteOnce",
    }
}
