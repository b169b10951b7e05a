//! The most that an expression may cost, as the API server estimates it before it accepts a selector.
//!
//! As in checker/cost.go of cel-go, with cel/library/cost.go of Kubernetes and the sizes that
//! dynamic-resource-allocation/cel/compile.go declares for devices. Macros cost what cel-go's expansions do. Where a size
//! is not known, it may be any.

use crate::ast::{
    Access, Call, Comprehension, Element, Entry, Expr, Fold, Index, Kind, Literal, Select,
};
use crate::checker::Checked;
use crate::cost::tenths;
use crate::overloads::overloads;
use crate::types::{Bindings, Type};

/// What a list, a map or a bound variable costs before its elements.
const LIST: u64 = 10;
const MAP: u64 = 30;
/// What `includes` costs: the values that an attribute may have, `ResourceSliceMaxAttributeValuesPerDevice`.
const INCLUDES: u64 = 48;
/// The longest regular expression of a format, and the longest name of one.
const FORMAT_REGEX: u64 = 128;
const FORMAT_NAME: u64 = 64;

/// The highest cost of an expression that was checked.
pub(crate) fn highest_cost(root: &Expr, checked: &Checked) -> u64 {
    Estimator { checked, scope: Vec::new() }.node(root).cost
}

/// How large a text, a list or a map may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    min: u64,
    max: u64,
}

impl Size {
    const ANY: Size = Size { min: 0, max: u64::MAX };
    const ONE: Size = Size { min: 1, max: 1 };

    fn exactly(n: usize) -> Self {
        let n = n as u64;
        Size { min: n, max: n }
    }

    fn or(self, other: Size) -> Self {
        Size { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    fn plus(self, other: Size) -> Self {
        Size { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Size) -> Self {
        Size { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }
}

/// The sizes of the keys and the values of a list or a map.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Size,
    value: Size,
}

impl Entries {
    fn or(self, other: Entries) -> Self {
        let (key, value) = (self.key.or(other.key), self.value.or(other.value));
        Entries { is_list: self.is_list, key, value }
    }
}

/// What a part of a device is declared to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Declared {
    Device,
    Driver,
    /// The attributes by domain, and those of a domain by name.
    Attributes,
    AttributesOfDomain,
    Attribute,
    /// The capacities by domain, and those of a domain by name.
    Capacities,
    CapacitiesOfDomain,
    Capacity,
    Domain,
    Name,
}

impl Declared {
    /// The most characters, values or entries.
    fn most(self) -> u64 {
        match self {
            Self::Driver | Self::Domain => 63,
            Self::Name
            | Self::Attributes
            | Self::AttributesOfDomain
            | Self::Capacities
            | Self::CapacitiesOfDomain => 32,
            Self::Attribute => 64,
            Self::Device | Self::Capacity => 0,
        }
    }

    fn field(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Device, "driver") => Some(Self::Driver),
            (Self::Device, "attributes") => Some(Self::Attributes),
            (Self::Device, "capacity") => Some(Self::Capacities),
            (Self::AttributesOfDomain, _) => Some(Self::Attribute),
            _ => None,
        }
    }

    fn value(self) -> Option<Self> {
        match self {
            Self::Attributes => Some(Self::AttributesOfDomain),
            Self::AttributesOfDomain => Some(Self::Attribute),
            Self::Capacities => Some(Self::CapacitiesOfDomain),
            Self::CapacitiesOfDomain => Some(Self::Capacity),
            _ => None,
        }
    }

    fn key(self) -> Option<Self> {
        match self {
            Self::Attributes | Self::Capacities => Some(Self::Domain),
            Self::AttributesOfDomain | Self::CapacitiesOfDomain => Some(Self::Name),
            _ => None,
        }
    }
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The highest cost.
    cost: u64,
    size: Option<Size>,
    entries: Option<Entries>,
    declared: Option<Declared>,
}

impl Known {
    fn costing(cost: u64) -> Self {
        Known { cost, ..Known::default() }
    }

    fn size(&self) -> Size {
        self.size.unwrap_or(Size::ANY)
    }

    /// The same value once more, as a variable.
    fn bound(self) -> Self {
        Known { cost: 1, ..self }
    }
}

/// An argument of a call.
struct Argument<'a> {
    known: Known,
    of: &'a Type,
    literal: Option<&'a Literal>,
}

/// What a call costs by itself, and the size of its result.
type OwnCost = (u64, Option<Size>);

struct Estimator<'a> {
    checked: &'a Checked,
    /// Variables that are in scope, the innermost last.
    scope: Vec<(String, Known)>,
}

impl<'a> Estimator<'a> {
    fn node(&mut self, expr: &'a Expr) -> Known {
        let mut known = self.kind(expr);
        // As in computeSize: what the expression says, what the device declares, what the type says.
        known.size = known
            .size
            .or_else(|| known.declared.map(|one| Size { min: 0, max: one.most() }))
            .or_else(|| is_scalar(self.of(expr)).then_some(Size::ONE));
        known
    }

    fn of(&self, expr: &Expr) -> &'a Type {
        &self.checked.types[expr.id]
    }

    fn kind(&mut self, expr: &'a Expr) -> Known {
        if self.checked.type_names[expr.id].is_some() {
            return Known::costing(1);
        }
        match &expr.kind {
            Kind::Literal(literal) => Known { size: Some(size_of(literal)), ..Known::default() },
            Kind::Ident(name) => self.variable(name),
            Kind::Select(select) => self.select(select),
            Kind::Index(index) => self.index(index),
            Kind::Call(call) => self.call(expr, call),
            Kind::And(terms) | Kind::Or(terms) => {
                let cost = terms.iter().map(|term| self.node(term).cost);
                Known::costing(cost.fold(0, u64::saturating_add))
            }
            Kind::Conditional(parts) => {
                let [condition, first, second] = &**parts;
                let condition = self.node(condition).cost;
                let (first, second) = (self.node(first), self.node(second));
                Known {
                    cost: condition.saturating_add(first.cost.max(second.cost)),
                    size: Some(first.size().or(second.size())),
                    entries: first.entries.zip(second.entries).map(|(a, b)| a.or(b)),
                    declared: None,
                }
            }
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Comprehension(fold) => self.fold(fold),
        }
    }

    fn variable(&self, name: &str) -> Known {
        let known = self.scope.iter().rev().find(|(known, _)| known == name);
        known.map_or_else(
            || {
                let declared = (name == "device").then_some(Declared::Device);
                Known { declared, ..Known::costing(1) }
            },
            |(_, known)| known.bound(),
        )
    }

    fn select(&mut self, select: &'a Select) -> Known {
        let operand = self.node(&select.operand);
        let own = match select.access {
            // Whether a field is there is free.
            Access::Test => return Known::costing(operand.cost),
            Access::Optional => return Known::costing(operand.cost.saturating_add(1)),
            Access::Required => {
                matches!(self.of(&select.operand), Type::Map(_) | Type::Device | Type::Variable(_))
            }
        };
        let declared = operand.declared.and_then(|of| of.field(&select.field));
        Known { declared, ..Known::costing(operand.cost.saturating_add(u64::from(own))) }
    }

    fn index(&mut self, index: &'a Index) -> Known {
        let (operand, key) = (self.node(&index.operand), self.node(&index.key));
        let cost = operand.cost.saturating_add(key.cost).saturating_add(1);
        if index.access == Access::Optional {
            return Known::costing(cost);
        }
        Known {
            cost,
            size: operand.entries.map(|entries| entries.value),
            entries: None,
            declared: operand.declared.and_then(Declared::value),
        }
    }

    fn list(&mut self, elements: &'a [Element]) -> Known {
        let (mut cost, mut value) = (LIST, None::<Size>);
        for element in elements {
            let known = self.node(&element.value);
            cost = cost.saturating_add(known.cost);
            value = Some(value.map_or(known.size(), |value| value.or(known.size())));
        }
        let value = value.unwrap_or(Size { min: 0, max: 0 });
        Known {
            cost,
            size: Some(Size::exactly(elements.len())),
            entries: Some(Entries { is_list: true, key: Size::ONE, value }),
            declared: None,
        }
    }

    fn map(&mut self, entries: &'a [Entry]) -> Known {
        let (mut cost, mut sizes) = (MAP, None::<(Size, Size)>);
        for entry in entries {
            let (key, value) = (self.node(&entry.key), self.node(&entry.value));
            cost = cost.saturating_add(key.cost).saturating_add(value.cost);
            let (first, second) = sizes.unwrap_or((key.size(), value.size()));
            sizes = Some((first.or(key.size()), second.or(value.size())));
        }
        let none = Size { min: 0, max: 0 };
        let (key, value) = sizes.unwrap_or((none, none));
        Known {
            cost,
            size: Some(Size::exactly(entries.len())),
            entries: Some(Entries { is_list: false, key, value }),
            declared: None,
        }
    }

    fn call(&mut self, expr: &'a Expr, call: &'a Call) -> Known {
        let resolution = self.checked.calls[expr.id].as_ref();
        let function = resolution.map_or(call.function.as_str(), |one| one.function.as_str());
        let receiver = resolution.is_some_and(|one| one.receiver);
        let target = call.target.as_ref().filter(|_| receiver);
        let args: Vec<Argument<'a>> =
            target.into_iter().chain(&call.args).map(|arg| self.argument(arg)).collect();
        let cost = args.iter().fold(0_u64, |cost, arg| cost.saturating_add(arg.known.cost));
        if function == "dyn" {
            return Known { cost: cost.saturating_add(1), ..args[0].known };
        }
        let (target, rest) = args.split_at(usize::from(receiver));
        let mut own: Option<OwnCost> = None;
        for overload in fitting(function, receiver, &args) {
            let (cost, size) = own_cost(function, overload, target.first(), rest);
            own = Some(own.map_or((cost, size), |(before, known)| {
                (before.max(cost), known.zip(size).map(|(a, b)| a.or(b)).or(known).or(size))
            }));
        }
        let (own, size) = own.unwrap_or_default();
        let entries = match function {
            "_+_" => args[0].known.entries.zip(args[1].known.entries).map(|(a, b)| a.or(b)),
            _ => None,
        };
        Known { cost: cost.saturating_add(own), size, entries, declared: None }
    }

    fn argument(&mut self, arg: &'a Expr) -> Argument<'a> {
        let literal = match &arg.kind {
            Kind::Literal(literal) => Some(literal),
            _ => None,
        };
        Argument { known: self.node(arg), of: self.of(arg), literal }
    }

    fn fold(&mut self, fold: &'a Comprehension) -> Known {
        let range = self.node(&fold.range);
        match fold.kind {
            Fold::Bind => {
                let body = self.with(&fold.variables, &[range], &fold.body);
                // An empty list stands for the range of the expansion.
                let cost = LIST.saturating_add(range.cost).saturating_add(body.cost);
                Known { cost, ..body }
            }
            Fold::OptMap | Fold::OptFlatMap => {
                let value = Known::costing(range.cost.saturating_add(1));
                let body = self.with(&fold.variables, &[value], &fold.body);
                let bound = LIST.saturating_add(value.cost).saturating_add(body.cost);
                let wrapped = bound.saturating_add(u64::from(fold.kind == Fold::OptMap));
                Known::costing(value.cost.saturating_add(wrapped.max(1)))
            }
            Fold::SortBy => {
                // The list is bound to a variable, which the keys are made from and which is sorted by them.
                let keys = self.loops(fold, range.bound(), Fold::Map);
                let cost = LIST.saturating_add(range.cost).saturating_add(keys.cost);
                Known { cost: cost.saturating_add(2), ..range }
            }
            kind => self.loops(fold, range, kind),
        }
    }

    /// A body with these variables in scope.
    fn with(&mut self, names: &[String], variables: &[Known], body: &'a Expr) -> Known {
        let depth = self.scope.len();
        self.scope.extend(names.iter().cloned().zip(variables.iter().copied()));
        let known = self.node(body);
        self.scope.truncate(depth);
        known
    }

    /// As in costComprehension, for the expansion of a macro.
    fn loops(&mut self, fold: &'a Comprehension, range: Known, kind: Fold) -> Known {
        let variables = self.elements(fold, range);
        let body = self.with(&fold.variables, &variables, &fold.body);
        let filter = fold.filter.as_ref();
        let filter = filter.map(|filter| self.with(&fold.variables, &variables, filter).cost);
        // The cost before the loop and of its condition, of what each step adds to the body, and of the result.
        let (init, condition, step, result) = match kind {
            Fold::All => (0, 2, 1, 1),
            Fold::Exists => (0, 3, 1, 1),
            // `body ? count + 1 : count`, and `count == 1`.
            Fold::ExistsOne => (0, 0, 2, 2),
            // `result + [body]`
            Fold::Map => (LIST, 0, LIST + 2, 1),
            // `body ? result + [variable] : result`
            Fold::Filter => (LIST, 0, LIST + 3, 1),
            // `cel.@mapInsert(result, key, body)`
            Fold::TransformMap => (MAP, 0, 3, 1),
            // `cel.@mapInsert(result, body)`
            _ => (MAP, 0, 2, 1),
        };
        let step = body.cost.saturating_add(step).saturating_add(filter.unwrap_or(0));
        let step = step.saturating_add(condition);
        let cost = range.cost.saturating_add(init).saturating_add(result);
        let cost = cost.saturating_add(range.size().max.saturating_mul(step));
        let is_made = !matches!(kind, Fold::All | Fold::Exists | Fold::ExistsOne);
        let value = match kind {
            Fold::Filter => variables[0].size(),
            _ => body.size(),
        };
        let entries = matches!(kind, Fold::Map | Fold::Filter).then_some(Entries {
            is_list: true,
            key: Size::ONE,
            value: value.or(Size { min: 0, max: 0 }),
        });
        Known { cost, size: is_made.then(|| range.size()), entries, declared: None }
    }

    /// The variables of a loop.
    fn elements(&self, fold: &Comprehension, range: Known) -> Vec<Known> {
        let is_list = match range.entries {
            Some(entries) => entries.is_list,
            None => matches!(self.of(&fold.range), Type::List(_)),
        };
        let key = Known {
            size: range.entries.map(|entries| entries.key),
            declared: range.declared.filter(|_| !is_list).and_then(Declared::key),
            ..Known::costing(1)
        };
        let value = Known {
            size: range.entries.map(|entries| entries.value),
            declared: range.declared.and_then(Declared::value),
            ..Known::costing(1)
        };
        let sized = |known: Known| Known {
            size: known.declared.map(|one| Size { min: 0, max: one.most() }).or(known.size),
            ..known
        };
        match (fold.variables.len(), is_list) {
            (1, true) => vec![sized(value)],
            (1, false) => vec![sized(key)],
            _ => vec![sized(key), sized(value)],
        }
    }
}

/// The forms of a function that fit, since each may be the one that is called.
fn fitting(function: &str, receiver: bool, args: &[Argument<'_>]) -> Vec<&'static str> {
    let forms = overloads(function).unwrap_or_default().iter();
    let alike = forms.filter(|form| form.receiver == receiver && form.arity() == args.len());
    let fits = alike.filter(|form| {
        let mut bindings = Bindings::default();
        let (expected, _) = form.instance(&mut bindings);
        bindings.assign_all(args.iter().map(|arg| arg.of).zip(&expected))
    });
    fits.map(|form| form.id).collect()
}

fn own_cost(
    function: &str,
    overload: &str,
    target: Option<&Argument<'_>>,
    args: &[Argument<'_>],
) -> OwnCost {
    of_kubernetes(function, overload, target, args)
        .unwrap_or_else(|| of_language(overload, target, args))
}

/// As in library/cost.go, EstimateCallCost.
fn of_kubernetes(
    function: &str,
    overload: &str,
    target: Option<&Argument<'_>>,
    args: &[Argument<'_>],
) -> Option<OwnCost> {
    let size = |at: usize| args.get(at).map_or(Size::ANY, |arg| arg.known.size());
    Some(match (function, target) {
        ("check", _) => (350_000, None),
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target)) => {
            let of = target.known.size();
            match target.of {
                Type::List(element) => {
                    let compared = match **element {
                        Type::String | Type::Bytes => tenths(element_size(target).max),
                        _ => 0,
                    };
                    (of.max.saturating_mul(compared.saturating_add(1)), None)
                }
                _ => (tenths(of.max), None),
            }
        }
        ("url", None) => (tenths(size(0).max), Some(size(0))),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target)) => {
            (tenths(target.known.size().max), Some(target.known.size()))
        }
        ("replace", Some(target)) => {
            let of = target.known.size();
            (tenths(of.max.saturating_mul(2)), Some(replaced(of, size(0), size(1))))
        }
        ("split", Some(target)) => {
            let of = target.known.size();
            let max = match args.get(1).and_then(|arg| arg.literal) {
                Some(Literal::Int(most)) => u64::try_from(*most).unwrap_or(u64::MAX),
                _ => of.max,
            };
            (tenths(of.max.saturating_mul(2)), Some(Size { min: 0, max }))
        }
        ("join", Some(target)) => {
            let of = target.known.size();
            let mut joined = of.times(element_size(target));
            if !args.is_empty() {
                let between = Size { min: of.min.saturating_sub(1), max: of.max.saturating_sub(1) };
                joined = joined.plus(size(0).times(between));
            }
            (tenths(joined.max), Some(joined))
        }
        ("find" | "findAll", Some(target)) => {
            let of = target.known.size();
            let cost = tenths(of.max.saturating_add(1)).saturating_mul(quarters(size(0).max));
            (cost, Some(Size { min: 0, max: of.max }))
        }
        ("containsIP", Some(_)) => {
            let parsed =
                if overload == "cidr_contains_ip_string" { tenths(size(0).max) } else { 0 };
            (4_u64.saturating_add(parsed), None)
        }
        ("containsCIDR", Some(_)) => {
            let parsed =
                if overload == "cidr_contains_cidr_string" { tenths(size(0).max) } else { 0 };
            (4_u64.saturating_add(2 + 1).saturating_add(parsed), None)
        }
        ("validate", Some(_)) => (tenths(size(0).max).saturating_mul(quarters(FORMAT_REGEX)), None),
        ("includes", Some(_)) => (INCLUDES, None),
        ("sets.contains" | "sets.intersects", None) => {
            (size(0).times(size(1)).max.saturating_add(1), None)
        }
        ("sets.equivalent", None) => {
            (size(0).times(size(1)).max.saturating_mul(2).saturating_add(1), None)
        }
        ("_==_", None) if args[0].of == args[1].of => match args[0].of {
            Type::Opaque("kubernetes.NamedFormat") => (tenths(FORMAT_NAME), None),
            Type::Opaque(_) => (1, None),
            _ => return None,
        },
        _ => return None,
    })
}

/// As in checker/cost.go, functionCost.
fn of_language(overload: &str, target: Option<&Argument<'_>>, args: &[Argument<'_>]) -> OwnCost {
    let size = |at: usize| args.get(at).map_or(Size::ANY, |arg| arg.known.size());
    let of_target = target.map(|target| target.known.size());
    match (overload, of_target) {
        ("string_format", Some(of)) => (tenths(of.max), None),
        ("string_to_bytes", _) => {
            let of = size(0);
            (tenths(of.max), Some(Size { min: of.min, max: of.max.saturating_mul(4) }))
        }
        ("bytes_to_string", _) => {
            let of = size(0);
            (tenths(of.max), Some(Size { min: of.min / 4, max: of.max }))
        }
        ("strings_quote", _) => {
            let of = size(0);
            let max = of.max.saturating_mul(2).saturating_add(2);
            (tenths(of.max), Some(Size { min: of.min.saturating_add(2), max }))
        }
        ("starts_with_string" | "ends_with_string", Some(_)) => (tenths(size(0).max), None),
        ("in_list", _) => (size(1).max, None),
        ("matches_string", Some(of)) => {
            let cost = tenths(of.max.saturating_add(1)).saturating_mul(quarters(size(0).max));
            (cost, None)
        }
        ("contains_string", Some(of)) => (tenths(of.max).saturating_mul(tenths(size(0).max)), None),
        ("add_list", _) => (1, Some(size(0).plus(size(1)))),
        ("add_string" | "add_bytes", _) => {
            let sum = size(0).plus(size(1));
            (tenths(sum.max), Some(sum))
        }
        ("ordered_string" | "ordered_bytes" | "equals" | "not_equals", _) => {
            (tenths(size(0).max.min(size(1).max)), None)
        }
        _ => (1, None),
    }
}

/// The size of a text after a replacement.
fn replaced(of: Size, old: Size, new: Size) -> Size {
    let max = if old.min == 0 {
        // Between all characters.
        of.max.saturating_add(1).saturating_mul(new.max).saturating_add(of.max)
    } else if new.max <= old.min {
        of.max
    } else {
        of.max.div_ceil(old.min).saturating_mul(new.max)
    };
    let min = if old.max == 0 {
        of.min.saturating_add(1).saturating_mul(new.min).saturating_add(of.min)
    } else if old.max <= new.min {
        of.min
    } else {
        of.min.div_ceil(old.max).saturating_mul(new.min)
    };
    Size { min, max }
}

/// The size of the elements of a list.
fn element_size(list: &Argument<'_>) -> Size {
    let declared = list.known.declared.and_then(Declared::value);
    declared.map_or(Size::ANY, |one| Size { min: 0, max: one.most() })
}

fn quarters(size: u64) -> u64 {
    size.div_ceil(4)
}

fn size_of(literal: &Literal) -> Size {
    match literal {
        Literal::String(text) => Size::exactly(text.chars().count()),
        Literal::Bytes(bytes) => Size::exactly(bytes.len()),
        _ => Size::ONE,
    }
}

/// Whether all values of a type have the same size. As in checker/cost.go, isScalar.
fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
