//! The laws for plugins that score each node without the others: see [`laws`](crate::laws).

use std::fmt::Write;

use plimsoll_framework::points::ScorePoint;
use plimsoll_framework::{ByRow, CycleState, PodInfo, Points, Row, Scored};

use crate::cluster::Cluster;
use crate::laws::Kept;
use crate::scenario::Scenario;

/// How a score of single nodes is compared with the rule.
type Agrees = fn(&ScorePoint, &PodInfo, &Cluster, &[Row]) -> Kept;

/// Checks that scores by node and on demand are those of the rule, whichever nodes are feasible.
pub(crate) fn nodes_agree(plugin: &Points, scenario: &Scenario) -> Kept {
    let Some(score) = &plugin.score else { return Ok(()) };
    let by_node: Option<Agrees> = score.is_by_row().then_some(the_score_agrees);
    let on_demand: Option<Agrees> = score.is_on_demand().then_some(on_demand_agrees);
    let cluster = Cluster::of(scenario);
    let rows: Vec<Row> = cluster.nodes.rows().collect();
    for agrees in by_node.into_iter().chain(on_demand) {
        for pod in scenario.pending.iter().filter(|pod| score.applies_in(pod, &cluster.view())) {
            agrees(score, pod, &cluster, &rows)?;
            for row in &rows {
                agrees(score, pod, &cluster, std::slice::from_ref(row))?;
            }
        }
    }
    Ok(())
}

fn on_demand_agrees(score: &ScorePoint, pod: &PodInfo, cluster: &Cluster, rows: &[Row]) -> Kept {
    let law = "a score on demand does not depend on which nodes are feasible";
    let Some(on_demand) = score.scores_on_demand(pod, &cluster.view()) else {
        return compare(law, None, score, (pod, cluster, rows));
    };
    let raw = |&row| Scored { row, score: on_demand.raw(&cluster.nodes, row) };
    let mut scores: Vec<Scored> = rows.iter().map(raw).collect();
    if let Some(higher) = scores.iter().find(|one| on_demand.highest < one.score) {
        let (node, pod, highest) = (cluster.nodes.name_of(higher.row), &pod.key, on_demand.highest);
        return Err(format!(
            "no score on demand is above its bound, but {node} has {} for {pod}, and the bound is \
             {highest}",
            higher.score
        ));
    }
    on_demand.normalize.apply(&mut scores);
    compare(law, Some(&scores), score, (pod, cluster, rows))
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
    compare(law, by_row.as_deref(), score, (pod, cluster, rows))
}

/// Compares scores with those of the rule.
fn compare(
    law: &str,
    by_row: Option<&[Scored]>,
    score: &ScorePoint,
    (pod, cluster, rows): (&PodInfo, &Cluster, &[Row]),
) -> Kept {
    let rule = score.score(pod, &mut CycleState::default(), &cluster.view(), rows);
    let rule = rule.as_deref();
    if by_row == rule {
        return Ok(());
    }
    let mut apart = String::new();
    for &row in rows {
        let of = |scores: Option<&[Scored]>| {
            let mut scores = scores.into_iter().flatten();
            let score = scores.find(|one| one.row == row).map(|one| one.score);
            score.map_or_else(|| "no score".to_owned(), |score| score.to_string())
        };
        let (node, found, expected) = (cluster.nodes.name_of(row), of(by_row), of(rule));
        writeln!(apart, "{node} has {found} for {}, expected {expected}", pod.key)
            .expect("a string takes any text");
    }
    Err(format!("{law}, but\n{apart}"))
}
