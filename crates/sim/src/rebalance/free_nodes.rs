//! Frees whole nodes: those first that take the fewest moves.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use plimsoll_api::Str;
use plimsoll_engine::Transaction;
use plimsoll_framework::{PodInfo, Row};

use super::{Planner, PodMove, RebalanceStep, cordoned, guests, is_cordoned};

/// At most so many nodes are tried.
const MOST_TRIED: usize = 200;

/// A node that could be freed.
struct Candidate {
    row: Row,
    name: Str,
    pods: Vec<PodInfo>,
}

pub(super) fn run(transaction: &mut Transaction<'_>, planner: &mut Planner) {
    let mut candidates = candidates(transaction, planner);
    candidates.sort_by_cached_key(|one| {
        let requested: i64 = one.pods.iter().map(|pod| pod.requests.get("cpu")).sum();
        (one.pods.len(), requested, one.name.clone())
    });
    // A node without guests stays so: otherwise one is freed and another one filled.
    let mut occupied: BTreeSet<Str> = occupied(transaction);
    for Candidate { row, name, .. } in candidates.into_iter().take(MOST_TRIED) {
        // Others may have come here meanwhile.
        let pods = guests(transaction.view(), row);
        if planner.left < pods.len() || !pods.iter().all(|pod| planner.is_movable(pod)) {
            continue;
        }
        occupied.remove(&name);
        if !free(transaction, planner, (row, &name), pods, &occupied) {
            occupied.insert(name);
        }
    }
}

fn candidates(transaction: &Transaction<'_>, planner: &Planner) -> Vec<Candidate> {
    let view = transaction.view();
    let all = view.nodes.rows().map(|row| Candidate {
        row,
        name: view.nodes.name_of(row).clone(),
        pods: guests(view, row),
    });
    let could_go = |one: &Candidate| {
        !one.pods.is_empty()
            && one.pods.len() <= planner.left
            && one.pods.iter().all(|pod| planner.is_movable(pod))
    };
    all.filter(could_go).collect()
}

/// The nodes with guests.
fn occupied(transaction: &Transaction<'_>) -> BTreeSet<Str> {
    let view = transaction.view();
    let rows = view.nodes.rows().filter(|row| !guests(view, *row).is_empty());
    rows.map(|row| view.nodes.name_of(row).clone()).collect()
}

/// Cordons a node and moves its pods, the most important and largest first. All or nothing.
fn free(
    transaction: &mut Transaction<'_>,
    planner: &mut Planner,
    (row, name): (Row, &Str),
    mut pods: Vec<PodInfo>,
    occupied: &BTreeSet<Str>,
) -> bool {
    pods.sort_by_cached_key(|pod| {
        (Reverse(pod.priority), Reverse(pod.requests.get("cpu")), pod.key.clone())
    });
    let mut budgets = planner.budgets.clone();
    if !pods.iter().all(|pod| budgets.take(pod)) {
        return false;
    }
    let (mut steps, mut moves) = (Vec::new(), Vec::new());
    let is_free = transaction.transaction(|inner| {
        let node = inner.view().nodes.node(row).clone();
        if !is_cordoned(&node) {
            inner.set_node(cordoned(&node));
            steps.push(RebalanceStep::Cordon { cordon: name.clone() });
        }
        for pod in &pods {
            let Some(to) = planner.try_move(inner, pod) else { return false };
            if !occupied.contains(&to) {
                return false;
            }
            let why = format!("to free {name}");
            moves.push(PodMove { pod: pod.key.clone(), from: name.clone(), to, why });
        }
        inner.commit();
        true
    });
    if is_free {
        planner.budgets = budgets;
        planner.plan.steps.extend(steps);
        for one in moves {
            planner.keep(one);
        }
        planner.plan.freed.push(name.clone());
    }
    is_free
}
