//! The forms before v1.

use plimsoll_config::Form;
use plimsoll_config::rules::Rules;
use plimsoll_document::FieldPath;

use super::{v1alpha1, v1alpha2, v1beta1, v1beta2, v1beta3};

/// `kubescheduler.config.k8s.io/v1beta3`, of releases 1.23 to 1.28.
pub const V1BETA3: Form = Form::named("v1beta3");
/// `kubescheduler.config.k8s.io/v1beta2`, of releases 1.22 to 1.27.
pub const V1BETA2: Form = Form::named("v1beta2");
/// `kubescheduler.config.k8s.io/v1beta1`, of releases 1.19 to 1.22.
pub const V1BETA1: Form = Form::named("v1beta1");
/// `kubescheduler.config.k8s.io/v1alpha2`, of releases 1.18 and 1.19.
pub const V1ALPHA2: Form = Form::named("v1alpha2");
/// `kubescheduler.config.k8s.io/v1alpha1` or `componentconfig/v1alpha1`, of releases up to 1.18.
pub const V1ALPHA1: Form = Form::named("v1alpha1");
/// A `Policy` of releases up to 1.22.
pub const POLICY: Form = Form::named("Policy");

/// The form of a file with this `apiVersion`, if that is a version before v1.
pub(super) fn of_version(version: &str) -> Option<Form> {
    Some(match version {
        v1beta3::VERSION => V1BETA3,
        v1beta2::VERSION => V1BETA2,
        v1beta1::VERSION => V1BETA1,
        v1alpha2::VERSION => V1ALPHA2,
        v1alpha1::VERSION | v1alpha1::OLD_VERSION => V1ALPHA1,
        _ => return None,
    })
}

/// The rules of a version before v1; none for other forms.
pub(super) fn rules(form: Form) -> Option<Rules> {
    Some(match form {
        V1BETA3 => v1beta3::rules(),
        V1BETA2 => v1beta2::rules(),
        V1BETA1 => v1beta1::rules(),
        V1ALPHA2 => v1alpha2::rules(),
        V1ALPHA1 => v1alpha1::rules(),
        _ => return None,
    })
}

/// The field of a file of `form` that corresponds to the field of v1 at `path`.
pub fn place(form: Form, path: &FieldPath) -> FieldPath {
    match form {
        V1ALPHA1 => v1alpha1::place(path),
        _ => path.clone(),
    }
}
