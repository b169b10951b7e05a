//! Measures a transaction that drains one of 5,000 nodes and asks where its 30 pods go, and is rolled back.

mod cluster;

use criterion::{Criterion, criterion_group, criterion_main};
use plimsoll_api::{Node, Pod};
use plimsoll_engine::{Detail, Outcome, Scheduler, Transaction};
use plimsoll_framework::Time;

use crate::cluster::{kinds, scheduler};

const NODES: u32 = 5_000;
const PER_NODE: u32 = 30;

/// Cordons the node in the first row, and places its pods elsewhere. Returns how many have found a node.
fn drain(all: &mut Transaction<'_>) -> usize {
    let nodes = all.view().nodes;
    let row = nodes.rows().next().expect("there are nodes");
    let node = Node { unschedulable: true, ..Node::clone(nodes.node(row)) };
    let pods: Vec<Pod> = nodes.pods_on(row).iter().map(|pod| Pod::clone(pod)).collect();
    all.set_node(node);
    let mut n_placed = 0;
    for pod in pods {
        all.evict(&pod.key).expect("it is on the node");
        let pod = Pod { node_name: None, ..pod };
        let decision =
            all.decide_in_detail(pod.clone(), Detail::None).expect("its profile is known");
        if let Outcome::Scheduled { node, .. } = decision.outcome {
            all.place(pod, &node).expect("the node is known");
            n_placed += 1;
        }
    }
    n_placed
}

fn try_to_drain(scheduler: &mut Scheduler) {
    let n_placed = scheduler.transaction(Time::ZERO, drain);
    assert_eq!(n_placed, PER_NODE as usize, "there is room for all pods");
}

fn transactions(c: &mut Criterion) {
    let mut group = c.benchmark_group("drain one of 5,000 nodes with 30 pods, rolled back");
    for (name, kind) in kinds() {
        let mut scheduler = scheduler(&kind, "4", NODES, PER_NODE);
        group.bench_function(name, |b| b.iter(|| try_to_drain(&mut scheduler)));
    }
    group.finish();
}

criterion_group!(benches, transactions);
criterion_main!(benches);
