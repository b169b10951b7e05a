//! A document of a file, and the parsing of files into documents.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::decode;
use crate::error::DocumentError;
use crate::json::{self, Broken, JsonError};
use crate::path::{FieldPath, Segment};
use crate::yaml::{self, Mark};

/// One document of a YAML or JSON file: its content, and the line of every field.
#[derive(Clone, Debug)]
pub struct Document {
    /// The content. Later changes of it have no line numbers.
    pub value: Value,
    source_name: Arc<str>,
    lines: Lines,
}

/// How to find the line of a field.
#[derive(Clone, Debug)]
enum Lines {
    /// Recorded while the YAML was parsed.
    Known(Mark),
    /// To be looked up in the JSON text, from this byte on.
    Searched { text: Arc<str>, offset: usize },
}

impl Document {
    /// All documents of a file, in order; empty ones are dropped.
    ///
    /// `source_name` names the file in errors. A text that starts with `{` or `[` is read as JSON, one
    /// value after another (JSON Lines too), and as YAML if it is not JSON; any other text is YAML,
    /// with any number of documents. The error says which line is not valid, and why.
    pub fn parse_all(source_name: &str, text: &str) -> Result<Vec<Self>, DocumentError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let name: Arc<str> = source_name.into();
        let mut as_json = None;
        if text.trim_start().starts_with(['{', '[']) {
            let refuse =
                |Broken { line, message }| DocumentError::new(source_name, message).on_line(line);
            match json::parse(text) {
                Ok(values) => return Ok(json_documents(&name, text, values)),
                Err(JsonError::Broken(broken)) => return Err(refuse(broken)),
                Err(JsonError::NotJson(broken)) => as_json = broken.map(refuse),
            }
        }
        // If the text looks like JSON, the JSON error is more helpful than that of YAML.
        let nodes = yaml::parse(source_name, text).map_err(|error| as_json.unwrap_or(error))?;
        let documents = nodes.into_iter().map(|node| Self {
            value: node.value,
            source_name: Arc::clone(&name),
            lines: Lines::Known(node.mark),
        });
        Ok(documents.collect())
    }

    /// The name of the file, as it was given to [`Document::parse_all`].
    pub fn source(&self) -> &str {
        &self.source_name
    }

    /// The value of the field at `path`, if there is one.
    pub fn get(&self, path: &FieldPath) -> Option<&Value> {
        path.segments().iter().try_fold(&self.value, |value, segment| match segment {
            Segment::Key(name) => value.get(name),
            Segment::Index(index) => value.get(index),
        })
    }

    /// The line of the field at `path`, counted from 1; if there is no such field, the line of the
    /// nearest enclosing object or list.
    ///
    /// The line of a field is that of its name, and the line of an element is that of its start. A
    /// field from an alias has the line where it is written.
    pub fn line_of(&self, path: &FieldPath) -> Option<usize> {
        Some(match &self.lines {
            Lines::Known(mark) => mark.line_of(path),
            Lines::Searched { text, offset } => json::line_of(text, *offset, path),
        })
    }

    /// An error about the field at `path`, which knows its file and line.
    pub fn error_at(&self, path: FieldPath, message: impl Into<String>) -> DocumentError {
        DocumentError {
            line: self.line_of(&path),
            ..DocumentError::new(&self.source_name, message).at_field(path)
        }
    }

    /// The field at `at` as a `T`; an absent field is decoded like `null`.
    ///
    /// As in encoding/json, a `null` inside an object leaves that field at its default: it is
    /// dropped before `T` sees it. The error is the first one; [`Document::decode_all`] finds the
    /// others.
    pub fn decode<T: DeserializeOwned>(&self, at: &FieldPath) -> Result<T, DocumentError> {
        decode::first(self.get(at)).map_err(|fault| self.fault(at, fault))
    }

    /// The field at `at` as a `T`, as [`Document::decode`] reads it, with every error in it.
    ///
    /// Fields at fault are left out of the result, so that the rest can be checked further. There is no
    /// result if the fault does not belong to a field.
    pub fn decode_all<T: DeserializeOwned>(
        &self,
        at: &FieldPath,
    ) -> (Option<T>, Vec<DocumentError>) {
        let (result, faults) = decode::all(self.get(at));
        (result, faults.into_iter().map(|fault| self.fault(at, fault)).collect())
    }

    /// As [`Document::decode_all`], by `decode`. Its error is the path of a fault within the field, and what
    /// is wrong there.
    pub fn decode_all_with<T>(
        &self,
        at: &FieldPath,
        decode: impl Fn(&Value) -> Result<T, (FieldPath, String)>,
    ) -> (Option<T>, Vec<DocumentError>) {
        let decode = |value: &Value| {
            decode(value).map_err(|(path, message)| decode::Fault { path, message })
        };
        let (result, faults) = decode::all_with(self.get(at), decode);
        (result, faults.into_iter().map(|fault| self.fault(at, fault)).collect())
    }

    fn fault(&self, at: &FieldPath, fault: decode::Fault) -> DocumentError {
        self.error_at(at.concat(&fault.path), fault.message)
    }
}

fn json_documents(name: &Arc<str>, text: &str, values: Vec<(Value, usize)>) -> Vec<Document> {
    let text: Arc<str> = text.into();
    let documents = values.into_iter().map(|(value, offset)| Document {
        value,
        source_name: Arc::clone(name),
        lines: Lines::Searched { text: Arc::clone(&text), offset },
    });
    documents.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Vec<Document> {
        Document::parse_all("a.yaml", text).expect("the text is valid")
    }

    fn check(text: &str, expected: &Value) {
        let documents = parse(text);
        assert_eq!(documents.len(), 1, "{text:?}");
        assert_eq!(documents[0].value, *expected, "{text:?}");
    }

    fn check_error(text: &str, expected: &str) {
        let error = Document::parse_all("a.yaml", text).expect_err("the text is not valid");
        assert_eq!(error.to_string(), expected, "{text:?}");
    }

    fn check_lines(text: &str, expected: &[(&str, usize)]) {
        let documents = parse(text);
        for (path, line) in expected {
            let found = documents.last().and_then(|d| d.line_of(&FieldPath::from(*path)));
            assert_eq!(found, Some(*line), "{path}");
        }
    }

    #[test]
    fn scalars_follow_the_rules_of_kubernetes() {
        check("leaderElect: yes", &json!({"leaderElect": true}));
        check("leaderElect: \"true\"", &json!({"leaderElect": "true"}));
        check("parallelism: \"16\"", &json!({"parallelism": "16"}));
        check("schedulerName: 5", &json!({"schedulerName": 5}));
        check("weight: 010", &json!({"weight": 8}));
        check("a: ~\nb:\nc: off", &json!({"a": null, "b": null, "c": false}));
        check("10: x\nyes: v\n1.5: z", &json!({"10": "x", "true": "v", "1.5": "z"}));
        check("a: |\n  yes\nb: >-\n  010\n", &json!({"a": "yes\n", "b": "010"}));
    }

    #[test]
    fn merge_keys_take_over_what_an_object_lacks() {
        let text = "base: &b {x: 1, v: 2}\nmore: &m {v: 3, z: 4}\n";
        let base = json!({"x": 1, "v": 2});
        let more = json!({"v": 3, "z": 4});
        check(
            &format!("{text}a:\n  v: 9\n  <<: *b\n"),
            &json!({"base": base, "more": more, "a": {"x": 1, "v": 9}}),
        );
        check(
            &format!("{text}a:\n  <<: [*b, *m]\n"),
            &json!({"base": base, "more": more, "a": {"x": 1, "v": 2, "z": 4}}),
        );
        check("a: {\"<<\": 1}", &json!({"a": {"<<": 1}}));
    }

    #[test]
    fn aliases_repeat_what_their_anchor_holds() {
        check(
            "a: &x [1, &y two]\nb: *x\nc: *y",
            &json!({"a": [1, "two"], "b": [1, "two"], "c": "two"}),
        );
        check("&k key: 1\nother: *k", &json!({"key": 1, "other": "key"}));
    }

    #[test]
    fn a_file_may_hold_many_documents() {
        let text = (0..3000).fold(String::new(), |text, i| text + &format!("---\nid: {i}\n"));
        let documents = parse(&text);
        assert_eq!(documents.len(), 3000);
        assert_eq!(documents[2999].value, json!({"id": 2999}));
        assert_eq!(documents[2999].line_of(&FieldPath::from("id")), Some(6000));
    }

    #[test]
    fn empty_documents_are_dropped() {
        assert!(parse("").is_empty());
        assert!(parse("# only a comment\n---\n---\n...\n").is_empty());
        assert_eq!(parse("---\n# nothing\n---\na: 1\n---\n").len(), 1);
    }

    #[test]
    fn json_is_read_value_after_value() {
        let documents = parse("\u{feff}\n{\"a\": 1}\n[2]\n{\"b\":\n 3.0}");
        let values: Vec<_> = documents.iter().map(|document| &document.value).collect();
        assert_eq!(values, [&json!({"a": 1}), &json!([2]), &json!({"b": 3.0})]);
        assert_eq!(documents[2].line_of(&FieldPath::root()), Some(4));
    }

    #[test]
    fn flow_notation_is_no_broken_json() {
        check("{a: yes, b: [1, two]}", &json!({"a": true, "b": [1, "two"]}));
        assert_eq!(parse("{\"a\": 1}\n---\nb: 2").len(), 2);
    }

    #[test]
    fn a_field_stands_on_the_line_of_its_name() {
        let text = "\
apiVersion: v1
profiles:
- schedulerName: a
  plugins:
    score:
      enabled:
      - name: X
        weight: 2
      - {name: Y,
         weight: 3}
- schedulerName:
    b
";
        check_lines(
            text,
            &[
                ("", 1),
                ("profiles", 2),
                ("profiles[0]", 3),
                ("profiles[0].plugins.score.enabled[0].weight", 8),
                ("profiles[0].plugins.score.enabled[1]", 9),
                ("profiles[0].plugins.score.enabled[1].name", 9),
                ("profiles[0].plugins.score.enabled[1].weight", 10),
                ("profiles[1].schedulerName", 11),
            ],
        );
    }

    #[test]
    fn a_missing_field_stands_where_its_nearest_ancestor_does() {
        let text = "a:\n  b:\n  - c: 1\n";
        check_lines(text, &[("x", 1), ("a.x", 1), ("a.b[7]", 2), ("a.b[0].x.y", 3), ("a.b.x", 2)]);
        let json = "{\n\"a\": {\n\"b\": [\n{\"c\": 1}]}}";
        check_lines(json, &[("x", 1), ("a.x", 2), ("a.b[7]", 3), ("a.b[0].x.y", 4), ("a.b.x", 3)]);
    }

    #[test]
    fn an_aliased_field_stands_where_it_is_written() {
        let text = "base: &b\n  x: 1\na: *b\nc:\n  <<: *b\n  v: 1\n";
        check_lines(text, &[("a", 3), ("a.x", 2), ("c", 4), ("c.x", 2), ("c.v", 6)]);
    }

    #[test]
    fn a_field_of_json_is_found_behind_all_kinds_of_values() {
        let text = "{\"s\": \"}]\\\"\\\\\", \"n\": -1.5e3, \"l\": [[], {}, \"]\"],\n\"t\": true,\n\
                    \"o\" : {\"o\": null ,\n\"k\\u0041\": [0 , 1,\n2]}}\n{\"next\":\n1}";
        let document = &parse(text)[0];
        let line = |path: &str| document.line_of(&FieldPath::from(path));
        assert_eq!(line("l[2]"), Some(1));
        assert_eq!(line("t"), Some(2));
        assert_eq!(line("o"), Some(3));
        assert_eq!(line("o.kA"), Some(4));
        assert_eq!(line("o.kA[2]"), Some(5));
        assert_eq!(line("next"), Some(1));
    }

    #[test]
    fn a_key_may_appear_only_once() {
        check_error("a:\n  b: 1\n  b: 2\n", "a.yaml:3: a.b: duplicate key, already set on line 2");
        check_error("{\"a\": 1,\n\"a\": 2}", "a.yaml:2: is not valid JSON: duplicate key `a`");
    }

    #[test]
    fn a_text_that_is_not_yaml_is_refused_with_its_line() {
        check_error(
            "a: 1\nb: c: d\n",
            "a.yaml:2: is not valid YAML: mapping values are not allowed in this context",
        );
        check_error(
            "a:\n\tb: 1\n",
            "a.yaml:2: found a tab where YAML allows only spaces: replace it with spaces",
        );
        check_error("{\"a\": [1,\n", "a.yaml:2: is not valid JSON: EOF while parsing a value");
        check_error("{a: 1\n}}\n", "a.yaml:2: is not valid YAML: misplaced bracket");
        check_error(
            "a: *b\n",
            "a.yaml:1: a: unknown anchor `b`: an anchor is defined as `&b` before it is used",
        );
        check_error("a: &x [*x]\n", "a.yaml:1: a[0]: an anchor's value contains the anchor itself");
        check_error("a:\n  ? [1]\n  : 2\n", "a.yaml:2: a: a list or an object cannot be a key");
        check_error("a:\n  ~: 2\n", "a.yaml:2: a: a key must be a string: put it in quotes");
        check_error("a:\n  <<: 5\n", "a.yaml:2: a: `<<` needs an object or a list of objects");
        check_error(
            "a: [1, .nan]\n",
            "a.yaml:1: a[1]: the number `.nan` is not supported: a number must be finite",
        );
    }

    #[test]
    fn a_mistake_in_json_is_told_as_one_of_json() {
        check_error(
            "{\n\"a\": [\n{\"b\": 1}\n{\"b\": 2}\n]}",
            "a.yaml:4: is not valid JSON: expected `,` or `]`",
        );
        check_error(
            "{\"a\": \"b,\n\"c\": 2}",
            "a.yaml:1: is not valid JSON: control character (\\u0000-\\u001F) found while parsing a \
             string",
        );
        check_error("{\"a\": 1}\n{\"b\" 1}", "a.yaml:2: is not valid JSON: expected `:`");
        check_error(
            "{\"a\": 1}\n---\nb: c: d\n",
            "a.yaml:3: is not valid YAML: mapping values are not allowed in this context",
        );
    }

    #[test]
    fn aliases_cannot_multiply_without_limit() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let below = format!("*a{}, ", level - 1).repeat(10);
            text.extend([format!("a{level}: &a{level} [{below}]\n")]);
        }
        let error = Document::parse_all("bomb.yaml", &text).expect_err("it would fill the memory");
        assert_eq!(error.message, "document contains excessive aliasing");
    }

    #[test]
    fn decoding_names_file_line_and_field() {
        let documents = parse("spec:\n  size: 1\n  names:\n  - a\n  - 5\n");
        let error = documents[0].decode::<Vec<String>>(&FieldPath::from("spec.names"));
        assert_eq!(
            error.expect_err("5 is no string").to_string(),
            "a.yaml:5: spec.names[1]: invalid type: integer `5`, expected a string"
        );
        assert_eq!(documents[0].decode(&FieldPath::from("spec.size")), Ok(1_i32));
        assert_eq!(documents[0].decode(&FieldPath::from("absent")), Ok(None::<i32>));
    }
}
