//! EqualPriority: all nodes get the same.

use crate::priorities::{Priority, Raw, Subject};

/// One point for every node. There is no reduce step.
#[derive(Clone, Copy, Debug)]
pub struct Equal;

impl Priority for Equal {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        subject.feasible.iter().map(|_| Raw(1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    #[test]
    fn every_node_gets_one_point() {
        check(
            &Equal,
            "
            node a
            node b
            pod p
            ",
            &expect![[r#"
                a raw 1, 1 points
                b raw 1, 1 points
            "#]],
        );
    }
}
