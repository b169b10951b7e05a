//! The recorder that is shown everything, and the thread that writes it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_engine::{Audit, Effect, Event, Recorder};
use plimsoll_framework::{Time, WaitingDecision};

use crate::effects::{EffectDigest, RecordedEffect};
use crate::error::RecordError;
use crate::form::Form;
use crate::header::Header;
use crate::writer::{Added, Destination, Writer};

/// At most 65,536 inputs wait to be written: seconds of a busy scheduler, and some tens of megabytes.
const MOST_WAITING: usize = 1 << 16;

/// The thread that writes is woken when this many inputs wait. To wake it for each would cost the scheduler more than
/// all else.
const WOKEN_FOR: usize = 1 << 10;

/// It also looks by itself, this often.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// In a recording of `run`, what was recorded is in the file after about a second: a crash loses no more.
const FLUSHED_EVERY: Duration = Duration::from_secs(1);

/// What happens if the recording is slower than the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The scheduler waits: for simulations.
    Wait,
    /// The recording ends, and says so: for a real cluster, where decisions must not wait. It is also written to the
    /// file at least every second.
    End,
}

/// A recording that is being written.
#[derive(Debug)]
pub struct Recording {
    queue: Arc<Queue>,
    writing: JoinHandle<Result<Summary, RecordError>>,
    when_full: WhenFull,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many events.
    pub events: u64,
    /// How many bytes all parts have had.
    pub bytes: u64,
    /// How many parts there were.
    pub parts: u32,
}

/// What the thread is told.
#[derive(Debug)]
enum Input {
    Event(Time, Event),
    Step(Time, Vec<RecordedEffect>, u64),
    WindUp(Time, Vec<RecordedEffect>, u64),
    Waiting(WaitingDecision),
}

/// The inputs that wait to be written.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// The writer has taken all inputs.
    room: Condvar,
    /// There is something to write, or nothing will follow.
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    inputs: Vec<Input>,
    /// Why no more inputs are taken.
    closed: Option<Closed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    /// The recording is finished.
    Finished,
    /// There was no room.
    Full,
    /// The thread has ended with an error.
    Failed,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, why: Closed) {
        self.lock().closed.get_or_insert(why);
        self.work.notify_one();
        self.room.notify_one();
    }

    fn add(&self, input: Input, when_full: WhenFull) {
        let mut state = self.lock();
        while state.inputs.len() == MOST_WAITING && state.closed.is_none() {
            match when_full {
                WhenFull::Wait => {
                    state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                WhenFull::End => state.closed = Some(Closed::Full),
            }
        }
        if state.closed.is_none() {
            state.inputs.push(input);
            if state.inputs.len() == WOKEN_FOR {
                self.work.notify_one();
            }
        }
    }

    /// Takes all inputs, after waiting for some. `taken` is empty and its memory is used again.
    fn take(&self, taken: &mut Vec<Input>) -> Option<Closed> {
        let mut state = self.lock();
        if state.inputs.is_empty() && state.closed.is_none() {
            let waited = self.work.wait_timeout(state, LOOKS_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut state.inputs, taken);
        self.room.notify_one();
        state.closed
    }
}

impl Recording {
    /// Creates the first file and starts the thread that writes. If the recording ends early, the thread calls `ended`
    /// with the reason.
    pub fn start(
        destination: Destination,
        header: Header,
        when_full: WhenFull,
        ended: impl FnOnce(&RecordError) + Send + 'static,
    ) -> Result<Self, RecordError> {
        let writer = Writer::create(destination, header)?;
        let (queue, path) = (Arc::new(Queue::default()), writer.path().to_owned());
        let inputs = queue.clone();
        let flushed_every = (when_full == WhenFull::End).then_some(FLUSHED_EVERY);
        let writing = std::thread::Builder::new().name("recording".to_owned()).spawn(move || {
            let written = write(writer, &inputs, flushed_every);
            if let Err(error) = &written {
                inputs.close(Closed::Failed);
                ended(error);
            }
            written
        });
        let writing = writing.map_err(|error| RecordError::Io { path, error })?;
        Ok(Recording { queue, writing, when_full })
    }

    /// A recorder for a new scheduler. There should be only one.
    pub fn recorder(&self) -> Box<dyn Recorder> {
        Box::new(QueueingRecorder {
            queue: self.queue.clone(),
            when_full: self.when_full,
            digest: EffectDigest::default(),
        })
    }

    /// Writes the rest. What the scheduler does afterwards is not recorded.
    ///
    /// It is an error if the recording ended early, also if that was reported already.
    pub fn finish(self) -> Result<Summary, RecordError> {
        self.queue.close(Closed::Finished);
        self.writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Passes everything to the thread that writes.
#[derive(Debug)]
struct QueueingRecorder {
    queue: Arc<Queue>,
    when_full: WhenFull,
    digest: EffectDigest,
}

impl QueueingRecorder {
    fn add(&self, input: Input) {
        self.queue.add(input, self.when_full);
    }

    fn effects(&mut self, effects: &[Effect]) -> (Vec<RecordedEffect>, u64) {
        for effect in effects {
            self.digest.add(effect);
        }
        (effects.iter().map(RecordedEffect::of).collect(), self.digest.value())
    }
}

impl Recorder for QueueingRecorder {
    fn observed(&mut self, now: Time, event: &Event) {
        self.add(Input::Event(now, event.clone()));
    }

    fn stepped(&mut self, now: Time, effects: &[Effect], _: &Audit) {
        let (effects, digest) = self.effects(effects);
        self.add(Input::Step(now, effects, digest));
    }

    fn wound_up(&mut self, now: Time, effects: &[Effect]) {
        let (effects, digest) = self.effects(effects);
        self.add(Input::WindUp(now, effects, digest));
    }

    fn waiting_pod(&mut self, decision: &WaitingDecision) {
        self.add(Input::Waiting(decision.clone()));
    }
}

/// Writes what it receives, until the queue is closed.
fn write(
    mut writer: Writer,
    queue: &Queue,
    flushed_every: Option<Duration>,
) -> Result<Summary, RecordError> {
    let (mut inputs, mut flushed) = (Vec::new(), Instant::now());
    let closed = loop {
        let closed = queue.take(&mut inputs);
        for input in inputs.drain(..) {
            add(&mut writer, input)?;
        }
        if flushed_every.is_some_and(|span| span <= flushed.elapsed()) {
            writer.flush()?;
            flushed = Instant::now();
        }
        if let Some(closed) = closed {
            break closed;
        }
    };
    if closed == Closed::Full {
        writer.finish(&Form::Dropped)?;
        let (path, event) = (writer.path().to_owned(), writer.events());
        return Err(RecordError::TooSlow { path, waiting: MOST_WAITING, event });
    }
    writer.finish(&Form::End)?;
    let (bytes, parts) = writer.size();
    Ok(Summary { events: writer.events(), bytes, parts })
}

fn add(writer: &mut Writer, input: Input) -> Result<(), RecordError> {
    writer.add(|encoder| {
        Ok(match input {
            Input::Event(now, event) => {
                encoder.observed(now, &event)?;
                Added { events: 1, digest: None }
            }
            Input::Step(now, effects, digest) => {
                encoder.stepped(now, &effects, digest);
                Added { events: 0, digest: Some(digest) }
            }
            Input::WindUp(now, effects, digest) => {
                encoder.wound_up(now, &effects, digest);
                Added { events: 0, digest: Some(digest) }
            }
            Input::Waiting(decision) => {
                encoder.waiting_pod(&decision);
                Added::default()
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::Options;
    use plimsoll_framework::FeatureGates;

    use super::*;
    use crate::{Ending, Limits, Reader};

    #[test]
    fn a_recording_that_cannot_keep_up_ends_and_says_before_which_event() {
        let directory = tempfile::tempdir().expect("there is room");
        let path = directory.path().join("recording");
        let header =
            Header::new(("test", "test"), &[], &FeatureGates::default(), &Options::default(), 0);
        let destination = Destination { path: path.clone(), limits: Limits::NONE };
        let writer = Writer::create(destination, header).expect("there is room");
        let queue = Queue::default();
        for _ in 0..=MOST_WAITING {
            let event = Event::pod_gone(plimsoll_api::PodKey::new("a", "b"));
            queue.add(Input::Event(Time::ZERO, event), WhenFull::End);
        }
        let error = write(writer, &queue, None).expect_err("one event was too many");
        let RecordError::TooSlow { event, .. } = &error else { panic!("{error}") };
        assert_eq!(*event, MOST_WAITING as u64);
        let mut reader = Reader::open(&path, plimsoll_api::Kinds::built_in()).expect("it is there");
        let mut n_events = 0;
        while let Some(entry) = reader.next().expect("it is whole") {
            n_events += u64::from(matches!(entry, crate::Entry::Event(..)));
        }
        assert_eq!((n_events, reader.ending()), (*event, Some(Ending::Dropped)));
    }
}
