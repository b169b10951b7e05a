//! The algorithm providers: named profiles, which `--algorithm-provider` chose up to 1.22.

use std::fmt;
use std::str::FromStr;

use plimsoll_config::rules::{Base, Rules};
use plimsoll_config::{Catalogue, Configuration, Form, Origin};

use super::{migrate, v1beta1};

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

    /// The form of its [configuration](Provider::configuration).
    pub const fn form(self) -> Form {
        Form::named(self.name())
    }

    /// The provider whose configuration has this form.
    pub fn of(form: Form) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.form() == form)
    }

    /// Its configuration, as in release 1.20.
    ///
    /// # Panics
    ///
    /// If the catalogue has no plugin that sorts the queue and none that binds.
    pub fn configuration(self, catalogue: &Catalogue) -> Configuration {
        let mut rules = v1beta1::rules();
        self.apply_to(&mut rules);
        let mut configuration =
            Configuration::without_file(&rules, Origin::of(self.form()), catalogue);
        migrate::write_profiles(&mut configuration, catalogue);
        configuration
    }

    /// Makes rules start from this provider instead of the default one.
    ///
    /// As in algorithmprovider/registry.go, getClusterAutoscalerConfig.
    pub(super) fn apply_to(self, rules: &mut Rules) {
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
