//! What a version of the configuration decides about profiles: the plugins it starts from, how a
//! profile changes them, which plugins it refuses, and which args it knows.

use crate::catalogue::{Catalogue, Point};
use crate::version::GROUP_VERSION;

/// A plugin of a default profile with its weight; 0 where none is given, which counts as 1.
pub(crate) type Weighed = (&'static str, i32);

/// The rules of one version.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// The `apiVersion`.
    pub(crate) version: &'static str,
    /// What profiles start from.
    pub(crate) base: Base,
    /// The plugins that the version refuses.
    pub(crate) refused: Refused,
    /// The plugins that it refuses together with NodeResourcesFit at Score.
    pub(crate) in_conflict: &'static [&'static str],
    pub(crate) args: ArgsRules,
    /// The kinds of locks that replicas may elect a leader with.
    pub(crate) locks: &'static [&'static str],
    /// Where plugins stand today beside the points that the version had for them.
    pub(crate) grown: &'static [Grown],
    /// The plugins that stand at a point in any case.
    pub(crate) always: &'static [(Point, &'static str)],
}

/// What the profiles of a version start from.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    /// Plugins that are enabled at every point they implement.
    MultiPoint(Vec<Weighed>),
    /// A list for each point.
    Lists {
        lists: PointLists,
        /// What enabling one of them once more means.
        again: Again,
    },
}

/// The default plugins of each point, in order.
pub(crate) type PointLists = Vec<(Point, Vec<Weighed>)>;

/// What it means to enable a plugin that the default profile enables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It stays where it is, with the weight of the profile.
    Replaces,
    /// The plugin is there twice, which is an error.
    Doubles,
}

/// Plugins that a version refuses, and the version that began to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) plugins: &'static [&'static str],
    pub(crate) since: &'static str,
    /// What to write instead of a plugin, to be added to the message.
    pub(crate) remedy: fn(&str) -> &'static str,
}

/// A plugin that stands at `at`, too, wherever it stands at `beside`: it prepares there what it
/// needs, and did not yet when the version was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grown {
    pub(crate) plugin: &'static str,
    pub(crate) beside: Point,
    pub(crate) at: Point,
}

/// What a version knows of the args of plugins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgsRules {
    /// Plugins of 1.36 whose args it has. Those of other plugins of 1.36 it takes, and ignores.
    pub(crate) known: &'static [&'static str],
    /// Plugins that later releases dropped, whose args it has.
    pub(crate) dropped: &'static [&'static str],
    /// Fields of today's args that it has not: plugin and field.
    pub(crate) lacking: &'static [(&'static str, &'static str)],
    /// Where spread constraints come from if the args of PodTopologySpread do not say.
    pub(crate) spreading: Spreading,
    /// Whether NodeResourcesFit leaves nodes whose pods ask for more than there is to pods that ask
    /// for nothing.
    pub(crate) rejects_overcommitted_nodes: bool,
}

/// The default of `defaultingType` of PodTopologySpread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spreading {
    System,
    /// The list that is given; if none is, the system's.
    ListIfGiven,
    List,
}

/// Plugins that version v1 no longer has.
const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

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

impl Rules {
    /// The rules of version v1, by which profiles start from the default one of the catalogue.
    pub(crate) fn v1(catalogue: &Catalogue) -> Self {
        let base = catalogue.by_default().map(|plugin| (plugin.name, plugin.weight)).collect();
        Rules {
            version: GROUP_VERSION,
            base: Base::MultiPoint(base),
            // As upstream, which takes the version of the core API for its own.
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
    /// As upstream, the points of pod groups are not looked at, nor is multi-point.
    pub(crate) fn refuses_at(&self, point: Point, name: &str) -> bool {
        !matches!(point, Point::PlacementGenerate | Point::PlacementScore)
            && self.refused.plugins.contains(&name)
    }

    /// The plugins that are enabled at all their points by default.
    pub(crate) fn multi_point(&self) -> &[Weighed] {
        match &self.base {
            Base::MultiPoint(plugins) => plugins,
            Base::Lists { .. } => &[],
        }
    }

    /// The default plugins of `point` alone.
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
