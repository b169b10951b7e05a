//! Logs the scores of every node.
//!
//! A line is `POD -> NODE: PLUGIN, Score: (N)`, as in generic_scheduler.go of 1.16, PrioritizeNodes.
//! With current scores, N includes the weight, as in schedule_one.go, prioritizeNodes, which logs at
//! the same verbosity. With priorities, the line is as in old releases: N is the points before the
//! weight, and the pod is `NAME_NAMESPACE` (GetPodFullName).

use std::sync::Arc;

use plimsoll_engine::{Decision, Detail, NodeVerdict};
use plimsoll_framework::{PodInfo, Prioritize, Prioritized, Row, View};
use tracing::Level;

/// The target of these lines. There are many of them, so a filter drops them unless they are requested.
pub const SCORES: &str = "scores";

/// Whether these lines are logged.
fn are_wanted() -> bool {
    tracing::enabled!(target: SCORES, Level::TRACE)
}

/// The detail of decisions that the log needs. For full detail, each decision is made from scratch.
pub(super) fn detail() -> Detail {
    if are_wanted() { Detail::Nodes } else { Detail::None }
}

/// Logs every score of every node.
pub(super) fn log(decisions: &[Decision]) {
    for decision in decisions {
        let pod = &decision.pod;
        for node in &decision.nodes {
            let NodeVerdict::Scored { scores, .. } = &node.verdict else { continue };
            let node = &node.name;
            for (plugin, score) in scores {
                tracing::trace!(target: SCORES, "{pod} -> {node}: {plugin}, Score: ({score})");
            }
        }
    }
}

/// The same ranking, which also logs its points.
pub(super) fn logged(ranking: Arc<dyn Prioritize>) -> Arc<dyn Prioritize> {
    Arc::new(Logged(ranking))
}

#[derive(Debug)]
struct Logged(Arc<dyn Prioritize>);

impl Prioritize for Logged {
    fn most(&self) -> i64 {
        self.0.most()
    }

    fn prioritize(&self, pod: &PodInfo, view: View<'_>, feasible: &[Row]) -> Vec<Prioritized> {
        let ranked = self.0.prioritize(pod, view, feasible);
        if are_wanted() {
            let key = &pod.seen().key;
            let (name, namespace) = (&key.name, &key.namespace);
            for Prioritized { name: priority, points, .. } in &ranked {
                for (&row, points) in feasible.iter().zip(points) {
                    let node = view.nodes.name_of(row);
                    tracing::trace!(
                        target: SCORES,
                        "{name}_{namespace} -> {node}: {priority}, Score: ({points})"
                    );
                }
            }
        }
        ranked
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use plimsoll_api::PodKey;
    use plimsoll_engine::{NodeDecision, Outcome};

    use super::*;

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics with it").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged about a decision at this level.
    fn logged(level: Level) -> (Detail, String) {
        let node = |name: &str, verdict| NodeDecision { name: name.into(), verdict };
        let scored = |scores: &[(&str, i64)]| NodeVerdict::Scored {
            scores: scores.iter().map(|&(plugin, score)| (plugin.into(), score)).collect(),
            total: 0,
        };
        let outcome = Outcome::Error { message: "whatever it was".to_owned() };
        let decision = Decision {
            nodes: vec![
                node("n1", scored(&[("LeastRequestedPriority", 7), ("EqualPriority", 1)])),
                node("n2", NodeVerdict::NotJudged),
            ],
            ..Decision::of_pod(PodKey::new("team-a", "web-0"), 1, outcome)
        };
        let buffer = LogBuffer::default();
        let writer = buffer.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            // Without colour codes between the target and the text.
            .with_ansi(false)
            .with_max_level(level)
            .without_time()
            .finish();
        // If this were the only subscriber, another test could disable the line for all.
        let _other = tracing::Dispatch::new(tracing_subscriber::registry());
        let detail = tracing::subscriber::with_default(log, || {
            super::log(&[decision]);
            detail()
        });
        let text = buffer.0.lock().expect("nobody panics with it").clone();
        (detail, String::from_utf8(text).expect("it is text"))
    }

    #[test]
    fn every_score_of_every_node_is_a_line() {
        let (detail, text) = logged(Level::TRACE);
        assert_eq!(detail, Detail::Nodes);
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        let lines: Vec<&str> =
            lines.iter().filter_map(|line| line.split("scores: ").nth(1)).collect();
        assert_eq!(
            lines,
            [
                "team-a/web-0 -> n1: LeastRequestedPriority, Score: (7)",
                "team-a/web-0 -> n1: EqualPriority, Score: (1)",
            ]
        );
    }

    #[test]
    fn scores_are_not_logged_at_lower_levels() {
        assert_eq!(logged(Level::DEBUG), (Detail::None, String::new()));
    }
}
