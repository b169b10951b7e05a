//! The functions that expressions can call, with the types of their arguments and results.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::types::{Bindings, Type};

/// The table, in words.
const TABLE: &str = include_str!("overloads.txt");
/// Types whose values have an order.
const COMPARABLE: [&str; 8] =
    ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"];
/// Types whose values can be added up.
const SUMMABLE: [&str; 4] = ["int", "uint", "double", "duration"];
/// Numbers that can be compared with each other, as with CrossTypeNumericComparisons.
const NUMBERS: [&str; 3] = ["int", "uint", "double"];

/// One form of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    /// Its name in cel-go, by which calls cost.
    pub(crate) id: &'static str,
    /// Whether it is called on its first argument.
    pub(crate) receiver: bool,
    args: Vec<Shape>,
    result: Shape,
}

/// A type with parameters.
#[derive(Debug, Clone)]
enum Shape {
    Simple(Simple),
    List(Box<Shape>),
    Map(Box<Shape>, Box<Shape>),
    Type(Box<Shape>),
    Optional(Box<Shape>),
    Parameter(usize),
}

/// A type without parts. Types themselves cannot be shared between threads.
#[derive(Debug, Clone, Copy)]
enum Simple {
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    Opaque(&'static str),
}

/// All forms of the function of that name.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    static FUNCTIONS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(read);
    FUNCTIONS.get(name).map(Vec::as_slice)
}

impl Overload {
    /// The types of arguments and result, with new variables for its parameters.
    pub(crate) fn instance(&self, bindings: &mut Bindings) -> (Vec<Type>, Type) {
        let mut parameters = [None, None];
        let args = self.args.iter().map(|arg| arg.instance(&mut parameters, bindings)).collect();
        (args, self.result.instance(&mut parameters, bindings))
    }

    /// The number of arguments, with the receiver.
    pub(crate) fn arity(&self) -> usize {
        self.args.len()
    }
}

impl Shape {
    fn instance(&self, parameters: &mut [Option<Type>; 2], bindings: &mut Bindings) -> Type {
        match self {
            Self::Simple(simple) => match simple {
                Simple::Dyn => Type::Dyn,
                Simple::Bool => Type::Bool,
                Simple::Int => Type::Int,
                Simple::Uint => Type::Uint,
                Simple::Double => Type::Double,
                Simple::String => Type::String,
                Simple::Bytes => Type::Bytes,
                Simple::Duration => Type::Duration,
                Simple::Timestamp => Type::Timestamp,
                Simple::Opaque(name) => Type::Opaque(name),
            },
            Self::List(inner) => Type::list(inner.instance(parameters, bindings)),
            Self::Map(key, value) => {
                Type::map(key.instance(parameters, bindings), value.instance(parameters, bindings))
            }
            Self::Type(inner) => Type::Meta(inner.instance(parameters, bindings).into()),
            Self::Optional(inner) => Type::optional(inner.instance(parameters, bindings)),
            Self::Parameter(number) => {
                parameters[*number].get_or_insert_with(|| bindings.fresh()).clone()
            }
        }
    }
}

fn read() -> BTreeMap<&'static str, Vec<Overload>> {
    let mut functions = BTreeMap::<_, Vec<_>>::new();
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("a line has a name, an id and a signature");
        let (name, id, signature) = (word(), word(), word());
        let forms = functions.entry(name).or_default();
        if signature == "ordered" {
            forms.extend(ordered(id));
            continue;
        }
        let result = word();
        let (stands_for, types): (_, &[&str]) = match line {
            _ if line.contains("comparable") => ("comparable", &COMPARABLE),
            _ if line.contains("summable") => ("summable", &SUMMABLE),
            _ => ("", &[""]),
        };
        forms.extend(types.iter().map(|of| overload(id, signature, result, (stands_for, of))));
    }
    functions
}

/// The forms of an operator that compares. Those of strings and bytes have ids by which they cost.
fn ordered(id: &'static str) -> impl Iterator<Item = Overload> {
    let mixed = NUMBERS.iter().flat_map(|a| NUMBERS.iter().map(move |b| (*a, *b)));
    let same = COMPARABLE.iter().filter(|of| !NUMBERS.contains(of)).map(|of| (*of, *of));
    mixed.chain(same).map(move |(a, b)| Overload {
        id: match a {
            "string" => "ordered_string",
            "bytes" => "ordered_bytes",
            _ => id,
        },
        receiver: false,
        args: vec![shape(a), shape(b)],
        result: shape("bool"),
    })
}

fn overload(
    id: &'static str,
    signature: &'static str,
    result: &'static str,
    (stands_for, of): (&str, &'static str),
) -> Overload {
    let receiver = signature.starts_with('.');
    let args = signature.trim_start_matches('.');
    let args = &args[1..args.len() - 1];
    let fill = |text: &'static str| -> Shape {
        if stands_for.is_empty() || !text.contains(stands_for) {
            return shape(text);
        }
        if text == stands_for { shape(of) } else { Shape::List(Box::new(shape(of))) }
    };
    Overload {
        id,
        receiver,
        args: parts(args).into_iter().map(fill).collect(),
        result: fill(result),
    }
}

/// The parts of a list, separated by the commas outside parentheses.
fn parts(text: &'static str) -> Vec<&'static str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if start < text.len() {
        parts.push(&text[start..]);
    }
    parts
}

fn shape(text: &'static str) -> Shape {
    if let Some((of, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let mut inner = parts(inner).into_iter().map(|part| Box::new(shape(part)));
        let mut part = || inner.next().expect("a type in parentheses");
        return match of {
            "list" => Shape::List(part()),
            "map" => Shape::Map(part(), part()),
            "type" => Shape::Type(part()),
            _ => Shape::Optional(part()),
        };
    }
    Shape::Simple(match text {
        "A" => return Shape::Parameter(0),
        "B" => return Shape::Parameter(1),
        "dyn" => Simple::Dyn,
        "bool" => Simple::Bool,
        "int" => Simple::Int,
        "uint" => Simple::Uint,
        "double" => Simple::Double,
        "string" => Simple::String,
        "bytes" => Simple::Bytes,
        "duration" => Simple::Duration,
        "timestamp" => Simple::Timestamp,
        name => Simple::Opaque(name),
    })
}
