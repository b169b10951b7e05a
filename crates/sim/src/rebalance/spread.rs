//! Mends how pods are spread: over the domains of their topology spread constraints, and without these over zones and nodes,
//! as SelectorSpread and the default constraints want it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{NodeSelection, ObjectKey, PodKey, Str};
use plimsoll_engine::Transaction;
use plimsoll_framework::{PodInfo, View};
use serde::Serialize;

use super::{Planner, PodMove, is_cordoned};
use crate::recreation::Fate;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Without constraints, the numbers of pods in two domains should differ by no more than this.
const EVEN: i64 = 1;
/// So many pods of a crowded domain are tried.
const MOST_TRIED: usize = 8;

/// How evenly the pods of a controller are spread over the domains of a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkewChange {
    /// The controller, as `namespace/name`.
    pub of: String,
    /// The label of nodes.
    pub key: Str,
    /// The skew that its constraint allows; 1 without a constraint.
    pub max_skew: i64,
    /// The difference between the most and the fewest pods in a domain now.
    pub before: i64,
    /// The same after the moves.
    pub after: i64,
}

/// Pods that should be spread over the domains of a label.
struct SpreadSet {
    of: ObjectKey,
    key: Str,
    max_skew: i64,
    /// The pods that count.
    counted: BTreeSet<PodKey>,
    /// Those of them that the controller makes.
    own: BTreeSet<PodKey>,
    /// How many of them are in each domain.
    counts: BTreeMap<Str, i64>,
    before: i64,
    is_stuck: bool,
}

impl SpreadSet {
    fn skew(&self) -> i64 {
        let most = self.counts.values().max().copied().unwrap_or(0);
        most - self.counts.values().min().copied().unwrap_or(0)
    }

    /// The skew after a move between two domains, of which one may not count.
    fn skew_after(&self, from: Option<&Str>, to: Option<&Str>) -> i64 {
        let after = self.counts.iter().map(|(domain, count)| {
            count - i64::from(Some(domain) == from) + i64::from(Some(domain) == to)
        });
        let (most, least) =
            after.fold((0, i64::MAX), |(most, least), n| (most.max(n), least.min(n)));
        if least == i64::MAX { 0 } else { most - least }
    }

    fn excess(&self) -> i64 {
        self.skew() - self.max_skew
    }
}

pub(super) fn run(transaction: &mut Transaction<'_>, planner: &mut Planner) {
    let mut sets = sets(transaction.view(), planner);
    while 0 < planner.left {
        let worst = sets.iter().enumerate().filter(|(_, set)| !set.is_stuck && 0 < set.excess());
        let worst =
            worst.max_by(|(a, one), (b, other)| (one.excess(), b).cmp(&(other.excess(), a)));
        let Some((at, _)) = worst else { break };
        if !mend(transaction, planner, &mut sets, at) {
            sets[at].is_stuck = true;
        }
    }
    let uneven = sets.iter().filter(|set| set.max_skew < set.before);
    let told = uneven.map(|set| SkewChange {
        of: set.of.to_string(),
        key: set.key.clone(),
        max_skew: set.max_skew,
        before: set.before,
        after: set.skew(),
    });
    planner.plan.spread.extend(told);
}

/// Moves one pod out of a crowded domain. `false` if none goes where it should.
fn mend(
    transaction: &mut Transaction<'_>,
    planner: &mut Planner,
    sets: &mut [SpreadSet],
    at: usize,
) -> bool {
    for pod in crowded(transaction.view(), planner, &sets[at]) {
        let mut budgets = planner.budgets.clone();
        let Some(from) = pod.node().cloned().filter(|_| budgets.take(&pod)) else { continue };
        let kept = transaction.transaction(|inner| {
            let to = planner.try_move(inner, &pod)?;
            let moves = domains_of(inner.view(), planner, sets, (&pod, &from, &to));
            is_better(sets, at, &moves).then(|| {
                inner.commit();
                (to, moves)
            })
        });
        let Some((to, moves)) = kept else { continue };
        for (set, (from, to)) in sets.iter_mut().zip(&moves) {
            add(&mut set.counts, from.as_ref(), -1);
            add(&mut set.counts, to.as_ref(), 1);
        }
        planner.budgets = budgets;
        let set = &sets[at];
        let why = format!("to spread {} over {}", set.of, set.key);
        planner.keep(PodMove { pod: pod.key.clone(), from, to, why });
        return true;
    }
    false
}

/// The domains that a pod leaves and enters, for each set in which it counts.
fn domains_of(
    view: View<'_>,
    planner: &Planner,
    sets: &[SpreadSet],
    (pod, from, to): (&PodInfo, &Str, &Str),
) -> Vec<(Option<Str>, Option<Str>)> {
    let of_set = |set: &SpreadSet| match set.counted.contains(&pod.key) {
        true => (domain_of(view, planner, from, &set.key), domain_of(view, planner, to, &set.key)),
        false => (None, None),
    };
    sets.iter().map(of_set).collect()
}

/// Whether moves make one set more even, and no other one less so beyond what it allows.
fn is_better(sets: &[SpreadSet], at: usize, moves: &[(Option<Str>, Option<Str>)]) -> bool {
    let count = |domain: &Option<Str>| domain.as_ref().and_then(|one| sets[at].counts.get(one));
    let (from, to) = &moves[at];
    let evens_out = match (count(from), count(to)) {
        (Some(from), Some(to)) => to + 1 < *from,
        _ => false,
    };
    evens_out
        && sets.iter().zip(moves).all(|(set, (from, to))| {
            set.skew_after(from.as_ref(), to.as_ref()) <= set.skew().max(set.max_skew)
        })
}

/// Adds to a domain, if it counts.
fn add(counts: &mut BTreeMap<Str, i64>, domain: Option<&Str>, n: i64) {
    if let Some(count) = domain.and_then(|domain| counts.get_mut(domain)) {
        *count += n;
    }
}

/// The pods that could leave the domain with the most pods, those of the fullest nodes first.
fn crowded(view: View<'_>, planner: &Planner, set: &SpreadSet) -> Vec<PodInfo> {
    let most = set.counts.values().max().copied().unwrap_or(0);
    let is_full = |domain: &Str| set.counts.get(domain) == Some(&most);
    let mut found: Vec<(usize, PodInfo)> = Vec::new();
    for (node, row) in &planner.rows {
        if !domain_of(view, planner, node, &set.key).is_some_and(|domain| is_full(&domain)) {
            continue;
        }
        let pods = view.nodes.pods_on(*row).iter();
        let own: Vec<&PodInfo> = pods.filter(|pod| set.own.contains(&pod.key)).collect();
        let n = own.len();
        found.extend(
            own.into_iter().filter(|pod| planner.is_movable(pod)).map(|pod| (n, pod.clone())),
        );
    }
    found.sort_by_cached_key(|(n, pod)| (Reverse(*n), pod.key.clone()));
    found.into_iter().map(|(_, pod)| pod).take(MOST_TRIED).collect()
}

/// The value of a label of a node.
fn domain_of(view: View<'_>, planner: &Planner, node: &Str, key: &str) -> Option<Str> {
    let node = view.nodes.node(*planner.rows.get(node)?);
    node.labels.get(key).cloned()
}

/// Pods that count together, and what is wanted of them.
struct Wanted<'a> {
    key: Str,
    max_skew: i64,
    pods: Vec<&'a PodInfo>,
    honors_affinity: bool,
}

/// What should be spread, by the names of the controllers.
fn sets(view: View<'_>, planner: &Planner) -> Vec<SpreadSet> {
    let mut by_controller: BTreeMap<(ObjectKey, Str), Vec<&PodInfo>> = BTreeMap::new();
    let mut by_namespace: BTreeMap<&Str, Vec<&PodInfo>> = BTreeMap::new();
    for row in planner.rows.values() {
        for pod in view.nodes.pods_on(*row).iter().filter(|pod| !pod.is_terminating()) {
            by_namespace.entry(&pod.key.namespace).or_default().push(pod);
            let controller = pod.controller.as_ref();
            if let Some(controller) = controller.filter(|_| Fate::of(pod) == Fate::Recreated) {
                let key = ObjectKey::new(pod.key.namespace.clone(), controller.name.clone());
                by_controller.entry((key, controller.kind.clone())).or_default().push(pod);
            }
        }
    }
    let mut sets = Vec::new();
    for ((of, _), pods) in by_controller {
        let Some(first) = pods.first().filter(|_| 1 < pods.len()) else { continue };
        let own: BTreeSet<PodKey> = pods.iter().map(|pod| pod.key.clone()).collect();
        let in_namespace = by_namespace.get(&of.namespace).map_or(&[][..], Vec::as_slice);
        for wanted in wanted(first, &pods, in_namespace) {
            let selection = wanted.honors_affinity.then_some(&first.node_selection);
            let counts = counts(view, planner, (&wanted, selection));
            let mut set = SpreadSet {
                of: of.clone(),
                key: wanted.key,
                max_skew: wanted.max_skew,
                counted: wanted.pods.iter().map(|pod| pod.key.clone()).collect(),
                own: own.clone(),
                counts,
                before: 0,
                is_stuck: false,
            };
            set.before = set.skew();
            sets.push(set);
        }
    }
    sets
}

/// What is wanted of the pods of a controller, of which `first` is one.
fn wanted<'a>(
    first: &PodInfo,
    pods: &[&'a PodInfo],
    in_namespace: &[&'a PodInfo],
) -> Vec<Wanted<'a>> {
    if first.spread.is_empty() {
        let keys = [ZONE, HOSTNAME].map(Str::from).into_iter();
        let over = |key| Wanted { key, max_skew: EVEN, pods: pods.to_vec(), honors_affinity: true };
        return keys.map(over).collect();
    }
    let constraints = first.spread.iter().map(|one| Wanted {
        key: one.topology_key.clone(),
        max_skew: i64::from(one.max_skew),
        pods: in_namespace
            .iter()
            .filter(|pod| one.selector.matches(&pod.labels))
            .copied()
            .collect(),
        honors_affinity: one.honor_node_affinity,
    });
    constraints.collect()
}

/// How many of the pods are in each domain, among the nodes that take new pods and that the pods may go to.
fn counts(
    view: View<'_>,
    planner: &Planner,
    (wanted, selection): (&Wanted<'_>, Option<&NodeSelection>),
) -> BTreeMap<Str, i64> {
    let (mut counts, mut of_node) = (BTreeMap::new(), BTreeMap::new());
    for (name, row) in &planner.rows {
        let node = view.nodes.node(*row);
        let is_eligible =
            !is_cordoned(node) && selection.is_none_or(|one| one.matches(&node.name, &node.labels));
        if let Some(domain) = node.labels.get(&wanted.key).filter(|_| is_eligible) {
            counts.entry(domain.clone()).or_insert(0);
            of_node.insert(name, domain);
        }
    }
    for pod in &wanted.pods {
        let domain = pod.node().and_then(|node| of_node.get(node));
        add(&mut counts, domain.copied(), 1);
    }
    counts
}
