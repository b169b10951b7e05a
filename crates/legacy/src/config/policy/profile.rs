//! The plugins that a Policy needs, by extension point.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_config::{Catalogue, EnabledPlugin, Point, ResolvedProfile};
use plimsoll_document::FieldPath;
use serde_json::Value;

/// What needs a plugin: a predicate or a priority, and its field.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) what: String,
    pub(super) field: FieldPath,
}

/// A profile under construction.
#[derive(Debug)]
pub(super) struct Plan {
    points: BTreeMap<Point, Vec<EnabledPlugin>>,
    /// The args that differ from the defaults.
    pub(super) args: BTreeMap<&'static str, Value>,
    asking: BTreeMap<&'static str, Asking>,
}

impl Plan {
    /// The plugins of every Policy. As in factory.go, createFromConfig. SchedulingGates is newer, but no scheduler may
    /// schedule a pod with gates.
    pub(super) fn new() -> Self {
        let mut plan =
            Self { points: BTreeMap::new(), args: BTreeMap::new(), asking: BTreeMap::new() };
        for (point, plugin) in [
            (Point::PreEnqueue, "SchedulingGates"),
            (Point::QueueSort, "PrioritySort"),
            (Point::PostFilter, "DefaultPreemption"),
            (Point::Bind, "DefaultBinder"),
        ] {
            let what = "every Policy".to_owned();
            plan.enable(plugin, point, 0, &Asking { what, field: FieldPath::root() });
        }
        plan
    }

    /// Enables a plugin at a point. If it is enabled there already, its weight stays.
    ///
    /// As in legacy_registry.go, appendToPluginSet, which was meant to keep the highest weight but keeps the first.
    pub(super) fn enable(
        &mut self,
        name: &'static str,
        point: Point,
        weight: i64,
        asking: &Asking,
    ) {
        self.asking.entry(name).or_insert_with(|| asking.clone());
        let plugins = self.points.entry(point).or_default();
        if plugins.iter().all(|plugin| plugin.name != name) {
            plugins.push(EnabledPlugin { name, weight });
        }
    }

    /// Whether the plugin `name` is enabled at any point.
    pub(super) fn enables(&self, name: &str) -> bool {
        self.asking.contains_key(name)
    }

    /// The plugins that this build does not have, with what needs them.
    pub(super) fn missing(&self, catalogue: &Catalogue) -> Vec<(&'static str, &Asking)> {
        let is_missing = |name: &str| catalogue.get(name).is_none_or(|known| !known.available);
        let asking = self.asking.iter().filter(|(name, _)| is_missing(name));
        asking.map(|(name, asking)| (*name, asking)).collect()
    }

    /// The profile with the plugins that this build has, at the points that they implement.
    pub(super) fn resolve(&self, scheduler_name: &str, catalogue: &Catalogue) -> ResolvedProfile {
        let missing: BTreeSet<&str> =
            self.missing(catalogue).into_iter().map(|(name, _)| name).collect();
        let stands = |plugin: &EnabledPlugin, point| {
            !missing.contains(plugin.name)
                && catalogue.get(plugin.name).is_some_and(|known| known.points.contains(point))
        };
        let points: BTreeMap<Point, Vec<EnabledPlugin>> = Point::ALL
            .into_iter()
            .map(|point| {
                let asked = self.points.get(&point).into_iter().flatten().copied();
                (point, asked.filter(|plugin| stands(plugin, point)).collect())
            })
            .collect();
        let enabled: BTreeSet<&str> = points.values().flatten().map(|plugin| plugin.name).collect();
        let args = enabled.into_iter().filter_map(|name| {
            let own = self.args.get(name).cloned();
            let args = own.or_else(|| catalogue.default_args(name))?;
            Some((name.to_owned(), args))
        });
        ResolvedProfile {
            scheduler_name: scheduler_name.to_owned(),
            percentage_of_nodes_to_score: None,
            args: args.collect(),
            points,
            unavailable: missing.into_iter().map(str::to_owned).collect(),
            run_all_filters: false,
        }
    }
}
