//! What the API server allows of the lists and names in devices and claims. As in types.go and validation.go of
//! resource.k8s.io.

use super::super::error::{Result, WireError};
use super::super::primitive::List;
use super::WireSelector;
use crate::Str;
use crate::label_syntax::{dns_label_faults, subdomain_faults};

/// Requests of a claim, and names of requests that a constraint or a configuration has: `DeviceRequestsMaxSize`.
pub(super) const REQUESTS: usize = 32;
/// Alternatives of a request: `FirstAvailableDeviceRequestMaxSize`.
pub(super) const ALTERNATIVES: usize = 8;
/// Selectors of a class or a request: `DeviceSelectorsMaxSize`.
pub(super) const SELECTORS: usize = 32;
/// The bytes of an expression: `CELSelectorExpressionMaxLength`.
const EXPRESSION: usize = 10 * 1024;
/// Constraints of a claim: `DeviceConstraintsMaxSize`.
pub(super) const CONSTRAINTS: usize = 32;
/// Configurations of a claim or a class: `DeviceConfigMaxSize`.
pub(super) const CONFIGS: usize = 32;
/// Tolerations of a request: `DeviceTolerationsMaxLength`.
pub(super) const TOLERATIONS: usize = 16;
/// Consumers of a claim: `ResourceClaimReservedForMaxSize`.
pub(super) const CONSUMERS: usize = 256;
/// Devices of an allocation: `AllocationResultsMaxSize`.
pub(super) const RESULTS: usize = 32;
/// The bytes of a driver's name: `DriverNameMaxLength`.
const DRIVER: usize = 63;
/// The bytes of a pool's name: `PoolNameMaxLength`.
const POOL: usize = 253;

/// At most `most` items. As in field.TooMany.
pub(super) fn at_most(field: &str, n: usize, most: usize) -> Result<()> {
    if n <= most {
        return Ok(());
    }
    Err(WireError::new(field, format!("Too many: {n}: must have at most {most} items")))
}

/// At most `most` bytes. As in field.TooLong.
pub(super) fn short(field: &str, text: &str, most: usize) -> Result<()> {
    if text.len() <= most {
        return Ok(());
    }
    Err(WireError::new(field, format!("Too long: may not be more than {most} bytes")))
}

/// No name occurs twice. As in field.Duplicate.
pub(super) fn unique<'a>(field: &str, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        match seen.binary_search(&name) {
            Ok(_) => {
                let why = format!("Duplicate value: {name:?}: it must occur once");
                return Err(WireError::new(&format!("{field}[{index}]"), why));
            }
            Err(at) => seen.insert(at, name),
        }
    }
    Ok(())
}

/// The name of a request, a device or a counter.
pub(super) fn label(field: &str, name: Option<&Str>) -> Result<()> {
    let name = required(field, name)?;
    first_fault(field, name, dns_label_faults(name))
}

/// The name of a driver.
pub(super) fn driver(field: &str, name: Option<&Str>) -> Result<()> {
    let name = required(field, name)?;
    short(field, name, DRIVER)?;
    first_fault(field, name, subdomain_faults(&name.to_ascii_lowercase()))
}

/// The name of a pool: subdomains with slashes between them.
pub(super) fn pool(field: &str, name: Option<&Str>) -> Result<()> {
    let name = required(field, name)?;
    short(field, name, POOL)?;
    name.split('/').try_for_each(|part| first_fault(field, part, subdomain_faults(part)))
}

/// The name of an attribute with its domain.
pub(super) fn fully_qualified(field: &str, name: &Str) -> Result<()> {
    let why = match name.split('/').collect::<Vec<_>>().as_slice() {
        [_] => "a fully qualified name must be a domain and a name separated by a slash",
        ["", _] => "the domain must not be empty",
        [_, ""] => "the name must not be empty",
        [_, _] => return Ok(()),
        _ => "must not contain more than one slash",
    };
    Err(WireError::invalid(field, name.as_str(), why))
}

/// The selectors of a class or a request.
pub(super) fn selectors(all: &List<WireSelector>) -> Result<()> {
    at_most("selectors", all.0.len(), SELECTORS)?;
    for (index, selector) in all.0.iter().enumerate() {
        let expression = selector.cel.as_ref().and_then(|cel| cel.expression.as_ref());
        if let Some(expression) = expression {
            short(&format!("selectors[{index}].cel.expression"), expression, EXPRESSION)?;
        }
    }
    Ok(())
}

fn required<'a>(field: &str, name: Option<&'a Str>) -> Result<&'a Str> {
    let name = name.filter(|name| !name.is_empty());
    name.ok_or_else(|| WireError::required(field, "give it a name"))
}

fn first_fault(field: &str, name: &str, mut faults: impl Iterator<Item = String>) -> Result<()> {
    match faults.next() {
        None => Ok(()),
        Some(fault) => Err(WireError::invalid(field, name, fault)),
    }
}
