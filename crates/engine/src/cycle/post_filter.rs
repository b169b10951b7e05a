//! PostFilter: what can be done about a pod for which there is no node.

use std::convert::Infallible;

use plimsoll_framework::points::PostFilterPoint;
use plimsoll_framework::{DryRun, NodeRejection, Point, PostFilterAnswer};

use super::{AttemptFailure, Cycle, CycleResult};
use crate::metrics::{MeteredPoint, Status};
use crate::profile::Profile;

/// Runs the PostFilter plugins.
pub(super) fn post_filter(
    profile: &Profile,
    failure: AttemptFailure,
    cycle: &mut Cycle,
    dry_run: DryRun<'_>,
) -> CycleResult {
    let shared = std::mem::take(&mut cycle.shared);
    let dry_run = dry_run.sharing(&shared);
    let ask = |_, point: &PostFilterPoint, rejected: &[NodeRejection]| {
        Ok::<_, Infallible>(point.post_filter(dry_run.pod(), rejected, &dry_run))
    };
    let Ok(result) = post_filter_by(profile, failure, cycle, &dry_run, ask);
    cycle.shared = shared;
    result
}

/// Runs the PostFilter plugins through `ask`, which gets the name of each plugin and the rejections. As
/// in runtime/framework.go, RunPostFilterPlugins: the messages of unsuccessful plugins are joined. The
/// recorded decisions contain only the error of a plugin, while events and conditions contain it after
/// the reasons of the nodes.
pub(crate) fn post_filter_by<E>(
    profile: &Profile,
    mut failure: AttemptFailure,
    cycle: &mut Cycle,
    dry_run: &DryRun<'_>,
    ask: impl Fn(&'static str, &PostFilterPoint, &[NodeRejection]) -> Result<PostFilterAnswer, E>,
) -> Result<CycleResult, E> {
    if let Some((plugin, why)) = &failure.pre_filter {
        let all = dry_run.view().nodes.rows();
        let reject = |row| NodeRejection { row, plugin, rejection: why.clone() };
        cycle.rejected = all.map(reject).collect();
    }
    let mut said = Vec::new();
    let all = cycle.meter.start();
    for (plugin, _) in profile.at(Point::PostFilter) {
        let Some(point) = &plugin.points.post_filter else { continue };
        let lap = cycle.meter.start_plugin();
        let answer = ask(plugin.name, point, &cycle.rejected)?;
        cycle.meter.plugin(plugin.name, MeteredPoint::PostFilter, answered(&answer), lap, 1);
        if failure.take_in(plugin.name, answer, &mut said).is_break() {
            break;
        }
    }
    let status = match failure.nomination {
        Some(_) => Status::Success,
        None => Status::Unschedulable,
    };
    if profile.at(Point::PostFilter).next().is_some() {
        cycle.meter.stage(MeteredPoint::PostFilter, status, all);
    }
    failure.conclude(profile, said);
    Ok(CycleResult::Unschedulable(Box::new(failure)))
}

fn answered(answer: &PostFilterAnswer) -> Status {
    match answer {
        PostFilterAnswer::Nominated(_) => Status::Success,
        PostFilterAnswer::Unschedulable(_) => Status::Unschedulable,
        PostFilterAnswer::Hopeless(_) | PostFilterAnswer::Stop(_) => Status::Unresolvable,
        PostFilterAnswer::Error(_) => Status::Error,
    }
}
