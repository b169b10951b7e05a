//! Scenarios. In place of the JSON of affinity, a pod has words `VERB:KEY:SELECTOR[@NAMESPACES]`:
//!
//! * the verb is `wants` (required affinity), `shuns` (required anti-affinity), `likes-WEIGHT` or
//!   `dislikes-WEIGHT` (preferred);
//! * the key is the topology key;
//! * the selector is `*`, or requirements joined by commas: `app=db`, `app!=db`, `app`, `!app`;
//! * namespaces are `@NAME`, requirements such as `@KEY=VALUE` for those with a label, or `@*` for all.

mod filter;
mod requeue;
mod score;

use std::fmt::Write;

use plimsoll_testkit::{Expect, Scenario, expect, laws, random_scenarios};

use super::entry;

fn check(scenario: &str, expected: &Expect) {
    plimsoll_testkit::check(entry(), &in_full(scenario), expected);
}

fn parsed(scenario: &str) -> Scenario {
    Scenario::parse(&in_full(scenario)).expect("the scenario is right")
}

/// The scenario with the affinity of pods as JSON.
fn in_full(scenario: &str) -> String {
    let mut full = String::new();
    for line in scenario.lines() {
        let (terms, others): (Vec<&str>, Vec<&str>) =
            line.split_whitespace().partition(|word| word.matches(':').count() == 2);
        full.push_str(&others.join(" "));
        if !terms.is_empty() {
            write!(full, " {{\"affinity\": {{{}}}}}", affinity(&terms)).expect("it is a string");
        }
        full.push('\n');
    }
    full
}

fn affinity(terms: &[&str]) -> String {
    let of = |verb: &str| {
        let terms = terms.iter().filter_map(|term| term.strip_prefix(verb));
        terms.map(term).collect::<Vec<_>>().join(", ")
    };
    let fields = [("podAffinity", "wants:", "likes-"), ("podAntiAffinity", "shuns:", "dislikes-")];
    let fields = fields.map(|(field, required, preferred)| {
        format!(
            r#""{field}": {{"requiredDuringSchedulingIgnoredDuringExecution": [{}],
            "preferredDuringSchedulingIgnoredDuringExecution": [{}]}}"#,
            of(required),
            of(preferred),
        )
    });
    fields.join(", ").replace('\n', " ")
}

/// `KEY:SELECTOR[@NAMESPACES]`, or with `WEIGHT:` before it.
fn term(text: &str) -> String {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [key, meant] => unweighted(key, meant),
        [weight, key, meant] => {
            format!(r#"{{"weight": {weight}, "podAffinityTerm": {}}}"#, unweighted(key, meant))
        }
        _ => panic!("{text:?} is no term"),
    }
}

fn unweighted(key: &str, meant: &str) -> String {
    let (selector, namespaces) = match meant.split_once('@') {
        None => (meant, String::new()),
        Some((selector, names)) if names == "*" || names.contains(['=', '!']) => {
            (selector, format!(r#", "namespaceSelector": {}"#, requirements(names)))
        }
        Some((selector, name)) => (selector, format!(r#", "namespaces": ["{name}"]"#)),
    };
    let selector = requirements(selector);
    format!(r#"{{"topologyKey": "{key}", "labelSelector": {selector}{namespaces}}}"#)
}

fn requirements(text: &str) -> String {
    let all = text.split(',').filter(|one| *one != "*").map(|one| match one.split_once('=') {
        None => match one.strip_prefix('!') {
            None => format!(r#"{{"key": "{one}", "operator": "Exists"}}"#),
            Some(key) => format!(r#"{{"key": "{key}", "operator": "DoesNotExist"}}"#),
        },
        Some((key, value)) => {
            let (key, operator) = key.strip_suffix('!').map_or((key, "In"), |key| (key, "NotIn"));
            format!(r#"{{"key": "{key}", "operator": "{operator}", "values": ["{value}"]}}"#)
        }
    });
    format!(r#"{{"matchExpressions": [{}]}}"#, all.collect::<Vec<_>>().join(", "))
}

#[test]
fn the_laws_hold() {
    laws(&entry(), random_scenarios(0..300));
}

#[test]
fn an_unknown_arg_is_an_error() {
    check(
        r#"args {"weight": 1}"#,
        &expect![[r"
        args.weight of plugin InterPodAffinity: unknown field `weight`, expected one of `apiVersion`, `kind`, `hardPodAffinityWeight`, `ignorePreferredTermsOfExistingPods`
    "]],
    );
}
