//! What goes wrong in the rest of the cluster: on purpose in scripts, by chance in swarms.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_framework::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// What the rest of the cluster is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// To bind a pod.
    Bind,
    /// To write an object for a plugin.
    Write,
    /// To evict a pod.
    Evict,
    /// To provision a volume.
    Provision,
    /// To end a pod that was told to go.
    Terminate,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// It is done and answered at once.
    #[default]
    Works,
    /// It is done and answered after this span.
    Late(Duration),
    /// It is done and answered at once, but what came of it is seen only after this span.
    Unseen(Duration),
    /// It is not done, and the answer says so.
    Refused,
    /// It is done, but the answer is lost.
    Unanswered,
    /// It is neither done nor answered.
    Lost,
}

/// How the rest of the cluster does what it is asked to do.
#[derive(Debug, Default)]
pub struct Faults {
    fixed: BTreeMap<Verb, Manner>,
    chance: Option<Chance>,
}

#[derive(Debug)]
struct Chance {
    rng: Pcg64,
    percent: u32,
    until: Time,
}

/// The longest that a swarm delays anything: shorter than a scheduler waits for an answer. What is done
/// after the scheduler has given up could not be told from what another scheduler does.
const LATEST_SECONDS: u64 = 20;

impl Faults {
    /// Until `until`, `percent` of all that is asked goes wrong, as `seed` has it.
    pub fn by_chance(seed: u64, percent: u32, until: Time) -> Self {
        let rng = Pcg64::seed_from_u64(seed);
        Faults { fixed: BTreeMap::new(), chance: Some(Chance { rng, percent, until }) }
    }

    /// From now on `verb` is done in this manner.
    pub fn set(&mut self, verb: Verb, manner: Manner) {
        self.fixed.insert(verb, manner);
    }

    /// What becomes of something that is asked for at `now`.
    pub(crate) fn manner(&mut self, now: Time, verb: Verb) -> Manner {
        if let Some(manner) = self.fixed.get(&verb) {
            return *manner;
        }
        match &mut self.chance {
            Some(chance) if now < chance.until => chance.manner(verb),
            _ => Manner::Works,
        }
    }
}

impl Chance {
    fn manner(&mut self, verb: Verb) -> Manner {
        if self.percent <= self.rng.random_range(0..100) {
            return Manner::Works;
        }
        let span = Duration::from_secs(self.rng.random_range(1..=LATEST_SECONDS));
        let manners = match verb {
            // Nobody waits for an answer.
            Verb::Terminate => &[Manner::Late(span)][..],
            Verb::Bind => &[
                Manner::Late(span),
                Manner::Unseen(span),
                Manner::Refused,
                Manner::Unanswered,
                Manner::Lost,
            ],
            // A volume that is never provisioned is asked for again and again.
            Verb::Provision => &[Manner::Late(span), Manner::Refused],
            // An eviction that nobody answers keeps its pod out for good, in kube-scheduler as here.
            Verb::Evict => &[Manner::Late(span), Manner::Refused],
            Verb::Write => &[Manner::Late(span), Manner::Refused, Manner::Unanswered, Manner::Lost],
        };
        manners[self.rng.random_range(0..manners.len())]
    }
}
