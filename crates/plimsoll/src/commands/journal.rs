//! `plimsoll journal`: questions about a journal of decisions.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use plimsoll_journal::Reader;
use serde::Serialize;

use crate::args::{Format, Journal, Question};
use crate::notices;
use crate::render::journal as render;
use crate::render::style::Screen;

/// Prints the answer.
pub(crate) fn run(args: &Journal) -> Result<()> {
    let reader = Reader::open(&args.file)?;
    let (limit, format) = (args.limit, args.output.format);
    let (mut out, screen) = (anstream::stdout(), Screen::stdout());
    match &args.question {
        Question::Pod { pod } => {
            let attempts = reader.history(pod, limit)?;
            match format {
                Format::Json => json(&attempts)?,
                Format::Table => render::history(&mut out, &attempts, screen)?,
            }
        }
        Question::Group { group } => {
            let attempts = reader.group_history(group, limit)?;
            match format {
                Format::Json => json(&attempts)?,
                Format::Table => render::group_history(&mut out, &attempts, screen)?,
            }
        }
        Question::Preemptions { pod } => {
            let preemptions = reader.preemptions(pod.as_ref(), limit)?;
            match format {
                Format::Json => json(&preemptions)?,
                Format::Table => render::preemptions(&mut out, &preemptions, screen)?,
            }
        }
        Question::Slowest => {
            let pods = reader.slowest(limit)?;
            match format {
                Format::Json => json(&pods)?,
                Format::Table => render::pods(&mut out, &pods, screen)?,
            }
        }
        Question::MostRetried => {
            let pods = reader.most_retried(limit)?;
            match format {
                Format::Json => json(&pods)?,
                Format::Table => render::pods(&mut out, &pods, screen)?,
            }
        }
        Question::Losses => {
            let losses = reader.losses(limit)?;
            match format {
                Format::Json => json(&losses)?,
                Format::Table => render::losses(&mut out, &losses, screen)?,
            }
        }
        Question::Hours => {
            let hours = reader.hours(limit)?;
            match format {
                Format::Json => json(&hours)?,
                Format::Table => render::hours(&mut out, &hours, screen)?,
            }
        }
    }
    let lost = reader.lost()?;
    if 0 < lost {
        notices::warning(format_args!(
            "the journal lacks {lost} entries, which came faster than they could be written"
        ));
    }
    Ok(())
}

/// Prints a list as one document.
fn json<T: Serialize>(rows: &[T]) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    serde_json::to_writer(&mut out, rows)?;
    writeln!(out)?;
    Ok(out.flush()?)
}
