//! Reads a file of any form.

use plimsoll_config::{
    Catalogue, ConfigError, Configuration, Faults, Form, load_with, read, version,
};
use plimsoll_document::{Document, FieldPath};
use serde_json::Value;

use super::form::{V1ALPHA1, of_version, place, rules};
use super::migrate;
use super::policy;
use super::provider::Provider;
use super::reading::{self, Reading};
use super::source::PolicyReader;

/// Reads the configuration in `text`, the content of the file `source_name`: a
/// KubeSchedulerConfiguration, a Policy, or a ConfigMap with a Policy under `policy.cfg`.
///
/// The errors are all that were found, in the order of their lines.
pub fn load(
    source_name: &str,
    text: &str,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    load_first(source_name, text, PolicyReader::Nobody, catalogue)
}

/// Where to find the Policy that a configuration of version v1alpha1 names in `algorithmSource`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyPlace {
    /// In the file of this path.
    File(String),
    /// In a ConfigMap, under `policy.cfg`.
    ConfigMap {
        /// The namespace of the ConfigMap; `kube-system` if none is given.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Where to find the Policy that a configuration of version v1alpha1 names in `algorithmSource`, if it names one.
///
/// [`load`] refuses such a configuration, since it reads only one file. A caller that can read the Policy calls
/// [`load_beside_policy`] and then [`with_policy`](super::with_policy).
pub fn policy_place(document: &Document) -> Option<PolicyPlace> {
    let form = version::form_of(document, of_version, &mut Faults::new(None))?;
    let policy = FieldPath::root().key("algorithmSource").key("policy");
    let policy = document.get(&policy).filter(|_| form == V1ALPHA1)?;
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    if let Some(path) = text(&policy["file"]["path"]) {
        return Some(PolicyPlace::File(path));
    }
    let map = &policy["configMap"];
    let namespace = text(&map["namespace"]).unwrap_or_else(|| policy::NAMESPACE.to_owned());
    Some(PolicyPlace::ConfigMap { namespace, name: text(&map["name"])? })
}

/// Reads a configuration as [`load`] does, except for its plugins: it may name a Policy that is somewhere else, which
/// [`policy_place`] finds.
///
/// The errors are all that were found, in the order of their lines.
pub fn load_beside_policy(
    source_name: &str,
    text: &str,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    load_first(source_name, text, PolicyReader::Caller, catalogue)
}

/// Reads the first document.
fn load_first(
    source_name: &str,
    text: &str,
    reader: PolicyReader,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    load_with(source_name, text, |document| match policy::is_policy(document) {
        true => policy::load(document, catalogue),
        false => from_document(document, reader, None, catalogue),
    })
}

/// Reads a KubeSchedulerConfiguration whose plugins are applied on top of those of `provider`, even if it names another
/// provider.
pub(super) fn upon_provider(
    document: &Document,
    provider: Provider,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    from_document(document, PolicyReader::Caller, Some(provider), catalogue)
}

/// Reads a KubeSchedulerConfiguration, on top of `provider` if there is one.
fn from_document(
    document: &Document,
    reader: PolicyReader,
    provider: Option<Provider>,
    catalogue: &Catalogue,
) -> Result<Configuration, Vec<ConfigError>> {
    let mut faults = Faults::new(Some(document));
    let Some(form) = version::form_of(document, of_version, &mut faults) else {
        return Err(faults.into_errors());
    };
    let Some(mut rules) = rules(form) else { return read(document, catalogue) };
    let Reading { document: translated, origin, provider: named } =
        reading::read(document, form, reader, &mut faults);
    if let Some(provider) = provider.or(named) {
        provider.apply_to(&mut rules);
    }
    let resolved = Configuration::resolve(&translated, &rules, origin, catalogue, faults);
    let mut configuration = resolved.map_err(|errors| placed(errors, form, document))?;
    configuration.warnings = placed(configuration.warnings, form, document);
    migrate::write_profiles(&mut configuration, catalogue);
    Ok(configuration)
}

/// The errors with the fields and lines of the file.
fn placed(errors: Vec<ConfigError>, form: Form, document: &Document) -> Vec<ConfigError> {
    let place = |error: ConfigError| match &error.field {
        Some(field) if place(form, field) != *field => {
            document.error_at(place(form, field), error.message)
        }
        _ => error,
    };
    let mut errors: Vec<_> = errors.into_iter().map(place).collect();
    errors.sort_by_key(|error| error.line);
    errors
}
