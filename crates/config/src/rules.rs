//! The rules of a version of the configuration: its default plugins, how a profile changes them, which plugins it
//! refuses, and which args it has.

use crate::catalogue::{Catalogue, Point};
use crate::version::GROUP_VERSION;

/// A plugin of a default profile with its weight; 0 if none is given, which counts as 1.
pub type Weighed = (&'static str, i32);

/// The rules of one version.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The `apiVersion`.
    pub version: &'static str,
    /// The default plugins.
    pub base: Base,
    /// The plugins that the version refuses.
    pub refused: Refused,
    /// The plugins that cannot be enabled together with NodeResourcesFit at Score.
    pub in_conflict: &'static [&'static str],
    /// The args of plugins that it has.
    pub args: ArgsRules,
    /// The allowed values of `leaderElection.resourceLock`.
    pub locks: &'static [&'static str],
    /// The points that today's plugins need in addition to those of the version.
    pub grown: &'static [Grown],
    /// The plugins that are always enabled, with their points.
    pub always: &'static [(Point, &'static str)],
}

/// The default plugins of a version.
#[derive(Clone, Debug)]
pub enum Base {
    /// Plugins that are enabled at every point they implement.
    MultiPoint(Vec<Weighed>),
    /// A list for each point.
    Lists {
        /// The lists.
        lists: PointLists,
        /// What happens if a profile enables one of them again.
        again: Again,
    },
}

/// The default plugins of each point, in order.
pub type PointLists = Vec<(Point, Vec<Weighed>)>;

/// What happens if a profile enables a plugin that is enabled by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It keeps its place and gets the weight of the profile.
    Replaces,
    /// The plugin is listed twice, which is an error.
    Doubles,
}

/// Plugins that a version refuses, and the first version that did.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// The plugins.
    pub plugins: &'static [&'static str],
    /// The first version that refused them.
    pub since: &'static str,
    /// What to write instead of a plugin, as the end of the message.
    pub remedy: fn(&str) -> &'static str,
}

/// A plugin that must be enabled at `at` if it is enabled at `beside`: it prepares its work there, which it did not do
/// yet when the version was current.
#[derive(Clone, Copy, Debug)]
pub struct Grown {
    /// Its name.
    pub plugin: &'static str,
    /// Where it is enabled.
    pub beside: Point,
    /// Where it prepares its work.
    pub at: Point,
}

/// The args of plugins that a version has.
#[derive(Clone, Copy, Debug)]
pub struct ArgsRules {
    /// Plugins of 1.36 whose args it has. It accepts args for other plugins of 1.36 and ignores them.
    pub known: &'static [&'static str],
    /// Plugins that later releases dropped, whose args it has.
    pub dropped: &'static [&'static str],
    /// Fields of today's args that it does not have: plugin and field.
    pub lacking: &'static [(&'static str, &'static str)],
    /// The default of `defaultingType` of PodTopologySpread.
    pub spreading: Spreading,
    /// Whether, on a node whose pods request more than it has, NodeResourcesFit accepts only pods that request nothing.
    pub rejects_overcommitted_nodes: bool,
}

/// The default of `defaultingType` of PodTopologySpread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spreading {
    /// `System`.
    System,
    /// `List` if constraints are given, otherwise `System`.
    ListIfGiven,
    /// `List`.
    List,
}

/// Plugins that version v1 no longer has.
pub const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// The plugins of 1.36 that have args.
pub(crate) const PLUGINS_WITH_ARGS: [&str; 8] = [
    "DefaultPreemption",
    "DynamicResources",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "VolumeBinding",
];

/// The plugins beside those of kube-scheduler whose args are a kind, in every version of the configuration.
pub(crate) const OTHER_PLUGINS_WITH_ARGS: [&str; 1] = ["Coscheduling"];

impl Rules {
    /// The rules of version v1. Its default plugins are those of the catalogue.
    pub fn v1(catalogue: &Catalogue) -> Self {
        let base = catalogue.by_default().map(|plugin| (plugin.name, plugin.weight)).collect();
        Rules {
            version: GROUP_VERSION,
            base: Base::MultiPoint(base),
            // As upstream, which has the version of the core API here by mistake.
            refused: Refused { plugins: &REMOVED, since: "v1", remedy: |_| "" },
            in_conflict: &[],
            args: ArgsRules {
                known: &PLUGINS_WITH_ARGS,
                dropped: &[],
                lacking: &[],
                spreading: Spreading::System,
                rejects_overcommitted_nodes: false,
            },
            locks: &["leases"],
            grown: &[],
            always: &[],
        }
    }

    /// Whether `point` refuses the plugin `name`.
    ///
    /// As upstream, the points of pod groups and `multiPoint` are not checked.
    pub(crate) fn refuses_at(&self, point: Point, name: &str) -> bool {
        let is_of_groups = matches!(
            point,
            Point::PlacementGenerate | Point::PlacementScore | Point::PodGroupPostFilter
        );
        !is_of_groups && self.refused.plugins.contains(&name)
    }

    /// The plugins that are enabled at all their points by default.
    pub(crate) fn multi_point(&self) -> &[Weighed] {
        match &self.base {
            Base::MultiPoint(plugins) => plugins,
            Base::Lists { .. } => &[],
        }
    }

    /// The plugins that are enabled by default at `point` itself.
    pub(crate) fn list_at(&self, point: Point) -> &[Weighed] {
        match &self.base {
            Base::MultiPoint(_) => &[],
            Base::Lists { lists, .. } => {
                lists.iter().find(|(at, _)| *at == point).map_or(&[], |(_, list)| list)
            }
        }
    }

    /// All plugins of the default profile that the catalogue does not know, in order.
    pub(crate) fn strangers(&self, catalogue: &Catalogue) -> Vec<&'static str> {
        let mut names = Vec::new();
        let lists = Point::ALL.into_iter().flat_map(|point| self.list_at(point));
        for &(name, _) in self.multi_point().iter().chain(lists) {
            if catalogue.get(name).is_none() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}
