//! Finds the manifests of objects in files.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use plimsoll_api::Kinds;
use plimsoll_document::{Document, FieldPath};
use serde_json::Value;

use super::{CLAIM_TEMPLATE, Source, objects};

/// The manifests of files. They are parsed when the first one is asked for.
pub(crate) struct Manifests<'a> {
    sources: &'a [Source],
    kinds: Kinds,
    index: OnceCell<Index>,
}

/// The documents, and where each object is: the document and the field.
struct Index {
    documents: Vec<Document>,
    places: BTreeMap<String, (usize, FieldPath)>,
}

impl<'a> Manifests<'a> {
    /// Those of `sources`.
    pub(crate) fn of(sources: &'a [Source], kinds: &Kinds) -> Self {
        let kinds = kinds.clone().with(CLAIM_TEMPLATE);
        Manifests { sources, kinds, index: OnceCell::new() }
    }

    /// The manifest of the object with kind and name `name`, such as `Pod default/web-0`, in the first file that has it.
    pub(crate) fn find(&self, name: &str) -> Option<Value> {
        let Index { documents, places } = self.index.get_or_init(|| self.parse());
        let (document, at) = places.get(name)?;
        let document = &documents[*document];
        Some(typed(document, name, document.get(at)?.clone()))
    }

    fn parse(&self) -> Index {
        // Errors in a file are reported when the cluster is read.
        let parsed = self.sources.iter().filter_map(|source| objects::documents(source).ok());
        let documents: Vec<Document> = parsed.flatten().collect();
        let mut places = BTreeMap::new();
        for (index, document) in documents.iter().enumerate() {
            for (at, name) in objects::names(document, &self.kinds) {
                if is_of_kubernetes(document, &at, &name) {
                    places.entry(name).or_insert((index, at));
                }
            }
        }
        Index { documents, places }
    }
}

/// Whether an object is not of a kind that shares its name with one of Kubernetes, but is of another API group: there are
/// PodGroups of `scheduling.k8s.io` and of `scheduling.x-k8s.io`.
pub(super) fn is_of_kubernetes(document: &Document, at: &FieldPath, name: &str) -> bool {
    let kind = name.split(' ').next().unwrap_or_default();
    let kinds = Kinds::built_in().with(CLAIM_TEMPLATE);
    let Some(known) = kinds.iter().find(|known| known.as_str() == kind) else { return true };
    // An item of a list need not say its version.
    let own = document.get(at).and_then(|object| object["apiVersion"].as_str());
    own.is_none_or(|own| own.split_once('/').map_or("", |(group, _)| group) == known.group())
}

/// A manifest with its kind and version: in a list of one kind the items need not say what they are.
pub(super) fn typed(document: &Document, name: &str, mut manifest: Value) -> Value {
    if let Some(object) = manifest.as_object_mut() {
        if let Some(kind) = name.split(' ').next() {
            object.entry("kind").or_insert_with(|| kind.into());
        }
        if let Some(version) = document.value["apiVersion"].as_str() {
            object.entry("apiVersion").or_insert_with(|| version.into());
        }
    }
    manifest
}
