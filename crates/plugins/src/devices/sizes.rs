//! Estimates of the memory that is taken by what is remembered about devices.
//!
//! Only the API server limits the size of a claim or a slice, and nothing limits how many there are over time. So what is
//! remembered of them has limits in bytes. The sizes are approximate; what matters is that they grow with what they stand for.

use plimsoll_api::Str;
use plimsoll_api::devices::{
    AttributeValue, ClaimSpec, ConstraintKind, DeviceAsk, OpaqueConfig, RequestKind,
};

/// The size of a place in a map beside its key and value: its hash, and room that is not used.
pub(super) const PLACE: usize = 16;

/// A text.
pub(super) fn text(text: &str) -> usize {
    size_of::<Str>() + text.len()
}

/// A list of texts.
pub(super) fn texts<'a>(all: impl IntoIterator<Item = &'a Str>) -> usize {
    all.into_iter().map(|one| text(one)).sum()
}

/// What a claim asks for.
pub(super) fn spec(ClaimSpec { requests, constraints, config }: &ClaimSpec) -> usize {
    let of_requests = requests.iter().map(|request| {
        text(&request.name)
            + match &request.kind {
                RequestKind::Unknown => 0,
                RequestKind::Exactly { ask: one, .. } => ask(one),
                RequestKind::FirstAvailable(all) => {
                    all.iter().map(|one| text(&one.name) + ask(&one.ask)).sum()
                }
            }
    });
    let of_constraints = constraints.iter().map(|one| {
        let attribute = match &one.kind {
            ConstraintKind::Unknown => 0,
            ConstraintKind::MatchAttribute(name) | ConstraintKind::DistinctAttribute(name) => {
                text(name)
            }
        };
        texts(&one.requests) + attribute
    });
    let opaque =
        |one: &OpaqueConfig| text(&one.driver) + text(&one.parameters) + size_of::<OpaqueConfig>();
    let of_config =
        config.iter().map(|one| texts(&one.requests) + one.opaque.as_ref().map_or(0, opaque));
    size_of::<ClaimSpec>()
        + of_requests.sum::<usize>()
        + of_constraints.sum::<usize>()
        + of_config.sum::<usize>()
}

fn ask(one: &DeviceAsk) -> usize {
    let DeviceAsk { class, selectors, mode: _, tolerations, capacity } = one;
    let of_tolerations =
        tolerations.iter().map(|one| size_of_val(one) + text(&one.key) + text(&one.value));
    let of_capacity = capacity.iter().flatten().map(|one| size_of_val(one) + one.0.len());
    size_of::<DeviceAsk>()
        + text(class)
        + texts(selectors.iter().flatten())
        + of_tolerations.sum::<usize>()
        + of_capacity.sum::<usize>()
}

/// The value of an attribute.
pub(super) fn value(value: &AttributeValue) -> usize {
    let elsewhere = match value {
        AttributeValue::Unknown | AttributeValue::Int(_) | AttributeValue::Bool(_) => 0,
        AttributeValue::String(one) | AttributeValue::Version(one) => one.len(),
        AttributeValue::Ints(all) => size_of_val(all.as_slice()),
        AttributeValue::Bools(all) => size_of_val(all.as_slice()),
        AttributeValue::Strings(all) | AttributeValue::Versions(all) => texts(all.iter()),
    };
    size_of::<AttributeValue>() + elsewhere
}
