//! The command `plimsoll`: what kube-scheduler would decide about the pods in some files, and why.
//!
//! The edge of the project: this crate alone reads files, looks at terminals and prints.

mod args;
mod audits;
mod caveats;
mod commands;
mod deprecated;
mod faults;
mod given;
mod input;
mod logs;
mod measured;
mod notices;
mod old_scale;
mod options;
mod progress;
mod render;
mod report;
mod wording;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;

fn main() -> ExitCode {
    match commands::run(Args::parse_from(commands::with_dashes(std::env::args_os()))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            notices::error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Whether whoever reads the output has seen enough, as `head` has.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        io.or_else(|| cause.downcast_ref::<serde_json::Error>()?.io_error_kind())
    });
    kinds.into_iter().any(|kind| kind == io::ErrorKind::BrokenPipe)
}
