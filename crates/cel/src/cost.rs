//! What calls cost, as in interpreter/runtimecost.go of cel-go and cel/library/cost.go of
//! Kubernetes.

use crate::value::Value;

/// How the cost of a call follows from its arguments and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CostRule {
    One,
    /// A tenth of the size of the first argument, rounded up.
    Traversal,
    /// A fifth of it.
    TwoTraversals,
    /// A fifth of the size of the result.
    TwoTraversalsOfResult,
    /// A tenth of both sizes together.
    Concatenation,
    /// A tenth of the smaller size.
    Smaller,
    /// A tenth of each size, multiplied.
    Search,
    /// A text by a regular expression, which counts a quarter of its length.
    Regex,
    /// The number of elements of the second argument.
    Elements,
    /// The values within the first argument.
    Tree,
    /// One and the product of both sizes.
    Product,
    /// One and twice the product.
    TwoProducts,
    ContainsAddress {
        parses: bool,
    },
    ContainsNetwork {
        parses: bool,
    },
    Validation,
}

impl CostRule {
    /// The rule for a function and the form of it that is called, if only one fits.
    pub(crate) fn new(function: &str, overload: Option<&str>) -> Self {
        if let Some(rule) = Self::of_function(function, overload) {
            return rule;
        }
        match overload.unwrap_or_default() {
            "list_sets_contains_list" | "list_sets_intersects_list" => Self::Product,
            "list_sets_equivalent_list" => Self::TwoProducts,
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
            | "strings_quote" | "string_format" => Self::Traversal,
            "in_list" => Self::Elements,
            "ordered_string" | "ordered_bytes" => Self::Smaller,
            "add_string" | "add_bytes" => Self::Concatenation,
            "matches_string" => Self::Regex,
            "contains_string" => Self::Search,
            _ => Self::One,
        }
    }

    /// What Kubernetes says by the name of the function alone.
    fn of_function(function: &str, overload: Option<&str>) -> Option<Self> {
        let overload = overload.unwrap_or_default();
        Some(match function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Self::Tree,
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP"
            | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => Self::Traversal,
            "ip" if overload == "cidr_ip" => Self::One,
            "ip" => Self::Traversal,
            "replace" | "split" | "ip.isCanonical" => Self::TwoTraversals,
            "join" => Self::TwoTraversalsOfResult,
            "find" | "findAll" => Self::Regex,
            "containsIP" => Self::ContainsAddress { parses: overload == "cidr_contains_ip_string" },
            "containsCIDR" => {
                Self::ContainsNetwork { parses: overload == "cidr_contains_cidr_string" }
            }
            "validate" => Self::Validation,
            _ => return None,
        })
    }

    /// The cost of a call; without a result if it failed.
    pub(crate) fn of(self, args: &[&Value], result: Option<&Value>) -> u64 {
        let size = |i: usize| args.get(i).map_or(1, |arg| arg.size());
        match self {
            Self::One => 1,
            Self::Traversal => tenths(size(0)),
            Self::TwoTraversals => tenths(size(0).saturating_mul(2)),
            Self::TwoTraversalsOfResult => tenths(result.map_or(1, Value::size).saturating_mul(2)),
            Self::Concatenation => tenths(size(0).saturating_add(size(1))),
            Self::Smaller => tenths(size(0).min(size(1))),
            Self::Search => tenths(size(0)).saturating_mul(tenths(size(1))),
            Self::Regex => tenths(size(0) + 1).saturating_mul(size(1).div_ceil(4)),
            Self::Elements => size(1),
            Self::Tree => args.first().map_or(0, |arg| tree(arg)),
            Self::Product => size(0).saturating_mul(size(1)).saturating_add(1),
            Self::TwoProducts => {
                size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1)
            }
            Self::ContainsAddress { parses } => {
                tenths(2 * size(0)) + if parses { tenths(size(1)) } else { 0 }
            }
            Self::ContainsNetwork { parses } => {
                let parsing = if parses { tenths(size(1)) } else { 0 };
                tenths(2 * size(0)) + tenths(size(0)) + 1 + parsing
            }
            Self::Validation => match args.first() {
                Some(Value::Format(format)) => {
                    tenths(size(1) + 1).saturating_mul(format.regex_size().div_ceil(4))
                }
                _ => 1,
            },
        }
    }
}

/// The cost of `==` and `!=`.
pub(crate) fn equality(first: &Value, second: &Value) -> u64 {
    match first {
        Value::Ip(_) | Value::Cidr(_) => 1,
        _ => tenths(first.size().min(second.size())),
    }
}

pub(crate) fn tenths(size: u64) -> u64 {
    size.div_ceil(10)
}

/// The cost of a walk through a value. What is shared is counted each time, but no further than
/// to a cost that ends the evaluation, or as many values, if these cost nothing.
fn tree(value: &Value) -> u64 {
    fn walk(value: &Value, cost: &mut u64, left: &mut u64) {
        if crate::budget::MAX_COST < *cost {
            return;
        }
        if *left == 0 {
            *cost = u64::MAX;
            return;
        }
        *left -= 1;
        match value {
            Value::String(text) => *cost += text.len() as u64 / 10,
            Value::Bytes(bytes) => *cost += bytes.len() as u64 / 10,
            Value::List(values) => values.iter().for_each(|value| walk(value, cost, left)),
            Value::Map(map) => map.entries().iter().for_each(|(key, value)| {
                walk(key, cost, left);
                walk(value, cost, left);
            }),
            _ => *cost += 1,
        }
    }
    let (mut cost, mut left) = (0, 2 * crate::budget::MAX_COST);
    walk(value, &mut cost, &mut left);
    cost
}
