//! The form in which a configuration was written.

use std::fmt;

use serde_json::Value;

use crate::faults::ConfigError;

/// What a configuration was before it was resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// The kind and version of the file.
    pub form: Form,
    /// The fields of the file that v1 does not have, each with what happened to it, in the form of errors.
    pub dropped: Vec<ConfigError>,
    /// The priorities of a Policy under its names, in its order; of two entries with one name the last. For a Policy
    /// without `priorities`, the default ones.
    pub priorities: Vec<Priority>,
}

/// A priority of a Policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Priority {
    /// Its name, which the Policy can choose if there is an argument.
    pub name: String,
    /// Its weight, 1 or more.
    pub weight: i64,
    /// Its argument; none for a name that needs none.
    pub argument: Option<Value>,
}

/// The form of a configuration, by the name that messages use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form(&'static str);

impl Form {
    /// `kubescheduler.config.k8s.io/v1`, or no file at all.
    pub const V1: Form = Form("v1");

    /// The form called `name`.
    pub const fn named(name: &'static str) -> Self {
        Form(name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl Origin {
    /// The origin of a configuration of this form that loses nothing.
    pub fn of(form: Form) -> Self {
        Origin { form, ..Origin::default() }
    }
}

impl Default for Form {
    fn default() -> Self {
        Form::V1
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
