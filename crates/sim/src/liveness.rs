//! The liveness law: no pod waits that a fresh attempt would place.

use plimsoll_api::PodKey;
use plimsoll_engine::{Outcome, QueuePlace, Scheduler};

/// The pods that wait for a change although a fresh attempt would place them now, with the node each
/// would get.
///
/// Called when the scheduler has nothing more to do at the present time. The cause is a queueing hint
/// or the queue, which did not wake the pod.
pub fn sleepers(scheduler: &Scheduler) -> Vec<(PodKey, String)> {
    let asleep = scheduler.pending().filter(|info| info.place == QueuePlace::Unschedulable);
    asleep
        .filter_map(|info| {
            let decision = scheduler.explain(&info.pod.key)?;
            match decision.outcome {
                Outcome::Scheduled { node, .. } => Some((decision.pod, node.to_string())),
                Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
            }
        })
        .collect()
}
