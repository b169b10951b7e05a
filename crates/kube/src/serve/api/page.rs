//! The questions of the page, answered from one picture of the cluster after another.
//!
//! However many pages are open, the engine takes a picture only now and then: if it takes long, more rarely. What they ask is
//! answered once for all of them. A picture is dropped as soon as it is not fresh any more: it holds objects as they were, and
//! in a busy cluster many of them have changed since. What shows no single pods is answered from counts, which hold none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::Response;
use bytes::Bytes;
use plimsoll_api::PodKey;
use plimsoll_ui::{
    Counts, Failure, Picture, Question, SeenConfiguration, ShadowQuestion, Views, changes,
    part_of_report, report_namespaces,
};
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinError;
use tokio::time::Instant;

use super::answered::{Answered, Sent};
use super::asker::Asker;
use super::samples::Samples;
use super::withhold::withhold;
use crate::serve::advisor::AdviceError;
use crate::serve::reply;
use crate::serve::routes::{AppState, Pairs, unavailable};
use crate::serve::scheduler_view::{SchedulerView, Unresponsive};
use crate::serve::server_state::ServerState;

/// A picture is at least this old before another one is taken.
const FRESH: Duration = Duration::from_secs(1);

/// A picture is taken again after so many times the span that taking it took, so that the engine spends at most a fiftieth
/// of its time on pictures. What it decides between two parts of one counts, too.
const REST: u32 = 50;

/// At most so many streams of events are open.
const STREAMS: usize = 32;

/// How long a stream of events lasts: less than any request may take.
const STREAM_SPAN: Duration = Duration::from_secs(45);

/// What the page is told from.
pub(in crate::serve) struct Pages {
    pictures: Mutex<Option<Taken>>,
    counts: Mutex<Option<Taken>>,
    pub(in crate::serve) samples: std::sync::Mutex<Samples>,
    /// One picture or answer is made at a time: many pages then take no more memory and threads than one.
    turn: Semaphore,
    streams: Arc<Semaphore>,
}

/// The last picture, or the last counts, as long as they are fresh.
struct Taken {
    seen: Arc<Seen>,
    /// Until then it is fresh.
    until: Instant,
}

/// What was seen of the cluster, with the answers that were made from it.
struct Seen {
    cluster: Cluster,
    answered: Answered,
}

/// A cluster at one moment.
enum Cluster {
    Picture(Box<Picture>),
    Counts(Counts),
}

/// What a question is answered from.
#[derive(Clone, Copy)]
enum Source {
    Picture,
    Counts,
}

impl Source {
    fn of(question: &Question) -> Self {
        if Counts::answers(question) { Source::Counts } else { Source::Picture }
    }
}

impl Cluster {
    /// The namespaces of the pods and objects that the answer to `question` may name.
    fn namespaces(&self, question: &Question) -> BTreeSet<String> {
        match self {
            Cluster::Picture(picture) => picture.namespaces(question),
            Cluster::Counts(_) => BTreeSet::new(),
        }
    }

    /// The answer without the pods of hidden namespaces.
    fn answer(&self, question: &Question, hidden: &BTreeSet<String>) -> Sent {
        let answer = match self {
            Cluster::Picture(picture) => {
                picture.answer(question, &|namespace| !hidden.contains(namespace))
            }
            Cluster::Counts(counts) => counts.answer(question),
        };
        let answer =
            answer.unwrap_or_else(|| Err(Failure::NotFound("there is no such path".to_owned())));
        answer.map(line)
    }
}

impl Default for Pages {
    fn default() -> Self {
        Pages {
            pictures: Mutex::default(),
            counts: Mutex::default(),
            samples: std::sync::Mutex::default(),
            turn: Semaphore::new(1),
            streams: Arc::new(Semaphore::new(STREAMS)),
        }
    }
}

impl Pages {
    fn last(&self, from: Source) -> &Mutex<Option<Taken>> {
        match from {
            Source::Picture => &self.pictures,
            Source::Counts => &self.counts,
        }
    }

    /// What was seen last if it is fresh, or else the cluster as it is now.
    async fn seen(&self, state: &Arc<ServerState>, from: Source) -> Result<Arc<Seen>, Response> {
        // Whoever comes meanwhile waits for the same picture.
        let mut last = self.last(from).lock().await;
        if let Some(Taken { seen, until }) = &*last
            && Instant::now() < *until
        {
            return Ok(seen.clone());
        }
        // There are never two at a time, but for answers that are under way.
        *last = None;
        let views = Views {
            cluster: true,
            history: state.scheduler.advisor().has_journal(),
            timeline: true,
            configuration: true,
            live: true,
            shadow: state.scheduler.comparison().is_some(),
            ..Views::default()
        };
        let begin = Instant::now();
        let (span, made) = match from {
            Source::Picture => {
                let seen = state.scheduler.picture().await.map_err(unavailable)?;
                let span = begin.elapsed();
                let made =
                    move || Cluster::Picture(Box::new(Picture::new(seen, BTreeMap::new(), views)));
                (span, self.made(made).await)
            }
            Source::Counts => {
                let seen = state.scheduler.counts().await.map_err(unavailable)?;
                let span = begin.elapsed();
                (span, self.made(move || Cluster::Counts(Counts::new(seen, views))).await)
            }
        };
        let cluster = made.map_err(|error| {
            reply::error(http::StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        })?;
        let seen = Arc::new(Seen { cluster, answered: Answered::default() });
        let until = Instant::now() + FRESH.max(span.saturating_mul(REST));
        *last = Some(Taken { seen: seen.clone(), until });
        tokio::spawn(drop_at(until, from, Arc::downgrade(state)));
        Ok(seen)
    }

    /// What `make` makes, in its turn and on a thread for work that takes its time.
    async fn made<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let _turn = self.turn.acquire().await;
        tokio::task::spawn_blocking(make).await
    }
}

/// Drops what is fresh until then, if the server still runs.
async fn drop_at(until: Instant, from: Source, state: Weak<ServerState>) {
    tokio::time::sleep_until(until).await;
    let Some(state) = state.upgrade() else { return };
    let mut last = state.pages.last(from).lock().await;
    if last.as_ref().is_some_and(|taken| taken.until <= until) {
        *last = None;
    }
}

/// Answers one of [`Question`].
pub(in crate::serve) async fn page(asker: Asker, Query(query): Pairs) -> Response {
    match answer(&asker, &query).await {
        Ok(answer) => reply::json(http::StatusCode::OK, answer),
        Err(refusal) => refusal,
    }
}

/// Tells when there is something new to ask for.
pub(in crate::serve) async fn events(State(state): AppState) -> Response {
    let is_known = {
        let samples = state.pages.samples.lock().unwrap_or_else(PoisonError::into_inner);
        0 < samples.version()
    };
    if !is_known {
        // A stream of which nothing ever comes would look like one of a quiet cluster.
        return unavailable(Unresponsive);
    }
    let Ok(permit) = state.pages.streams.clone().try_acquire_owned() else {
        let why = "too many pages are open, please try again later";
        return reply::busy(http::StatusCode::TOO_MANY_REQUESTS, why, 1);
    };
    let version = move || {
        // The stream has it until it ends.
        let _permit = &permit;
        state.pages.samples.lock().unwrap_or_else(PoisonError::into_inner).version()
    };
    changes(version, STREAM_SPAN)
}

/// An answer, as it is sent.
async fn answer(asker: &Asker, query: &[(String, String)]) -> Result<Bytes, Response> {
    let own = |answer: Value| line(answer.to_string());
    let question = match Question::parse(asker.uri.path(), query) {
        Some(Ok(question)) => question,
        Some(Err(error)) => return Err(asker.wrong(&error.to_string())),
        None => return Err(asker.not_found("there is no such path")),
    };
    let state = &asker.state;
    match &question {
        Question::Configuration => {
            let answer = configuration(&*state.scheduler);
            return answer.map(own).map_err(|error| asker.failed(&error.to_string()));
        }
        Question::Timeline => {
            let samples = state.pages.samples.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = serde_json::to_string(&samples.timeline());
            return answer.map(line).map_err(|error| asker.failed(&error.to_string()));
        }
        Question::History(pod) => return history(asker, pod.clone()).await.map(own),
        Question::Journal => {
            let why = "a running scheduler shows the history of single pods: `plimsoll serve --journal FILE` shows the whole \
                       journal";
            return Err(asker.not_found(why));
        }
        Question::Shadow(part) => return shadow(asker, part).await.map(own),
        Question::Pod(pod) => asker.must("get", &pod.namespace, &pod.name).await?,
        // A part of it would be of no use.
        Question::Instance => asker.must("list", "", "").await?,
        _ => {}
    }
    let seen = state.pages.seen(state, Source::of(&question)).await?;
    let hidden = match &question {
        Question::Pod(_) | Question::Instance => BTreeSet::new(),
        _ => hidden(asker, &question, seen.cluster.namespaces(&question)).await?,
    };
    let made = {
        let (seen, question, hidden) = (seen.clone(), question.clone(), hidden.clone());
        state.pages.made(move || seen.cluster.answer(&question, &hidden))
    };
    let answered = match &question {
        // Nobody else asks for the same.
        Question::Pod(_) | Question::Instance => made.await,
        _ => seen.answered.get_or_make(question, hidden, made).await,
    };
    match answered {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Failure::NotFound(why))) => Err(asker.not_found(&why)),
        Ok(Err(Failure::Wrong(why))) => Err(asker.wrong(&why)),
        Ok(Err(Failure::Failed(why))) => Err(asker.failed(&why)),
        Err(error) => Err(asker.failed(&error.to_string())),
    }
}

/// JSON as it is sent.
fn line(mut json: String) -> Bytes {
    json.push('\n');
    // It was made by doubling.
    json.shrink_to_fit();
    Bytes::from(json)
}

/// The history of a pod, from the journal. It is told to those who may see the pod, and names other pods only to those who
/// may list them.
async fn history(asker: &Asker, pod: PodKey) -> Result<Value, Response> {
    asker.must("get", &pod.namespace, &pod.name).await?;
    let (advisor, name) = (asker.state.scheduler.advisor(), pod.to_string());
    let answered = tokio::task::spawn_blocking(move || advisor.history(&pod)).await;
    let mut answer = match answered {
        Ok(Some(Ok(answer))) => answer,
        Ok(Some(Err(AdviceError::Unknown(why)))) => return Err(asker.not_found(&why)),
        Ok(Some(Err(AdviceError::Wrong(why)))) => return Err(asker.wrong(&why)),
        Ok(Some(Err(AdviceError::Failed(why)))) => return Err(asker.failed(&why)),
        Ok(None) => {
            return Err(
                asker.not_found("there is no journal: start `plimsoll run` with --journal=FILE")
            );
        }
        Err(error) => return Err(asker.failed(&error.to_string())),
    };
    // A pod of the past may be of a namespace that has none today, so the namespaces are those that the answer names.
    let others = namespaces_of_history(&answer);
    let hidden = hidden(asker, &Question::Journal, others).await?;
    withhold(&mut answer, &hidden, &name);
    Ok(answer)
}

/// The namespaces of the pods that were evicted for the pod, or for which it was.
fn namespaces_of_history(answer: &Value) -> BTreeSet<String> {
    let list = |of: &Value, field: &str| of[field].as_array().cloned().unwrap_or_default();
    let attempts = list(answer, "attempts").into_iter();
    let mut pods: Vec<Value> = attempts.flat_map(|attempt| list(&attempt, "victims")).collect();
    for preemption in list(answer, "preemptions") {
        pods.extend([preemption["victim"].clone(), preemption["preemptor"].clone()]);
    }
    let namespace = |pod: &Value| pod.as_str()?.split_once('/').map(|(name, _)| name.to_owned());
    pods.iter().filter_map(namespace).collect()
}

/// What a shadow has found.
async fn shadow(asker: &Asker, question: &ShadowQuestion) -> Result<Value, Response> {
    let Some(comparison) = asker.state.scheduler.comparison() else {
        return Err(asker.not_found("this is no shadow: `plimsoll shadow` compares schedulers"));
    };
    let report = comparison.await.map_err(unavailable)?;
    let namespaces = report_namespaces(&report);
    let hidden = hidden(asker, &Question::Shadow(question.clone()), namespaces).await?;
    let mut part = part_of_report(report, question, &|namespace| !hidden.contains(namespace));
    // Reasons may name other pods.
    withhold(&mut part, &hidden, "");
    Ok(part)
}

/// The namespaces of which the user may not see the pods.
async fn hidden(
    asker: &Asker,
    question: &Question,
    namespaces: BTreeSet<String>,
) -> Result<BTreeSet<String>, Response> {
    match (asker.hidden_of_few(namespaces.clone()).await?, question) {
        (Some(hidden), _) => Ok(hidden),
        (None, Question::Pods(_)) => Err(asker.wrong(
            "you may not list the pods of all namespaces: name one with namespace=NAMESPACE",
        )),
        (None, _) => Ok(namespaces),
    }
}

fn configuration(scheduler: &dyn SchedulerView) -> serde_json::Result<Value> {
    let configuration = serde_json::from_str(&scheduler.configuration())?;
    let default = serde_json::from_str(&scheduler.default_configuration())?;
    serde_json::to_value(SeenConfiguration::new(configuration, &default))
}
