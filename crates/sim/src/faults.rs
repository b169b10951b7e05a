//! Faults in the rest of the cluster: set explicitly in scripts, at random in swarms.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_framework::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// A request to the rest of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestVerb {
    /// To bind a pod.
    Bind,
    /// To write an object for a plugin.
    Write,
    /// To evict a pod.
    Evict,
    /// To provision a volume.
    Provision,
    /// To end a pod that is being deleted.
    Terminate,
    /// To prepare a device that was allocated, so that it meets its conditions.
    Prepare,
}

/// How a request is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// It is done and answered at once.
    #[default]
    Works,
    /// It is done and answered after this span.
    Late(Duration),
    /// It is done and answered at once, but its result is observed only after this span.
    Unseen(Duration),
    /// It is not done, and the answer says so.
    Refused,
    /// It is done, but the answer is lost.
    Unanswered,
    /// It is neither done nor answered.
    Lost,
}

/// How the rest of the cluster carries out requests.
#[derive(Debug, Default)]
pub struct RequestFaults {
    fixed: BTreeMap<RequestVerb, Manner>,
    chance: Option<RandomFaults>,
}

#[derive(Debug)]
struct RandomFaults {
    rng: Pcg64,
    percent: u32,
    until: Time,
}

/// The longest delay in a swarm: shorter than the write timeout of the scheduler. A write that takes
/// effect after the scheduler has given it up could not be distinguished from one by another scheduler.
const LATEST_SECONDS: u64 = 20;

impl RequestFaults {
    /// Until `until`, `percent` of all requests fail at random, determined by `seed`.
    pub fn by_chance(seed: u64, percent: u32, until: Time) -> Self {
        let rng = Pcg64::seed_from_u64(seed);
        RequestFaults { fixed: BTreeMap::new(), chance: Some(RandomFaults { rng, percent, until }) }
    }

    /// From now on requests of `verb` are carried out in this manner.
    pub fn set(&mut self, verb: RequestVerb, manner: Manner) {
        self.fixed.insert(verb, manner);
    }

    /// How a request at `now` is carried out.
    pub(crate) fn manner(&mut self, now: Time, verb: RequestVerb) -> Manner {
        if let Some(manner) = self.fixed.get(&verb) {
            return *manner;
        }
        match &mut self.chance {
            Some(chance) if now < chance.until => chance.manner(verb),
            _ => Manner::Works,
        }
    }
}

impl RandomFaults {
    fn manner(&mut self, verb: RequestVerb) -> Manner {
        if self.percent <= self.rng.random_range(0..100) {
            return Manner::Works;
        }
        let span = Duration::from_secs(self.rng.random_range(1..=LATEST_SECONDS));
        let manners = match verb {
            // Nobody waits for an answer.
            RequestVerb::Terminate => &[Manner::Late(span)][..],
            RequestVerb::Bind => &[
                Manner::Late(span),
                Manner::Unseen(span),
                Manner::Refused,
                Manner::Unanswered,
                Manner::Lost,
            ],
            // A lost request would be repeated forever, since the volume would never be provisioned.
            RequestVerb::Provision => &[Manner::Late(span), Manner::Refused],
            // A pod waits for a lost answer until its time is out.
            RequestVerb::Prepare => &[Manner::Late(span), Manner::Refused, Manner::Lost],
            // Evictions without an answer are not simulated.
            RequestVerb::Evict => &[Manner::Late(span), Manner::Refused],
            RequestVerb::Write => {
                &[Manner::Late(span), Manner::Refused, Manner::Unanswered, Manner::Lost]
            }
        };
        manners[self.rng.random_range(0..manners.len())]
    }
}
