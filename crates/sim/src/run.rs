//! The loop around the engine in virtual time.

use plimsoll_engine::{Decision, Event, Next, Scheduler};
use plimsoll_framework::Time;

use crate::world::{Cluster, World};

/// A simulation under way.
#[derive(Debug)]
pub struct Simulation {
    scheduler: Scheduler,
    world: World,
    now: Time,
}

impl Simulation {
    /// The scheduler has seen `cluster` and not yet begun to work.
    pub fn new(scheduler: Scheduler, cluster: Cluster) -> Self {
        let mut simulation = Simulation { scheduler, world: World::default(), now: Time::ZERO };
        simulation.tell(cluster.into_events());
        simulation
    }

    /// Lets the scheduler work until it has decided something. `None` once nothing can change any
    /// more: every pod that is left waits for something that will not happen in this cluster.
    pub fn advance(&mut self) -> Option<Vec<Decision>> {
        let mut effects = Vec::new();
        loop {
            let next = self.scheduler.step(self.now, &mut effects);
            // The world answers, so what the scheduler said of the time to come holds no longer.
            let answered = !effects.is_empty();
            for effect in effects.drain(..) {
                let events = self.world.perform(effect);
                self.tell(events);
            }
            let decisions = self.scheduler.take_decisions();
            if !decisions.is_empty() {
                return Some(decisions);
            }
            match next {
                _ if answered => {}
                Next::Again => {}
                _ if self.scheduler.is_settled() => return None,
                Next::At(time) => self.now = time,
                Next::Idle => return None,
            }
        }
    }

    /// The scheduler as it stands.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    fn tell(&mut self, events: Vec<Event>) {
        for event in events {
            self.world.observe(&event);
            self.scheduler.observe(self.now, event);
        }
    }
}

/// Runs a simulation to its end and hands every decision to `each`, in order.
pub fn simulate(
    scheduler: Scheduler,
    cluster: Cluster,
    mut each: impl FnMut(&Decision),
) -> Scheduler {
    let mut simulation = Simulation::new(scheduler, cluster);
    while let Some(decisions) = simulation.advance() {
        decisions.iter().for_each(&mut each);
    }
    simulation.scheduler
}
