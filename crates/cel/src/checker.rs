//! The type checker, as in checker/checker.go of cel-go.

use crate::ast::{
    Access, Call, Comprehension, Element, Entry, Expr, Fold, Index, Kind, Literal, Select,
};
use crate::device::Attributes;
use crate::overloads::overloads;
use crate::parser::Parsed;
use crate::source::Issue;
use crate::types::{Bindings, Type, more_general};

/// The most calls and operators for whose forms the checker looks; a guard against inputs that
/// bind variables again and again.
const MAX_ISSUES: usize = 100;

/// What the checker found out about each node, by its number.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The type of its value.
    pub(crate) types: Vec<Type>,
    /// Of calls: which function is called.
    pub(crate) calls: Vec<Option<Resolution>>,
    /// Of names: the type that it is the name of.
    pub(crate) type_names: Vec<Option<&'static str>>,
}

/// The function that a call calls.
#[derive(Debug, Clone)]
pub(crate) struct Resolution {
    /// The name, with that of the namespace before it.
    pub(crate) function: String,
    /// The form, if only one fits.
    pub(crate) overload: Option<&'static str>,
    /// Whether what stands before the dot is an argument, and not a namespace.
    pub(crate) receiver: bool,
}

/// Types cannot be constants, since they share their parts.
type MakeType = fn() -> Type;

/// Names of types that are values.
const TYPE_NAMES: [(&str, MakeType); 20] = [
    ("bool", || Type::Bool),
    ("bytes", || Type::Bytes),
    ("double", || Type::Double),
    ("int", || Type::Int),
    ("list", || Type::list(Type::Dyn)),
    ("map", || Type::map(Type::Dyn, Type::Dyn)),
    ("null_type", || Type::Null),
    ("string", || Type::String),
    ("type", || Type::Meta(Type::Dyn.into())),
    ("uint", || Type::Uint),
    ("optional_type", || Type::optional(Type::Dyn)),
    ("google.protobuf.Duration", || Type::Duration),
    ("google.protobuf.Timestamp", || Type::Timestamp),
    ("kubernetes.DRADevice", || Type::Device),
    ("kubernetes.NamedFormat", || Type::Opaque("kubernetes.NamedFormat")),
    ("kubernetes.Quantity", || Type::Opaque("kubernetes.Quantity")),
    ("kubernetes.Semver", || Type::Opaque("kubernetes.Semver")),
    ("kubernetes.URL", || Type::Opaque("kubernetes.URL")),
    ("net.CIDR", || Type::Opaque("net.CIDR")),
    ("net.IP", || Type::Opaque("net.IP")),
];

/// Checks an expression about a device; the issues say what is wrong with it.
pub(crate) fn check(parsed: &Parsed, attributes: Attributes) -> Result<Checked, Vec<Issue>> {
    check_in(parsed, vec![("device".to_owned(), Type::Device)], attributes)
}

/// Checks an expression with these variables, none of which is a device.
pub(crate) fn check_with(
    parsed: &Parsed,
    variables: Vec<(String, Type)>,
) -> Result<Checked, Vec<Issue>> {
    check_in(parsed, variables, Attributes::Single)
}

fn check_in(
    parsed: &Parsed,
    variables: Vec<(String, Type)>,
    attributes: Attributes,
) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        attributes,
        bindings: Bindings::default(),
        scope: variables,
        issues: Vec::new(),
        checked: Checked {
            types: vec![Type::Error; parsed.nodes],
            calls: vec![None; parsed.nodes],
            type_names: vec![None; parsed.nodes],
        },
    };
    checker.check(&parsed.root);
    let Checker { bindings, issues, mut checked, .. } = checker;
    if !issues.is_empty() {
        return Err(issues);
    }
    for of in &mut checked.types {
        *of = bindings.resolve(of, Some(&Type::Dyn));
    }
    Ok(checked)
}

/// The type of a field of a device.
fn device_field(name: &str, attributes: Attributes) -> Option<Type> {
    let domains = |of| Type::map(Type::String, Type::map(Type::String, of));
    match name {
        "driver" => Some(Type::String),
        "allowMultipleAllocations" => Some(Type::Bool),
        "attributes" => Some(domains(match attributes {
            Attributes::Single => Type::Any,
            Attributes::Lists => Type::Dyn,
        })),
        "capacity" => Some(domains(Type::Opaque("kubernetes.Quantity"))),
        _ => None,
    }
}

/// The dotted name that an expression spells.
pub(crate) fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select(select) if select.access == Access::Required => {
            let mut name = qualified_name(&select.operand)?;
            name.push('.');
            name.push_str(&select.field);
            Some(name)
        }
        _ => None,
    }
}

struct Checker {
    attributes: Attributes,
    bindings: Bindings,
    /// Variables that are in scope, the innermost last.
    scope: Vec<(String, Type)>,
    issues: Vec<Issue>,
    checked: Checked,
}

impl Checker {
    fn check(&mut self, expr: &Expr) -> Type {
        let mut of = self.type_of(expr);
        if of.is_too_large() {
            self.report(expr.at, "type of the expression is too large");
            of = Type::Error;
        }
        self.checked.types[expr.id] = of.clone();
        of
    }

    fn report(&mut self, at: u32, message: impl Into<String>) {
        if self.issues.len() < MAX_ISSUES {
            self.issues.push(Issue::new(at, message));
        }
    }

    fn undeclared(&mut self, at: u32, name: &str) -> Type {
        self.report(at, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn resolved(&self, of: &Type) -> Type {
        self.bindings.resolve(of, None)
    }

    fn name_of(&self, of: &Type) -> String {
        self.bindings.resolve(of, Some(&Type::Dyn)).checked_name()
    }

    fn type_of(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            Kind::Literal(literal) => literal_type(literal),
            Kind::Ident(name) => match self.identifier(expr.id, name) {
                Some(of) => of,
                None => self.undeclared(expr.at, name),
            },
            Kind::Select(select) => self.select(expr, select),
            Kind::Index(index) => self.index(expr, index),
            Kind::Call(call) => self.call(expr, call),
            Kind::And(terms) | Kind::Or(terms) => self.logical(terms),
            Kind::Conditional(parts) => {
                let types = parts.each_ref().map(|part| self.check(part));
                self.overload(expr.at, "_?_:_", false, &types).1
            }
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Comprehension(comprehension) => self.comprehension(expr, comprehension),
        }
    }

    /// The type of a variable or of the name of a type.
    fn identifier(&mut self, id: usize, name: &str) -> Option<Type> {
        let variable = self.scope.iter().rev().find(|(known, _)| known == name);
        if let Some((_, of)) = variable {
            return Some(of.clone());
        }
        let (name, of) = TYPE_NAMES.iter().find(|(known, _)| *known == name)?;
        self.checked.type_names[id] = Some(name);
        Some(Type::Meta(of().into()))
    }

    fn select(&mut self, expr: &Expr, select: &Select) -> Type {
        if select.access == Access::Required
            && let Some(name) = qualified_name(expr)
            && let Some(of) = self.identifier(expr.id, &name)
        {
            return of;
        }
        let operand = self.check(&select.operand);
        let (operand, optional) = match self.resolved(&operand) {
            Type::Optional(inner) => ((*inner).clone(), true),
            operand => (operand, false),
        };
        let field = match &operand {
            Type::Device => device_field(&select.field, self.attributes).unwrap_or_else(|| {
                self.report(expr.at, format!("undefined field '{}'", select.field));
                Type::Error
            }),
            Type::Map(pair) => pair.1.clone(),
            Type::Variable(_) => {
                self.bindings.assign(&Type::Dyn, &operand);
                Type::Dyn
            }
            Type::Dyn | Type::Any | Type::Error => Type::Dyn,
            _ => {
                let name = self.name_of(&operand);
                self.report(expr.at, format!("type '{name}' does not support field selection"));
                Type::Error
            }
        };
        match select.access {
            Access::Test => Type::Bool,
            Access::Optional => Type::optional(field),
            Access::Required if optional => Type::optional(field),
            Access::Required => field,
        }
    }

    fn index(&mut self, expr: &Expr, index: &Index) -> Type {
        let types = [self.check(&index.operand), self.check(&index.key)];
        let function = if index.access == Access::Optional { "_[?_]" } else { "_[_]" };
        self.overload(expr.at, function, false, &types).1
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Type {
        let mut types = call.args.iter().map(|arg| self.check(arg)).collect::<Vec<_>>();
        let mut function = call.function.clone();
        let mut receiver = false;
        if let Some(target) = &call.target {
            let qualified = qualified_name(target).map(|name| format!("{name}.{function}"));
            if let Some(name) = qualified.filter(|name| overloads(name).is_some()) {
                function = name;
            } else {
                receiver = true;
                types.insert(0, self.check(target));
            }
        }
        if overloads(&function).is_none() {
            return self.undeclared(expr.at, &function);
        }
        let (overload, result) = self.overload(expr.at, &function, receiver, &types);
        self.checked.calls[expr.id] = Some(Resolution { function, overload, receiver });
        result
    }

    /// The id of the form of a function that fits, if it is the only one, and the type of the result.
    fn overload(
        &mut self,
        at: u32,
        function: &str,
        receiver: bool,
        args: &[Type],
    ) -> (Option<&'static str>, Type) {
        let mut found: Option<(Option<&'static str>, Type)> = None;
        for form in overloads(function).unwrap_or_default() {
            if form.receiver != receiver || form.arity() != args.len() {
                continue;
            }
            let (expected, result) = form.instance(&mut self.bindings);
            if !self.bindings.assign_all(args.iter().zip(&expected)) {
                continue;
            }
            let result = self.resolved(&result);
            found = Some(match found {
                None => (Some(form.id), result),
                Some((_, first)) if first.is_dyn() || first == result => (None, first),
                Some(_) => (None, Type::Dyn),
            });
        }
        found.unwrap_or_else(|| {
            let names = args.iter().map(|arg| self.name_of(arg)).collect::<Vec<_>>();
            let signature = match (receiver, names.split_first()) {
                (true, Some((first, rest))) => format!("{first}.({})", rest.join(", ")),
                _ => format!("({})", names.join(", ")),
            };
            let message =
                format!("found no matching overload for '{function}' applied to '{signature}'");
            self.report(at, message);
            (None, Type::Error)
        })
    }

    fn logical(&mut self, terms: &[Expr]) -> Type {
        let types = terms.iter().map(|term| self.check(term)).collect::<Vec<_>>();
        let mut all = Type::Bool;
        for (term, of) in terms.iter().zip(&types) {
            if self.truth_value(term.at, of) == Type::Error {
                all = Type::Error;
            }
        }
        all
    }

    /// Reports an operand of a logical operator that is no truth value.
    fn truth_value(&mut self, at: u32, of: &Type) -> Type {
        if self.bindings.assign(of, &Type::Bool) {
            return Type::Bool;
        }
        let name = self.name_of(of);
        self.report(at, format!("expected type 'bool' but found '{name}'"));
        Type::Error
    }

    /// The type that takes both, or dyn.
    fn joined(&mut self, first: Option<Type>, second: Type) -> Type {
        match first {
            None => second,
            Some(first) if self.bindings.assign(&first, &second) => {
                more_general(&first, &second).clone()
            }
            Some(_) => Type::Dyn,
        }
    }

    /// The type of what an optional element adds.
    fn unwrapped(&mut self, at: u32, of: &Type) -> Type {
        match self.resolved(of) {
            Type::Optional(inner) => (*inner).clone(),
            of if of.is_dyn() => of,
            of => {
                let name = self.name_of(&of);
                let message = format!("expected type 'optional_type({name})' but found '{name}'");
                self.report(at, message);
                Type::Error
            }
        }
    }

    fn list(&mut self, elements: &[Element]) -> Type {
        let mut all = None;
        for Element { value, optional } in elements {
            let mut of = self.check(value);
            if *optional {
                of = self.unwrapped(value.at, &of);
            }
            all = Some(self.joined(all, of));
        }
        Type::list(all.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn map(&mut self, entries: &[Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for Entry { key, value, optional } in entries {
            let of = self.check(key);
            keys = Some(self.joined(keys, of));
            let mut of = self.check(value);
            if *optional {
                of = self.unwrapped(value.at, &of);
            }
            values = Some(self.joined(values, of));
        }
        let key = keys.unwrap_or_else(|| self.bindings.fresh());
        Type::map(key, values.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn comprehension(&mut self, expr: &Expr, fold: &Comprehension) -> Type {
        let range = self.check(&fold.range);
        let variables = match fold.kind {
            Fold::Bind => vec![range.clone()],
            Fold::OptMap | Fold::OptFlatMap => {
                self.overload(expr.at, "hasValue", true, std::slice::from_ref(&range));
                vec![self.overload(expr.at, "value", true, std::slice::from_ref(&range)).1]
            }
            _ => self.elements(&fold.range, &range, fold.variables.len()),
        };
        let depth = self.scope.len();
        self.scope.extend(fold.variables.iter().cloned().zip(variables));
        let filter = fold.filter.as_ref().map(|filter| self.check(filter));
        let body = self.check(&fold.body);
        let variable = self.scope[depth].1.clone();
        self.scope.truncate(depth);
        let result = self.folded(expr, fold, &range, variable, body);
        if let Some(of) = filter {
            self.overload(expr.at, "_?_:_", false, &[of, result.clone(), result.clone()]);
        }
        result
    }

    /// The type of a comprehension whose body has the type `body`.
    fn folded(
        &mut self,
        expr: &Expr,
        fold: &Comprehension,
        range: &Type,
        variable: Type,
        body: Type,
    ) -> Type {
        let at = fold.body.at;
        match fold.kind {
            Fold::All | Fold::Exists => self.truth_value(at, &body),
            Fold::ExistsOne => {
                self.overload(expr.at, "_?_:_", false, &[body, Type::Int, Type::Int]);
                Type::Bool
            }
            Fold::Map => Type::list(body),
            Fold::Filter => {
                let list = Type::list(variable);
                self.overload(expr.at, "_?_:_", false, &[body, list.clone(), list]).1
            }
            Fold::TransformMap => {
                let key = match self.resolved(range) {
                    Type::List(_) => Type::Int,
                    Type::Map(pair) => pair.0.clone(),
                    _ => Type::Dyn,
                };
                Type::map(key, body)
            }
            Fold::TransformMapEntry => {
                let entry = Type::map(self.bindings.fresh(), self.bindings.fresh());
                if !self.bindings.assign(&body, &entry) {
                    let (body, entry) = (self.name_of(&body), self.name_of(&entry));
                    let message = format!(
                        "found no matching overload for 'cel.@mapInsert' applied to '({entry}, {body})'"
                    );
                    self.report(at, message);
                }
                entry
            }
            Fold::Bind => body,
            Fold::SortBy => {
                let keys = Type::list(body);
                let function = "@sortByAssociatedKeys".to_owned();
                let (overload, list) =
                    self.overload(expr.at, &function, true, &[range.clone(), keys]);
                let sort = Resolution { function, overload, receiver: true };
                self.checked.calls[expr.id] = Some(sort);
                list
            }
            Fold::OptMap => Type::optional(body),
            Fold::OptFlatMap => {
                let none = Type::optional(self.bindings.fresh());
                self.overload(expr.at, "_?_:_", false, &[Type::Bool, body, none]).1
            }
        }
    }

    /// The types of the variables of a comprehension over a range.
    fn elements(&mut self, range: &Expr, of: &Type, variables: usize) -> Vec<Type> {
        let (key, value) = match self.resolved(of) {
            Type::List(element) => (Type::Int, (*element).clone()),
            Type::Map(pair) => (pair.0.clone(), pair.1.clone()),
            Type::Dyn | Type::Error => (Type::Dyn, Type::Dyn),
            variable @ Type::Variable(_) => {
                self.bindings.assign(&Type::Dyn, &variable);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let name = self.name_of(&other);
                let message = format!(
                    "expression of type '{name}' cannot be range of a comprehension (must be list, \
                     map, or dynamic)"
                );
                self.report(range.at, message);
                (Type::Error, Type::Error)
            }
        };
        match (variables, self.resolved(of)) {
            (1, Type::Map(_)) => vec![key],
            (1, _) => vec![value],
            _ => vec![key, value],
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
