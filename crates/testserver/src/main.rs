//! The test server by itself, for use by hand: `plimsoll-testserver --port 6443 --kubeconfig-out /tmp/kubeconfig`.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use clap::Parser;
use plimsoll_testserver::{Options, Terminating, TestServer, bulk};

/// A Kubernetes API server in memory, with faults on demand (POST /testserver/faults).
#[derive(Debug, Parser)]
#[command(name = "plimsoll-testserver")]
struct Args {
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Where to write a kubeconfig whose user may do everything
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Plain HTTP instead of TLS
    #[arg(long)]
    plain: bool,
    /// The minor release to behave as
    #[arg(long, default_value_t = 36, value_parser = clap::value_parser!(u32).range(20..=37))]
    release: u32,
    /// Number of nodes at the start, each with 4 CPUs, 32 GiB and 110 pods, in three zones
    #[arg(long, default_value_t = 0)]
    nodes: usize,
    /// Number of pods at the start, each of which requests 100m CPU and 500 MiB
    #[arg(long, default_value_t = 0)]
    pods: usize,
    /// Groups or versions not to serve, such as resource.k8s.io
    #[arg(long, value_name = "GROUP[/VERSION]")]
    without: Vec<String>,
    /// Seconds for which a deleted namespace terminates
    #[arg(long, default_value_t = 0)]
    namespace_seconds: u64,
    /// Seconds between bookmarks
    #[arg(long, default_value_t = 60)]
    bookmark_seconds: u64,
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .init();
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = &*error, "the server ends");
            // If standard error is closed, the error cannot be reported.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    let options = Options {
        address: SocketAddr::from(([127, 0, 0, 1], args.port)),
        tls: !args.plain,
        release: args.release,
        without: args.without,
        terminating_namespaces: Terminating::GoneAfter(Duration::from_secs(args.namespace_seconds)),
        bookmarks: Duration::from_secs(args.bookmark_seconds.max(1)),
        ..Options::default()
    };
    let server = TestServer::try_start(options)?;
    server.store().apply_all((0..args.nodes).map(bulk::node))?;
    server.store().apply_all((0..args.pods).map(bulk::pod))?;
    if let Some(path) = &args.kubeconfig_out {
        server.write_kubeconfig(path)?;
    }
    writeln!(io::stdout(), "{}", server.url())?;
    io::stdout().flush()?;
    // It runs until it is killed: the other end is never dropped.
    let (_forever, wait) = mpsc::channel::<()>();
    wait.recv()?;
    Ok(())
}
