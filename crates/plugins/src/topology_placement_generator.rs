//! TopologyPlacementGenerator: a group stays in one domain of a topology.

use plimsoll_framework::prelude::*;

use crate::group_domains::{must_exist, required_domains};

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
        must_exist(group)?;
        required_domains(group, all, view)
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<TopologyPlacementGenerator>()
        .reads_if::<Objects<PodGroup>>(|plugin| plugin.gates.topology_aware)
        .placement_generate()
        .done()
}
