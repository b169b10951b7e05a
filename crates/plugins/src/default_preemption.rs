//! DefaultPreemption: makes room for a pod by evicting pods of lower priority.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Display;

use plimsoll_api::PodDisruptionBudget;
use plimsoll_framework::prelude::*;
use serde::{Deserialize, Serialize};

use self::search::Search;
use self::units::{Elsewhere, Unit};

mod group;
mod search;
#[cfg(test)]
mod tests;
mod units;

const NEVER: &str = "preemption: not eligible due to preemptionPolicy=Never.";
const TERMINATING: &str =
    "preemption: not eligible due to a terminating pod on the nominated node.";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NO_CANDIDATE: &str = "preemption: no candidate node for preemption";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// The index of the number of victims in [`cost`].
const N_VICTIMS: usize = 3;

/// Finds the node on which evicting pods of lower priority makes room for the pod with the least harm,
/// and names the victims.
///
/// On each node that rejected the pod and where evictions could help, a dry run removes all pods of
/// lower priority. If the pod then fits, as many as possible are put back: first those whose eviction
/// would break a PodDisruptionBudget, then the others, the most important first. Of these nodes, the
/// one with the fewest broken budgets is chosen; then the one with the lowest priority of its most
/// important victim; then with the lowest sum of priorities; then with the fewest victims; then the one
/// whose most important victims started last.
///
/// Example: a node is full with a pod of priority 1 that requests 1 CPU and one of priority 0 that
/// requests 2. A pod of priority 5 that requests 2 CPUs evicts only the second.
///
/// Since 1.37, with the feature gate `GenericWorkload`, a pod of a group counts with the priority of the group, and a group with
/// the mode `all` is evicted as a whole, also where some of its pods are on other nodes.
///
/// A pod whose eviction failed is not chosen again for a while, since its eviction would fail again.
///
/// Differences from kube-scheduler: kube-scheduler retries such an eviction immediately, again and
/// again. If there are more nodes than the args require, the search here starts at a node that depends
/// on the name of the pod instead of a random one. Among nodes that are otherwise equal, the smallest
/// name is chosen instead of any.
#[derive(Debug)]
pub struct DefaultPreemption {
    args: DefaultPreemptionArgs,
    success: Success,
    groups: GroupGates,
}

/// Whether a successful preemption adds a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Success {
    /// It adds no message: up to 1.36.
    Silent,
    /// The message has the node and the number of victims.
    Told,
}

impl Success {
    fn of(release: Release) -> Self {
        match release {
            Release::V1_36 => Success::Silent,
            Release::V1_37 => Success::Told,
        }
    }

    /// As in default_preemption.go, PostFilter. Victims that are already terminating are counted, too.
    fn says(self, node: &str, n_victims: impl Display) -> Reason {
        match self {
            Success::Silent => "".into(),
            Success::Told => format!(
                "preemption: found a potential placement for pod on node {node}, preempting \
                 {n_victims} victims"
            )
            .into(),
        }
    }
}

/// How many nodes are tried before a choice is made: at least as many as both say, if there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object")]
pub struct DefaultPreemptionArgs {
    #[serde(skip_serializing)]
    api_version: String,
    #[serde(skip_serializing)]
    kind: String,
    /// Percent of the nodes on which evictions could help; 0 to 100.
    pub min_candidate_nodes_percentage: i32,
    /// A number of nodes.
    pub min_candidate_nodes_absolute: i32,
}

impl Default for DefaultPreemptionArgs {
    /// 10 percent, and 100 nodes.
    fn default() -> Self {
        DefaultPreemptionArgs {
            api_version: String::new(),
            kind: String::new(),
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<DefaultPreemption>()
        .post_filter_by_node()
        .group_post_filter()
        .reads_if::<Objects<PodGroup>>(|plugin| plugin.groups.generic_workload)
        .reads_if::<Objects<CompositePodGroup>>(|plugin| plugin.groups.composite)
        .at(Point::PreEnqueue)
        .shows_args()
        .done()
}

impl Plugin for DefaultPreemption {
    const NAME: &'static str = "DefaultPreemption";
    type Args = DefaultPreemptionArgs;

    fn new(args: DefaultPreemptionArgs, gates: &FeatureGates) -> Self {
        DefaultPreemption {
            args,
            success: Success::of(gates.release()),
            groups: GroupGates::of(gates),
        }
    }

    /// As in validation_pluginargs.go, ValidateDefaultPreemptionArgs.
    fn validate(args: &DefaultPreemptionArgs, _: &FeatureGates, faults: &mut ArgsFaults) {
        let (percentage, absolute) =
            (args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute);
        let args = ArgsField::default();
        let (percentage_field, absolute_field) =
            (args.key("minCandidateNodesPercentage"), args.key("minCandidateNodesAbsolute"));
        if !(0..=100).contains(&percentage) {
            faults.invalid(percentage_field.clone(), percentage, "not in valid range [0, 100]");
        }
        if absolute < 0 {
            faults.invalid(absolute_field.clone(), absolute, "not in valid range [0, inf)");
        }
        if percentage == 0 && absolute == 0 {
            let rule = "cannot be zero at the same time as minCandidateNodesAbsolute";
            faults.invalid(percentage_field, percentage, rule);
            let rule = "cannot be zero at the same time as minCandidateNodesPercentage";
            faults.invalid(absolute_field, absolute, rule);
        }
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> PostFilterAnswer {
        match self.search(pod, rejected, dry_run) {
            Ok((_, answer)) | Err(answer) => answer,
        }
    }

    fn candidate_nodes(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> Result<Vec<CandidateNode>, PostFilterAnswer> {
        let (search, _) = self.search(pod, rejected, dry_run)?;
        Ok(search.into_candidate_nodes())
    }

    fn choose_candidate_node(
        &self,
        _: &PodInfo,
        left: Result<&[CandidateNode], &str>,
    ) -> PostFilterAnswer {
        let cost_of = |one: &CandidateNode| {
            let mut victims = one.victims.clone();
            // Extenders return them in any order.
            victims.sort_by_cached_key(importance);
            (cost(one.broken_budgets, &victims), one.node.clone())
        };
        match left.map(|left| left.iter().min_by_key(|one| cost_of(one))) {
            Ok(Some(best)) => PostFilterAnswer::Nominated(Nomination {
                says: self.success.says(&best.node, best.victims.len()),
                ..best.nomination()
            }),
            Ok(None) => PostFilterAnswer::Unschedulable(NO_CANDIDATE.into()),
            Err(error) => PostFilterAnswer::Error(format!("preemption: {error}").into()),
        }
    }
}

impl PostFilterByNode for DefaultPreemption {
    type Cluster =
        ((DisruptionBudgets, Objects<PodGroup>, Objects<CompositePodGroup>), RefusedEvictions);

    fn looks_at_one_node(&self, view: &View<'_>) -> bool {
        !self.by_units() || !units::any_is_evicted_as_a_whole(view.stores, self.groups)
    }

    /// The answer if the pod may not evict others. As in default_preemption.go, PodEligibleToPreemptOthers.
    fn without_dry_run(
        &self,
        pod: &PodInfo,
        nominated: Option<(Row, Code)>,
        view: &View<'_>,
    ) -> Option<PostFilterAnswer> {
        if let Some(why) = self.refuses_member(pod, view) {
            return Some(PostFilterAnswer::Unschedulable(why));
        }
        if pod.preemption_policy == PreemptionPolicy::Never {
            return Some(PostFilterAnswer::Unschedulable(NEVER.into()));
        }
        let (row, code) = nominated?;
        // If the nominated node now rejects the pod unresolvably, the evictions were in vain, and
        // another node may be searched for.
        if code == Code::UnschedulableAndUnresolvable {
            return None;
        }
        let clearing = |other: &PodInfo| {
            self.priority_of(other, view.stores) < pod.priority
                && other.is_terminating()
                && other.preempted
        };
        let is_being_cleared = view.nodes.pods_on(row).iter().any(clearing);
        is_being_cleared.then(|| PostFilterAnswer::Unschedulable(TERMINATING.into()))
    }

    fn early_rejection(&self, pod: &PodInfo, on_node: &PodSet) -> Option<Rejection> {
        // Pods of groups count with the priorities of these.
        let has_groups =
            self.by_units() && on_node.iter().any(|other| other.scheduling_group.is_some());
        if has_groups { None } else { nobody_lower(pod, on_node) }
    }

    fn select_victims(
        &self,
        pod: &PodInfo,
        node: &mut NodeDryRun<'_>,
        stores: &Stores,
    ) -> Result<PreemptionCandidate, Rejection> {
        let Victims { pods, broken_budgets } =
            self.victims(pod, node, (stores, &Elsewhere::default()))?;
        let cost = cost(broken_budgets, &pods);
        Ok(PreemptionCandidate { cost, victims: staying(&pods).collect() })
    }

    /// Tries nodes in turn until there are enough candidates, at least one of which breaks no budget,
    /// and takes the one with the least harm. As in preemption.go, DryRunPreemption.
    fn choose(
        &self,
        pod: &PodInfo,
        nodes: &mut dyn PreemptionCandidates,
    ) -> Option<PostFilterAnswer> {
        let n_places = nodes.n_places();
        let enough = self.enough(n_places).max(1);
        let offset = offset(pod, n_places);
        let is_over = |found: &FoundPlaces| {
            enough <= found.n_found && found.best.is_some_and(|(_, cost)| cost.0[0] == 0)
        };
        let mut found = FoundPlaces::default();
        for places in [offset..n_places, 0..offset] {
            found.end = places.start;
            while found.end < places.end && !is_over(&found) {
                // Once there are enough, each may be the last one.
                let most = enough.saturating_sub(found.n_found).max(1);
                let more = nodes.find(found.end..places.end, most);
                found.add(&more, |place, other| nodes.precedes(place, other));
            }
        }
        if let Some((place, cost)) = found.best {
            let (node, victims) = (nodes.node(place).clone(), nodes.victims(place));
            let says = self.success.says(&node, cost.0[N_VICTIMS]);
            let broken_budgets = cost.0[0];
            let nomination = Nomination { node, victims, broken_budgets, says };
            return Some(PostFilterAnswer::Nominated(nomination));
        }
        let rejections = nodes.rejections();
        if rejections.iter().any(|(why, _)| why.code == Code::Error) {
            return None;
        }
        Some(PostFilterAnswer::Hopeless(no_candidate(nodes.n_nodes(), &rejections).into()))
    }
}

/// The victims on one node.
struct Victims {
    /// The most important first; at least one.
    pods: Vec<PodInfo>,
    /// How many of the evictions would break a budget.
    broken_budgets: i64,
}

/// The rejection if no pod on a node may be a victim.
fn nobody_lower(pod: &PodInfo, on_node: &PodSet) -> Option<Rejection> {
    let mut lower = on_node.iter().filter(|other| other.priority < pod.priority);
    lower.next().is_none().then(|| Rejection::unresolvable(NO_VICTIMS))
}

/// The victims to evict: those that are not terminating yet.
fn staying(victims: &[PodInfo]) -> impl Iterator<Item = PodKey> {
    victims.iter().filter(|victim| !victim.is_terminating()).map(|victim| victim.key.clone())
}

/// The message if there is no candidate, in the form of a FitError.
fn no_candidate(n_nodes: usize, rejections: &[(&Rejection, usize)]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut n_tried = 0;
    for (why, n) in rejections {
        n_tried += n;
        for reason in &why.reasons {
            *counts.entry(reason.to_string()).or_default() += n;
        }
    }
    if n_tried < n_nodes {
        *counts.entry(NOT_HELPFUL.to_owned()).or_default() += n_nodes - n_tried;
    }
    let mut parts: Vec<String> =
        counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort_unstable();
    format!("preemption: 0/{n_nodes} nodes are available: {}.", parts.join(", "))
}

impl DefaultPreemption {
    /// Whether pods of groups are victims by the rules of their groups.
    fn by_units(&self) -> bool {
        self.groups.generic_workload && GroupRules::V1_37 <= self.groups.rules
    }

    /// The priority by which a pod may be a victim.
    fn priority_of(&self, pod: &PodInfo, stores: &Stores) -> i32 {
        match self.by_units() && pod.scheduling_group.is_some() {
            false => pod.priority,
            true => GroupForest::of(stores, self.groups).priority_of(pod),
        }
    }

    /// Finds the victims on one node. As in default_preemption.go, SelectVictimsOnNode.
    fn victims(
        &self,
        pod: &PodInfo,
        node: &mut NodeDryRun<'_>,
        (stores, elsewhere): (&Stores, &Elsewhere<'_>),
    ) -> Result<Victims, Rejection> {
        let mut lower = self.units_on(node, stores, elsewhere);
        lower.retain(|unit| {
            unit.priority < pod.priority
                && unit.pods.iter().all(|pod| !stores.refused.contains(&pod.key))
        });
        if lower.is_empty() {
            return Err(Rejection::unresolvable(NO_VICTIMS));
        }
        for unit in &lower {
            elsewhere.remove(unit, node);
        }
        if let Verdict::Fail(why) = node.verdict() {
            return Err(why);
        }
        lower.sort_by_cached_key(Unit::importance);
        let (breaking, harmless) = units::by_budget(lower, stores.of());
        let harmless = harmless.into_iter().map(|unit| (unit, 0));
        let (mut victims, mut broken_budgets) = (Vec::new(), 0);
        for (unit, breaks) in breaking.into_iter().chain(harmless) {
            elsewhere.put_back(&unit, node);
            if !node.verdict().passes() {
                elsewhere.remove(&unit, node);
                broken_budgets += breaks;
                victims.push(unit);
            }
        }
        victims.sort_by_cached_key(Unit::importance);
        if victims.is_empty() {
            let text = format!("expected at least one victim pod on node {:?}", node.name());
            return Err(Rejection::error(text));
        }
        let pods = victims.into_iter().flat_map(|unit| unit.pods).collect();
        Ok(Victims { pods, broken_budgets })
    }

    /// Searches the nodes where evictions could help. Returns the search and its choice, or else the
    /// answer.
    fn search<'a>(
        &'a self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &'a DryRun<'a>,
    ) -> Result<(Search<'a>, PostFilterAnswer), PostFilterAnswer> {
        let nodes = dry_run.view().nodes;
        let nominated = pod.nominated_node.as_ref().and_then(|nominated| {
            rejected.iter().find(|node| nodes.name_of(node.row) == nominated)
        });
        let nominated = nominated.map(|node| (node.row, node.rejection.code));
        if let Some(answer) = self.without_dry_run(pod, nominated, dry_run.view()) {
            return Err(answer);
        }
        let mut search = Search::new(self, rejected, dry_run);
        match self.choose(pod, &mut search) {
            Some(found @ PostFilterAnswer::Nominated(_)) => Ok((search, found)),
            Some(answer) => Err(answer),
            None => {
                let error = search.last_error.as_ref().expect("only an error leaves it open");
                Err(PostFilterAnswer::Error(format!("preemption: {error}").into()))
            }
        }
    }

    /// How many candidates are enough. As in default_preemption.go, calculateNumCandidates.
    fn enough(&self, n_nodes: usize) -> usize {
        let [percentage, absolute] =
            [self.args.min_candidate_nodes_percentage, self.args.min_candidate_nodes_absolute]
                .map(|least| usize::try_from(least).expect("valid args are not negative"));
        (n_nodes * percentage / 100).max(absolute).min(n_nodes)
    }
}

/// Where the search starts: the names of pods spread it over the nodes (FNV-1a).
fn offset(pod: &PodInfo, n_nodes: usize) -> usize {
    let name = pod.key.namespace.bytes().chain(pod.key.name.bytes());
    let hash = name.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let n_nodes = u64::try_from(n_nodes.max(1)).expect("a number of nodes fits");
    usize::try_from(hash % n_nodes).expect("less than the number of nodes")
}

/// Less is better, and the name of the node breaks ties. As in preemption.go, pickOneNodeForPreemption.
/// The first number is that of broken budgets; `victims` are in the order of their importance.
fn cost(broken_budgets: i64, victims: &[PodInfo]) -> PreemptionCost {
    let highest = victims.first().map_or(i32::MIN, |victim| victim.priority);
    // Priorities are shifted to be positive, so that more victims never count less than fewer.
    let lift = i64::from(i32::MAX) + 1;
    let sum = victims.iter().map(|victim| i64::from(victim.priority) + lift).sum();
    let most_important = victims.iter().filter(|victim| victim.priority == highest);
    let earliest = most_important.map(started).min().unwrap_or(i64::MAX);
    let n_victims = i64::try_from(victims.len()).expect("a node has few pods");
    // Later is better: `!` reverses the order and cannot overflow.
    PreemptionCost([broken_budgets, i64::from(highest), sum, n_victims, !earliest])
}

/// The more important pod comes first: the one with higher priority, or the one that has been running
/// for longer. As in util/utils.go, MoreImportantPod; names break ties.
fn importance(pod: &PodInfo) -> (Reverse<i32>, i64, PodKey) {
    (Reverse(pod.priority), started(pod), pod.key.clone())
}

/// When a pod started, in nanoseconds; one that has not started sorts after all others.
fn started(pod: &PodInfo) -> i64 {
    let nanoseconds = pod.started.map(|time| i64::try_from(time.as_nanosecond()));
    nanoseconds.and_then(Result::ok).unwrap_or(i64::MAX)
}

/// How many more evictions each budget allows.
struct BudgetsLeft<'a>(Vec<(&'a PodDisruptionBudget, i64)>);

impl<'a> BudgetsLeft<'a> {
    fn of(budgets: &'a PdbStore) -> Self {
        let all = budgets.iter().map(AsRef::as_ref);
        let left = |budget: &PodDisruptionBudget| i64::from(budget.disruptions_allowed);
        BudgetsLeft(all.map(|budget| (budget, left(budget))).collect())
    }

    /// Uses up the budgets of a pod, and returns whether its eviction would break one.
    fn breaks(&mut self, pod: &PodInfo) -> bool {
        let mut breaks = false;
        for (budget, left) in &mut self.0 {
            if covers(budget, pod) {
                *left -= 1;
                breaks |= *left < 0;
            }
        }
        breaks
    }
}

/// Whether evicting `pod` uses up `budget`: not if its eviction is already in progress.
fn covers(budget: &PodDisruptionBudget, pod: &PodInfo) -> bool {
    !pod.labels.is_empty()
        && budget.key.namespace == pod.key.namespace
        && !budget.selector.is_everything()
        && budget.selector.matches(&pod.labels)
        && !budget.disrupted_pods.contains(&pod.key.name)
}
