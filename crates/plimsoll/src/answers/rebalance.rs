//! Which pods should move.

use anyhow::{Result, bail};
use plimsoll_api::{AnyObject, ResourceClaimTemplate};
use plimsoll_engine::Scheduler;
use plimsoll_sim::{InitialCluster, RebalanceOptions, RebalancePlan, Simulation};

use super::Deciders;

/// Looks for moves after the pending pods were placed. At most `most` decisions are made for these.
pub(crate) fn of_cluster(
    deciders: Deciders<'_>,
    cluster: InitialCluster,
    options: &RebalanceOptions,
    most: usize,
) -> Result<RebalancePlan> {
    let cluster = after_pending(deciders.scheduler()?, cluster, most)?;
    let mut simulation = Simulation::new(deciders.scheduler()?, cluster);
    let now = simulation.now();
    Ok(plimsoll_sim::rebalance(simulation.scheduler_mut(), now, options))
}

/// The cluster after its pending pods were placed, if that takes no more than `most` decisions.
pub(crate) fn after_pending(
    scheduler: Scheduler,
    cluster: InitialCluster,
    most: usize,
) -> Result<InitialCluster> {
    // A scheduler does not keep templates of claims, but pods that are counted or scaled later need them.
    let is_template = |object: &&AnyObject| object.kind().is::<ResourceClaimTemplate>();
    let templates: Vec<AnyObject> = cluster.objects.iter().filter(is_template).cloned().collect();
    let mut simulation = Simulation::new(scheduler, cluster);
    simulation.bind_in_turn();
    let mut n_decisions: usize = 0;
    while let Some(decisions) = simulation.advance() {
        let of_groups = simulation.take_group_decisions();
        let of_groups = of_groups.iter().map(|group| group.pods.len().max(1)).sum::<usize>();
        n_decisions = n_decisions.saturating_add(decisions.len()).saturating_add(of_groups);
        if most < n_decisions {
            bail!("there would be more than {most} decisions about the pods that are pending");
        }
    }
    let mut after = InitialCluster::from(simulation.scheduler().snapshot(simulation.now()));
    after.objects.extend(templates);
    Ok(after)
}
