//! Translates a file of a version before v1 into the fields of v1.
//!
//! Fields that v1 does not have are removed or moved to where v1 has them; fields that the version does not have yet
//! are refused. Errors keep the lines of the file.

use plimsoll_config::{ConfigError, Faults, Form, Origin};
use plimsoll_document::{Document, FieldPath, Segment};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::fields::{self, FieldRules};
use super::form::{V1ALPHA1, V1ALPHA2};
use super::provider::Provider;
use super::source::{AlgorithmSource, PolicyReader};

/// A file in the fields of v1.
pub(super) struct Reading {
    pub(super) document: Document,
    pub(super) origin: Origin,
    /// The provider that the file names.
    pub(super) provider: Option<Provider>,
}

/// Reads a file of `form`. Its errors go to `faults`.
pub(super) fn read(
    document: &Document,
    form: Form,
    policy: PolicyReader,
    faults: &mut Faults<'_>,
) -> Reading {
    let mut reader =
        Reader { document: document.clone(), form, dropped: Vec::new(), provider: None, faults };
    reader.refuse_unknown(&fields::rules(form));
    reader.drop_addresses();
    match form {
        V1ALPHA1 => {
            reader.read_source(policy);
            reader.rename_locks();
            reader.gather_profile();
            reader.rename_plugins();
        }
        V1ALPHA2 => {
            reader.rename_plugins();
            reader.read_extenders();
        }
        _ => {}
    }
    if matches!(form, V1ALPHA1 | V1ALPHA2) {
        reader.move_into_args("hardPodAffinitySymmetricWeight", &HARD_POD_AFFINITY);
        reader.move_into_args("bindTimeoutSeconds", &BIND_TIMEOUT);
        reader.read_disable_preemption();
        reader.ignore_case();
    }
    reader.note_lock();
    let Reader { document, mut dropped, provider, .. } = reader;
    dropped.sort_by_key(|note| note.line);
    Reading { document, origin: Origin { dropped, ..Origin::of(form) }, provider }
}

struct Reader<'f, 'd> {
    document: Document,
    form: Form,
    dropped: Vec<ConfigError>,
    provider: Option<Provider>,
    faults: &'f mut Faults<'d>,
}

/// A top-level field that is an arg of a plugin in v1.
struct Moved {
    plugin: &'static str,
    arg: &'static str,
    is_valid: fn(i64) -> bool,
    rule: &'static str,
}

/// As in validation.go of 1.18, ValidateKubeSchedulerConfiguration.
const HARD_POD_AFFINITY: Moved = Moved {
    plugin: "InterPodAffinity",
    arg: "hardPodAffinityWeight",
    is_valid: |weight| (0..=100).contains(&weight),
    rule: "not in valid range [0-100]",
};
const BIND_TIMEOUT: Moved = Moved {
    plugin: "VolumeBinding",
    arg: "bindTimeoutSeconds",
    is_valid: |seconds| 0 <= seconds,
    rule: "invalid BindTimeoutSeconds, should not be a negative value",
};

impl Reader<'_, '_> {
    /// Reports the fields that v1 has and this version does not.
    fn refuse_unknown(&mut self, rules: &FieldRules) {
        let form = self.form;
        let root = FieldPath::root();
        for key in rules.lacks {
            self.refuse(&root.key(*key), form);
        }
        let mut profiles: Vec<FieldPath> =
            (0..self.count("profiles")).map(|index| root.key("profiles").index(index)).collect();
        if form == V1ALPHA1 {
            profiles = vec![root];
        }
        for profile in profiles {
            for key in rules.profile_lacks {
                self.refuse(&profile.key(*key), form);
            }
            for key in rules.point_lacks {
                self.refuse(&profile.key("plugins").key(*key), form);
            }
            if rules.has_unreserve {
                let message =
                    "is dropped: since 1.20 a plugin at reserve also releases what it reserved";
                self.drop_field(&profile.key("plugins").key("unreserve"), message);
            }
        }
    }

    fn refuse(&mut self, field: &FieldPath, form: Form) {
        if self.take(field).is_some() {
            let name = field.to_string();
            let name = name.rsplit('.').next().unwrap_or_default();
            let message = format!("unknown field `{name}`: version {form} does not have it");
            self.faults.report(field.clone(), message);
        }
    }

    /// Removes the addresses on which health and metrics were served.
    fn drop_addresses(&mut self) {
        for key in fields::rules(self.form).dropped {
            let field = FieldPath::root().key(*key);
            let _ = self.decode::<String>(&field);
            self.drop_field(&field, fields::fate(key));
        }
    }

    /// Reads the algorithm provider.
    fn read_source(&mut self, reader: PolicyReader) {
        let field = FieldPath::root().key("algorithmSource");
        let source: AlgorithmSource = self.decode(&field).unwrap_or_default();
        self.provider = source.provider(&field, reader, self.faults);
        if self.take(&field).is_none() {
            return;
        }
        if self.provider.is_some() {
            self.drop(&field, "is dropped: v1 lists the plugins of the provider");
        } else if source.is_policy() {
            self.drop(&field, "is dropped: v1 lists the plugins of the Policy");
        }
    }

    /// As in v1alpha1/conversion.go,
    /// Convert_v1alpha1_KubeSchedulerLeaderElectionConfiguration_To_config_KubeSchedulerLeaderElectionConfiguration.
    fn rename_locks(&mut self) {
        let election = FieldPath::root().key("leaderElection");
        for (old, new, old_name, new_name) in [
            (
                "lockObjectNamespace",
                "resourceNamespace",
                "LockObjectNamespace",
                "ResourceNamespace",
            ),
            ("lockObjectName", "resourceName", "LockObjectName", "ResourceName"),
        ] {
            let field = election.key(old);
            let value: Option<String> = self.decode(&field);
            self.take(&field);
            let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
            let other: String = self.decode(&election.key(new)).unwrap_or_default();
            if !other.is_empty() && other != value {
                let message = format!(
                    "{new_name} and {old_name} are both set and do not match, {new_name}: {other}, \
                     {old_name}: {value}"
                );
                self.faults.report(field, message);
                continue;
            }
            self.drop(&field, &format!("is called {new} in v1"));
            if let Some(Value::Object(fields)) = self.document.value.get_mut("leaderElection") {
                fields.insert(new.to_owned(), value.into());
            }
        }
    }

    /// Makes a profile from the top-level fields.
    fn gather_profile(&mut self) {
        let mut profile = Map::new();
        for key in ["schedulerName", "plugins", "pluginConfig"] {
            if let Some(value) = self.take(&FieldPath::root().key(key)) {
                profile.insert(key.to_owned(), value);
            }
        }
        if let Some(Value::Object(plugins)) = profile.get_mut("plugins")
            && let Some(set) = plugins.remove("postFilter")
        {
            plugins.insert("preScore".to_owned(), set);
        }
        if let Value::Object(fields) = &mut self.document.value {
            fields.insert("profiles".to_owned(), json!([profile]));
        }
    }

    /// Renames DefaultPodTopologySpread to SelectorSpread.
    fn rename_plugins(&mut self) {
        let mut renamed = false;
        for profile in self.profiles() {
            let sets = profile.get_mut("plugins").and_then(Value::as_object_mut);
            let lists = sets
                .into_iter()
                .flat_map(Map::values_mut)
                .flat_map(|set| set.as_object_mut().into_iter().flat_map(Map::values_mut));
            let entries = lists.filter_map(Value::as_array_mut).flatten();
            for entry in entries {
                if entry["name"] == "DefaultPodTopologySpread" {
                    entry["name"] = "SelectorSpread".into();
                    renamed = true;
                }
            }
        }
        if renamed {
            let message = "plugin DefaultPodTopologySpread is called SelectorSpread since 1.19";
            let key = if self.form == V1ALPHA1 { "plugins" } else { "profiles" };
            self.drop(&FieldPath::root().key(key), message);
        }
    }

    /// Translates the spellings of extenders that 1.18 also accepted.
    fn read_extenders(&mut self) {
        let extenders = self.document.value.get_mut("extenders").and_then(Value::as_array_mut);
        for extender in extenders.into_iter().flatten().filter_map(Value::as_object_mut) {
            if let Some(value) = extender.remove("enableHttps") {
                extender.insert("enableHTTPS".to_owned(), value);
            }
            if let Some(nanoseconds) = extender.get("httpTimeout").and_then(Value::as_i64) {
                extender.insert("httpTimeout".to_owned(), format!("{nanoseconds}ns").into());
            }
        }
    }

    /// Moves a top-level number to the args of a plugin, where v1 has it.
    fn move_into_args(&mut self, key: &str, moved: &Moved) {
        let Moved { plugin, arg, is_valid, rule } = *moved;
        let field = FieldPath::root().key(key);
        let number: Option<i64> = self.decode(&field);
        self.take(&field);
        let Some(number) = number else { return };
        if !is_valid(number) {
            self.faults.invalid(field, number, rule);
            return;
        }
        for profile in self.profiles() {
            let configs = profile.entry("pluginConfig").or_insert_with(|| json!([]));
            let Some(configs) = configs.as_array_mut() else { continue };
            if !configs.iter().any(|entry| entry["name"] == plugin) {
                configs.push(json!({"name": plugin}));
            }
            let entry = configs.iter_mut().find(|entry| entry["name"] == plugin);
            let args = entry.and_then(Value::as_object_mut);
            let args = args.map(|entry| entry.entry("args").or_insert_with(|| json!({})));
            if let Some(Value::Object(args)) = args {
                args.entry(arg).or_insert(number.into());
            }
        }
        self.drop(&field, &format!("is {arg} in the args of {plugin} in v1"));
    }

    fn read_disable_preemption(&mut self) {
        let field = FieldPath::root().key("disablePreemption");
        let is_disabled: bool = self.decode(&field).unwrap_or_default();
        if self.take(&field).is_none() {
            return;
        }
        if is_disabled {
            for profile in self.profiles() {
                let plugins = profile.entry("plugins").or_insert_with(|| json!({}));
                if let Value::Object(plugins) = plugins {
                    let none = json!({"disabled": [{"name": "*"}]});
                    plugins.insert("postFilter".to_owned(), none);
                }
            }
            self.drop(&field, "is expressed in v1 by disabling all plugins at postFilter");
        } else {
            self.drop(&field, "is dropped: v1 does the same by default");
        }
    }

    /// As in v1alpha2/types_pluginargs.go, UnmarshalJSON of UtilizationShapePoint and ResourceSpec.
    fn ignore_case(&mut self) {
        for profile in self.profiles() {
            let configs = profile.get_mut("pluginConfig").and_then(Value::as_array_mut);
            for config in configs.into_iter().flatten() {
                for list in ["shape", "resources"] {
                    let list = config.pointer_mut(&format!("/args/{list}"));
                    for entry in list.and_then(Value::as_array_mut).into_iter().flatten() {
                        lower_keys(entry);
                    }
                }
            }
        }
    }

    fn note_lock(&mut self) {
        let field = FieldPath::root().key("leaderElection").key("resourceLock");
        let lock = self.document.get(&field).and_then(Value::as_str).unwrap_or_default();
        if !matches!(lock, "" | "leases") {
            let message = format!(
                "is \"leases\" in v1, which no longer has {lock:?}: replicas with different locks \
                 do not see each other, so stop the old ones before you start the new"
            );
            self.drop(&field, &message);
        }
    }

    /// The profiles, at least one.
    fn profiles(&mut self) -> impl Iterator<Item = &mut Map<String, Value>> {
        let is_empty = self.count("profiles") == 0;
        if let Value::Object(fields) = &mut self.document.value
            && is_empty
            && fields.get("profiles").is_none_or(|value| value.is_null() || value.is_array())
        {
            fields.insert("profiles".to_owned(), json!([{}]));
        }
        let profiles = self.document.value.get_mut("profiles").and_then(Value::as_array_mut);
        profiles.into_iter().flatten().filter_map(Value::as_object_mut)
    }

    fn count(&self, key: &str) -> usize {
        self.document.value.get(key).and_then(Value::as_array).map_or(0, Vec::len)
    }

    fn decode<T: DeserializeOwned>(&mut self, field: &FieldPath) -> Option<T> {
        self.document.get(field).filter(|value| !value.is_null())?;
        let (value, errors) = self.document.decode_all(field);
        self.faults.undecoded(errors);
        value
    }

    /// Removes a field; none if it is not there.
    fn take(&mut self, field: &FieldPath) -> Option<Value> {
        let (key, parent) = field.segments().split_last()?;
        let Segment::Key(key) = key else { return None };
        let pointer: String = parent
            .iter()
            .map(|segment| match segment {
                Segment::Key(key) => format!("/{key}"),
                Segment::Index(index) => format!("/{index}"),
            })
            .collect();
        self.document.value.pointer_mut(&pointer)?.as_object_mut()?.remove(key)
    }

    fn drop_field(&mut self, field: &FieldPath, fate: &str) {
        if self.take(field).is_some() {
            self.drop(field, fate);
        }
    }

    fn drop(&mut self, field: &FieldPath, fate: &str) {
        self.dropped.push(self.document.error_at(field.clone(), fate));
    }
}

/// Spells the keys of a shape point or a resource as v1 does.
fn lower_keys(entry: &mut Value) {
    let Value::Object(fields) = entry else { return };
    for key in ["utilization", "score", "name", "weight"] {
        let found = fields.keys().find(|other| other.eq_ignore_ascii_case(key)).cloned();
        if let Some(value) = found.and_then(|found| fields.remove(&found)) {
            fields.insert(key.to_owned(), value);
        }
    }
}
