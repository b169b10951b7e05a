//! `plimsoll serve`: shows files in a browser.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use plimsoll_framework::Registry;
use plimsoll_ui::PlainServer;
use tokio::signal::unix::{SignalKind, signal};

use crate::answers::FilesSource;
use crate::args::Serve;

/// The number of threads for requests. Answers are made on other ones.
const WORKERS: usize = 1;

/// Serves until it receives a signal to stop.
pub(crate) fn run(args: &Serve, registry: &Arc<Registry>) -> Result<()> {
    ensure!(
        args.listen.ip().is_loopback() || args.allow_remote,
        "--listen {}: other machines reach this address, and nobody has to log in: listen on 127.0.0.1, or add \
         --allow-remote",
        args.listen,
    );
    let source =
        FilesSource::read((&args.cluster, &args.canary), args.journal.as_deref(), registry)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let served = runtime.block_on(async {
        let server = PlainServer::bind(args.listen, source.clone()).await?;
        let address = server.address().context("the socket has no address")?;
        let mut out = io::stdout();
        writeln!(out, "http://{address}/")?;
        out.flush()?;
        source.decide_pending_pods();
        server.serve(stopped()?).await.context("cannot serve")
    });
    // Answers that are under way are of no use any more.
    runtime.shutdown_background();
    served
}

/// Ready when SIGTERM or SIGINT is received.
fn stopped() -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
