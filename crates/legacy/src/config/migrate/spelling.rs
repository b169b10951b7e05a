//! Finds plugin sets that v1 resolves to the given points: the smallest difference from the default profile, or a
//! profile built from scratch if that is shorter.

use std::collections::BTreeMap;

use plimsoll_config::{ALL, Catalogue, EnabledPlugin, Known, Plugin, PluginSet, Plugins, Point};

/// What a profile must resolve to.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) points: &'a BTreeMap<Point, Vec<EnabledPlugin>>,
    /// Enabled plugins of the catalogue that this build does not have.
    pub(super) unavailable: &'a [String],
}

/// The shortest sets that resolve to the target.
pub(super) fn sets(target: Target<'_>, catalogue: &Catalogue) -> Plugins {
    let candidates = [
        // The first of equally short ones is taken: weights in one place are easiest to read.
        Spelling { from: From::Default, weights: Weights::AtPoints },
        Spelling { from: From::Default, weights: Weights::AtMultiPoint },
        Spelling { from: From::Nothing, weights: Weights::AtPoints },
        Spelling { from: From::Nothing, weights: Weights::AtMultiPoint },
    ];
    let sets = candidates.into_iter().map(|spelling| spelling.sets(target, catalogue));
    sets.min_by_key(length).expect("there are candidates")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Default,
    Nothing,
}

/// Where to put weights that differ from the default profile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weights {
    AtMultiPoint,
    AtPoints,
}

#[derive(Clone, Copy)]
struct Spelling {
    from: From,
    weights: Weights,
}

impl Spelling {
    fn sets(self, target: Target<'_>, catalogue: &Catalogue) -> Plugins {
        let multi_point = self.multi_point(target, catalogue);
        let mut sets = Plugins { multi_point, ..Plugins::default() };
        let implied = sets.resolve(catalogue);
        for (&point, wanted) in target.points {
            *sets.at_mut(point) = set_at(point, wanted, &implied[&point]);
        }
        without_idle(sets, catalogue)
    }

    fn multi_point(self, target: Target<'_>, catalogue: &Catalogue) -> PluginSet {
        let is_kept = |plugin: &Known| self.from == From::Default && plugin.by_default;
        let disabled = match self.from {
            From::Nothing => vec![named(ALL, None)],
            From::Default => {
                let gone = catalogue.by_default().filter(|plugin| !target.stands(plugin.name));
                gone.map(|plugin| named(plugin.name, None)).collect()
            }
        };
        let mut enabled = Vec::new();
        for plugin in target.in_order(catalogue) {
            let weight = target.weight(plugin.name);
            let weight = weight.filter(|_| self.weights == Weights::AtMultiPoint);
            if is_kept(plugin) {
                let default = i64::from(plugin.weight).max(1);
                if weight.is_some_and(|weight| weight != default) {
                    enabled.push(named(plugin.name, weight));
                }
            } else if target.is_everywhere(plugin) {
                enabled.push(named(plugin.name, weight.filter(|weight| *weight != 1)));
            }
        }
        PluginSet { enabled, disabled }
    }
}

impl Target<'_> {
    fn stands(&self, name: &str) -> bool {
        self.points.values().flatten().any(|plugin| plugin.name == name)
            || self.unavailable.iter().any(|other| other == name)
    }

    fn is_at(&self, point: Point, name: &str) -> bool {
        self.points.get(&point).is_some_and(|plugins| plugins.iter().any(|p| p.name == name))
    }

    /// Whether a plugin is enabled at every point it implements.
    fn is_everywhere(&self, plugin: &Known) -> bool {
        plugin.points.iter().all(|point| self.is_at(point, plugin.name))
            || self.unavailable.iter().any(|name| name == plugin.name)
    }

    fn weight(&self, name: &str) -> Option<i64> {
        let scores = self.points.get(&Point::Score)?;
        scores.iter().find(|plugin| plugin.name == name).map(|plugin| plugin.weight)
    }

    /// The plugins that are enabled anywhere, in the order of the catalogue.
    fn in_order<'c>(&self, catalogue: &'c Catalogue) -> impl Iterator<Item = &'c Known> {
        catalogue.plugins().iter().filter(|plugin| self.stands(plugin.name))
    }
}

/// The sets without plugins at `multiPoint` that have no effect because the points name them.
fn without_idle(mut sets: Plugins, catalogue: &Catalogue) -> Plugins {
    let wanted = sets.resolve(catalogue);
    for index in (0..sets.multi_point.enabled.len()).rev() {
        let is_available = |name: &str| catalogue.get(name).is_some_and(|known| known.available);
        let entry = sets.multi_point.enabled.remove(index);
        if !is_available(&entry.name) || sets.resolve(catalogue) != wanted {
            sets.multi_point.enabled.insert(index, entry);
        }
    }
    sets
}

/// The set that changes what `multiPoint` implies at a point into `wanted`.
///
/// v1 first runs the plugins that both the point names and `multiPoint` implies, then the others of `multiPoint`, then
/// the others of the point.
fn set_at(point: Point, wanted: &[EnabledPlugin], implied: &[EnabledPlugin]) -> PluginSet {
    let entry =
        |plugin: &EnabledPlugin| named(plugin.name, point.is_weighed().then_some(plugin.weight));
    let from_nothing =
        PluginSet { enabled: wanted.iter().map(entry).collect(), disabled: vec![named(ALL, None)] };
    let place = |name: &str| implied.iter().position(|plugin| plugin.name == name);
    let is_wanted = |name: &str| wanted.iter().any(|plugin| plugin.name == name);
    let n_added = wanted.iter().rev().take_while(|plugin| place(plugin.name).is_none()).count();
    let (rest, added) = wanted.split_at(wanted.len() - n_added);
    let mut n_named = rest.len();
    let mut next = implied.len();
    while let Some(plugin) = n_named.checked_sub(1).map(|last| &rest[last])
        && let Some(at) = place(plugin.name)
        && at < next
        && implied[at].weight == plugin.weight
    {
        (n_named, next) = (n_named - 1, at);
    }
    let named_first = &rest[..n_named];
    if named_first.iter().any(|plugin| place(plugin.name).is_none()) {
        return from_nothing;
    }
    let gone = implied.iter().filter(|plugin| !is_wanted(plugin.name));
    let difference = PluginSet {
        enabled: named_first.iter().chain(added).map(entry).collect(),
        disabled: gone.map(|plugin| named(plugin.name, None)).collect(),
    };
    if n_entries(&difference) <= n_entries(&from_nothing) { difference } else { from_nothing }
}

fn named(name: &str, weight: Option<i64>) -> Plugin {
    let weight = weight.map(|weight| i32::try_from(weight).expect("weights are read as 32 bits"));
    Plugin { name: name.to_owned(), weight }
}

fn n_entries(set: &PluginSet) -> usize {
    set.enabled.len() + set.disabled.len()
}

fn length(sets: &Plugins) -> usize {
    let points = Point::ALL.into_iter().map(|point| n_entries(sets.at(point)));
    n_entries(&sets.multi_point) + points.sum::<usize>()
}
