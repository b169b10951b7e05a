//! The questions of the page, answered from one picture of the cluster after another.
//!
//! However many pages are open, the engine takes a picture only now and then: if it takes long, more rarely. What they ask is
//! answered once for all of them. A picture is dropped as soon as it is not fresh any more: it holds objects as they were, and
//! in a busy cluster many of them have changed since.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Uri};
use plimsoll_api::PodKey;
use plimsoll_ui::{
    Failure, Picture, Question, SeenConfiguration, ShadowQuestion, Views, changes, part_of_report,
    report_namespaces,
};
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use super::answered::{Answered, Sent};
use super::asker::{Asker, User};
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
/// of its time on pictures.
const REST: u32 = 50;

/// A user who may not list all pods is asked about in at most so many namespaces, each of which is a review.
const NAMESPACES: usize = 50;

/// At most so many streams of events are open.
const STREAMS: usize = 32;

/// How long a stream of events lasts: less than any request may take.
const STREAM_SPAN: Duration = Duration::from_secs(45);

/// What the page is told from.
pub(in crate::serve) struct Pages {
    last: Mutex<Option<Taken>>,
    pub(in crate::serve) samples: std::sync::Mutex<Samples>,
    /// One picture or answer is made at a time: many pages then take no more memory and threads than one.
    turn: Semaphore,
    streams: Arc<Semaphore>,
}

/// The last picture, as long as it is fresh.
struct Taken {
    picture: Arc<Pictured>,
    /// Until then it is fresh.
    until: Instant,
}

/// A picture with the answers that were made from it.
struct Pictured {
    picture: Picture,
    answered: Answered,
}

impl Default for Pages {
    fn default() -> Self {
        Pages {
            last: Mutex::default(),
            samples: std::sync::Mutex::default(),
            turn: Semaphore::new(1),
            streams: Arc::new(Semaphore::new(STREAMS)),
        }
    }
}

impl Pages {
    /// The last picture if it is fresh, or else a new one.
    async fn picture(&self, state: &Arc<ServerState>) -> Result<Arc<Pictured>, Response> {
        // Whoever comes meanwhile waits for the same picture.
        let mut last = self.last.lock().await;
        if let Some(Taken { picture, until }) = &*last
            && Instant::now() < *until
        {
            return Ok(picture.clone());
        }
        // There are never two at a time, but for answers that are under way.
        *last = None;
        let begin = Instant::now();
        let seen = state.scheduler.picture().await.map_err(unavailable)?;
        let span = begin.elapsed();
        let views = Views {
            cluster: true,
            history: state.scheduler.advisor().has_journal(),
            timeline: true,
            configuration: true,
            live: true,
            shadow: state.scheduler.comparison().is_some(),
            ..Views::default()
        };
        let _turn = self.turn.acquire().await;
        let made = tokio::task::spawn_blocking(move || {
            let picture = Picture::new(seen, std::collections::BTreeMap::new(), views);
            Arc::new(Pictured { picture, answered: Answered::default() })
        });
        let picture = made.await.map_err(|error| {
            reply::error(http::StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        })?;
        let until = Instant::now() + FRESH.max(span.saturating_mul(REST));
        *last = Some(Taken { picture: picture.clone(), until });
        tokio::spawn(drop_at(until, Arc::downgrade(state)));
        Ok(picture)
    }
}

/// Drops the picture that is fresh until then, if the server still runs.
async fn drop_at(until: Instant, state: Weak<ServerState>) {
    tokio::time::sleep_until(until).await;
    let Some(state) = state.upgrade() else { return };
    let mut last = state.pages.last.lock().await;
    if last.as_ref().is_some_and(|taken| taken.until <= until) {
        *last = None;
    }
}

/// Answers one of [`Question`].
pub(in crate::serve) async fn page(
    State(state): AppState,
    Extension(user): User,
    Query(query): Pairs,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let asker = Asker { state: &state, user: &user, headers: &headers, uri: &uri };
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
async fn answer(asker: &Asker<'_>, query: &[(String, String)]) -> Result<Bytes, Response> {
    let own = |answer: Value| line(answer.to_string());
    let question = match Question::parse(asker.uri.path(), query) {
        Some(Ok(question)) => question,
        Some(Err(error)) => return Err(asker.wrong(&error.to_string())),
        None => return Err(asker.not_found("there is no such path")),
    };
    let state = asker.state;
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
    let pictured = state.pages.picture(state).await?;
    let hidden = match &question {
        Question::Pod(_) | Question::Instance => BTreeSet::new(),
        _ => hidden(asker, &question, pictured.picture.namespaces(&question)).await?,
    };
    let from = pictured.clone();
    let made = {
        let (question, hidden) = (question.clone(), hidden.clone());
        async move {
            let _turn = state.pages.turn.acquire().await;
            tokio::task::spawn_blocking(move || sent(&from.picture, &question, &hidden)).await
        }
    };
    let answered = match &question {
        // Nobody else asks for the same.
        Question::Pod(_) | Question::Instance => made.await,
        _ => pictured.answered.get_or_make(question, hidden, made).await,
    };
    match answered {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Failure::NotFound(why))) => Err(asker.not_found(&why)),
        Ok(Err(Failure::Wrong(why))) => Err(asker.wrong(&why)),
        Ok(Err(Failure::Failed(why))) => Err(asker.failed(&why)),
        Err(error) => Err(asker.failed(&error.to_string())),
    }
}

/// The answer from a picture, without the pods of hidden namespaces.
fn sent(picture: &Picture, question: &Question, hidden: &BTreeSet<String>) -> Sent {
    let answer = picture.answer(question, &|namespace| !hidden.contains(namespace));
    let answer =
        answer.unwrap_or_else(|| Err(Failure::NotFound("there is no such path".to_owned())));
    answer.map(line)
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
async fn history(asker: &Asker<'_>, pod: PodKey) -> Result<Value, Response> {
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
async fn shadow(asker: &Asker<'_>, question: &ShadowQuestion) -> Result<Value, Response> {
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
    asker: &Asker<'_>,
    question: &Question,
    namespaces: BTreeSet<String>,
) -> Result<BTreeSet<String>, Response> {
    if namespaces.len() <= NAMESPACES || asker.may("list", "", "").await? {
        return asker.hidden(namespaces).await;
    }
    match question {
        Question::Pods(_) => Err(asker.wrong(
            "you may not list the pods of all namespaces: name one with namespace=NAMESPACE",
        )),
        _ => Ok(namespaces),
    }
}

fn configuration(scheduler: &dyn SchedulerView) -> serde_json::Result<Value> {
    let configuration = serde_json::from_str(&scheduler.configuration())?;
    let default = serde_json::from_str(&scheduler.default_configuration())?;
    serde_json::to_value(SeenConfiguration::new(configuration, &default))
}
