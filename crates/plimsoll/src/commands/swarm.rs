//! `plimsoll simulate --swarm`: simulates random clusters and audits every decision.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::panic;
use std::path::Path;

use anyhow::{Context, Result, bail};
use plimsoll_api::KindRef;
use plimsoll_config::GivenGates;
use plimsoll_engine::{Options, Profile, Recorder};
use plimsoll_framework::{Registry, Release};
use plimsoll_plugins::coscheduling::CoschedulingGroup;
use plimsoll_sim::swarm::{self, Course, try_seed_recorded, try_seed_with_gangs_recorded};
use plimsoll_sim::{Extent, GangArgs, GangKind, GangSpec};
use serde_json::json;

use crate::args::{Format, Simulate, With};
use crate::old_scale::{self, OldRanking};
use crate::options::{Extenders, Setup, given_gates};
use crate::progress::Progress;
use crate::wording::count;
use crate::{notices, recordings};

/// At most 5 violations of one seed are shown: the first is usually the cause of the others.
const VIOLATIONS: usize = 5;

/// Simulates `n` seeds, reports each with a violation, and fails if there is any.
pub(crate) fn run(args: &Simulate, registry: &Registry, n: u64) -> Result<()> {
    if !args.canary.canary.is_empty() {
        notices::warning("--canary has no effect with --swarm, whose pods belong to all profiles");
    }
    if args.with == Some(With::Coscheduling) && args.cluster.config.is_some() {
        bail!(
            "--with coscheduling: these clusters have a profile of their own; leave --config out"
        );
    }
    let mut swarm = Swarm::new(args, registry)?;
    let mut out = anstream::stdout();
    let mut whole = Course::default();
    let mut failed = 0;
    let mut progress = Progress::shown(usize::try_from(n).unwrap_or(usize::MAX));
    // A panic is reported as a violation with its seed, so the default message is turned off.
    panic::set_hook(Box::new(|_| {}));
    let mut seed = args.seed;
    for _ in 0..n {
        while !swarm.is_asked_for(seed) {
            seed = seed.wrapping_add(1);
        }
        let course = swarm.course(seed, &|_, _, _| None)?;
        progress.step();
        if let Some(folder) = args.record.as_deref().filter(|_| 0 < course.audits_differing) {
            swarm.write_difference(seed, folder)?;
        }
        failed += u64::from(!course.violations.is_empty());
        match args.output.format {
            Format::Json => writeln!(out, "{}", record(seed, &course))?,
            Format::Table => tell(&mut out, args, seed, &course)?,
        }
        whole.add(&course);
        seed = seed.wrapping_add(1);
    }
    drop(progress);
    let simulations = count(usize::try_from(n).unwrap_or(usize::MAX), "simulation");
    if args.output.format == Format::Table {
        writeln!(
            out,
            "{simulations} from seed {}: {}, {} placed, {}",
            args.seed,
            count(whole.attempts, "attempt"),
            whole.scheduled,
            count(whole.preemptions, "preemption"),
        )?;
    }
    if 0 < failed {
        bail!("{failed} of {simulations} broke a rule");
    }
    Ok(())
}

/// What decides in the simulations.
struct Swarm<'a> {
    args: &'a Simulate,
    registry: &'a Registry,
    setup: Setup,
    rankings: Option<Vec<OldRanking>>,
    extent: Extent,
    /// The configuration with the feature gates that some seeds need.
    with_groups: BTreeMap<Vec<&'static str>, Setup>,
}

impl<'a> Swarm<'a> {
    fn new(args: &'a Simulate, registry: &'a Registry) -> Result<Self> {
        let setup = Setup::choose(&args.cluster, &[], registry)?;
        let rankings = args.ranking.by_priorities();
        let rankings = rankings
            .map(|release| setup.rankings(release, args.cluster.config.is_some()))
            .transpose()?;
        // The auditor knows the rules of the default profile, and rules that hold for all profiles.
        let is_default = rankings.is_none() && setup.is_default(registry);
        let extent = if is_default { Extent::Decisions } else { Extent::Placements };
        let with_groups = BTreeMap::new();
        Ok(Swarm { args, registry, setup, rankings, extent, with_groups })
    }

    /// What groups of pods there are in the simulation of a seed.
    fn groups(&self, seed: u64) -> Groups {
        let cluster = &self.args.cluster;
        // Gates that are given count for all seeds. The releases with the scale of 10 had no groups.
        if !cluster.feature_gates.is_empty() || self.rankings.is_some() {
            return Groups::ByGates;
        }
        if swarm::has_groups(seed) {
            return Groups::OfApi;
        }
        // Coscheduling needs a profile of its own.
        match cluster.config.is_none() && swarm::has_gangs(seed) {
            true => Groups::Gangs,
            false => Groups::ByGates,
        }
    }

    /// Whether the simulation of a seed has what `--with` asks for.
    fn is_asked_for(&self, seed: u64) -> bool {
        match (self.args.with, self.groups(seed)) {
            (None, _) | (Some(_), Groups::Gangs) | (Some(With::Groups), Groups::OfApi) => true,
            (Some(With::Coscheduling), Groups::OfApi) | (Some(_), Groups::ByGates) => false,
        }
    }

    /// Runs the simulation of a seed, in which audits have found a difference, again, and writes the smallest recording that
    /// shows one.
    fn write_difference(&mut self, seed: u64, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)
            .with_context(|| format!("{}: cannot be made", folder.display()))?;
        let to = folder.join(format!("seed-{seed}.difference"));
        let path = |number: usize| folder.join(format!("seed-{seed}-run-{number}"));
        let recordings = RefCell::new(Vec::new());
        let ran = self.course(seed, &|setup, options, number| {
            let header = recordings::header("simulate --swarm", setup, options, seed);
            let begun = recordings::begin(&path(number), header);
            let recorder = begun.as_ref().ok().map(plimsoll_recording::Recording::recorder);
            recordings.borrow_mut().push((path(number), begun));
            recorder
        });
        let (mut written, mut removed) = (ran.map(|_| None), Ok(()));
        for (path, recording) in recordings.into_inner() {
            let finished = recording.and_then(|recording| Ok(recording.finish()?));
            written = written.and_then(|written| {
                finished?;
                if written.is_some() {
                    return Ok(written);
                }
                let effort = (usize::MAX, recordings::FULL_EFFORT);
                recordings::write_smallest(&path, &to, self.registry, effort)
            });
            // Whatever went wrong, none of them is left over.
            let gone = fs::remove_file(&path)
                .with_context(|| format!("{}: cannot be removed", path.display()));
            removed = removed.and(gone);
        }
        let written = written?;
        removed?;
        match written {
            Some((difference, summary)) => {
                let (file, recorded) = (to.display(), recordings::describe(summary));
                notices::note(format_args!("{file}: {recorded}, which show that {difference}"));
            }
            None => notices::warning(format_args!(
                "seed {seed}: the difference does not show up in a replay, which has no transactions"
            )),
        }
        Ok(())
    }

    /// Runs the simulation of a seed. `recorders` is asked for a recorder of each of its runs.
    fn course(&mut self, seed: u64, recorders: Recorders<'_>) -> Result<Course> {
        let release = self.args.cluster.emulation.release();
        match self.groups(seed) {
            Groups::ByGates => {
                let (setup, profiles) = (&self.setup, || self.profiles(&self.setup));
                let recorders = of_runs(seed, setup, recorders);
                Ok(try_seed_recorded(seed, &setup.gates, &profiles, self.extent, &recorders)?)
            }
            Groups::OfApi => {
                let gates = swarm::group_gates(seed, release);
                if !self.with_groups.contains_key(&gates) {
                    let setup = setup_with(self.args, self.registry, &gates)?;
                    self.with_groups.insert(gates.clone(), setup);
                }
                let setup = &self.with_groups[&gates];
                let (profiles, recorders) =
                    (|| self.profiles(setup), of_runs(seed, setup, recorders));
                Ok(try_seed_recorded(seed, &setup.gates, &profiles, self.extent, &recorders)?)
            }
            Groups::Gangs => {
                let gates = on(release, &swarm::gang_gates(seed, release))?;
                let text = GangArgs::of(seed).configuration();
                let setup = Setup::of_text("the profile of gangs", &text, self.registry, &gates)?;
                let profiles = || self.profiles(&setup);
                let recorders = of_runs(seed, &setup, recorders);
                let gates = &setup.gates;
                Ok(try_seed_with_gangs_recorded(seed, gates, &profiles, GANGS, &recorders)?)
            }
        }
    }

    fn profiles(&self, setup: &Setup) -> Vec<Profile> {
        let specs = setup.configuration.profile_specs();
        let profiles = Profile::all_of(&specs, self.registry, &setup.gates);
        let profiles = profiles.expect("they were made before");
        match &self.rankings {
            Some(rankings) => old_scale::ranked(profiles, rankings),
            None => profiles,
        }
    }
}

/// What records the runs of a seed, given the setup and the options of a run and its number.
type Recorders<'a> = &'a dyn Fn(&Setup, &Options, usize) -> Option<Box<dyn Recorder>>;

/// The same for the runs of one seed with a setup.
fn of_runs<'a>(
    seed: u64,
    setup: &'a Setup,
    recorders: Recorders<'a>,
) -> impl Fn(usize) -> Option<Box<dyn Recorder>> + 'a {
    let options = swarm::options(seed, &setup.gates);
    move |number| recorders(setup, &options[number], number)
}

/// What groups of pods a simulation has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Groups {
    /// Those for which the gates of the command line are on: none without them.
    ByGates,
    /// Those of the API.
    OfApi,
    /// Gangs of Coscheduling.
    Gangs,
}

/// The PodGroups of Coscheduling.
const GANGS: GangKind = GangKind {
    kind: KindRef::of::<CoschedulingGroup>(),
    read: |object| {
        let group = object.get::<CoschedulingGroup>()?;
        Some(GangSpec {
            min_member: group.min_member,
            timeout_seconds: group.schedule_timeout_seconds,
            has_min_resources: group.min_resources.is_some(),
        })
    },
};

/// The feature gates of a release with these switched on.
fn on(release: Release, gates: &[&str]) -> Result<GivenGates> {
    let gates: Vec<String> = gates.iter().map(|gate| format!("{gate}=true")).collect();
    given_gates(release, &gates)
}

/// The configuration with more feature gates.
fn setup_with(args: &Simulate, registry: &Registry, gates: &[&str]) -> Result<Setup> {
    let gates = on(args.cluster.emulation.release(), gates)?;
    Setup::choose_under(&args.cluster, &[], registry, (&gates, Extenders::NotCalled))
}

fn record(seed: u64, course: &Course) -> serde_json::Value {
    let violations: Vec<String> = course.violations.iter().map(ToString::to_string).collect();
    json!({
        "seed": seed,
        "attempts": course.attempts,
        "scheduled": course.scheduled,
        "preemptions": course.preemptions,
        "groupAttempts": course.group_attempts,
        "groupsScheduled": course.groups_scheduled,
        "violations": violations,
    })
}

/// Prints what was found, and the command that reproduces it.
fn tell(out: &mut impl Write, args: &Simulate, seed: u64, course: &Course) -> Result<()> {
    if course.violations.is_empty() {
        return Ok(());
    }
    let config = args.cluster.config.as_ref();
    let config = config.map(|file| format!(" --config {}", file.display())).unwrap_or_default();
    let gates = &args.cluster.feature_gates;
    let gates = match gates.is_empty() {
        true => String::new(),
        false => format!(" --feature-gates {}", gates.join(",")),
    };
    let (release, scale) = (args.cluster.emulation.typed(), args.ranking.typed());
    writeln!(out, "plimsoll simulate --swarm 1 {release}{scale}--seed {seed}{config}{gates}")?;
    for violation in course.violations.iter().take(VIOLATIONS) {
        writeln!(out, "  {violation}")?;
    }
    if VIOLATIONS < course.violations.len() {
        writeln!(out, "  and {} more", course.violations.len() - VIOLATIONS)?;
    }
    Ok(())
}
