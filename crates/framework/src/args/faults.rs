//! What is wrong with args, in the words of Kubernetes.

use std::fmt;

use plimsoll_api::label_syntax::label_key_faults;
use serde::Serialize;

/// What is wrong with one field of args.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgsFault {
    /// The path of the field within the args, such as `resources[0].weight`; empty for the args as a whole.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// The path of a field within args. [`ArgsField::default`] is the args as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgsField(String);

impl ArgsField {
    /// The path of the field `name` of the object at this path.
    pub fn key(&self, name: &str) -> Self {
        let dot = if self.0.is_empty() { "" } else { "." };
        ArgsField(format!("{}{dot}{name}", self.0))
    }

    /// The path of element `index` of the list at this path, counted from 0.
    pub fn index(&self, index: usize) -> Self {
        ArgsField(format!("{}[{index}]", self.0))
    }
}

/// The faults in the args of a plugin. Each method adds a fault, in the words of Kubernetes for that kind of
/// fault.
#[derive(Debug, Default)]
pub struct ArgsFaults(Vec<ArgsFault>);

impl ArgsFaults {
    /// The field must be given.
    pub fn required(&mut self, field: ArgsField, detail: &str) {
        self.report(field, messages::required(detail));
    }

    /// The field must not be given.
    pub fn forbidden(&mut self, field: ArgsField, detail: &str) {
        self.report(field, messages::forbidden(detail));
    }

    /// The field must not have this value.
    pub fn invalid(&mut self, field: ArgsField, value: impl Serialize, detail: &str) {
        self.report(field, messages::invalid(value, detail));
    }

    /// As [`ArgsFaults::invalid`], for a value that is shown without quotes.
    pub fn invalid_shown(&mut self, field: ArgsField, value: impl fmt::Display, detail: &str) {
        self.report(field, messages::invalid_shown(value, detail));
    }

    /// Another element has this value already.
    pub fn duplicate(&mut self, field: ArgsField, value: impl Serialize) {
        self.report(field, messages::duplicate(value));
    }

    /// The value is not among those supported.
    pub fn not_supported(&mut self, field: ArgsField, value: &str, supported: &[&str]) {
        self.report(field, messages::not_supported(value, supported));
    }

    /// Reports why `key` is not a valid label key. Names of resources must be valid label keys, too.
    pub fn label_key(&mut self, key: &str, field: &ArgsField) {
        for fault in label_key_faults(key) {
            self.invalid(field.clone(), key, &fault);
        }
    }

    /// Reports a fault with a message of your own.
    pub fn report(&mut self, field: ArgsField, message: impl Into<String>) {
        self.0.push(ArgsFault { field: field.0, message: message.into() });
    }

    /// All faults, in the order in which they were found.
    pub fn into_vec(self) -> Vec<ArgsFault> {
        self.0
    }
}

/// The messages of apimachinery's field/errors.go. An empty detail adds nothing.
pub mod messages {
    use std::fmt;

    use serde::Serialize;
    use serde_json::Value;

    /// The field must be given.
    pub fn required(detail: &str) -> String {
        with_detail("Required value".to_owned(), detail)
    }

    /// The field must not be given.
    pub fn forbidden(detail: &str) -> String {
        with_detail("Forbidden".to_owned(), detail)
    }

    /// The field must not have this value.
    pub fn invalid(value: impl Serialize, detail: &str) -> String {
        invalid_shown(shown(value), detail)
    }

    /// The same for a value that is shown without quotes.
    pub fn invalid_shown(value: impl fmt::Display, detail: &str) -> String {
        with_detail(format!("Invalid value: {value}"), detail)
    }

    /// Another element has this value already.
    pub fn duplicate(value: impl Serialize) -> String {
        format!("Duplicate value: {}", shown(value))
    }

    /// The value is not among those supported.
    pub fn not_supported(value: &str, supported: &[&str]) -> String {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        format!("Unsupported value: {value:?}: {detail}")
    }

    fn with_detail(text: String, detail: &str) -> String {
        if detail.is_empty() { text } else { format!("{text}: {detail}") }
    }

    fn shown(value: impl Serialize) -> String {
        serde_json::to_value(value).unwrap_or(Value::Null).to_string()
    }
}
