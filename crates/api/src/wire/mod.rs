//! Converts the wire form, the JSON of the API server, to the values of this crate.
//!
//! Only this module knows the wire form. It reads only the fields that scheduling needs, applies the API server's
//! defaults and validation of those fields, and sorts what has no order. As in Go, `null` is the same as absent, and
//! unknown fields are ignored.
//!
//! A new kind needs a struct that implements `Wire`, an implementation of [`Kind`] for its value, and a line in
//! `crate::kind`.

mod affinity;
mod amount;
mod avoided;
mod container;
mod devices;
mod error;
mod kind;
mod meta;
mod node;
mod pod;
mod pod_group;
mod pod_resources;
mod primitive;
mod reduce;
mod salvage;
mod selector;
mod source;
mod storage;
mod taints;
#[cfg(test)]
mod testing;
mod volume_source;
mod volumes;
mod workload;

use std::any::Any;
use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::error::WireError;
use self::error::{Result, Within};
use self::kind::{Told, TypeMeta};
pub use self::reduce::READ_ANNOTATIONS;
use self::reduce::Unread;
pub use self::salvage::Salvaged;
use self::source::Source;
use crate::{AnyObject, Kind, KindRef, Kinds, Node, ObjectKey, Pod, Str};

/// An object of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// v1 Pod.
    Pod(Box<Pod>),
    /// v1 Node.
    Node(Box<Node>),
    /// Any other object of a kind that is read.
    Other(AnyObject),
    /// An object of a kind that is not read. The caller may want to report it.
    Unknown {
        /// Its kind.
        kind: Str,
        /// Its API version, such as `apps/v1`.
        api_version: Str,
        /// Its namespace and name; each is empty if it is not given.
        key: ObjectKey,
    },
}

impl Object {
    /// An object of any kind.
    pub fn of<K: Kind>(object: K) -> Self {
        let mut object = Some(object);
        let any: &mut dyn Any = &mut object;
        if let Some(pod) = any.downcast_mut::<Option<Pod>>().and_then(Option::take) {
            return Object::Pod(Box::new(pod));
        }
        if let Some(node) = any.downcast_mut::<Option<Node>>().and_then(Option::take) {
            return Object::Node(Box::new(node));
        }
        let Some(object) = object else { unreachable!("only a pod or a node is taken out") };
        Object::Other(object.into())
    }

    /// The object, if it is of kind `K`.
    pub fn get<K: Kind>(&self) -> Option<&K> {
        let any: &dyn Any = match self {
            Object::Pod(pod) => &**pod,
            Object::Node(node) => &**node,
            Object::Other(object) => return object.get(),
            Object::Unknown { .. } => return None,
        };
        any.downcast_ref()
    }
}

/// The JSON of one object, as text or as a tree, and its version.
#[derive(Clone, Copy, Debug)]
pub struct Manifest<'a> {
    api_version: &'static str,
    json: Json<'a>,
}

/// The JSON of one object.
#[derive(Clone, Copy, Debug)]
enum Json<'a> {
    Text(&'a str),
    Tree(&'a Value),
    /// A tree whose unread parts are recorded.
    Watched(&'a Value, &'a Unread),
}

impl Manifest<'_> {
    /// The version of the object: one of [`Kind::VERSIONS`].
    pub fn api_version(self) -> &'static str {
        self.api_version
    }

    /// The object as JSON.
    pub(crate) fn json(self) -> String {
        match self.json {
            Json::Text(text) => text.to_owned(),
            Json::Tree(tree) | Json::Watched(tree, _) => tree.to_string(),
        }
    }

    /// Reads the whole object; errors name the field.
    pub fn parse<T: DeserializeOwned>(self) -> std::result::Result<T, WireError> {
        match self.json {
            Json::Text(text) => Source::parse(text),
            Json::Tree(tree) => Source::parse(tree),
            Json::Watched(tree, unread) => unread.parse(tree),
        }
    }
}

/// Reads one object.
///
/// It is an error if `value` is a list without exactly one item (see [`objects`]), if kind, API version or name is
/// missing, or if a field that is read is wrong.
pub fn object(value: &Value) -> std::result::Result<Object, WireError> {
    Kinds::built_in().one(value)
}

/// Reads one object from JSON, as [`object`] does, without building a tree.
pub fn object_from_str(json: &str) -> std::result::Result<Object, WireError> {
    Kinds::built_in().one(json)
}

/// Reads one object, or all items of a list. A list is a `v1 List`, which `kubectl get` prints, or the list of a kind,
/// such as `v1 PodList`, whose items need not name their kind. Lists may contain lists.
///
/// It stops at the first error. The field of an error in a list starts with `items[INDEX]`.
pub fn objects(value: &Value) -> std::result::Result<Vec<Object>, WireError> {
    Kinds::built_in().all(value)
}

/// Reads one object, or all items of a list, from JSON, as [`objects`] does, without building a tree.
pub fn objects_from_str(json: &str) -> std::result::Result<Vec<Object>, WireError> {
    Kinds::built_in().all(json)
}

impl Kinds {
    /// Reads one object, or all items of a list, of these kinds, as [`objects`] does.
    pub fn objects(&self, value: &Value) -> std::result::Result<Vec<Object>, WireError> {
        self.all(value)
    }

    /// Reads one object, or all items of a list, of these kinds from JSON, as [`objects_from_str`] does.
    pub fn objects_from_str(&self, json: &str) -> std::result::Result<Vec<Object>, WireError> {
        self.all(json)
    }

    /// Reads one object of these kinds, as [`object`] does.
    pub fn object(&self, value: &Value) -> std::result::Result<Object, WireError> {
        self.one(value)
    }

    fn one<'a>(&self, source: impl Source<'a>) -> Result<Object> {
        let objects: std::result::Result<[Object; 1], _> = self.all(source)?.try_into();
        objects.map(|[object]| object).map_err(|objects| {
            let message =
                format!("one object is expected here, and the list has {}", objects.len());
            WireError::new("items", message)
        })
    }

    fn all<'a>(&self, source: impl Source<'a>) -> Result<Vec<Object>> {
        let mut objects = Vec::new();
        collect(self, source, DEEPEST_LIST, &mut objects)?;
        Ok(objects)
    }

    /// A reader of a kind in an API version, such as `("policy/v1", "PodDisruptionBudget")`. `None` if it is not
    /// read.
    pub fn reader(&self, api_version: &str, kind: &str) -> Option<Reader> {
        self.find(api_version, kind)?.0.reader(api_version)
    }
}

/// Reads objects of one kind. They need not name their kind, as the items of a list do not.
#[derive(Clone, Copy)]
pub struct Reader {
    kind: KindRef,
    api_version: &'static str,
}

impl Reader {
    pub(crate) fn new(kind: KindRef, api_version: &'static str) -> Self {
        Reader { kind, api_version }
    }

    /// A reader of a kind of Kubernetes, see [`Kinds::reader`].
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        Kinds::built_in().reader(api_version, kind)
    }

    /// Reads one object from JSON. Its `apiVersion` and `kind` are ignored.
    ///
    /// It is an error if the name is missing, or if a field that is read is wrong.
    pub fn read(self, json: &str) -> std::result::Result<Object, WireError> {
        self.take(json)
    }

    fn take<'a>(self, source: impl Source<'a>) -> Result<Object> {
        self.kind.read(Manifest { api_version: self.api_version, json: source.json() })
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version, self.kind)
    }
}

/// An object of a known kind on the wire.
trait Wire: DeserializeOwned {
    /// The value it is converted to.
    type Value;
    /// Validates it, adds defaults, and converts it.
    fn take(self) -> Result<Self::Value>;
}

/// Lists may be nested this deep. Nobody nests them by hand, and each level costs a recursive call and one more reading
/// of the text.
const DEEPEST_LIST: usize = 16;

/// Reads all objects of a source, in which lists may be nested `levels` deep.
fn collect<'a, S: Source<'a>>(
    kinds: &Kinds,
    source: S,
    levels: usize,
    objects: &mut Vec<Object>,
) -> Result<()> {
    let head = source.head()?;
    let items = head.items.into_iter().enumerate();
    match head.meta.told(kinds)? {
        Told::Known(reader) => objects.push(reader.take(source)?),
        Told::Unknown => objects.push(unknown(&head.meta, source)?),
        Told::List if levels == 0 => {
            let why =
                format!("lists are nested more than {DEEPEST_LIST} deep: put their items into one");
            return Err(WireError::new("", why));
        }
        Told::List => {
            for (index, item) in items {
                collect(kinds, item, levels - 1, objects).within_item("items", index)?;
            }
        }
        Told::ListOf(reader) => {
            for (index, item) in items {
                objects.push(reader.take(item).within_item("items", index)?);
            }
        }
    }
    Ok(())
}

/// Only the key of an object of an unknown kind is read, and it is not validated.
#[derive(Deserialize)]
struct WireUnknown {
    #[serde(default)]
    metadata: Value,
}

fn unknown<'a>(meta: &TypeMeta, source: impl Source<'a>) -> Result<Object> {
    let (api_version, kind) = meta.both()?;
    let metadata = source.parse::<WireUnknown>()?.metadata;
    let text = |field| metadata[field].as_str().unwrap_or_default();
    Ok(Object::Unknown {
        kind: kind.into(),
        api_version: api_version.into(),
        key: ObjectKey::new(text("namespace"), text("name")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objects that are read, or the error. Checks that a text and a tree give the same.
    fn read(json: &str) -> String {
        let show = |object: &Object| match object {
            Object::Pod(pod) => format!("Pod {}", pod.key),
            Object::Node(node) => format!("Node {}", node.name),
            Object::Unknown { kind, api_version, key } => format!("? {api_version} {kind} {key}"),
            other @ Object::Other(_) => format!("{other:?}"),
        };
        let read = objects_from_str(json);
        let tree = serde_json::from_str(json).expect("the case is JSON");
        assert_eq!(objects(&tree), read, "{json}");
        match read {
            Ok(objects) => objects.iter().map(show).collect::<Vec<_>>().join(", "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn lists_are_flattened_and_errors_name_the_item() {
        for (json, expected) in [
            (
                r#"{"apiVersion":"v1","items":[
                    {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}},
                    {"metadata":{"name":"b"},"kind":"Node","apiVersion":"v1"},
                    {"apiVersion":"v1","kind":"List","items":[
                        {"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"}}]}],"kind":"List"}"#,
                "Pod default/a, Node b, Pod default/c",
            ),
            (
                r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}"#,
                "Pod default/a",
            ),
            (r#"{"kind":"NodeList","apiVersion":"v1","items":null}"#, ""),
            (r#"{"kind":"NodeList","apiVersion":"v1"}"#, ""),
            (
                r#"{"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{}}]}"#,
                "? v1 ConfigMapList ",
            ),
            (
                r#"{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{}]}"#,
                "items[1].metadata.name: Required value: give the object a name; none is generated",
            ),
            (
                r#"{"kind":"List","apiVersion":"v1","items":[{"kind":"List","apiVersion":"v1",
                    "items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":3}}]}]}"#,
                "items[0].items[0].metadata.name: invalid type: integer `3`, expected a string",
            ),
            (
                r#"{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod"}]}"#,
                "items[0].apiVersion: Required value: name the API version of the kind, such as v1 for a Pod",
            ),
            (
                r#"{"kind":"List","apiVersion":"v1","items":[7]}"#,
                "items[0]: an object is expected, with apiVersion and kind",
            ),
            (r#"{"kind":"List","apiVersion":"v1","items":{}}"#, "items: must be a list"),
            (r#"{"kind":"List","apiVersion":"v1","items":true}"#, "items: must be a list"),
            (r#"{"kind":["List"],"apiVersion":"v1"}"#, "kind: must be a string"),
            ("[]", "an object is expected, with apiVersion and kind"),
        ] {
            assert_eq!(read(json), expected, "{json}");
        }
    }

    #[test]
    fn lists_that_are_nested_too_deep_are_an_error() {
        let nested = |levels: usize| {
            let open = r#"{"apiVersion":"v1","kind":"List","items":["#.repeat(levels);
            let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#;
            format!("{open}{pod}{}", "]}".repeat(levels))
        };
        assert_eq!(read(&nested(16)), "Pod default/a");
        let why = "items[0]".to_owned() + &".items[0]".repeat(15);
        assert!(
            read(&nested(18)).starts_with(&format!("{why}: lists are nested more than 16 deep"))
        );
        // A text this deep cannot be made into a tree, so only the text is read.
        let error = objects_from_str(&nested(100_000)).expect_err("it is too deep").to_string();
        assert!(error.starts_with(&why), "{error}");
    }

    #[test]
    fn of_an_object_of_an_unknown_kind_only_the_name_is_kept() {
        for (json, expected) in [
            (
                r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"b"},
                    "spec":{"containers":3}}"#,
                "? apps/v1 Deployment b/a",
            ),
            (r#"{"apiVersion":"x.io/v1","kind":"Pod","metadata":7}"#, "? x.io/v1 Pod "),
            (r#"{"apiVersion":"v1","items":{"a":[1]},"kind":"Menu"}"#, "? v1 Menu "),
            (r#"{"apiVersion":"v1","items":"x","kind":"Menu"}"#, "? v1 Menu "),
            (r#"{"apiVersion":"v1","items":-1.5,"kind":"Menu"}"#, "? v1 Menu "),
            (
                r#"{"apiVersion":"apps/v1","kind":"Pod"}"#,
                r#"apiVersion: Unsupported value: "apps/v1": supported values: "v1""#,
            ),
            (
                r#"{"metadata":{"name":"a"}}"#,
                "kind: Required value: name the kind of the object, such as Pod",
            ),
        ] {
            assert_eq!(read(json), expected, "{json}");
        }
    }

    #[test]
    fn a_reader_reads_objects_that_do_not_name_their_kind() {
        let reader = Reader::of("v1", "Pod").expect("pods are read");
        let read = |json| match reader.read(json) {
            Ok(Object::Pod(pod)) => pod.key.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(read(r#"{"metadata":{"name":"a","namespace":"b"}}"#), "b/a");
        let error = reader.read("{}").unwrap_err().to_string();
        assert!(error.starts_with("metadata.name: Required value"), "{error}");
        assert!(Reader::of("apps/v1", "Deployment").is_none());
        assert!(Reader::of("v1", "PodList").is_none());
    }

    #[test]
    fn a_list_with_two_items_is_not_one_object() {
        let list =
            |items: &str| format!(r#"{{"kind":"PodList","apiVersion":"v1","items":[{items}]}}"#);
        let pod = r#"{"metadata":{"name":"a"}}"#;
        assert!(object_from_str(&list(pod)).is_ok());
        let error = object_from_str(&list(&format!("{pod},{pod}"))).unwrap_err();
        assert_eq!(error.to_string(), "items: one object is expected here, and the list has 2");
    }

    #[test]
    fn invalid_json_is_reported_with_its_position() {
        let error = |json| objects_from_str(json).unwrap_err().to_string();
        assert_eq!(error(""), "EOF while parsing a value at line 1 column 0");
        let broken = "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\n\"spec\":{]}";
        assert_eq!(error(broken), "key must be a string at line 2 column 9");
        let two = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}} {}"#;
        assert_eq!(error(two), "trailing characters at line 1 column 58");
        let two = r#"{"apiVersion":"v1","kind":"List","items":[]} {}"#;
        assert_eq!(error(two), "trailing characters at line 1 column 46");
    }
}
