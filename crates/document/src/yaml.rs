//! From the events of a YAML text to documents: values, and the line of every field.

use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{ErrorKind, Event, Parser, ScanError, Span, StrInput};
use serde_json::{Map, Value};

use crate::error::DocumentError;
use crate::path::{FieldPath, Segment};
use crate::scalar;

/// Up to this many nodes a document may repeat what it likes through aliases.
///
/// Beyond that, the share of repeated nodes is limited, so that a few lines of nested aliases cannot
/// fill the memory. As in goyaml.v2/decode.go, allowedAliasRatio.
const FREE_NODES: usize = 400_000;

/// From this many nodes on, the share of nodes that come from aliases is [`LOWEST_ALIAS_SHARE`].
const MANY_NODES: usize = 4_000_000;
const EXCESSIVE: &str = "document contains excessive aliasing";
const HIGHEST_ALIAS_SHARE: f64 = 0.99;
const LOWEST_ALIAS_SHARE: f64 = 0.10;

/// The position of a node and of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The line of the field's name, or of the element, counted from 1.
    pub(crate) line: usize,
    pub(crate) parts: Parts,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Parts {
    #[default]
    None,
    Fields(BTreeMap<Box<str>, Mark>),
    Items(Vec<Mark>),
}

impl Mark {
    /// The line of the field at `path`, or of the nearest enclosing object or list that exists.
    pub(crate) fn line_of(&self, path: &FieldPath) -> usize {
        let mut mark = self;
        for segment in path.segments() {
            let part = match (segment, &mark.parts) {
                (Segment::Key(name), Parts::Fields(fields)) => fields.get(name.as_str()),
                (Segment::Index(index), Parts::Items(items)) => items.get(*index),
                _ => None,
            };
            match part {
                Some(part) => mark = part,
                None => break,
            }
        }
        mark.line
    }

    fn nodes(&self) -> usize {
        1 + match &self.parts {
            Parts::None => 0,
            Parts::Fields(fields) => fields.values().map(Mark::nodes).sum(),
            Parts::Items(items) => items.iter().map(Mark::nodes).sum(),
        }
    }
}

/// A value of a document and the lines of its fields.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) mark: Mark,
}

/// All documents of a YAML text, without the empty ones.
pub(crate) fn parse(source_name: &str, text: &str) -> Result<Vec<Node>, DocumentError> {
    let mut builder = Builder::new(source_name, aliased(text));
    for event in events(text) {
        let (event, span) = event.map_err(|error| builder.syntax_error(&error))?;
        builder.take(event, span)?;
    }
    Ok(builder.documents)
}

fn events(text: &str) -> Parser<'_, StrInput<'_>> {
    let options = granit_parser::options! { emit_comments: false, emit_unresolved_aliases: true };
    Parser::new_from_str_with_options(text, options)
}

/// The anchors to which some alias refers: only their content must be kept. Anchors can be nested, and
/// keeping each would copy everything inside it.
fn aliased(text: &str) -> BTreeSet<usize> {
    if !text.contains('&') || !text.contains('*') {
        return BTreeSet::new();
    }
    // Errors in the text are reported when it is parsed.
    let events = events(text).map_while(Result::ok);
    let anchors = events.filter_map(|(event, _)| match event {
        Event::Alias(anchor) => Some(anchor),
        _ => None,
    });
    anchors.collect()
}

/// A collection that is not closed yet.
struct Frame {
    line: usize,
    anchor: usize,
    content: Content,
}

enum Content {
    List { values: Vec<Value>, marks: Vec<Mark> },
    Object(Object),
}

#[derive(Default)]
struct Object {
    fields: Map<String, Value>,
    marks: BTreeMap<Box<str>, Mark>,
    /// The merged nodes of `<<`: their fields are added unless the object has them itself.
    merged: Vec<Node>,
    /// The key of the next value.
    key: Option<Key>,
}

struct Key {
    name: KeyName,
    line: usize,
}

enum KeyName {
    Field(String),
    Merge,
}

struct Builder<'a> {
    source_name: &'a str,
    documents: Vec<Node>,
    stack: Vec<Frame>,
    /// The anchors of all documents to which some alias refers.
    aliased: BTreeSet<usize>,
    /// The finished nodes of this document that have such an anchor, with their numbers of nodes.
    anchors: BTreeMap<usize, (Node, usize)>,
    nodes: usize,
    aliased_nodes: usize,
    /// How many nodes are kept for anchors; nodes of nested anchors count several times.
    kept_nodes: usize,
}

impl<'a> Builder<'a> {
    fn new(source_name: &'a str, aliased: BTreeSet<usize>) -> Self {
        Self {
            source_name,
            documents: Vec::new(),
            stack: Vec::new(),
            aliased,
            anchors: BTreeMap::new(),
            nodes: 0,
            aliased_nodes: 0,
            kept_nodes: 0,
        }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), DocumentError> {
        let line = span.start.line();
        match event {
            Event::DocumentStart(..) => {
                self.anchors.clear();
                (self.nodes, self.aliased_nodes, self.kept_nodes) = (0, 0, 0);
            }
            Event::Scalar(text, style, anchor, tag) => {
                let style_is_plain = style == granit_parser::ScalarStyle::Plain;
                if style_is_plain && tag.is_none() && text == "<<" && self.expects_key() {
                    self.set_key(KeyName::Merge, line);
                    return Ok(());
                }
                let value = scalar::resolve(&text, style, tag.as_deref())
                    .map_err(|message| self.error(line, message))?;
                self.finish(Node { value, mark: Mark { line, parts: Parts::None } }, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                let content = Content::List { values: Vec::new(), marks: Vec::new() };
                self.open(Frame { line, anchor, content })?;
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(Frame { line, anchor, content: Content::Object(Object::default()) })?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let frame = self.stack.pop().expect("the parser closes what it opened");
                let (node, anchor) = close(frame);
                self.finish(node, anchor)?;
            }
            Event::Alias(anchor) => self.repeat(anchor, line)?,
            Event::UnresolvedAlias(name) => {
                let message = format!(
                    "unknown anchor `{name}`: an anchor is defined as `&{name}` before it is used"
                );
                return Err(self.error(line, message));
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, frame: Frame) -> Result<(), DocumentError> {
        if self.expects_key() {
            return Err(self.error(frame.line, "a list or an object cannot be a key"));
        }
        self.stack.push(frame);
        Ok(())
    }

    /// Adds a finished node to the open collection, or to the documents.
    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), DocumentError> {
        self.nodes += 1;
        if self.aliased.contains(&anchor) {
            let nodes = node.mark.nodes();
            self.kept_nodes += nodes;
            if has_too_many_aliases(self.nodes + self.kept_nodes, self.kept_nodes) {
                return Err(self.error(node.mark.line, EXCESSIVE));
            }
            self.anchors.insert(anchor, (node.clone(), nodes));
        }
        if self.expects_key() {
            let line = node.mark.line;
            return match scalar::key_name(node.value) {
                Some(name) => {
                    self.check_new(&name, line)?;
                    self.set_key(KeyName::Field(name), line);
                    Ok(())
                }
                None => Err(self.error(line, "a key must be a string: put it in quotes")),
            };
        }
        match self.stack.last_mut().map(|frame| &mut frame.content) {
            None => {
                if !node.value.is_null() {
                    self.documents.push(node);
                }
            }
            Some(Content::List { values, marks }) => {
                values.push(node.value);
                marks.push(node.mark);
            }
            Some(Content::Object(object)) => {
                let key = object.key.take().expect("a value follows its key");
                match key.name {
                    KeyName::Field(name) => {
                        let mark = Mark { line: key.line, parts: node.mark.parts };
                        object.marks.insert(name.as_str().into(), mark);
                        object.fields.insert(name, node.value);
                    }
                    KeyName::Merge => self.merge(node, key.line)?,
                }
            }
        }
        Ok(())
    }

    /// Records the fields that `<<` merges: those of an object or of a list of objects.
    fn merge(&mut self, node: Node, line: usize) -> Result<(), DocumentError> {
        let sources = match (node.value, node.mark.parts) {
            (Value::Array(values), Parts::Items(marks)) => {
                values.into_iter().zip(marks).map(|(value, mark)| Node { value, mark }).collect()
            }
            (value, parts) => vec![Node { value, mark: Mark { line, parts } }],
        };
        if sources.iter().any(|source| !source.value.is_object()) {
            return Err(self.error(line, "`<<` needs an object or a list of objects"));
        }
        if let Some(Frame { content: Content::Object(object), .. }) = self.stack.last_mut() {
            object.merged.extend(sources);
        }
        Ok(())
    }

    fn repeat(&mut self, anchor: usize, line: usize) -> Result<(), DocumentError> {
        let Some((node, nodes)) = self.anchors.get(&anchor) else {
            return Err(self.error(line, "an anchor's value contains the anchor itself"));
        };
        let mut node = node.clone();
        node.mark.line = line;
        self.nodes += nodes;
        self.aliased_nodes += nodes;
        if has_too_many_aliases(self.nodes, self.aliased_nodes) {
            return Err(self.error(line, EXCESSIVE));
        }
        self.finish(node, 0)
    }

    fn set_key(&mut self, name: KeyName, line: usize) {
        if let Some(Frame { content: Content::Object(object), .. }) = self.stack.last_mut() {
            object.key = Some(Key { name, line });
        }
    }

    fn expects_key(&self) -> bool {
        match self.stack.last() {
            Some(Frame { content: Content::Object(object), .. }) => object.key.is_none(),
            _ => false,
        }
    }

    fn check_new(&self, name: &str, line: usize) -> Result<(), DocumentError> {
        match self.stack.last().map(|frame| &frame.content) {
            Some(Content::Object(object)) => match object.marks.get(name) {
                Some(first) => {
                    let message = format!("duplicate key, already set on line {}", first.line);
                    let field = self.path().key(name);
                    Err(DocumentError::new(self.source_name, message).on_line(line).at_field(field))
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn error(&self, line: usize, message: impl Into<String>) -> DocumentError {
        DocumentError::new(self.source_name, message).on_line(line).at_field(self.path())
    }

    /// The path of the node that is being parsed.
    fn path(&self) -> FieldPath {
        self.stack
            .iter()
            .filter_map(|frame| match &frame.content {
                Content::List { values, .. } => Some(Segment::Index(values.len())),
                Content::Object(object) => match &object.key.as_ref()?.name {
                    KeyName::Field(name) => Some(Segment::Key(name.clone())),
                    KeyName::Merge => Some(Segment::Key("<<".to_owned())),
                },
            })
            .collect()
    }

    fn syntax_error(&self, error: &ScanError) -> DocumentError {
        let message = match error.kind() {
            ErrorKind::TabNotAllowed
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInIndentation
            | ErrorKind::TabAtBlockScalarStart => {
                "found a tab where YAML allows only spaces: replace it with spaces".to_owned()
            }
            ErrorKind::RecursionLimitExceeded => "is nested too deeply".to_owned(),
            _ => format!("is not valid YAML: {}", error.info()),
        };
        DocumentError::new(self.source_name, message).on_line(error.marker().line())
    }
}

fn close(frame: Frame) -> (Node, usize) {
    let (value, parts) = match frame.content {
        Content::List { values, marks } => (Value::Array(values), Parts::Items(marks)),
        Content::Object(mut object) => {
            // The object's own fields take precedence over merged ones, and earlier merged ones over
            // later ones.
            for source in object.merged {
                let (Value::Object(fields), Parts::Fields(mut marks)) =
                    (source.value, source.mark.parts)
                else {
                    continue;
                };
                for (name, value) in fields {
                    if object.fields.contains_key(&name) {
                        continue;
                    }
                    let mark = marks.remove(name.as_str()).unwrap_or_default();
                    object.marks.insert(name.as_str().into(), mark);
                    object.fields.insert(name, value);
                }
            }
            (Value::Object(object.fields), Parts::Fields(object.marks))
        }
    };
    (Node { value, mark: Mark { line: frame.line, parts } }, frame.anchor)
}

/// As in goyaml.v2/decode.go, unmarshal: small documents have no limit, large ones have a limit on
/// repetition.
fn has_too_many_aliases(nodes: usize, aliased: usize) -> bool {
    if aliased <= 100 || nodes <= 1000 {
        return false;
    }
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more than 52 bits")]
    let (share, progress) = (
        aliased as f64 / nodes as f64,
        nodes.clamp(FREE_NODES, MANY_NODES).saturating_sub(FREE_NODES) as f64
            / (MANY_NODES - FREE_NODES) as f64,
    );
    let allowed = HIGHEST_ALIAS_SHARE - (HIGHEST_ALIAS_SHARE - LOWEST_ALIAS_SHARE) * progress;
    allowed < share
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `depth` lists in each other, each with an anchor and `width` numbers; the outermost is first.
    fn nested(depth: usize, width: usize) -> String {
        let numbers = "1, ".repeat(width);
        let open = (0..depth).map(|level| format!("&a{level} [{numbers}"));
        format!("lists: {}{}\n", open.collect::<Vec<_>>().concat(), "]".repeat(depth))
    }

    fn kept(text: &str) -> Result<usize, String> {
        let mut builder = Builder::new("a.yaml", aliased(text));
        for event in events(text) {
            let (event, span) = event.expect("it is YAML");
            builder.take(event, span).map_err(|error| error.to_string())?;
        }
        Ok(builder.kept_nodes)
    }

    #[test]
    fn only_what_an_alias_names_is_kept() {
        let text = nested(100, 100);
        assert_eq!(kept(&text), Ok(0));
        assert_eq!(kept(&format!("{text}inner: *a99\n")), Ok(101));
        assert_eq!(kept(&format!("{text}outer: *a0\n")), Ok(10_100));
    }

    #[test]
    fn anchors_in_anchors_are_kept_only_up_to_the_share_that_aliases_may_have() {
        let all = |depth, width| {
            let aliases = (0..depth).map(|level| format!("b{level}: *a{level}\n"));
            let aliases = aliases.collect::<Vec<_>>().concat();
            kept(&(nested(depth, width) + &aliases))
        };
        assert_eq!(all(10, 10), Ok((1..=10).map(|levels| levels * 11).sum()));
        let error = all(200, 200).expect_err("two million nodes would be kept");
        assert!(error.ends_with(EXCESSIVE), "{error}");
    }
}
