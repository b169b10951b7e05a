//! What has been said about one pod so far.
//!
//! A question is found again by its [`Stage`]: when the pod is decided again with an answer, the cycle
//! comes past the same stages. The answer counts if the question there is still the same.

use plimsoll_framework::Time;

use super::call::{ExtenderError, ExtenderId, Question, Reply};
use crate::effect::EffectId;
use crate::metrics::Lap;

/// How often the same extender is asked about the same pod in one attempt, since the cluster went on
/// changing. After that it is decided with what holds now and was asked about.
pub(crate) const MOST_ASKS: u32 = 3;

/// A place in the cycle where an extender is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// About the node that was cleared for the pod.
    Nominated(ExtenderId),
    /// About all feasible nodes.
    Filter(ExtenderId),
    /// About those that are left.
    Prioritize(ExtenderId),
    /// About what a PostFilter plugin found.
    Preempt(&'static str, ExtenderId),
}

impl Stage {
    pub(crate) fn extender(self) -> ExtenderId {
        match self {
            Stage::Nominated(extender)
            | Stage::Filter(extender)
            | Stage::Prioritize(extender)
            | Stage::Preempt(_, extender) => extender,
        }
    }
}

/// What one extender was asked at one stage.
#[derive(Debug)]
struct Asked {
    stage: Stage,
    question: Question,
    /// How often, with what changed meanwhile.
    times: u32,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    /// To this write.
    Awaited(EffectId),
    Came(Result<Reply, ExtenderError>),
}

/// Everything that has been said about a pod in one attempt.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    asked: Vec<Asked>,
    /// Where the search for nodes begins, where not all are looked at: the same each time.
    pub(crate) start: usize,
    /// Whether others begin their searches behind this one's.
    pub(crate) counted: bool,
    /// When it began, for metrics.
    pub(crate) began: Lap,
    /// When the open questions count as failed.
    pub(crate) deadline: Option<Time>,
}

/// What is known of an answer.
#[derive(Debug)]
pub(crate) enum Said<'a> {
    /// The extender has to be asked.
    Nothing,
    /// It was asked exactly this.
    Answer(&'a Reply),
    /// It was asked too often already, and last about something else.
    Stale(&'a Question, &'a Reply),
    /// It failed. It is not asked again in this attempt.
    Failed(&'a ExtenderError),
}

impl Talk {
    /// A talk that begins.
    pub(crate) fn new(start: usize, began: Lap) -> Self {
        Talk { start, began, ..Talk::default() }
    }

    /// What the extender has said to a question.
    pub(crate) fn said(&self, stage: Stage, question: &Question) -> Said<'_> {
        let Some(asked) = self.asked.iter().find(|asked| asked.stage == stage) else {
            return Said::Nothing;
        };
        match &asked.answer {
            Answer::Awaited(_) => Said::Nothing,
            Answer::Came(Err(error)) => Said::Failed(error),
            Answer::Came(Ok(reply)) if asked.question == *question => Said::Answer(reply),
            Answer::Came(Ok(reply)) if MOST_ASKS <= asked.times => {
                Said::Stale(&asked.question, reply)
            }
            Answer::Came(Ok(_)) => Said::Nothing,
        }
    }

    /// A question was asked.
    pub(crate) fn ask(&mut self, stage: Stage, question: Question, id: EffectId) {
        let times = match self.asked.iter().position(|asked| asked.stage == stage) {
            Some(at) => self.asked.swap_remove(at).times + 1,
            None => 1,
        };
        self.asked.push(Asked { stage, question, times, answer: Answer::Awaited(id) });
    }

    /// A question was answered; whether all are now.
    pub(crate) fn answered(&mut self, id: EffectId, answer: Result<Reply, ExtenderError>) -> bool {
        let is_it = |asked: &&mut Asked| matches!(asked.answer, Answer::Awaited(own) if own == id);
        if let Some(asked) = self.asked.iter_mut().find(is_it) {
            asked.answer = Answer::Came(answer);
        }
        self.open().next().is_none()
    }

    /// The questions that are not answered yet, and who was asked.
    pub(crate) fn open(&self) -> impl Iterator<Item = (EffectId, ExtenderId)> {
        self.asked.iter().filter_map(|asked| match asked.answer {
            Answer::Awaited(id) => Some((id, asked.stage.extender())),
            Answer::Came(_) => None,
        })
    }
}
