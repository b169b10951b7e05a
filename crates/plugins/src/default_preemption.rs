//! DefaultPreemption: makes room for a pod by evicting pods of lower priority.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plimsoll_api::PodDisruptionBudget;
use plimsoll_framework::prelude::*;
use serde::Deserialize;

const NEVER: &str = "preemption: not eligible due to preemptionPolicy=Never.";
const TERMINATING: &str =
    "preemption: not eligible due to a terminating pod on the nominated node.";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// Finds the node on which evicting pods of lower priority makes room for the pod at the least harm,
/// and names the pods that must go.
///
/// On each node that rejected the pod, and where evictions could help, all pods of lower priority are
/// taken off in thought. If the pod then fits, as many as possible are put back: first those whose
/// eviction would break a PodDisruptionBudget, then the others, the most important first. Among the
/// nodes, the one is chosen with the fewest broken budgets; then with the lowest priority of its most
/// important victim; then with the lowest sum of priorities; then with the fewest victims; then the
/// one whose most important victims started last.
///
/// Example: a node is full with a pod of priority 1 that asks for 1 CPU and one of priority 0 that asks
/// for 2. A pod of priority 5 that asks for 2 CPUs evicts only the second.
///
/// Differences from kube-scheduler: where more nodes could be tried than the args ask for, it starts at a
/// place that follows from the name of the pod rather than from chance; among nodes that are equal in
/// everything, the smallest name is chosen rather than any.
#[derive(Debug)]
pub struct DefaultPreemption {
    args: DefaultPreemptionArgs,
}

/// How many nodes are tried before a choice is made: at least as many as both say, if there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct DefaultPreemptionArgs {
    /// Percent of the nodes on which evictions could help; 0 to 100.
    pub min_candidate_nodes_percentage: u32,
    /// A number of nodes.
    pub min_candidate_nodes_absolute: u32,
}

impl Default for DefaultPreemptionArgs {
    /// 10 percent, and 100 nodes.
    fn default() -> Self {
        DefaultPreemptionArgs {
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

/// The plugin, where it stands.
pub fn entry() -> Entry {
    Entry::of::<DefaultPreemption>().post_filter().at(Point::PreEnqueue).done()
}

impl Plugin for DefaultPreemption {
    const NAME: &'static str = "DefaultPreemption";
    type Args = DefaultPreemptionArgs;

    fn new(args: DefaultPreemptionArgs, _: &FeatureGates) -> Self {
        DefaultPreemption { args }
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        what_if: &WhatIf<'_>,
    ) -> PostFilterAnswer {
        if let Some(why) = ineligible(pod, rejected, what_if.view()) {
            return PostFilterAnswer::Unschedulable(why.into());
        }
        let search = self.search(pod, rejected, what_if);
        if let Some(error) = search.error {
            return PostFilterAnswer::Error(format!("preemption: {error}").into());
        }
        let Some(best) = search.candidates.into_iter().min_by_key(Candidate::harm) else {
            let n_nodes = what_if.view().nodes.len();
            return PostFilterAnswer::Hopeless(no_candidate(n_nodes, &search.reasons).into());
        };
        // Who is going already need not be told to.
        let staying = best.victims.iter().filter(|victim| !victim.is_terminating());
        let victims = staying.map(|victim| victim.key.clone()).collect();
        PostFilterAnswer::Nominated(Nomination { node: best.node, victims })
    }
}

/// Why the pod may not evict others. As in default_preemption.go, PodEligibleToPreemptOthers.
fn ineligible(pod: &PodInfo, rejected: &[NodeRejection], view: &View<'_>) -> Option<&'static str> {
    if pod.preemption_policy == PreemptionPolicy::Never {
        return Some(NEVER);
    }
    let nominated = pod.nominated_node.as_ref()?;
    let row = view.nodes.rows().find(|&row| view.nodes.name_of(row) == nominated)?;
    // A node that rejects the pod for good was cleared in vain: another one may be looked for.
    let in_vain = rejected
        .iter()
        .any(|node| node.row == row && node.rejection.code == Code::UnschedulableAndUnresolvable);
    let clearing = |other: &PodInfo| {
        other.priority < pod.priority && other.is_terminating() && other.preempted
    };
    (!in_vain && view.nodes.pods_on(row).iter().any(clearing)).then_some(TERMINATING)
}

/// The text when no node can be cleared: a FitError of its own.
fn no_candidate(n_nodes: usize, reasons: &BTreeMap<Row, Vec<String>>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons.values().flatten() {
        *counts.entry(reason).or_default() += 1;
    }
    if reasons.len() < n_nodes {
        *counts.entry(NOT_HELPFUL).or_default() += n_nodes - reasons.len();
    }
    let mut parts: Vec<String> =
        counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort_unstable();
    format!("preemption: 0/{n_nodes} nodes are available: {}.", parts.join(", "))
}

/// What the search has found.
#[derive(Default)]
struct Search {
    candidates: Vec<Candidate>,
    /// Why nodes that were tried cannot be cleared.
    reasons: BTreeMap<Row, Vec<String>>,
    error: Option<String>,
}

impl DefaultPreemption {
    /// Tries nodes until there are enough candidates, of which at least one breaks no budget. As in
    /// preemption.go, DryRunPreemption.
    fn search(&self, pod: &PodInfo, rejected: &[NodeRejection], what_if: &WhatIf<'_>) -> Search {
        let resolvable = |node: &&NodeRejection| node.rejection.code == Code::Unschedulable;
        let rows: Vec<Row> = rejected.iter().filter(resolvable).map(|node| node.row).collect();
        let enough = self.enough(rows.len());
        let offset = offset(pod, rows.len());
        let mut search = Search::default();
        for i in 0..rows.len() {
            let row = rows[(offset + i) % rows.len()];
            match Candidate::on(row, pod, what_if) {
                Ok(candidate) => search.candidates.push(candidate),
                Err(why) if why.code == Code::Error => search.error = Some(why.to_string()),
                Err(why) => {
                    let texts = why.reasons.iter().map(ToString::to_string).collect();
                    search.reasons.insert(row, texts);
                }
            }
            let harmless = search.candidates.iter().any(|one| one.broken_budgets == 0);
            if harmless && enough <= search.candidates.len() {
                break;
            }
        }
        if !search.candidates.is_empty() {
            search.error = None;
        }
        search
    }

    /// How many candidates are enough. As in default_preemption.go, calculateNumCandidates.
    fn enough(&self, n_nodes: usize) -> usize {
        let share = n_nodes * self.args.min_candidate_nodes_percentage as usize / 100;
        share.max(self.args.min_candidate_nodes_absolute as usize).min(n_nodes)
    }
}

/// Where the search starts: spread over the nodes by the names of pods (FNV-1a).
fn offset(pod: &PodInfo, n_nodes: usize) -> usize {
    let name = pod.key.namespace.bytes().chain(pod.key.name.bytes());
    let hash = name.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let n_nodes = u64::try_from(n_nodes.max(1)).expect("a number of nodes fits");
    usize::try_from(hash % n_nodes).expect("less than the number of nodes")
}

/// A node that can be cleared.
struct Candidate {
    node: Str,
    /// The most important first; at least one.
    victims: Vec<PodInfo>,
    /// How many of them break a budget.
    broken_budgets: usize,
}

impl Candidate {
    /// Finds the victims on one node. As in default_preemption.go, SelectVictimsOnNode.
    fn on(row: Row, pod: &PodInfo, what_if: &WhatIf<'_>) -> Result<Self, Rejection> {
        let mut node = what_if.node(row);
        let lower = |other: &&PodInfo| other.priority < pod.priority;
        let mut lower: Vec<PodInfo> = node.pods().filter(lower).cloned().collect();
        if lower.is_empty() {
            return Err(Rejection::unresolvable(NO_VICTIMS));
        }
        for other in &lower {
            node.remove(&other.key);
        }
        if let Verdict::Fail(why) = node.verdict() {
            return Err(why);
        }
        lower.sort_by_cached_key(importance);
        let (breaking, harmless) = by_budget(lower, what_if.view());
        let mut victims = Vec::new();
        let mut broken_budgets = 0;
        let n_breaking = breaking.len();
        for (i, other) in breaking.into_iter().chain(harmless).enumerate() {
            node.add(&other);
            if !node.verdict().passes() {
                node.remove(&other.key);
                broken_budgets += usize::from(i < n_breaking);
                victims.push(other);
            }
        }
        victims.sort_by_cached_key(importance);
        let node = what_if.view().nodes.name_of(row).clone();
        if victims.is_empty() {
            let text = format!("expected at least one victim pod on node {node:?}");
            return Err(Rejection::error(text));
        }
        Ok(Candidate { node, victims, broken_budgets })
    }

    /// The less the better. As in preemption.go, pickOneNodeForPreemption.
    fn harm(&self) -> (usize, i32, i64, usize, Reverse<i64>, Str) {
        let highest = self.victims[0].priority;
        // Every priority counts as positive, so that many victims never weigh less than few.
        let lift = i64::from(i32::MAX) + 1;
        let sum = self.victims.iter().map(|victim| i64::from(victim.priority) + lift).sum();
        let most_important = self.victims.iter().filter(|victim| victim.priority == highest);
        let earliest = most_important.map(started).min().unwrap_or(i64::MAX);
        let node = self.node.clone();
        (self.broken_budgets, highest, sum, self.victims.len(), Reverse(earliest), node)
    }
}

/// The more important pod comes first: of higher priority, or running for longer. As in util/utils.go,
/// MoreImportantPod; names decide where that leaves it open.
fn importance(pod: &PodInfo) -> (Reverse<i32>, i64, PodKey) {
    (Reverse(pod.priority), started(pod), pod.key.clone())
}

/// When a pod started, in nanoseconds; one that has not starts after all others.
fn started(pod: &PodInfo) -> i64 {
    let nanoseconds = pod.started.map(|time| i64::try_from(time.as_nanosecond()));
    nanoseconds.and_then(Result::ok).unwrap_or(i64::MAX)
}

/// Parts `pods` into those whose eviction would break a budget and the others. As in
/// default_preemption.go, filterPodsWithPDBViolation: each pod uses up its budgets for those after it.
fn by_budget(pods: Vec<PodInfo>, view: &View<'_>) -> (Vec<PodInfo>, Vec<PodInfo>) {
    let budgets: Vec<&PodDisruptionBudget> =
        view.stores.budgets.iter().map(AsRef::as_ref).collect();
    let mut left: Vec<i64> =
        budgets.iter().map(|budget| i64::from(budget.disruptions_allowed)).collect();
    let breaks = |pod: &PodInfo| {
        let mut breaks = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            if covers(budget, pod) {
                *left -= 1;
                breaks |= *left < 0;
            }
        }
        breaks
    };
    let mut breaks = breaks;
    pods.into_iter().partition(|pod| breaks(pod))
}

/// Whether evicting `pod` uses up `budget`: not where its eviction is under way already.
fn covers(budget: &PodDisruptionBudget, pod: &PodInfo) -> bool {
    !pod.labels.is_empty()
        && budget.key.namespace == pod.key.namespace
        && !budget.selector.is_everything()
        && budget.selector.matches(&pod.labels)
        && !budget.disrupted_pods.contains(&pod.key.name)
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{Expect, check_among, expect};

    use super::*;
    use crate::node_resources_fit;

    /// What the plugin answers after NodeResourcesFit has rejected the nodes.
    fn check(scenario: &str, expected: &Expect) {
        check_among(&[node_resources_fit::entry()], entry(), scenario, expected);
    }

    #[test]
    fn only_as_many_pods_go_as_have_to_and_the_least_important_first() {
        check(
            r#"
            node n {"allocatable": {"cpu": "3"}}
            pod one on n {"priority": 1, "requests": {"cpu": "1"}}
            pod two on n {"priority": 0, "requests": {"cpu": "2"}}
            pod p {"priority": 5, "requests": {"cpu": "2"}}
            "#,
            &expect![[r#"
                p nominates n without two
            "#]],
        );
    }

    #[test]
    fn pods_of_the_same_or_a_higher_priority_stay() {
        check(
            r#"
            node n {"allocatable": {"cpu": "2"}}
            node m {"allocatable": {"cpu": "2"}}
            pod same on n {"priority": 5, "requests": {"cpu": "2"}}
            pod higher on m {"priority": 6, "requests": {"cpu": "2"}}
            pod p {"priority": 5, "requests": {"cpu": "2"}}
            "#,
            &expect![[r#"
                p is hopeless: preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.
            "#]],
        );
    }

    #[test]
    fn where_even_an_empty_node_is_too_small_nothing_helps() {
        check(
            r#"
            node n {"allocatable": {"cpu": "2"}}
            node m {"allocatable": {"cpu": "4"}}
            pod low on m {"requests": {"cpu": "1"}}
            pod high on m {"priority": 9, "requests": {"cpu": "2"}}
            pod p {"priority": 5, "requests": {"cpu": "3"}}
            "#,
            &expect![[r#"
                p is hopeless: preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 Preemption is not helpful for scheduling.
            "#]],
        );
    }

    #[test]
    fn a_pod_that_must_not_evict_does_not() {
        check(
            r#"
            node n {"allocatable": {"cpu": "2"}}
            pod low on n {"requests": {"cpu": "2"}}
            pod p {"priority": 5, "preemptionPolicy": "Never", "requests": {"cpu": "2"}}
            "#,
            &expect![[r#"
                p is unschedulable: preemption: not eligible due to preemptionPolicy=Never.
            "#]],
        );
    }

    #[test]
    fn a_node_whose_victims_break_no_budget_is_preferred() {
        check(
            r#"
            node a {"allocatable": {"cpu": "2"}}
            node b {"allocatable": {"cpu": "2"}}
            pdb guard app=db {"allowed": 0}
            pod guarded app=db on a {"requests": {"cpu": "2"}}
            pod free on b {"priority": 3, "requests": {"cpu": "2"}}
            pod p {"priority": 5, "requests": {"cpu": "2"}}
            "#,
            &expect![[r#"
                p nominates b without free
            "#]],
        );
    }

    #[test]
    fn among_equal_budgets_the_lowest_priority_goes_and_then_the_fewest_pods() {
        check(
            r#"
            node a {"allocatable": {"cpu": "2"}}
            node b {"allocatable": {"cpu": "2"}}
            node c {"allocatable": {"cpu": "2"}}
            pod a1 on a {"priority": 2, "requests": {"cpu": "2"}}
            pod b1 on b {"priority": 1, "requests": {"cpu": "1"}}
            pod b2 on b {"priority": 1, "requests": {"cpu": "1"}}
            pod c1 on c {"priority": 1, "requests": {"cpu": "2"}}
            pod p {"priority": 5, "requests": {"cpu": "2"}}
            "#,
            &expect![[r#"
                p nominates c without c1
            "#]],
        );
    }

    #[test]
    fn among_equal_victims_the_one_that_started_last_goes() {
        check(
            r#"
            node a {"allocatable": {"cpu": "2"}}
            node b {"allocatable": {"cpu": "2"}}
            pod old on a {"requests": {"cpu": "2"}, "status": {"startTime": "2026-01-01T00:00:00Z"}}
            pod young on b {"requests": {"cpu": "2"}, "status": {"startTime": "2026-02-01T00:00:00Z"}}
            pod p {"priority": 5, "requests": {"cpu": "2"}}
            "#,
            &expect![[r#"
                p nominates b without young
            "#]],
        );
    }

    #[test]
    fn nobody_else_is_evicted_while_victims_are_going() {
        check(
            r#"
            node n {"allocatable": {"cpu": "2"}}
            pod low on n {"requests": {"cpu": "2"}, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"conditions": [{"type": "DisruptionTarget", "status": "True",
                "reason": "PreemptionByScheduler"}]}}
            pod p {"priority": 5, "requests": {"cpu": "2"}, "status": {"nominatedNodeName": "n"}}
            "#,
            &expect![[r#"
                p is unschedulable: preemption: not eligible due to a terminating pod on the nominated node.
            "#]],
        );
    }

    #[test]
    fn enough_nodes_are_a_share_of_them_and_at_least_a_number() {
        let plugin = DefaultPreemption { args: DefaultPreemptionArgs::default() };
        let enough: Vec<_> = [50, 100, 1000, 5000].map(|n| plugin.enough(n)).into();
        assert_eq!(enough, [50, 100, 100, 500]);
    }
}
