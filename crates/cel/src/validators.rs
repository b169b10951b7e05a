//! What a well-typed expression must not have either, as in cel/validator.go and ext/strings.go of
//! cel-go.

use crate::ast::{Call, Element, Expr, Kind, Literal};
use crate::checker::Checked;
use crate::functions::string_format::{Clause, Piece, pieces};
use crate::functions::{regexes, time};
use crate::source::Issue;
use crate::types::Type;

/// How many regular expressions an expression may have as constants. Each can take megabytes and
/// milliseconds; cel-go has no such limit.
const MAX_REGEXES: u32 = 64;

/// What is wrong with literals: durations, timestamps, regular expressions and formats that cannot be
/// read, and lists and maps of values of different types.
pub(crate) fn validate(root: &Expr, checked: &Checked) -> Vec<Issue> {
    let mut validator = Validator { checked, issues: Vec::new(), exempt: 0, regexes: 0 };
    validator.walk(root);
    validator.issues
}

struct Validator<'a> {
    checked: &'a Checked,
    issues: Vec<Issue>,
    /// In how many calls it is whose lists may have different types.
    exempt: u32,
    /// How many regular expressions there were.
    regexes: u32,
}

impl Validator<'_> {
    fn walk(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select(select) => self.walk(&select.operand),
            Kind::Index(index) => {
                self.walk(&index.operand);
                self.walk(&index.key);
            }
            Kind::Call(call) => self.call(expr.at, call),
            Kind::And(terms) | Kind::Or(terms) => {
                for term in terms {
                    self.walk(term);
                }
            }
            Kind::Conditional(parts) => {
                for part in &**parts {
                    self.walk(part);
                }
            }
            Kind::List(elements) => {
                let types = elements.iter().map(|element| (&element.value, element.optional));
                self.same_types(types);
                for element in elements {
                    self.walk(&element.value);
                }
            }
            Kind::Map(entries) => {
                self.same_types(entries.iter().map(|entry| (&entry.key, false)));
                self.same_types(entries.iter().map(|entry| (&entry.value, entry.optional)));
                for entry in entries {
                    self.walk(&entry.key);
                    self.walk(&entry.value);
                }
            }
            Kind::Comprehension(comprehension) => {
                self.walk(&comprehension.range);
                if let Some(filter) = &comprehension.filter {
                    self.walk(filter);
                }
                self.walk(&comprehension.body);
            }
        }
    }

    fn call(&mut self, at: u32, call: &Call) {
        let literal = |expr: Option<&Expr>| match expr.map(|expr| &expr.kind) {
            Some(Kind::Literal(Literal::String(text))) => Some(text.clone()),
            _ => None,
        };
        let pattern = call.args.iter().find(|arg| literal(Some(arg)).is_some());
        if let Some(pattern) = pattern.filter(|_| regexes::takes_regex(&call.function)) {
            self.regexes += 1;
            if self.regexes == MAX_REGEXES + 1 {
                let message = format!("more than {MAX_REGEXES} regular expressions");
                self.issues.push(Issue::new(pattern.at, message));
            }
            if MAX_REGEXES < self.regexes {
                return;
            }
        }
        if let Some(argument) = call.args.first()
            && let Kind::Literal(value) = &argument.kind
            && !is_valid(call, value)
        {
            let message = format!("invalid {} argument", call.function);
            self.issues.push(Issue::new(argument.at, message));
        }
        let is_format = call.function == "format";
        if is_format && let (Some(text), [values]) = (literal(call.target.as_ref()), &call.args[..])
        {
            self.format(at, &text, values);
        }
        self.exempt += u32::from(is_format);
        for part in call.target.iter().chain(&call.args) {
            self.walk(part);
        }
        self.exempt -= u32::from(is_format);
    }

    /// One issue for the first element whose type is not that of the first.
    fn same_types<'e>(&mut self, values: impl Iterator<Item = (&'e Expr, bool)>) {
        if 0 < self.exempt {
            return;
        }
        let mut first: Option<&Type> = None;
        for (value, optional) in values {
            let of = match &self.checked.types[value.id] {
                Type::Optional(inner) if optional => inner,
                of => of,
            };
            match first {
                None => first = Some(of),
                Some(first) if equivalent(first, of) => {}
                Some(first) => {
                    let (expected, found) = (first.checked_name(), of.checked_name());
                    let message = format!("expected type '{expected}' but found '{found}'");
                    self.issues.push(Issue::new(value.at, message));
                    return;
                }
            }
        }
    }

    /// Checks a format that is a literal against a list of values that is one.
    fn format(&mut self, at: u32, text: &str, values: &Expr) {
        let Kind::List(values) = &values.kind else { return };
        let mut used = 0;
        for piece in pieces(text) {
            let clause = match piece {
                Piece::Text(_) => continue,
                Piece::End => return self.issues.push(Issue::new(at, "unexpected end of string")),
                Piece::Clause(clause) => clause,
            };
            let Some(Element { value, .. }) = values.get(used) else {
                let message = format!("index {used} out of range");
                return self.issues.push(Issue::new(at, message));
            };
            used += 1;
            let clause = match clause {
                Ok(clause) => clause,
                Err(why) => return self.issues.push(Issue::new(at, why)),
            };
            if let Some(unfit) = self.unfit(clause, value) {
                let of = self.checked.types[unfit.id].short_name();
                let message =
                    format!("error during formatting: {}, was given {of}", clause.allowed());
                return self.issues.push(Issue::new(unfit.at, message));
            }
        }
        if used < values.len() {
            let given = values.len();
            let message = format!(
                "too many arguments supplied to string.format (expected {used}, got {given})"
            );
            self.issues.push(Issue::new(at, message));
        }
    }

    /// The value, or the part of a list or a map, that the clause cannot be used on.
    fn unfit<'e>(&self, clause: Clause, value: &'e Expr) -> Option<&'e Expr> {
        if !fits(clause.verb, &self.checked.types[value.id]) {
            return Some(value);
        }
        match &value.kind {
            Kind::List(elements) if clause.verb == 's' => {
                elements.iter().find_map(|element| self.unfit(clause, &element.value))
            }
            Kind::Map(entries) if clause.verb == 's' => {
                let mut parts = entries.iter().flat_map(|entry| [&entry.key, &entry.value]);
                parts.find_map(|part| self.unfit(clause, part))
            }
            _ => None,
        }
    }
}

/// Whether the function can be called on a literal as its first argument after the dot. As in
/// validator.go: of `matches(text, pattern)` that is the text.
fn is_valid(call: &Call, value: &Literal) -> bool {
    match (call.function.as_str(), call.args.len(), value) {
        ("duration", 1, Literal::String(text)) => time::duration(text).is_some(),
        ("duration", 1, Literal::Int(_)) => false,
        ("timestamp", 1, Literal::String(text)) => time::timestamp(text).is_some(),
        ("timestamp", 1, Literal::Int(seconds)) => {
            time::VALID.contains(&(i128::from(*seconds) * time::SECOND))
        }
        ("matches", _, Literal::String(pattern)) => regexes::compile(pattern).is_ok(),
        _ => true,
    }
}

fn equivalent(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Meta(_), Type::Meta(_)) => true,
        _ => first == second,
    }
}

/// Whether a clause can be used on values of a type. Dyn is taken for all.
fn fits(verb: char, of: &Type) -> bool {
    use Type::{
        Bool, Bytes, Double, Duration, Dyn, Error, Int, List, Map, Meta, Null, String, Timestamp,
        Uint,
    };
    match (verb, of) {
        (_, Dyn | Error | Int | Uint) if !matches!(verb, 'f' | 'e') => true,
        ('f' | 'e', Dyn | Error | Double | String) => true,
        ('s', String | Bool | Bytes | Double | Map(_) | List(_) | Meta(_)) => true,
        ('s', Duration | Timestamp | Null) => true,
        ('b', Bool) | ('x' | 'X', String | Bytes) => true,
        _ => false,
    }
}
