//! The smallest change that would help a pod, in its event and condition (`--why-in-events`).
//!
//! A decision never waits for it. What is said of a pod is written at once, as kube-scheduler says it. Then the pod is a
//! question for a task beside the engine, one question at a time. If the pod still waits when the answer is there, event and
//! condition are written once more with the change. As long as the same is said of the pod, later attempts find the answer
//! here, so that the condition does not change back and forth.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_api::{
    KindRef, ObjectKey, PersistentVolumeClaim, Pod, PodKey, ResourceClaim, ResourceClaimTemplate,
    Str,
};
use plimsoll_engine::{
    Condition, Effect, EffectId, EventRecord, NOTE_LENGTH_LIMIT, QueuePlace, Scheduler, Write,
};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::served;
use crate::api_resource::{ApiResource, ServedVersions};
use crate::client::{Caller, Connection};
use crate::limit::Rate;
use crate::serve::{Advisor, EngineHandle, ManifestError, ManifestSource, WhyQuestion};

/// At most so many pods wait for an answer; others are asked about after their next attempt.
const MOST_QUESTIONS: usize = 256;
/// The answers of at most so many pods are kept.
const MOST_KNOWN: usize = 8192;
/// The pause between two answers, so that they take a small part of a core.
const PAUSE: Duration = Duration::from_millis(200);
/// So many changes are asked for, since some may name pods of other namespaces.
const CHANGES: usize = 5;
/// At most so many claims are read for one pod.
const MOST_CLAIMS: usize = 32;

const UNSCHEDULABLE: &str = "Unschedulable";
const FAILED: &str = "FailedScheduling";
/// The action of an event with a change. Events that differ only in their note count as repetitions of one another, and keep
/// the note of the first.
const ADVISING: &str = "Advising";

/// Who finds the changes.
#[derive(Clone)]
pub struct RemedySource(pub Arc<dyn Advisor>);

impl fmt::Debug for RemedySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemedySource").finish_non_exhaustive()
    }
}

/// A pod that fits nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RemedyQuestion {
    pod: PodKey,
    uid: Str,
    /// What is said of it.
    message: String,
}

/// A pod with the change that would help it, if one was found that can be told.
#[derive(Debug)]
pub(crate) struct RemedyAnswer {
    question: RemedyQuestion,
    change: Option<String>,
}

/// What is known of a pod.
#[derive(Debug)]
struct RemedyNote {
    /// What was said of it when it was asked about.
    message: String,
    /// The change, once it is known.
    change: Option<String>,
}

/// The changes that were found, on the side of the engine.
#[derive(Debug)]
pub(crate) struct RemedyNotes {
    known: HashMap<Str, RemedyNote>,
    questions: mpsc::Sender<RemedyQuestion>,
    answers: mpsc::Receiver<RemedyAnswer>,
}

/// Starts the task that finds changes, if there is somebody who does.
pub(super) fn begin(
    source: Option<RemedySource>,
    engine: &EngineHandle,
    connection: &Connection,
    (rate, versions): (Rate, ServedVersions),
) -> Option<RemedyNotes> {
    let source = source?;
    let (engine, manifests) = (engine.clone(), connection.caller("remedies", rate));
    let (questions, asked) = mpsc::channel(MOST_QUESTIONS);
    let (answer, answers) = mpsc::channel(MOST_QUESTIONS);
    tokio::spawn(find(Finder { source, engine, manifests, versions }, asked, answer));
    Some(RemedyNotes { known: HashMap::new(), questions, answers })
}

impl RemedyNotes {
    /// The next answer.
    pub(crate) async fn next(&mut self) -> RemedyAnswer {
        match self.answers.recv().await {
            Some(answer) => answer,
            // The task has ended, as at the end of the process.
            None => std::future::pending().await,
        }
    }

    /// An answer that is there already.
    pub(crate) fn try_next(&mut self) -> Option<RemedyAnswer> {
        self.answers.try_recv().ok()
    }

    /// Adds known changes to what is said of pods, and asks about the others.
    pub(crate) fn add_to(&mut self, effects: &mut [Effect]) {
        for effect in effects {
            let Effect { pod, write, .. } = effect;
            match write {
                Write::Record(event) if event.reason == FAILED => {
                    if let Some(change) = self.change(&pod.uid, &event.note) {
                        event.note = with_change(&event.note, change);
                        event.action = ADVISING;
                    }
                }
                Write::Condition(condition) if condition.reason == UNSCHEDULABLE => {
                    match self.change(&pod.uid, &condition.message) {
                        Some(change) => condition.message = with_change(&condition.message, change),
                        // What lets in one pod of a group does not help unless all that the group needs fit.
                        None if pod.scheduling_group.is_some() => {}
                        None => self.ask(&pod.key, &pod.uid, &condition.message),
                    }
                }
                _ => {}
            }
        }
    }

    /// What has to be written now that an answer is there: nothing, if the pod does not wait any more.
    pub(crate) fn late(&mut self, answer: RemedyAnswer, scheduler: &Scheduler) -> Vec<Effect> {
        let RemedyAnswer { question: RemedyQuestion { pod, uid, message }, change } = answer;
        let Some(note) = self.known.get_mut(&uid).filter(|note| note.message == message) else {
            return Vec::new();
        };
        note.change.clone_from(&change);
        let Some(change) = change else { return Vec::new() };
        let Some(info) = scheduler.queued_pod(&pod) else { return Vec::new() };
        let waits = matches!(info.place, QueuePlace::Unschedulable | QueuePlace::Backoff { .. });
        if !waits || info.pod.uid != uid {
            return Vec::new();
        }
        let message = with_change(&message, &change);
        let event = EventRecord {
            kind: "Warning",
            reason: FAILED,
            action: ADVISING,
            note: message.clone(),
        };
        let condition = Condition { reason: UNSCHEDULABLE, message };
        let seen = info.pod.seen();
        // No answer is awaited, so the id does not matter.
        let effect = |write| Effect { id: EffectId(u64::MAX), pod: seen.clone(), write };
        vec![effect(Write::Record(event)), effect(Write::Condition(condition))]
    }

    /// The change for a pod of which this is said.
    fn change(&self, uid: &Str, message: &str) -> Option<&str> {
        let note = self.known.get(uid).filter(|note| note.message == message)?;
        note.change.as_deref()
    }

    fn ask(&mut self, pod: &PodKey, uid: &Str, message: &str) {
        let is_asked = self.known.get(uid).is_some_and(|note| note.message == message);
        // Without room for a change there is nothing to find.
        if is_asked || NOTE_LENGTH_LIMIT < message.len() + INTRODUCTION.len() {
            return;
        }
        if MOST_KNOWN <= self.known.len() {
            self.known.clear();
        }
        let message = message.to_owned();
        let question = RemedyQuestion { pod: pod.clone(), uid: uid.clone(), message };
        let note = RemedyNote { message: question.message.clone(), change: None };
        // Beyond the limit it is asked about after its next attempt.
        if self.questions.try_send(question).is_ok() {
            self.known.insert(uid.clone(), note);
        } else {
            self.known.remove(uid);
        }
    }
}

const INTRODUCTION: &str = " Smallest change that would help: ";

/// A message with a change, if there is room for both.
fn with_change(message: &str, change: &str) -> String {
    let whole = format!("{message}{INTRODUCTION}{change}.");
    if whole.len() <= NOTE_LENGTH_LIMIT { whole } else { message.to_owned() }
}

/// Finds changes.
struct Finder {
    source: RemedySource,
    engine: EngineHandle,
    manifests: Caller,
    versions: ServedVersions,
}

/// Reads the claims of a pod: those of its namespace, and templates of them. Nothing else is changed for a text that everybody
/// in the namespace may read.
struct ClaimManifests {
    runtime: Handle,
    from: Caller,
    versions: ServedVersions,
    namespace: Str,
    /// How many were read.
    n_read: AtomicUsize,
}

impl fmt::Debug for ClaimManifests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimManifests").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl ManifestSource for ClaimManifests {
    fn read(&self, kind: &str, key: &ObjectKey) -> Result<Option<Value>, ManifestError> {
        let claims = [
            KindRef::of::<PersistentVolumeClaim>(),
            KindRef::of::<ResourceClaim>(),
            KindRef::of::<ResourceClaimTemplate>(),
        ];
        let named = claims.into_iter().find(|known| known.as_str() == kind);
        let Some(named) = named.filter(|_| key.namespace == self.namespace) else {
            return Err(ManifestError(format!("{kind} {key} is no claim of the pod")));
        };
        if MOST_CLAIMS <= self.n_read.fetch_add(1, Ordering::Relaxed) {
            return Err(ManifestError(format!("more than {MOST_CLAIMS} claims would be read")));
        }
        let resource = self.versions.manifest(named);
        self.runtime.block_on(served::manifest(&self.from, resource, key))
    }
}

/// Answers questions, one after the other, until nobody asks any more.
async fn find(
    finder: Finder,
    mut questions: mpsc::Receiver<RemedyQuestion>,
    answers: mpsc::Sender<RemedyAnswer>,
) {
    while let Some(question) = questions.recv().await {
        let change = finder.change(&question).await;
        if answers.send(RemedyAnswer { question, change }).await.is_err() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Finder {
    async fn change(&self, question: &RemedyQuestion) -> Option<String> {
        let pod = question.pod.clone();
        let pods = ApiResource { kind: KindRef::of::<Pod>(), api_version: "v1" };
        let manifest = served::manifest(&self.manifests, pods, &pod).await.ok()??;
        let (snapshot, pending) = self.engine.snapshot(Some(pod.clone())).await.ok()?;
        // It may have been bound, or made again under its name.
        let pending = pending.filter(|pending| pending.info.pod.uid == question.uid)?;
        let claims = ClaimManifests {
            runtime: Handle::current(),
            from: self.manifests.clone(),
            versions: self.versions.clone(),
            namespace: pod.namespace.clone(),
            n_read: AtomicUsize::new(0),
        };
        let asked = WhyQuestion {
            pod,
            manifest,
            manifests: Arc::new(claims),
            snapshot,
            pending: Some(pending),
            remedies: Some(CHANGES),
            nearest: Some(0),
            with_text: false,
        };
        let advisor = self.source.0.clone();
        let answered = tokio::task::spawn_blocking(move || advisor.why(asked)).await;
        match answered {
            Ok(Ok(answer)) => smallest(&answer, &question.pod.namespace),
            Ok(Err(error)) => {
                tracing::debug!(pod = %question.pod, %error, "could not find what would help");
                None
            }
            Err(error) => {
                tracing::warn!(pod = %question.pod, %error, "could not find what would help");
                None
            }
        }
    }
}

/// The smallest change that names no pod of another namespace: whoever reads the events of a namespace need not know the pods
/// of others.
fn smallest(answer: &Value, namespace: &str) -> Option<String> {
    let remedies = answer["remedies"].as_array()?;
    let may_be_told = |remedy: &&Value| {
        let changes = remedy["changes"].as_array();
        let mut pods = changes.into_iter().flatten().flat_map(pods_of);
        pods.all(|of| of == namespace)
    };
    remedies.iter().find(may_be_told)?["text"].as_str().map(str::to_owned)
}

/// The namespaces of the pods that a change is about. New pods of DaemonSets come with a node, and are not named in its text.
fn pods_of(change: &Value) -> Vec<&str> {
    let named = ["patch", "delete"].into_iter().map(|verb| &change[verb]);
    let pods = named.filter(|reference| reference["kind"] == "Pod");
    pods.map(|reference| reference["namespace"].as_str().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn notes() -> (RemedyNotes, mpsc::Receiver<RemedyQuestion>) {
        let (questions, asked) = mpsc::channel(1);
        let (_, answers) = mpsc::channel(1);
        (RemedyNotes { known: HashMap::new(), questions, answers }, asked)
    }

    fn failure(name: &str, message: &str) -> Vec<Effect> {
        let pod = Arc::new(Pod {
            key: PodKey::new("shop", name),
            uid: format!("uid-of-{name}").into(),
            ..Pod::default()
        });
        let event = EventRecord {
            kind: "Warning",
            reason: FAILED,
            action: "Scheduling",
            note: message.to_owned(),
        };
        let condition = Condition { reason: UNSCHEDULABLE, message: message.to_owned() };
        let effect = |write| Effect { id: EffectId(7), pod: pod.clone(), write };
        vec![effect(Write::Record(event)), effect(Write::Condition(condition))]
    }

    /// What is said, of the event and of the condition.
    fn said(effects: &[Effect]) -> Vec<&str> {
        let texts = effects.iter().filter_map(|effect| match &effect.write {
            Write::Record(event) => Some(event.note.as_str()),
            Write::Condition(condition) => Some(condition.message.as_str()),
            _ => None,
        });
        texts.collect()
    }

    #[test]
    fn a_pod_is_asked_about_once_and_then_its_change_is_told() {
        let (mut notes, mut asked) = notes();
        let mut first = failure("web", "no room.");
        notes.add_to(&mut first);
        assert_eq!(said(&first), ["no room.", "no room."]);
        let question = asked.try_recv().expect("it is asked about");
        notes.add_to(&mut failure("web", "no room."));
        assert!(asked.try_recv().is_err(), "it was asked about already");
        let known = notes.known.get_mut(&question.uid).expect("it is known");
        known.change = Some("uncordon n2".to_owned());
        let mut again = failure("web", "no room.");
        notes.add_to(&mut again);
        let told = "no room. Smallest change that would help: uncordon n2.";
        assert_eq!(said(&again), [told, told]);
        let mut other = failure("web", "something else.");
        notes.add_to(&mut other);
        assert_eq!(said(&other), ["something else.", "something else."]);
        assert_eq!(
            asked.try_recv().map(|question| question.message),
            Ok("something else.".to_owned())
        );
    }

    #[test]
    fn a_pod_that_is_scheduled_with_its_group_is_not_asked_about() {
        let (mut notes, mut asked) = notes();
        let mut effects = failure("member", "no room.");
        for effect in &mut effects {
            Arc::make_mut(&mut effect.pod).scheduling_group = Some("train".into());
        }
        notes.add_to(&mut effects);
        assert_eq!(said(&effects), ["no room.", "no room."]);
        assert!(asked.try_recv().is_err());
    }

    #[test]
    fn beyond_the_limit_a_pod_is_asked_about_after_its_next_attempt() {
        let (mut notes, mut asked) = notes();
        notes.add_to(&mut failure("one", "no room."));
        notes.add_to(&mut failure("two", "no room."));
        assert_eq!(asked.try_recv().map(|question| question.pod.name), Ok("one".into()));
        notes.add_to(&mut failure("two", "no room."));
        assert_eq!(asked.try_recv().map(|question| question.pod.name), Ok("two".into()));
    }

    #[test]
    fn a_message_without_room_stays_as_it_is() {
        let (mut notes, mut asked) = notes();
        let long = "x".repeat(NOTE_LENGTH_LIMIT);
        notes.add_to(&mut failure("web", &long));
        assert!(asked.try_recv().is_err());
        let nearly = "x".repeat(NOTE_LENGTH_LIMIT - INTRODUCTION.len() - 3);
        assert_eq!(with_change(&nearly, "uncordon n2"), nearly);
        assert_eq!(with_change(&nearly, "go").len(), NOTE_LENGTH_LIMIT);
    }

    #[test]
    fn pods_of_other_namespaces_are_not_told_of() {
        let remedy = |text: &str, namespace: &str| {
            let pod = json!({"kind": "Pod", "namespace": namespace, "name": "p"});
            json!({"text": text, "changes": [{"delete": pod}]})
        };
        let node =
            json!({"text": "uncordon n2", "changes": [{"patch": {"kind": "Node", "name": "n2"}}]});
        let evictions = json!({"remedies": [remedy("evict pay/p from n1", "pay"), node.clone()]});
        assert_eq!(smallest(&evictions, "shop"), Some("uncordon n2".to_owned()));
        assert_eq!(smallest(&evictions, "pay"), Some("evict pay/p from n1".to_owned()));
        assert_eq!(smallest(&json!({"remedies": [remedy("x", "pay")]}), "shop"), None);
        assert_eq!(smallest(&json!({}), "shop"), None);
    }
}
