//! The form in which a configuration was written.

use std::fmt;

use plimsoll_document::FieldPath;
use serde_json::Value;

use crate::faults::ConfigError;
use crate::legacy::{self, Provider};

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

/// The kind and version of a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// `kubescheduler.config.k8s.io/v1`, or no file at all.
    #[default]
    V1,
    /// `kubescheduler.config.k8s.io/v1beta3`, of releases 1.23 to 1.28.
    V1beta3,
    /// `kubescheduler.config.k8s.io/v1beta2`, of releases 1.22 to 1.27.
    V1beta2,
    /// `kubescheduler.config.k8s.io/v1beta1`, of releases 1.19 to 1.22.
    V1beta1,
    /// `kubescheduler.config.k8s.io/v1alpha2`, of releases 1.18 and 1.19.
    V1alpha2,
    /// `kubescheduler.config.k8s.io/v1alpha1` or `componentconfig/v1alpha1`, of releases up to 1.18.
    V1alpha1,
    /// An algorithm provider of release 1.20.
    Provider(Provider),
    /// A `Policy` of releases up to 1.22.
    Policy,
}

impl Origin {
    /// The origin of a configuration of this form that loses nothing.
    pub fn of(form: Form) -> Self {
        Origin { form, ..Origin::default() }
    }

    /// The field of the file that corresponds to the field of v1 at `path`.
    pub fn place(&self, path: &FieldPath) -> FieldPath {
        legacy::place(self.form, path)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::V1 => "v1",
            Form::V1beta3 => "v1beta3",
            Form::V1beta2 => "v1beta2",
            Form::V1beta1 => "v1beta1",
            Form::V1alpha2 => "v1alpha2",
            Form::V1alpha1 => "v1alpha1",
            Form::Provider(provider) => provider.name(),
            Form::Policy => "Policy",
        })
    }
}
