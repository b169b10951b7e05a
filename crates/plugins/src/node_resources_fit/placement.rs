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
            let asked = asked.fold(0, i64::saturating_add);
            // What no member requests counts on no node.
            if asked == 0 && resource.scalar().is_some() {
                continue;
            }
            let usage = together(
                asked,
                proposed.placement.rows.iter().map(|&row| {
                    let Allocatable(allocatable) = Allocatable::at(view.nodes, row);
                    let Requested(requested) = Requested::at(view.nodes, row);
                    let NonZeroRequested(non_zero) = NonZeroRequested::at(view.nodes, row);
                    (
                        ResourceAmounts::exact(allocatable).of(resource),
                        ResourceAmounts::non_zero(*non_zero, requested).of(resource),
                    )
                }),
            );
            if 0 < usage.allocatable {
                sum += usage.used_share() * resource.weight;
                weights += resource.weight;
            }
        }
        Ok(if weights == 0 { 0 } else { sum / weights })
    }

    fn looks_at_nodes(&self) -> bool {
        false
    }
}

/// The usage of several nodes as if they were one, with `asked` more. Each has an amount, of which another is used. No sum
/// exceeds the greatest amount, however much the nodes have.
fn together(asked: i64, nodes: impl Iterator<Item = (i64, i64)>) -> Usage {
    let mut usage = Usage { allocatable: 0, without: 0, with: asked };
    for (allocatable, used) in nodes {
        usage.allocatable = usage.allocatable.saturating_add(allocatable);
        usage.without = usage.without.saturating_add(used);
        usage.with = usage.with.saturating_add(used);
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_count_together_also_if_they_have_more_than_63_bits_hold() {
        let share =
            |asked, nodes: &[(i64, i64)]| together(asked, nodes.iter().copied()).used_share();
        assert_eq!(share(10, &[(100, 20), (100, 30)]), 30);
        assert_eq!(share(1, &[(i64::MAX, 0), (i64::MAX, i64::MAX)]), 100);
        assert_eq!(share(1, &[(i64::MAX, 0), (1 << 57, 1 << 57)]), 1);
    }
}
