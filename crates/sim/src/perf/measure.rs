//! The loop around the engine, with a clock that runs only while the engine works.

use std::time::Duration;

use hdrhistogram::Histogram;
use plimsoll_engine::{Effect, Event, Next, Observation, Scheduler, Write};
use plimsoll_framework::Time;

use super::instant_cluster::InstantCluster;
use super::plan::{Events, WorkloadPlan};

/// How many objects are created at once while the clock is stopped. Only these are in memory twice.
const BATCH: usize = 4096;
/// The longest decision that is recorded exactly.
const LONGEST: Duration = Duration::from_hours(1);
/// The precision of latencies, in decimal digits.
const DIGITS: u8 = 3;

/// The clock of a measurement. Decisions do not depend on it.
pub trait MeasurementClock {
    /// The time since some moment in the past.
    fn wall(&self) -> Duration;
    /// The CPU time of this process; `None` if unknown.
    fn cpu(&self) -> Option<Duration>;
}

/// The measurement of a workload.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// How long the engine worked before the measurement: adding nodes and volumes, and placing the
    /// initial pods.
    pub set_up: Duration,
    /// The phases of the measurement; empty if nothing was measured.
    pub phases: Vec<MeasuredPhase>,
    /// The CPU time of the measured part. It includes creating the answers to writes, but not other
    /// objects.
    pub cpu: Option<Duration>,
    /// How many pods have no node at the end.
    pub unschedulable: usize,
    /// A hash of the bindings in their order.
    pub placements: u64,
}

/// A part of a measurement.
#[derive(Clone, Debug)]
pub struct MeasuredPhase {
    /// What happens in it.
    pub name: &'static str,
    /// How long the engine worked.
    pub wall: Duration,
    /// How many pods were added.
    pub pods: usize,
    /// How many pods were bound.
    pub scheduled: usize,
    /// How many attempts found no node.
    pub failed: usize,
    /// How many pods were evicted for others.
    pub evicted: usize,
    /// How long each decision took.
    pub latency: Latency,
}

/// The duration of every step of the engine that decided something.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Latency {
    fn new() -> Self {
        let longest = u64::try_from(LONGEST.as_nanos()).expect("an hour has few nanoseconds");
        // All memory is allocated now, so that nothing is allocated while the clock runs.
        Latency(Histogram::new_with_bounds(1, longest, DIGITS).expect("the bounds are right"))
    }

    fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// How many decisions there were.
    pub fn decisions(&self) -> u64 {
        self.0.len()
    }

    /// The quantile (0 to 1) of the durations.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(quantile))
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}

impl MeasuredPhase {
    fn new(name: &'static str) -> Self {
        MeasuredPhase {
            name,
            wall: Duration::ZERO,
            pods: 0,
            scheduled: 0,
            failed: 0,
            evicted: 0,
            latency: Latency::new(),
        }
    }

    /// Counts the writes of a step, and returns whether it decided something.
    fn note(&mut self, effects: &[Effect]) -> bool {
        let mut decided = false;
        for effect in effects {
            match &effect.write {
                Write::Bind(_) => self.scheduled += 1,
                Write::Condition(_) => self.failed += 1,
                Write::Evict(_) => {
                    self.evicted += 1;
                    continue;
                }
                Write::Nominate(_)
                | Write::Object(_)
                | Write::GroupCondition(_)
                | Write::Record(_)
                | Write::Extender(_) => {
                    continue;
                }
            }
            decided = true;
        }
        decided
    }
}

/// The name of all phases together.
const TOTAL: &str = "total";

impl Measurement {
    /// All phases as one.
    pub fn total(&self) -> MeasuredPhase {
        let Some((first, others)) = self.phases.split_first() else {
            return MeasuredPhase::new(TOTAL);
        };
        let mut total = MeasuredPhase { name: TOTAL, ..first.clone() };
        for phase in others {
            total.wall += phase.wall;
            total.pods += phase.pods;
            total.scheduled += phase.scheduled;
            total.failed += phase.failed;
            total.evicted += phase.evicted;
            total.latency.0.add(&phase.latency.0).expect("their bounds are the same");
        }
        total
    }
}

/// Runs a plan.
pub(super) fn measure(
    plan: WorkloadPlan,
    scheduler: &mut Scheduler,
    meter: &dyn MeasurementClock,
) -> Measurement {
    let WorkloadPlan { objects, init_pods, rounds } = plan;
    let mut lap = MeasuredRun {
        scheduler,
        meter,
        world: InstantCluster::default(),
        now: Time::ZERO,
        phase: MeasuredPhase::new("set-up"),
        made: Duration::ZERO,
        effects: Vec::new(),
        events: Vec::with_capacity(BATCH),
    };
    lap.take_in(objects);
    lap.take_in(init_pods);
    lap.rest(None);
    let (begun, made) = (meter.cpu(), lap.made);
    let (mut phases, mut is_cut_short) = (Vec::new(), false);
    for round in rounds {
        if lap.phase.name != round.phase {
            phases.push(std::mem::replace(&mut lap.phase, MeasuredPhase::new(round.phase)));
        }
        lap.take_in(round.events);
        lap.rest(round.pace.map(|pace| lap.now + pace));
        is_cut_short = round.pace.is_some();
    }
    if is_cut_short {
        lap.rest(None);
    }
    let making = lap.made.saturating_sub(made);
    let placements = lap.world.placements();
    phases.push(lap.phase);
    let set_up = phases.remove(0).wall;
    let cpu =
        meter.cpu().zip(begun).map(|(end, begun)| end.saturating_sub(begun).saturating_sub(making));
    Measurement { set_up, phases, cpu, unschedulable: scheduler.pending().count(), placements }
}

/// A scheduler that runs a plan.
struct MeasuredRun<'a> {
    scheduler: &'a mut Scheduler,
    meter: &'a dyn MeasurementClock,
    world: InstantCluster,
    /// Virtual time: a decision takes no time.
    now: Time,
    phase: MeasuredPhase,
    /// The CPU time for creating objects.
    made: Duration,
    effects: Vec<Effect>,
    /// The next events for the scheduler.
    events: Vec<Event>,
}

impl MeasuredRun<'_> {
    /// Passes events to the scheduler that happen at the same time.
    fn take_in(&mut self, mut events: Events) {
        loop {
            let begun = self.meter.cpu();
            self.events.extend(events.by_ref().take(BATCH));
            let comes = |event: &&Event| match event {
                Event::Pod(Observation::Is(pod)) => !self.scheduler.knows_pod(&pod.key),
                _ => false,
            };
            self.phase.pods += self.events.iter().filter(comes).count();
            let made = self.meter.cpu().zip(begun).map(|(end, begun)| end.saturating_sub(begun));
            self.made += made.unwrap_or_default();
            if self.events.is_empty() {
                return;
            }
            self.events.iter().for_each(|event| self.world.observe(event));
            self.tell();
        }
    }

    fn tell(&mut self) {
        let begun = self.meter.wall();
        for event in self.events.drain(..) {
            self.scheduler.observe(self.now, event);
        }
        self.phase.wall += self.meter.wall().saturating_sub(begun);
    }

    /// Runs the scheduler until this time, or until nothing is left to do, and answers its writes.
    fn rest(&mut self, until: Option<Time>) {
        loop {
            let begun = self.meter.wall();
            let next = self.scheduler.step(self.now, &mut self.effects);
            let took = self.meter.wall().saturating_sub(begun);
            self.phase.wall += took;
            if self.phase.note(&self.effects) {
                self.phase.latency.record(took);
            }
            for effect in self.effects.drain(..) {
                self.world.answer(self.now, effect, &mut self.events);
            }
            if !self.events.is_empty() {
                self.tell();
                continue;
            }
            match next {
                Next::Again => {}
                // When pods only wait for a change of the cluster, the run is over, since there will be
                // none.
                Next::At(time)
                    if !self.scheduler.is_settled() && until.is_none_or(|until| time < until) =>
                {
                    self.now = time;
                }
                Next::At(_) | Next::Idle => {
                    self.now = until.unwrap_or(self.now);
                    return;
                }
            }
        }
    }
}
