//! The questions and answers about one pod so far.
//!
//! When the answers have come, the [cycle](crate::cycle) that asked goes on where it stopped. If the cluster or
//! the pod has changed meanwhile, a new cycle begins, so that the decision is one about the present cluster.
//! A question is identified by its [`ExtenderStage`]: the new cycle passes the same stages, and an answer
//! counts if the question there is still the same.

use std::sync::Arc;

use plimsoll_framework::{PodInfo, Time};

use super::call::{ExtenderError, ExtenderId, ExtenderQuestion, ExtenderReply};
use crate::cycle::SchedulingCycle;
use crate::effect::EffectId;
use crate::metrics::Lap;

/// How often the same extender is asked about the same pod in one attempt if the cluster keeps
/// changing. After that the pod is decided with the nodes that are still feasible and that the last
/// question included.
pub(crate) const MOST_ASKS: u32 = 3;

/// A place in the cycle where an extender is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtenderStage {
    /// About the nominated node of the pod.
    Nominated(ExtenderId),
    /// About all feasible nodes.
    Filter(ExtenderId),
    /// About the remaining nodes.
    Prioritize(ExtenderId),
    /// About the candidates of a PostFilter plugin.
    Preempt(&'static str, ExtenderId),
}

impl ExtenderStage {
    pub(crate) fn extender(self) -> ExtenderId {
        match self {
            ExtenderStage::Nominated(extender)
            | ExtenderStage::Filter(extender)
            | ExtenderStage::Prioritize(extender)
            | ExtenderStage::Preempt(_, extender) => extender,
        }
    }
}

/// A question to one extender at one stage.
#[derive(Debug)]
struct AskedQuestion {
    stage: ExtenderStage,
    question: ExtenderQuestion,
    /// How often it was asked, with changed questions.
    times: u32,
    answer: ExtenderAnswer,
}

#[derive(Debug)]
enum ExtenderAnswer {
    /// The answer to this write is awaited.
    Awaited(EffectId),
    Came(Result<ExtenderReply, ExtenderError>),
}

/// All questions and answers about a pod in one attempt.
#[derive(Debug, Default)]
pub(crate) struct Consultation {
    asked: Vec<AskedQuestion>,
    /// Where the search for nodes begins if not all are judged: the same each time.
    pub(crate) start: usize,
    /// Whether later searches begin behind this one.
    pub(crate) counted: bool,
    /// The start of the attempt, for metrics.
    pub(crate) began: Lap,
    /// When the open questions count as failed.
    pub(crate) deadline: Option<Time>,
    /// The cycle that waits for the answers.
    stopped: Option<(CycleBasis, Box<SchedulingCycle>)>,
}

/// What a cycle was made from. While it is the same, the cycle can go on.
#[derive(Clone, Debug)]
pub(crate) struct CycleBasis {
    pub(crate) pod: PodInfo,
    /// The revisions of the cluster and of the nominated pods.
    pub(crate) revisions: [u64; 2],
}

impl CycleBasis {
    fn is_still(&self, now: &CycleBasis) -> bool {
        self.revisions == now.revisions && Arc::ptr_eq(self.pod.seen(), now.pod.seen())
    }
}

/// The state of a question.
#[derive(Debug)]
pub(crate) enum QuestionState<'a> {
    /// The question has to be asked.
    Nothing,
    /// Exactly this question was asked and answered.
    Answered(&'a ExtenderReply),
    /// The extender was asked too often already, and the last question was different.
    Stale(&'a ExtenderQuestion, &'a ExtenderReply),
    /// The extender failed. It is not asked again in this attempt.
    Failed(&'a ExtenderError),
}

impl Consultation {
    /// A new consultation.
    pub(crate) fn new(start: usize, began: Lap) -> Self {
        Consultation { start, began, ..Consultation::default() }
    }

    /// The state of a question at a stage.
    pub(crate) fn said(
        &self,
        stage: ExtenderStage,
        question: &ExtenderQuestion,
    ) -> QuestionState<'_> {
        let Some(asked) = self.asked.iter().find(|asked| asked.stage == stage) else {
            return QuestionState::Nothing;
        };
        match &asked.answer {
            ExtenderAnswer::Awaited(_) => QuestionState::Nothing,
            ExtenderAnswer::Came(Err(error)) => QuestionState::Failed(error),
            ExtenderAnswer::Came(Ok(reply)) if asked.question == *question => {
                QuestionState::Answered(reply)
            }
            ExtenderAnswer::Came(Ok(reply)) if MOST_ASKS <= asked.times => {
                QuestionState::Stale(&asked.question, reply)
            }
            ExtenderAnswer::Came(Ok(_)) => QuestionState::Nothing,
        }
    }

    /// Keeps the cycle that waits for the answers.
    pub(crate) fn keep(&mut self, basis: CycleBasis, cycle: Box<SchedulingCycle>) {
        self.stopped = Some((basis, cycle));
    }

    /// The cycle that has waited for the answers; `None` if a new one has to begin.
    pub(crate) fn take_stopped(&mut self, now: &CycleBasis) -> Option<Box<SchedulingCycle>> {
        let (basis, cycle) = self.stopped.take()?;
        basis.is_still(now).then_some(cycle)
    }

    /// Records a question.
    pub(crate) fn ask(&mut self, stage: ExtenderStage, question: ExtenderQuestion, id: EffectId) {
        let times = match self.asked.iter().position(|asked| asked.stage == stage) {
            Some(at) => self.asked.swap_remove(at).times + 1,
            None => 1,
        };
        self.asked.push(AskedQuestion {
            stage,
            question,
            times,
            answer: ExtenderAnswer::Awaited(id),
        });
    }

    /// Records an answer, and returns whether all questions are answered now.
    pub(crate) fn answered(
        &mut self,
        id: EffectId,
        answer: Result<ExtenderReply, ExtenderError>,
    ) -> bool {
        let is_it = |asked: &&mut AskedQuestion| matches!(asked.answer, ExtenderAnswer::Awaited(own) if own == id);
        if let Some(asked) = self.asked.iter_mut().find(is_it) {
            asked.answer = ExtenderAnswer::Came(answer);
        }
        self.open().next().is_none()
    }

    /// The open questions, and their extenders.
    pub(crate) fn open(&self) -> impl Iterator<Item = (EffectId, ExtenderId)> {
        self.asked.iter().filter_map(|asked| match asked.answer {
            ExtenderAnswer::Awaited(id) => Some((id, asked.stage.extender())),
            ExtenderAnswer::Came(_) => None,
        })
    }
}
