//! InterPodAffinityPriority: nodes near the pods that the pod prefers, and that prefer it.

use std::collections::BTreeMap;

use plimsoll_api::{AffinityTerm, Labels, Namespace, Pod, Str, WeightedTerm};

use crate::priorities::float::{cut_off, tenths};
use crate::priorities::{Points, Priority, Raw, Subject};

/// Prefers nodes by the preferred affinity between pods.
///
/// The map step adds up weights over all other pods on all nodes. These are the weights of the pod's
/// preferred terms that match the other pod, and of the other pod's preferred terms that match the pod;
/// anti-affinity counts negatively. Each required affinity term of the other pod that matches the pod
/// has the weight `hardPodAffinitySymmetricWeight`. Each weight counts for every node in the topology
/// domain of the other pod. The reduce step gives `10 * (sum - min) / (max - min)`, where `min` is at
/// most 0 and `max` at least 0, and 0 for all nodes if they are equal. The same from 1.4 to 1.16.
#[derive(Clone, Copy, Debug)]
pub struct InterPodAffinity {
    /// The weight of a required affinity term of another pod, 0 to 100.
    pub hard_weight: i32,
}

/// The weights of topology domains, by key and then by value.
type Domains<'a> = BTreeMap<&'a Str, BTreeMap<&'a Str, i64>>;

impl Priority for InterPodAffinity {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let mut domains = Domains::new();
        for (node, pods) in subject.all_nodes() {
            for other in pods.iter() {
                self.weigh(subject, other, &node.labels, &mut domains);
            }
        }
        let sum = |labels: &Labels| {
            let weights = domains.iter().filter_map(|(key, values)| values.get(labels.get(key)?));
            Raw(weights.sum())
        };
        subject.labels().map(sum).collect()
    }

    fn reduce(&self, _: &Subject<'_>, raw: &[Raw]) -> Vec<Points> {
        between_extremes(raw)
    }
}

impl InterPodAffinity {
    /// Adds the weights of the terms by which the pod and another one match each other to the domains
    /// of the other pod's node.
    fn weigh<'a>(
        self,
        subject: &Subject<'a>,
        other: &'a Pod,
        node: &'a Labels,
        domains: &mut Domains<'a>,
    ) {
        let pod: &'a Pod = subject.pod;
        let namespaces = subject.view.stores.of::<Namespace>();
        let speaks_of = |term: &AffinityTerm, of: &Pod| {
            let namespace = &of.key.namespace;
            term.matches(namespace, namespaces.labels(namespace), &of.labels)
        };
        let mut add = |term: &'a AffinityTerm, of: &Pod, weight: i32| {
            if let Some(value) = node.get(&term.topology_key)
                && speaks_of(term, of)
            {
                let values = domains.entry(&term.topology_key).or_default();
                *values.entry(value).or_default() += i64::from(weight);
            }
        };
        let preferred: [(&'a [WeightedTerm], &Pod, i32); 4] = [
            (&pod.affinity.preferred, other, 1),
            (&pod.affinity.preferred_anti, other, -1),
            (&other.affinity.preferred, pod, 1),
            (&other.affinity.preferred_anti, pod, -1),
        ];
        for (terms, of, sign) in preferred {
            for WeightedTerm { weight, term } in terms {
                add(term, of, sign * weight);
            }
        }
        for term in &other.affinity.required {
            add(term, pod, self.hard_weight);
        }
    }
}

/// The points between the lowest and the highest sum. As in interpod_affinity.go,
/// CalculateInterPodAffinityPriority.
pub fn between_extremes(raw: &[Raw]) -> Vec<Points> {
    let min = raw.iter().map(|raw| raw.0).min().unwrap_or(0).min(0);
    let max = raw.iter().map(|raw| raw.0).max().unwrap_or(0).max(0);
    let points = |raw: &Raw| match max - min {
        0 => Points(0),
        range => cut_off(tenths(raw.0 - min, range)),
    };
    raw.iter().map(points).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priorities::testing::{check, expect};

    #[test]
    fn both_sides_preferences_count_for_the_whole_domain() {
        check(
            &InterPodAffinity { hard_weight: 1 },
            r#"
            node a zone=z1
            node b zone=z1
            node c zone=z2
            node d
            pod db app=db on a
            pod noisy app=noisy on c {"affinity": {"podAntiAffinity":
                {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2, "podAffinityTerm":
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}}]}}}
            pod fan app=fan on b {"affinity": {"podAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]}}}
            pod p app=web {"affinity": {"podAffinity":
                {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm":
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}}]}}}
            "#,
            &expect![[r#"
                a raw 6, 10 points
                b raw 6, 10 points
                c raw -2, 0 points
                d raw 0, 2 points
            "#]],
        );
    }

    #[test]
    fn sums_that_are_all_the_same_are_still_compared_with_zero() {
        let points = |raw: &[i64]| {
            let raw: Vec<Raw> = raw.iter().copied().map(Raw).collect();
            between_extremes(&raw).into_iter().map(|one| one.0).collect::<Vec<_>>()
        };
        assert_eq!(points(&[0, 0]), [0, 0]);
        assert_eq!(points(&[4, 4]), [10, 10]);
        assert_eq!(points(&[-4, -4]), [0, 0]);
        assert_eq!(points(&[-4, 0, 4]), [0, 5, 10]);
    }
}
