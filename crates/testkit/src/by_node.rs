//! The law for plugins that score each node without the others: see [`laws`](crate::laws).

use std::fmt::Write;

use plimsoll_framework::points::ScorePoint;
use plimsoll_framework::{ByRow, CycleState, PodInfo, Points, Row, Scored};

use crate::cluster::Cluster;
use crate::laws::Kept;
use crate::scenario::Scenario;

/// Checks that scores by node are those of the rule, whichever nodes are feasible.
pub(crate) fn nodes_agree(plugin: &Points, scenario: &Scenario) -> Kept {
    let Some(score) = plugin.score.as_ref().filter(|score| score.is_by_row()) else {
        return Ok(());
    };
    let cluster = Cluster::of(scenario);
    let rows: Vec<Row> = cluster.nodes.rows().collect();
    for pod in scenario.pending.iter().filter(|pod| score.applies_in(pod, &cluster.view())) {
        the_score_agrees(score, pod, &cluster, &rows)?;
        for row in &rows {
            the_score_agrees(score, pod, &cluster, std::slice::from_ref(row))?;
        }
    }
    Ok(())
}

fn the_score_agrees(score: &ScorePoint, pod: &PodInfo, cluster: &Cluster, rows: &[Row]) -> Kept {
    let law = "a score by node does not depend on which nodes are feasible";
    let by_row = match score.by_row(pod, &cluster.view()) {
        ByRow::Unsupported => return Err(format!("{law}, but none is given for {}", pod.key)),
        ByRow::Skips => None,
        ByRow::Scores(by_row, normalize) => {
            let raw = |&row| Scored { row, score: by_row.raw(pod, &cluster.nodes, row) };
            let mut scores: Vec<Scored> = rows.iter().map(raw).collect();
            normalize.apply(&mut scores);
            Some(scores)
        }
    };
    let rule = score.score(pod, &mut CycleState::default(), &cluster.view(), rows);
    if by_row == rule {
        return Ok(());
    }
    let mut apart = String::new();
    for &row in rows {
        let of = |scores: &Option<Vec<Scored>>| {
            let mut scores = scores.iter().flatten();
            let score = scores.find(|one| one.row == row).map(|one| one.score);
            score.map_or_else(|| "no score".to_owned(), |score| score.to_string())
        };
        let (node, found, expected) = (cluster.nodes.name_of(row), of(&by_row), of(&rule));
        writeln!(apart, "{node} has {found} for {}, expected {expected}", pod.key)
            .expect("a string takes any text");
    }
    Err(format!("{law}, but\n{apart}"))
}
