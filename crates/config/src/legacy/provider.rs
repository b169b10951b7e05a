//! The algorithm providers: named profiles, which `--algorithm-provider` chose up to 1.22.

use std::fmt;
use std::str::FromStr;

use super::v1beta1;
use crate::catalogue::Catalogue;
use crate::configuration::{Configuration, complete_without_file};
use crate::origin::{Form, Origin};
use crate::rules::{Base, Rules};

/// An algorithm provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// `DefaultProvider`: the default plugins.
    Default,
    /// `ClusterAutoscalerProvider`: the same, but it prefers full nodes.
    ClusterAutoscaler,
}

/// There is no algorithm provider of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    name: String,
}

impl Provider {
    /// All providers.
    pub const ALL: [Self; 2] = [Self::Default, Self::ClusterAutoscaler];

    /// The name that `--algorithm-provider` took.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "DefaultProvider",
            Self::ClusterAutoscaler => "ClusterAutoscalerProvider",
        }
    }

    /// Makes rules start from this provider instead of the default one.
    ///
    /// As in algorithmprovider/registry.go, getClusterAutoscalerConfig.
    pub(crate) fn apply_to(self, rules: &mut Rules) {
        let Base::Lists { lists, .. } = &mut rules.base else { return };
        if self == Self::ClusterAutoscaler {
            for (name, _) in lists.iter_mut().flat_map(|(_, list)| list) {
                if *name == "NodeResourcesLeastAllocated" {
                    *name = "NodeResourcesMostAllocated";
                }
            }
        }
    }
}

impl FromStr for Provider {
    type Err = ProviderError;

    fn from_str(name: &str) -> Result<Self, ProviderError> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|provider| provider.name() == name);
        found.ok_or_else(|| ProviderError { name: name.to_owned() })
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Provider::ALL.map(Provider::name).join(" or ");
        let name = &self.name;
        write!(f, "algorithm provider {name:?} is not registered: write {names}")
    }
}

impl std::error::Error for ProviderError {}

impl Configuration {
    /// The configuration of an algorithm provider of release 1.20.
    ///
    /// If there is no provider of this name, the error lists the names.
    ///
    /// # Panics
    ///
    /// If the catalogue has no plugin that sorts the queue and none that binds.
    pub fn provider(name: &str, catalogue: &Catalogue) -> Result<Self, ProviderError> {
        Ok(Self::of_provider(name.parse()?, catalogue))
    }

    /// The configuration of an algorithm provider of release 1.20.
    ///
    /// # Panics
    ///
    /// If the catalogue has no plugin that sorts the queue and none that binds.
    pub fn of_provider(provider: Provider, catalogue: &Catalogue) -> Self {
        let mut rules = v1beta1::rules();
        provider.apply_to(&mut rules);
        let origin = Origin::of(Form::Provider(provider));
        complete_without_file(&rules, origin, catalogue)
    }
}
