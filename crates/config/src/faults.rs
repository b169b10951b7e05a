//! Collects the errors of a configuration, in the words of Kubernetes.

use std::fmt;

use plimsoll_document::{Document, DocumentError, FieldPath};
use plimsoll_framework::args::messages;
use serde::Serialize;

/// What is wrong with a configuration: file, line, field and message.
pub type ConfigError = DocumentError;

/// All errors found so far.
pub struct Faults<'a> {
    /// The file that the fields belong to; none for a configuration without a file.
    document: Option<&'a Document>,
    errors: Vec<ConfigError>,
    /// How many of the errors were found while decoding.
    undecoded: usize,
}

impl<'a> Faults<'a> {
    /// No errors yet, in `document`.
    pub fn new(document: Option<&'a Document>) -> Self {
        Self { document, errors: Vec::new(), undecoded: 0 }
    }

    /// Records what could not be decoded. These fields are missing in what was decoded, so no other error is reported
    /// about them.
    pub fn undecoded(&mut self, errors: Vec<ConfigError>) {
        self.errors.extend(errors);
        self.undecoded = self.errors.len();
    }

    /// Records that a field is missing.
    pub fn required(&mut self, field: FieldPath, detail: &str) {
        self.report(field, messages::required(detail));
    }

    /// Records that the value of a field is not valid.
    pub fn invalid(&mut self, field: FieldPath, value: impl Serialize, detail: &str) {
        self.report(field, messages::invalid(value, detail));
    }

    /// As [`Faults::invalid`], for a value that is shown without quotes.
    pub(crate) fn invalid_shown(
        &mut self,
        field: FieldPath,
        value: impl fmt::Display,
        detail: &str,
    ) {
        self.report(field, messages::invalid_shown(value, detail));
    }

    pub(crate) fn duplicate(&mut self, field: FieldPath, value: impl Serialize) {
        self.report(field, messages::duplicate(value));
    }

    /// Records an error with this message, unless the field could not even be decoded.
    pub fn report(&mut self, field: FieldPath, message: impl Into<String>) {
        let undecoded = &self.errors[..self.undecoded];
        if undecoded.iter().any(|error| error.field.as_ref() == Some(&field)) {
            return;
        }
        self.errors.push(error_at(self.document, field, message));
    }

    /// Whether there are no errors so far.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// How many errors there are so far.
    pub(crate) fn len(&self) -> usize {
        self.errors.len()
    }

    /// All errors, in the order of the file where their lines are known.
    pub fn into_errors(self) -> Vec<ConfigError> {
        let mut errors = self.errors;
        errors.sort_by_key(|error| error.line);
        errors.dedup();
        errors
    }
}

/// An error about `field` of the configuration in `document`.
pub(crate) fn error_at(
    document: Option<&Document>,
    field: FieldPath,
    message: impl Into<String>,
) -> ConfigError {
    match document {
        Some(document) => document.error_at(field, message),
        None => DocumentError::new("the default configuration", message).at_field(field),
    }
}
