//! TopologyPlacementGenerator: a group stays in one domain of a topology.

use plimsoll_framework::prelude::*;
use rustc_hash::FxHashMap;

/// One placement for each value of the label that the `schedulingConstraints` of a group name, among the nodes that
/// have this label.
///
/// Pods of the group that already run fix the value. A group that is part of a group of groups is placed within the
/// placement of that. Example: with the key `topology.kubernetes.io/zone` and nodes in
/// zones a and b, a group is placed in zone a or in zone b, never in both.
#[derive(Clone, Copy, Debug)]
pub struct TopologyPlacementGenerator {
    gates: GroupGates,
}

impl Plugin for TopologyPlacementGenerator {
    const NAME: &'static str = "TopologyPlacementGenerator";
    type Args = NoArgs;
    fn new(_: NoArgs, gates: &FeatureGates) -> Self {
        TopologyPlacementGenerator { gates: GroupGates::of(gates) }
    }
}

impl PlacementGenerate for TopologyPlacementGenerator {
    fn placements(
        &self,
        group: &GroupInCycle<'_>,
        all: &[Row],
        view: &View<'_>,
    ) -> Result<Option<Vec<GroupPlacement>>, Reason> {
        if !self.gates.topology_aware {
            return Ok(None);
        }
        if group.object.is_none() && group.composite.is_none() {
            let name = &group.key.name;
            return Err(format!("podgroup.scheduling.k8s.io {name:?} not found").into());
        }
        let Some(key) = group.topology_key() else { return Ok(None) };
        let fixed = fixed_domain(group, key, view)?;
        let mut domains = FxHashMap::<&Str, Vec<Row>>::default();
        for &row in all {
            let value = view.nodes.node(row).labels.get(key);
            let value = value.filter(|value| fixed.as_ref().is_none_or(|fixed| fixed == *value));
            if let Some(value) = value {
                domains.entry(value).or_default().push(row);
            }
        }
        let placement = |(name, rows): (&Str, _)| GroupPlacement { name: name.clone(), rows };
        let mut placements: Vec<GroupPlacement> = domains.into_iter().map(placement).collect();
        placements.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Some(placements))
    }
}

/// The domain of the pods that have a node already; `None` if there are none. As in topology_placement.go: they must be in
/// one domain, and on nodes with the label.
fn fixed_domain(
    group: &GroupInCycle<'_>,
    key: &Str,
    view: &View<'_>,
) -> Result<Option<Str>, Reason> {
    const PREFIX: &str = "cannot determine domain for already scheduled pods";
    let mut placed = group.placed(view).peekable();
    if placed.peek().is_none() {
        return Ok(None);
    }
    let rows = view.nodes.rows().map(|row| (view.nodes.name_of(row), row));
    let rows: FxHashMap<&Str, Row> = rows.collect();
    let mut found: Option<Str> = None;
    for (pod, node) in placed {
        let Some(&row) = rows.get(node) else {
            let text = format!("{PREFIX}: getting node for pod {pod}: node {node:?} not found");
            return Err(text.into());
        };
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

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<TopologyPlacementGenerator>()
        .reads_if::<Objects<PodGroup>>(|plugin| plugin.gates.topology_aware)
        .placement_generate()
        .done()
}
