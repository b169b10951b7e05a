//! The soft constraints: `ScheduleAnyway`.

use plimsoll_framework::math::ln;
use plimsoll_framework::prelude::*;

use super::domains::Domains;
use super::spreading::SpreadConstraints;
use super::{HOSTNAME_KEY, PodParts, PodTopologySpread};

/// The raw score of nodes that lack one of the keys: they score 0 and are ignored otherwise.
pub(super) const IGNORED: i64 = -1;

/// The distribution of the counted pods over the domains with a feasible node.
#[derive(Clone, Debug)]
pub struct Preference {
    spreading: SpreadConstraints,
    /// Whether nodes must have all topology keys to be scored.
    needs_all_keys: bool,
    counts: Vec<ConstraintCounts>,
}

/// The pods that one constraint counts.
#[derive(Clone, Debug)]
struct ConstraintCounts {
    /// How domains are distinguished.
    by: Apart,
    domains: Domains,
    of_domain: Vec<i32>,
    /// The weight of a pod, which is higher if there are more domains, so that the many small counts of
    /// hosts matter in comparison with the few large counts of zones.
    weight: f64,
}

/// How the domains of a constraint are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Apart {
    /// By the name of the node: each node is its own domain, whatever its label.
    Name,
    /// By the value of the topology key; nodes without it share a domain with those whose value is
    /// empty.
    Value,
}

impl PreScore for PodTopologySpread {
    type Pod = PodParts;
    type Node = (Name, Labels);
    type Cluster = (Nodes<(Name, Labels, Taints, Pods)>, SelectingObjects);
    type State = Preference;

    fn applies(&self, pod: Ref<'_, PodParts>) -> bool {
        self.may_spread(pod, WhenUnsatisfiable::ScheduleAnyway)
    }

    fn pre_score(
        &self,
        pod: Ref<'_, PodParts>,
        feasible: Feasible<'_, (Name, Labels)>,
        (nodes, objects): Ref<'_, Self::Cluster>,
    ) -> Option<Preference> {
        let spreading = self.spreading(pod, objects, WhenUnsatisfiable::ScheduleAnyway)?;
        let mut preference = Preference::among(spreading, self.needs_all_keys(pod), feasible);
        preference.count(nodes);
        Some(preference)
    }

    fn score(&self, state: &Preference, _: Row, (name, labels): Ref<'_, Self::Node>) -> i64 {
        let values = state.spreading.values(labels);
        if state.needs_all_keys && values.contains(&None) {
            return IGNORED;
        }
        let mut score = 0.0;
        for (i, value) in values.into_iter().enumerate().filter(|(_, value)| value.is_some()) {
            let one = &state.counts[i];
            let at = one.find(name, value).expect("the domains of feasible nodes are known");
            // As in scoring.go, scoreForCount: the allowed skew reduces small differences.
            let leeway = f64::from(state.spreading.constraints[i].max_skew - 1);
            score += f64::from(one.of_domain[at]) * one.weight + leeway;
        }
        #[expect(clippy::cast_possible_truncation, reason = "pods are far fewer than 2^53")]
        let rounded = score.round() as i64;
        rounded
    }

    fn normalize(&self, _: &Preference, scores: &mut [Scored]) {
        normalize(scores);
    }
}

impl PodTopologySpread {
    /// Whether nodes must have all topology keys to be scored.
    pub(super) fn needs_all_keys(&self, pod: Ref<'_, PodParts>) -> bool {
        !pod.0.is_empty() || !self.system_defaulted
    }
}

/// As in scoring.go, NormalizeScore: the lowest raw score gets the highest score, and the others get
/// less in proportion to the highest raw score.
pub(super) fn normalize(scores: &mut [Scored]) {
    let raw = || scores.iter().map(|one| one.score).filter(|&score| score != IGNORED);
    let (min, max) = (raw().min().unwrap_or(0), raw().max().unwrap_or(0));
    for one in scores {
        one.score = match one.score {
            IGNORED => 0,
            _ if max == 0 => MAX_NODE_SCORE,
            score => MAX_NODE_SCORE * (max + min - score) / max,
        };
    }
}

impl Preference {
    /// The domains of the feasible nodes, still without pods. As in scoring.go, initPreScoreState.
    fn among(
        spreading: SpreadConstraints,
        needs_all_keys: bool,
        feasible: Feasible<'_, (Name, Labels)>,
    ) -> Self {
        let mut counts: Vec<ConstraintCounts> =
            spreading.constraints.iter().map(ConstraintCounts::of).collect();
        for (_, (name, labels)) in feasible.iter() {
            let values = spreading.values(labels);
            if needs_all_keys && values.contains(&None) {
                continue;
            }
            for (one, value) in counts.iter_mut().zip(values) {
                one.domains.number(one.by.domain(name, value));
            }
        }
        for one in &mut counts {
            one.of_domain = vec![0; one.domains.len()];
            one.weight = weight(one.domains.len());
        }
        Preference { spreading, needs_all_keys, counts }
    }

    /// Counts the pods on all nodes, feasible or not, in the domains of the feasible ones. As in
    /// scoring.go, PreScore and Score: eligibility of a node for a constraint matters only if it shares
    /// a domain with others.
    fn count(&mut self, nodes: NodesRef<'_, (Name, Labels, Taints, Pods)>) {
        let Preference { spreading, needs_all_keys, counts } = self;
        for (name, labels, taints, pods) in nodes.iter().filter(|(.., pods)| !pods.is_empty()) {
            let values = spreading.values(labels);
            if *needs_all_keys && values.contains(&None) {
                continue;
            }
            let inclusion = spreading.inclusion(name, labels, taints);
            let mut on_node = None;
            for (i, (one, value)) in counts.iter_mut().zip(values).enumerate() {
                let is_counted =
                    one.by == Apart::Name || inclusion.counts_for(&spreading.constraints[i]);
                if let Some(at) = one.find(name, value).filter(|_| is_counted) {
                    one.of_domain[at] +=
                        on_node.get_or_insert_with(|| spreading.counts_of(pods))[i];
                }
            }
        }
    }
}

impl ConstraintCounts {
    fn of(constraint: &SpreadConstraint) -> Self {
        let by_name = constraint.topology_key == HOSTNAME_KEY;
        ConstraintCounts {
            by: if by_name { Apart::Name } else { Apart::Value },
            domains: Domains::default(),
            of_domain: Vec::new(),
            weight: 0.0,
        }
    }

    /// The domain of a node, if a feasible node is in it.
    fn find(&self, name: &str, value: Option<&Str>) -> Option<usize> {
        self.domains.find(self.by.domain(name, value))
    }
}

impl Apart {
    /// The identity of the domain of a node.
    fn domain<'a>(self, name: &'a str, value: Option<&'a Str>) -> &'a str {
        match self {
            Apart::Name => name,
            Apart::Value => value.map_or("", Str::as_str),
        }
    }
}

/// As in scoring.go, topologyNormalizingWeight.
pub(super) fn weight(size: usize) -> f64 {
    ln(f64::from(u32::try_from(size + 2).expect("there are fewer than 2^32 nodes")))
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{check, expect};

    use super::super::entry;

    /// Hosts with two, one, no and three web pods.
    const HOSTS: &str = r"
        node a kubernetes.io/hostname=a zone=1
        node b kubernetes.io/hostname=b zone=1
        node c kubernetes.io/hostname=c zone=2
        node d kubernetes.io/hostname=d zone=2
        pod a1 app=web on a
        pod a2 app=web on a
        pod b1 app=web on b
        pod d1 app=web on d
        pod d2 app=web on d
        pod d3 app=web on d
    ";

    fn check_in(nodes: &str, pods: &str, expected: &plimsoll_testkit::Expect) {
        check(entry(), &format!("{nodes}\n{pods}"), expected);
    }

    #[test]
    fn fewer_pods_on_a_host_score_higher_and_a_wider_skew_evens_that_out() {
        check_in(
            HOSTS,
            r#"
            pod one app=web {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}}}]}
            pod two app=web {"topologySpreadConstraints": [{
                "maxSkew": 2, "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}}}]}
            pod no-selector app=web {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway"}]}
            "#,
            &expect![[r"
                one a Success
                one b Success
                one c Success
                one d Success
                one a score 20
                one b score 60
                one c score 100
                one d score 0
                two a Success
                two b Success
                two c Success
                two d Success
                two a score 33
                two b score 66
                two c score 100
                two d score 16
                no-selector a Success
                no-selector b Success
                no-selector c Success
                no-selector d Success
                no-selector a score 100
                no-selector b score 100
                no-selector c score 100
                no-selector d score 100
            "]],
        );
    }

    #[test]
    fn domains_count_the_pods_on_infeasible_nodes_and_only_feasible_nodes_make_domains() {
        check_in(
            HOSTS,
            r#"
            node e kubernetes.io/hostname=e zone=2
            node f kubernetes.io/hostname=f zone=3
            pod e1 app=web on e
            pod p app=web {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                 "labelSelector": {"matchLabels": {"app": "web"}}},
                {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                 "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#,
            &expect![[r"
                p a Unschedulable: node(s) didn't match pod topology spread constraints
                p b Unschedulable: node(s) didn't match pod topology spread constraints
                p c Success
                p d Unschedulable: node(s) didn't match pod topology spread constraints
                p e Unschedulable: node(s) didn't match pod topology spread constraints
                p f Success
                p c score 0
                p f score 100
            "]],
        );
    }

    #[test]
    fn pods_on_nodes_that_do_not_count_do_not_count() {
        check_in(
            r#"
            node a zone=1
            node b zone=2
            node tainted zone=2 {"taints": [{"key": "gpu", "effect": "NoExecute"}]}
            pod 1 app=web on a
            pod 2 app=web on tainted
            pod 3 app=web on tainted
            pod 4 app=web on b {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
            "#,
            r#"
            pod ignores app=web {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}}}]}
            pod honors app=web {"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                "nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#,
            &expect![[r"
                ignores a Success
                ignores b Success
                ignores tainted Success
                ignores a score 100
                ignores b score 33
                ignores tainted score 33
                honors a Success
                honors b Success
                honors tainted Success
                honors a score 0
                honors b score 100
                honors tainted score 100
            "]],
        );
    }

    #[test]
    fn a_node_without_one_of_the_keys_scores_nothing() {
        check_in(
            HOSTS,
            r#"
            node x zone=3
            pod p app=web {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                 "labelSelector": {"matchLabels": {"app": "web"}}},
                {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                 "whenUnsatisfiable": "ScheduleAnyway",
                 "labelSelector": {"matchLabels": {"app": "web"}}}]}
            "#,
            &expect![[r"
                p a Success
                p b Success
                p c Success
                p d Success
                p x Success
                p a score 60
                p b score 80
                p c score 100
                p d score 40
                p x score 0
            "]],
        );
    }

    #[test]
    fn pods_of_a_service_spread_over_hosts_even_where_nodes_have_no_zone() {
        check_in(
            r"
            service web app=web
            node a kubernetes.io/hostname=a
            node b kubernetes.io/hostname=b
            node c kubernetes.io/hostname=c
            node d kubernetes.io/hostname=d
            pod a1 app=web on a
            pod a2 app=web on a
            pod a3 app=web on a
            pod a4 app=web on a
            pod b1 app=web on b
            pod b2 app=web on b
            pod b3 app=web on b
            pod c1 app=web on c
            pod c2 app=web on c
            pod d1 app=web on d
            ",
            r"
            pod p app=web
            pod alone app=db
            ",
            &expect![[r"
                p a Success
                p b Success
                p c Success
                p d Success
                p a score 44
                p b score 66
                p c score 77
                p d score 100
                alone a Success
                alone b Success
                alone c Success
                alone d Success
                alone skips score
            "]],
        );
    }

    #[test]
    fn a_profile_without_default_constraints_gives_no_score_by_itself() {
        check(
            entry(),
            r#"
            args {"defaultingType": "List"}
            service web app=web
            node a kubernetes.io/hostname=a
            pod p app=web
            "#,
            &expect![[r"
                p a Success
                p skips score
            "]],
        );
    }
}
