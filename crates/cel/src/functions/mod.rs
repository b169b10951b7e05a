//! The functions that expressions call, by library.

use regex::Regex;

use crate::budget::Budget;
use crate::error::Fault;
use crate::value::Value;

pub(crate) mod cidr;
pub(crate) mod conversions;
pub(crate) mod format;
pub(crate) mod ip;
pub(crate) mod lists;
mod netip;
pub(crate) mod operators;
pub(crate) mod optional;
pub(crate) mod quantity;
pub(crate) mod regexes;
pub(crate) mod semver;
pub(crate) mod string_format;
pub(crate) mod strings;
pub(crate) mod time;
pub(crate) mod url;

/// What makes the result of a call.
pub(crate) type Implementation = fn(&mut Arguments<'_>) -> Result<Value, Fault>;

/// What a call is given.
pub(crate) struct Arguments<'a> {
    /// The values, the receiver first.
    pub(crate) args: &'a [&'a Value],
    /// For functions that look at many values.
    pub(crate) budget: &'a mut Budget,
    /// The second argument as a regular expression, if it was a constant.
    pub(crate) regex: Option<&'a Regex>,
}

/// The function of a name that the checker knows, with that of its namespace. `None` for those that
/// nothing can be called on.
pub(crate) fn implementation(name: &str) -> Option<Implementation> {
    operators::implementation(name)
        .or_else(|| conversions::implementation(name))
        .or_else(|| strings::implementation(name))
        .or_else(|| lists::implementation(name))
        .or_else(|| optional::implementation(name))
        .or_else(|| quantity::implementation(name))
        .or_else(|| semver::implementation(name))
        .or_else(|| ip::implementation(name))
        .or_else(|| cidr::implementation(name))
        .or_else(|| url::implementation(name))
        .or_else(|| format::implementation(name))
        .or_else(|| time::implementation(name))
        .or_else(|| regexes::implementation(name))
}
