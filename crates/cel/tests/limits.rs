//! No input crashes a compilation or an evaluation, or keeps it busy.

use plimsoll_api::Quantity;
use plimsoll_cel::{AttributeValue, Device, Expression};

/// The longest expression that the API server accepts.
const LENGTH: usize = 10 * 1024;

fn device() -> Device {
    let attributes = [
        ("model", AttributeValue::String("A100".to_owned())),
        ("index", AttributeValue::Int(3)),
        ("version", AttributeValue::Version("1.2.3".to_owned())),
    ];
    let memory = Quantity::parse("40Gi").expect("well formed");
    Device::new("d", false, attributes, [("memory", memory)])
}

/// What comes of an expression.
fn outcome(source: &str) -> String {
    let expression = match Expression::compile(source) {
        Ok(expression) => expression,
        Err(error) => {
            let error = error.to_string();
            let first = error.lines().next().unwrap_or_default();
            return first.rsplit_once("<input>:").map_or(first, |(_, rest)| rest).to_owned();
        }
    };
    expression.matches(&device()).map_or_else(|error| error.to_string(), |is| is.to_string())
}

/// As many repetitions as fit.
fn filled(piece: &str) -> String {
    piece.repeat(LENGTH / piece.len())
}

#[test]
fn deep_nesting_is_rejected() {
    let limit = "expression recursion limit exceeded: 250";
    for (open, close) in [("(", ")"), ("[", "]"), ("!", ""), ("- ", ""), ("{1:", "}"), ("f(", ")")]
    {
        let half = LENGTH / 2 / open.len();
        let source = format!("{}true{}", open.repeat(half), close.repeat(half));
        assert!(outcome(&source).ends_with(limit), "{open}");
        assert!(outcome(&filled(open)).ends_with(limit), "{open}");
    }
    assert!(outcome(&format!("{}true", filled("true?true:"))).ends_with(limit));
    let folds = format!("{}true{}", "[1].all(x,".repeat(300), ")".repeat(300));
    assert!(outcome(&folds).ends_with(limit));
}

#[test]
fn nesting_below_the_limit_is_evaluated() {
    let nested = |open: &str, close: &str, times| {
        outcome(&format!("{}true{}", open.repeat(times), close.repeat(times)))
    };
    assert_eq!(nested("(", ")", 249), "true");
    assert_eq!(nested("!", "", 248), "true");
    assert_eq!(nested("true ? false : ", "", 249), "false");
    assert_eq!(nested("[1].all(x, ", ")", 249), "true");
    assert_eq!(nested("cel.bind(x, 1, ", ")", 249), "true");
    assert_eq!(nested("true && (", ")", 249), "true");
}

#[test]
fn long_chains_are_limited_where_they_make_the_tree_high() {
    assert_eq!(outcome(&format!("1{} == 381", "+1".repeat(380))), "true");
    for link in ["+1", ".b", "[0]", ".f()"] {
        let source = format!("[1]{}", filled(link));
        let found = outcome(&source);
        assert!(found.contains("expression has more than 400 levels"), "{link}: {found}");
    }
    assert_eq!(outcome(&format!("true{}", filled("&&true"))), "true");
    assert_eq!(outcome(&format!("false{}", filled("||false"))), "false");
    assert_eq!(outcome(&format!("[{}1].size() > 5000", filled("1,"))), "true");
}

#[test]
fn costly_expressions_are_cancelled() {
    let limit = "operation cancelled: actual cost limit exceeded";
    let range = "[0,1,2,3,4,5,6,7,8,9]";
    let nested = |depth: usize| {
        let loops = format!("{range}.all(x, ").repeat(depth);
        format!("{loops}x >= 0{}", ")".repeat(depth))
    };
    assert_eq!(outcome(&nested(4)), "true");
    assert_eq!(outcome(&nested(6)), limit);
    // The limit is not an error that `||` could absorb.
    assert_eq!(outcome(&format!("{} || true", nested(6))), limit);
    assert_eq!(outcome(&format!("true || {}", nested(6))), "true");
}

#[test]
fn lists_cost_by_how_they_are_made() {
    let limit = "operation cancelled: actual cost limit exceeded";
    for (source, most) in [
        ("lists.range($).distinct().size() > 0", 706),
        ("lists.range($).sort().size() > 0", 706),
        ("lists.range($).map(x, string(x)).sort().size() > 0", 686),
        ("lists.range($).sortBy(x, x).size() > 0", 703),
        ("lists.range(1000).flatten($).size() > 0", 998),
        ("lists.range($).reverse().size() > 0", 499_988),
    ] {
        let outcome = |size: u64| outcome(&source.replace('$', &size.to_string()));
        assert_eq!(outcome(most), "true", "{source}");
        assert_eq!(outcome(most + 1), limit, "{source}");
    }
    // The type of the elements is not known before, and so it costs one.
    assert_eq!(outcome("lists.range(1000).map(x, dyn(x)).sort().size() > 0"), "true");
}

#[test]
fn values_that_grow_are_cancelled() {
    let limit = "operation cancelled: too many values";
    let cost = "operation cancelled: actual cost limit exceeded";
    let doubled = |start: &str, step: &str, end: &str| {
        let steps = (0..80)
            .map(|i| format!("cel.bind(a{}, {}, ", i + 1, step.replace('$', &format!("a{i}"))));
        let end = end.replace('$', "a80");
        format!("cel.bind(a0, {start}, {}{end}{}", steps.collect::<String>(), ")".repeat(81))
    };
    assert_eq!(outcome(&doubled("[1]", "$ + $", "$.size() > 0")), limit);
    assert_eq!(outcome(&doubled("[dyn(1)]", "[dyn($), dyn($)]", "$ == $")), limit);
    assert_eq!(
        outcome(&doubled("[dyn(1)]", "[dyn($), dyn($)]", "$.flatten(1000).size() > 0")),
        limit
    );
    assert_eq!(outcome(&doubled("'aaaaaaaaaa'", "$ + $", "$.size() > 0")), cost);
    assert_eq!(outcome(&doubled("'aaaaaaaaaa'", "$.replace('', $)", "$.size() > 0")), limit);
    assert_eq!(outcome("lists.range(9223372036854775807).size() > 0"), limit);
    assert_eq!(outcome(&doubled("[dyn([])]", "[dyn($), dyn($)]", "$.indexOf(dyn(1)) == -1")), cost);
    let types = outcome(&doubled("[1]", "{0: $, 1: $}", "true"));
    assert_eq!(types, "true", "each map has one type for its values");
    let types = outcome(&doubled("1", "{$: $}", "true"));
    assert!(types.contains("type of the expression is too large"), "{types}");
}

#[test]
fn loops_over_what_is_large_are_cancelled() {
    let steps = "operation cancelled: too many values";
    let cost = "operation cancelled: actual cost limit exceeded";
    let many = "lists.range(400000)";
    // Each inner loop ends at once: only the outer one costs.
    let inner = format!("cel.bind(r, {many}, {many}.all(x, r.exists(y, true)))");
    assert_eq!(outcome(&inner), cost);
    let text = format!("cel.bind(t, '{}'.replace('', 'aaaaaaaaaaaaaaaa'), ", "a".repeat(5_000));
    assert_eq!(outcome(&format!("{text}{many}.all(x, t.size() > x - x))")), steps);
    let patterns =
        format!("{many}.all(x, !device.driver.matches('((a{{30}}){{30}})' + string(x)))");
    assert_eq!(outcome(&patterns), steps);
    // Calls of constants are made at once only if they are short.
    let constants =
        format!("({}true)", filled("lists.range(900000).size() > 0 || ").trim_end_matches(' '));
    assert_eq!(outcome(&constants.replace("||true", "|| true")), "true");
}

#[test]
fn regular_expressions_are_limited() {
    let slow = format!("'{}'.matches('(a+)+$')", "a".repeat(5_000));
    assert_eq!(outcome(&slow), "true");
    assert_eq!(outcome("'ab'.matches('^[^a]{0,1000}$')"), "false");
    let many = outcome(&filled("'a'.matches('a{1000}')||"));
    assert!(many.ends_with("IDENTIFIER}"), "{many}");
    let many = outcome(&format!("{}true", "'a'.matches('a{1000}')||".repeat(65)));
    assert!(many.ends_with("more than 64 regular expressions"), "{many}");
    for pattern in ["((a{1000}){1000}){1000}".to_owned(), "(".repeat(5_000), filled("(a")] {
        let source = format!("device.driver.matches('{pattern}')");
        assert!(outcome(&source).ends_with("invalid matches argument"), "{pattern:.20}");
    }
}

#[test]
fn text_that_is_no_expression_is_rejected() {
    for piece in [
        "\"", "'", "@#", "=", "\\", "é", "\u{0}", "0x", "1e", "b'", "r\"\"\"", "// ", "`", "?", ".",
    ] {
        assert!(Expression::compile(&filled(piece)).is_err(), "{piece:?}");
        assert!(Expression::compile(piece).is_err(), "{piece:?}");
    }
}

/// Operands of random expressions.
const LEAVES: [&str; 22] = [
    "1",
    "-1",
    "0u",
    "1.5",
    "\"a\"",
    "''",
    "b'x'",
    "true",
    "null",
    "[]",
    "{}",
    "x",
    "int",
    "device.attributes['d'].model",
    "device.attributes['d'].index",
    "device",
    "device.attributes['d'].version",
    "device.capacity['d'].memory",
    "semver('1.2.3')",
    "duration('1h')",
    "timestamp(0)",
    "9223372036854775807",
];
/// Signs, and functions of one argument up to it.
const UNARY: [&str; 24] = [
    "!",
    "-",
    "size(",
    "string(",
    "int(",
    "dyn(",
    "type(",
    "quantity(",
    "isSemver(",
    "ip(",
    "optional.of(",
    "double(",
    "uint(",
    "bool(",
    "bytes(",
    "lists.range(",
    "url(",
    "cidr(",
    "duration(",
    "timestamp(",
    "strings.quote(",
    "sign(",
    "has(",
    "format.named(",
];
/// Functions on a receiver.
const METHODS: [&str; 32] = [
    "size",
    "trim",
    "sort",
    "sum",
    "min",
    "max",
    "isSorted",
    "flatten",
    "reverse",
    "distinct",
    "first",
    "value",
    "hasValue",
    "major",
    "asInteger",
    "getFullYear",
    "join",
    "indexOf",
    "contains",
    "matches",
    "split",
    "orValue",
    "add",
    "isGreaterThan",
    "find",
    "slice",
    "substring",
    "charAt",
    "replace",
    "format",
    "includes",
    "containsIP",
];
/// Macros that bind `x`.
const FOLDS: [&str; 10] = [
    "all",
    "exists",
    "exists_one",
    "map",
    "filter",
    "sortBy",
    "optMap",
    "optFlatMap",
    "transformList",
    "transformMap",
];
/// Operators of two operands; `?` and `[` stand for conditions and indices.
const OPERATORS: [&str; 16] =
    ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||", "?", "["];

/// A generator of numbers (xorshift): a seed gives the same expressions everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn expression(&mut self, depth: u32) -> String {
        if depth == 0 || self.below(6) == 0 {
            return self.pick(&LEAVES).to_owned();
        }
        let part = |chance: &mut Self| chance.expression(depth - 1);
        match self.below(8) {
            0 => match self.pick(&UNARY) {
                sign @ ("!" | "-") => format!("{sign}({})", part(self)),
                function => format!("{function}{})", part(self)),
            },
            1 | 2 => match self.pick(&OPERATORS) {
                "?" => format!("({} ? {} : {})", part(self), part(self), part(self)),
                "[" => format!("({})[{}]", part(self), part(self)),
                operator => format!("({} {operator} {})", part(self), part(self)),
            },
            3 => {
                let args = (0..self.below(3)).map(|_| part(self)).collect::<Vec<_>>();
                format!("({}).{}({})", part(self), self.pick(&METHODS), args.join(", "))
            }
            4 => match self.pick(&FOLDS) {
                fold if fold.starts_with("transform") => {
                    format!("({}).{fold}(k, x, {})", part(self), part(self))
                }
                fold => format!("({}).{fold}(x, {})", part(self), part(self)),
            },
            5 => format!("cel.bind(x, {}, {})", part(self), part(self)),
            6 => format!("[{}, dyn({})]", part(self), part(self)),
            _ => format!("{{'a': {}}}.?{}", part(self), self.pick(&["a", "b"])),
        }
    }
}

#[test]
fn random_expressions_never_panic() {
    let (mut compiled, mut matched) = (0, 0);
    let device = device();
    for seed in 1..=10_000_u64 {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let depth = u32::try_from(1 + chance.below(4)).expect("a few levels");
        // An attribute is of any type, so that more expressions get past the checker.
        let source = chance.expression(depth);
        let source = format!("cel.bind(x, device.attributes['d'].index, {source})");
        for source in [source.clone(), format!("dyn({source}) == dyn(1)")] {
            if let Ok(expression) = Expression::compile(&source) {
                compiled += 1;
                matched += u32::from(expression.matches(&device).is_ok());
            }
        }
    }
    assert!(1_000 < compiled && 200 < matched, "{compiled} compiled, {matched} matched");
}

#[test]
fn random_text_never_panics() {
    const PIECES: [&str; 30] = [
        "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "&&", "||", "==", "!", "-", "+", "in",
        "x", "device", "1", "'a'", "\"", "0x", "1u", ".5", "has", "cel.bind", "é", "\n", "r'\\'",
    ];
    for seed in 1..=10_000_u64 {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let source = (0..chance.below(20)).map(|_| chance.pick(&PIECES)).collect::<String>();
        if let Err(error) = Expression::compile(&source) {
            assert!(!error.to_string().is_empty(), "seed {seed}: {source}");
        }
    }
}
