//! The rules of each release: which members a cycle has and in which order, when a group fits, what it says if it does not,
//! and what becomes of its members. Everything else is common: see [`super`].

mod on_placement;
pub(super) mod release_1_36;
mod release_1_36_placements;
pub(super) mod release_1_37;
pub(super) mod release_1_37_submit;
pub(super) mod release_1_37_trial;
