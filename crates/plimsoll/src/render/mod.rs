//! Prints answers.

pub(crate) mod bench;
pub(crate) mod canary;
pub(crate) mod capacity;
pub(crate) mod explain;
pub(crate) mod journal;
pub(crate) mod old_scale;
pub(crate) mod rebalance;
pub(crate) mod record;
pub(crate) mod shadow;
pub(crate) mod style;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod what_if;
pub(crate) mod why;
pub(crate) mod why_group;
pub(crate) mod why_journal;
