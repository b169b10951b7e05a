//! ServiceAntiAffinity: values of a label with few pods of the same Service.

use std::collections::BTreeMap;

use plimsoll_api::{SelectingKind, Str};

use crate::float::tenths;
use crate::{MAX_PRIORITY, Points, Priority, Raw, Subject, selectors};

/// Prefers nodes whose value of a label is that of few pods of the Service: `10 * (all - count) / all`.
///
/// The map step counts the pods on the node, but for those that are being deleted, that the first of the
/// pod's Services selects. The reduce step adds up the nodes with the same value and compares with the
/// pods on all feasible nodes. A node without the label gets 0.
///
/// As in 1.16; 1.8 and before compare with the pods of the Service anywhere.
#[derive(Clone, Debug)]
pub struct ServiceAntiAffinity {
    /// The label (`serviceAntiAffinity.label`).
    pub label: Str,
}

impl Priority for ServiceAntiAffinity {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let mut selectors = selectors::of_pod(subject, &[SelectingKind::Service]);
        selectors.truncate(1);
        subject.pods().map(|pods| Raw(selectors::count(subject.pod, pods, &selectors))).collect()
    }

    fn reduce(&self, subject: &Subject<'_>, raw: &[Raw]) -> Vec<Points> {
        let values: Vec<_> = subject.labels().map(|labels| labels.get(&self.label)).collect();
        apart(raw, &values)
    }
}

/// The points for these counts of pods, on nodes with these values of the label. As in
/// selector_spreading.go, CalculateAntiAffinityPriorityReduce.
pub fn apart(counts: &[Raw], values: &[Option<&Str>]) -> Vec<Points> {
    let mut of_values: BTreeMap<&Str, i64> = BTreeMap::new();
    for (count, value) in counts.iter().zip(values) {
        if let Some(value) = value {
            *of_values.entry(value).or_default() += count.0;
        }
    }
    let all: i64 = counts.iter().map(|count| count.0).sum();
    let points = values.iter().map(|value| match value.and_then(|value| of_values.get(value)) {
        None => Points(0),
        Some(_) if all <= 0 => Points(MAX_PRIORITY),
        Some(count) => tenths(all - count, all),
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check, expect};

    #[test]
    fn the_pods_of_the_first_service_are_spread_over_the_values_of_the_label() {
        check(
            &ServiceAntiAffinity { label: "rack".into() },
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
    fn without_such_pods_every_node_with_the_label_is_best() {
        check(
            &ServiceAntiAffinity { label: "rack".into() },
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
