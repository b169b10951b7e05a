//! The laws for filters whose verdicts are remembered by what they depend on: see [`laws`](crate::laws).

use plimsoll_api::AnyObject;
use plimsoll_framework::points::FilterPoint;
use plimsoll_framework::{
    Code, ConcernPoint, ConcernedNodes, CycleState, PodInfo, Points, Row, Verdict, VerdictKey,
};

use crate::cluster::Cluster;
use crate::laws::Kept;
use crate::scenario::Scenario;

/// Checks that states of equal keys give equal verdicts, also after an object has come or gone that does not concern the node.
pub(crate) fn keys_agree(plugin: &Points, scenario: &Scenario) -> Kept {
    let Some(filter) = &plugin.filter else { return Ok(()) };
    let Some(point) = filter.concerns() else { return Ok(()) };
    let with = Cluster::of(scenario);
    let mut remembered = Remembered::default();
    remembered.judge(filter, scenario, &with, &[])?;
    for object in &scenario.objects {
        let mut without = with.clone();
        without.stores.remove(object.kind(), &object.key());
        remembered.clone().judge(
            filter,
            scenario,
            &without,
            &concerned(point, object, &without),
        )?;
        let mut before = Remembered::default();
        before.judge(filter, scenario, &without, &[])?;
        before.judge(filter, scenario, &with, &concerned(point, object, &with))?;
    }
    Ok(())
}

/// The rows of the nodes that an object concerns.
fn concerned(point: &ConcernPoint, object: &AnyObject, cluster: &Cluster) -> Vec<Row> {
    match point.nodes(object, &cluster.view()) {
        ConcernedNodes::All => cluster.nodes.rows().collect(),
        ConcernedNodes::Named(name) => cluster.row(&name).into_iter().collect(),
        ConcernedNodes::Rows(rows) => rows.to_vec(),
    }
}

/// The verdicts by key and row, with the pod for which each was given.
#[derive(Clone, Debug, Default)]
struct Remembered<'p>(Vec<(VerdictKey, Row, Verdict, &'p PodInfo)>);

impl<'p> Remembered<'p> {
    /// Compares the verdicts for all pods with those that are remembered, except on nodes that something has changed for, and
    /// remembers them.
    fn judge(
        &mut self,
        filter: &FilterPoint,
        scenario: &'p Scenario,
        cluster: &Cluster,
        changed: &[Row],
    ) -> Kept {
        self.0.retain(|(_, row, ..)| !changed.contains(row));
        let view = cluster.view();
        for pod in &scenario.pending {
            let prepared = filter.prepare(pod, &mut CycleState::default(), &view);
            let Some(key) = prepared.key(&view) else { continue };
            let exceptions = prepared.exceptions(&view);
            for row in cluster.nodes.rows().filter(|row| !exceptions.contains(row)) {
                let verdict = prepared.judge_one(pod, &cluster.nodes, row);
                let known = self.0.iter().find(|one| (&one.0, one.1) == (&key, row));
                if let Some((.., before, of)) = known.filter(|(.., before, _)| *before != verdict) {
                    let (node, pod, of) = (cluster.nodes.name_of(row), &pod.key, &of.key);
                    return Err(format!(
                        "states of one key give one verdict, but for {pod} {node} has {verdict:?}, \
                         and for {of} it had {before:?}"
                    ));
                }
                let is_error = matches!(&verdict, Verdict::Fail(why) if why.code == Code::Error);
                if known.is_none() && !is_error && prepared.may_keep(&cluster.nodes, row) {
                    self.0.push((key.clone(), row, verdict, pod));
                }
            }
        }
        Ok(())
    }
}
