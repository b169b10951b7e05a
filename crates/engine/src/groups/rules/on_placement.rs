//! What the trial of a group on one of its placements came to.

use plimsoll_framework::{GroupPlacement, PodInfo, Row};
use rand_pcg::Pcg64;

use crate::groups::placements::FeasiblePlacement;

/// What a placement came to. `R` is what the rules of the release keep of a trial.
pub(super) struct OnPlacement<R> {
    pub(super) placement: GroupPlacement,
    /// Whether the group fits.
    pub(super) fits: bool,
    /// The members that got a node; needed if the group fits.
    pub(super) members: Vec<(PodInfo, Row)>,
    /// The result of the trial, and the state of chance after it; `None` if members were counted.
    pub(super) result: Option<(R, Pcg64)>,
}

/// The placements on which the group fits.
pub(super) fn feasible_of<R>(tried: &[OnPlacement<R>]) -> Vec<FeasiblePlacement<'_>> {
    let fitting = tried.iter().enumerate().filter(|(_, on)| on.fits);
    let feasible = fitting.map(|(at, on)| FeasiblePlacement {
        at,
        placement: &on.placement,
        members: &on.members,
    });
    feasible.collect()
}
