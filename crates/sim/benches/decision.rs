//! Measures one decision among 1,000 nodes with one pod each.
//!
//! Each decided pod is removed before the next one is added, so that every decision is about the same
//! cluster.

mod cluster;

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use plimsoll_api::{Pod, PodKey};
use plimsoll_engine::{Event, Scheduler};
use plimsoll_framework::Time;

use crate::cluster::{kinds, pod, scheduler};

const NODES: u32 = 1_000;

/// The time of `n` decisions.
fn decide(scheduler: &mut Scheduler, pod: &Pod, n: u64) -> Duration {
    let mut took = Duration::ZERO;
    let mut effects = Vec::new();
    for number in 0..n {
        let key = PodKey::new("default", format!("pod-{number}"));
        let pod = Pod { uid: key.name.clone(), key: key.clone(), ..pod.clone() };
        scheduler.observe(Time::ZERO, Event::pod(pod));
        let begun = Instant::now();
        scheduler.step(Time::ZERO, &mut effects);
        took += begun.elapsed();
        assert!(effects.drain(..).any(|effect| effect.pod.key == key), "it was decided");
        scheduler.observe(Time::ZERO, Event::pod_gone(key));
    }
    took
}

fn decisions(c: &mut Criterion) {
    let mut group = c.benchmark_group("decision among 1,000 nodes");
    for (name, kind) in kinds() {
        let mut scheduler = scheduler(&kind, "4", NODES, 1);
        let pod = pod("pod", &kind);
        group.bench_function(name, |b| b.iter_custom(|n| decide(&mut scheduler, &pod, n)));
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
