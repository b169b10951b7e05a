//! Which args a version of the configuration takes: their kinds, the fields it has, and the defaults that differ from
//! today's.

use plimsoll_document::FieldPath;
use serde_json::Value;

use crate::faults::Faults;
use crate::rules::{ArgsRules, OTHER_PLUGINS_WITH_ARGS, PLUGINS_WITH_ARGS, Rules, Spreading};
use crate::version::{GROUP, not_registered};

impl ArgsRules {
    /// Whether the version takes args for the plugin `name` of 1.36 and ignores them.
    pub(crate) fn ignores(&self, name: &str) -> bool {
        PLUGINS_WITH_ARGS.contains(&name) && !self.known.contains(&name)
    }

    fn has(&self, plugin: &str) -> bool {
        [self.known, self.dropped, &OTHER_PLUGINS_WITH_ARGS].iter().any(|all| all.contains(&plugin))
    }
}

/// Refuses args of another version, or of another plugin.
///
/// As in config/v1/types.go, decodeNestedObjects.
pub(crate) fn check_kind(
    name: &str,
    args: &Value,
    field: &FieldPath,
    rules: &Rules,
    faults: &mut Faults<'_>,
) -> Option<()> {
    let own_kind = format!("{name}Args");
    let own_version = rules.version;
    let text = |key: &str| args.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (version, kind) =
        (text("apiVersion").unwrap_or(own_version), text("kind").unwrap_or(&own_kind));
    let is_registered =
        |kind: &str| kind.strip_suffix("Args").is_some_and(|plugin| rules.args.has(plugin));
    if version != own_version || !is_registered(kind) {
        let message = format!(
            "decoding args for plugin {name}: {}: write `apiVersion: {own_version}` and \
             `kind: {own_kind}`, or leave both out",
            not_registered(kind, version),
        );
        let at_fault = if version == own_version { "kind" } else { "apiVersion" };
        faults.report(field.key(at_fault), message);
        return None;
    }
    if kind != own_kind {
        let message = format!(
            "args for plugin {name} were not of type {own_kind}.{GROUP}, got {kind}.{GROUP}"
        );
        faults.report(field.key("kind"), message);
        return None;
    }
    Some(())
}

/// Refuses fields that the version does not have yet.
pub(crate) fn refuse_lacking(
    name: &str,
    args: &Value,
    field: &FieldPath,
    rules: &Rules,
    faults: &mut Faults<'_>,
) -> Option<()> {
    let before = faults.len();
    for (_, key) in rules.args.lacking.iter().filter(|(plugin, _)| *plugin == name) {
        if args.get(key).is_some_and(|value| !value.is_null()) {
            let version = rules.version.rsplit('/').next().unwrap_or_default();
            let message = format!("unknown field `{key}`: version {version} does not have it");
            faults.report(field.key(*key), message);
        }
    }
    (faults.len() == before).then_some(())
}

/// Sets the defaults of the version that differ from later ones, in the args of the plugin `name`.
pub(crate) fn set_defaults(name: &str, args: &mut Value, rules: &ArgsRules) {
    match name {
        "NodeResourcesFit" if rules.rejects_overcommitted_nodes => {
            args["rejectOvercommittedNodes"] = true.into();
        }
        "PodTopologySpread" => {
            let is_given = args.get("defaultConstraints").is_some();
            let is_said = args["defaultingType"].as_str().is_some_and(|text| !text.is_empty());
            let lists = match rules.spreading {
                Spreading::System => false,
                Spreading::ListIfGiven => is_given,
                Spreading::List => true,
            };
            if lists && !is_said {
                args["defaultingType"] = "List".into();
            }
        }
        _ => {}
    }
}

/// The args without `apiVersion` and `kind`, as a plugin receives them.
pub(crate) fn without_kind(mut args: Value) -> Value {
    if let Value::Object(fields) = &mut args {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    args
}
