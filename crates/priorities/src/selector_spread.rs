//! SelectorSpreadPriority, and ServiceSpreadingPriority as 1.0 had it: nodes and zones with few pods of
//! the same kind.

use std::collections::BTreeMap;

use plimsoll_api::{Labels, SelectingKind, Str};

use crate::float::{cut_off, tenths_in_32_bits};
use crate::{MAX_PRIORITY, Points, Priority, Raw, Subject, selectors};

/// How much the zone counts, in thirds; the node counts for the rest.
const ZONE_WEIGHT: f32 = 2.0 / 3.0;
/// How much the node counts where there are zones.
const NODE_WEIGHT: f32 = 1.0 / 3.0;

/// The labels of the zone and of the region, as the old releases called them and as they are called now.
const ZONE: [&str; 2] = ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"];
const REGION: [&str; 2] =
    ["failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"];

/// Prefers nodes, and zones, with few pods that the same objects select: `10 * (max - count) / max`.
///
/// The map step counts the pods of the namespace on the node, but for those that are being deleted, that
/// any of the Services, ReplicationControllers, ReplicaSets and StatefulSets selects that select the
/// pod. The reduce step compares with the highest count. Where nodes tell their zones, those count two
/// thirds and the nodes one third. With 3, 5 and 10 pods, nodes get 7, 5 and 0 points.
///
/// As in 1.5, in floating point of 32 bits. StatefulSets count since 1.7; 1.13 and later count pods that
/// all of the objects select, and reckon in 64 bits. Where no zone has such a pod, 1.5 divided by 0;
/// here, as in 1.8 and later, every zone is best.
#[derive(Clone, Copy, Debug)]
pub struct SelectorSpread(&'static [SelectingKind]);

impl SelectorSpread {
    /// SelectorSpreadPriority.
    pub fn by_all() -> Self {
        SelectorSpread(&[
            SelectingKind::Service,
            SelectingKind::ReplicationController,
            SelectingKind::ReplicaSet,
            SelectingKind::StatefulSet,
        ])
    }

    /// ServiceSpreadingPriority: only Services count.
    pub fn by_services() -> Self {
        SelectorSpread(&[SelectingKind::Service])
    }
}

impl Priority for SelectorSpread {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let selectors = selectors::of_pod(subject, self.0);
        subject.pods().map(|pods| Raw(selectors::count(subject.pod, pods, &selectors))).collect()
    }

    fn reduce(&self, subject: &Subject<'_>, raw: &[Raw]) -> Vec<Points> {
        let zones: Vec<Option<Zone>> = subject.labels().map(zone).collect();
        spread(raw, &zones)
    }
}

/// Region and zone of a node.
pub type Zone = (Str, Str);

/// The points for these counts of pods, on nodes in these zones. As in selector_spreading.go,
/// CalculateSpreadPriority.
pub fn spread(counts: &[Raw], zones: &[Option<Zone>]) -> Vec<Points> {
    let mut of_zones: BTreeMap<&Zone, i64> = BTreeMap::new();
    for (count, zone) in counts.iter().zip(zones) {
        if let Some(zone) = zone {
            *of_zones.entry(zone).or_default() += count.0;
        }
    }
    let max = counts.iter().map(|count| count.0).max().unwrap_or(0);
    let max_of_zones = of_zones.values().copied().max().unwrap_or(0);
    let points = counts.iter().zip(zones).map(|(count, zone)| {
        let of_node = fewer(count.0, max);
        cut_off(match zone.as_ref().and_then(|zone| of_zones.get(zone)) {
            Some(&in_zone) => of_node * NODE_WEIGHT + ZONE_WEIGHT * fewer(in_zone, max_of_zones),
            None => of_node,
        })
    });
    points.collect()
}

/// Ten for none, 0 for the highest.
#[expect(clippy::cast_precision_loss, reason = "ten is exact")]
fn fewer(count: i64, max: i64) -> f32 {
    if max <= 0 { MAX_PRIORITY as f32 } else { tenths_in_32_bits(max - count, max) }
}

/// The zone of a node; `None` if its labels tell neither zone nor region. As in node.go, GetZoneKey.
fn zone(labels: &Labels) -> Option<Zone> {
    let of = |names: [&str; 2]| {
        let value = names.into_iter().find_map(|name| labels.get(name));
        value.cloned().unwrap_or_default()
    };
    let zone = (of(REGION), of(ZONE));
    (zone != Zone::default()).then_some(zone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check, expect};

    fn points(counts: &[i64], zones: &[&str]) -> Vec<i64> {
        let counts: Vec<Raw> = counts.iter().copied().map(Raw).collect();
        let zones = zones.iter().map(|zone| match *zone {
            "" => None,
            zone => Some((Str::default(), Str::from(zone))),
        });
        let zones: Vec<_> = zones.collect();
        spread(&counts, &zones).into_iter().map(|points| points.0).collect()
    }

    #[test]
    fn three_five_and_ten_pods_give_seven_five_and_no_points() {
        assert_eq!(points(&[3, 5, 10], &["", "", ""]), [7, 5, 0]);
    }

    #[test]
    fn without_any_such_pod_every_node_is_best() {
        assert_eq!(points(&[0, 0], &["", ""]), [10, 10]);
        assert_eq!(points(&[0, 0], &["z1", ""]), [10, 10]);
    }

    #[test]
    fn the_zone_counts_two_thirds() {
        // Zone z1 has 4 pods, z2 has 2: of the zones' ten points 0 and 5.
        assert_eq!(points(&[3, 1, 2, 0], &["z1", "z1", "z2", "z2"]), [0, 2, 4, 6]);
        assert_eq!(points(&[1, 0, 0], &["z1", "z1", "z2"]), [0, 3, 10]);
    }

    #[test]
    fn a_node_without_a_zone_counts_by_itself() {
        assert_eq!(points(&[2, 1, 1], &["z1", "z2", ""]), [0, 5, 5]);
    }

    #[test]
    fn pods_count_that_any_object_of_the_pod_selects() {
        check(
            &SelectorSpread::by_all(),
            r#"
            node a
            node b
            node c
            service web app=web
            rs web-1 app=web track=beta
            service other app=other
            pod a1 app=web on a
            pod a2 app=web track=beta on a
            pod b1 app=other on b
            pod c1 app=web on c
            pod c2 app=web on c {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
            pod team-a/c3 app=web on c
            pod p app=web track=beta
            "#,
            &expect![[r#"
                a raw 2, 0 points
                b raw 0, 10 points
                c raw 1, 5 points
            "#]],
        );
    }

    #[test]
    fn service_spreading_looks_at_services_only() {
        let scenario = "
            node a
            node b
            rs web-1 app=web
            pod a1 app=web on a
            pod p app=web
            ";
        check(
            &SelectorSpread::by_services(),
            scenario,
            &expect![[r#"
                a raw 0, 10 points
                b raw 0, 10 points
            "#]],
        );
        check(
            &SelectorSpread::by_all(),
            scenario,
            &expect![[r#"
                a raw 1, 0 points
                b raw 0, 10 points
            "#]],
        );
    }

    #[test]
    fn zones_go_by_their_old_and_their_new_labels() {
        check(
            &SelectorSpread::by_all(),
            "
            node a topology.kubernetes.io/zone=z1
            node b failure-domain.beta.kubernetes.io/zone=z1
            node c topology.kubernetes.io/zone=z2
            service web app=web
            pod x app=web on a
            pod p app=web
            ",
            &expect![[r#"
                a raw 1, 0 points
                b raw 0, 3 points
                c raw 0, 10 points
            "#]],
        );
    }
}
