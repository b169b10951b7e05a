//! Resolves a profile: its plugins at each point, with their weights and args.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_document::FieldPath;
use serde_json::Value;

use crate::args::Args;
use crate::catalogue::{Catalogue, Point};
use crate::faults::Faults;
use crate::multipoint::{self, ALL, EXPANSION_ORDER, MultiPoint};
use crate::point_lists;
use crate::rules::{Again, Base, Rules};
use crate::types::{Plugin, PluginConfig, PluginSet, Plugins, Profile};

/// The highest score that a plugin can give a node.
const MAX_NODE_SCORE: i64 = 100;

/// A plugin that is enabled at an extension point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnabledPlugin {
    /// Its name.
    pub name: &'static str,
    /// The factor of its scores; 0 at points that do not score.
    pub weight: i64,
}

/// A profile, fully resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedProfile {
    /// The profile schedules the pods with this `schedulerName`.
    pub scheduler_name: String,
    /// The search ends when this percentage of the nodes has been found feasible: the profile's own value, or else the
    /// global one; none if neither is set. 0 adapts to the size of the cluster.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The plugins of each extension point, in the order in which they run. Every point has an entry.
    pub points: BTreeMap<Point, Vec<EnabledPlugin>>,
    /// The args of the enabled plugins that have some, with all defaults, without `apiVersion` and
    /// `kind`.
    pub args: BTreeMap<String, Value>,
    /// The enabled plugins that this build does not have, in the order of the catalogue. They are
    /// left out of `points`.
    pub unavailable: Vec<String>,
    /// Whether all filters run for a node, even after one has rejected it.
    pub run_all_filters: bool,
}

impl ResolvedProfile {
    /// The names of all plugins that are enabled at some point, in alphabetical order.
    pub fn plugins(&self) -> BTreeSet<&'static str> {
        self.points.values().flatten().map(|plugin| plugin.name).collect()
    }
}

/// A profile that is decoded and has its defaults, but is not resolved yet.
pub(crate) struct Draft<'a> {
    pub(crate) profile: &'a Profile,
    /// The rules of the version.
    pub(crate) rules: &'a Rules,
    pub(crate) plugins: Plugins,
    /// One entry for each of `profile.plugin_config`; none for args that could not be decoded.
    pub(crate) args: Vec<Option<Args>>,
    /// The field of the profile.
    pub(crate) field: FieldPath,
    pub(crate) is_first: bool,
}

impl Draft<'_> {
    pub(crate) fn scheduler_name(&self) -> &str {
        self.profile.scheduler_name.as_deref().unwrap_or_default()
    }

    /// Whether the plugin `name` is created at all: some set enables it, even without effect.
    ///
    /// As in runtime/framework.go, pluginsNeeded.
    pub(crate) fn needs(&self, name: &str) -> bool {
        let is_named = |point: Point| {
            self.listed_at(point).any(|other| other == name)
                || self.plugins.at(point).enabled.iter().any(|p| p.name == name)
        };
        self.merged().iter().any(|e| e.name == name)
            || Point::ALL.into_iter().any(is_named)
            || self.rules.always.iter().any(|(_, always)| *always == name)
    }

    /// The plugins that the profile enables at `multiPoint`.
    fn merged(&self) -> Vec<MultiPoint<'_>> {
        multipoint::merge(self.rules.multi_point(), &self.plugins.multi_point)
    }

    /// The plugins that are enabled at `point` by the version's list, with the changes of the profile.
    fn listed_at(&self, point: Point) -> impl Iterator<Item = &str> {
        let merged =
            point_lists::merge(self.rules.list_at(point), Again::Replaces, self.plugins.at(point));
        let names: Vec<&str> = merged.into_iter().map(|entry| entry.name).collect();
        names.into_iter()
    }

    /// Resolves the profile and reports its errors.
    pub(crate) fn resolve(
        &self,
        catalogue: &Catalogue,
        global_percentage: Option<i32>,
        faults: &mut Faults<'_>,
    ) -> ResolvedProfile {
        let names_are_valid = self.check_names(catalogue, faults);
        self.check_weights(faults);
        let points = Point::ALL.into_iter().map(|point| (point, self.enabled_at(catalogue, point)));
        let mut points: BTreeMap<_, Vec<_>> = points.collect();
        self.add_of_today(catalogue, &mut points);
        if names_are_valid {
            self.check_counts(&points, faults);
        }
        for point in [Point::Score, Point::PlacementScore] {
            if !fits_total_score(points[&point].iter().map(|plugin| plugin.weight)) {
                let field = self.field.key("plugins").key(point.key());
                faults.report(field, "total score of Score plugins could overflow");
            }
        }
        let is_enabled = |name: &str| points.values().flatten().any(|p| p.name == name);
        let is_available = |name: &str| catalogue.get(name).is_some_and(|plugin| plugin.available);
        let unavailable: Vec<_> = catalogue
            .plugins()
            .iter()
            .filter(|plugin| !plugin.available && is_enabled(plugin.name))
            .map(|plugin| plugin.name.to_owned())
            .collect();
        let strangers = self.rules.strangers(catalogue).into_iter().filter(|name| self.needs(name));
        let unavailable = unavailable.into_iter().chain(strangers.map(str::to_owned)).collect();
        for plugins in points.values_mut() {
            plugins.retain(|plugin| is_available(plugin.name));
        }
        ResolvedProfile {
            scheduler_name: self.scheduler_name().to_owned(),
            percentage_of_nodes_to_score: self
                .profile
                .percentage_of_nodes_to_score
                .or(global_percentage),
            points,
            args: self.needed_args(catalogue).map(|(name, args)| (name, args.to_value())).collect(),
            unavailable,
            run_all_filters: false,
        }
    }

    /// The profile with all default plugins and args, as `--write-config-to` shows it.
    pub(crate) fn to_effective(&self, catalogue: &Catalogue) -> Profile {
        let mut plugins = self.plugins.clone();
        plugins.multi_point.enabled = self
            .merged()
            .iter()
            .map(|entry| Plugin { name: entry.name.to_owned(), weight: Some(entry.weight) })
            .collect();
        weigh(&mut plugins.multi_point);
        for point in Point::ALL {
            weigh(plugins.at_mut(point));
        }
        let mut plugin_config: Vec<_> = self
            .needed_args(catalogue)
            .map(|(name, args)| PluginConfig { args: args.to_config(&name, catalogue), name })
            .collect();
        plugin_config.sort_by(|a, b| a.name.cmp(&b.name));
        Profile { plugins: Some(plugins), plugin_config, ..self.profile.clone() }
    }

    /// The plugins that are enabled at `point`, in order.
    pub(crate) fn enabled_at(&self, catalogue: &Catalogue, point: Point) -> Vec<EnabledPlugin> {
        let merged = self.merged();
        let weighed = |name: &'static str, weight: i64| {
            let weight = if point.is_weighed() { weight.max(1) } else { 0 };
            EnabledPlugin { name, weight }
        };
        match &self.rules.base {
            Base::MultiPoint(_) => {
                let plugins = multipoint::expand(catalogue, &merged, &self.plugins, point);
                let weight = |name| multipoint::weight(&merged, &self.plugins, point, name);
                plugins.iter().map(|plugin| weighed(plugin.name, weight(plugin.name))).collect()
            }
            Base::Lists { again, .. } => {
                let set = self.plugins.at(point);
                let mut plugins: Vec<EnabledPlugin> = Vec::new();
                for entry in point_lists::merge(self.rules.list_at(point), *again, set) {
                    let known = catalogue.get(entry.name);
                    if let Some(known) = known.filter(|known| known.points.contains(point))
                        && plugins.iter().all(|other| other.name != known.name)
                    {
                        plugins.push(weighed(known.name, i64::from(entry.weight)));
                    }
                }
                plugins
            }
        }
    }

    /// Adds the points that today's plugins need and the version did not list.
    fn add_of_today(
        &self,
        catalogue: &Catalogue,
        points: &mut BTreeMap<Point, Vec<EnabledPlugin>>,
    ) {
        let stands = |point: Point, name: &str| {
            catalogue.get(name).is_some_and(|plugin| plugin.points.contains(point))
        };
        let grown = self.rules.grown.iter();
        let grown = grown.filter(|grown| multipoint::is_implied_at(catalogue, grown.at));
        for grown in grown.filter(|grown| stands(grown.at, grown.plugin)) {
            let is_at = |point: Point| points[&point].iter().any(|p| p.name == grown.plugin);
            if is_at(grown.beside) && !is_at(grown.at) {
                let plugin = EnabledPlugin { name: grown.plugin, weight: 0 };
                points.entry(grown.at).or_default().push(plugin);
            }
        }
        for &(point, name) in self.rules.always.iter().filter(|(point, name)| stands(*point, name))
        {
            if points[&point].iter().all(|plugin| plugin.name != name) {
                points.entry(point).or_default().insert(0, EnabledPlugin { name, weight: 0 });
            }
        }
    }

    /// The args of the plugins that are created and have args.
    fn needed_args(&self, catalogue: &Catalogue) -> impl Iterator<Item = (String, Args)> {
        let configured: Vec<_> = self
            .profile
            .plugin_config
            .iter()
            .zip(&self.args)
            .filter_map(|(config, args)| Some((config.name.clone(), args.clone()?)))
            .filter(|(_, args)| *args != Args::Given(Value::Null))
            .collect();
        let is_configured = |name: &str| self.profile.plugin_config.iter().any(|c| c.name == name);
        let defaults: Vec<_> = catalogue
            .plugins()
            .iter()
            .filter(|plugin| !is_configured(plugin.name))
            .filter_map(|plugin| {
                let args = Args::default_of(plugin.name, self.rules, catalogue)?;
                Some((plugin.name.to_owned(), args))
            })
            .collect();
        let all = configured.into_iter().chain(defaults);
        all.filter(|(name, _)| self.needs(name))
    }

    /// Reports negative weights. kube-scheduler takes them: a plugin then works against its own preference.
    fn check_weights(&self, faults: &mut Faults<'_>) {
        let plugins = self.field.key("plugins");
        let points = Point::ALL.into_iter().filter(|point| point.is_weighed());
        let sets = points.map(|point| (plugins.key(point.key()), self.plugins.at(point)));
        let sets = sets.chain([(plugins.key("multiPoint"), &self.plugins.multi_point)]);
        for (field, set) in sets {
            for (index, plugin) in set.enabled.iter().enumerate() {
                if let Some(weight) = plugin.weight.filter(|weight| *weight < 0) {
                    let field = field.key("enabled").index(index).key("weight");
                    faults.invalid(
                        field,
                        weight,
                        "must not be negative: leave it out for a weight of 1",
                    );
                }
            }
        }
    }

    /// Reports plugins that do not exist, do not implement a point, or are enabled twice there.
    ///
    /// As in runtime/framework.go, updatePluginList and expandMultiPointPlugins.
    fn check_names(&self, catalogue: &Catalogue, faults: &mut Faults<'_>) -> bool {
        let before = faults.len();
        let merged = self.merged();
        let field = self.field.key("plugins");
        // A plugin that the version refuses is unknown to it, even if other versions have it.
        let is_refused = |name: &str| self.rules.refused.plugins.contains(&name);
        let find = |name: &str| catalogue.get(name).filter(|_| !is_refused(name));
        for point in Point::ALL {
            let set = self.plugins.at(point);
            for (index, Plugin { name, .. }) in set.enabled.iter().enumerate() {
                let field = field.key(point.key()).key("enabled").index(index).key("name");
                let interface = point.interface();
                let is_repeated = set.enabled[..index].iter().any(|other| other.name == *name);
                match find(name) {
                    None if self.rules.refuses_at(point, name) => {}
                    None => faults.report(field, format!("{interface} {name:?} does not exist")),
                    Some(plugin) if !plugin.points.contains(point) => {
                        let message = format!("plugin {name:?} does not extend {interface} plugin");
                        faults.report(field, message);
                    }
                    Some(_) if is_repeated => faults.report(field, registered(name, point)),
                    Some(_) if self.doubles(point, name) => {
                        let message = format!(
                            "{}: it is enabled by default, so disable it here, too",
                            registered(name, point)
                        );
                        faults.report(field, message);
                    }
                    Some(_) => {}
                }
            }
        }
        let field = field.key("multiPoint").key("enabled");
        for (index, entry) in merged.iter().enumerate() {
            let Some(position) = entry.position else {
                continue;
            };
            let field = field.index(position).key("name");
            let is_repeated = merged[..index].iter().any(|other| other.name == entry.name);
            let mut points = EXPANSION_ORDER.into_iter();
            if find(entry.name).is_none() {
                let is_open = |point: &Point| !multipoint::disables(self.plugins.at(*point), ALL);
                if let Some(point) = points.find(is_open) {
                    let message = format!("{} {:?} does not exist", point.interface(), entry.name);
                    faults.report(field, message);
                }
            } else if is_repeated
                && let Some(point) = points.find(|point| {
                    multipoint::is_expanded(catalogue, &self.plugins, *point, entry.name)
                })
            {
                faults.report(field, registered(entry.name, point));
            }
        }
        faults.len() == before
    }

    /// Whether enabling `name` at `point` would list it a second time, next to the default entry.
    fn doubles(&self, point: Point, name: &str) -> bool {
        let set = self.plugins.at(point);
        matches!(self.rules.base, Base::Lists { again: Again::Doubles, .. })
            && self.rules.list_at(point).iter().any(|(default, _)| *default == name)
            && !multipoint::disables(set, name)
            && !multipoint::disables(set, ALL)
    }

    /// Reports points with too many plugins or too few.
    ///
    /// As in runtime/framework.go, NewFramework.
    fn check_counts(&self, points: &BTreeMap<Point, Vec<EnabledPlugin>>, faults: &mut Faults<'_>) {
        let count = |point| points[&point].len();
        let field = |point: Point| self.field.key("plugins").key(point.key());
        let name = self.scheduler_name();
        // For the first profile, validation has reported this already.
        let is_reported = self.is_first && 1 < self.plugins.queue_sort.enabled.len();
        if count(Point::QueueSort) != 1 && !is_reported {
            let message = format!(
                "only one queue sort plugin required for profile with scheduler name {name:?}, \
                 but got {}",
                count(Point::QueueSort)
            );
            faults.report(field(Point::QueueSort), message);
        }
        if count(Point::Bind) == 0 {
            let message = format!(
                "at least one bind plugin is needed for profile with scheduler name {name:?}"
            );
            faults.report(field(Point::Bind), message);
        }
        if 1 < count(Point::PlacementGenerate) {
            let message = format!(
                "at most one placement generate plugin is allowed for profile with scheduler name \
                 {name:?}, but got {}",
                count(Point::PlacementGenerate)
            );
            faults.report(field(Point::PlacementGenerate), message);
        }
    }
}

/// Sets absent weights to 0, as kube-scheduler writes them.
fn weigh(set: &mut PluginSet) {
    for plugin in set.enabled.iter_mut().chain(&mut set.disabled) {
        plugin.weight.get_or_insert(0);
    }
}

fn registered(name: &str, point: Point) -> String {
    format!("plugin {name:?} already registered as {:?}", point.interface())
}

/// Whether the highest total with these weights fits into 64 bits.
fn fits_total_score(weights: impl Iterator<Item = i64>) -> bool {
    weights
        .map(|weight| weight.checked_mul(MAX_NODE_SCORE))
        .try_fold(0_i64, |total, score| total.checked_add(score?))
        .is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_whose_total_overflows_do_not_fit() {
        let most = i64::MAX / MAX_NODE_SCORE;
        assert!(fits_total_score([1, 2, 3].into_iter()));
        assert!(fits_total_score([most - 1, 1].into_iter()));
        assert!(!fits_total_score([most, 1].into_iter()));
        assert!(!fits_total_score([i64::MAX].into_iter()));
    }
}
