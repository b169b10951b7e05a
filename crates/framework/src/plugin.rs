//! What every plugin is.

use std::collections::BTreeMap;

use plimsoll_api::Release;
use plimsoll_api::requests::RequestGates;
use serde::de::DeserializeOwned;

use crate::args::ArgsFaults;

/// A plugin of the scheduling framework.
///
/// A plugin is made once for each profile that enables it, and never changes. What it needs to judge a pod is given to
/// its methods, and what it keeps between two calls is its typed state.
pub trait Plugin: Send + Sync + Sized + 'static {
    /// The name in KubeSchedulerConfiguration, metrics and events.
    const NAME: &'static str;
    /// `pluginConfig[].args`, parsed before [`Plugin::new`] is called. A plugin without args writes
    /// [`NoArgs`].
    type Args: DeserializeOwned + Default;
    /// Makes the plugin for one profile. The args are [complete](Plugin::complete), and
    /// [`validate`](Plugin::validate) has found nothing wrong with them.
    fn new(args: Self::Args, gates: &FeatureGates) -> Self;
    /// Sets the defaults that serde and [`Default`] cannot know, such as those that depend on feature gates.
    fn complete(_args: &mut Self::Args, _gates: &FeatureGates) {}
    /// Reports what is wrong with args that could be parsed, field by field. The scheduler adds the file and
    /// the line.
    ///
    /// ```
    /// # use plimsoll_framework::prelude::*;
    /// # struct Spread;
    /// #[derive(Default, serde::Deserialize)]
    /// #[serde(default, rename_all = "camelCase", deny_unknown_fields)]
    /// struct SpreadArgs {
    ///     max_skew: i32,
    /// }
    ///
    /// impl Plugin for Spread {
    ///     const NAME: &'static str = "Spread";
    ///     type Args = SpreadArgs;
    ///     fn new(_: SpreadArgs, _: &FeatureGates) -> Self {
    ///         Spread
    ///     }
    ///     fn validate(args: &SpreadArgs, _: &FeatureGates, faults: &mut ArgsFaults) {
    ///         if args.max_skew < 0 {
    ///             let field = ArgsField::default().key("maxSkew");
    ///             faults.invalid(field, args.max_skew, "must not be negative");
    ///         }
    ///     }
    /// }
    /// ```
    fn validate(_args: &Self::Args, _gates: &FeatureGates, _faults: &mut ArgsFaults) {}
}

/// The args of a plugin that takes none: any field is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoArgs {}

/// The release whose decisions a plugin makes, and feature gates by name. A gate that is not set has the value of the
/// release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    release: Release,
    set: BTreeMap<String, bool>,
}

impl FeatureGates {
    /// The gates of `release`, with the values that it gives them.
    pub fn of(release: Release) -> Self {
        FeatureGates { release, set: BTreeMap::new() }
    }

    /// These settings of gates in another `release`.
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

    /// The release whose decisions the plugin makes.
    pub fn release(&self) -> Release {
        self.release
    }

    /// The gates that are set, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, bool)> {
        self.set.iter().map(|(name, on)| (name.as_str(), *on))
    }

    /// Whether gate `name` is on; `default` is its value in the [`release`](FeatureGates::release).
    pub fn enabled(&self, name: &str, default: bool) -> bool {
        self.set.get(name).copied().unwrap_or(default)
    }

    /// The gates that decide how the requests of pods are computed.
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
