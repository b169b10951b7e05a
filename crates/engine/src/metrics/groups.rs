//! What is counted about groups of pods beside their attempts: placements, preemption, and how long they wait.

use std::time::Duration;

use super::histogram::Histogram;
use super::{Buckets, inventory};

/// Who evicts others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preemptor {
    /// A pod for itself.
    Pod,
    /// A group for all its pods.
    Group,
}

impl Preemptor {
    /// Both of them, in their order.
    pub(super) const ALL: [Preemptor; 2] = [Preemptor::Pod, Preemptor::Group];

    /// The value of the label `preemptor`. As in framework/preemption of 1.37.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Preemptor::Pod => "pod",
            Preemptor::Group => "podgroup",
        }
    }
}

/// What the plugins that make room for groups have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupPreemptionResult {
    Success,
    Unschedulable,
    Error,
}

impl GroupPreemptionResult {
    /// All of them, in their order.
    pub(super) const ALL: [GroupPreemptionResult; 3] = [
        GroupPreemptionResult::Success,
        GroupPreemptionResult::Unschedulable,
        GroupPreemptionResult::Error,
    ];

    /// The value of the label `result`: the code of the status.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            GroupPreemptionResult::Success => "Success",
            GroupPreemptionResult::Unschedulable => "Unschedulable",
            GroupPreemptionResult::Error => "Error",
        }
    }
}

/// How a reservation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReservationEnd {
    /// The group was scheduled.
    Scheduled,
    /// Its time was over.
    Expired,
    /// A pod of the group is gone.
    Gone,
}

impl ReservationEnd {
    /// All of them, in their order.
    pub(super) const ALL: [ReservationEnd; 3] =
        [ReservationEnd::Scheduled, ReservationEnd::Expired, ReservationEnd::Gone];

    /// The value of the label `result`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            ReservationEnd::Scheduled => "scheduled",
            ReservationEnd::Expired => "expired",
            ReservationEnd::Gone => "gone",
        }
    }
}

/// The counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupCounts {
    /// By profile.
    pub(super) placements: Vec<PlacementCounts>,
    pub(super) preemptions: [u64; 3],
    /// How long they took, by their result.
    pub(super) searches: [Option<Box<Histogram>>; 3],
    /// By preemptor: how many evictions have violated a PodDisruptionBudget.
    pub(super) broken_budgets: [u64; 2],
    pub(super) victims: Option<Box<Histogram>>,
    /// By preemptor: how many groups, or pods of groups, were disrupted at once.
    pub(super) disruptions: [Option<Box<Histogram>>; 2],
    /// By preemptor: the durations of successful and of failed evictions.
    pub(super) executions: [[Option<Box<Histogram>>; 2]; 2],
    /// How long groups have waited until they were scheduled.
    pub(super) waited: Option<Box<Histogram>>,
    pub(super) reservations: [u64; 3],
}

/// The placements of the groups of one profile.
#[derive(Clone, Debug, Default)]
pub(super) struct PlacementCounts {
    pub(super) generated: u64,
    pub(super) feasible: u64,
    pub(super) infeasible: u64,
    /// How long the trials took on those that are feasible, and on the others.
    pub(super) took: [Option<Box<Histogram>>; 2],
}

impl GroupCounts {
    /// Counts placements that a plugin of a profile has generated.
    pub(crate) fn generated(&mut self, profile: usize, n_placements: usize) {
        let n_placements = u64::try_from(n_placements).unwrap_or(u64::MAX);
        self.placements_of(profile).generated += n_placements;
    }

    /// Counts a placement on which a group was tried.
    pub(super) fn evaluated(&mut self, profile: usize, is_feasible: bool, took: Option<Duration>) {
        let counts = self.placements_of(profile);
        match is_feasible {
            true => counts.feasible += 1,
            false => counts.infeasible += 1,
        }
        if let Some(took) = took {
            let all = &mut counts.took[usize::from(!is_feasible)];
            lazily(all, inventory::ATTEMPT_BUCKETS).observe_span(took);
        }
    }

    /// Counts an attempt to make room for a group.
    pub(super) fn preemption(&mut self, result: GroupPreemptionResult, took: Option<Duration>) {
        self.preemptions[result as usize] += 1;
        if let Some(took) = took {
            let all = &mut self.searches[result as usize];
            lazily(all, inventory::PREEMPTION_BUCKETS).observe_span(took);
        }
    }

    /// Counts evictions that violate a PodDisruptionBudget.
    pub(crate) fn breaks_budgets(&mut self, preemptor: Preemptor, broken: i64) {
        self.broken_budgets[preemptor as usize] += u64::try_from(broken).unwrap_or(0);
    }

    /// Records how many pods are evicted for a group.
    pub(crate) fn victims(&mut self, n_victims: usize) {
        observe(&mut self.victims, inventory::GROUP_VICTIMS_BUCKETS, n_victims);
    }

    /// Records how many groups, or pods of groups, are disrupted at once; nothing if none is.
    pub(crate) fn disrupts(&mut self, preemptor: Preemptor, n_units: usize) {
        if 0 < n_units {
            let disruptions = &mut self.disruptions[preemptor as usize];
            observe(disruptions, inventory::GROUP_VICTIMS_BUCKETS, n_units);
        }
    }

    /// Records the end of evictions.
    pub(crate) fn evictions_over(&mut self, preemptor: Preemptor, failed: bool, took: Duration) {
        let executions = &mut self.executions[preemptor as usize][usize::from(failed)];
        lazily(executions, inventory::PREEMPTION_BUCKETS).observe_span(took);
    }

    /// Counts a reservation that has ended.
    pub(crate) fn reservation_over(&mut self, end: ReservationEnd) {
        self.reservations[end as usize] += 1;
    }

    /// Records how long a group has waited until it was scheduled.
    pub(crate) fn scheduled_after(&mut self, waited: Duration) {
        lazily(&mut self.waited, inventory::SLI_BUCKETS).observe_span(waited);
    }

    fn placements_of(&mut self, profile: usize) -> &mut PlacementCounts {
        if self.placements.len() <= profile {
            self.placements.resize_with(profile + 1, PlacementCounts::default);
        }
        &mut self.placements[profile]
    }
}

fn observe(histogram: &mut Option<Box<Histogram>>, buckets: Buckets, n: usize) {
    lazily(histogram, buckets).observe(f64::from(u32::try_from(n).unwrap_or(u32::MAX)));
}

fn lazily(histogram: &mut Option<Box<Histogram>>, buckets: Buckets) -> &mut Histogram {
    histogram.get_or_insert_with(|| Box::new(Histogram::new(buckets)))
}
