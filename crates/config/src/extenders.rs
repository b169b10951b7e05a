//! Which extenders are valid, the order in which they are called, and the resources that profiles leave to them.

use std::time::Duration;

use plimsoll_document::FieldPath;
use plimsoll_framework::ProfileSpec;
use serde_json::{Value, json};

use crate::configuration::Configuration;
use crate::faults::Faults;
use crate::names::{is_extended_resource, label_key_faults};
use crate::types::Extender;

/// The default of `httpTimeout`. As in extender.go, DefaultExtenderTimeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The plugin that leaves resources to extenders, and the arg that names them.
const FIT: &str = "NodeResourcesFit";
const IGNORED: &str = "ignoredResources";

impl Extender {
    /// How long a call may take: `httpTimeout`, or 5 s if that is not positive. kube-scheduler waits for ever if it is
    /// negative.
    pub fn timeout(&self) -> Duration {
        self.http_timeout.to_std().filter(|span| !span.is_zero()).unwrap_or(DEFAULT_TIMEOUT)
    }
}

impl Configuration {
    /// The extenders in the order in which they are called: ignorable ones come last. As in scheduler.go,
    /// buildExtenders.
    pub fn extenders_in_order(&self) -> Vec<&Extender> {
        let (ignorable, others): (Vec<_>, Vec<_>) =
            self.extenders.iter().partition(|extender| extender.ignorable);
        others.into_iter().chain(ignorable).collect()
    }
}

/// Makes NodeResourcesFit ignore the resources that only extenders manage. As in scheduler.go, buildExtenders, this
/// replaces `ignoredResources` of the plugin's args.
pub(crate) fn leave_resources(extenders: &[Extender], profile: &mut ProfileSpec) {
    let managed = extenders.iter().flat_map(|extender| &extender.managed_resources);
    let ignored = managed.filter(|resource| resource.ignored_by_scheduler);
    let ignored: Vec<&str> = ignored.map(|resource| resource.name.as_str()).collect();
    if ignored.is_empty() {
        return;
    }
    // The plugin refuses args of another form.
    if let Some(Value::Object(args)) = profile.args.get_mut(FIT) {
        args.insert(IGNORED.to_owned(), json!(ignored));
    }
}

/// Reports what is invalid in the extenders.
///
/// As in validation.go, validateExtenders.
pub fn validate(extenders: &[Extender], faults: &mut Faults<'_>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Catalogue, Known, Point, PointSet};
    use crate::types::ManagedResource;
    use plimsoll_framework::GoDuration;

    fn managed(name: &str, ignored_by_scheduler: bool) -> ManagedResource {
        ManagedResource { name: name.to_owned(), ignored_by_scheduler }
    }

    fn configuration(extenders: Vec<Extender>) -> Configuration {
        let catalogue = Catalogue::new(vec![
            Known::new("PrioritySort", PointSet::of(&[Point::QueueSort])),
            Known::new("DefaultBinder", PointSet::of(&[Point::Bind])),
        ]);
        Configuration { extenders, ..Configuration::default_for(&catalogue) }
    }

    #[test]
    fn extenders_that_may_be_ignored_are_called_last() {
        let extender = |url_prefix: &str, ignorable| Extender {
            url_prefix: url_prefix.to_owned(),
            ignorable,
            ..Extender::default()
        };
        let all = vec![extender("a", true), extender("b", false), extender("c", true)];
        let configuration = configuration(all);
        let in_order = configuration.extenders_in_order();
        let names: Vec<_> =
            in_order.iter().map(|one| (one.url_prefix.as_str(), one.ignorable)).collect();
        assert_eq!(names, [("b", false), ("a", true), ("c", true)]);
    }

    #[test]
    fn the_timeout_is_5_seconds_where_none_is_set() {
        for (nanoseconds, expected) in [(0, 5000), (-1, 5000), (100_000_000, 100)] {
            let http_timeout = GoDuration { nanoseconds };
            let extender = Extender { http_timeout, ..Extender::default() };
            assert_eq!(extender.timeout(), Duration::from_millis(expected), "{nanoseconds}");
        }
    }

    #[test]
    fn resources_that_only_extenders_manage_replace_the_ignored_ones_of_the_args() {
        let spec = |args: Value| ProfileSpec {
            args: [(FIT.to_owned(), args)].into(),
            ..ProfileSpec::default()
        };
        let one = Extender {
            managed_resources: vec![managed("a/b", true), managed("a/c", false)],
            ..Extender::default()
        };
        let other =
            Extender { managed_resources: vec![managed("a/d", true)], ..Extender::default() };
        let args = json!({"ignoredResources": ["x/y"], "scoringStrategy": {}});
        let mut profile = spec(args.clone());
        leave_resources(&[Extender::default()], &mut profile);
        assert_eq!(profile, spec(args));
        leave_resources(&[one, other], &mut profile);
        let args = json!({"ignoredResources": ["a/b", "a/d"], "scoringStrategy": {}});
        assert_eq!(profile, spec(args));
    }
}
