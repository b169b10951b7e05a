//! What is wrong with an object in a file.

use std::fmt;

use plimsoll_document::DocumentError;

/// What is wrong, and where. Displayed as `FILE:LINE: KIND NAME: FIELD: MESSAGE`, without unknown parts.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The name of the file.
    pub(crate) source_name: String,
    /// The line, counted from 1.
    pub(crate) line: Option<usize>,
    /// Kind and name of the object.
    pub(crate) object: Option<String>,
    /// The field of the object.
    pub(crate) field: Option<String>,
    /// What is wrong, and what to do about it.
    pub(crate) message: String,
}

impl Fault {
    /// A fault of an object, from a text of the form `FIELD: MESSAGE`.
    pub(crate) fn of_field(
        source_name: &str,
        line: Option<usize>,
        object: String,
        why: &str,
    ) -> Self {
        let (field, message) = why.split_once(": ").unwrap_or(("", why));
        Fault {
            source_name: source_name.to_owned(),
            line,
            object: Some(object),
            field: Some(field.to_owned()),
            message: message.to_owned(),
        }
    }
}

impl From<DocumentError> for Fault {
    fn from(error: DocumentError) -> Self {
        let DocumentError { source_name, line, field, message } = error;
        let field = field.map(|field| field.to_string());
        Fault { source_name, line, object: None, field, message }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source_name)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(object) = &self.object {
            write!(f, ": {object}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.message)
    }
}
