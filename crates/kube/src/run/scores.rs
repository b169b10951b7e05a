//! What every node got, in the log.

use plimsoll_engine::{Decision, Detail, NodeVerdict};
use tracing::Level;

/// The target of these lines. They are many: a filter leaves them out unless somebody asks for them.
pub const SCORES: &str = "scores";

/// How much of decisions the log wants to know. To know all, each decision is made from scratch.
pub(super) fn detail() -> Detail {
    match tracing::enabled!(target: SCORES, Level::TRACE) {
        true => Detail::Nodes,
        false => Detail::None,
    }
}

/// Logs every score of every node, with its weight, as `pod -> node: Plugin, Score: (n)`. As in
/// generic_scheduler.go of 1.16, PrioritizeNodes.
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use plimsoll_api::PodKey;
    use plimsoll_engine::{NodeDecision, Outcome};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics with it").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged of a decision by somebody who wants to know so much.
    fn logged(level: Level) -> (Detail, String) {
        let node = |name: &str, verdict| NodeDecision { name: name.into(), verdict };
        let scored = |scores: &[(&str, i64)]| NodeVerdict::Scored {
            scores: scores.iter().map(|&(plugin, score)| (plugin.into(), score)).collect(),
            total: 0,
        };
        let decision = Decision {
            pod: PodKey::new("team-a", "web-0"),
            attempt: 1,
            outcome: Outcome::Error { message: "whatever it was".to_owned() },
            nodes: vec![
                node("n1", scored(&[("LeastRequestedPriority", 7), ("EqualPriority", 1)])),
                node("n2", NodeVerdict::NotJudged),
            ],
        };
        let kept = Kept::default();
        let writer = kept.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_max_level(level)
            .without_time()
            .finish();
        // Were this the only one, another test could silence the line for all.
        let _other = tracing::Dispatch::new(tracing_subscriber::registry());
        let detail = tracing::subscriber::with_default(log, || {
            super::log(&[decision]);
            detail()
        });
        let text = kept.0.lock().expect("nobody panics with it").clone();
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
    fn nothing_is_told_unless_it_is_wanted() {
        assert_eq!(logged(Level::DEBUG), (Detail::None, String::new()));
    }
}
