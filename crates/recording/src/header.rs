//! The header of a recording: everything that a scheduler is made of.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_engine::extenders::ExtenderVerb;
use plimsoll_engine::{
    Backoff, Engine, Extender, Gates, Options, Profile, ProfileError, Reservations, Scans,
    Scheduler, TieBreak,
};
use plimsoll_framework::{FeatureGates, GroupGates, Point, ProfileSpec, Registry, Release};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The first frame of every part, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The program that recorded, such as `plimsoll 0.1.0`.
    pub program: String,
    /// The command: `run` or `simulate`.
    pub command: String,
    /// The seed for random choices.
    pub seed: u64,
    /// The release that decides, as its minor number: 37 for 1.37.
    pub release: u32,
    /// The feature gates that were set.
    pub feature_gates: BTreeMap<String, bool>,
    /// The options of the engine.
    pub options: RecordedOptions,
    /// The profiles, with all defaults.
    pub profiles: Vec<RecordedProfile>,
    /// The extenders, in the order in which they are called.
    pub extenders: Vec<RecordedExtender>,
    /// The number of this part, starting with 1.
    #[serde(default = "first")]
    pub part: u32,
    /// The digest of all effects before this part, in hexadecimal.
    #[serde(default)]
    pub digest: String,
    /// How many events there were before this part.
    #[serde(default)]
    pub events_before: u64,
}

fn first() -> u32 {
    1
}

/// [`Options`], as far as decisions depend on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a gate of its own")]
pub struct RecordedOptions {
    /// Whether decisions were made from scratch.
    pub from_scratch: bool,
    /// `where-cheaper`, `always` or `never`.
    pub scans: String,
    /// Every n-th decision was audited; 0 for none.
    pub audit_every: u32,
    /// Whether ties are broken at random.
    pub random_ties: bool,
    /// In milliseconds.
    pub initial_backoff: u64,
    /// In milliseconds.
    pub max_backoff: u64,
    /// In milliseconds.
    pub max_in_unschedulable: u64,
    /// In milliseconds.
    pub write_timeout: u64,
    /// `SchedulerPopFromBackoffQ`.
    pub pops_from_backoff: bool,
    /// `SchedulerAsyncPreemption`.
    pub preempts_async: bool,
    /// `NominatedNodeNameForExpectation`.
    pub says_expected_node: bool,
    /// `PodLevelResources`.
    pub pod_level_resources: bool,
    /// `InPlacePodLevelResourcesVerticalScaling`.
    pub pod_level_resize: bool,
    /// When room is reserved for groups, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservations: Option<RecordedReservations>,
}

/// [`Reservations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedReservations {
    /// In milliseconds.
    pub after: u64,
    /// In milliseconds.
    pub at_most: u64,
}

/// A [`ProfileSpec`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedProfile {
    scheduler_name: String,
    percentage_of_nodes_to_score: Option<u8>,
    /// The plugins with their weights, by the name of the point in configurations.
    points: BTreeMap<String, Vec<(String, i64)>>,
    args: BTreeMap<String, Value>,
    run_all_filters: bool,
}

/// An [`Extender`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "an extender is configured by such fields")]
pub struct RecordedExtender {
    name: String,
    filters: bool,
    prioritizes: bool,
    preempts: bool,
    binds: bool,
    weight: i64,
    ignorable: bool,
    managed_resources: Vec<String>,
    /// In milliseconds.
    timeout: u64,
}

impl Header {
    /// The header for a scheduler with these profiles, options and seed. `gates` are those of its profiles.
    pub fn new(
        (program, command): (&str, &str),
        profiles: &[ProfileSpec],
        gates: &FeatureGates,
        options: &Options,
        seed: u64,
    ) -> Self {
        Header {
            program: program.to_owned(),
            command: command.to_owned(),
            seed,
            release: options.release.minor(),
            feature_gates: gates.iter().map(|(name, on)| (name.to_owned(), on)).collect(),
            options: RecordedOptions::of(options),
            profiles: profiles.iter().map(RecordedProfile::of).collect(),
            extenders: Vec::new(),
            part: 1,
            digest: String::new(),
            events_before: 0,
        }
    }

    /// A header that says nothing, until it is read.
    pub(crate) fn empty() -> Self {
        let gates = FeatureGates::default();
        Header::new(("", ""), &[], &gates, &Options::default(), 0)
    }

    /// The same with these extenders, in the order in which they are called.
    #[must_use]
    pub fn with_extenders(self, extenders: &[Extender]) -> Self {
        Header { extenders: extenders.iter().map(RecordedExtender::of).collect(), ..self }
    }

    /// The same with these options.
    #[must_use]
    pub fn with_options(self, options: &Options) -> Self {
        Header { options: RecordedOptions::of(options), ..self }
    }

    /// The feature gates.
    fn gates(&self) -> FeatureGates {
        let release = FeatureGates::of(Release::nearest(self.release));
        self.feature_gates.iter().fold(release, |gates, (name, on)| gates.with(name, *on))
    }

    /// The options of the engine. Nothing is measured, and no details of decisions are kept.
    pub fn options(&self) -> Options {
        let RecordedOptions { from_scratch, audit_every, random_ties, .. } = self.options;
        let recorded = &self.options;
        Options {
            release: Release::nearest(self.release),
            engine: if from_scratch { Engine::Reference } else { Engine::Fast },
            scans: match recorded.scans.as_str() {
                "always" => Scans::Always,
                "never" => Scans::Never,
                _ => Scans::WhereCheaper,
            },
            audit_every,
            gates: Gates {
                pops_from_backoff: recorded.pops_from_backoff,
                preempts_async: recorded.preempts_async,
                says_expected_node: recorded.says_expected_node,
                pod_level_resources: recorded.pod_level_resources,
                pod_level_resize: recorded.pod_level_resize,
                groups: GroupGates::of(&self.gates()),
            },
            tie_break: if random_ties { TieBreak::Random } else { TieBreak::First },
            backoff: Backoff {
                initial: Duration::from_millis(recorded.initial_backoff),
                max: Duration::from_millis(recorded.max_backoff),
            },
            max_in_unschedulable: Duration::from_millis(recorded.max_in_unschedulable),
            write_timeout: Duration::from_millis(recorded.write_timeout),
            reservations: recorded.reservations.map(|recorded| Reservations {
                after: Duration::from_millis(recorded.after),
                at_most: Duration::from_millis(recorded.at_most),
            }),
            ..Options::default()
        }
    }

    /// A new scheduler as it was when the recording began, but with these `options`.
    ///
    /// It is an error if `registry` does not have a plugin of the profiles.
    pub fn scheduler(
        &self,
        registry: &Registry,
        options: Options,
    ) -> Result<Scheduler, ProfileError> {
        let specs: Vec<ProfileSpec> = self.profiles.iter().map(RecordedProfile::spec).collect();
        let gates = self.gates();
        let profiles = Profile::all_of(&specs, registry, &gates)?;
        let extenders = self.extenders.iter().map(RecordedExtender::extender).collect();
        Ok(Scheduler::new(profiles, options, self.seed)?.with_extenders(extenders))
    }
}

impl RecordedOptions {
    fn of(options: &Options) -> Self {
        // What decisions do not depend on is left out.
        let Options {
            release: _,
            engine,
            scans,
            audit_every,
            gates,
            tie_break,
            detail: _,
            backoff,
            max_in_unschedulable,
            write_timeout,
            reservations,
            stopwatch: _,
        } = *options;
        let scans = match scans {
            Scans::WhereCheaper => "where-cheaper",
            Scans::Always => "always",
            Scans::Never => "never",
        };
        RecordedOptions {
            from_scratch: engine == Engine::Reference,
            scans: scans.to_owned(),
            audit_every,
            random_ties: tie_break == TieBreak::Random,
            initial_backoff: millis(backoff.initial),
            max_backoff: millis(backoff.max),
            max_in_unschedulable: millis(max_in_unschedulable),
            write_timeout: millis(write_timeout),
            pops_from_backoff: gates.pops_from_backoff,
            preempts_async: gates.preempts_async,
            says_expected_node: gates.says_expected_node,
            pod_level_resources: gates.pod_level_resources,
            pod_level_resize: gates.pod_level_resize,
            reservations: reservations.map(|rule| RecordedReservations {
                after: millis(rule.after),
                at_most: millis(rule.at_most),
            }),
        }
    }
}

/// Times of the engine have whole milliseconds.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl RecordedProfile {
    fn of(spec: &ProfileSpec) -> Self {
        let ProfileSpec {
            scheduler_name,
            percentage_of_nodes_to_score,
            points,
            args,
            run_all_filters,
        } = spec.clone();
        let points = points.into_iter().map(|(point, all)| (point.key().to_owned(), all));
        RecordedProfile {
            scheduler_name,
            percentage_of_nodes_to_score,
            points: points.collect(),
            args,
            run_all_filters,
        }
    }

    fn spec(&self) -> ProfileSpec {
        let of = |point: Point| Some((point, self.points.get(point.key())?.clone()));
        ProfileSpec {
            scheduler_name: self.scheduler_name.clone(),
            percentage_of_nodes_to_score: self.percentage_of_nodes_to_score,
            points: Point::ALL.into_iter().filter_map(of).collect(),
            args: self.args.clone(),
            run_all_filters: self.run_all_filters,
        }
    }
}

impl RecordedExtender {
    fn of(extender: &Extender) -> Self {
        let Extender { name, verbs: _, weight, ignorable, managed_resources, timeout } = extender;
        RecordedExtender {
            name: name.to_string(),
            filters: extender.does(ExtenderVerb::Filter),
            prioritizes: extender.does(ExtenderVerb::Prioritize),
            preempts: extender.does(ExtenderVerb::Preempt),
            binds: extender.does(ExtenderVerb::Bind),
            weight: *weight,
            ignorable: *ignorable,
            managed_resources: managed_resources.iter().map(ToString::to_string).collect(),
            timeout: millis(*timeout),
        }
    }

    fn extender(&self) -> Extender {
        let verbs = [
            (self.filters, ExtenderVerb::Filter),
            (self.prioritizes, ExtenderVerb::Prioritize),
            (self.preempts, ExtenderVerb::Preempt),
            (self.binds, ExtenderVerb::Bind),
        ];
        Extender {
            name: self.name.as_str().into(),
            verbs: verbs.into_iter().filter_map(|(does, verb)| does.then_some(verb)).collect(),
            weight: self.weight,
            ignorable: self.ignorable,
            managed_resources: self.managed_resources.iter().map(Into::into).collect(),
            timeout: Duration::from_millis(self.timeout),
        }
    }
}
