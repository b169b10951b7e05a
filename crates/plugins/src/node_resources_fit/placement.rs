//! How full a placement of a group is.

use plimsoll_framework::parts::NodePart;
use plimsoll_framework::prelude::*;

use super::NodeResourcesFit;
use crate::resource_allocation::{ResourceAmounts, Usage};

/// Prefers the placement that is fuller with the group, whatever the strategy for nodes is. As in resource_allocation.go,
/// scorePlacement: the weighted mean over the resources of the strategy, each the sum over all nodes.
impl PlacementScore for NodeResourcesFit {
    fn score_placement(
        &self,
        _: &GroupInCycle<'_>,
        proposed: &ProposedPlacement<'_>,
        view: &View<'_>,
    ) -> Result<i64, Reason> {
        let (mut sum, mut weights) = (0, 0);
        for resource in self.strategy.resources() {
            let asked = proposed.members.iter().map(|(pod, _)| {
                ResourceAmounts::non_zero(pod.asks.room_non_zero, &pod.asks.room).of(resource)
            });
            let asked: i64 = asked.sum();
            // What no member requests counts on no node.
            if asked == 0 && resource.scalar().is_some() {
                continue;
            }
            let mut usage = Usage { allocatable: 0, without: 0, with: asked };
            for &row in &proposed.placement.rows {
                let Allocatable(allocatable) = Allocatable::at(view.nodes, row);
                let Requested(requested) = Requested::at(view.nodes, row);
                let NonZeroRequested(non_zero) = NonZeroRequested::at(view.nodes, row);
                usage.allocatable += ResourceAmounts::exact(allocatable).of(resource);
                let used = ResourceAmounts::non_zero(*non_zero, requested).of(resource);
                (usage.without, usage.with) = (usage.without + used, usage.with + used);
            }
            if 0 < usage.allocatable {
                sum += usage.used_share() * resource.weight;
                weights += resource.weight;
            }
        }
        Ok(if weights == 0 { 0 } else { sum / weights })
    }
}
