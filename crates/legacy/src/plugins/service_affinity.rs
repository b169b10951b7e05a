//! ServiceAffinity: pods of a Service on nodes with equal labels, or on nodes with different ones.

use std::collections::BTreeMap;

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::SelectingStore;
use serde::Deserialize;

use super::groups::{NodeGroups, left_over};

const NOT_ALIKE: &str = "node(s) didn't match service affinity";

/// Rejects nodes whose values of some labels differ from those of the nodes of the Service's other
/// pods, and prefers nodes whose values of other labels few of these pods share.
///
/// This keeps a Service within one region and spreads it over racks. With `affinityLabels: [region]`
/// the first pod of a Service may go anywhere. After it was placed on a node with `region=eu`, the
/// others can only go there. A value in the pod's `nodeSelector` takes precedence over that of the
/// other pods.
///
/// The other pods are those of the pod's namespace that have all of its labels, if a Service selects
/// it. As in kube-scheduler 1.20, only the node of one of them counts. There it is any of them,
/// depending on the order in which nodes and pods were added; here it is the node with the smallest
/// name. Likewise the score counts the pods of only one of the Services that select the pod: here the
/// one with the smallest name.
#[derive(Clone, Debug)]
pub struct ServiceAffinity {
    args: ServiceAffinityArgs,
}

/// `ServiceAffinityArgs` of `kubescheduler.config.k8s.io/v1beta1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceAffinityArgs {
    /// Node labels whose values must be equal for all pods of a Service.
    pub affinity_labels: Vec<Str>,
    /// Node labels over whose values the pods of a Service are spread.
    pub anti_affinity_labels_preference: Vec<Str>,
}

/// A value for each affinity label.
type Values = SmallVec<[Option<Str>; 2]>;

/// The required label values.
#[derive(Clone, Debug)]
pub struct Alike {
    /// The values in the pod's `nodeSelector`.
    asked: Values,
    /// The other pods of its Service. `None` if they do not matter.
    others: Option<Others>,
}

/// The pods of the namespace with all these labels, by their nodes.
#[derive(Clone, Debug)]
struct Others {
    namespace: Str,
    labels: Labels,
    nodes: BTreeMap<Str, OnNode>,
}

/// Those on one node.
#[derive(Clone, Debug)]
struct OnNode {
    /// Their number; at least one.
    pods: usize,
    /// The label values of the node.
    values: Values,
}

/// The selector, and which nodes share a value of each label.
#[derive(Clone, Debug)]
pub struct Sharing {
    namespace: Str,
    /// `None` if no Service selects the pod.
    selector: Option<Selector>,
    by_label: Vec<NodeGroups>,
}

impl Plugin for ServiceAffinity {
    const NAME: &'static str = "ServiceAffinity";
    type Args = ServiceAffinityArgs;
    fn new(args: ServiceAffinityArgs, _: &FeatureGates) -> Self {
        ServiceAffinity { args }
    }
}

impl PreFilter for ServiceAffinity {
    type Pod = (PodNamespace, Labels, NodeSelection);
    type Node = (Name, Labels);
    type Cluster = (Nodes<(Name, Labels, Pods)>, SelectingObjects);
    type State = Alike;

    fn applies(&self, _: Ref<'_, Self::Pod>) -> bool {
        !self.args.affinity_labels.is_empty()
    }

    fn pre_filter(
        &self,
        (namespace, labels, selection): Ref<'_, Self::Pod>,
        (nodes, objects): Ref<'_, Self::Cluster>,
    ) -> Result<Option<Alike>, Rejection> {
        let asked = self.values(&selection.selector);
        let of_service = services(objects, namespace, labels).next().is_some();
        if !of_service || asked.iter().all(Option::is_some) {
            let asks = asked.iter().any(Option::is_some);
            return Ok(asks.then_some(Alike { asked, others: None }));
        }
        let mut others =
            Others { namespace: namespace.clone(), labels: labels.clone(), nodes: BTreeMap::new() };
        for (name, labels, pods) in nodes.iter() {
            let pods = pods.iter().filter(|pod| others.has(pod)).count();
            if 0 < pods {
                others.nodes.insert(name.clone(), OnNode { pods, values: self.values(labels) });
            }
        }
        Ok(Some(Alike { asked, others: Some(others) }))
    }

    /// As in service_affinity.go, Filter.
    fn filter(&self, state: &Alike, (_, labels): Ref<'_, Self::Node>) -> Verdict {
        let model = state.others.as_ref().and_then(Others::model);
        for (at, label) in self.args.affinity_labels.iter().enumerate() {
            let of_model = || model.and_then(|on_node| on_node.values[at].as_ref());
            let wanted = state.asked[at].as_ref().or_else(of_model);
            if wanted.is_some() && labels.get(label) != wanted {
                return Verdict::unschedulable(NOT_ALIKE);
            }
        }
        Verdict::Pass
    }

    fn update(
        &self,
        state: &mut Alike,
        change: PodChange<'_>,
        (name, labels): Ref<'_, Self::Node>,
    ) -> Update {
        let Some(others) = &mut state.others else { return Update::Exact };
        if !others.has(change.pod()) {
            return Update::Exact;
        }
        match change {
            PodChange::Added(_) => others.add(name, || self.values(labels)),
            PodChange::Removed(_) => others.remove(name),
        }
        Update::Exact
    }
}

impl PreScore for ServiceAffinity {
    type Pod = (PodNamespace, Labels);
    type Node = (Labels, Pods);
    type Cluster = SelectingObjects;
    type State = Sharing;

    fn pre_score(
        &self,
        (namespace, labels): Ref<'_, Self::Pod>,
        feasible: Feasible<'_, (Labels, Pods)>,
        objects: Ref<'_, SelectingObjects>,
    ) -> Option<Sharing> {
        let by = |label: &Str| {
            NodeGroups::by(feasible.iter().map(|(row, (labels, _))| (row, labels.get(label))))
        };
        Some(Sharing {
            namespace: namespace.clone(),
            selector: services(objects, namespace, labels).next().cloned(),
            by_label: self.args.anti_affinity_labels_preference.iter().map(by).collect(),
        })
    }

    /// As in service_affinity.go, Score.
    fn score(&self, state: &Sharing, _: Row, (_, pods): Ref<'_, Self::Node>) -> i64 {
        let Some(selector) = state.selector.as_ref().filter(|one| !one.is_everything()) else {
            return 0;
        };
        let counts = |pod: &&PodInfo| {
            pod.key.namespace == state.namespace
                && !pod.is_terminating()
                && selector.matches(&pod.labels)
        };
        let count = pods.iter().filter(counts).count();
        i64::try_from(count).expect("a node holds fewer than 2^63 pods")
    }

    fn normalize(&self, state: &Sharing, scores: &mut [Scored]) {
        let all: i64 = scores.iter().map(|one| one.score).sum();
        let by_label: Vec<_> =
            state.by_label.iter().map(|groups| (groups, groups.sums(scores))).collect();
        for one in scores {
            let groups = by_label.iter();
            let sums = groups.filter_map(|(groups, sums)| Some(sums[groups.of(one.row)?]));
            one.score = points(sums, all, by_label.len());
        }
    }
}

/// The score of a node: for each label that it has, how many of `all` pods are on nodes with the same value. As in
/// service_affinity.go, NormalizeScore and updateNodeScoresForLabel: each of the labels contributes the same part of
/// the score, and a node without the label gets nothing for it.
#[expect(clippy::cast_precision_loss, reason = "labels are far fewer than 2^53")]
#[expect(clippy::cast_possible_truncation, reason = "the very rounding is what must be equal")]
fn points(sums: impl Iterator<Item = i64>, all: i64, n_labels: usize) -> i64 {
    sums.fold(0.0, |score, sum| score + left_over(sum, all) / n_labels as f64) as i64
}

/// The pods of the namespace with all these labels, by counts.
struct OthersCounted {
    namespace: Str,
    labels: Labels,
    /// [`ON_NODE`], and then one for each affinity label.
    terms: Vec<DomainTerm>,
}

/// The term that counts pods.
const ON_NODE: u32 = 0;

fn term(key: TopologyKey) -> DomainTerm {
    DomainTerm { key, nodes: CountedNodes::all() }
}

/// A term for [`ON_NODE`], and one for each label.
fn terms(labels: &[Str]) -> Vec<DomainTerm> {
    let labels = labels.iter().cloned().map(TopologyKey::Label);
    std::iter::once(TopologyKey::Node).chain(labels).map(term).collect()
}

impl FilterByCounts for ServiceAffinity {
    type Objects = SelectingObjects;

    /// A pod whose `nodeSelector` asks for a value of an affinity label is not judged by counts.
    fn by_domain(
        &self,
        (namespace, labels, selection): Ref<'_, <Self as PreFilter>::Pod>,
        objects: Ref<'_, SelectingObjects>,
        _: Neighbours<'_>,
    ) -> ByDomain<dyn DomainFilter> {
        if self.values(&selection.selector).iter().any(Option::is_some) {
            return ByDomain::Unsupported;
        }
        if services(objects, namespace, labels).next().is_none() {
            return ByDomain::Skips;
        }
        ByDomain::Counts(Box::new(OthersCounted {
            namespace: namespace.clone(),
            labels: labels.clone(),
            terms: terms(&self.args.affinity_labels),
        }))
    }
}

impl DomainCounter for OthersCounted {
    fn terms(&self) -> &[DomainTerm] {
        &self.terms
    }

    fn counts_plain_pods(&self) -> bool {
        true
    }

    fn count(&self, other: Neighbour<'_>) -> Option<Counting> {
        let counts = *other.namespace == self.namespace && has_all(other.labels, &self.labels);
        Some(if counts { smallvec![(ON_NODE, 1)] } else { Counting::new() })
    }
}

impl DomainFilter for OthersCounted {
    fn compares_domains(&self) -> bool {
        false
    }

    fn first_of(&self) -> Option<usize> {
        Some(ON_NODE as usize)
    }

    fn verdict(&self, term_counts: &[TermCount], totals: &[TermTotals]) -> Verdict {
        let labels = term_counts.iter().zip(totals).skip(1);
        match labels.into_iter().all(|(node, all)| node.with_first || !all.first_present) {
            true => Verdict::Pass,
            false => Verdict::unschedulable(NOT_ALIKE),
        }
    }
}

/// The pods that a Service selects, by counts.
struct SharingCounts {
    namespace: Str,
    /// `None` if no pod counts.
    selector: Option<Selector>,
    /// [`ON_NODE`], and then one for each label.
    terms: Vec<DomainTerm>,
    /// The indexes of the terms of the labels.
    labels: Vec<usize>,
}

impl ScoreByCounts for ServiceAffinity {
    type Objects = SelectingObjects;

    fn by_domain(
        &self,
        (namespace, labels): Ref<'_, <Self as PreScore>::Pod>,
        objects: Ref<'_, SelectingObjects>,
        _: Neighbours<'_>,
    ) -> ByDomain<dyn DomainScore> {
        let by = &self.args.anti_affinity_labels_preference;
        if by.is_empty() {
            // Every node scores 0.
            return ByDomain::Skips;
        }
        let selector = services(objects, namespace, labels).next();
        ByDomain::Counts(Box::new(SharingCounts {
            namespace: namespace.clone(),
            selector: selector.filter(|one| !one.is_everything()).cloned(),
            terms: terms(by),
            labels: (1..=by.len()).collect(),
        }))
    }
}

impl DomainCounter for SharingCounts {
    fn terms(&self) -> &[DomainTerm] {
        &self.terms
    }

    fn counts_plain_pods(&self) -> bool {
        self.selector.is_some()
    }

    fn plain_pod_selectors(&self) -> Option<Vec<&Selector>> {
        Some(self.selector.iter().collect())
    }

    fn count(&self, other: Neighbour<'_>) -> Option<Counting> {
        let counts = *other.namespace == self.namespace
            && !other.terminating
            && self.selector.as_ref().is_some_and(|selector| selector.matches(other.labels));
        Some(if counts { smallvec![(ON_NODE, 1)] } else { Counting::new() })
    }
}

impl DomainScore for SharingCounts {
    fn is_ranked(&self, _: &[TermCount]) -> bool {
        true
    }

    fn reads_domains(&self) -> bool {
        false
    }

    fn raw(&self, term_counts: &[TermCount], _: &[f64]) -> i64 {
        term_counts[ON_NODE as usize].count
    }

    fn by_group(&self) -> Option<&dyn NormalizeByGroup> {
        Some(self)
    }
}

impl NormalizeByGroup for SharingCounts {
    fn terms(&self) -> &[usize] {
        &self.labels
    }

    fn normalize(&self, groups: &mut [ScoredGroup]) {
        let all: i64 = groups.iter().map(|group| group.score * group.len).sum();
        let mut in_domains: Vec<BTreeMap<u32, i64>> = vec![BTreeMap::new(); self.labels.len()];
        for group in &*groups {
            for (sums, domain) in in_domains.iter_mut().zip(&group.domains) {
                if let Some(domain) = domain {
                    *sums.entry(*domain).or_default() += group.score * group.len;
                }
            }
        }
        for group in groups {
            let domains = group.domains.iter().zip(&in_domains);
            let sums = domains.filter_map(|(domain, sums)| Some(sums[&(*domain)?]));
            group.score = points(sums, all, self.labels.len());
        }
    }
}

impl ServiceAffinity {
    /// The values of the affinity labels in `labels`.
    fn values(&self, labels: &Labels) -> Values {
        self.args.affinity_labels.iter().map(|label| labels.get(label).cloned()).collect()
    }
}

impl Others {
    /// Whether `pod` is one of them, terminating or not.
    fn has(&self, pod: &PodInfo) -> bool {
        pod.key.namespace == self.namespace && has_all(&pod.labels, &self.labels)
    }

    /// The node whose values count.
    fn model(&self) -> Option<&OnNode> {
        self.nodes.values().next()
    }

    fn add(&mut self, node: &Str, values: impl FnOnce() -> Values) {
        let empty = || OnNode { pods: 0, values: values() };
        self.nodes.entry(node.clone()).or_insert_with(empty).pods += 1;
    }

    fn remove(&mut self, node: &Str) {
        let Some(on_node) = self.nodes.get_mut(node) else { return };
        on_node.pods -= 1;
        if on_node.pods == 0 {
            self.nodes.remove(node);
        }
    }
}

/// Whether `labels` has all labels in `asked`, with the same values.
fn has_all(labels: &Labels, asked: &Labels) -> bool {
    asked.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The selectors of the Services that select a pod, in the order of their names. As in
/// helper/spread.go, GetPodServices.
fn services<'a>(
    objects: SelectingStore<'a>,
    namespace: &str,
    labels: &Labels,
) -> impl Iterator<Item = &'a Selector> {
    let all = objects.selecting(namespace, SelectingKind::Service, labels);
    all.into_iter().map(|(_, selector)| selector)
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<ServiceAffinity>()
        .pre_filter()
        .filter_by_counts()
        .pre_score()
        .score_by_counts()
        .not_at(Point::PreScore)
        .done()
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{Expect, check, expect, laws, random_scenarios};

    use super::*;

    /// Nodes in two regions, and one in none.
    const REGIONS: &str = r#"
        args {"affinityLabels": ["region"]}
        service web app=web
        node a region=eu zone=1
        node b region=us zone=2
        node c region=eu zone=3
        node d zone=4
    "#;

    fn check_in(cluster: &str, more: &str, expected: &Expect) {
        check(entry(), &format!("{cluster}\n{more}"), expected);
    }

    #[test]
    fn the_first_pod_of_a_service_may_go_anywhere() {
        check_in(
            REGIONS,
            "
            pod a1 app=db on a
            pod a2 app=db on b
            pod elsewhere/a3 app=web on b
            pod p app=web
            ",
            &expect![[r"
                p a Success
                p b Success
                p c Success
                p d Success
                p a score 0
                p b score 0
                p c score 0
                p d score 0
            "]],
        );
    }

    #[test]
    fn the_others_go_where_the_labels_have_the_same_values() {
        check_in(
            REGIONS,
            "
            pod b1 app=web on b
            pod p app=web
            pod of-no-service app=db
            pod elsewhere/p app=web
            ",
            &expect![[r"
                p a Unschedulable: node(s) didn't match service affinity
                p b Success
                p c Unschedulable: node(s) didn't match service affinity
                p d Unschedulable: node(s) didn't match service affinity
                p b score 0
                of-no-service a Success
                of-no-service b Success
                of-no-service c Success
                of-no-service d Success
                of-no-service a score 0
                of-no-service b score 0
                of-no-service c score 0
                of-no-service d score 0
                elsewhere/p a Success
                elsewhere/p b Success
                elsewhere/p c Success
                elsewhere/p d Success
                elsewhere/p a score 0
                elsewhere/p b score 0
                elsewhere/p c score 0
                elsewhere/p d score 0
            "]],
        );
    }

    #[test]
    fn only_pods_with_all_labels_of_the_pod_lead_it_terminating_or_not() {
        check_in(
            REGIONS,
            r#"
            pod b1 app=web on b
            pod c1 app=web tier=front track=stable on c {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
            pod p app=web tier=front
            "#,
            &expect![[r"
                p a Success
                p b Unschedulable: node(s) didn't match service affinity
                p c Success
                p d Unschedulable: node(s) didn't match service affinity
                p a score 0
                p c score 0
            "]],
        );
    }

    #[test]
    fn of_several_nodes_the_one_with_the_least_name_leads() {
        check_in(
            REGIONS,
            "
            pod c1 app=web on c
            pod b1 app=web on b
            pod p app=web
            ",
            &expect![[r"
                p a Unschedulable: node(s) didn't match service affinity
                p b Success
                p c Unschedulable: node(s) didn't match service affinity
                p d Unschedulable: node(s) didn't match service affinity
                p b score 0
            "]],
        );
    }

    #[test]
    fn a_label_that_the_leading_node_lacks_is_free() {
        check_in(
            REGIONS,
            "
            pod d1 app=web on d
            pod p app=web
            ",
            &expect![[r"
                p a Success
                p b Success
                p c Success
                p d Success
                p a score 0
                p b score 0
                p c score 0
                p d score 0
            "]],
        );
    }

    #[test]
    fn what_the_node_selector_asks_for_counts_first() {
        check_in(
            &REGIONS.replace(r#"["region"]"#, r#"["region", "zone"]"#),
            r#"
            pod b1 app=web on b
            pod both app=web {"nodeSelector": {"region": "eu", "zone": "1"}}
            pod one app=web {"nodeSelector": {"region": "eu"}}
            pod other app=web {"nodeSelector": {"disk": "ssd"}}
            pod of-no-service app=db {"nodeSelector": {"region": "eu"}}
            "#,
            &expect![[r"
                both a Success
                both b Unschedulable: node(s) didn't match service affinity
                both c Unschedulable: node(s) didn't match service affinity
                both d Unschedulable: node(s) didn't match service affinity
                both a score 0
                one a Unschedulable: node(s) didn't match service affinity
                one b Unschedulable: node(s) didn't match service affinity
                one c Unschedulable: node(s) didn't match service affinity
                one d Unschedulable: node(s) didn't match service affinity
                other a Unschedulable: node(s) didn't match service affinity
                other b Success
                other c Unschedulable: node(s) didn't match service affinity
                other d Unschedulable: node(s) didn't match service affinity
                other b score 0
                of-no-service a Success
                of-no-service b Unschedulable: node(s) didn't match service affinity
                of-no-service c Success
                of-no-service d Unschedulable: node(s) didn't match service affinity
                of-no-service a score 0
                of-no-service c score 0
            "]],
        );
    }

    #[test]
    fn without_affinity_labels_every_node_passes() {
        check_in(
            &REGIONS.replace(r#"["region"]"#, "[]"),
            "
            pod b1 app=web on b
            pod p app=web
            ",
            &expect![[r"
                p a Success
                p b Success
                p c Success
                p d Success
                p a score 0
                p b score 0
                p c score 0
                p d score 0
            "]],
        );
    }

    #[test]
    fn the_more_pods_of_the_service_share_a_value_the_less_nodes_with_it_score() {
        check_in(
            r#"
            args {"antiAffinityLabelsPreference": ["rack"]}
            service web app=web
            node a rack=1
            node b rack=1
            node c rack=2
            node d rack=3
            node e
            "#,
            r#"
            pod a1 app=web on a
            pod a2 app=web tier=front on a
            pod b1 app=web on b
            pod c1 app=web on c
            pod d1 app=web on d {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
            pod d2 app=db on d
            pod elsewhere/d3 app=web on d
            pod e1 app=web on e
            pod p app=web tier=back
            pod of-no-service app=db
            "#,
            &expect![[r"
                p a Success
                p b Success
                p c Success
                p d Success
                p e Success
                p a score 40
                p b score 40
                p c score 80
                p d score 100
                p e score 0
                of-no-service a Success
                of-no-service b Success
                of-no-service c Success
                of-no-service d Success
                of-no-service e Success
                of-no-service a score 100
                of-no-service b score 100
                of-no-service c score 100
                of-no-service d score 100
                of-no-service e score 0
            "]],
        );
    }

    #[test]
    fn every_preferred_label_makes_up_the_same_part() {
        check_in(
            r#"
            args {"antiAffinityLabelsPreference": ["rack", "zone", "row"]}
            service web app=web
            node a rack=1 zone=1 row=1
            node b rack=2 zone=1
            node c rack=1 zone=2
            "#,
            "
            pod a1 app=web on a
            pod p app=web
            ",
            &expect![[r"
                p a Success
                p b Success
                p c Success
                p a score 0
                p b score 33
                p c score 33
            "]],
        );
    }

    #[test]
    fn of_several_services_the_pods_of_the_one_with_the_least_name_count() {
        check_in(
            r#"
            args {"antiAffinityLabelsPreference": ["rack"]}
            service b app=web
            service a tier=front
            node a rack=1
            node b rack=2
            "#,
            "
            pod a1 app=web on a
            pod b1 tier=front on b
            pod p app=web tier=front
            ",
            &expect![[r"
                p a Success
                p b Success
                p a score 100
                p b score 0
            "]],
        );
    }

    #[test]
    fn args_with_an_unknown_field_are_refused() {
        check_in(
            "node a",
            r#"args {"affinityLabel": ["zone"]}"#,
            &expect![[r"
            args.affinityLabel of plugin ServiceAffinity: unknown field `affinityLabel`, expected `affinityLabels` or `antiAffinityLabelsPreference`
        "]],
        );
    }

    #[test]
    fn pods_that_come_and_go_are_followed() {
        let with_args = |scenario: String| {
            format!(
                "args {{\"affinityLabels\": [\"zone\", \"disk\"]}}\nservice web app=web\n{scenario}"
            )
        };
        laws(&entry(), random_scenarios(0..300).map(with_args));
        laws(
            &entry(),
            ["
            args {\"affinityLabels\": [\"zone\"], \"antiAffinityLabelsPreference\": [\"zone\"]}
            service web app=web
            node a zone=1
            node b zone=2
            node c zone=3
            pod b1 app=web on b
            pod b2 app=web on b
            pod c1 app=web on c
            pod p app=web
            pod q app=web tier=front
            "],
        );
    }

    #[test]
    fn a_rejected_pod_waits_for_pods_services_and_node_labels() {
        let points = entry().make(None, &FeatureGates::default()).expect("args are optional");
        let kinds: Vec<KindRef> = points.waits_for.iter().copied().collect();
        let waits = plimsoll_framework::events::derived(points.reads, &kinds);
        for (event, expected) in [
            (ClusterEvent::of::<Pod>(Action::ADD), true),
            (ClusterEvent::of::<Pod>(Action::DELETE), true),
            (ClusterEvent::of::<Pod>(Action::UPDATE_POD_LABEL), true),
            (ClusterEvent::of::<Service>(Action::ADD), true),
            (ClusterEvent::of::<Service>(Action::DELETE), true),
            (ClusterEvent::of::<Service>(Action::UPDATE_OTHER), true),
            (ClusterEvent::of::<Node>(Action::ADD), true),
            (ClusterEvent::of::<Node>(Action::DELETE), true),
            (ClusterEvent::of::<Node>(Action::UPDATE_NODE_LABEL), true),
            (ClusterEvent::of::<Node>(Action::UPDATE_NODE_TAINT), false),
            (ClusterEvent::of::<Node>(Action::UPDATE_NODE_ALLOCATABLE), false),
            (ClusterEvent::of::<Namespace>(Action::ADD), false),
        ] {
            assert_eq!(waits.iter().any(|one| one.covers(event)), expected, "{event}");
        }
    }
}
