//! ServiceAntiAffinity: nodes whose label value has few pods of the same Service.

use std::collections::BTreeMap;

use plimsoll_api::{SelectingKind, Str};
use plimsoll_framework::PodSet;

use crate::priorities::float::{cut_off, tenths, tenths_in_32_bits};
use crate::priorities::selectors::{self, Leaving, Matched};
use crate::priorities::{MAX_PRIORITY, OldRelease, Points, Priority, Raw, Subject};

/// Prefers nodes whose value of a label is shared by few pods of the Service:
/// `10 * (all - count) / all`.
///
/// The map step counts the pods on the node that the first of the pod's Services selects, except those
/// that are being deleted. The reduce step adds up the counts of nodes with the same value, and
/// compares the sum with that of all feasible nodes. A node without the label gets 0.
///
/// As in 1.16. 1.8 and before compare with the pods of the Service on any node, those that are being deleted
/// included, in floating point of 32 bits.
#[derive(Clone, Debug)]
pub struct ServiceAntiAffinity {
    /// The label (`serviceAntiAffinity.label`).
    pub label: Str,
    /// Which pods count: those on feasible nodes, or before 1.9 those on any node.
    pub among: Among,
}

/// The nodes whose pods make up the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// The nodes on which the pod fits.
    Feasible,
    /// All.
    All,
}

impl ServiceAntiAffinity {
    /// The priority as a release has it.
    pub fn of(label: Str, release: OldRelease) -> Self {
        let among = match release {
            OldRelease::V1_5 => Among::All,
            OldRelease::Described | OldRelease::V1_16 => Among::Feasible,
        };
        ServiceAntiAffinity { label, among }
    }

    /// How many pods of the pod's first Service each of `nodes` holds.
    fn counts<'a>(
        &self,
        subject: &Subject<'a>,
        nodes: impl Iterator<Item = &'a PodSet>,
    ) -> Vec<Raw> {
        let mut selectors = selectors::of_pod(subject, &[SelectingKind::Service]);
        selectors.truncate(1);
        let leaving = match self.among {
            Among::Feasible => Leaving::Aside,
            Among::All => Leaving::Counted,
        };
        let count =
            |pods| Raw(selectors::count(subject.pod, pods, &selectors, Matched::ByAll, leaving));
        nodes.map(count).collect()
    }
}

impl Priority for ServiceAntiAffinity {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        self.counts(subject, subject.pods())
    }

    fn reduce(&self, subject: &Subject<'_>, raw: &[Raw]) -> Vec<Points> {
        let values: Vec<_> = subject.labels().map(|labels| labels.get(&self.label)).collect();
        match self.among {
            Among::Feasible => {
                let all = sum(raw);
                apart(raw, &values, all, |count| cut_off(tenths(all - count, all)))
            }
            Among::All => {
                let all = sum(&self.counts(subject, subject.all_nodes().map(|(_, pods)| pods)));
                apart(raw, &values, all, |count| cut_off(tenths_in_32_bits(all - count, all)))
            }
        }
    }
}

fn sum(counts: &[Raw]) -> i64 {
    counts.iter().map(|count| count.0).sum()
}

/// The points for these counts of pods, on nodes with these values of the label. As in
/// selector_spreading.go, CalculateAntiAffinityPriorityReduce.
fn apart(
    counts: &[Raw],
    values: &[Option<&Str>],
    all: i64,
    points: impl Fn(i64) -> Points,
) -> Vec<Points> {
    let mut of_values: BTreeMap<&Str, i64> = BTreeMap::new();
    for (count, value) in counts.iter().zip(values) {
        if let Some(value) = value {
            *of_values.entry(value).or_default() += count.0;
        }
    }
    let of_node = |value: Option<&Str>| match value.and_then(|value| of_values.get(value)) {
        None => Points(0),
        Some(_) if all <= 0 => Points(MAX_PRIORITY),
        Some(count) => points(*count),
    };
    values.iter().copied().map(of_node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    #[test]
    fn the_pods_of_the_first_service_are_spread_over_the_values_of_the_label() {
        check(
            &ServiceAntiAffinity::of("rack".into(), OldRelease::Described),
            "
            node a rack=r1
            node b rack=r1
            node c rack=r2
            node d rack=r3
            node e
            service web app=web
            service zzz tier=front
            pod a1 app=web on a
            pod b1 app=web on b
            pod c1 app=web on c
            pod d1 tier=front on d
            pod e1 app=web on e
            pod p app=web tier=front
            ",
            &expect![[r#"
                a raw 1, 5 points
                b raw 1, 5 points
                c raw 1, 7 points
                d raw 0, 10 points
                e raw 1, 0 points
            "#]],
        );
    }

    #[test]
    fn before_1_9_the_pods_of_the_service_count_wherever_they_are() {
        let scenario = r#"
            node a rack=r1
            node b rack=r2
            node e
            service web app=web
            pod a1 app=web on a
            pod a2 app=web on a
            pod b1 app=web on b
            pod b2 app=web on b {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
            pod e1 app=web on e
            pod p app=web
            "#;
        check(
            &ServiceAntiAffinity::of("rack".into(), OldRelease::V1_5),
            scenario,
            &expect![[r#"
                a raw 2, 6 points
                b raw 2, 6 points
                e raw 1, 0 points
            "#]],
        );
        check(
            &ServiceAntiAffinity::of("rack".into(), OldRelease::V1_16),
            scenario,
            &expect![[r#"
                a raw 2, 5 points
                b raw 1, 7 points
                e raw 1, 0 points
            "#]],
        );
    }

    #[test]
    fn without_such_pods_every_node_with_the_label_is_best() {
        check(
            &ServiceAntiAffinity::of("rack".into(), OldRelease::Described),
            "
            node a rack=r1
            node b
            pod p app=web
            ",
            &expect![[r#"
                a raw 0, 10 points
                b raw 0, 0 points
            "#]],
        );
    }
}
