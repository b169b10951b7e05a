//! The costs that the API server estimates before it accepts a selector, with the feature gate `DRAListTypeAttributes`. The
//! numbers are those of dynamic-resource-allocation/cel/compile_test.go, TestCEL.

use plimsoll_api::Quantity;
use plimsoll_cel::{AttributeValue, Attributes, Device, Expression, MAX_COST};

/// What begins most expressions: 3.
const DOMAIN: &str = r#"device.attributes["dra.example.com"]"#;

fn cost(expression: &str) -> u64 {
    let expression = expression.replace("DOMAIN", DOMAIN);
    match Expression::compile_with(&expression, Attributes::Lists) {
        Ok(compiled) => compiled.highest_cost(),
        Err(error) => panic!("{expression}: {error}"),
    }
}

/// Expressions with what they cost at most.
const UPSTREAM: [(&str, u64); 40] = [
    ("true", 0),
    ("false", 0),
    (r#"device.attributes["no-such-domain"].noSuchAttr.isGreaterThan(quantity("0"))"#, 6),
    (r#"device.attributes["no-such-domain"]["noSuchAttr"].isGreaterThan(quantity("0"))"#, 6),
    (r#""no-such-domain" in device.attributes"#, 3),
    (r#""dra.example.com" in device.attributes"#, 3),
    (r#"device.driver == """#, 2),
    (r#"device.driver == "dra.example.com""#, 4),
    ("DOMAIN.name", 4),
    (r#"DOMAIN["name"]"#, 4),
    ("cel.bind(dra, DOMAIN, dra.name)", 15),
    ("DOMAIN.name > 0", 5),
    (r#"DOMAIN.name == "fish""#, 5),
    ("DOMAIN.name.exists(x, x > 0)", 5 + (3 + 3) * 64),
    ("DOMAIN.name.exists(x, x == true)", 5 + (3 + 3) * 64),
    (r#"DOMAIN.name.exists(x, x == "fish")"#, 5 + (3 + 3) * 64),
    (r#"DOMAIN.name.includes("fish")"#, 4 + 48),
    ("DOMAIN.name.includes(true)", 4 + 48),
    (r#"DOMAIN.name.includes(semver("1.0.0"))"#, 4 + 48 + 1),
    ("DOMAIN.names.size() == 2", 6),
    (r#"DOMAIN.names.all(x, x != "")"#, 5 + (2 + 2) * 64),
    (r#"DOMAIN.names.all(x, x.isGreaterThan(semver("0.0.1")))"#, 5 + (2 + 4) * 64),
    ("1 in DOMAIN.names", 4 + 64),
    (r#"DOMAIN.name.isGreaterThan(semver("0.0.1"))"#, 6),
    (r#"DOMAIN.name.isGreaterThan(semver("v0.0.1", true)) && isSemver("v1.0.0", true)"#, 7),
    (r#"DOMAIN.name.exists(x, x.isGreaterThan(semver("0.0.1")))"#, 5 + (3 + 4) * 64),
    (r#"device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))"#, 6),
    (
        r#""name" in device.capacity["dra.example.com"] && device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))"#,
        10,
    ),
    (
        r#"!("name" in device.capacity["dra.example.com"]) || device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))"#,
        11,
    ),
    (
        r#"device.capacity["dra.example.com"].quantity.isGreaterThan(quantity("1Ki")) &&
        DOMAIN.bool && DOMAIN.int > 0 && DOMAIN.string == "fish" &&
        device.attributes["dra.example.com"].version.isGreaterThan(semver("0.0.1")) &&
        device.capacity["dra.example.com"]["quantity"].isGreaterThan(quantity("1Ki")) &&
        device.attributes["dra.example.com"]["bool"] &&
        device.attributes["dra.example.com"]["int"] > 0 &&
        device.attributes["dra.example.com"]["string"] == "fish" &&
        device.attributes["dra.example.com"]["version"].isGreaterThan(semver("0.0.1"))"#,
        52,
    ),
    (
        r#"device.attributes["dra.example.com"].a && device.attributes["dra.example.com"].b && device.attributes["dra.example.com"].c"#,
        12,
    ),
    (r#"device.attributes.exists_one(x, x == "dra.example.com")"#, 164),
    (r#"DOMAIN.exists_one(x, x == "services")"#, 133),
    (r#"DOMAIN.services.split("example").size() >= 2"#, 19),
    (r#"DOMAIN.services.matches("[^a]?sym")"#, 18),
    (r#"device.capacity.exists_one(x, x == "dra.example.com")"#, 164),
    (r#"device.capacity["dra.example.com"].exists_one(x, x == "memory")"#, 133),
    ("device.allowMultipleAllocations == true", 3),
    ("device.allowMultipleAllocations == false", 3),
    (EXPENSIVE, 85_555_551),
];

const EXPENSIVE: &str = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(x, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(y, \
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z2, \
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z3, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z4, \
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z5, int('1'.find('[0-9]*')) < 100)))))))";

#[test]
fn an_expression_costs_at_most_what_the_api_server_estimates() {
    let differing = UPSTREAM.iter().filter_map(|(expression, expected)| {
        let found = cost(expression);
        (found != *expected).then(|| format!("{expression}: {found}, expected {expected}"))
    });
    let differing: Vec<String> = differing.collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert!(MAX_COST < cost(EXPENSIVE));
}

#[test]
fn what_has_no_bound_costs_any_amount() {
    // Below an attribute there may be anything.
    assert_eq!(cost("DOMAIN.a.b.all(x, x == 1)"), u64::MAX);
    assert!(u64::MAX / 11 < cost(r#"DOMAIN.a.b.contains("x")"#));
    // The elements of a list may be any texts.
    assert!(u64::MAX / 11 < cost(r#"["ab", "c"].join(",").size() == 4"#));
}

#[test]
fn sizes_follow_texts_and_lists() {
    // A text of 64 characters and one of 6 cost 7 together, and the comparison with a single character 1.
    assert_eq!(cost(r#"DOMAIN.a.trim() + "-large" == "x""#), 4 + 7 + 7 + 1);
    assert_eq!(cost("[1, 2, 3].map(x, x * 2).sum() == 12"), 10 + (10 + 1 + 3 * (12 + 2)) + 3 + 1);
    let keys = 1 + 10 + 1 + 2 * (12 + 2);
    assert_eq!(cost("[3, 1].sortBy(x, -x)[0] == 3"), (10 + 10) + (1 + keys + 1) + 1 + 1);
}

#[test]
fn no_evaluation_costs_more_than_was_estimated() {
    let attributes = [
        ("dra.example.com/name", AttributeValue::String("some_example_value".to_owned())),
        ("dra.example.com/int", AttributeValue::Int(3)),
    ];
    let memory = Quantity::parse("40Gi").expect("well formed");
    let device = Device::new("dra.example.com", false, attributes, [("memory", memory)]);
    for (expression, _) in UPSTREAM {
        let expression = expression.replace("DOMAIN", DOMAIN);
        let compiled =
            Expression::compile_with(&expression, Attributes::Lists).expect("it is right");
        // Where the estimate allows it, the evaluation is not cancelled for its cost.
        if compiled.highest_cost() <= MAX_COST
            && let Err(error) = compiled.matches(&device)
        {
            let error = error.to_string();
            assert!(!error.contains("cost limit exceeded"), "{expression}: {error}");
        }
    }
}
