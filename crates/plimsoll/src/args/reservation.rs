//! `--pod-group-waiting-time` and `--pod-group-reservation-time`.

use anyhow::{Result, ensure};
use plimsoll_config::GoDuration;
use plimsoll_engine::Reservations;
use plimsoll_framework::GroupGates;

use crate::commands::span;

const WAITING: &str = "--pod-group-waiting-time";
const RESERVED: &str = "--pod-group-reservation-time";

/// How long others wait at most, unless it is given.
const AT_MOST: GoDuration = GoDuration::from_seconds(300);

/// When room is reserved for groups of pods.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ReservationFlags {
    /// Reserve room for a group of pods that has found none for this long; 0 for never, as kube-scheduler
    ///
    /// Until the group is scheduled, no other pods of the same or a lower priority are tried. It is not reserved for a
    /// group that would not fit without those pods either.
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pod_group_waiting_time: GoDuration,

    /// How long other pods wait at most while room is reserved for a group; 5m0s
    ///
    /// If the group is still not scheduled then, it must wait again for the time of --pod-group-waiting-time.
    #[arg(long, value_name = "DURATION")]
    pod_group_reservation_time: Option<GoDuration>,
}

impl ReservationFlags {
    /// The rule; `None` if there is none.
    pub(crate) fn rule(self, gates: GroupGates) -> Result<Option<Reservations>> {
        let after = span(WAITING, self.pod_group_waiting_time)?;
        let at_most = span(RESERVED, self.pod_group_reservation_time.unwrap_or(AT_MOST))?;
        if after.is_zero() {
            ensure!(
                self.pod_group_reservation_time.is_none(),
                "{RESERVED} has no effect without {WAITING}: add it with a duration such as 10m"
            );
            return Ok(None);
        }
        ensure!(
            !at_most.is_zero(),
            "{RESERVED} must not be 0: leave out {WAITING} to reserve nothing"
        );
        ensure!(
            gates.generic_workload,
            "{WAITING} has no effect without groups of pods: add --feature-gates GenericWorkload=true"
        );
        Ok(Some(Reservations { after, at_most }))
    }

    /// The flags as they can be typed again, followed by a space; empty if nothing is reserved.
    pub(crate) fn typed(self) -> String {
        let given = |flag: &str, time: GoDuration| match time.nanoseconds {
            0 => String::new(),
            _ => format!("{flag} {time} "),
        };
        let reserved = self.pod_group_reservation_time.map(|time| given(RESERVED, time));
        given(WAITING, self.pod_group_waiting_time) + &reserved.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rule(
        waiting: &str,
        reserved: Option<&str>,
        with_groups: bool,
    ) -> Result<Option<Reservations>, String> {
        let time = |text: &str| text.parse().expect("it is a duration");
        let flags = ReservationFlags {
            pod_group_waiting_time: time(waiting),
            pod_group_reservation_time: reserved.map(time),
        };
        let gates = GroupGates { generic_workload: with_groups, ..GroupGates::default() };
        flags.rule(gates).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_reserved_unless_it_is_asked_for() {
        assert_eq!(rule("0s", None, true), Ok(None));
        let after = Duration::from_mins(10);
        let five = Reservations { after, at_most: Duration::from_mins(5) };
        assert_eq!(rule("10m", None, true), Ok(Some(five)));
        let one = Reservations { after, at_most: Duration::from_mins(1) };
        assert_eq!(rule("10m", Some("1m"), true), Ok(Some(one)));
    }

    #[test]
    fn times_that_mean_nothing_are_errors() {
        let error = |waiting, reserved, with_groups| {
            rule(waiting, reserved, with_groups).expect_err("it means nothing")
        };
        assert_eq!(error("-1s", None, true), "--pod-group-waiting-time must not be negative");
        assert_eq!(
            error("1s", Some("-1s"), true),
            "--pod-group-reservation-time must not be negative"
        );
        assert!(
            error("1s", Some("0s"), true).starts_with("--pod-group-reservation-time must not be 0")
        );
        assert!(
            error("0s", Some("1s"), true).contains("no effect without --pod-group-waiting-time")
        );
        assert!(error("1s", None, false).ends_with("add --feature-gates GenericWorkload=true"));
    }
}
