//! Measures what a pod takes of the processor time of the thread of the journal, as in a burst: all pods are decided at once, and
//! their bindings are answered while later batches gather. With `together` an answer comes at once after its attempt, as in a
//! simulation. It also says how large the journal is.
//!
//! `cargo run --release -p plimsoll-journal --example writing -- PODS TIMES [together]`

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::{Pod, PodKey, Str};
use plimsoll_engine::{AttemptContext, BindingEnd, Decision, Outcome, Recorder as _};
use plimsoll_framework::Time;
use plimsoll_journal::{Journal, JournalRecorder, Retention, WhenFull};

/// The answers come in so many batches.
const BATCHES: usize = 4;
const NODES: u64 = 5_000;
const BEGUN: i64 = 1_767_225_600_000;

/// A pod of a Deployment, with what an API server gives it, and its node.
struct Placed {
    pod: Arc<Pod>,
    node: Str,
}

/// When bindings are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    Together,
    Later,
}

/// Mixes the bits of a number, so that names look like chance.
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 29)
}

fn placed(number: u64) -> Placed {
    let letters = "bcdfghjklmnpqrstvwxz2456789";
    let bits = usize::try_from(mixed(number + 1) >> 1).expect("it has 64 bits");
    let suffix = (0..5).filter_map(|place| letters.chars().nth(bits / 27_usize.pow(place) % 27));
    let suffix: String = suffix.collect();
    let deployment = number / 1000;
    let set = mixed(deployment) & 0xff_ffff_ffff;
    let name = format!("web-{set:010x}-{suffix}");
    let (high, low) = (mixed(2 * number + 7), mixed(2 * number + 8));
    let uid = format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        high >> 32,
        high & 0xffff,
        (high >> 16) & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    );
    let node = format!("node-{:04}", mixed(number) % NODES);
    let key = PodKey::new(format!("team-{}", deployment % 10), name);
    let mut pod = Pod { key, uid: uid.into(), ..Pod::default() };
    pod.scheduler_name = "default-scheduler".into();
    Placed { pod: Arc::new(pod), node: node.into() }
}

fn millis(number: usize) -> i64 {
    i64::try_from(number).expect("there are few")
}

/// The sequence of the attempt of a pod.
fn sequence(number: usize) -> u64 {
    u64::try_from(number).expect("it has 64 bits") + 1
}

fn decide(recorder: &mut JournalRecorder, number: usize, pod: &Placed) {
    let now = BEGUN + millis(number) / 70;
    let context = AttemptContext {
        sequence: sequence(number),
        pod: pod.pod.clone(),
        fingerprint: 0,
        woken_by: "UnscheduledPodAdd".into(),
        queued: Time::from_millis(BEGUN - 900),
        first_ready: Some(Time::from_millis(BEGUN - 900)),
        judged: 5_000,
        rejections: Vec::new().into(),
        rejectors: Vec::new(),
        feasible: Some(4_711),
        margin: Some(2),
        best: None,
    };
    let outcome = Outcome::Scheduled { node: pod.node.clone(), best: Vec::new() };
    let decision =
        Decision { context: Some(context), ..Decision::of_pod(pod.pod.key.clone(), 1, outcome) };
    recorder.decided(Time::from_millis(now), &decision);
}

fn answer(recorder: &mut JournalRecorder, number: usize, pod: &Placed) {
    let at = Time::from_millis(BEGUN + 400 + millis(number) / 10);
    let first_ready = Some(Time::from_millis(BEGUN - 900));
    let (pod, sequence) = (&pod.pod.key, sequence(number));
    let end = BindingEnd { pod, sequence, attempt: 1, first_ready, error: None };
    recorder.binding_ended(at, &end);
}

/// The time that the thread of the journal has had a processor.
fn used() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("this is Linux");
    let journal = tasks.flatten().map(|task| task.path()).find(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "journal")
    });
    let text = std::fs::read_to_string(journal.expect("it runs").join("schedstat"));
    let text = text.expect("this is Linux");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("it is a number"))
}

/// Waits until so many entries are written.
fn wait(journal: &Journal, recorder: &mut JournalRecorder, entries: usize) {
    recorder.flush();
    while journal.counts().read().written < u64::try_from(entries).expect("it has 64 bits") {
        std::thread::sleep(Duration::from_millis(2));
    }
    // The thread then measures its file.
    std::thread::sleep(Duration::from_millis(20));
}

fn measure(path: &Path, pods: &[Placed], answers: Answers) -> (Duration, Duration) {
    let keep = Retention { size: u64::MAX, age: Duration::MAX };
    let (journal, mut recorder) =
        Journal::begin(path, keep, WhenFull::Wait, |_| ()).expect("it can be written");
    std::thread::sleep(Duration::from_millis(20));
    let before = used();
    let mut middle = before;
    for (number, pod) in pods.iter().enumerate() {
        decide(&mut recorder, number, pod);
        if answers == Answers::Together {
            answer(&mut recorder, number, pod);
        }
    }
    if answers == Answers::Later {
        wait(&journal, &mut recorder, pods.len());
        middle = used();
        let mut order: Vec<usize> = (0..pods.len()).collect();
        // The order of answers is that of the attempts, but for those that are in flight at once.
        order.sort_by_key(|number| millis(*number) + millis(*number) * 37 % 64);
        for (chunk, last) in order.chunks(pods.len().div_ceil(BATCHES)).zip(1..) {
            for number in chunk {
                answer(&mut recorder, *number, &pods[*number]);
            }
            let done = (last * chunk.len()).min(pods.len());
            wait(&journal, &mut recorder, pods.len() + done);
        }
    }
    wait(&journal, &mut recorder, 2 * pods.len());
    let used = (middle.saturating_sub(before), used().saturating_sub(before));
    drop(recorder);
    assert_eq!(journal.finish().error, None);
    used
}

#[expect(clippy::print_stdout, reason = "it is for whoever runs it")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let n: usize = arguments.next().map_or(20_000, |n| n.parse().expect("a number of pods"));
    let times: usize = arguments.next().map_or(5, |n| n.parse().expect("a number of times"));
    let answers = match arguments.next().as_deref() {
        Some("together") => Answers::Together,
        _ => Answers::Later,
    };
    let pods: Vec<Placed> = (0_u64..).take(n).map(placed).collect();
    let folder = tempfile::tempdir().expect("there is room");
    let mut all = Vec::new();
    for time in 0..times {
        let path = folder.path().join(format!("{time}.db"));
        let (attempts, used) = measure(&path, &pods, answers);
        let per = |used: Duration| used / u32::try_from(n).expect("there are few");
        let bytes = std::fs::metadata(&path).expect("it is there").len();
        all.push(per(used));
        let bytes = bytes * 1000 / u64::try_from(n).expect("it has 64 bits");
        let (of_all, of_attempts) = (per(used), per(attempts));
        println!(
            "{of_all:?} a pod, {of_attempts:?} of them before answers; {bytes} bytes for 1,000 pods"
        );
    }
    all.sort_unstable();
    println!("median {:?} a pod", all[all.len() / 2]);
}
