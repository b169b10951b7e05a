//! Writes the smallest recording of the first audit difference while `run` goes on.
//!
//! What makes a recording small replays it many times. So a thread of its own does that, which has limits in memory, time and
//! files; the thread of the engine only says that there is something to do, and never waits. A replay stops at the first
//! difference, so the others of the same recording are in the log only.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_engine::{Audit, AuditDifference, Effect, Event, Recorder};
use plimsoll_framework::{Registry, Time, WaitingDecision};
use plimsoll_recording::Effort;

use crate::recordings::{self, TooLong};

/// At most this many files are written beside a recording, one by each run, and none is overwritten. They take little, but runs
/// can go on for as long as a mistake is there.
const MOST_FILES: u32 = 4;
/// A recording with more entries is not read: it would take about half a gigabyte.
const MOST_READ: usize = 500_000;
/// How much is done for one file.
const EFFORT: Effort = Effort { entries: recordings::MOST_REPLAYED, time: Duration::from_mins(5) };
/// What was recorded is in the file after about a second.
const SETTLES_IN: Duration = Duration::from_secs(3);

/// Notices audit differences, and has the first one written.
#[derive(Debug)]
pub(crate) struct DifferenceRecorder {
    /// How many differences there were.
    noticed: Arc<AtomicU64>,
    /// `None` after the first one.
    writing: Option<SyncSender<AuditDifference>>,
}

/// The recorder for a scheduler that is recorded to `path`.
pub(crate) fn watch(path: PathBuf, registry: Arc<Registry>) -> Result<DifferenceRecorder> {
    Ok(begin(path, registry, SETTLES_IN)?.0)
}

/// The same with the thread, which ends after the recorder is dropped or a file is written.
fn begin(
    path: PathBuf,
    registry: Arc<Registry>,
    settles_in: Duration,
) -> Result<(DifferenceRecorder, JoinHandle<()>)> {
    let (writing, difference) = sync_channel(1);
    let noticed = Arc::new(AtomicU64::new(0));
    let recorder = DifferenceRecorder { noticed: noticed.clone(), writing: Some(writing) };
    let thread = std::thread::Builder::new().name("differences".to_owned());
    let thread =
        thread.spawn(move || write_first(&path, &registry, (&difference, &noticed), settles_in));
    let thread = thread.context("cannot start the thread for audit differences")?;
    Ok((recorder, thread))
}

impl Recorder for DifferenceRecorder {
    fn observed(&mut self, _: Time, _: &Event) {}

    fn stepped(&mut self, _: Time, _: &[Effect], audit: &Audit) {
        self.noticed.store(audit.differing, Ordering::Relaxed);
        if let Some(first) = audit.differences.first()
            && let Some(writing) = self.writing.take()
        {
            // The channel has room for it, and the log of the engine has all of them.
            let _ = writing.try_send(first.clone());
        }
    }

    fn wound_up(&mut self, _: Time, _: &[Effect]) {}

    fn waiting_pod(&mut self, _: &WaitingDecision) {}
}

/// Waits for the first difference. There is one try: another one would read the same recording, and show the same difference.
fn write_first(
    path: &Path,
    registry: &Registry,
    (difference, noticed): (&Receiver<AuditDifference>, &AtomicU64),
    settles_in: Duration,
) {
    if let Ok(difference) = difference.recv() {
        std::thread::sleep(settles_in);
        write(path, registry, &difference, noticed);
    }
}

fn write(path: &Path, registry: &Registry, difference: &AuditDifference, noticed: &AtomicU64) {
    let recording = path.display();
    let Some(to) = free_name(path) else {
        tracing::warn!(
            %recording, %difference,
            "an audit difference is not written: {MOST_FILES} files are there already; send them with a report, then remove them"
        );
        return;
    };
    let file = to.display();
    tracing::info!(%recording, %difference, "making the smallest recording that shows an audit difference");
    match recordings::write_smallest(path, &to, registry, (MOST_READ, EFFORT)) {
        Ok(Some((shown, summary))) => {
            let (events, bytes) = (summary.events, summary.bytes);
            let n_others = noticed.load(Ordering::Relaxed).saturating_sub(1);
            tracing::error!(
                %file, events, bytes, difference = %shown, n_others,
                "wrote the smallest recording that shows an audit difference; look at what it contains, \
                 and please send it with a report; `plimsoll replay FILE` shows it"
            );
        }
        Ok(None) => tracing::warn!(
            %recording, %difference,
            "a replay does not show the audit difference, or not within {:?}; keep all parts of the recording, \
             and please send them with a report",
            EFFORT.time
        ),
        Err(error) if error.is::<TooLong>() => tracing::warn!(
            %recording, %difference, error = format!("{error:#}"),
            "no smallest recording can be made here of an audit difference; keep all parts of the recording, \
             and run `plimsoll replay {recording} --shrink OUT` on another machine"
        ),
        Err(error) => tracing::warn!(
            %recording, %difference, error = format!("{error:#}"),
            "no smallest recording can be made of an audit difference; keep all parts of the recording, \
             and please send them with a report"
        ),
    }
}

/// The first name of a difference that no file has; `None` if there are enough.
fn free_name(path: &Path) -> Option<PathBuf> {
    let first = recordings::difference_path(path);
    let names = (1..=MOST_FILES).map(|number| plimsoll_recording::part_path(&first, number));
    names.into_iter().find(|name| !name.exists())
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Node, ObjectKey, Pod, PodTemplate, Resources};
    use plimsoll_config::GivenGates;
    use plimsoll_engine::{Detail, Options, Scheduler};
    use plimsoll_framework::Release;
    use plimsoll_sim::{InitialCluster, Simulation};

    use super::*;
    use crate::fickle;
    use crate::options::Setup;

    fn registry() -> Registry {
        let mut registry = plimsoll_legacy::in_tree();
        registry.add(fickle::entry());
        registry
    }

    fn cluster() -> InitialCluster {
        let allocatable = Resources { milli_cpu: 9_000, pods: 90, ..Resources::default() };
        let node = |number| Node {
            name: format!("n{number}").into(),
            allocatable: allocatable.clone(),
            ..Node::default()
        };
        let pod = |number| {
            let template = PodTemplate {
                scheduler_name: "default-scheduler".into(),
                ..PodTemplate::default()
            };
            Pod::new(ObjectKey::new("default", format!("p{number}")), template)
        };
        InitialCluster {
            nodes: (0..5).map(node).collect(),
            pods: (0..60).map(pod).collect(),
            ..InitialCluster::default()
        }
    }

    /// Records a scheduler whose audits find differences, and returns these.
    fn recorded(path: &Path, registry: &Registry) -> Audit {
        let gates = GivenGates::of(Release::NEWEST);
        let setup =
            Setup::of_text("fickle", fickle::CONFIG, registry, &gates).expect("it is right");
        let options = Options { audit_every: 1, detail: Detail::Outcome, ..setup.options() };
        let header = recordings::header("test", &setup, &options, 1);
        let mut scheduler = Scheduler::new(setup.profiles, options, 1).expect("it is right");
        let recording = recordings::begin(path, header).expect("there is room");
        scheduler.record_to(recording.recorder());
        let mut simulation = Simulation::new(scheduler, cluster());
        while simulation.advance().is_some() {}
        recording.finish().expect("there is room");
        simulation.decisions_audit().clone()
    }

    #[test]
    fn each_run_leaves_one_small_recording_until_there_are_enough() {
        let folder = tempfile::tempdir().expect("there is room");
        let (path, registry) = (folder.path().join("rec"), Arc::new(registry()));
        let mut audit = recorded(&path, &registry);
        assert_ne!(audit.differing, 0, "the audits find the plugin out");
        let begun = begin(path.clone(), registry.clone(), Duration::ZERO);
        let (mut recorder, thread) = begun.expect("there is a thread");
        recorder.stepped(Time::ZERO, &[], &audit);
        // A replay stops at the first one, so that a file for another one would have the same.
        audit.differing += 1;
        recorder.stepped(Time::ZERO, &[], &audit);
        drop(recorder);
        thread.join().expect("it ends");
        let first = folder.path().join("rec.difference");
        let [large, small] =
            [&path, &first].map(|file| std::fs::metadata(file).expect("it is there").len());
        assert!(small < large, "{small} of {large} bytes");
        assert!(!folder.path().join("rec.difference.2").exists());
        for number in 2..=2 * u64::from(MOST_FILES) {
            audit.differing += number;
            let begun = begin(path.clone(), registry.clone(), Duration::ZERO);
            let (mut recorder, thread) = begun.expect("there is a thread");
            recorder.stepped(Time::ZERO, &[], &audit);
            drop(recorder);
            thread.join().expect("it ends");
        }
        let files = std::fs::read_dir(folder.path()).expect("it is there");
        let mut names: Vec<String> = files
            .map(|file| file.expect("it is there").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        let expected =
            ["rec", "rec.difference", "rec.difference.2", "rec.difference.3", "rec.difference.4"];
        assert_eq!(names, expected);
        // None of them was overwritten.
        assert_eq!(std::fs::metadata(&first).expect("it is there").len(), small);
    }

    #[test]
    fn what_takes_too_long_or_too_much_memory_is_not_written() {
        let folder = tempfile::tempdir().expect("there is room");
        let (path, registry) = (folder.path().join("rec"), registry());
        recorded(&path, &registry);
        let to = folder.path().join("small");
        let no_time = Effort { time: Duration::ZERO, ..EFFORT };
        let written = recordings::write_smallest(&path, &to, &registry, (MOST_READ, no_time));
        assert!(written.expect("it can be read").is_none() && !to.exists());
        let error = recordings::write_smallest(&path, &to, &registry, (3, EFFORT));
        let error = error.expect_err("it is too long").to_string();
        assert!(error.ends_with("has more than 3 entries") && !to.exists(), "{error}");
    }
}
