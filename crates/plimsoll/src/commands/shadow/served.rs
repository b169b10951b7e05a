//! What a shadow serves: the page with the report, questions about the cluster, and health checks.

use std::future::pending;
use std::sync::Arc;

use anyhow::Result;
use plimsoll_config::Configuration;
use plimsoll_framework::{Registry, Release, Time};
use plimsoll_kube::client::ReadOnlyConnection;
use plimsoll_kube::follow::{Comparison, FollowedServing, Turns, serve};
use plimsoll_kube::run::Serving;
use plimsoll_kube::serve::{EngineHandle, EngineQuery, Unresponsive};
use plimsoll_shadow::{Report, Shadow};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::answers::Answers;
use crate::args;
use crate::commands::{flags, serving};
use crate::logs::Verbosity;
use crate::options::{self, Setup};

/// At most so many requests wait for the report. The server answers no more at a time.
const MOST_WAITING: usize = 64;

/// What is asked of a shadow.
pub(super) enum Asked {
    /// Something about the cluster.
    Cluster(EngineQuery),
    /// The report.
    Report(oneshot::Sender<Report>),
}

/// Takes in what is asked of a shadow, for the loop that has it.
pub(super) struct Desk {
    queries: mpsc::Receiver<EngineQuery>,
    reports: mpsc::Receiver<oneshot::Sender<Report>>,
    is_known: watch::Sender<bool>,
    turns: Turns,
    server: Option<(JoinHandle<()>, CancellationToken)>,
}

impl Desk {
    /// Starts to serve, with these metrics, unless `--secure-port` is 0: then nothing is ever asked.
    pub(super) async fn open(
        args: &args::Shadow,
        (setup, release): (&Setup, Release),
        registry: &Arc<Registry>,
        (verbosity, metrics): (Verbosity, prometheus::Registry),
        connection: &ReadOnlyConnection,
    ) -> Result<Self> {
        let (engine, queries) = EngineHandle::new();
        let (ask, reports) = mpsc::channel(MOST_WAITING);
        let (is_known, known) = watch::channel(false);
        let turns = Turns::default();
        let listening = serving::listening_as_shadow(&args.serving)?;
        let gates = options::given_gates(release, &args.feature_gates)?;
        let default = Configuration::default_for(&options::catalogue(registry, &gates));
        let answers = Answers::new(setup, registry.clone(), (Vec::new(), None), setup.options());
        let about = (&setup.configuration, &gates, verbosity);
        let serving =
            serving::serving(listening, about, &default, (Arc::new(answers), vec![metrics]))?;
        let followed = FollowedServing {
            serving: Serving { flags: flags::of_command("shadow"), ..serving },
            engine,
            comparison: comparison(ask),
            is_known: known,
            turns: turns.clone(),
        };
        let server = serve(followed, connection).await?.map(|server| {
            let stop = CancellationToken::new();
            (tokio::spawn(server.serve(stop.clone())), stop)
        });
        Ok(Desk { queries, reports, is_known, turns, server })
    }

    /// What is asked next.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            Some(query) = self.queries.recv() => Asked::Cluster(query),
            Some(to) = self.reports.recv() => Asked::Report(to),
            else => pending().await,
        }
    }

    /// The loop turns.
    pub(super) fn turn(&self) {
        self.turns.turn();
    }

    /// The whole cluster is known.
    pub(super) fn is_ready(&self) {
        self.is_known.send_replace(true);
    }

    /// Stops to serve. Requests in progress are finished, for a few seconds at most.
    pub(super) async fn close(self) {
        let Some((server, stop)) = self.server else { return };
        stop.cancel();
        // Nobody answers any more, so that nobody waits.
        drop((self.queries, self.reports));
        if let Err(error) = server.await {
            tracing::warn!(%error, "the server ended with an error");
        }
    }
}

impl Asked {
    /// Answers. The client may already be gone.
    pub(super) fn answer(self, now: Time, shadow: &mut Shadow) {
        match self {
            Asked::Cluster(query) => query.answer(now, shadow.first_scheduler()),
            Asked::Report(to) => drop(to.send(shadow.report(now))),
        }
    }
}

/// Asks for the report through a channel.
fn comparison(ask: mpsc::Sender<oneshot::Sender<Report>>) -> Comparison {
    Arc::new(move || {
        let ask = ask.clone();
        Box::pin(async move {
            let (to, answer) = oneshot::channel();
            ask.send(to).await.map_err(|_| Unresponsive)?;
            let report = answer.await.map_err(|_| Unresponsive)?;
            serde_json::to_value(&report).map_err(|_| Unresponsive)
        })
    })
}
