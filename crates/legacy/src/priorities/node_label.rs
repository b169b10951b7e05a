//! The label preference: nodes that have a label, or do not have it.

use plimsoll_api::Str;

use crate::priorities::{MAX_PRIORITY, Priority, Raw, Subject};

/// Prefers nodes by the presence of a label, whatever its value: 10 or 0. There is no reduce step. The
/// same from 1.0 to 1.16.
#[derive(Clone, Debug)]
pub struct NodeLabel {
    /// The label (`labelPreference.label`).
    pub label: Str,
    /// Whether it should be present (`labelPreference.presence`).
    pub presence: Presence,
}

/// Whether a label should be present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nodes that have it are better.
    Present,
    /// Nodes without it are better.
    Absent,
}

impl Priority for NodeLabel {
    /// As in node_label.go, CalculateNodeLabelPriorityMap.
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let wanted = self.presence == Presence::Present;
        let raw = subject.labels().map(|labels| match labels.contains_key(&self.label) == wanted {
            true => Raw(MAX_PRIORITY),
            false => Raw(0),
        });
        raw.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    #[test]
    fn the_presence_of_the_label_gives_ten_points_or_none() {
        let scenario = "
            node a retiring=
            node b
            pod p
            ";
        check(
            &NodeLabel { label: "retiring".into(), presence: Presence::Present },
            scenario,
            &expect![[r#"
                a raw 10, 10 points
                b raw 0, 0 points
            "#]],
        );
        check(
            &NodeLabel { label: "retiring".into(), presence: Presence::Absent },
            scenario,
            &expect![[r#"
                a raw 0, 0 points
                b raw 10, 10 points
            "#]],
        );
    }
}
