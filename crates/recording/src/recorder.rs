//! The recorder that is shown everything, and the thread that writes it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_engine::{Audit, Effect, Event, Recorder};
use plimsoll_framework::{Time, WaitingDecision};

use crate::effects::{EffectDigest, RecordedEffect};
use crate::error::RecordError;
use crate::form::Form;
use crate::header::Header;
use crate::writer::{Added, Destination, Writer};

/// At most 65,536 inputs wait to be written: seconds of a busy scheduler, and some tens of megabytes.
const MOST_WAITING: usize = 1 << 16;

/// In a recording of `run`, what was recorded is in the file after at most a second: a crash loses no more.
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
    inputs: SyncSender<Input>,
    writing: JoinHandle<Result<Summary, RecordError>>,
    has_ended: Arc<AtomicBool>,
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
    Finish,
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
        let (inputs, taken) = sync_channel(MOST_WAITING);
        let has_ended = Arc::new(AtomicBool::new(false));
        let (flag, path) = (has_ended.clone(), writer.path().to_owned());
        let flushed_every = (when_full == WhenFull::End).then_some(FLUSHED_EVERY);
        let writing = std::thread::Builder::new().name("recording".to_owned()).spawn(move || {
            let written = write(writer, &taken, &flag, flushed_every);
            if let Err(error) = &written {
                flag.store(true, Ordering::Release);
                ended(error);
            }
            written
        });
        let writing = writing.map_err(|error| RecordError::Io { path, error })?;
        Ok(Recording { inputs, writing, has_ended, when_full })
    }

    /// A recorder for a new scheduler. There should be only one.
    pub fn recorder(&self) -> Box<dyn Recorder> {
        Box::new(QueueingRecorder {
            inputs: self.inputs.clone(),
            has_ended: self.has_ended.clone(),
            when_full: self.when_full,
            digest: EffectDigest::default(),
        })
    }

    /// Writes the rest. What the scheduler does afterwards is not recorded.
    ///
    /// It is an error if the recording ended early, also if that was reported already.
    pub fn finish(self) -> Result<Summary, RecordError> {
        // If the thread has ended, its result says why.
        let _ = self.inputs.send(Input::Finish);
        drop(self.inputs);
        self.writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Sends everything to the thread that writes.
#[derive(Debug)]
struct QueueingRecorder {
    inputs: SyncSender<Input>,
    has_ended: Arc<AtomicBool>,
    when_full: WhenFull,
    digest: EffectDigest,
}

impl QueueingRecorder {
    fn send(&self, input: Input) {
        match self.when_full {
            // If the thread has ended, it has said so.
            WhenFull::Wait => drop(self.inputs.send(input)),
            WhenFull::End => {
                if !self.has_ended.load(Ordering::Acquire)
                    && let Err(TrySendError::Full(_)) = self.inputs.try_send(input)
                {
                    self.has_ended.store(true, Ordering::Release);
                }
            }
        }
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
        self.send(Input::Event(now, event.clone()));
    }

    fn stepped(&mut self, now: Time, effects: &[Effect], _: &Audit) {
        let (effects, digest) = self.effects(effects);
        self.send(Input::Step(now, effects, digest));
    }

    fn wound_up(&mut self, now: Time, effects: &[Effect]) {
        let (effects, digest) = self.effects(effects);
        self.send(Input::WindUp(now, effects, digest));
    }

    fn waiting_pod(&mut self, decision: &WaitingDecision) {
        self.send(Input::Waiting(decision.clone()));
    }
}

/// Writes what it receives, until it is told to finish or the queue was full.
fn write(
    mut writer: Writer,
    inputs: &Receiver<Input>,
    has_ended: &AtomicBool,
    flushed_every: Option<Duration>,
) -> Result<Summary, RecordError> {
    // The time of the oldest entry that is not in the file is not known exactly: the queue is emptied at once.
    let mut flushed = std::time::Instant::now();
    loop {
        let input = match flushed_every {
            None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(span) => inputs.recv_timeout(span.saturating_sub(flushed.elapsed())),
        };
        match input {
            Ok(Input::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            // The queue was full, and is empty now.
            Err(RecvTimeoutError::Timeout) if has_ended.load(Ordering::Acquire) => break,
            Err(RecvTimeoutError::Timeout) => {}
            Ok(input) => add(&mut writer, input)?,
        }
        if flushed_every.is_some_and(|span| span <= flushed.elapsed()) {
            writer.flush()?;
            flushed = std::time::Instant::now();
        }
    }
    if has_ended.load(Ordering::Acquire) {
        return Err(dropped(&mut writer)?);
    }
    writer.finish(&Form::End)?;
    let (bytes, parts) = writer.size();
    Ok(Summary { events: writer.events(), bytes, parts })
}

/// Marks the end of a recording that could not keep up.
fn dropped(writer: &mut Writer) -> Result<RecordError, RecordError> {
    writer.finish(&Form::Dropped)?;
    let path: PathBuf = writer.path().to_owned();
    Ok(RecordError::TooSlow { path, waiting: MOST_WAITING, event: writer.events() })
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
            Input::Finish => Added::default(),
        })
    })
}
