//! What every plugin is.

use std::collections::BTreeMap;

use plimsoll_api::Release;
use plimsoll_api::requests::RequestGates;
use serde::de::DeserializeOwned;

/// A plugin of the scheduling framework.
///
/// A plugin is made once for each profile that enables it and is then only read: what it needs to
/// judge a pod comes as arguments, and what it keeps between two calls is its typed state.
pub trait Plugin: Send + Sync + Sized + 'static {
    /// The name in KubeSchedulerConfiguration, metrics and events.
    const NAME: &'static str;
    /// `pluginConfig[].args`, parsed and defaulted before [`Plugin::new`] is called. To validate,
    /// let serde do it: `#[serde(try_from = "Raw")]`. Without args, write `()`-like
    /// [`NoArgs`].
    type Args: DeserializeOwned + Default;
    /// Makes the plugin of one profile.
    fn new(args: Self::Args, gates: &FeatureGates) -> Self;
}

/// The args of a plugin that takes none: any field is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoArgs {}

/// The release as which a plugin decides, with feature gates by name. A gate that is not set has the value
/// that the release gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    release: Release,
    set: BTreeMap<String, bool>,
}

impl FeatureGates {
    /// The gates of `release`, all as it has them.
    pub fn of(release: Release) -> Self {
        FeatureGates { release, set: BTreeMap::new() }
    }

    /// The same gates, set as they are, in `release`.
    #[must_use]
    pub fn at(self, release: Release) -> Self {
        FeatureGates { release, ..self }
    }

    /// Switches gate `name` on or off.
    #[must_use]
    pub fn with(mut self, name: &str, on: bool) -> Self {
        self.set.insert(name.to_owned(), on);
        self
    }

    /// The release as which the plugin decides.
    pub fn release(&self) -> Release {
        self.release
    }

    /// Whether gate `name` is on; `default` is its value in the [`release`](FeatureGates::release).
    pub fn enabled(&self, name: &str, default: bool) -> bool {
        self.set.get(name).copied().unwrap_or(default)
    }

    /// How what pods request is reckoned.
    pub fn requests(&self) -> RequestGates {
        let by_release = RequestGates::of(self.release);
        let is_on = |name, by_default| self.enabled(name, by_default);
        RequestGates {
            pod_level_resources: is_on("PodLevelResources", by_release.pod_level_resources),
            pod_level_resize: is_on(
                "InPlacePodLevelResourcesVerticalScaling",
                by_release.pod_level_resize,
            ),
            ..by_release
        }
    }
}
