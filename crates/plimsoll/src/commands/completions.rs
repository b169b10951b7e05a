//! `plimsoll completions`: scripts that complete command lines.

use std::io::{self, Write};

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Args, Completions};

/// Prints the script for a shell.
pub(crate) fn run(args: &Completions) -> Result<()> {
    let mut command = Args::command();
    let name = command.get_name().to_owned();
    // The generator panics if a pipe closes, so it writes to a buffer.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    io::stdout().write_all(&script)?;
    Ok(())
}
