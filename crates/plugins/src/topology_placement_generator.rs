//! TopologyPlacementGenerator: a group stays in one domain of a topology.

use std::collections::BTreeMap;

use plimsoll_framework::prelude::*;

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
        let mut domains = BTreeMap::<Str, Vec<Row>>::new();
        for &row in all {
            let value = view.nodes.node(row).labels.get(key);
            let value = value.filter(|value| fixed.as_ref().is_none_or(|fixed| fixed == *value));
            if let Some(value) = value {
                domains.entry(value.clone()).or_default().push(row);
            }
        }
        Ok(Some(domains.into_iter().map(|(name, rows)| GroupPlacement { name, rows }).collect()))
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
    let mut found: Option<Str> = None;
    for (pod, node) in group.placed(view) {
        let row = view.nodes.rows().find(|row| view.nodes.name_of(*row) == node);
        let Some(row) = row else {
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
