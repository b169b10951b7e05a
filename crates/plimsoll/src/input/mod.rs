//! Reads the given files into the cluster that they describe.

mod fault;
mod ignored;
mod manifests;
mod objects;
mod release;
mod selectors;
mod shapes;
mod source;
mod workloads;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use anyhow::bail;
use plimsoll_api::wire::Object;
use plimsoll_api::{
    AnyObject, KindRef, Kinds, Node, ObjectKey, Pod, ResourceClaimTemplate, Str, Templates,
};
use plimsoll_document::{Document, FieldPath};
use plimsoll_framework::FeatureGates;
use plimsoll_sim::InitialCluster;
use serde_json::Value;

use self::fault::Fault;
use self::ignored::Ignored;
pub(crate) use self::manifests::Manifests;
pub(crate) use self::release::deciding as deciding_release;
use self::selectors::Selectors;
pub(crate) use self::shapes::{Described, DescribedPod};
pub(crate) use self::source::{STDIN, Source, read_all as read};
use self::workloads::Workload;
pub(crate) use self::workloads::{read_pod, workload};
use crate::faults::{Faults, MAX_SHOWN};
use crate::notices;
use crate::snapshot::Reduction;

/// The scheduler does not read these, but from them a controller makes the claims of pods.
const CLAIM_TEMPLATE: KindRef = KindRef::of::<ResourceClaimTemplate>();

/// The ConfigMap called `key` in the first of `sources` that has it: the document and its field. `named_by` is the flag
/// or field with its namespace.
///
/// The error suggests a ConfigMap of the same name in another namespace.
pub(crate) fn config_map(
    sources: &[Source],
    key: &ObjectKey,
    named_by: &str,
) -> anyhow::Result<(Document, FieldPath)> {
    let mut others = Vec::new();
    let kinds = Kinds::built_in();
    for source in sources {
        // Errors in a file are reported when the cluster is read.
        for document in objects::documents(source).unwrap_or_default() {
            for (at, name) in objects::names(&document, &kinds) {
                if name == format!("ConfigMap {key}") {
                    return Ok((document, at));
                }
                if name.starts_with("ConfigMap ") && name.ends_with(&format!("/{}", key.name)) {
                    others.push(name);
                }
            }
        }
    }
    let offer = match others.as_slice() {
        [] => "add its manifest".to_owned(),
        [other, ..] => format!("there is {other}, which {named_by} can choose"),
    };
    bail!("couldn't get policy config map {key}: it is not in the files; {offer}")
}

/// Reads the cluster that `sources` describe, and warns of objects without effect. The ConfigMap `policy` has an
/// effect. Without their gate, groups of pods share no claims.
///
/// The error lists everything that is wrong with the files.
pub(crate) fn load(
    sources: &[Source],
    policy: Option<&ObjectKey>,
    kinds: &Kinds,
    gates: &FeatureGates,
) -> anyhow::Result<InitialCluster> {
    let kinds = &kinds.clone().with(CLAIM_TEMPLATE);
    let mut cluster = Gathering::new(sources, policy, kinds);
    for (index, source) in sources.iter().enumerate() {
        match objects::read(source, kinds) {
            Ok(objects) => cluster.add_all(index, objects),
            Err(faults) => cluster.faults.extend(faults),
        }
    }
    let Gathering { faults, ignored, selectors, mut cluster, .. } = cluster;
    if !faults.is_empty() {
        return Err(Faults::from(faults).into());
    }
    ignored.warnings().for_each(notices::warning);
    selectors.warnings().for_each(notices::warning);
    if !["GenericWorkload", "DRAWorkloadResourceClaims"]
        .iter()
        .all(|gate| gates.enabled(gate, false))
    {
        cluster.drop_group_claims();
    }
    Ok(cluster.settled())
}

/// What is to be applied.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// The objects that decisions depend on.
    pub(crate) objects: Vec<Object>,
    /// The workloads, with their pods.
    pub(crate) workloads: Vec<Workload>,
}

/// Reads what `sources` ask for, and warns of objects without effect.
///
/// The error lists everything that is wrong with the files.
pub(crate) fn applied(sources: &[Source], kinds: &Kinds) -> anyhow::Result<Applied> {
    let (mut applied, mut ignored, mut faults) =
        (Applied::default(), Ignored::default(), Vec::new());
    for source in sources {
        match objects::read(source, kinds) {
            Ok(objects) => applied.objects.extend(objects),
            Err(more) => faults.extend(more),
        }
        for document in objects::documents(source).unwrap_or_default() {
            for (at, name) in objects::names(&document, kinds) {
                match document.get(&at).and_then(workloads::workload) {
                    Some(Ok(workload)) => applied.workloads.push(workload),
                    Some(Err(why)) => {
                        faults.push(Fault::of_field(
                            &source.name,
                            document.line_of(&at),
                            name,
                            &why,
                        ));
                    }
                    None => {}
                }
            }
        }
    }
    if !faults.is_empty() {
        return Err(Faults::from(faults).into());
    }
    for object in &applied.objects {
        if let Object::Unknown { kind, api_version, .. } = object
            && !workloads::KINDS.contains(&&**kind)
        {
            let name = &sources[0].name;
            ignored.add(name, kind.clone(), api_version.clone());
        }
    }
    ignored.warnings().for_each(notices::warning);
    Ok(applied)
}

/// All objects of files, as they are written there; those of lists one by one.
pub(crate) fn all_manifests(sources: &[Source]) -> anyhow::Result<Vec<Value>> {
    let mut manifests = Vec::new();
    for source in sources {
        let documents = objects::documents(source).map_err(|fault| Faults::from(vec![fault]))?;
        for document in documents {
            objects::collect_manifests(document.value, &mut manifests);
        }
    }
    Ok(manifests)
}

/// The manifests of all objects of these kinds with only what decisions need, and the kinds of the other objects, one for
/// each object.
///
/// The error lists everything that is wrong with the files.
pub(crate) fn reduced(
    sources: &[Source],
    kinds: &Kinds,
    reduction: &Reduction,
) -> anyhow::Result<(Vec<Value>, Vec<String>)> {
    let (mut manifests, mut left_out, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for source in sources {
        let documents = match objects::documents(source) {
            Ok(documents) => documents,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        for document in &documents {
            for (at, manifest) in objects::typed_manifests(document) {
                let text = |field: &str| manifest[field].as_str().unwrap_or_default();
                let Some((kind, api_version)) = kinds.find(text("apiVersion"), text("kind")) else {
                    match kinds.object(&manifest) {
                        Ok(_) => left_out.push(text("kind").to_owned()),
                        Err(error) => faults.push(objects::fault_at(document, &at, &error, kinds)),
                    }
                    continue;
                };
                let reader = kind.reader(api_version).expect("the version is one of the kind");
                match reduction.of(reader, &manifest) {
                    Ok(reduced) => manifests.push(reduced),
                    Err(error) => faults.push(objects::fault_at(document, &at, &error, kinds)),
                }
            }
        }
    }
    if faults.is_empty() { Ok((manifests, left_out)) } else { Err(Faults::from(faults).into()) }
}

/// The manifests of the objects whose kind and name are wanted, by them.
pub(crate) fn manifests_named(
    sources: &[Source],
    kinds: &Kinds,
    is_wanted: impl Fn(&str) -> bool,
) -> BTreeMap<String, Value> {
    let mut manifests = BTreeMap::new();
    for source in sources {
        for document in objects::documents(source).unwrap_or_default() {
            for (at, name) in objects::names(&document, kinds) {
                if is_wanted(&name)
                    && manifests::is_of_kubernetes(&document, &at, &name)
                    && let Some(manifest) = document.get(&at)
                {
                    let typed = || manifests::typed(&document, &name, manifest.clone());
                    manifests.entry(name.clone()).or_insert_with(typed);
                }
            }
        }
    }
    manifests
}

/// Kind and name, which no two objects share. Two API groups may have kinds of one name.
type Identity = (KindRef, ObjectKey);

/// A cluster under construction.
struct Gathering<'a> {
    sources: &'a [Source],
    kinds: &'a Kinds,
    built_in: Vec<KindRef>,
    /// The ConfigMap with the Policy.
    policy: Option<&'a ObjectKey>,
    cluster: InitialCluster,
    templates: Templates,
    /// The index of the source of each object.
    places: BTreeMap<Identity, usize>,
    ignored: Ignored,
    selectors: Selectors,
    faults: Vec<Fault>,
    /// The sources that were parsed again to find the lines of objects.
    looked_into: BTreeMap<usize, Vec<Document>>,
    /// The manifests in the sources that contain objects of kinds added by plugins, by kind and name. There are several of
    /// one name if two API groups have the kind.
    manifests: BTreeMap<usize, BTreeMap<String, Vec<Value>>>,
}

impl<'a> Gathering<'a> {
    fn new(sources: &'a [Source], policy: Option<&'a ObjectKey>, kinds: &'a Kinds) -> Self {
        Gathering {
            sources,
            kinds,
            built_in: Kinds::built_in().with(CLAIM_TEMPLATE).iter().collect(),
            policy,
            cluster: InitialCluster::default(),
            templates: Templates::default(),
            places: BTreeMap::new(),
            ignored: Ignored::default(),
            selectors: Selectors::default(),
            faults: Vec::new(),
            looked_into: BTreeMap::new(),
            manifests: BTreeMap::new(),
        }
    }

    fn add_all(&mut self, source: usize, objects: Vec<Object>) {
        if objects.is_empty() {
            let name = &self.sources[source].name;
            notices::warning(format_args!("{name}: holds no objects"));
        }
        for object in objects {
            self.add(source, object);
        }
    }

    fn add(&mut self, source: usize, object: Object) {
        if let Some(identity) = identity(&object) {
            match self.places.entry(identity) {
                Entry::Vacant(place) => {
                    place.insert(source);
                }
                Entry::Occupied(place) => {
                    let (identity, first) = (place.key().clone(), *place.get());
                    let fault = self.repeated(&identity, first, source);
                    self.faults.push(fault);
                    return;
                }
            }
        }
        match object {
            Object::Pod(mut pod) => {
                self.templates.share(&mut pod);
                self.cluster.pods.push(*pod);
            }
            Object::Node(node) => self.cluster.nodes.push(*node),
            Object::Other(object) => {
                self.selectors.add(&self.sources[source].name, &object);
                if !self.built_in.contains(&object.kind()) {
                    self.keep_manifest(source, &object);
                }
                self.cluster.objects.push(object);
            }
            Object::Unknown { kind, key, .. }
                if &*kind == "ConfigMap" && self.policy == Some(&key) => {}
            Object::Unknown { kind, api_version, .. } => {
                self.ignored.add(&self.sources[source].name, kind, api_version);
            }
        }
    }

    /// Keeps the manifest of an object of a kind added by a plugin: the plugin may change it, and reads only a part of
    /// it.
    fn keep_manifest(&mut self, source: usize, object: &AnyObject) {
        let (kind, key) = (object.kind(), object.key());
        if !self.manifests.contains_key(&source) {
            let kinds = self.kinds;
            let manifests = self.documents(source).iter().flat_map(|document| {
                let named = objects::names(document, kinds).into_iter();
                named.filter_map(|(at, name)| Some((name, document.get(&at)?.clone())))
            });
            let mut by_name = BTreeMap::<String, Vec<Value>>::new();
            manifests.for_each(|(name, manifest)| by_name.entry(name).or_default().push(manifest));
            self.manifests.insert(source, by_name);
        }
        // An item of a list need not say its version.
        let is_of_kind = |manifest: &&Value| {
            let version = manifest.get("apiVersion").and_then(Value::as_str);
            version.is_none_or(|version| kind.versions().contains(&version))
        };
        let named = self.manifests[&source].get(&format!("{kind} {key}"));
        if let Some(manifest) = named.and_then(|all| all.iter().find(is_of_kind)) {
            self.cluster.manifests.push((kind, key, manifest.clone()));
        }
    }

    fn documents(&mut self, source: usize) -> &[Document] {
        self.looked_into
            .entry(source)
            .or_insert_with(|| objects::documents(&self.sources[source]).unwrap_or_default())
    }

    /// The fault that an object of source `first` occurs again in source `second`.
    fn repeated(&mut self, (kind, key): &Identity, first: usize, second: usize) -> Fault {
        let name = format!("{kind} {key}");
        let source_name = self.sources[second].name.clone();
        if MAX_SHOWN <= self.faults.len() {
            // This fault will not be shown, so its line in a large file is not worth looking for.
            let message = "is already defined".to_owned();
            return Fault { source_name, line: None, object: Some(name), field: None, message };
        }
        let is_told = |fault: &&Fault| {
            fault.source_name == source_name && fault.object.as_ref() == Some(&name)
        };
        let before = self.faults.iter().filter(is_told).count() + usize::from(first == second);
        let line = self.line_of(second, &name, before);
        let first_place = match self.line_of(first, &name, 0) {
            Some(line) => format!("{}:{line}", self.sources[first].name),
            None => self.sources[first].name.clone(),
        };
        let message = format!("is already defined at {first_place}: remove or rename one of them");
        Fault { source_name, line, object: Some(name), field: None, message }
    }

    fn line_of(&mut self, source: usize, name: &str, before: usize) -> Option<usize> {
        let kinds = self.kinds;
        objects::line_of(self.documents(source), name, before, kinds)
    }
}

/// The identity of an object; none for an object that is ignored anyway.
fn identity(object: &Object) -> Option<Identity> {
    let cluster_wide = |name: &Str| ObjectKey::new("", name.clone());
    Some(match object {
        Object::Pod(pod) => (KindRef::of::<Pod>(), pod.key.clone()),
        Object::Node(node) => (KindRef::of::<Node>(), cluster_wide(&node.name)),
        Object::Other(object) => (object.kind(), object.key()),
        Object::Unknown { .. } => return None,
    })
}
