//! The questions and answers about one pod so far.
//!
//! A question is identified by its [`Stage`]: when the pod is decided again with an answer, the cycle
//! passes the same stages. The answer counts if the question there is still the same.

use plimsoll_framework::Time;

use super::call::{ExtenderError, ExtenderId, Question, Reply};
use crate::effect::EffectId;
use crate::metrics::Lap;

/// How often the same extender is asked about the same pod in one attempt if the cluster keeps
/// changing. After that the pod is decided with the nodes that are still feasible and that the last
/// question included.
pub(crate) const MOST_ASKS: u32 = 3;

/// A place in the cycle where an extender is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// About the nominated node of the pod.
    Nominated(ExtenderId),
    /// About all feasible nodes.
    Filter(ExtenderId),
    /// About the remaining nodes.
    Prioritize(ExtenderId),
    /// About the candidates of a PostFilter plugin.
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

/// A question to one extender at one stage.
#[derive(Debug)]
struct Asked {
    stage: Stage,
    question: Question,
    /// How often it was asked, with changed questions.
    times: u32,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    /// The answer to this write is awaited.
    Awaited(EffectId),
    Came(Result<Reply, ExtenderError>),
}

/// All questions and answers about a pod in one attempt.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    asked: Vec<Asked>,
    /// Where the search for nodes begins if not all are judged: the same each time.
    pub(crate) start: usize,
    /// Whether later searches begin behind this one.
    pub(crate) counted: bool,
    /// The start of the attempt, for metrics.
    pub(crate) began: Lap,
    /// When the open questions count as failed.
    pub(crate) deadline: Option<Time>,
}

/// The state of a question.
#[derive(Debug)]
pub(crate) enum Said<'a> {
    /// The question has to be asked.
    Nothing,
    /// Exactly this question was asked and answered.
    Answer(&'a Reply),
    /// The extender was asked too often already, and the last question was different.
    Stale(&'a Question, &'a Reply),
    /// The extender failed. It is not asked again in this attempt.
    Failed(&'a ExtenderError),
}

impl Talk {
    /// A new talk.
    pub(crate) fn new(start: usize, began: Lap) -> Self {
        Talk { start, began, ..Talk::default() }
    }

    /// The state of a question at a stage.
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

    /// Records a question.
    pub(crate) fn ask(&mut self, stage: Stage, question: Question, id: EffectId) {
        let times = match self.asked.iter().position(|asked| asked.stage == stage) {
            Some(at) => self.asked.swap_remove(at).times + 1,
            None => 1,
        };
        self.asked.push(Asked { stage, question, times, answer: Answer::Awaited(id) });
    }

    /// Records an answer, and returns whether all questions are answered now.
    pub(crate) fn answered(&mut self, id: EffectId, answer: Result<Reply, ExtenderError>) -> bool {
        let is_it = |asked: &&mut Asked| matches!(asked.answer, Answer::Awaited(own) if own == id);
        if let Some(asked) = self.asked.iter_mut().find(is_it) {
            asked.answer = Answer::Came(answer);
        }
        self.open().next().is_none()
    }

    /// The open questions, and their extenders.
    pub(crate) fn open(&self) -> impl Iterator<Item = (EffectId, ExtenderId)> {
        self.asked.iter().filter_map(|asked| match asked.answer {
            Answer::Awaited(id) => Some((id, asked.stage.extender())),
            Answer::Came(_) => None,
        })
    }
}
