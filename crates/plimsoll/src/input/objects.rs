//! Reads the text of a file into its objects, or reports everything that is wrong with them.
//!
//! JSON without a fault is read directly, without a tree of values. YAML, and JSON with a fault, is read into documents
//! that know their lines.

use plimsoll_api::Kinds;
use plimsoll_api::wire::{Object, WireError};
use plimsoll_document::{Document, FieldPath};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::fault::Fault;
use super::source::Source;
use crate::faults::MAX_SHOWN;

/// The suffix of the kinds of lists.
const LIST: &str = "List";
/// The namespace of an object without one.
const DEFAULT_NAMESPACE: &str = "default";

/// Reads the objects of a file, in order.
///
/// The error has a fault for each object that cannot be read.
pub(crate) fn read(source: &Source, kinds: &Kinds) -> Result<Vec<Object>, Vec<Fault>> {
    if let Some(objects) = flawless_json(&source.text, kinds) {
        return Ok(objects);
    }
    let documents = documents(source).map_err(|fault| vec![fault])?;
    let (mut objects, mut faults) = (Vec::new(), Vec::new());
    for document in &documents {
        match kinds.objects(&document.value) {
            Ok(more) => objects.extend(more),
            Err(error) => {
                for error in errors_in(document, error, kinds) {
                    // The others are only counted: to find their lines would take long.
                    let is_shown = faults.len() < MAX_SHOWN;
                    let path = FieldPath::from(error.field.as_str());
                    let line = is_shown.then(|| document.line_of(&path)).flatten();
                    faults.push(fault(document, line, error, kinds));
                }
            }
        }
    }
    if faults.is_empty() { Ok(objects) } else { Err(faults) }
}

/// The documents of a file, with their lines.
pub(crate) fn documents(source: &Source) -> Result<Vec<Document>, Fault> {
    Document::parse_all(&source.name, &source.text).map_err(Fault::from)
}

/// The objects of a document that have names: the field of each, and its kind and name.
pub(crate) fn names(document: &Document, kinds: &Kinds) -> Vec<(FieldPath, String)> {
    let mut paths = Vec::new();
    collect_paths(&document.value, &FieldPath::root(), &mut paths);
    let named =
        paths.into_iter().filter_map(|path| Some((path.clone(), name_of(document, &path, kinds)?)));
    named.collect()
}

/// All objects of a document with their fields in it, each with its `apiVersion` and `kind`: in the list of a kind they need
/// not name them.
pub(crate) fn typed_manifests(document: &Document) -> Vec<(FieldPath, Value)> {
    let mut paths = Vec::new();
    collect_paths(&document.value, &FieldPath::root(), &mut paths);
    let typed = |path: FieldPath| {
        let mut manifest = document.get(&path)?.clone();
        let list = path.parent().and_then(|items| items.parent());
        let list = list.and_then(|list| document.get(&list));
        let kind = list.and_then(|list| list["kind"].as_str()?.strip_suffix(LIST));
        if let (Some(kind), Some(fields)) =
            (kind.filter(|kind| !kind.is_empty()), manifest.as_object_mut())
        {
            let api_version = list.map(|list| list["apiVersion"].clone()).unwrap_or_default();
            fields.entry("kind").or_insert_with(|| kind.into());
            fields.entry("apiVersion").or_insert(api_version);
        }
        Some((path, manifest))
    };
    paths.into_iter().filter_map(typed).collect()
}

/// An error in the object at a field of a document.
pub(crate) fn fault_at(
    document: &Document,
    object: &FieldPath,
    error: &WireError,
    kinds: &Kinds,
) -> Fault {
    let line = document.line_of(&object.concat(&FieldPath::from(error.field.as_str())));
    let name = name_of(document, object, kinds);
    Fault {
        source_name: document.source().to_owned(),
        line: line.or_else(|| document.line_of(object)),
        object: name,
        field: Some(error.field.clone()).filter(|field| !field.is_empty()),
        message: error.message.clone(),
    }
}

/// The line of the object with kind and name `name` in `documents`. If there are several, the first `before` of them
/// are skipped.
pub(crate) fn line_of(
    documents: &[Document],
    name: &str,
    before: usize,
    kinds: &Kinds,
) -> Option<usize> {
    let lines = documents.iter().flat_map(|document| {
        let mut paths = Vec::new();
        collect_paths(&document.value, &FieldPath::root(), &mut paths);
        paths.retain(|path| name_of(document, path, kinds).is_some_and(|other| other == name));
        paths.into_iter().map(|path| document.line_of(&path))
    });
    lines.into_iter().nth(before)?
}

fn flawless_json(text: &str, kinds: &Kinds) -> Option<Vec<Object>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with('{') {
        return None;
    }
    // Most files are one document.
    if let Ok(objects) = kinds.objects_from_str(text) {
        return Some(objects);
    }
    let mut objects = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        objects.extend(kinds.objects_from_str(value.ok()?.get()).ok()?);
    }
    Some(objects)
}

fn collect_paths(value: &Value, at: &FieldPath, paths: &mut Vec<FieldPath>) {
    match items_of(value) {
        None => paths.push(at.clone()),
        Some(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_paths(item, &at.key("items").index(index), paths);
            }
        }
    }
}

/// The objects of a document, each by itself. The items of a PodList need no kind in it, but have one here.
pub(super) fn collect_manifests(value: Value, manifests: &mut Vec<Value>) {
    let Some(items) = items_of(&value) else {
        if !value.is_null() {
            manifests.push(value);
        }
        return;
    };
    let kind = value["kind"].as_str().and_then(|kind| kind.strip_suffix(LIST));
    let kind = kind.filter(|kind| !kind.is_empty());
    for item in items {
        let mut item = item.clone();
        if let (Some(kind), Some(fields)) = (kind, item.as_object_mut()) {
            fields.entry("kind").or_insert_with(|| json!(kind));
            fields.entry("apiVersion").or_insert_with(|| value["apiVersion"].clone());
        }
        collect_manifests(item, manifests);
    }
}

/// The items of a list; none if it is not a list.
fn items_of(value: &Value) -> Option<&Vec<Value>> {
    value["kind"].as_str().filter(|kind| kind.ends_with(LIST))?;
    value["items"].as_array()
}

/// All errors in a document; `first` is one of them.
fn errors_in(document: &Document, first: WireError, kinds: &Kinds) -> Vec<WireError> {
    let items = items_of(&document.value).into_iter().flatten().enumerate();
    let errors: Vec<_> = items
        .filter_map(|(index, item)| {
            let alone = json!({
                "apiVersion": document.value["apiVersion"],
                "kind": document.value["kind"],
                "items": [item],
            });
            let WireError { field, message } = kinds.objects(&alone).err()?;
            // As the only item it has the index 0.
            let rest = field.strip_prefix("items[0]")?;
            Some(WireError { field: format!("items[{index}]{rest}"), message })
        })
        .collect();
    // If no item is at fault, the list itself is.
    if errors.is_empty() { vec![first] } else { errors }
}

/// An error in a document as a fault of the object that it is about.
fn fault(document: &Document, line: Option<usize>, error: WireError, kinds: &Kinds) -> Fault {
    let (object, field) = split(&error.field);
    let object = name_of(document, &object, kinds);
    // An object without a kind is identified by its field.
    let field = if object.is_some() { field } else { error.field.as_str() };
    Fault {
        source_name: document.source().to_owned(),
        line,
        object,
        field: Some(field.to_owned()).filter(|field| !field.is_empty()),
        message: error.message,
    }
}

/// The path of the innermost object, and the field in it.
fn split(field: &str) -> (FieldPath, &str) {
    let (mut object, mut field) = (FieldPath::root(), field);
    while let Some((index, rest)) = field.strip_prefix("items[").and_then(|r| r.split_once(']'))
        && let Ok(index) = index.parse()
    {
        object = object.key("items").index(index);
        field = rest.strip_prefix('.').unwrap_or(rest);
    }
    (object, field)
}

/// Kind and name of the object at `path`, if it has them.
fn name_of(document: &Document, path: &FieldPath, kinds: &Kinds) -> Option<String> {
    let object = document.get(path)?;
    // The items of a PodList need no kind.
    let kind_of_list = || {
        let list = path.parent().and_then(|items| items.parent())?;
        document.get(&list)?["kind"].as_str()?.strip_suffix(LIST)
    };
    let kind = object["kind"].as_str().or_else(kind_of_list)?;
    if kind.is_empty() {
        return None;
    }
    let is_cluster_wide =
        |kind: &str| kinds.iter().any(|known| known.as_str() == kind && !known.is_namespaced());
    let text = |field| object["metadata"][field].as_str().filter(|text| !text.is_empty());
    Some(match text("name") {
        None => kind.to_owned(),
        Some(name) if is_cluster_wide(kind) => format!("{kind} {name}"),
        Some(name) => format!("{kind} {}/{name}", text("namespace").unwrap_or(DEFAULT_NAMESPACE)),
    })
}
