//! Errors about objects, with the field they are about.

use std::fmt::{Debug, Display};

/// An object that cannot be read. Prints as `FIELD: MESSAGE`, with the message of the API server's validation if it
/// has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}{}{message}", if field.is_empty() { "" } else { ": " })]
pub struct WireError {
    /// The path of the field, such as `spec.containers[0].resources.requests[cpu]`; empty if the
    /// input is not an object at all.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

pub(super) type Result<T> = std::result::Result<T, WireError>;

impl WireError {
    /// An error about `field`.
    pub(super) fn new(field: &str, message: impl Into<String>) -> Self {
        WireError { field: field.to_owned(), message: message.into() }
    }

    /// `field` has a `value` that is not allowed.
    pub(super) fn invalid(field: &str, value: impl Debug, why: impl Display) -> Self {
        WireError::new(field, format!("Invalid value: {value:?}: {why}"))
    }

    /// `field` has a value that is not among those supported.
    pub(super) fn unsupported(field: &str, value: &str, words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        let words = words.join(", ");
        WireError::new(field, format!("Unsupported value: {value:?}: supported values: {words}"))
    }

    /// `field` must be given.
    pub(super) fn required(field: &str, why: impl Display) -> Self {
        WireError::new(field, format!("Required value: {why}"))
    }

    /// The object has no name.
    pub(crate) fn nameless() -> Self {
        WireError::required("metadata.name", "give the object a name; none is generated")
    }

    /// `field` must not be given.
    pub(super) fn forbidden(field: &str, why: impl Display) -> Self {
        WireError::new(field, format!("Forbidden: {why}"))
    }

    /// The same error, with `outer` in front of the path.
    pub(super) fn under(mut self, outer: &str) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field = format!("{outer}{dot}{}", self.field);
        self
    }
}

/// Adds the outer fields to the path of an error.
pub(super) trait Within {
    /// The error is in `field`.
    fn within(self, field: &str) -> Self;
    /// The error is in item `index` of `field`.
    fn within_item(self, field: &str, index: usize) -> Self;
}

impl<T> Within for Result<T> {
    fn within(self, field: &str) -> Self {
        self.map_err(|error| error.under(field))
    }

    fn within_item(self, field: &str, index: usize) -> Self {
        self.map_err(|error| error.under(&format!("{field}[{index}]")))
    }
}

/// Converts all `items` of `field`.
pub(super) fn each<T, U>(
    field: &str,
    items: impl IntoIterator<Item = T>,
    mut convert: impl FnMut(T) -> Result<U>,
) -> Result<Vec<U>> {
    let items = items.into_iter().enumerate();
    items.map(|(index, item)| convert(item).within_item(field, index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_whole_path_of_its_field() {
        let error: Result<()> = Err(WireError::required("key", "say which"));
        let error = error.within_item("tolerations", 2).within("spec").unwrap_err();
        assert_eq!(error.to_string(), "spec.tolerations[2].key: Required value: say which");
        assert_eq!(WireError::new("", "no object").to_string(), "no object");
        assert_eq!(WireError::new("[cpu]", "bad").under("requests").field, "requests[cpu]");
    }
}
