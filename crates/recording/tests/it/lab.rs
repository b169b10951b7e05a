//! Random simulations that are recorded, and their replays.

use std::path::{Path, PathBuf};

use plimsoll_config::{Catalogue, Configuration, GivenGates};
use plimsoll_engine::{Detail, Engine, Options, Scheduler};
use plimsoll_framework::{ProfileSpec, Registry, Release};
use plimsoll_plugins::{default_profile, in_tree};
use plimsoll_recording::{
    Destination, Difference, Ending, Entry, Header, Limits, ReadError, Reader, Recording, Replay,
    Replayed, Summary, Tally, WhenFull,
};
use plimsoll_sim::{Extent, swarm};

/// More decisions than any of these simulations needs.
const MANY: usize = 5_000;

/// The default profile.
pub(crate) fn profiles(registry: &Registry) -> Vec<ProfileSpec> {
    let gates = GivenGates::of(Release::NEWEST);
    let catalogue = Catalogue::of(registry, &default_profile()).with_gates(gates.plugins);
    Configuration::default_for(&catalogue).profile_specs()
}

/// The options of recorded simulations.
pub(crate) fn options(engine: Engine) -> Options {
    let tie_break = plimsoll_engine::TieBreak::Random;
    Options { engine, audit_every: 0, detail: Detail::Outcome, tie_break, ..Options::default() }
}

/// The header of such a recording.
pub(crate) fn header(specs: &[ProfileSpec], options: &Options, seed: u64) -> Header {
    let gates = GivenGates::of(Release::NEWEST).plugins;
    Header::new(("plimsoll test", "simulate"), specs, &gates, options, seed)
}

/// Records the random simulation of a seed.
pub(crate) fn record(path: &Path, seed: u64, engine: Engine, limits: Limits) -> Summary {
    let (registry, options) = (in_tree(), options(engine));
    let header = header(&profiles(&registry), &options, seed);
    let scheduler = header.scheduler(&registry, options).expect("the profile is right");
    recorded(path, header, limits, scheduler, |scheduler| {
        let mut simulation = swarm::begin(seed, scheduler, Extent::Placements);
        let mut n_decisions = 0;
        while let Some(decisions) = simulation.advance() {
            n_decisions += decisions.len();
            assert!(n_decisions < MANY, "the simulation ends");
        }
    })
}

/// Records what `act` does with a scheduler.
pub(crate) fn recorded(
    path: &Path,
    header: Header,
    limits: Limits,
    mut scheduler: Scheduler,
    act: impl FnOnce(Scheduler),
) -> Summary {
    let destination = Destination { path: path.to_owned(), limits };
    let recording = Recording::start(destination, header, WhenFull::Wait, |_| {});
    let recording = recording.expect("the file can be written");
    scheduler.record_to(recording.recorder());
    act(scheduler);
    recording.finish().expect("all was written")
}

/// How a replay ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) digest: u64,
    pub(crate) difference: Option<Box<Difference>>,
    pub(crate) ending: Ending,
}

/// Replays parts with the plugins of `registry`.
pub(crate) fn replay(
    paths: &[PathBuf],
    registry: &Registry,
    engine: Engine,
) -> Result<Outcome, ReadError> {
    let mut playing: Option<Replay> = None;
    let mut ending = Ending::End;
    for path in paths {
        let mut reader = Reader::open(path, registry.kinds())?;
        let replay = playing.get_or_insert_with(|| {
            let options = Options { engine, ..reader.header().options() };
            let scheduler = reader.header().scheduler(registry, options);
            Replay::new(scheduler.expect("the profile is right"))
        });
        let mut in_picture = false;
        while let Some(entry) = reader.next()? {
            in_picture |= matches!(entry, Entry::PictureBegins);
            if in_picture {
                in_picture = !matches!(entry, Entry::PictureEnds);
            } else if let Replayed::Differs(difference) = replay.play(entry) {
                let (tally, digest) = (replay.tally(), replay.digest());
                let difference = Some(difference);
                return Ok(Outcome { tally, digest, difference, ending });
            }
        }
        ending = reader.ending().expect("all was read");
    }
    let replay = playing.expect("there is a part");
    let (tally, digest) = (replay.tally(), replay.digest());
    Ok(Outcome { tally, digest, difference: None, ending })
}

/// Replays one file with the in-tree plugins.
pub(crate) fn replay_file(path: &Path, engine: Engine) -> Result<Outcome, ReadError> {
    replay(&[path.to_owned()], &in_tree(), engine)
}
