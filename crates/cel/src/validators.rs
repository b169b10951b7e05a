//! What a well-typed expression must not have either, as in cel/validator.go and ext/strings.go of
//! cel-go.

use crate::ast::{Call, Expr, Kind, Literal};
use crate::checker::Checked;
use crate::functions::string_format::{Piece, pieces};
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
            Kind::Call(call) => self.call(call),
            Kind::And(terms, _) | Kind::Or(terms, _) => {
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

    fn call(&mut self, call: &Call) {
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
        let argument = call.args.last();
        if let (Some(text), Some(argument)) = (literal(argument), argument) {
            let valid = match (call.function.as_str(), call.args.len()) {
                ("duration", 1) => time::duration(&text).is_some(),
                ("timestamp", 1) => time::timestamp(&text).is_some(),
                ("matches", _) => regexes::compile(&text).is_ok(),
                _ => true,
            };
            if !valid {
                let message = format!("invalid {} argument", call.function);
                self.issues.push(Issue::new(argument.at, message));
            }
        }
        let is_format = call.function == "format";
        if is_format && let (Some(text), [values]) = (literal(call.target.as_ref()), &call.args[..])
        {
            self.format(call, &text, values);
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
    fn format(&mut self, call: &Call, text: &str, values: &Expr) {
        let Kind::List(values) = &values.kind else { return };
        let at = call.target.as_ref().map_or(0, |target| target.at);
        let pieces = match pieces(text) {
            Ok(pieces) => pieces,
            Err(why) => return self.issues.push(Issue::new(at, why)),
        };
        let clauses = pieces.iter().filter_map(|piece| match piece {
            Piece::Clause(clause) => Some(clause),
            Piece::Text(_) => None,
        });
        let mut used = 0;
        for clause in clauses {
            let Some(value) = values.get(used) else {
                let message = format!("error during formatting: index {used} out of range");
                return self.issues.push(Issue::new(at, message));
            };
            used += 1;
            let of = &self.checked.types[value.value.id];
            if let Some(allowed) = unfit(clause.verb, of) {
                let message = format!("error during formatting: {allowed}, was given {of}");
                return self.issues.push(Issue::new(value.value.at, message));
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
}

fn equivalent(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Meta(_), Type::Meta(_)) => true,
        _ => first == second,
    }
}

/// What the clause can only be used on, if the type is none of these. Dyn is taken for all.
fn unfit(verb: char, of: &Type) -> Option<&'static str> {
    let (fits, allowed) = match verb {
        's' => (
            matches!(
                of,
                Type::String
                    | Type::Bool
                    | Type::Bytes
                    | Type::Int
                    | Type::Uint
                    | Type::Double
                    | Type::Map(_)
                    | Type::List(_)
                    | Type::Meta(_)
                    | Type::Duration
                    | Type::Timestamp
                    | Type::Null
            ),
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
             durations, and timestamps",
        ),
        'd' => (
            matches!(of, Type::Int | Type::Uint | Type::Double),
            "decimal clause can only be used on integers",
        ),
        'f' => (
            matches!(of, Type::Double | Type::Int | Type::Uint),
            "fixed-point clause can only be used on doubles",
        ),
        'e' => (
            matches!(of, Type::Double | Type::Int | Type::Uint),
            "scientific clause can only be used on doubles",
        ),
        'b' => (
            matches!(of, Type::Int | Type::Uint | Type::Bool),
            "only integers and bools can be formatted as binary",
        ),
        'x' | 'X' => (
            matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes),
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
        _ => (matches!(of, Type::Int | Type::Uint), "octal clause can only be used on integers"),
    };
    let fits = fits || matches!(of, Type::Dyn | Type::Error);
    (!fits).then_some(allowed)
}
