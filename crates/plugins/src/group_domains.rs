//! The domains of a topology in which a group of pods may be placed.

use std::collections::BTreeSet;

use plimsoll_framework::prelude::*;
use rustc_hash::FxHashMap;

/// Whether the object of a group is there. As in topology_placement.go.
pub(crate) fn must_exist(group: &GroupInCycle<'_>) -> Result<(), Reason> {
    if group.object.is_none() && group.composite.is_none() {
        let name = &group.key.name;
        return Err(format!("podgroup.scheduling.k8s.io {name:?} not found").into());
    }
    Ok(())
}

/// A placement for each value of the label that the group requires to be the same, among the nodes `all`; `None` if it
/// requires none. Pods of the group that have nodes fix the value.
pub(crate) fn required_domains(
    group: &GroupInCycle<'_>,
    all: &[Row],
    view: &View<'_>,
) -> Result<Option<Vec<GroupPlacement>>, Reason> {
    let Some(key) = group.topology_key() else { return Ok(None) };
    let fixed = fixed_domain(group, key, view)?;
    let mut domains = nested(std::slice::from_ref(key), all, view).pop().unwrap_or_default();
    domains.retain(|domain| fixed.as_ref().is_none_or(|fixed| *fixed == domain.name));
    Ok(Some(domains))
}

/// The domains of each key, among the nodes `all`: those of the last key first. A domain has the nodes with the same values of
/// its key and of all keys behind it, and its name has these values, the last one first. `level` counts the keys behind that of
/// a domain.
pub(crate) fn nested(keys: &[Str], all: &[Row], view: &View<'_>) -> Vec<Vec<GroupPlacement>> {
    // The nodes of the level before, each with its domain there.
    let mut of_nodes: Vec<(Row, usize)> = all.iter().map(|row| (*row, 0)).collect();
    let mut levels = Vec::<Vec<GroupPlacement>>::new();
    for (depth, key) in keys.iter().rev().enumerate() {
        let mut domains = Vec::<GroupPlacement>::new();
        let mut index = FxHashMap::<(usize, &Str), usize>::default();
        let mut here = Vec::with_capacity(of_nodes.len());
        for (row, outer) in of_nodes {
            let Some(value) = view.nodes.node(row).labels.get(key) else { continue };
            let at = *index.entry((outer, value)).or_insert_with(|| {
                let name = match levels.last() {
                    None => value.clone(),
                    Some(wider) => format!("{}/{value}", wider[outer].name).into(),
                };
                let level = keys.len() - 1 - depth;
                domains.push(GroupPlacement { name, rows: Vec::new(), level });
                domains.len() - 1
            });
            domains[at].rows.push(row);
            here.push((row, at));
        }
        levels.push(domains);
        of_nodes = here;
    }
    levels
}

const PREFIX: &str = "cannot determine domain for already scheduled pods";

/// The pods of a group that have a node already, each with its node.
fn placed_rows<'v>(
    group: &'v GroupInCycle<'_>,
    view: &'v View<'_>,
) -> Result<Vec<(&'v PodKey, Row)>, Reason> {
    if group.n_placed(view) == 0 {
        return Ok(Vec::new());
    }
    let rows = view.nodes.rows().map(|row| (view.nodes.name_of(row), row));
    let rows: FxHashMap<&Str, Row> = rows.collect();
    let row = |(pod, node): (&'v PodKey, &'v Str)| match rows.get(node) {
        Some(row) => Ok((pod, *row)),
        None => {
            Err(format!("{PREFIX}: getting node for pod {pod}: node {node:?} not found").into())
        }
    };
    group.placed(view).map(row).collect()
}

/// The nodes of the pods of a group that have one already.
pub(crate) fn nodes_in_use(
    group: &GroupInCycle<'_>,
    view: &View<'_>,
) -> Result<BTreeSet<Row>, Reason> {
    Ok(placed_rows(group, view)?.into_iter().map(|(_, row)| row).collect())
}

/// The domain of the pods that have a node already; `None` if there are none. As in topology_placement.go: they must be in
/// one domain, and on nodes with the label.
pub(crate) fn fixed_domain(
    group: &GroupInCycle<'_>,
    key: &Str,
    view: &View<'_>,
) -> Result<Option<Str>, Reason> {
    let mut found: Option<Str> = None;
    for (pod, row) in placed_rows(group, view)? {
        let Some(value) = view.nodes.node(row).labels.get(key) else {
            return Err(format!("{PREFIX}: no topology domain found for pod {pod}").into());
        };
        match &found {
            Some(other) if other != value => {
                let text =
                    format!("{PREFIX}: more than 1 domain found for pod group: {other}, {value}");
                return Err(text.into());
            }
            _ => found = Some(value.clone()),
        }
    }
    Ok(found)
}
