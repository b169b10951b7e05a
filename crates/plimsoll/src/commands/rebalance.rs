//! `plimsoll rebalance`: which pods should move.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use plimsoll_framework::Registry;
use plimsoll_sim::Simulation;

use super::Scene;
use super::capacity::at_the_end;
use crate::answers::Deciders;
use crate::args::{Format, Rebalance};
use crate::render::rebalance as render;
use crate::render::style::Screen;

/// Looks for moves and prints them.
pub(crate) fn run(args: &Rebalance, registry: &Registry) -> Result<()> {
    let Scene { setup, cluster } = Scene::read(&args.cluster, registry)?;
    let deciders = Deciders::of(&setup, registry);
    let cluster = at_the_end(deciders.scheduler()?, cluster);
    let mut simulation = Simulation::new(deciders.scheduler()?, cluster);
    let now = simulation.now();
    let plan = plimsoll_sim::rebalance(simulation.scheduler_mut(), now, &args.options());
    match args.output.format {
        Format::Json => {
            let mut out = BufWriter::new(io::stdout().lock());
            serde_json::to_writer(&mut out, &plan)?;
            writeln!(out)?;
            out.flush()?;
        }
        Format::Table => render::plan(&mut anstream::stdout(), &plan, Screen::stdout())?,
    }
    Ok(())
}
