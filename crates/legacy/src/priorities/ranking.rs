//! Ranks nodes by priorities.

use plimsoll_framework::{PodInfo, Prioritize, Prioritized, Row, View};

use crate::priorities::equal::Equal;
use crate::priorities::{MAX_PRIORITY, Points, Priority, Raw, Subject, Weighted};

/// The priorities of a profile. They can rank nodes instead of its Score plugins.
#[derive(Debug, Default)]
pub struct Priorities(pub Vec<Weighted>);

impl Priorities {
    /// Ranks the feasible nodes.
    pub fn rank(&self, subject: &Subject<'_>) -> Ranking {
        Ranking::of(&self.0, subject)
    }
}

impl Prioritize for Priorities {
    fn most(&self) -> i64 {
        MAX_PRIORITY
    }

    fn prioritize(&self, pod: &PodInfo, view: View<'_>, feasible: &[Row]) -> Vec<Prioritized> {
        let ranking = self.rank(&Subject { pod, view, feasible });
        let prioritized = |standing: Standing| Prioritized {
            name: standing.name.into(),
            weight: standing.weight,
            points: standing.points.iter().map(|points| points.0).collect(),
        };
        ranking.standings.into_iter().map(prioritized).collect()
    }
}

/// The results of one priority for every feasible node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The name of the priority.
    pub name: String,
    /// Its weight.
    pub weight: i64,
    /// The raw values, in the order of the nodes.
    pub raw: Vec<Raw>,
    /// The points before the weight, in the same order.
    pub points: Vec<Points>,
}

/// The results of all priorities for the feasible nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking {
    /// The feasible nodes.
    pub rows: Vec<Row>,
    /// Each priority in its order.
    pub standings: Vec<Standing>,
    /// The sums of points times weight, in the order of the nodes.
    pub totals: Vec<i64>,
}

impl Ranking {
    /// Evaluates every priority. As in generic_scheduler.go, PrioritizeNodes: if there is none,
    /// EqualPriority ranks.
    pub fn of(priorities: &[Weighted], subject: &Subject<'_>) -> Self {
        let mut standings: Vec<_> = priorities
            .iter()
            .map(|one| standing(&one.name, one.weight, &*one.priority, subject))
            .collect();
        if standings.is_empty() {
            standings.push(standing("EqualPriority", 1, &Equal, subject));
        }
        let total = |node: usize| {
            standings.iter().fold(0_i64, |sum, standing| {
                sum.saturating_add(standing.points[node].0.saturating_mul(standing.weight))
            })
        };
        let totals = (0..subject.feasible.len()).map(total).collect();
        Ranking { rows: subject.feasible.to_vec(), standings, totals }
    }

    /// The nodes with the highest total. The old releases took these in turns.
    pub fn best(&self) -> Vec<Row> {
        let max = self.totals.iter().max();
        let ranked = self.rows.iter().zip(&self.totals);
        ranked.filter(|(_, total)| Some(*total) == max).map(|(&row, _)| row).collect()
    }
}

fn standing(name: &str, weight: i64, priority: &dyn Priority, subject: &Subject<'_>) -> Standing {
    let raw = priority.map(subject);
    let points = priority.reduce(subject, &raw);
    Standing { name: name.to_owned(), weight, raw, points }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::priorities::least_requested::LeastRequested;
    use crate::priorities::most_requested::MostRequested;
    use crate::priorities::testing::with_subject;
    use crate::priorities::{OldRelease, defaults};

    const TWO_NODES: &str = r#"
        node a {"allocatable": {"cpu": "4", "memory": "10Gi"}}
        node b {"allocatable": {"cpu": "2", "memory": "2Gi"}}
        pod p {"requests": {"cpu": "1", "memory": "1Gi"}}
        "#;

    #[test]
    fn points_times_weights_add_up_and_the_highest_total_is_best() {
        with_subject(TWO_NODES, |subject| {
            let priorities = [
                Weighted::new("LeastRequestedPriority", 1, LeastRequested),
                Weighted::new("MostRequestedPriority", 3, MostRequested),
            ];
            let ranking = Ranking::of(&priorities, subject);
            assert_eq!(ranking.standings[0].points, [Points(8), Points(5)]);
            assert_eq!(ranking.standings[1].points, [Points(1), Points(5)]);
            assert_eq!(ranking.totals, [11, 20]);
            assert_eq!(ranking.best(), [subject.feasible[1]]);
        });
    }

    #[test]
    fn without_priorities_all_nodes_are_equal() {
        with_subject(TWO_NODES, |subject| {
            let ranking = Ranking::of(&[], subject);
            assert_eq!(ranking.standings[0].name, "EqualPriority");
            assert_eq!(ranking.totals, [1, 1]);
            assert_eq!(ranking.best(), subject.feasible);
        });
    }

    #[test]
    fn weights_that_are_too_large_do_not_wrap_around() {
        with_subject(TWO_NODES, |subject| {
            let priorities = [Weighted::new("LeastRequestedPriority", i64::MAX, LeastRequested)];
            assert_eq!(Ranking::of(&priorities, subject).totals, [i64::MAX, i64::MAX]);
        });
    }

    #[test]
    fn no_default_priority_gives_less_than_0_or_more_than_10() {
        with_subject(TWO_NODES, |subject| {
            let defaults = defaults(&BTreeMap::new(), OldRelease::Described);
            let defaults = defaults.expect("they need no args");
            for standing in Ranking::of(&defaults, subject).standings {
                let in_range =
                    |points: &Points| (0..=crate::priorities::MAX_PRIORITY).contains(&points.0);
                assert!(standing.points.iter().all(in_range), "{standing:?}");
            }
        });
    }
}
