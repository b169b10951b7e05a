//! The configuration of a command line, and the file that contains it.

use std::path::Path;

use anyhow::{Result, bail};
use plimsoll_api::ObjectKey;
use plimsoll_config::{Catalogue, ClientConnection, Configuration};
use plimsoll_document::{Document, FieldPath};
use plimsoll_legacy::config::{
    PolicyPlace, Provider, load, load_beside_policy, load_config_map, load_policy, policy_place,
    rename_profile, set_hard_pod_affinity_weight, with_policy, with_provider,
};

use crate::deprecated::{Deprecated, PolicySource, no_effect};
use crate::faults::Faults;
use crate::input::{self, STDIN, Source};
use crate::{args, notices};

/// A configuration that is valid.
pub(crate) struct Given {
    pub(crate) configuration: Configuration,
    /// Where it was read; none for the default one.
    pub(crate) place: Option<Place>,
    /// The ConfigMap of the cluster that contains the Policy, if there is one.
    pub(crate) config_map: Option<ObjectKey>,
}

/// Where a configuration is.
pub(crate) struct Place {
    pub(crate) document: Document,
    /// The field that contains it: the root, except for a Policy in a ConfigMap.
    pub(crate) at: FieldPath,
}

impl Given {
    /// The configuration in `file`, with the Policy that it names: in a file if that exists, whose path is relative to
    /// the working directory as in kube-scheduler, or in a ConfigMap of `sources`.
    pub(crate) fn read(file: &Path, sources: &[Source], catalogue: &Catalogue) -> Result<Self> {
        let Source { name, text } = Source::read(file)?;
        let place = Place::of(&name, &text)?;
        let policy = match place.as_ref().and_then(|place| policy_place(&place.document)) {
            Some(PolicyPlace::File(policy)) if Path::new(&policy).is_file() => {
                Some(Given::read_policy(Path::new(&policy), catalogue)?)
            }
            Some(PolicyPlace::ConfigMap { namespace, name: map }) => {
                let key = ObjectKey::new(namespace, map);
                let named_by = "algorithmSource.policy.configMap.namespace";
                let policy = Given::read_config_map(key, sources, named_by, catalogue);
                Some(policy.map_err(|error| at_config_map(error, place.as_ref()))?)
            }
            Some(PolicyPlace::File(_)) | None => None,
        };
        if let Some(policy) = policy {
            let configuration =
                load_beside_policy(&name, &text, catalogue).map_err(Faults::from)?;
            return Given { configuration, place, config_map: None }.with_policy(policy);
        }
        let configuration = load(&name, &text, catalogue).map_err(Faults::from)?;
        Ok(Given { configuration, place, config_map: None })
    }

    /// The configuration in a text. It may not name a Policy that is somewhere else.
    pub(crate) fn of_source(source: &Source, catalogue: &Catalogue) -> Result<Self> {
        let Source { name, text } = source;
        let configuration = load(name, text, catalogue).map_err(Faults::from)?;
        Ok(Given { configuration, place: Place::of(name, text)?, config_map: None })
    }

    /// The Policy in `file`.
    fn read_policy(file: &Path, catalogue: &Catalogue) -> Result<Self> {
        let Source { name, text } = Source::read(file)?;
        let configuration = load_policy(&name, &text, catalogue).map_err(Faults::from)?;
        Ok(Given { configuration, place: Place::of(&name, &text)?, config_map: None })
    }

    /// The Policy in the ConfigMap `key` of `sources`. `named_by` is the flag or field with its namespace.
    fn read_config_map(
        key: ObjectKey,
        sources: &[Source],
        named_by: &str,
        catalogue: &Catalogue,
    ) -> Result<Self> {
        let (document, at) = input::config_map(sources, &key, named_by)?;
        let configuration = load_config_map(&document, &at, catalogue).map_err(Faults::from)?;
        let place = Some(Place { at: value_of(&at), document });
        Ok(Given { configuration, place, config_map: Some(key) })
    }

    /// The configuration of `config check` and `config migrate`: a file, or else an algorithm provider, or else the
    /// default one.
    pub(crate) fn of(subject: &args::Subject, catalogue: &Catalogue) -> Result<Self> {
        let configuration = match (&subject.file, &subject.algorithm_provider) {
            (Some(file), _) => {
                return Given::read(file, &input::read(&subject.manifests)?, catalogue);
            }
            (None, Some(provider)) => provider.parse::<Provider>()?.configuration(catalogue),
            (None, None) => Configuration::default_for(catalogue),
        };
        Ok(Given { configuration, place: None, config_map: None })
    }

    /// The configuration of a command line, changed as its deprecated flags say.
    pub(crate) fn choose(
        args: &args::Cluster,
        sources: &[Source],
        catalogue: &Catalogue,
    ) -> Result<Self> {
        args.deprecated.tell();
        let config = args.config.as_deref();
        let file = config.map(|file| Given::read(file, sources, catalogue)).transpose()?;
        let holds_policy = file.as_ref().is_some_and(Given::is_policy);
        let policy = Given::policy(&args.deprecated, sources, catalogue)?;
        let decides = Decides {
            configuration: file.is_some() && !holds_policy,
            policy: holds_policy || policy.is_some(),
        };
        let provider = args.deprecated.algorithm_provider.as_deref();
        let provider = provider.map(str::parse::<Provider>).transpose()?;
        let mut given = match (file, policy) {
            (Some(file), Some(policy)) => file.with_policy(policy)?,
            (Some(file), None) if !holds_policy => file.with_provider(provider, catalogue)?,
            (Some(policy), None) | (None, Some(policy)) => {
                if provider.is_some() {
                    no_effect("algorithm-provider", "a Policy takes precedence");
                }
                policy
            }
            (None, None) => {
                let configuration = match provider {
                    Some(provider) => provider.configuration(catalogue),
                    None => Configuration::default_for(catalogue),
                };
                Given { configuration, place: None, config_map: None }
            }
        };
        given.apply(&args.deprecated, &decides);
        if let Some(provider) = Provider::of(given.configuration.origin.form) {
            for plugin in &given.configuration.profiles[0].unavailable {
                let name = provider.name();
                let message =
                    format!("plugin {plugin} of {name} is not available yet: it is left out");
                notices::warning(message);
            }
        }
        Ok(given)
    }

    /// The Policy that the flags name.
    fn policy(
        deprecated: &Deprecated,
        sources: &[Source],
        catalogue: &Catalogue,
    ) -> Result<Option<Self>> {
        Ok(match deprecated.policy() {
            None => None,
            Some(PolicySource::File(file)) => Some(Given::read_policy(file, catalogue)?),
            Some(PolicySource::ConfigMap(key)) => {
                let named_by = "--policy-configmap-namespace";
                Some(Given::read_config_map(key, sources, named_by, catalogue)?)
            }
        })
    }

    /// As in kube-scheduler, a Policy replaces plugins that are not configured.
    fn with_policy(self, policy: Self) -> Result<Self> {
        let Some(place) = &self.place else { return Ok(policy) };
        if self.is_policy() {
            let name = place.document.source();
            bail!(
                "{name}: holds a Policy already: leave out --config, or the flag that names another"
            )
        }
        let configuration =
            with_policy(self.configuration, &place.document, &policy.configuration)?;
        Ok(Given { configuration, ..policy })
    }

    /// The same for a provider, except that old configurations may add plugins to it.
    fn with_provider(self, provider: Option<Provider>, catalogue: &Catalogue) -> Result<Self> {
        Ok(match (provider, self) {
            (Some(provider), Given { configuration, place: Some(place), config_map }) => {
                let configuration =
                    with_provider(configuration, &place.document, provider, catalogue);
                let configuration = configuration.map_err(Faults::from)?;
                Given { configuration, place: Some(place), config_map }
            }
            (_, given) => given,
        })
    }

    /// Whether it is a Policy, or a ConfigMap with one.
    fn is_policy(&self) -> bool {
        let kind = self.place.as_ref().map(|place| &place.document.value["kind"]);
        kind.is_some_and(|kind| kind == "Policy" || kind == "ConfigMap")
    }

    /// Applies the remaining flags, or warns if something else takes precedence.
    fn apply(&mut self, deprecated: &Deprecated, decides: &Decides) {
        if let Some(name) = &deprecated.scheduler_name {
            if decides.configuration {
                no_effect("scheduler-name", "the configuration names its profiles");
            } else {
                rename_profile(&mut self.configuration, name);
            }
        }
        if let Some(weight) = deprecated.hard_pod_affinity_symmetric_weight {
            let flag = "hard-pod-affinity-symmetric-weight";
            if decides.policy {
                no_effect(flag, "write hardPodAffinitySymmetricWeight in the Policy");
            } else if decides.configuration {
                no_effect(flag, "write the args of InterPodAffinity in the configuration");
            } else {
                set_hard_pod_affinity_weight(&mut self.configuration, weight);
            }
        }
    }
}

/// The ConfigMap with the Policy that the configuration in `file` names, and how to reach its API server. Errors in the
/// file are reported when it is read again.
pub(crate) fn named_config_map(
    file: &Path,
    catalogue: &Catalogue,
) -> Result<Option<(ObjectKey, ClientConnection)>> {
    // Standard input can be read only once.
    if file == Path::new(STDIN) {
        return Ok(None);
    }
    let Source { name, text } = Source::read(file)?;
    let place = Place::of(&name, &text)?;
    let Some(PolicyPlace::ConfigMap { namespace, name: map }) =
        place.and_then(|place| policy_place(&place.document))
    else {
        return Ok(None);
    };
    let configuration = load_beside_policy(&name, &text, catalogue).map_err(Faults::from)?;
    let connection = configuration.effective.client_connection;
    Ok(Some((ObjectKey::new(namespace, map), connection)))
}

/// The error at the field that names a ConfigMap, unless it is about the content of that.
fn at_config_map(error: anyhow::Error, place: Option<&Place>) -> anyhow::Error {
    match place {
        Some(place) if !error.is::<Faults>() => {
            let policy = FieldPath::root().key("algorithmSource").key("policy");
            let field = policy.key("configMap").key("name");
            place.document.error_at(field, error.to_string()).into()
        }
        _ => error,
    }
}

/// Which kinds of configuration were given.
struct Decides {
    /// A KubeSchedulerConfiguration.
    configuration: bool,
    policy: bool,
}

impl Place {
    /// The first document of a file.
    fn of(name: &str, text: &str) -> Result<Option<Self>> {
        let first = Document::parse_all(name, text)?.into_iter().next();
        Ok(first.map(|document| {
            let root = FieldPath::root();
            let at = if document.value["kind"] == "ConfigMap" { value_of(&root) } else { root };
            Place { document, at }
        }))
    }
}

/// Where the Policy is in a ConfigMap.
fn value_of(config_map: &FieldPath) -> FieldPath {
    config_map.key("data").key("policy.cfg")
}
