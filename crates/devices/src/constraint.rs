//! Constraints on the devices of a claim, while they are picked.

use plimsoll_api::Str;
use plimsoll_api::devices::{AttributeValue, Constraint, ConstraintKind, Device};

use crate::Features;

/// The state of a constraint.
#[derive(Clone, Debug)]
pub(crate) enum ConstraintState<'a> {
    /// All devices have the same value. The value stays when the last device is taken away, and the next one replaces
    /// it.
    Match { name: &'a str, value: Option<&'a AttributeValue>, devices: usize },
    /// All devices have different values. 1.36 keeps only one value for each request, the last one; later releases keep
    /// that of each device.
    Distinct {
        name: &'a str,
        values: Vec<(&'a str, &'a AttributeValue)>,
        devices: usize,
        keeps_all: bool,
    },
}

/// The request for which a device is picked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picked<'a> {
    /// The name of the request.
    pub(crate) request: &'a str,
    /// The same with its alternative, if it has some: `REQUEST/SUBREQUEST`.
    pub(crate) full: &'a str,
}

impl<'a> ConstraintState<'a> {
    /// The state before any device is picked; `None` for a kind that is not known.
    pub(crate) fn of(constraint: &'a Constraint, features: Features) -> Option<Self> {
        match &constraint.kind {
            ConstraintKind::Unknown => None,
            ConstraintKind::MatchAttribute(name) => {
                Some(ConstraintState::Match { name, value: None, devices: 0 })
            }
            ConstraintKind::DistinctAttribute(name) => {
                let keeps_all = features.is_37();
                Some(ConstraintState::Distinct { name, values: Vec::new(), devices: 0, keeps_all })
            }
        }
    }

    /// Adds a device that the constraint is about; `false` if that would violate it.
    pub(crate) fn add(&mut self, picked: Picked<'a>, driver: &str, device: &'a Device) -> bool {
        match self {
            ConstraintState::Match { name, value, devices } => {
                let Some(own) = device.attribute(driver, name) else { return false };
                if *devices == 0 {
                    *value = Some(own);
                } else if !value.is_some_and(|value| are_equal(own, value)) {
                    return false;
                }
                *devices += 1;
            }
            ConstraintState::Distinct { name, values, devices, keeps_all } => {
                let Some(own) = device.attribute(driver, name) else { return false };
                if *devices != 0 && !is_distinct(own, values) {
                    return false;
                }
                let mut of_request =
                    values.iter_mut().filter(|(request, _)| *request == picked.request);
                match of_request.next().filter(|_| !*keeps_all) {
                    Some((_, value)) => *value = own,
                    None => values.push((picked.request, own)),
                }
                *devices += 1;
            }
        }
        true
    }

    /// Takes away a device that was added.
    pub(crate) fn remove(&mut self, picked: Picked<'_>) {
        match self {
            ConstraintState::Match { devices, .. } => *devices -= 1,
            // Devices are taken away in the reverse order.
            ConstraintState::Distinct { values, devices, keeps_all: true, .. } => {
                values.pop();
                *devices -= 1;
            }
            ConstraintState::Distinct { values, devices, .. } => {
                values.retain(|(request, _)| *request != picked.request);
                *devices -= 1;
            }
        }
    }
}

/// Whether a constraint is about a request.
pub(crate) fn is_about(requests: &[Str], picked: Picked<'_>) -> bool {
    requests.is_empty()
        || requests.iter().any(|name| *name == picked.request || *name == picked.full)
}

/// Lists are equal to nothing: the allocator of 1.36 does not know them.
fn are_equal(one: &AttributeValue, other: &AttributeValue) -> bool {
    is_known(one) && one == other
}

fn is_distinct(own: &AttributeValue, values: &[(&str, &AttributeValue)]) -> bool {
    values.is_empty() || is_known(own) && values.iter().all(|(_, value)| own != *value)
}

fn is_known(value: &AttributeValue) -> bool {
    matches!(
        value,
        AttributeValue::String(_)
            | AttributeValue::Int(_)
            | AttributeValue::Bool(_)
            | AttributeValue::Version(_)
    )
}
