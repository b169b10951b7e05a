//! Types of expressions, and how they are unified, as in checker/types.go of cel-go.

use std::fmt;
use std::rc::Rc;

/// The most nodes a type may have: types grow exponentially with the length of an expression if
/// one is used twice in the next.
const MAX_NODES: usize = 2_000;
/// How many steps one unification may take.
const MAX_STEPS: usize = 100_000;

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    /// Known only when the expression is evaluated.
    Dyn,
    /// The same, of the attributes of devices: `google.protobuf.Any`.
    Any,
    /// Of an expression that is wrong.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Rc<Type>),
    Map(Rc<(Type, Type)>),
    /// The type of a type.
    Meta(Rc<Type>),
    Optional(Rc<Type>),
    /// A type with methods but without fields that the checker knows.
    Opaque(&'static str),
    /// `kubernetes.DRADevice`
    Device,
    /// A type that is to be inferred.
    Variable(usize),
}

impl Type {
    pub(crate) fn list(element: Type) -> Self {
        Self::List(Rc::new(element))
    }

    pub(crate) fn map(key: Type, value: Type) -> Self {
        Self::Map(Rc::new((key, value)))
    }

    pub(crate) fn optional(value: Type) -> Self {
        Self::Optional(Rc::new(value))
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any | Self::Error)
    }

    /// Whether it has more nodes than types may have.
    pub(crate) fn is_too_large(&self) -> bool {
        fn count(of: &Type, left: &mut usize) {
            if *left == 0 {
                return;
            }
            *left -= 1;
            match of {
                Type::List(inner) | Type::Meta(inner) | Type::Optional(inner) => {
                    count(inner, left);
                }
                Type::Map(pair) => {
                    count(&pair.0, left);
                    count(&pair.1, left);
                }
                _ => {}
            }
        }
        let mut left = MAX_NODES;
        count(self, &mut left);
        left == 0
    }

    /// The name without its parameters.
    pub(crate) fn short_name(&self) -> String {
        match self {
            Self::List(_) => "list".to_owned(),
            Self::Map(_) => "map".to_owned(),
            Self::Meta(_) => "type".to_owned(),
            Self::Optional(_) => "optional_type".to_owned(),
            _ => self.to_string(),
        }
    }

    /// The name for messages of the checker, where an attribute is of type `any`.
    pub(crate) fn checked_name(&self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::Null => "null".to_owned(),
            Self::List(inner) => format!("list({})", inner.checked_name()),
            Self::Map(pair) => format!("map({}, {})", pair.0.checked_name(), pair.1.checked_name()),
            Self::Meta(inner) => format!("type({})", inner.checked_name()),
            Self::Optional(inner) => format!("optional_type({})", inner.checked_name()),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dyn => "dyn",
            Self::Any => "google.protobuf.Any",
            Self::Error => "!error!",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(inner) => return write!(f, "list({inner})"),
            Self::Map(pair) => return write!(f, "map({}, {})", pair.0, pair.1),
            Self::Meta(inner) => return write!(f, "type({inner})"),
            Self::Optional(inner) => return write!(f, "optional_type({inner})"),
            Self::Opaque(name) => name,
            Self::Device => "kubernetes.DRADevice",
            Self::Variable(number) => return write!(f, "_var{number}"),
        })
    }
}

/// What is known about the variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bindings {
    bound: Vec<Option<Type>>,
}

impl Bindings {
    /// A new variable.
    pub(crate) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Variable(self.bound.len() - 1)
    }

    /// Whether values of type `actual` can be used as `expected`; if so, variables are bound.
    pub(crate) fn assign(&mut self, actual: &Type, expected: &Type) -> bool {
        self.assign_all([(actual, expected)])
    }

    /// The same for several at once: either all variables are bound or none.
    pub(crate) fn assign_all<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'a Type, &'a Type)>,
    ) -> bool {
        let mut undo = Vec::new();
        let mut steps = MAX_STEPS;
        let all = pairs.into_iter().all(|(a, e)| self.unify(a, e, &mut undo, &mut steps));
        if !all {
            for (number, old) in undo.into_iter().rev() {
                self.bound[number] = old;
            }
        }
        all
    }

    /// The type with all known variables replaced; those that are left become `rest`.
    pub(crate) fn resolve(&self, of: &Type, rest: Option<&Type>) -> Type {
        let mut left = MAX_NODES;
        self.substitute(of, rest, &mut left)
    }

    fn substitute(&self, of: &Type, rest: Option<&Type>, left: &mut usize) -> Type {
        if *left == 0 {
            return Type::Dyn;
        }
        *left -= 1;
        match of {
            Type::Variable(number) => match (&self.bound[*number], rest) {
                (Some(bound), _) => self.substitute(bound, rest, left),
                (None, Some(rest)) => rest.clone(),
                (None, None) => of.clone(),
            },
            Type::List(inner) => Type::list(self.substitute(inner, rest, left)),
            Type::Meta(inner) => Type::Meta(Rc::new(self.substitute(inner, rest, left))),
            Type::Optional(inner) => Type::optional(self.substitute(inner, rest, left)),
            Type::Map(pair) => Type::map(
                self.substitute(&pair.0, rest, left),
                self.substitute(&pair.1, rest, left),
            ),
            _ => of.clone(),
        }
    }

    /// The variable behind a chain of variables, or the type it is bound to.
    fn find<'a>(&'a self, mut of: &'a Type) -> &'a Type {
        while let Type::Variable(number) = of
            && let Some(bound) = &self.bound[*number]
        {
            of = bound;
        }
        of
    }

    fn unify(
        &mut self,
        actual: &Type,
        expected: &Type,
        undo: &mut Vec<(usize, Option<Type>)>,
        steps: &mut usize,
    ) -> bool {
        if *steps == 0 {
            return false;
        }
        *steps -= 1;
        if let Type::Variable(number) = expected
            && let Some(valid) = self.bind(actual, *number, undo, steps)
        {
            return valid;
        }
        if let Type::Variable(number) = actual {
            return self.bind(expected, *number, undo, steps).unwrap_or(false);
        }
        if actual.is_dyn_or_error() || expected.is_dyn_or_error() {
            return true;
        }
        match (actual, expected) {
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Optional(_)
                    | Type::Opaque(_)
                    | Type::Device
                    | Type::Duration
                    | Type::Timestamp
            ),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.unify(a, b, undo, steps)
            }
            (Type::Map(a), Type::Map(b)) => {
                self.unify(&a.0, &b.0, undo, steps) && self.unify(&a.1, &b.1, undo, steps)
            }
            (Type::Meta(_), Type::Meta(_)) => true,
            _ => actual == expected,
        }
    }

    /// Takes `other` for the variable. `None` says that it cannot be, and that the variable was
    /// not bound before, so that it may still be the other way round.
    fn bind(
        &mut self,
        other: &Type,
        number: usize,
        undo: &mut Vec<(usize, Option<Type>)>,
        steps: &mut usize,
    ) -> Option<bool> {
        if *other == Type::Variable(number) {
            return Some(true);
        }
        let Some(bound) = self.bound[number].clone() else {
            if self.refers(other, number, steps) {
                return None;
            }
            undo.push((number, None));
            self.bound[number] = Some(other.clone());
            return Some(true);
        };
        if *other == bound {
            return Some(true);
        }
        if !self.unify(other, &bound, undo, steps) {
            return Some(false);
        }
        let general = more_general(other, &bound);
        if *general != bound && !self.refers(general, number, steps) {
            undo.push((number, Some(bound.clone())));
            self.bound[number] = Some(general.clone());
        }
        Some(true)
    }

    /// Whether the variable occurs in a type.
    fn refers(&self, within: &Type, number: usize, steps: &mut usize) -> bool {
        if *steps == 0 {
            return true;
        }
        *steps -= 1;
        match self.find(within) {
            Type::Variable(other) => *other == number,
            Type::List(inner) | Type::Meta(inner) | Type::Optional(inner) => {
                self.refers(inner, number, steps)
            }
            Type::Map(pair) => {
                self.refers(&pair.0, number, steps) || self.refers(&pair.1, number, steps)
            }
            _ => false,
        }
    }
}

/// The type that takes the values of both, given that one can be used as the other.
pub(crate) fn more_general<'a>(first: &'a Type, second: &'a Type) -> &'a Type {
    if is_as_general(first, second) { first } else { second }
}

/// As in checker/types.go, isEqualOrLessSpecific.
fn is_as_general(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Dyn | Type::Any | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Any | Type::Variable(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            is_as_general(a, b)
        }
        (Type::Map(a), Type::Map(b)) => is_as_general(&a.0, &b.0) && is_as_general(&a.1, &b.1),
        (Type::Meta(_), Type::Meta(_)) => true,
        _ => first == second,
    }
}
