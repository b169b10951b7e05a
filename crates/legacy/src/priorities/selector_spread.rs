//! SelectorSpreadPriority, and ServiceSpreadingPriority as 1.0 had it: nodes and zones with few pods of
//! the same Services and controllers.

use std::collections::BTreeMap;

use plimsoll_api::{Labels, SelectingKind, Str};

use crate::priorities::float::{cut_off, tenths, tenths_in_32_bits};
use crate::priorities::selectors::{self, Leaving, Matched};
use crate::priorities::{MAX_PRIORITY, OldRelease, Points, Priority, Raw, Subject};

/// The weight of the zone; the node has the remaining weight.
const ZONE_WEIGHT: f64 = 2.0 / 3.0;
const ZONE_WEIGHT_IN_32_BITS: f32 = 2.0 / 3.0;
/// The weight of the node if there are zones. Go evaluates this constant exactly before it rounds.
const NODE_WEIGHT: f64 = 1.0 / 3.0;
const NODE_WEIGHT_IN_32_BITS: f32 = 1.0 / 3.0;

/// The labels of the zone and of the region, as the old releases called them and as they are called now.
const ZONE: [&str; 2] = ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"];
const REGION: [&str; 2] =
    ["failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"];

/// Prefers nodes, and zones, with few pods that the same objects select: `10 * (max - count) / max`.
///
/// The map step takes all Services, ReplicationControllers, ReplicaSets and StatefulSets that select
/// the pod. It counts the pods on the node that are in the pod's namespace, are not being deleted and
/// are selected by all of these. The reduce step compares with the highest count. If nodes have zone
/// labels, zones count two thirds and nodes one third. With 3, 5 and 10 pods, nodes get 7, 5 and 0
/// points.
///
/// As in 1.16, in floating point of 64 bits. 1.5 counts pods that any of the objects selects, computes
/// in 32 bits, and ignores StatefulSets. If no zone has such a pod, 1.5 divided by 0; here, as in 1.8
/// and later, every zone is best.
#[derive(Clone, Copy, Debug)]
pub struct SelectorSpread {
    by: By,
    release: OldRelease,
}

/// Whose selectors count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Those of Services and of all controllers.
    All,
    /// Those of Services.
    Services,
}

impl SelectorSpread {
    /// SelectorSpreadPriority.
    pub fn by_all(release: OldRelease) -> Self {
        SelectorSpread { by: By::All, release }
    }

    /// ServiceSpreadingPriority: only Services count.
    pub fn by_services(release: OldRelease) -> Self {
        SelectorSpread { by: By::Services, release }
    }

    /// The kinds of objects whose selectors count.
    fn kinds(self) -> &'static [SelectingKind] {
        const ALL: &[SelectingKind] = &[
            SelectingKind::Service,
            SelectingKind::ReplicationController,
            SelectingKind::ReplicaSet,
            SelectingKind::StatefulSet,
        ];
        match (self.by, self.release) {
            (By::Services, _) => &ALL[..1],
            (By::All, OldRelease::V1_5) => &ALL[..3],
            (By::All, OldRelease::Described | OldRelease::V1_16) => ALL,
        }
    }
}

impl Priority for SelectorSpread {
    fn map(&self, subject: &Subject<'_>) -> Vec<Raw> {
        let selectors = selectors::of_pod(subject, self.kinds());
        let matched = match self.release {
            OldRelease::V1_5 => Matched::ByAny,
            OldRelease::Described | OldRelease::V1_16 => Matched::ByAll,
        };
        let count = |pods| selectors::count(subject.pod, pods, &selectors, matched, Leaving::Aside);
        subject.pods().map(|pods| Raw(count(pods))).collect()
    }

    fn reduce(&self, subject: &Subject<'_>, raw: &[Raw]) -> Vec<Points> {
        let zones: Vec<Option<Zone>> = subject.labels().map(zone).collect();
        match self.release {
            OldRelease::V1_5 => spread(raw, &zones, in_32_bits),
            OldRelease::Described | OldRelease::V1_16 => spread(raw, &zones, in_64_bits),
        }
    }
}

/// Region and zone of a node.
type Zone = (Str, Str);

/// A number of pods, and the highest number anywhere.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    count: i64,
    max: i64,
}

/// The points for these counts of pods, on nodes in these zones; `weigh` combines node and zone. As in
/// selector_spreading.go, CalculateSpreadPriorityReduce.
fn spread(
    counts: &[Raw],
    zones: &[Option<Zone>],
    weigh: fn(Crowd, Option<Crowd>) -> Points,
) -> Vec<Points> {
    let mut of_zones: BTreeMap<&Zone, i64> = BTreeMap::new();
    for (count, zone) in counts.iter().zip(zones) {
        if let Some(zone) = zone {
            *of_zones.entry(zone).or_default() += count.0;
        }
    }
    let max = counts.iter().map(|count| count.0).max().unwrap_or(0);
    let max_of_zones = of_zones.values().copied().max().unwrap_or(0);
    let points = counts.iter().zip(zones).map(|(count, zone)| {
        let in_zone = zone.as_ref().and_then(|zone| of_zones.get(zone));
        let of_zone = in_zone.map(|&count| Crowd { count, max: max_of_zones });
        weigh(Crowd { count: count.0, max }, of_zone)
    });
    points.collect()
}

/// As 1.14 and later compute it.
fn in_64_bits(node: Crowd, zone: Option<Crowd>) -> Points {
    #[expect(clippy::cast_precision_loss, reason = "ten is exact")]
    let fewer = |of: Crowd| match of.max {
        0 => MAX_PRIORITY as f64,
        max => tenths(max - of.count, max),
    };
    let node = fewer(node);
    cut_off(zone.map_or(node, |zone| node * NODE_WEIGHT + ZONE_WEIGHT * fewer(zone)))
}

/// As 1.5 computes it.
fn in_32_bits(node: Crowd, zone: Option<Crowd>) -> Points {
    #[expect(clippy::cast_precision_loss, reason = "ten is exact")]
    let fewer = |of: Crowd| match of.max {
        0 => MAX_PRIORITY as f32,
        max => tenths_in_32_bits(max - of.count, max),
    };
    let node = fewer(node);
    cut_off(
        zone.map_or(node, |zone| {
            node * NODE_WEIGHT_IN_32_BITS + ZONE_WEIGHT_IN_32_BITS * fewer(zone)
        }),
    )
}

/// The zone of a node; `None` if it has neither a zone label nor a region label. As in node.go,
/// GetZoneKey.
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
    use crate::priorities::testing::{check, expect};

    fn points(counts: &[i64], zones: &[&str]) -> Vec<i64> {
        let counts: Vec<Raw> = counts.iter().copied().map(Raw).collect();
        let zones = zones.iter().map(|zone| match *zone {
            "" => None,
            zone => Some((Str::default(), Str::from(zone))),
        });
        let zones: Vec<_> = zones.collect();
        let as_of = |weigh| -> Vec<i64> {
            spread(&counts, &zones, weigh).into_iter().map(|points| points.0).collect()
        };
        // These results are the same in 64 and in 32 bits.
        assert_eq!(as_of(in_64_bits), as_of(in_32_bits));
        as_of(in_64_bits)
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
    fn pods_count_that_all_objects_of_the_pod_select_and_in_1_5_those_that_any_of_them_selects() {
        let scenario = r#"
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
            pod c2 app=web track=beta on c {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
            pod team-a/c3 app=web track=beta on c
            pod p app=web track=beta
            "#;
        let by_all = expect![[r#"
            a raw 1, 0 points
            b raw 0, 10 points
            c raw 0, 10 points
        "#]];
        check(&SelectorSpread::by_all(OldRelease::Described), scenario, &by_all);
        check(&SelectorSpread::by_all(OldRelease::V1_16), scenario, &by_all);
        check(
            &SelectorSpread::by_all(OldRelease::V1_5),
            scenario,
            &expect![[r#"
                a raw 2, 0 points
                b raw 0, 10 points
                c raw 1, 5 points
            "#]],
        );
    }

    #[test]
    fn a_controller_that_selects_everything_or_absence_counts_nobody() {
        for release in [OldRelease::V1_5, OldRelease::Described, OldRelease::V1_16] {
            check(
                &SelectorSpread::by_all(release),
                r#"
                node a
                node b
                service all {"selector": {}}
                rs every {"selector": {}}
                pod a1 app=web on a
                pod p app=web
                "#,
                &expect![[r#"
                    a raw 0, 10 points
                    b raw 0, 10 points
                "#]],
            );
            check(
                &SelectorSpread::by_all(release),
                r#"
                node a
                node b
                rs bare {"selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}
                pod a1 on a
                pod p
                "#,
                &expect![[r#"
                    a raw 0, 10 points
                    b raw 0, 10 points
                "#]],
            );
            // With a label the pod belongs to the ReplicaSet, and so does a pod without any.
            check(
                &SelectorSpread::by_all(release),
                r#"
                node a
                node b
                rs bare {"selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}
                pod a1 on a
                pod p tier=front
                "#,
                &expect![[r#"
                    a raw 1, 0 points
                    b raw 0, 10 points
                "#]],
            );
        }
    }

    #[test]
    fn stateful_sets_came_after_1_5() {
        let scenario = "
            node a
            node b
            sts db app=db
            pod db-0 app=db on a
            pod p app=db
            ";
        check(
            &SelectorSpread::by_all(OldRelease::Described),
            scenario,
            &expect![[r#"
                a raw 1, 0 points
                b raw 0, 10 points
            "#]],
        );
        check(
            &SelectorSpread::by_all(OldRelease::V1_5),
            scenario,
            &expect![[r#"
                a raw 0, 10 points
                b raw 0, 10 points
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
            &SelectorSpread::by_services(OldRelease::Described),
            scenario,
            &expect![[r#"
                a raw 0, 10 points
                b raw 0, 10 points
            "#]],
        );
        check(
            &SelectorSpread::by_all(OldRelease::Described),
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
            &SelectorSpread::by_all(OldRelease::Described),
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
