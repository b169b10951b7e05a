//! The hard constraints: `DoNotSchedule`.
//!
//! Each constraint is a term, and each value of its topology key that some eligible node has is a
//! domain with a count of pods. The verdict on a node depends only on its domains.

use std::sync::Arc;

use plimsoll_framework::prelude::*;

use super::domains::Domains;
use super::spreading::SpreadConstraints;
use super::{PodParts, PodTopologySpread};

pub(super) const CONSTRAINTS_NOT_MET: &str = "node(s) didn't match pod topology spread constraints";
pub(super) const LABEL_MISSING: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";

/// The present distribution of the counted pods.
#[derive(Clone, Debug)]
pub struct Distribution {
    terms: Arc<SpreadTerms>,
    counts: Vec<SpreadCounts>,
}

/// The part that does not change when pods are added or removed.
#[derive(Debug)]
struct SpreadTerms {
    spreading: SpreadConstraints,
    /// The domains of each constraint: the values that some eligible node has.
    domains: Vec<Domains>,
    /// For each constraint, 1 if it counts the pod itself, else 0.
    own: Vec<i32>,
}

/// The pods that one constraint counts.
#[derive(Clone, Debug, Default)]
struct SpreadCounts {
    of_domain: Vec<i32>,
    domains_with: CountHistogram,
}

impl PreFilter for PodTopologySpread {
    type Pod = PodParts;
    type Node = (Name, Labels, Taints);
    type Cluster = (Nodes<(Name, Labels, Taints, Pods)>, SelectingObjects);
    type State = Distribution;

    fn applies(&self, pod: Ref<'_, PodParts>) -> bool {
        self.may_spread(pod, WhenUnsatisfiable::DoNotSchedule)
    }

    fn pre_filter(
        &self,
        pod: Ref<'_, PodParts>,
        (nodes, objects): Ref<'_, Self::Cluster>,
    ) -> Result<Option<Distribution>, Rejection> {
        let spreading = self.spreading(pod, objects, WhenUnsatisfiable::DoNotSchedule);
        Ok(spreading.map(|spreading| Distribution::of(spreading, pod.2, nodes)))
    }

    /// The first constraint that is violated gives the reason.
    fn filter(&self, state: &Distribution, (_, labels, _): Ref<'_, Self::Node>) -> Verdict {
        let values = state.terms.spreading.values(labels).into_iter().enumerate();
        let verdicts = values.map(|(term, value)| state.verdict(term, value));
        verdicts.into_iter().find(|verdict| !verdict.passes()).unwrap_or(Verdict::Pass)
    }

    /// As in filtering.go, updateWithPod, which adds and subtracts two kinds of pods that are not
    /// counted initially: terminating ones, and those of a selector that matches everything. The state
    /// does the same, since preemptions and nominations depend on it. It also requests to be computed
    /// anew, since pods that were really added or removed must be counted as in a new state.
    fn update(
        &self,
        state: &mut Distribution,
        change: PodChange<'_>,
        (name, labels, taints): Ref<'_, Self::Node>,
    ) -> Update {
        let Distribution { terms, counts } = state;
        let (spreading, pod) = (&terms.spreading, change.pod());
        let other = Neighbour::from(&**pod);
        let values = spreading.values(labels);
        if !spreading.is_of(other.namespace) || values.contains(&None) {
            return Update::Exact;
        }
        let inclusion = spreading.inclusion(name, labels, taints);
        let mut exact = true;
        for (term, value) in values.into_iter().flatten().enumerate() {
            let constraint = terms.constraint(term);
            if !inclusion.counts_for(constraint) || !spreading.speaks_of(term, other) {
                continue;
            }
            let Some(at) = terms.domains[term].find(value) else { return Update::Rebuild };
            exact &= spreading.counts(term, other);
            counts[term].add(at, change.sign());
        }
        if exact { Update::Exact } else { Update::Rebuild }
    }
}

impl Distribution {
    /// Counts the pods on `nodes`. As in filtering.go, calPreFilterState: a node that lacks one of the
    /// keys is in no domain.
    fn of(
        spreading: SpreadConstraints,
        own_labels: &Labels,
        nodes: NodesRef<'_, (Name, Labels, Taints, Pods)>,
    ) -> Self {
        let constraints = &spreading.constraints;
        let mut domains = vec![Domains::default(); constraints.len()];
        let mut counts = vec![SpreadCounts::default(); constraints.len()];
        for (name, labels, taints, pods) in nodes.iter() {
            let values = spreading.values(labels);
            if values.contains(&None) {
                continue;
            }
            let inclusion = spreading.inclusion(name, labels, taints);
            let on_node = spreading.counts_of(pods);
            for (term, value) in values.into_iter().flatten().enumerate() {
                if inclusion.counts_for(&constraints[term]) {
                    let at = domains[term].number(value);
                    counts[term].gather(at, on_node[term]);
                }
            }
        }
        for one in &mut counts {
            one.sort_in();
        }
        let own =
            constraints.iter().map(|one| i32::from(one.selector.matches(own_labels))).collect();
        Distribution { terms: Arc::new(SpreadTerms { spreading, domains, own }), counts }
    }

    /// The verdict of one constraint on nodes with this value of its key.
    fn verdict(&self, term: usize, value: Option<&Str>) -> Verdict {
        let Some(value) = value else { return Verdict::unresolvable(LABEL_MISSING) };
        let (constraint, counts) = (self.terms.constraint(term), &self.counts[term]);
        // As in filtering.go, Filter: the skew of the domain with the pod in it. A domain without
        // eligible nodes has no pods, and is not considered for the lowest count.
        let there = self.terms.domains[term].find(value).map_or(0, |at| counts.of_domain[at]);
        let skew = i64::from(there + self.terms.own[term]) - counts.least(constraint);
        if i64::from(constraint.max_skew) < skew {
            Verdict::unschedulable(CONSTRAINTS_NOT_MET)
        } else {
            Verdict::Pass
        }
    }
}

impl SpreadTerms {
    fn constraint(&self, term: usize) -> &SpreadConstraint {
        &self.spreading.constraints[term]
    }
}

impl SpreadCounts {
    /// Adds to the domain at `at`, which may be the next one. [`SpreadCounts::sort_in`] must follow.
    fn gather(&mut self, at: usize, count: i32) {
        if at == self.of_domain.len() {
            self.of_domain.push(0);
        }
        self.of_domain[at] += count;
    }

    fn sort_in(&mut self) {
        for &count in &self.of_domain {
            self.domains_with.insert(i64::from(count));
        }
    }

    /// Adds to the domain at `at`.
    fn add(&mut self, at: usize, difference: i32) {
        let before = self.of_domain[at];
        self.of_domain[at] += difference;
        self.domains_with.insert(i64::from(before + difference));
        self.domains_with.remove(i64::from(before));
    }

    /// The lowest count of all domains, or 0 if there are fewer domains than minDomains. As in
    /// filtering.go, minMatchNum.
    fn least(&self, constraint: &SpreadConstraint) -> i64 {
        let wanted = usize::try_from(constraint.min_domains).unwrap_or(0);
        let least = self.domains_with.least().unwrap_or(0);
        if self.of_domain.len() < wanted { 0 } else { least }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{Cluster, Scenario, check, expect, laws, random_scenarios};

    use super::super::{PodTopologySpreadArgs, entry};
    use super::*;

    /// Zones a, b and c with two, one and one web pods, and a node without a zone.
    const ZONES: &str = r#"
        node a1 zone=a host=a1
        node a2 zone=a host=a2
        node b1 zone=b host=b1
        node c1 zone=c
        node x host=x
        pod 1 app=web on a1
        pod 2 app=web on a2
        pod 3 app=web on b1
        pod 4 app=web on c1
        pod 5 app=db on c1
        pod 6 app=web on x
        pod other/7 app=web on c1
        pod 8 app=web on b1 {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    "#;

    fn check_in(nodes: &str, pods: &str, expected: &plimsoll_testkit::Expect) {
        check(entry(), &format!("{nodes}\n{pods}"), expected);
    }

    #[test]
    fn a_domain_leads_the_least_by_maxskew_at_most() {
        check_in(
            ZONES,
            r#"
            pod one app=web {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}}}]}
            pod two app=web {"topologySpreadConstraints": [{
                "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#,
            &expect![[r"
                one a1 Unschedulable: node(s) didn't match pod topology spread constraints
                one a2 Unschedulable: node(s) didn't match pod topology spread constraints
                one b1 Success
                one c1 Success
                one x UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints (missing required label)
                one skips score
                two a1 Success
                two a2 Success
                two b1 Success
                two c1 Success
                two x UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints (missing required label)
                two skips score
            "]],
        );
    }

    #[test]
    fn a_pod_that_its_own_selector_misses_adds_nothing() {
        check_in(
            ZONES,
            r#"
            pod p app=cache {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#,
            &expect![[r"
                p a1 Success
                p a2 Success
                p b1 Success
                p c1 Success
                p x UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints (missing required label)
                p skips score
            "]],
        );
    }

    #[test]
    fn the_first_constraint_that_fails_gives_the_reason() {
        check_in(
            "node a1 zone=a host=a1 \n node a2 zone=a \n node b zone=b host=b \n pod 1 app=web on a1",
            r#"
            pod p app=web {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "web"}}},
                {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#,
            &expect![[r"
                p a1 Unschedulable: node(s) didn't match pod topology spread constraints
                p a2 Unschedulable: node(s) didn't match pod topology spread constraints
                p b Success
                p skips score
            "]],
        );
    }

    #[test]
    fn a_node_without_one_of_the_keys_is_in_no_domain_of_the_others() {
        check_in(
            "node a zone=a host=a \n node b zone=b \n pod 1 app=web on a",
            r#"
            pod zone app=web {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "web"}}}]}
            pod both app=web {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "web"}}},
                {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#,
            &expect![[r"
                zone a Unschedulable: node(s) didn't match pod topology spread constraints
                zone b Success
                zone skips score
                both a Success
                both b UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints (missing required label)
                both skips score
            "]],
        );
    }

    #[test]
    fn too_few_domains_count_as_if_one_were_empty() {
        check_in(
            ZONES,
            r#"
            pod three app=web {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "minDomains": 3, "labelSelector": {"matchLabels": {"app": "web"}}}]}
            pod four app=web {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "minDomains": 4, "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#,
            &expect![[r"
                three a1 Unschedulable: node(s) didn't match pod topology spread constraints
                three a2 Unschedulable: node(s) didn't match pod topology spread constraints
                three b1 Success
                three c1 Success
                three x UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints (missing required label)
                three skips score
                four a1 Unschedulable: node(s) didn't match pod topology spread constraints
                four a2 Unschedulable: node(s) didn't match pod topology spread constraints
                four b1 Unschedulable: node(s) didn't match pod topology spread constraints
                four c1 Unschedulable: node(s) didn't match pod topology spread constraints
                four x UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints (missing required label)
            "]],
        );
    }

    #[test]
    fn an_empty_selector_counts_no_pod_and_neither_does_an_absent_one() {
        check_in(
            ZONES,
            r#"
            pod empty app=web {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {}}]}
            pod absent app=web {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}
            "#,
            &expect![[r"
                empty a1 Success
                empty a2 Success
                empty b1 Success
                empty c1 Success
                empty x UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints (missing required label)
                empty skips score
                absent a1 Success
                absent a2 Success
                absent b1 Success
                absent c1 Success
                absent x UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints (missing required label)
                absent skips score
            "]],
        );
    }

    /// Zone a is full, zone b has only a node of the wrong kind and zone c only a tainted one.
    const KINDS: &str = r#"
        node a zone=a disk=ssd
        node b zone=b disk=hdd
        node c zone=c disk=ssd {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
        pod 1 app=web on a
    "#;

    #[test]
    fn nodes_that_the_pod_cannot_use_make_domains_as_the_policies_say() {
        let pod = |name: &str, policies: &str| {
            format!(
                r#"
                pod {name} app=web {{"nodeSelector": {{"disk": "ssd"}}, "topologySpreadConstraints": [{{
                    "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                    {policies} "labelSelector": {{"matchLabels": {{"app": "web"}}}}}}]}}"#
            )
        };
        let pods = [
            pod("by-default", ""),
            pod("honors-taints", r#""nodeTaintsPolicy": "Honor","#),
            pod(
                "honors-taints-only",
                r#""nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor","#,
            ),
        ];
        check_in(
            KINDS,
            &pods.concat(),
            &expect![[r"
            by-default a Unschedulable: node(s) didn't match pod topology spread constraints
            by-default b Success
            by-default c Success
            by-default skips score
            honors-taints a Success
            honors-taints b Success
            honors-taints c Success
            honors-taints skips score
            honors-taints-only a Unschedulable: node(s) didn't match pod topology spread constraints
            honors-taints-only b Success
            honors-taints-only c Success
            honors-taints-only skips score
        "]],
        );
    }

    #[test]
    fn a_toleration_that_compares_makes_domains_only_behind_its_gate() {
        let cluster = r#"
            node a zone=a
            node b zone=b {"taints": [{"key": "sla", "value": "950", "effect": "NoSchedule"}]}
            pod 1 app=web on a
            pod p app=web {"tolerations": [{"key": "sla", "operator": "Gt", "value": "900"}],
                "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#;
        let with = |gate: &str, expected: &_| check(entry(), &format!("{gate}{cluster}"), expected);
        with(
            "",
            &expect![[r"
                p a Success
                p b Success
                p skips score
            "]],
        );
        with(
            "gate TaintTolerationComparisonOperators=true\n",
            &expect![[r"
                p a Unschedulable: node(s) didn't match pod topology spread constraints
                p b Success
                p skips score
            "]],
        );
    }

    /// The API server has merged the key of the second pod into its selector.
    #[test]
    fn match_label_keys_that_nobody_has_merged_count_unless_their_gate_is_off() {
        let cluster = r#"
            node a zone=a
            node b zone=b
            pod 1 app=web rev=1 on a
            pod p app=web rev=2 {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "matchLabelKeys": ["rev"], "labelSelector": {"matchLabels": {"app": "web"}}}]}
            pod merged app=web rev=2 {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "matchLabelKeys": ["rev"],
                "labelSelector": {"matchLabels": {"app": "web", "rev": "2"}}}]}
            "#;
        let with = |gate: &str, expected: &_| check(entry(), &format!("{gate}{cluster}"), expected);
        with(
            "",
            &expect![[r"
                p a Success
                p b Success
                p skips score
                merged a Success
                merged b Success
                merged skips score
            "]],
        );
        with(
            "gate MatchLabelKeysInPodTopologySpread=false\n",
            &expect![[r"
                p a Unschedulable: node(s) didn't match pod topology spread constraints
                p b Success
                p skips score
                merged a Success
                merged b Success
                merged skips score
            "]],
        );
    }

    #[test]
    fn default_constraints_hold_for_pods_that_a_service_selects() {
        check(
            entry(),
            r#"
            args {"defaultingType": "List", "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}
            service web app=web
            node a zone=a
            node b zone=b
            pod 1 app=web on a
            pod selected app=web
            pod not-selected app=db
            pod of-its-own app=web {"topologySpreadConstraints": [{
                "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#,
            &expect![[r"
                selected a Unschedulable: node(s) didn't match pod topology spread constraints
                selected b Success
                selected skips score
                not-selected a Success
                not-selected b Success
                not-selected skips score
                of-its-own a Success
                of-its-own b Success
                of-its-own skips score
            "]],
        );
    }

    #[test]
    fn the_laws_hold() {
        laws(&entry(), random_scenarios(0..300));
    }

    #[test]
    fn a_pod_that_comes_changes_what_every_constraint_says_of_its_node() {
        laws(
            &entry(),
            [r#"
            node a zone=x host=a
            node b zone=x host=b
            node c zone=y host=c
            pod other app=web
            pod judged app=web {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "web"}}},
                {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "web"}}}
            ]}
            "#],
        );
    }

    #[test]
    fn an_update_counts_as_if_counted_anew() {
        let pending = r#"
            pod p app=web {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "web"}}},
                {"maxSkew": 2, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule",
                 "minDomains": 3, "labelSelector": {"matchExpressions": [
                    {"key": "app", "operator": "Exists"}]}}]}"#;
        let mut world = SpreadScenario::of(&format!("{ZONES}\n{pending}"));
        let mut state = world.prepare();
        // Pods of two kinds are added to every node and removed again, in an order in which the lowest
        // counts of zones and of hosts rise and fall.
        let steps = [(1, 0), (2, 0), (3, 0), (4, 0), (0, 0), (2, 1), (1, 1), (0, 1), (4, 1)];
        for (node, kind) in steps {
            world.follow(&mut state, node, PodChange::Added(&newcomer(node, kind)));
        }
        for (node, kind) in steps {
            world.follow(&mut state, node, PodChange::Removed(&newcomer(node, kind)));
        }
    }

    fn newcomer(node: usize, kind: usize) -> PodInfo {
        let labels = [("app", ["web", "db"][kind])].into_iter().collect();
        let template = PodTemplate { labels, ..PodTemplate::default() };
        PodInfo::new(Pod::new(PodKey::new("default", format!("new-{node}-{kind}")), template))
    }

    #[test]
    fn a_terminating_pod_leaves_the_count_when_it_is_evicted() {
        let world = SpreadScenario::of(
            r#"
            node a zone=a
            node b zone=b
            pod 1 app=web on a
            pod going app=web on a {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
            pod p app=web {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#,
        );
        let mut state = world.prepare();
        let node = <(Name, Labels, Taints)>::at(&world.cluster.nodes, Row::from_index(0));
        assert!(!PreFilter::filter(&world.plugin, &state, node).passes());
        let going = world.placed.iter().find(|pod| pod.is_terminating()).cloned();
        let going = going.expect("one pod is terminating");
        let told = world.plugin.update(&mut state, PodChange::Removed(&going), node);
        assert_eq!(told, Update::Rebuild);
        assert!(PreFilter::filter(&world.plugin, &state, node).passes());
    }

    /// A cluster, and the first pending pod in it.
    struct SpreadScenario {
        plugin: PodTopologySpread,
        cluster: Cluster,
        placed: Vec<PodInfo>,
        pod: PodInfo,
    }

    impl SpreadScenario {
        fn of(scenario: &str) -> Self {
            let scenario = Scenario::parse(scenario).expect("the scenario is right");
            let args = PodTopologySpreadArgs::default();
            SpreadScenario {
                plugin: PodTopologySpread::new(args, &FeatureGates::default()),
                cluster: Cluster::of(&scenario),
                placed: scenario.placed,
                pod: scenario.pending[0].clone(),
            }
        }

        fn prepare(&self) -> Distribution {
            let cluster = <PodTopologySpread as PreFilter>::Cluster::of(&self.cluster.view());
            let state = self.plugin.pre_filter(self.pod.part::<PodParts>(), cluster);
            state.expect("nothing rejects the pod for all nodes").expect("it has constraints")
        }

        /// The state must equal a newly computed one.
        fn follow(&mut self, state: &mut Distribution, node: usize, change: PodChange<'_>) {
            let row = Row::from_index(node);
            match change {
                PodChange::Added(pod) => self.cluster.nodes.place(row, pod),
                PodChange::Removed(pod) => {
                    self.cluster.nodes.displace(row, &pod.key).expect("the pod is there");
                }
            }
            let node = <(Name, Labels, Taints)>::at(&self.cluster.nodes, row);
            assert_eq!(self.plugin.update(state, change, node), Update::Exact);
            assert_eq!(self.verdicts(state), self.verdicts(&self.prepare()));
        }

        fn verdicts(&self, state: &Distribution) -> Vec<Verdict> {
            let nodes = &self.cluster.nodes;
            let judged = nodes.rows().map(|row| {
                let node = <(Name, Labels, Taints)>::at(nodes, row);
                PreFilter::filter(&self.plugin, state, node)
            });
            judged.collect()
        }
    }
}
