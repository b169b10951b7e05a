//! Which extenders are valid.

use plimsoll_document::FieldPath;

use crate::faults::Faults;
use crate::names::{is_extended_resource, label_key_faults};
use crate::types::Extender;

/// Reports what is invalid in the extenders.
///
/// As in validation.go, validateExtenders.
pub(crate) fn validate(extenders: &[Extender], faults: &mut Faults<'_>) {
    let field = FieldPath::root().key("extenders");
    let mut managed: Vec<&str> = Vec::new();
    for (index, extender) in extenders.iter().enumerate() {
        let field = field.index(index);
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            let rule = "must have a positive weight applied to it";
            faults.invalid(field.key("weight"), extender.weight, rule);
        }
        for (index, resource) in extender.managed_resources.iter().enumerate() {
            let field = field.key("managedResources").index(index).key("name");
            let name = resource.name.as_str();
            validate_resource(name, &field, faults);
            if managed.contains(&name) {
                faults.invalid(field, name, "duplicate extender managed resource name");
            }
            managed.push(name);
        }
    }
    let binders = extenders.iter().filter(|extender| !extender.bind_verb.is_empty()).count();
    if 1 < binders {
        let value = format!("found {binders} extenders implementing bind");
        faults.invalid(field, value, "only one extender can implement bind");
    }
}

fn validate_resource(name: &str, field: &FieldPath, faults: &mut Faults<'_>) {
    let name_faults = label_key_faults(name);
    if name_faults.is_empty() && !is_extended_resource(name) {
        faults.invalid(field.clone(), name, "is an invalid extended resource name");
    }
    for fault in name_faults {
        faults.invalid(field.clone(), name, &fault);
    }
}
