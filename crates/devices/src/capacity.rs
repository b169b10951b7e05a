//! Consumable capacity: how much of a device a request takes. As in consumable_capacity.go.

use plimsoll_api::devices::{CapacityPolicy, CapacityRange, Device, DeviceCapacity};
use plimsoll_api::quantity::Format;
use plimsoll_api::{Quantity, Str};

use crate::Features;

const NEGATIVE: &str = "capacity value is negative";
const NOT_REPRESENTABLE: &str =
    "capacity request cannot be represented in the device's range arithmetic";

/// Amounts of capacities, sorted by name.
pub(crate) type Amounts = Vec<(Str, Quantity)>;

/// What is consumed of a device already: by others, and in this search.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Consumed<'a> {
    pub(crate) by_others: &'a [(Str, Quantity)],
    pub(crate) here: &'a [(Str, Quantity)],
}

/// Whether a device has the capacities that a request asks for. The error is that of an amount that no device can
/// count. As in CmpRequestOverCapacity.
pub(crate) fn suffices(
    requested: Option<&[(Str, Quantity)]>,
    device: &Device,
    consumed: Consumed<'_>,
    features: Features,
) -> Result<bool, String> {
    let is_whole = |one: &DeviceCapacity| {
        one.policy.is_none() && !(features.is_37() && one.value.is_negative())
    };
    let is_unused = consumed.by_others.is_empty() && consumed.here.is_empty();
    if requested.is_none_or(<[_]>::is_empty)
        && is_unused
        && device.capacity.iter().all(|(_, one)| is_whole(one))
    {
        // Then the whole of each capacity is asked for, and it is there.
        return Ok(true);
    }
    let mut requests = requested.unwrap_or_default().iter();
    if !requests.all(|(name, _)| of(&device.capacity, name).is_some()) {
        return Ok(false);
    }
    // An amount that cannot be counted is an error, whatever the others are.
    let amounts = share(requested, device, features)?;
    let mut both = device.capacity.iter().zip(&amounts);
    Ok(both.all(|((name, capacity), (_, amount))| {
        if violates(amount, capacity.policy.as_deref(), features) {
            return false;
        }
        let mut sum = match of(consumed.by_others, name) {
            Some(used) => used.clone(),
            None => Quantity::default(),
        };
        sum.add(amount);
        if let Some(taken) = of(consumed.here, name) {
            sum.add(taken);
        }
        sum <= capacity.value
    }))
}

/// What a share of a device consumes: amounts of all its capacities. As in GetConsumedCapacityFromRequest.
pub(crate) fn share(
    requested: Option<&[(Str, Quantity)]>,
    device: &Device,
    features: Features,
) -> Result<Amounts, String> {
    let requested = requested.unwrap_or_default();
    let amounts = device.capacity.iter().map(|(name, capacity)| {
        match amount(of(requested, name), capacity, features) {
            Ok(amount) if features.is_37() && amount.is_negative() => {
                Err(format!("capacity \"{name}\": {NEGATIVE}"))
            }
            Ok(amount) => Ok((name.clone(), amount)),
            Err(why) => Err(format!("capacity \"{name}\": {NOT_REPRESENTABLE}: {why}")),
        }
    });
    amounts.collect()
}

fn of<'a, V>(all: &'a [(Str, V)], name: &str) -> Option<&'a V> {
    let at = all.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
    Some(&all[at].1)
}

/// As in calculateConsumedCapacity.
fn amount(
    requested: Option<&Quantity>,
    capacity: &DeviceCapacity,
    features: Features,
) -> Result<Quantity, String> {
    let policy = capacity.policy.as_deref();
    let Some(requested) = requested else {
        let default = policy.and_then(|policy| policy.default.as_ref());
        return Ok(default.unwrap_or(&capacity.value).clone());
    };
    let amount = match policy {
        Some(CapacityPolicy {
            valid_range: Some(range @ CapacityRange { min: Some(min), .. }),
            ..
        }) => return round_up(requested, min, range, features),
        Some(CapacityPolicy { valid_values, .. }) => {
            valid_values.iter().find(|valid| requested <= valid).unwrap_or(requested)
        }
        None => requested,
    };
    Ok(amount.clone())
}

/// As in roundUpRange: to the next step from the smallest amount. 1.36 counts in whole units, writes the result
/// without a suffix for thousands, and wraps around where 64 bits do not suffice. Later releases say so.
fn round_up(
    requested: &Quantity,
    min: &Quantity,
    range: &CapacityRange,
    features: Features,
) -> Result<Quantity, String> {
    if requested < min {
        return Ok(min.clone());
    }
    let Some(step) = &range.step else { return Ok(requested.clone()) };
    let is_fractional = in_thousandths(range, features);
    let units = |quantity: &Quantity| units(quantity, is_fractional);
    let (from, distance) = (units(min), units(step));
    if distance == 0 {
        return Ok(requested.clone());
    }
    if features.is_37() {
        check_range(requested, is_fractional)?;
    }
    let beyond = units(requested).wrapping_sub(from);
    let steps = beyond / distance + i64::from(beyond % distance != 0);
    // Amounts below 0 are none, and are left to wrap around.
    let is_beyond = 0 <= from && i64::MAX.wrapping_sub(from) / distance < steps;
    if features.is_37() && is_beyond {
        let what = if is_fractional { "the milli-value range" } else { "MaxInt64" };
        let requested = requested.canonical();
        return Err(format!("rounding request {requested} up to the next step passes {what}"));
    }
    let rounded = from.wrapping_add(distance.wrapping_mul(steps));
    Ok(match (is_fractional, features.is_37()) {
        (true, _) if rounded % 1000 == 0 => Quantity::new(rounded / 1000, step.format()),
        (true, _) => Quantity::from_milli(rounded, step.format()),
        (false, true) => Quantity::new(rounded, step.format()),
        (false, false) => Quantity::new(rounded, Format::BinarySi),
    })
}

/// Whether a requested amount can be read in the units of a range; the error says that it cannot.
fn check_range(requested: &Quantity, is_fractional: bool) -> Result<(), String> {
    let most = Quantity::new(i64::MAX, requested.format());
    let text = || requested.canonical();
    match is_fractional {
        true if !is_in_thousandths(requested) => {
            Err(format!("request {} is not a representable milli value", text()))
        }
        false if most < *requested => Err(format!("request {} exceeds MaxInt64", text())),
        _ => Ok(()),
    }
}

/// As in violatesPolicy.
fn violates(amount: &Quantity, policy: Option<&CapacityPolicy>, features: Features) -> bool {
    let Some(policy) = policy else { return false };
    if policy.default.as_ref() == Some(amount) {
        return false;
    }
    match &policy.valid_range {
        Some(range) => {
            range.max.as_ref().is_some_and(|max| max < amount)
                || is_off_step(amount, range, features)
        }
        None => !policy.valid_values.is_empty() && !policy.valid_values.contains(amount),
    }
}

fn is_off_step(amount: &Quantity, range: &CapacityRange, features: Features) -> bool {
    let (Some(step), Some(min)) = (&range.step, &range.min) else { return false };
    let is_fractional = in_thousandths(range, features);
    if is_fractional && !is_in_thousandths(amount) {
        return true;
    }
    let distance = units(step, is_fractional);
    let beyond = units(amount, is_fractional).wrapping_sub(units(min, is_fractional));
    distance != 0 && beyond % distance != 0
}

fn units(quantity: &Quantity, is_fractional: bool) -> i64 {
    if is_fractional { quantity.milli_value() } else { quantity.value() }
}

/// Whether amounts of a range are counted in thousandths. As in useMilli of 1.37.
fn in_thousandths(range: &CapacityRange, features: Features) -> bool {
    features.fractional_capacity
        && [&range.min, &range.max, &range.step].into_iter().flatten().all(is_in_thousandths)
        && range.step.as_ref().is_none_or(|step| 1 <= step.milli_value())
}

fn is_in_thousandths(quantity: &Quantity) -> bool {
    Quantity::from_milli(quantity.milli_value(), quantity.format()) == *quantity
}
