//! The laws for plugins that judge all nodes at once by amounts: see [`laws`](crate::laws).

use std::fmt::Write;

use plimsoll_framework::points::{FilterPoint, ScorePoint};
use plimsoll_framework::{
    ByRow, CycleState, NEVER, Needs, PodInfo, Points, Row, ScoreBound, Supply,
};

use crate::check::Verdicts;
use crate::cluster::Cluster;
use crate::laws::Kept;
use crate::scenario::Scenario;

/// At most so many pods are placed on a node, one after the other.
const MOST_PODS: usize = 12;

/// Checks that what a plugin says about all nodes at once agrees with its rule for each node.
pub(crate) fn amounts_agree(plugin: &Points, scenario: &Scenario) -> Kept {
    let cluster = Cluster::of(scenario);
    for pod in &scenario.pending {
        if let Some(filter) = &plugin.filter
            && filter.applies(pod)
            && let Some(needs) = filter.needs(pod, &cluster.nodes)
        {
            needs_are_the_filter(filter, &needs, pod, &cluster)?;
            needs_are_met_as_often_as_pods_fit(&needs, pod, &cluster)?;
        }
        if let Some(score) = &plugin.score
            && score.applies(pod)
            && let Some(bound) = score.bound(pod)
        {
            bounds_are_above_scores(score, bound.as_ref(), pod, &cluster)?;
        }
    }
    Ok(())
}

fn needs_are_the_filter(
    filter: &FilterPoint,
    needs: &Needs,
    pod: &PodInfo,
    cluster: &Cluster,
) -> Kept {
    let rows: Vec<Row> = cluster.nodes.rows().collect();
    let mut supply = Supply::new(rows.len());
    for (resource, _) in &needs.0 {
        supply.cover(resource, &cluster.nodes, rows.iter().copied().enumerate());
    }
    let mut sieved = vec![0.0; rows.len()];
    let is_unsure = needs.sieve(&supply, &mut sieved);
    let mut copied = Vec::new();
    if needs.sieve_copy(&supply, &vec![0.0; rows.len()], &mut copied) != is_unsure
        || copied.iter().map(|one| one.to_bits()).ne(sieved.iter().map(|one| one.to_bits()))
    {
        return Err("a copy is sieved alike, but it differs".to_owned());
    }
    let prepared = filter.prepare(pod, &mut CycleState::default(), &cluster.view());
    let verdicts = Verdicts::of(&prepared, pod, cluster, &rows);
    let mut apart = String::new();
    for (&row, sieved) in rows.iter().zip(sieved) {
        let passes = verdicts.on(row).is_some_and(|verdict| verdict.passes());
        let is_kept = NEVER < sieved;
        let agrees = needs.are_met(&cluster.nodes, row) == passes
            && (is_kept == passes || (is_unsure && is_kept));
        if !agrees {
            let (node, key) = (cluster.nodes.name_of(row), &pod.key);
            let word = if passes { "passes" } else { "fails" };
            writeln!(apart, "{node} {word} for {key}").expect("a string takes any text");
        }
    }
    if apart.is_empty() {
        Ok(())
    } else {
        Err(format!("needs agree with the filter, but\n{apart}"))
    }
}

fn needs_are_met_as_often_as_pods_fit(needs: &Needs, pod: &PodInfo, cluster: &Cluster) -> Kept {
    for row in cluster.nodes.rows() {
        let (mut node, mut n_pods) = (cluster.nodes.scratch(row), 0);
        let only = node.rows().next().expect("it has one node");
        while n_pods < MOST_PODS && needs.are_met(&node, only) {
            node.place(only, pod);
            n_pods += 1;
        }
        let said = needs.times_met(&cluster.nodes, row, &pod.requests);
        if said.min(MOST_PODS) != n_pods {
            let (name, key) = (cluster.nodes.name_of(row), &pod.key);
            return Err(format!(
                "{n_pods} pods like {key} fit on {name} one after the other, not {said}\n"
            ));
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "scores are 0 to 100")]
fn bounds_are_above_scores(
    score: &ScorePoint,
    bound: &dyn ScoreBound,
    pod: &PodInfo,
    cluster: &Cluster,
) -> Kept {
    let ByRow::Scores(by_row, _) = score.by_row(pod, &cluster.view()) else {
        return Err("a plugin with a bound scores by node, but this one does not\n".to_owned());
    };
    let rows: Vec<Row> = cluster.nodes.rows().collect();
    let mut supply = Supply::new(rows.len());
    for resource in bound.resources() {
        supply.cover(&resource, &cluster.nodes, rows.iter().copied().enumerate());
    }
    let own: Vec<f32> = rows.iter().filter_map(|&row| bound.own(&cluster.nodes, row)).collect();
    let mut bounds = vec![0.0; rows.len()];
    bound.add(&supply, &own, 1.0, &mut bounds);
    let mut apart = String::new();
    for (&row, bound) in rows.iter().zip(bounds) {
        let raw = by_row.raw(pod, &cluster.nodes, row);
        if !(raw as f32 <= bound && bound.fract().abs() <= 0.0) {
            let (node, key) = (cluster.nodes.name_of(row), &pod.key);
            writeln!(apart, "{node} has {raw}, not at most {bound}, for {key}")
                .expect("a string takes any text");
        }
    }
    let law = "a bound is a whole number, and no score is above it";
    if apart.is_empty() { Ok(()) } else { Err(format!("{law}, but\n{apart}")) }
}
