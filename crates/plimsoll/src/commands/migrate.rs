//! `plimsoll config migrate`: converts any configuration to version v1.

use std::io::{self, Write};

use anyhow::Result;
use plimsoll_framework::Registry;
use plimsoll_legacy::config::Migration;

use crate::args::{FileFormat, Migrate};
use crate::notices;
use crate::options::{self, Setup};

/// Prints the file and the notes about it.
pub(crate) fn run(args: &Migrate, registry: &Registry) -> Result<()> {
    let gates = args.emulation.gates();
    let setup = Setup::of(&args.subject, registry, &gates)?;
    let migration = Migration::of(&setup.configuration, &options::catalogue(registry, &gates));
    let mut out = io::stdout().lock();
    match args.format {
        FileFormat::Json => {
            serde_json::to_writer_pretty(&mut out, &migration)?;
            writeln!(out)?;
        }
        FileFormat::Yaml => {
            migration.notes.iter().for_each(notices::note);
            out.write_all(migration.to_yaml().as_bytes())?;
        }
    }
    Ok(())
}
