//! People who look at the page while pods are bound: each reads the stream of events, and asks again what the page shows.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// What a page asks for after each change: every view has the overview, and the others ask for something of their own. The
/// map of nodes is the largest answer.
const ASKED: [&str; 3] = ["overview", "nodes", "timeline"];
/// A page asks at most so often.
const PAUSE: Duration = Duration::from_secs(2);
/// How long the server may take to start, and how often to look.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A port that nobody listens on at the moment.
pub(super) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Pages that are open.
pub(super) struct Viewers {
    pages: JoinSet<Result<()>>,
    answers: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Viewers {
    /// Opens so many pages of the server at a port, once it answers.
    pub(super) async fn open(number: usize, port: u16) -> Result<Self> {
        let (answers, bytes) = (Arc::default(), Arc::default());
        let mut viewers = Viewers { pages: JoinSet::new(), answers, bytes };
        for _ in 0..number {
            // Each has a connection of its own, as a browser has.
            let client = client(port)?;
            let begun = Instant::now();
            while get(&client, "overview").await.is_err() {
                ensure!(begun.elapsed() < PATIENCE, "the page does not answer within {PATIENCE:?}");
                tokio::time::sleep(LOOK_EVERY).await;
            }
            let (answers, bytes) = (viewers.answers.clone(), viewers.bytes.clone());
            viewers.pages.spawn(async move { look(&client, &answers, &bytes).await });
        }
        Ok(viewers)
    }

    /// Closes the pages, and returns how many answers they have had, and their bytes. Fails if a page got none.
    pub(super) async fn close(mut self) -> Result<(u64, u64)> {
        if let Some(Ok(ended)) = self.pages.try_join_next() {
            ended.context("a page has ended early")?;
        }
        self.pages.shutdown().await;
        let answers = self.answers.load(Ordering::Relaxed);
        ensure!(0 < answers, "no page has had an answer");
        Ok((answers, self.bytes.load(Ordering::Relaxed)))
    }
}

fn client(port: u16) -> Result<kube::Client> {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse()?);
    // It has made its certificate itself.
    config.accept_invalid_certs = true;
    config.read_timeout = None;
    Ok(kube::Client::try_from(config)?)
}

async fn send(client: &kube::Client, question: &str) -> Result<http::Response<Body>> {
    let path = format!("/api/v1/{question}");
    let answer = client.send(Request::get(&path).body(Body::empty())?).await?;
    ensure!(answer.status().is_success(), "{path}: {}", answer.status());
    Ok(answer)
}

/// Asks, and returns how long the answer is.
async fn get(client: &kube::Client, question: &str) -> Result<u64> {
    let answer = send(client, question).await?;
    Ok(u64::try_from(answer.into_body().collect_bytes().await?.len())?)
}

/// Reads streams of events until it is stopped, and asks after each event as the page does.
async fn look(client: &kube::Client, answers: &AtomicU64, bytes: &AtomicU64) -> Result<()> {
    let mut next = Instant::now();
    loop {
        let mut events = send(client, "events").await?.into_body().into_data_stream();
        while let Some(event) = events.next().await {
            if !event?.starts_with(b"event: change") {
                continue;
            }
            sleep_until(next).await;
            next = Instant::now() + PAUSE;
            for question in ASKED {
                bytes.fetch_add(get(client, question).await?, Ordering::Relaxed);
                answers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
