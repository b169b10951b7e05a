//! PodGroupPodsCount: a group is best where most of its pods fit.

use plimsoll_framework::prelude::*;

const NONE_PLACED: &str = "no pods from pod group are assigned to any of the candidate placements";

/// Scores a placement by how many pods of the group have a node there, including those that run already. The placement
/// with the most gets 100, the others in proportion.
#[derive(Clone, Copy, Debug)]
pub struct PodGroupPodsCount;

impl Plugin for PodGroupPodsCount {
    const NAME: &'static str = "PodGroupPodsCount";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        PodGroupPodsCount
    }
}

impl PlacementScore for PodGroupPodsCount {
    fn score_placement(
        &self,
        group: &GroupInCycle<'_>,
        proposed: &ProposedPlacement<'_>,
        view: &View<'_>,
    ) -> Result<i64, Reason> {
        let placed = group.n_placed(view);
        Ok(i64::try_from(placed + proposed.members.len()).expect("a number of pods fits"))
    }

    fn looks_at_nodes(&self) -> bool {
        false
    }

    fn normalize_placement_scores(&self, scores: &mut [i64]) -> Result<(), Reason> {
        let most = scores.iter().copied().max().unwrap_or(0);
        if most == 0 {
            return Err(NONE_PLACED.into());
        }
        for score in scores {
            *score = *score * MAX_NODE_SCORE / most;
        }
        Ok(())
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<PodGroupPodsCount>().placement_score().done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_placement_with_the_most_pods_gets_all_points() {
        let mut scores = [1, 3, 0];
        PodGroupPodsCount.normalize_placement_scores(&mut scores).expect("some have pods");
        assert_eq!(scores, [33, 100, 0]);
        let error = PodGroupPodsCount.normalize_placement_scores(&mut [0, 0]);
        assert_eq!(error, Err(NONE_PLACED.into()));
    }
}
