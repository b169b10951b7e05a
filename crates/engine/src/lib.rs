//! The scheduling engine: pure and deterministic. It knows no plugin by name.
//!
//! A scheduler is a fold over events: [`Scheduler::observe`] handles a change, and [`Scheduler::step`]
//! does one unit of work and returns effects for the IO layer. A real cluster, a simulation and a
//! benchmark are three loops around the same value.
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

mod as_they_were;
mod attempt;
mod audit;
mod binding;
mod bindings;
mod by_pod;
mod cache;
mod cycle;
mod decide;
pub mod decision;
mod diagnosis;
mod dump;
pub mod effect;
pub mod event;
mod explain;
pub mod extenders;
mod filters;
mod gates;
mod groups;
mod handle_output;
mod memo;
pub mod metrics;
mod names;
mod node_judge;
mod nominated_node;
mod observe;
mod pauses;
mod pick;
mod preemption;
pub mod profile;
mod profiles;
mod queue;
pub mod record;
mod recorder;
mod refusals;
mod replace;
mod sample;
mod scheduler;
mod signature;
mod snapshot;
mod sorted_pods;
mod state;
#[cfg(test)]
mod tests;
mod transaction;
mod unit;
mod waiting;
mod watchdog;
mod writes;

pub use audit::{Audit, AuditDifference};
pub use decision::{
    AttemptContext, BestNode, BestNodes, Decision, NodeDecision, NodeVerdict, Outcome,
    RejectionCount,
};
pub use diagnosis::NO_NODES;
pub use effect::{
    Condition, Effect, EffectId, EventRecord, Eviction, GroupConditionWrite, NOTE_LENGTH_LIMIT,
    Write,
};
pub use event::{Event, Observation};
pub use extenders::{Call, Extender, ExtenderError, ExtenderId, ExtenderQuestion, ExtenderReply};
pub use gates::Gates;
pub use groups::{
    GivenNodes, GroupDecision, GroupResult, MemberDecision, MemberResult, PlacementDecision,
    Reservations, ReservedRoom, SubgroupDecision,
};
pub use node_judge::{NodeJudge, Verdicts};
pub use pick::TieBreak;
pub use plimsoll_framework::{ProfileSpec, WriteCause, WriteError};
pub use profile::{Profile, ProfileError};
pub use queue::{Backoff, QueuePlace, QueuedPodInfo};
pub use recorder::{BindingEnd, Recorder};
pub use scheduler::{Detail, Engine, Next, Options, Scans, Scheduler};
pub use snapshot::{ClusterSnapshot, PendingPod};
pub use transaction::{Transaction, TransactionError};
pub use watchdog::{OpenBinding, Overcommitted, PlacedBy, ViewDifference};
