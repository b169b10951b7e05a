//! Table tests of JSON and the values it is converted to.

use serde::de::DeserializeOwned;

use super::error::Result;
use super::source::Source;
use super::{Object, object, object_from_str};
use crate::{Pod, Requirement, Selector, Str, Test};

/// Parses each JSON as a `T`, converts it with `take`, and compares the text from `show`, or the text of the
/// error, with the expected text.
#[track_caller]
pub(super) fn table<T: DeserializeOwned, U>(
    take: impl Fn(T) -> Result<U>,
    cases: &[(&str, &str)],
    show: impl Fn(U) -> String,
) {
    for (json, expected) in cases {
        let read = Source::parse::<T>(*json).and_then(&take);
        assert_eq!(read.map_or_else(|error| error.to_string(), &show), *expected, "{json}");
    }
}

/// The same for whole objects. Checks that a text and a tree give the same.
#[track_caller]
pub(super) fn objects(cases: &[(&str, &str)], show: impl Fn(Object) -> String) {
    for (json, expected) in cases {
        let read = object_from_str(json);
        let tree = serde_json::from_str(json).expect("the case is JSON");
        assert_eq!(object(&tree), read, "{json}");
        assert_eq!(read.map_or_else(|error| error.to_string(), &show), *expected, "{json}");
    }
}

/// The same for pods. Each case has the spec and status of a pod `p`.
#[track_caller]
pub(super) fn pods(cases: &[(&str, &str)], show: impl Fn(&Pod) -> String) {
    for (inside, expected) in cases {
        let json =
            format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},{inside}}}"#);
        let shown = |object| match object {
            Object::Pod(pod) => show(&pod),
            other => panic!("a pod is expected, not {other:?}"),
        };
        objects(&[(&json, expected)], shown);
    }
}

pub(super) fn show_selector(selector: &Selector) -> String {
    match selector {
        Selector::Nothing => "nothing".to_owned(),
        Selector::All(requirements) if requirements.is_empty() => "everything".to_owned(),
        Selector::All(requirements) => show_requirements(requirements),
    }
}

pub(super) fn show_requirements(requirements: &[Requirement]) -> String {
    let all = requirements.iter().map(|Requirement { key, test }| match test {
        Test::In(values) => format!("{key} in [{}]", join(values)),
        Test::NotIn(values) => format!("{key} not in [{}]", join(values)),
        Test::Exists => format!("{key} exists"),
        Test::DoesNotExist => format!("{key} absent"),
        Test::Gt(bound) => format!("{key} > {bound}"),
        Test::Lt(bound) => format!("{key} < {bound}"),
    });
    all.collect::<Vec<_>>().join(", ")
}

pub(super) fn join(words: &[Str]) -> String {
    words.iter().map(Str::as_str).collect::<Vec<_>>().join(", ")
}
