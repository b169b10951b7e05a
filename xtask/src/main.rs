//! Tasks of the project: `cargo xtask`.

mod e2e;

use std::path::PathBuf;

use clap::Parser;

/// Tasks of the project
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    E2e(e2e::E2e),
    /// Bind pods without making decisions, as the baseline of `e2e`
    #[command(hide = true)]
    Bind {
        /// The API server
        kubeconfig: PathBuf,
        /// The namespace of the pods
        namespace: String,
    },
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::E2e(task) => e2e::run(&task),
        Task::Bind { kubeconfig, namespace } => e2e::bind(&kubeconfig, &namespace),
    }
}
