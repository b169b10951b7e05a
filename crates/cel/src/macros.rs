//! The macros: calls that are rewritten while they are parsed.

use crate::ast::{Access, Call, Comprehension, Expr, Fold, Kind, Select};
use crate::parser::Parser;
use crate::source::Issue;

/// A call, or what the macro of that name makes of it.
pub(crate) fn call(
    parser: &mut Parser,
    at: u32,
    target: Option<Expr>,
    function: &str,
    mut args: Vec<Expr>,
) -> Result<Expr, Issue> {
    let Some(target) = target else {
        if function == "has" && args.len() == 1 {
            return has(parser, at, args.remove(0));
        }
        return plain(parser, at, None, function, args);
    };
    if function == "bind" && args.len() == 3 && is_ident(&target, "cel") {
        let [variable, value, body] = three(args);
        let variables =
            vec![name(&variable, "cel.bind() variable names must be simple identifiers")?];
        return fold(parser, at, Fold::Bind, value, variables, None, body);
    }
    let Some((kind, variables, filtered)) = receiver_macro(function, args.len()) else {
        return plain(parser, at, Some(target), function, args);
    };
    let body = args.pop().expect("a macro has a body");
    let filter = if filtered { args.pop() } else { None };
    let names = args.iter().map(|arg| name(arg, "argument must be a simple name"));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    debug_assert_eq!(names.len(), variables, "what is neither filter nor body is a variable");
    if names.iter().any(|name| name == "__result__" || name == "@result") {
        let message = "iteration variable overwrites accumulator variable";
        return Err(Issue::new(args[0].at, message));
    }
    fold(parser, at, kind, target, names, filter, body)
}

/// The macros on a receiver: kind, number of variables, and whether there is a filter.
fn receiver_macro(function: &str, args: usize) -> Option<(Fold, usize, bool)> {
    Some(match (function, args) {
        ("all", 2) => (Fold::All, 1, false),
        ("all", 3) => (Fold::All, 2, false),
        ("exists", 2) => (Fold::Exists, 1, false),
        ("exists", 3) => (Fold::Exists, 2, false),
        ("exists_one" | "existsOne", 2) => (Fold::ExistsOne, 1, false),
        ("exists_one" | "existsOne", 3) => (Fold::ExistsOne, 2, false),
        ("map", 2) => (Fold::Map, 1, false),
        ("map", 3) => (Fold::Map, 1, true),
        ("filter", 2) => (Fold::Filter, 1, false),
        ("transformList", 3) => (Fold::Map, 2, false),
        ("transformList", 4) => (Fold::Map, 2, true),
        ("transformMap", 3) => (Fold::TransformMap, 2, false),
        ("transformMap", 4) => (Fold::TransformMap, 2, true),
        ("transformMapEntry", 3) => (Fold::TransformMapEntry, 2, false),
        ("transformMapEntry", 4) => (Fold::TransformMapEntry, 2, true),
        ("sortBy", 2) => (Fold::SortBy, 1, false),
        ("optMap", 2) => (Fold::OptMap, 1, false),
        ("optFlatMap", 2) => (Fold::OptFlatMap, 1, false),
        _ => return None,
    })
}

fn has(parser: &mut Parser, at: u32, arg: Expr) -> Result<Expr, Issue> {
    match arg.kind {
        Kind::Select(select) if select.access == Access::Required => {
            let below = select.operand.height;
            let Select { operand, field, .. } = *select;
            let select = Select { operand, field, access: Access::Test };
            parser.node(at, below, Kind::Select(Box::new(select)))
        }
        _ => Err(Issue::new(arg.at, "invalid argument to has() macro")),
    }
}

fn plain(
    parser: &mut Parser,
    at: u32,
    target: Option<Expr>,
    function: &str,
    args: Vec<Expr>,
) -> Result<Expr, Issue> {
    let below = args.iter().chain(&target).map(|part| part.height).max().unwrap_or(0);
    let call = Call { target, function: function.to_owned(), args };
    parser.node(at, below, Kind::Call(Box::new(call)))
}

fn fold(
    parser: &mut Parser,
    at: u32,
    kind: Fold,
    range: Expr,
    variables: Vec<String>,
    filter: Option<Expr>,
    body: Expr,
) -> Result<Expr, Issue> {
    let below = [&range, &body].into_iter().chain(&filter).map(|part| part.height).max();
    let comprehension = Comprehension { kind, range, variables, filter, body };
    let below = below.expect("a range and a body are there");
    parser.node(at, below, Kind::Comprehension(Box::new(comprehension)))
}

fn is_ident(expr: &Expr, name: &str) -> bool {
    matches!(&expr.kind, Kind::Ident(ident) if ident == name)
}

fn name(expr: &Expr, otherwise: &str) -> Result<String, Issue> {
    match &expr.kind {
        Kind::Ident(name) => Ok(name.clone()),
        _ => Err(Issue::new(expr.at, otherwise)),
    }
}

fn three(args: Vec<Expr>) -> [Expr; 3] {
    args.try_into().expect("the number of arguments was checked")
}
