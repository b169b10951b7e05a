//! Tasks of the project: `cargo xtask`.

mod e2e;

use std::path::PathBuf;

use clap::Parser;

/// Tasks of the project
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    E2e(e2e::E2e),
    /// Bind pods without deciding anything: what `e2e` measures others by
    #[command(hide = true)]
    Bind {
        /// The API server
        kubeconfig: PathBuf,
        /// Where the pods are
        namespace: String,
    },
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::E2e(task) => e2e::run(&task),
        Task::Bind { kubeconfig, namespace } => e2e::bind(&kubeconfig, &namespace),
    }
}
