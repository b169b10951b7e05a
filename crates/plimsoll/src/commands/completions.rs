//! `plimsoll completions`: what shells need to complete command lines.

use std::io::{self, Write};

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Args, Completions};

/// Prints the script for a shell.
pub(crate) fn run(args: &Completions) -> Result<()> {
    let mut command = Args::command();
    let name = command.get_name().to_owned();
    // The generator does not expect a pipe that closes, a buffer never does.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    io::stdout().write_all(&script)?;
    Ok(())
}
