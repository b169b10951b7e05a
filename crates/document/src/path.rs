//! The path of a field in a document, written as Kubernetes writes it.

use std::fmt;

use serde_path_to_error::Segment as Tracked;

/// One step of a [`FieldPath`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// Into an object, to the field of this name.
    Key(String),
    /// Into a list, to the element at this index, counted from 0.
    Index(usize),
}

/// The path of a field in a document, from the root.
///
/// Displayed as Kubernetes does: `profiles[0].pluginConfig[2].args.addedAffinity`, with names that are
/// not plain words in brackets, `labels[example.com/x]`. The root displays as an empty text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath {
    segments: Vec<Segment>,
}

impl FieldPath {
    /// The path of the whole document.
    pub fn root() -> Self {
        Self::default()
    }

    /// The path of the field `name` of the object at this path.
    pub fn key(&self, name: impl Into<String>) -> Self {
        self.join(Segment::Key(name.into()))
    }

    /// The path of element `index` of the list at this path, counted from 0.
    pub fn index(&self, index: usize) -> Self {
        self.join(Segment::Index(index))
    }

    /// This path followed by `tail`.
    pub fn concat(&self, tail: &FieldPath) -> Self {
        Self { segments: [self.segments.as_slice(), tail.segments.as_slice()].concat() }
    }

    /// The steps of this path, from the root.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether this is the path of the whole document.
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// The path of the enclosing object or list; none for the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, parent) = self.segments.split_last()?;
        Some(Self { segments: parent.to_vec() })
    }

    fn join(&self, segment: Segment) -> Self {
        let mut segments = Vec::with_capacity(self.segments.len() + 1);
        segments.extend_from_slice(&self.segments);
        segments.push(segment);
        Self { segments }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(name) if !is_word(name) => write!(f, "[{name}]")?,
                Segment::Key(name) if position == 0 => f.write_str(name)?,
                Segment::Key(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

impl FromIterator<Segment> for FieldPath {
    fn from_iter<I: IntoIterator<Item = Segment>>(segments: I) -> Self {
        Self { segments: segments.into_iter().collect() }
    }
}

impl From<&str> for FieldPath {
    /// Parses a path in its displayed form. A number in brackets is an index, anything else a name.
    fn from(text: &str) -> Self {
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some((inner, tail)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
                segments.push(match inner.parse() {
                    Ok(index) => Segment::Index(index),
                    Err(_) => Segment::Key(inner.to_owned()),
                });
                rest = tail;
                continue;
            }
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.char_indices().skip(1).find(|(_, c)| matches!(c, '.' | '['));
            let (name, tail) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
            if !name.is_empty() {
                segments.push(Segment::Key(name.to_owned()));
            }
            rest = tail;
        }
        Self { segments }
    }
}

impl From<&serde_path_to_error::Path> for FieldPath {
    fn from(path: &serde_path_to_error::Path) -> Self {
        path.iter()
            .filter_map(|segment| match segment {
                Tracked::Seq { index } => Some(Segment::Index(*index)),
                Tracked::Map { key } => Some(Segment::Key(key.clone())),
                Tracked::Enum { variant } => Some(Segment::Key(variant.clone())),
                Tracked::Unknown => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_kubernetes_writes_it() {
        let path = FieldPath::root().key("profiles").index(0).key("pluginConfig").index(2);
        assert_eq!(
            path.key("args").key("addedAffinity").to_string(),
            "profiles[0].pluginConfig[2].args.addedAffinity"
        );
        let labels = FieldPath::root().key("metadata").key("labels");
        assert_eq!(labels.key("example.com/x").to_string(), "metadata.labels[example.com/x]");
        assert_eq!(FieldPath::root().to_string(), "");
    }

    #[test]
    fn a_displayed_path_reads_back() {
        for text in ["", "a", "a.b", "a[0]", "[3].a", "a[0][1].b", "labels[example.com/x].y-z"] {
            assert_eq!(FieldPath::from(text).to_string(), text);
        }
    }

    #[test]
    fn the_parent_of_a_field_holds_it() {
        let path = FieldPath::from("a.b[0]");
        assert_eq!(path.parent(), Some(FieldPath::from("a.b")));
        assert_eq!(FieldPath::root().parent(), None);
    }
}
