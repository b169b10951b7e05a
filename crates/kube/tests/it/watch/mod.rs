//! What the engine hears of what a server says.

mod breaks;
mod kinds;
mod lists;
mod objects;

use std::collections::VecDeque;
use std::time::Duration;

use plimsoll_api::{KindRef, Pod};
use plimsoll_engine::{Event, Observation};
use plimsoll_kube::place::Served;
use plimsoll_kube::watch::{Options, Pace, Waiting, WatchMetrics, Watches, start};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fake::{Fake, PATIENCE};

/// Waits that do not hold tests up.
fn quick() -> Pace {
    Pace {
        shortest: Duration::from_millis(1),
        longest: Duration::from_millis(20),
        wait_for_kind: Duration::ZERO,
        ..Pace::default()
    }
}

/// The engine's end of watches.
struct Ear {
    watches: Watches,
    events: mpsc::Receiver<Vec<Event>>,
    heard: VecDeque<String>,
}

impl Ear {
    /// Begins to watch pods of `fake`.
    async fn pods(fake: &Fake) -> Self {
        Ear::on(fake, &[KindRef::of::<Pod>()], quick()).await
    }

    async fn on(fake: &Fake, kinds: &[KindRef], pace: Pace) -> Self {
        let (sender, events) = mpsc::channel(8);
        let metrics = WatchMetrics::default();
        let kinds = kinds.to_vec();
        let options = Options {
            kinds,
            events: sender,
            originals: None,
            pace,
            served: Served::default(),
            metrics,
        };
        Ear { watches: start(fake.client().await, options), events, heard: VecDeque::new() }
    }

    /// The next thing that is heard.
    async fn next(&mut self) -> String {
        while self.heard.is_empty() {
            let batch = timeout(PATIENCE, self.events.recv()).await;
            let batch = batch.expect("something is told in time").expect("the watches run");
            self.heard.extend(batch.iter().map(show));
        }
        self.heard.pop_front().expect("something was heard")
    }

    /// The next `count` things in one line.
    async fn hear(&mut self, count: usize) -> String {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.next().await);
        }
        all.join(", ")
    }

    /// Waits until nothing is waited for.
    async fn told_whole(&mut self) {
        let mut waiting = self.watches.waiting();
        let over = waiting.wait_for(Waiting::is_over);
        timeout(PATIENCE, over).await.expect("all is told in time").expect("the watches run");
    }
}

/// An event in words: `a` is there, `-a` is gone.
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
