//! Replays a recording: makes the same calls on a new scheduler, and compares its effects.

use std::collections::HashSet;
use std::fmt;

use plimsoll_api::PodKey;
use plimsoll_engine::{Audit, Effect, Event, Observation, Scheduler};
use plimsoll_framework::Time;

use crate::decode::Entry;
use crate::effects::{EffectDigest, RecordedEffect};

/// A scheduler that is fed a recording.
#[derive(Debug)]
pub struct Replay {
    scheduler: Scheduler,
    digest: EffectDigest,
    tally: Tally,
    /// The pods that exist.
    pods: HashSet<PodKey>,
    /// The effects of the last step, until the recorded ones are read.
    open: Option<Open>,
    effects: Vec<Effect>,
}

/// The effects of a step that were not compared yet.
#[derive(Debug)]
struct Open {
    at: Time,
    effects: Vec<RecordedEffect>,
}

/// What has been replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many events: objects that were seen or gone, and answers.
    pub events: u64,
    /// How many steps.
    pub steps: u64,
    /// How many attempts ended.
    pub decisions: u64,
    /// How many of them with a pod that was bound.
    pub scheduled: u64,
    /// How many pods were seen; one that is made again under the same name counts again.
    pub pods: u64,
    /// The times of the first entry and of the last.
    pub span: Option<(Time, Time)>,
}

/// The first effect that differs from the recorded one.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// How many decisions before were the same.
    pub decisions: u64,
    /// The time of the step.
    pub now: Time,
    /// The recorded effect; none if there are fewer.
    pub recorded: Option<RecordedEffect>,
    /// The effect in the replay; none if there are fewer.
    pub replayed: Option<RecordedEffect>,
}

impl Difference {
    /// The pod of which the decision differs, if the recording says so.
    pub fn pod(&self) -> Option<&PodKey> {
        self.recorded.as_ref().or(self.replayed.as_ref()).map(|effect| &effect.pod)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let says = |effect: &Option<RecordedEffect>| match effect {
            Some(effect) => format!("pod {}: {}", effect.pod, effect.what),
            None => "nothing".to_owned(),
        };
        let (recorded, replayed) = (says(&self.recorded), says(&self.replayed));
        let (now, decisions) = (self.now, self.decisions);
        if self.recorded == self.replayed {
            // Only the digest differs.
            return write!(
                f,
                "at {now}, after {decisions} decisions: {recorded}: with other details than in the recording"
            );
        }
        write!(
            f,
            "at {now}, after {decisions} decisions: recorded: {recorded}; in the replay: {replayed}"
        )
    }
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Replayed {
    /// Everything is as recorded.
    Same,
    /// This differs. What comes after it cannot be compared.
    Differs(Box<Difference>),
}

impl Replay {
    /// A replay by a scheduler that has observed nothing.
    pub fn new(scheduler: Scheduler) -> Self {
        Replay {
            scheduler,
            digest: EffectDigest::default(),
            tally: Tally::default(),
            pods: HashSet::new(),
            open: None,
            effects: Vec::new(),
        }
    }

    /// What has been replayed.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// What audits have found in the replay.
    pub fn audit(&self) -> &Audit {
        self.scheduler.audit()
    }

    /// The digest of all effects up to now.
    pub fn digest(&self) -> u64 {
        self.digest.value()
    }

    /// Replays an entry. Pictures must be left out.
    pub fn play(&mut self, entry: Entry) -> Replayed {
        if let Entry::Effects(recorded, digest) = entry {
            return self.compare(&recorded, digest);
        }
        if let differs @ Replayed::Differs(_) = self.close() {
            return differs;
        }
        match entry {
            Entry::Event(now, event) => {
                self.passes(now);
                self.tally.events += 1;
                self.count_pod(&event);
                self.scheduler.observe(now, event);
            }
            Entry::Steps(now, steps) => {
                self.passes(now);
                for _ in 0..steps {
                    if let differs @ Replayed::Differs(_) = self.close() {
                        return differs;
                    }
                    self.tally.steps += 1;
                    self.scheduler.step(now, &mut self.effects);
                    self.open(now);
                }
            }
            Entry::WindUp(now) => {
                self.passes(now);
                self.scheduler.wind_up(now, &mut self.effects);
                self.open(now);
            }
            Entry::Waiting(decision) => self.scheduler.decide_waiting_pod(decision),
            Entry::Digest(digest) if digest != self.digest.value() => {
                let now = self.tally.span.map_or(Time::ZERO, |(_, last)| last);
                return self.differs(now, None, None);
            }
            Entry::Digest(_)
            | Entry::Effects(..)
            | Entry::PictureBegins
            | Entry::PictureEnds
            | Entry::Assumed(..)
            | Entry::End
            | Entry::Continues
            | Entry::Dropped => {}
        }
        Replayed::Same
    }

    /// Compares the effects of the last step if it has some and the recording has none. This must be called at the end
    /// of a complete recording.
    pub fn close(&mut self) -> Replayed {
        match self.open.take() {
            Some(Open { at, effects }) => self.differs(at, None, effects.into_iter().next()),
            None => Replayed::Same,
        }
    }

    fn passes(&mut self, now: Time) {
        let first = self.tally.span.map_or(now, |(first, _)| first);
        self.tally.span = Some((first, now));
    }

    fn count_pod(&mut self, event: &Event) {
        match event {
            Event::Pod(Observation::Is(pod)) if !self.pods.contains(&pod.key) => {
                self.pods.insert(pod.key.clone());
                self.tally.pods += 1;
            }
            Event::Pod(Observation::Gone(key)) => {
                self.pods.remove(key);
            }
            _ => {}
        }
    }

    /// Keeps the effects of a step until they are compared.
    fn open(&mut self, at: Time) {
        if self.effects.is_empty() {
            return;
        }
        for effect in &self.effects {
            self.digest.add(effect);
        }
        let effects = self.effects.drain(..).map(|effect| RecordedEffect::of(&effect)).collect();
        self.open = Some(Open { at, effects });
    }

    fn compare(&mut self, recorded: &[RecordedEffect], digest: u16) -> Replayed {
        let now = self.tally.span.map_or(Time::ZERO, |(_, last)| last);
        let Open { at, effects } =
            self.open.take().unwrap_or(Open { at: now, effects: Vec::new() });
        let n_both = recorded.len().max(effects.len());
        for index in 0..n_both {
            let (one, other) = (recorded.get(index), effects.get(index));
            if one != other {
                return self.differs(at, one.cloned(), other.cloned());
            }
            if let Some(is_scheduled) = one.and_then(RecordedEffect::ends_attempt) {
                self.tally.decisions += 1;
                self.tally.scheduled += u64::from(is_scheduled);
            }
        }
        let [low, high, ..] = self.digest.value().to_le_bytes();
        if u16::from_le_bytes([low, high]) != digest {
            return self.differs(at, recorded.last().cloned(), effects.last().cloned());
        }
        Replayed::Same
    }

    fn differs(
        &self,
        now: Time,
        recorded: Option<RecordedEffect>,
        replayed: Option<RecordedEffect>,
    ) -> Replayed {
        let decisions = self.tally.decisions;
        Replayed::Differs(Box::new(Difference { decisions, now, recorded, replayed }))
    }
}
