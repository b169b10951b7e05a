//! How a profile changes the default plugins of a point, in versions without `multiPoint`.
//!
//! As in apis/config/types.go of 1.20, mergePluginSets, and v1beta2/default_plugins.go of 1.26,
//! mergePluginSet.

use crate::multipoint::{ALL, disables};
use crate::rules::{Again, Weighed};
use crate::types::PluginSet;

/// A plugin of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merged<'a> {
    pub(crate) name: &'a str,
    /// 0 if none is given.
    pub(crate) weight: i32,
    /// Its index in `enabled` of the point; none for a plugin of the default profile.
    pub(crate) position: Option<usize>,
}

/// The default plugins of a point that the profile does not disable, then those it enables.
pub(crate) fn merge<'a>(
    defaults: &[Weighed],
    again: Again,
    custom: &'a PluginSet,
) -> Vec<Merged<'a>> {
    let enabled = custom.enabled.iter().enumerate().map(|(position, plugin)| Merged {
        name: &plugin.name,
        weight: plugin.weight.unwrap_or_default(),
        position: Some(position),
    });
    let enabled: Vec<_> = enabled.collect();
    let mut merged = Vec::new();
    if !disables(custom, ALL) {
        for &(name, weight) in defaults.iter().filter(|(name, _)| !disables(custom, name)) {
            // If a name occurs several times, the last entry replaces the default and the others remain.
            let replacement = match again {
                Again::Replaces => enabled.iter().rfind(|entry| entry.name == name),
                Again::Doubles => None,
            };
            merged.push(replacement.copied().unwrap_or(Merged { name, weight, position: None }));
        }
    }
    let is_placed = |entry: &Merged<'_>| merged.contains(entry);
    let others: Vec<_> = enabled.into_iter().filter(|entry| !is_placed(entry)).collect();
    merged.extend(others);
    merged
}
