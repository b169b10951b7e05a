//! HTTP extenders: sends them the questions of the engine, and returns their answers.
//!
//! As kube-scheduler does it: a POST of JSON to `urlPrefix/verb`. Pods and nodes are sent exactly as
//! received from the API server. Each call is its own task, so a slow extender does not delay others.

mod endpoint;
mod engine;
mod fault;
mod fields;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod request;
mod response;
#[cfg(test)]
mod tests;
mod tls;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_api::Pod;
use plimsoll_config::Extender;
use plimsoll_engine::{
    Call, Effect, EffectId, ExtenderError, ExtenderQuestion, ExtenderReply, Write,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::endpoint::Endpoint;
pub use self::engine::for_engine;
use self::fault::CallFault;
pub use self::fault::ConfigFault;
use crate::originals::Originals;
use crate::write::MayWrite;

/// An answer to the effect of this number; for [`Event::Extended`](plimsoll_engine::Event::Extended).
pub type ExtenderAnswer = (EffectId, Result<ExtenderReply, ExtenderError>);

/// An extender with an unusable configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("extender {place} (in the order in which they are called): {why}")]
pub struct SetupError {
    /// Its index in the order of calls, from 0.
    pub place: usize,
    /// What is wrong.
    pub why: ConfigFault,
}

/// The extenders of a scheduler.
pub struct HttpExtenders {
    endpoints: Vec<Arc<Endpoint>>,
    around: Around,
    answers: UnboundedSender<ExtenderAnswer>,
    runtime: Handle,
    stopped: CancellationToken,
    questions: TaskTracker,
    bindings: TaskTracker,
}

/// What calls need in addition to the extender.
#[derive(Clone)]
struct Around {
    originals: Arc<dyn Originals>,
    may_write: MayWrite,
}

impl fmt::Debug for HttpExtenders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.endpoints.iter().map(|endpoint| endpoint.name());
        f.debug_list().entries(names).finish()
    }
}

impl HttpExtenders {
    /// Creates clients for `extenders`, in the order in which they are called
    /// ([`Configuration::extenders_in_order`](plimsoll_config::Configuration::extenders_in_order)). The
    /// engine numbers them in this order. Reads the files that they name, but sends nothing. They are
    /// asked to bind only as long as `may_write` allows it.
    ///
    /// Must be called within a tokio runtime. The error names the extender and the problem.
    pub fn new<'a>(
        extenders: impl IntoIterator<Item = &'a Extender>,
        originals: Arc<dyn Originals>,
        may_write: MayWrite,
        answers: UnboundedSender<ExtenderAnswer>,
    ) -> Result<Self, SetupError> {
        let endpoint = |(place, extender): (usize, &Extender)| {
            let endpoint = Endpoint::new(extender.clone());
            endpoint.map(Arc::new).map_err(|why| SetupError { place, why })
        };
        Ok(HttpExtenders {
            endpoints: extenders.into_iter().enumerate().map(endpoint).collect::<Result<_, _>>()?,
            around: Around { originals, may_write },
            answers,
            runtime: Handle::current(),
            stopped: CancellationToken::new(),
            questions: TaskTracker::new(),
            bindings: TaskTracker::new(),
        })
    }

    /// Sends the questions among `effects`, and returns the other effects. Never blocks: the answer to
    /// each question, or an error after a timeout, is sent to the channel.
    pub fn perform(&self, mut effects: Vec<Effect>) -> Vec<Effect> {
        if self.endpoints.is_empty() {
            return effects;
        }
        for effect in effects.extract_if(.., |effect| matches!(effect.write, Write::Extender(_))) {
            if let Effect { id, pod, write: Write::Extender(call) } = effect {
                self.send(id, pod, call);
            }
        }
        effects
    }

    fn send(&self, id: EffectId, pod: Arc<Pod>, call: Call) {
        let (around, answers) = (self.around.clone(), self.answers.clone());
        let endpoint = self.endpoints.get(call.extender.0).cloned();
        let stopped = self.stopped.clone();
        let tasks = match call.question {
            ExtenderQuestion::Bind(_) => &self.bindings,
            _ => &self.questions,
        };
        let task = async move {
            let reply = match endpoint {
                None => Err(CallFault::NotConfigured),
                Some(endpoint) => {
                    let calling = endpoint.call(&call.question, &pod, &around);
                    let reply = stopped.run_until_cancelled(calling).await;
                    let reply = reply.unwrap_or(Err(CallFault::Stopped));
                    if let Err(error) = &reply {
                        log_failure(&endpoint, &call.question, &pod, error);
                    }
                    reply
                }
            };
            // Whoever does not listen any more needs no answer.
            let _ = answers.send((id, reply.map_err(|error| ExtenderError(error.to_string()))));
        };
        tasks.spawn_on(task, &self.runtime);
    }

    /// Aborts all calls, including future ones, since another instance may lead: they are answered with
    /// an error.
    pub fn stop_at_once(&self) {
        self.stopped.cancel();
    }

    /// Whether an extender has been asked to bind a pod and has not answered.
    pub fn is_binding(&self) -> bool {
        !self.bindings.is_empty()
    }

    /// Waits for all bindings by extenders, for at most `within`, and returns whether they have
    /// finished. Then aborts all other calls.
    pub async fn finish(&self, within: Duration) -> bool {
        self.bindings.close();
        let finished = tokio::time::timeout(within, self.bindings.wait()).await.is_ok();
        self.stop_at_once();
        self.questions.close();
        self.questions.wait().await;
        finished
    }
}

/// What the pod's events and conditions do not tell.
fn log_failure(endpoint: &Endpoint, question: &ExtenderQuestion, pod: &Pod, error: &CallFault) {
    let (extender, pod, error) = (endpoint.name(), &pod.key, error.to_string());
    match question {
        ExtenderQuestion::Prioritize(_) => {
            tracing::debug!(extender, %pod, error, "the extender failed to prioritize; it is ignored");
        }
        _ if endpoint.is_ignorable() => {
            tracing::info!(extender, %pod, error, "skipping the extender, which is ignorable");
        }
        _ => tracing::debug!(extender, %pod, error, "the extender failed"),
    }
}

/// An error with its causes, outermost first.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let part = error.to_string();
        if !text.ends_with(&part) {
            text = format!("{text}: {part}");
        }
        next = error.source();
    }
    text
}
