//! Errors in documents.

use std::fmt;

use crate::path::FieldPath;

/// An error in a document, with its position and message.
///
/// Displayed as `FILE:LINE: FIELD: message`, parts that are unknown left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DocumentError {
    /// The name of the file, as it was given to the parser.
    pub source_name: String,
    /// The line of the fault, counted from 1.
    pub line: Option<usize>,
    /// The field at fault.
    pub field: Option<FieldPath>,
    /// What is wrong, and how to fix it if that is known.
    pub message: String,
}

impl DocumentError {
    /// A fault of the whole file `source_name`.
    pub fn new(source_name: &str, message: impl Into<String>) -> Self {
        Self {
            source_name: source_name.to_owned(),
            line: None,
            field: None,
            message: message.into(),
        }
    }

    /// The same fault on line `line`, counted from 1.
    pub fn on_line(self, line: usize) -> Self {
        Self { line: Some(line), ..self }
    }

    /// The same fault at the field `field`; the root of the document counts as no field.
    pub fn at_field(self, field: FieldPath) -> Self {
        Self { field: (!field.is_root()).then_some(field), ..self }
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source_name)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_what_is_known() {
        let error = DocumentError::new("a.yaml", "is broken");
        assert_eq!(error.to_string(), "a.yaml: is broken");
        let error = error.on_line(3);
        assert_eq!(error.to_string(), "a.yaml:3: is broken");
        let error = error.at_field(FieldPath::from("spec.name"));
        assert_eq!(error.to_string(), "a.yaml:3: spec.name: is broken");
    }
}
