//! `algorithmSource` of v1alpha1: an algorithm provider by name, or a Policy somewhere else.

use plimsoll_config::Faults;
use plimsoll_document::FieldPath;
use serde::Deserialize;

use super::policy::NAMESPACE;
use super::provider::Provider;

/// Who reads the file or the ConfigMap with the Policy that a configuration names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyReader {
    /// Nobody: to name one is an error.
    Nobody,
    /// The caller, who adds the Policy afterwards.
    Caller,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub(super) struct AlgorithmSource {
    policy: Option<PolicySource>,
    provider: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
struct PolicySource {
    file: Option<PolicyFile>,
    config_map: Option<PolicyConfigMap>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
struct PolicyFile {
    path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
struct PolicyConfigMap {
    namespace: String,
    name: String,
}

impl AlgorithmSource {
    /// Whether the source is a Policy in a file or a ConfigMap.
    pub(super) fn is_policy(&self) -> bool {
        let named = |policy: &PolicySource| {
            policy.file.is_some()
                || policy.config_map.as_ref().is_some_and(|map| !map.name.is_empty())
        };
        self.policy.as_ref().is_some_and(named)
    }

    /// The provider that the source at `field` names. If nobody reads the Policy, this is reported, with what to do
    /// instead.
    pub(super) fn provider(
        &self,
        field: &FieldPath,
        reader: PolicyReader,
        faults: &mut Faults<'_>,
    ) -> Option<Provider> {
        if let Some(policy) = &self.policy {
            if !(self.is_policy() && reader == PolicyReader::Caller) {
                policy.report(&field.key("policy"), faults);
            }
            return None;
        }
        let name = self.provider.as_deref().filter(|name| !name.is_empty())?;
        match name.parse() {
            Ok(provider) => Some(provider),
            Err(error) => {
                let error: super::provider::ProviderError = error;
                faults.report(field.key("provider"), error.to_string());
                None
            }
        }
    }
}

impl PolicySource {
    fn report(&self, field: &FieldPath, faults: &mut Faults<'_>) {
        if let Some(file) = &self.file {
            let path = &file.path;
            let message =
                format!("the Policy is in another file: give {path:?} itself as the configuration");
            faults.report(field.key("file").key("path"), message);
        } else if let Some(PolicyConfigMap { namespace, name }) = &self.config_map {
            let namespace = if namespace.is_empty() { NAMESPACE } else { namespace };
            if name.is_empty() {
                faults
                    .required(field.key("configMap").key("name"), "write the name of a ConfigMap");
                return;
            }
            let message = format!(
                "the Policy is in ConfigMap {namespace}/{name}: save its key policy.cfg to a \
                 file, and give that file as the configuration"
            );
            faults.report(field.key("configMap").key("name"), message);
        } else {
            let message = "names neither a file nor a configMap: give the Policy itself as the \
                           configuration, or name a provider";
            faults.report(field.clone(), message);
        }
    }
}
