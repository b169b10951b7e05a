//! The command line of `plimsoll serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueHint;

use super::Cluster;
use crate::canary::CanaryFlags;

const EXAMPLES: &str = "\
Examples:
  # The cluster of some files, at http://127.0.0.1:8042/
  plimsoll serve -f cluster.json

  # A journal: what was decided, hour by hour, and the history of each pod
  plimsoll serve --journal decisions.db

  # Both, on any free port
  plimsoll serve -f cluster.json --journal decisions.db --listen 127.0.0.1:0";

/// Show a cluster from files, or a journal, in a browser
///
/// Serves a page, and the API that it uses, over plain HTTP on this machine. The page shows nodes and pods, why pods are
/// pending and what would have to change, what would happen if the cluster changed, and the configuration. Nothing is
/// changed. Pending pods are decided each as if it were the next one.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("files", |files| files.required(false).required_unless_present("journal")))]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) cluster: Cluster,

    #[command(flatten)]
    pub(crate) canary: CanaryFlags,

    /// The journal of `run --journal` or `simulate --journal`; it may be written meanwhile
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) journal: Option<PathBuf>,

    /// Where to listen; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8042")]
    pub(crate) listen: SocketAddr,

    /// Let --listen name an address that other machines reach
    ///
    /// Whoever reaches it sees everything in the files, and can keep this machine busy with questions: nobody has to log in,
    /// and nothing is encrypted.
    #[arg(long)]
    pub(crate) allow_remote: bool,
}
