//! What calls cost, as in interpreter/runtimecost.go of cel-go and cel/library/cost.go of
//! Kubernetes.

use crate::error::Fault;
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
    /// A new list as long as the result.
    NewList,
    /// A new list as long as the first argument times the depth, which is the second one or one.
    Flattening,
    /// A new list, for which all elements of a list are compared with each other: of the first
    /// argument, or of the second.
    SelfComparison(usize),
}

/// A call and the list that it makes, whatever its length.
const LIST_CALL: u64 = 11;

impl CostRule {
    /// The rule for a function and the form of it that is called, if only one fits.
    pub(crate) fn new(function: &str, overload: Option<&str>) -> Self {
        if let Some(rule) = Self::of_function(function, overload) {
            return rule;
        }
        match overload.unwrap_or_default() {
            "list_sets_contains_list" | "list_sets_intersects_list" => Self::Product,
            "list_sets_equivalent_list" => Self::TwoProducts,
            "list_slice" | "lists_range" | "list_reverse" => Self::NewList,
            "list_flatten" | "list_flatten_int" => Self::Flattening,
            "list_distinct" | "list_sort" => Self::SelfComparison(0),
            "list_sortByAssociatedKeys" => Self::SelfComparison(1),
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

    /// The cost of a call; without a result if it failed. It is an error if cel-go cannot count it.
    pub(crate) fn of(self, args: &[&Value], result: Option<&Value>) -> Result<u64, Fault> {
        let size = |i: usize| args.get(i).map_or(1, |arg| arg.size());
        Ok(match self {
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
            Self::NewList => result.map_or(1, Value::size).saturating_add(LIST_CALL),
            Self::Flattening => {
                let depth = match args.get(1) {
                    None => 1,
                    Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                    Some(other) => return Err(no_depth(other.go_type())),
                };
                size(0).saturating_mul(depth).saturating_add(LIST_CALL)
            }
            Self::SelfComparison(which) => match args.get(which) {
                Some(Value::List(values)) => self_comparison(values),
                // The first method that is missing, by name.
                Some(other) if other.can_be_added() => {
                    return Err(no_list(other.go_type(), "Contains"));
                }
                Some(other) => return Err(no_list(other.go_type(), "Add")),
                None => 1,
            },
        })
    }

    /// What becomes of an argument that failed: as a rule that is the result. Where cel-go counts a
    /// call by its arguments, it takes the failure for one and panics.
    pub(crate) fn failed(self, argument: usize, fault: Fault) -> Fault {
        match (self, fault) {
            (_, cancelled @ Fault::Cancelled(_)) => cancelled,
            (Self::SelfComparison(which), _) if which == argument => no_list("*types.Err", "Add"),
            (Self::Flattening, _) if argument == 1 => no_depth("*types.Err"),
            (_, fault) => fault,
        }
    }
}

fn self_comparison(values: &[Value]) -> u64 {
    let size = values.len() as u64;
    let square = size.saturating_mul(size);
    // A text is walked through for a tenth.
    let texts = matches!(values.first(), Some(Value::String(_) | Value::Bytes(_)));
    let walks = if texts { square / 10 } else { 0 };
    square.saturating_mul(2).saturating_add(walks).saturating_add(LIST_CALL)
}

fn no_list(of: &str, missing: &str) -> Fault {
    Fault::cancelled(format!(
        "internal error: interface conversion: {of} is not traits.Lister: missing method {missing}"
    ))
}

fn no_depth(of: &str) -> Fault {
    Fault::cancelled(format!(
        "internal error: interface conversion: ref.Val is {of}, not types.Int"
    ))
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
