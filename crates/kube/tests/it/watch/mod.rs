//! The events that the engine receives from watches.

mod breaks;
mod kinds;
mod lists;
mod objects;

use std::collections::VecDeque;
use std::time::Duration;

use plimsoll_api::{KindRef, Pod};
use plimsoll_engine::{Event, Observation};
use plimsoll_kube::api_resource::ServedVersions;
use plimsoll_kube::watch::{Options, Pace, Unsynced, WatchMetrics, Watches, start};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fake::{Fake, PATIENCE};

/// Short pauses.
fn quick() -> Pace {
    Pace {
        shortest: Duration::from_millis(1),
        longest: Duration::from_millis(20),
        wait_for_kind: Duration::ZERO,
        ..Pace::default()
    }
}

/// Watches, and the receiver of their events.
struct Watcher {
    watches: Watches,
    events: mpsc::Receiver<Vec<Event>>,
    pending: VecDeque<String>,
}

impl Watcher {
    /// Watches the pods of `fake`.
    async fn pods(fake: &Fake) -> Self {
        Watcher::on(fake, &[KindRef::of::<Pod>()], quick()).await
    }

    async fn on(fake: &Fake, kinds: &[KindRef], pace: Pace) -> Self {
        let (sender, events) = mpsc::channel(8);
        let metrics = WatchMetrics::default();
        let kinds = kinds.to_vec();
        let options = Options {
            kinds,
            events: sender,
            originals: None,
            manifests: None,
            pace,
            served: ServedVersions::default(),
            metrics,
        };
        Watcher { watches: start(fake.client().await, options), events, pending: VecDeque::new() }
    }

    /// The next event.
    async fn next(&mut self) -> String {
        while self.pending.is_empty() {
            let batch = timeout(PATIENCE, self.events.recv()).await;
            let batch = batch.expect("an event arrives in time").expect("the watches run");
            self.pending.extend(batch.iter().map(show));
        }
        self.pending.pop_front().expect("an event arrived")
    }

    /// The next `count` events in one line.
    async fn next_events(&mut self, count: usize) -> String {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.next().await);
        }
        all.join(", ")
    }

    /// Waits until all kinds have been listed.
    async fn synced(&mut self) {
        let mut unsynced = self.watches.unsynced();
        let synced = unsynced.wait_for(Unsynced::is_empty);
        timeout(PATIENCE, synced).await.expect("it syncs in time").expect("the watches run");
    }
}

/// An event as text: `a` exists, `-a` was deleted.
fn show(event: &Event) -> String {
    match event {
        Event::Pod(Observation::Is(pod)) => match &pod.node_name {
            Some(node) => format!("{}@{node}", pod.key.name),
            None => pod.key.name.to_string(),
        },
        Event::Pod(Observation::Gone(key)) => format!("-{}", key.name),
        Event::Node(node) => match &**node {
            Observation::Is(node) => format!("node {}", node.name),
            Observation::Gone(name) => format!("-node {name}"),
        },
        Event::Object(Observation::Is(budget)) => format!("budget {}", budget.key().name),
        Event::Object(Observation::Gone((_, key))) => format!("-budget {}", key.name),
        other => format!("{other:?}"),
    }
}
