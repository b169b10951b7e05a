//! `plimsoll replay`: makes the decisions of a recording again.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use plimsoll_engine::{Engine, Options};
use plimsoll_framework::time::go_duration;
use plimsoll_framework::{Registry, Time};
use plimsoll_recording::{
    Difference, Ending, Entry, Header, Judge, ReadError, Reader, Replay, Replayed, Tally, Verdicts,
};
use serde::Serialize;
use serde_json::json;

use crate::args::{self, Format, ReplayEngine};
use crate::recordings;

/// Replays a recording and prints what came of it.
pub(crate) fn run(args: &args::Replay, registry: &Registry) -> Result<()> {
    if let Some(to) = &args.shrink {
        return shrink(&args.file, to, registry);
    }
    let header = Reader::open(&args.file, registry.kinds())?.header().clone();
    if 1 < header.part {
        return judge(args, &header, registry);
    }
    let engines = match args.engine {
        ReplayEngine::Fast => vec![Engine::Fast],
        ReplayEngine::Reference => vec![Engine::Reference],
        ReplayEngine::Both => vec![Engine::Fast, Engine::Reference],
    };
    let mut runs = Vec::new();
    for engine in engines {
        runs.push(Run::make(args, &header, engine, registry)?);
    }
    match args.output.format {
        Format::Json => {
            let mut out = io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, &Report::of(args, &header, &runs))?;
            writeln!(out)?;
        }
        Format::Table => describe(&mut anstream::stdout(), &header, &runs)?,
    }
    match runs.iter().find_map(|run| Some((run.engine, run.difference.as_deref()?))) {
        Some((engine, difference)) => {
            bail!("{}: engine {}: {difference}", args.file.display(), name(engine))
        }
        None => Ok(()),
    }
}

/// One replay.
struct Run {
    engine: Engine,
    tally: Tally,
    digest: u64,
    wall: Duration,
    /// How many bytes of the files were read.
    bytes: u64,
    parts: u32,
    ending: Ending,
    difference: Option<Box<Difference>>,
    /// How many audits of the replay found a difference.
    audits_differing: u64,
}

impl Run {
    fn make(
        args: &args::Replay,
        header: &Header,
        engine: Engine,
        registry: &Registry,
    ) -> Result<Self> {
        let options = Options { engine, ..header.options() };
        let scheduler = header.scheduler(registry, options);
        let path = args.file.clone();
        let scheduler = scheduler.map_err(|error| ReadError::Profile { path, error })?;
        let began = Instant::now();
        let mut replay = Replay::new(scheduler);
        let mut reader = Reader::open(&args.file, registry.kinds())?;
        let (mut bytes, mut parts) = (0, 1);
        let until = args.until.unwrap_or(u64::MAX);
        let mut difference = play(&mut replay, &mut reader, until)?;
        while difference.is_none()
            && replay.tally().decisions < until
            && let Some(next) = recordings::next_part(&args.file, &reader, registry)?
        {
            bytes += reader.offset();
            parts += 1;
            reader = next;
            difference = play(&mut replay, &mut reader, until)?;
        }
        let ending = reader.ending();
        // Before the end of a file that was cut, the effects of the last step may be missing.
        if difference.is_none() && ending == Some(Ending::End) {
            difference = found(replay.close());
        }
        Ok(Run {
            engine,
            tally: replay.tally(),
            digest: replay.digest(),
            wall: began.elapsed(),
            bytes: bytes + reader.offset(),
            parts,
            ending: ending.unwrap_or(Ending::Continues),
            difference,
            audits_differing: replay.audit().differing,
        })
    }

    /// How many bytes a pod takes.
    #[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
    fn bytes_per_pod(&self) -> Option<f64> {
        (0 < self.tally.pods).then(|| self.bytes as f64 / self.tally.pods as f64)
    }

    /// How many times as fast as it was recorded.
    fn speed(&self) -> Option<f64> {
        speed(self.tally.span, self.wall)
    }
}

fn speed(span: Option<(Time, Time)>, wall: Duration) -> Option<f64> {
    let (first, last) = span?;
    let recorded = last.since(first).as_secs_f64();
    (0.0 < recorded).then(|| recorded / wall.as_secs_f64())
}

fn found(replayed: Replayed) -> Option<Box<Difference>> {
    match replayed {
        Replayed::Same => None,
        Replayed::Differs(difference) => Some(difference),
    }
}

/// Replays a part up to its end, the first difference, or `until` decisions.
fn play(
    replay: &mut Replay,
    reader: &mut Reader,
    until: u64,
) -> Result<Option<Box<Difference>>, ReadError> {
    let mut in_picture = false;
    while replay.tally().decisions < until
        && let Some(entry) = reader.next()?
    {
        match entry {
            Entry::PictureBegins => in_picture = true,
            Entry::PictureEnds => in_picture = false,
            _ if in_picture => {}
            entry => {
                if let difference @ Some(_) = found(replay.play(entry)) {
                    return Ok(difference);
                }
            }
        }
    }
    Ok(None)
}

fn name(engine: Engine) -> &'static str {
    match engine {
        Engine::Fast => "fast",
        Engine::Reference => "reference",
    }
}

fn describe(out: &mut impl Write, header: &Header, runs: &[Run]) -> io::Result<()> {
    origin(out, header)?;
    let Some(first) = runs.first() else { return Ok(()) };
    let Tally { events, decisions, scheduled, pods, .. } = first.tally;
    writeln!(out, "Events     {events}")?;
    writeln!(out, "Decisions  {decisions}: {scheduled} bound, {} failed", decisions - scheduled)?;
    write!(out, "Size       {} bytes", first.bytes)?;
    if let Some(each) = first.bytes_per_pod() {
        write!(out, ", {each:.1} for each of {pods} pods")?;
    }
    writeln!(out)?;
    for run in runs {
        write!(out, "Replay     {}: {:.1?}", name(run.engine), run.wall)?;
        if let (Some((first, last)), Some(speed)) = (run.tally.span, run.speed()) {
            write!(out, " for {}, {speed:.0} times as fast", go_duration(last.since(first)))?;
        }
        let same = match &run.difference {
            None => "all decisions are the same as recorded",
            Some(_) => "a decision differs",
        };
        writeln!(out, "; {same}")?;
        if 0 < run.audits_differing {
            let differing = run.audits_differing;
            writeln!(
                out,
                "Audits     {differing} differ from scratch: `plimsoll replay --shrink OUT` writes the smallest recording"
            )?;
        }
    }
    writeln!(out, "End        {}", ending(first.ending))
}

fn origin(out: &mut impl Write, header: &Header) -> io::Result<()> {
    let Header { program, command, release, seed, .. } = header;
    writeln!(out, "Recorded   by {program} {command}, release 1.{release}, seed {seed}")
}

fn ending(ending: Ending) -> String {
    match ending {
        Ending::End => "the scheduler was stopped".to_owned(),
        Ending::Continues => {
            "it goes on in another part, which is not there or was not asked for".to_owned()
        }
        Ending::Dropped => "the disk was too slow, and the recording was given up".to_owned(),
        Ending::Cut(at) => format!(
            "byte {at}, without a mark: the scheduler was killed or is still running, or the file was cut"
        ),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    file: &'a Path,
    program: &'a str,
    command: &'a str,
    release: String,
    seed: u64,
    parts: u32,
    events: u64,
    steps: u64,
    decisions: u64,
    scheduled: u64,
    pods: u64,
    bytes: u64,
    bytes_per_pod: Option<f64>,
    recorded_seconds: f64,
    end: String,
    replays: Vec<serde_json::Value>,
}

impl<'a> Report<'a> {
    fn of(args: &'a args::Replay, header: &'a Header, runs: &[Run]) -> Option<Self> {
        let first = runs.first()?;
        let Tally { events, steps, decisions, scheduled, pods, span } = first.tally;
        let recorded = span.map_or(Duration::ZERO, |(first, last)| last.since(first));
        let replay = |run: &Run| {
            json!({
                "engine": name(run.engine),
                "seconds": run.wall.as_secs_f64(),
                "speed": run.speed(),
                "same": run.difference.is_none(),
                "digest": format!("{:016x}", run.digest),
                "auditsDiffering": run.audits_differing,
                "difference": run.difference.as_ref().map(|difference| json!({
                    "pod": difference.pod().map(ToString::to_string),
                    "seconds": difference.now.to_string(),
                    "decisionsBefore": difference.decisions,
                    "recorded": difference.recorded.as_ref().map(|it| it.what.to_string()),
                    "replayed": difference.replayed.as_ref().map(|it| it.what.to_string()),
                })),
            })
        };
        Some(Report {
            file: &args.file,
            program: &header.program,
            command: &header.command,
            release: format!("1.{}", header.release),
            seed: header.seed,
            parts: first.parts,
            events,
            steps,
            decisions,
            scheduled,
            pods,
            bytes: first.bytes,
            bytes_per_pod: first.bytes_per_pod(),
            recorded_seconds: recorded.as_secs_f64(),
            end: ending(first.ending),
            replays: runs.iter().map(replay).collect(),
        })
    }
}

/// Judges the decisions of parts whose beginning is missing.
fn judge(args: &args::Replay, header: &Header, registry: &Registry) -> Result<()> {
    let options = Options { engine: Engine::Reference, ..header.options() };
    let (path, file) = (args.file.clone(), args.file.display());
    let scheduler = header.scheduler(registry, options);
    let scheduler = scheduler.map_err(|error| ReadError::Profile { path, error })?;
    if !header.extenders.is_empty() {
        let remedy =
            "its profiles have extenders, so that it can only be replayed from the first part on";
        let (path, part) = (args.file.clone(), header.part);
        return Err(ReadError::Part { path, part, remedy: remedy.to_owned() }.into());
    }
    let (began, mut judge) = (Instant::now(), Judge::new(scheduler));
    let mut reader = Reader::open(&args.file, registry.kinds())?;
    let until = args.until.unwrap_or(u64::MAX);
    let mut in_picture = false;
    loop {
        while judge.verdicts().judged < until
            && let Some(entry) = reader.next()?
        {
            match entry {
                // Only the first part needs one.
                Entry::PictureBegins => in_picture = reader.header().part != header.part,
                Entry::PictureEnds => in_picture = false,
                _ if in_picture => {}
                entry => judge.take(entry),
            }
        }
        match recordings::next_part(&args.file, &reader, registry)? {
            Some(next) if judge.verdicts().judged < until => reader = next,
            _ => break,
        }
    }
    let verdicts = judge.verdicts();
    report_judged(args, header, verdicts, began.elapsed())?;
    match &verdicts.first {
        Some((now, pod, text)) => bail!("{file}: at {now}: pod {pod}: {text}"),
        None => Ok(()),
    }
}

fn report_judged(
    args: &args::Replay,
    header: &Header,
    verdicts: &Verdicts,
    wall: Duration,
) -> Result<()> {
    let Verdicts { events, judged, not_judged, differing, span, .. } = *verdicts;
    if args.output.format == Format::Json {
        let mut out = io::stdout().lock();
        let report = json!({
            "file": args.file,
            "program": header.program,
            "part": header.part,
            "events": events,
            "judged": judged,
            "notJudged": not_judged,
            "differing": differing,
            "seconds": wall.as_secs_f64(),
        });
        serde_json::to_writer_pretty(&mut out, &report)?;
        return Ok(writeln!(out)?);
    }
    let mut out = anstream::stdout();
    origin(&mut out, header)?;
    let part = header.part;
    writeln!(
        out,
        "Part       {part}: without the parts before, each decision is judged by itself"
    )?;
    writeln!(out, "Events     {events}")?;
    writeln!(out, "Decisions  {judged} judged, {differing} differ, {not_judged} cannot be judged")?;
    write!(out, "Replay     {wall:.1?}")?;
    if let (Some((first, last)), Some(speed)) = (span, speed(span, wall)) {
        write!(out, " for {}, {speed:.0} times as fast", go_duration(last.since(first)))?;
    }
    Ok(writeln!(out)?)
}

fn shrink(file: &Path, to: &Path, registry: &Registry) -> Result<()> {
    let effort = (usize::MAX, recordings::FULL_EFFORT);
    let Some((difference, summary)) = recordings::write_smallest(file, to, registry, effort)?
    else {
        bail!("{}: no audit finds a difference: there is nothing to write", file.display());
    };
    let before = fs::metadata(file).map_or(0, |file| file.len());
    let (events, bytes) = (summary.events, summary.bytes);
    let mut out = anstream::stdout();
    writeln!(out, "Difference {difference}")?;
    writeln!(out, "Written    {}: {events} events, {bytes} bytes of {before}", to.display())?;
    Ok(())
}
