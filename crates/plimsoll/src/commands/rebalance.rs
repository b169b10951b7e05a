//! `plimsoll rebalance`: which pods should move.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use plimsoll_framework::Registry;

use super::Scene;
use crate::answers::{Deciders, rebalance};
use crate::args::{Format, Rebalance};
use crate::canary::Canaries;
use crate::render::rebalance as render;
use crate::render::style::Screen;

/// Looks for moves and prints them.
pub(crate) fn run(args: &Rebalance, registry: &Registry) -> Result<()> {
    let Scene { setup, mut cluster, .. } = Scene::read(&args.cluster, registry)?;
    if let Some(canaries) = Canaries::new(&args.canary, &setup)? {
        // A pod that moves is made again, and the rules are asked about it then.
        for pod in &mut cluster.pods {
            canaries.assign_to(pod);
        }
    }
    let deciders = Deciders::of(&setup, registry);
    let plan = rebalance::of_cluster(deciders, cluster, &args.asked.options(), usize::MAX)?;
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
