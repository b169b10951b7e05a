//! SelectorSpread: spreads pods of the same Service or controller.

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::SelectingStore;
use plimsoll_plugins::place_labels::{BETA_REGION, BETA_ZONE, REGION, ZONE};

use super::groups::{NodeGroups, left_over, sums};

/// The objects that select pods.
const KINDS: [SelectingKind; 4] = [
    SelectingKind::Service,
    SelectingKind::ReplicationController,
    SelectingKind::ReplicaSet,
    SelectingKind::StatefulSet,
];

/// The weight of zones; nodes have the remaining weight. As in selector_spread.go, zoneWeighting.
const ZONE_WEIGHT: f64 = 2.0 / 3.0;

/// Prefers nodes, and zones, with fewer pods of the pod's Services and controllers.
///
/// Replicas on the same node or in the same zone fail together. The plugin takes all Services,
/// ReplicationControllers, ReplicaSets and StatefulSets that select the pod, whether or not they own
/// it. It counts the pods of the pod's namespace that are not terminating and that all of these select.
/// A node without such pods scores 100, and the one with the most scores 0. If nodes have a zone, the
/// zone contributes two thirds of the score in the same way. So with nodes that hold 1 and 2 pods the
/// scores are 50 and 0.
///
/// For a pod with its own topology spread constraints every node scores 0. As in kube-scheduler 1.20.
#[derive(Clone, Copy, Debug)]
pub struct SelectorSpread;

/// The selectors, and the zones of the feasible nodes.
#[derive(Clone, Debug)]
pub struct SpreadSelectors {
    namespace: Str,
    /// A pod is counted if all of them select it; without any, none is.
    selectors: Vec<Selector>,
    zones: NodeGroups,
}

impl Plugin for SelectorSpread {
    const NAME: &'static str = "SelectorSpread";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        SelectorSpread
    }
}

impl PreScore for SelectorSpread {
    type Pod = (Spread, PodNamespace, Labels);
    type Node = (Labels, Pods);
    type Cluster = SelectingObjects;
    /// `None` for a pod with its own constraints.
    type State = Option<SpreadSelectors>;

    fn pre_score(
        &self,
        (constraints, namespace, labels): Ref<'_, Self::Pod>,
        feasible: Feasible<'_, (Labels, Pods)>,
        objects: Ref<'_, SelectingObjects>,
    ) -> Option<Option<SpreadSelectors>> {
        if !constraints.is_empty() {
            return Some(None);
        }
        let zones = NodeGroups::by(feasible.iter().map(|(row, (labels, _))| (row, zone(labels))));
        Some(Some(SpreadSelectors {
            namespace: namespace.clone(),
            selectors: selectors(objects, namespace, labels),
            zones,
        }))
    }

    fn score(
        &self,
        state: &Option<SpreadSelectors>,
        _: Row,
        (_, pods): Ref<'_, Self::Node>,
    ) -> i64 {
        state.as_ref().map_or(0, |spreading| spreading.count(pods))
    }

    fn normalize(&self, state: &Option<SpreadSelectors>, scores: &mut [Scored]) {
        if let Some(spreading) = state {
            spreading.normalize(scores);
        }
    }
}

impl SpreadSelectors {
    /// As in selector_spread.go, countMatchingPods.
    fn count(&self, pods: &PodSet) -> i64 {
        if self.selectors.is_empty() {
            return 0;
        }
        let counts = |pod: &&PodInfo| {
            pod.key.namespace == self.namespace
                && !pod.is_terminating()
                && self.selectors.iter().all(|selector| selector.matches(&pod.labels))
        };
        let count = pods.iter().filter(counts).count();
        i64::try_from(count).expect("a node holds fewer than 2^63 pods")
    }

    fn normalize(&self, scores: &mut [Scored]) {
        let most = scores.iter().map(|one| one.score).max().unwrap_or(0);
        let in_zone = self.zones.sums(scores);
        let most_in_zone = in_zone.iter().copied().max().unwrap_or(0);
        for one in scores {
            let zone = self.zones.of(one.row).map(|zone| (in_zone[zone], most_in_zone));
            one.score = points((one.score, most), zone);
        }
    }
}

/// The score of a node: its count with the highest one, and the count of its zone with the highest one. As in
/// selector_spread.go, NormalizeScore, truncated.
#[expect(clippy::cast_possible_truncation, reason = "the very rounding is what must be equal")]
fn points((on_node, most): (i64, i64), zone: Option<(i64, i64)>) -> i64 {
    let on_node = left_over(on_node, most);
    let score = match zone {
        None => on_node,
        Some((in_zone, most_in_zone)) => {
            on_node * (1.0 - ZONE_WEIGHT) + ZONE_WEIGHT * left_over(in_zone, most_in_zone)
        }
    };
    score as i64
}

/// The same by counts: the pods on each node, and the zone of each node.
struct SpreadCounts {
    namespace: Str,
    /// As in [`SpreadSelectors`].
    selectors: Vec<Selector>,
    /// [`ON_NODE`], and then region and zone; nothing without selectors.
    terms: Vec<DomainTerm>,
}

/// The term that counts pods.
const ON_NODE: u32 = 0;
/// The terms that say where a node is.
const REGION_AND_ZONE: [usize; 2] = [1, 2];

impl ScoreByCounts for SelectorSpread {
    type Objects = SelectingObjects;

    fn by_domain(
        &self,
        (constraints, namespace, labels): Ref<'_, Self::Pod>,
        objects: Ref<'_, SelectingObjects>,
        _: Neighbours<'_>,
    ) -> ByDomain<dyn DomainScore> {
        if !constraints.is_empty() {
            return ByDomain::Skips;
        }
        let selectors = selectors(objects, namespace, labels);
        let either =
            |older: &str, newer: &str| TopologyKey::EitherLabel(older.into(), newer.into());
        let keys = [TopologyKey::Node, either(BETA_REGION, REGION), either(BETA_ZONE, ZONE)];
        let keys = keys.into_iter().filter(|_| !selectors.is_empty());
        let terms = keys.map(|key| DomainTerm { key, nodes: CountedNodes::all() }).collect();
        let namespace = namespace.clone();
        ByDomain::Counts(Box::new(SpreadCounts { namespace, selectors, terms }))
    }
}

impl DomainCounter for SpreadCounts {
    fn terms(&self) -> &[DomainTerm] {
        &self.terms
    }

    fn counts_plain_pods(&self) -> bool {
        !self.selectors.is_empty()
    }

    /// All of them must select a pod, so one is enough.
    fn plain_pod_selectors(&self) -> Option<Vec<&Selector>> {
        Some(self.selectors.first().into_iter().collect())
    }

    fn count(&self, other: Neighbour<'_>) -> Option<Counting> {
        let counts = !self.selectors.is_empty()
            && *other.namespace == self.namespace
            && !other.terminating
            && self.selectors.iter().all(|selector| selector.matches(other.labels));
        Some(if counts { smallvec![(ON_NODE, 1)] } else { Counting::new() })
    }
}

impl DomainScore for SpreadCounts {
    fn is_ranked(&self, _: &[TermCount]) -> bool {
        true
    }

    fn reads_domains(&self) -> bool {
        false
    }

    fn raw(&self, term_counts: &[TermCount], _: &[f64]) -> i64 {
        term_counts.first().map_or(0, |on_node| on_node.count)
    }

    fn by_group(&self) -> Option<&dyn NormalizeByGroup> {
        Some(self)
    }
}

impl NormalizeByGroup for SpreadCounts {
    fn terms(&self) -> &[usize] {
        if self.terms.is_empty() { &[] } else { &REGION_AND_ZONE }
    }

    fn normalize(&self, groups: &mut [ScoredGroup]) {
        let most = groups.iter().map(|group| group.score).max().unwrap_or(0);
        let in_zone = sums(groups, |domains| domains.iter().any(Option::is_some));
        let most_in_zone = in_zone.values().copied().max().unwrap_or(0);
        for group in groups {
            let zone = in_zone.get(&group.domains).map(|&in_zone| (in_zone, most_in_zone));
            group.score = points((group.score, most), zone);
        }
    }
}

/// The selectors of all objects that select a pod with these labels. As in 1.20's helper/spread.go,
/// DefaultSelector: the labels count, not the owner, and a selector that selects everything says nothing.
fn selectors(objects: SelectingStore<'_>, namespace: &str, labels: &Labels) -> Vec<Selector> {
    if labels.is_empty() {
        return Vec::new();
    }
    let all = KINDS.into_iter().flat_map(|kind| objects.selecting(namespace, kind, labels));
    let all = all.map(|(_, selector)| selector);
    all.filter(|selector| !selector.is_everything()).cloned().collect()
}

/// Region and zone of a node; `None` if it has neither. As in util/node/node.go, GetZoneKey, which
/// reads the older label first.
fn zone(labels: &Labels) -> Option<(&str, &str)> {
    let either = |older, newer| labels.get(older).or_else(|| labels.get(newer));
    let (region, zone) = (either(BETA_REGION, REGION), either(BETA_ZONE, ZONE));
    let place = (region.map_or("", Str::as_str), zone.map_or("", Str::as_str));
    if place == ("", "") { None } else { Some(place) }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<SelectorSpread>().pre_score().score_by_counts().done()
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{Expect, check, expect, laws, random_scenarios};

    use super::*;

    /// Six nodes in three zones.
    const ZONES: &str = "
        service baz baz=blah
        node n1 topology.kubernetes.io/zone=z1
        node n2 topology.kubernetes.io/zone=z2
        node n3 topology.kubernetes.io/zone=z2
        node n4 topology.kubernetes.io/zone=z3
        node n5 topology.kubernetes.io/zone=z3
        node n6 topology.kubernetes.io/zone=z3
    ";

    fn check_in(cluster: &str, more: &str, expected: &Expect) {
        check(entry(), &format!("{cluster}\n{more}"), expected);
    }

    #[test]
    fn a_node_with_fewer_pods_scores_higher() {
        check(
            entry(),
            "
            service baz baz=blah
            node a
            node b
            pod a1 baz=blah on a
            pod b1 baz=blah on b
            pod b2 baz=blah on b
            pod p baz=blah
            ",
            &expect![[r"
                p a score 50
                p b score 0
            "]],
        );
    }

    #[test]
    fn a_pod_must_be_selected_by_all_that_select_the_new_one() {
        check(
            entry(),
            "
            service baz baz=blah
            rc foo foo=bar
            service other foo=other
            node a
            node b
            pod a1 baz=blah foo=bar on a
            pod a2 baz=blah on a
            pod b1 baz=blah foo=bar on b
            pod b2 foo=bar on b
            pod b3 baz=blah foo=other on b
            pod p baz=blah foo=bar
            ",
            &expect![[r"
                p a score 0
                p b score 0
            "]],
        );
    }

    #[test]
    fn controllers_count_by_their_selectors_whoever_owns_the_pod() {
        for kind in ["rc", "rs", "sts"] {
            check(
                entry(),
                &format!(
                    r#"
                    {kind} web app=web
                    {kind} owner app=db
                    node a
                    node b
                    pod a1 app=web on a
                    pod p app=web {{"owner": "{kind}/owner"}}
                    "#
                ),
                &expect![[r"
                    p a score 0
                    p b score 100
                "]],
            );
        }
    }

    #[test]
    fn zones_make_up_two_thirds_of_the_score() {
        check_in(
            ZONES,
            "
            pod 2 baz=blah on n2
            pod 3 baz=blah on n3
            pod 5 baz=blah on n5
            pod p baz=blah
            ",
            &expect![[r"
                p n1 score 100
                p n2 score 0
                p n3 score 0
                p n4 score 66
                p n5 score 33
                p n6 score 66
            "]],
        );
        check_in(
            ZONES,
            "
            pod 1 baz=blah on n1
            pod 2 baz=blah on n2
            pod 4 baz=blah on n4
            pod p baz=blah
            ",
            &expect![[r"
                p n1 score 0
                p n2 score 0
                p n3 score 33
                p n4 score 0
                p n5 score 33
                p n6 score 33
            "]],
        );
    }

    #[test]
    fn without_any_pod_that_counts_every_node_scores_the_highest() {
        let gone = r#"{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}"#;
        check_in(
            ZONES,
            &format!(
                "
                pod other foo=bar on n1
                pod elsewhere/1 baz=blah on n1
                pod going baz=blah on n2 {gone}
                pod p baz=blah
                pod selected-by-none foo=bar
                "
            ),
            &expect![[r"
                p n1 score 100
                p n2 score 100
                p n3 score 100
                p n4 score 100
                p n5 score 100
                p n6 score 100
                selected-by-none n1 score 100
                selected-by-none n2 score 100
                selected-by-none n3 score 100
                selected-by-none n4 score 100
                selected-by-none n5 score 100
                selected-by-none n6 score 100
            "]],
        );
    }

    #[test]
    fn a_node_without_a_zone_is_scored_by_its_own_pods_alone() {
        check_in(
            ZONES,
            "
            node x
            node y
            pod x1 baz=blah on x
            pod x2 baz=blah on x
            pod y1 baz=blah on y
            pod 1 baz=blah on n1
            pod p baz=blah
            ",
            &expect![[r"
                p n1 score 16
                p n2 score 100
                p n3 score 100
                p n4 score 100
                p n5 score 100
                p n6 score 100
                p x score 0
                p y score 50
            "]],
        );
    }

    #[test]
    fn the_older_labels_of_a_zone_are_asked_first_and_the_region_counts() {
        check(
            entry(),
            "
            service baz baz=blah
            node a topology.kubernetes.io/zone=z
            node b failure-domain.beta.kubernetes.io/zone=z topology.kubernetes.io/zone=y
            node c failure-domain.beta.kubernetes.io/zone=z topology.kubernetes.io/region=r
            node d failure-domain.beta.kubernetes.io/region=r topology.kubernetes.io/zone=z
            node e topology.kubernetes.io/region=r
            pod a1 baz=blah on a
            pod p baz=blah
            ",
            &expect![[r"
                p a score 0
                p b score 33
                p c score 100
                p d score 100
                p e score 100
            "]],
        );
    }

    #[test]
    fn a_pod_with_constraints_of_its_own_scores_nothing_anywhere() {
        check(
            entry(),
            r#"
            service baz baz=blah
            node a zone=a
            node b zone=b
            pod a1 baz=blah on a
            pod p baz=blah {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule"}]}
            "#,
            &expect![[r"
                p a score 0
                p b score 0
            "]],
        );
    }

    #[test]
    fn pods_are_counted_alike_whether_zones_have_their_older_labels_or_none() {
        laws(&entry(), random_scenarios(0..300));
        let older = |scenario: String| {
            scenario
                .replace(
                    "topology.kubernetes.io/zone=z1",
                    "failure-domain.beta.kubernetes.io/zone=z1",
                )
                .replace("rack=r0", "topology.kubernetes.io/region=r0")
                .replace("rack=r1", "failure-domain.beta.kubernetes.io/region=")
        };
        laws(&entry(), random_scenarios(300..600).map(older));
    }

    #[test]
    fn an_object_that_selects_everything_says_nothing() {
        check(
            entry(),
            r#"
            rs all {"selector": {}}
            rs absent {"selector": {"matchExpressions": [{"key": "gone", "operator": "DoesNotExist"}]}}
            node a
            node b
            pod a1 app=web on a
            pod p app=web
            pod without-labels
            "#,
            &expect![[r"
                p a score 0
                p b score 100
                without-labels a score 100
                without-labels b score 100
            "]],
        );
    }
}
