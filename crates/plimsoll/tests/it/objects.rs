//! Objects that an API server accepts although a part of them cannot be used.

use crate::run::{records, run};

/// Nodes with these labels, as YAML.
fn nodes(of: &[(&str, &str)]) -> String {
    let node = |(name, labels): &(&str, &str)| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n\
             status: {{allocatable: {{cpu: '4', pods: '10'}}}}\n---\n"
        )
    };
    of.iter().map(node).collect()
}

fn pod(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
         spec: {{containers: [{{name: c}}], {spec}}}\n---\n"
    )
}

/// `Gt` with a value that is no 64-bit integer.
const BAD: &str = "matchExpressions: [{key: gen, operator: Gt, values: [four]}]";
const GOOD: &str = "matchExpressions: [{key: disk, operator: In, values: [ssd]}]";

fn required(terms: &[&str]) -> String {
    let terms: Vec<String> = terms.iter().map(|term| format!("{{{term}}}")).collect();
    format!(
        "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
         {{nodeSelectorTerms: [{}]}}}}}}",
        terms.join(", ")
    )
}

fn preferred(term: &str, more: &str) -> String {
    format!(
        "{more}affinity: {{nodeAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: \
         [{{weight: 1, preference: {{{GOOD}}}}}, {{weight: 1, preference: {{{term}}}}}]}}}}"
    )
}

/// The result for the pod `p` with each engine.
fn decided(text: &str) -> String {
    let explained = ["fast", "reference"].map(|engine| {
        let line = format!("simulate -f a.yaml -o json --engine {engine}");
        let record = records(&[("a.yaml", text)], &line).remove(0);
        let shown = ["node", "message", "error"].map(|field| record[field].as_str());
        shown.into_iter().flatten().next().unwrap_or("nothing").to_owned()
    });
    assert_eq!(explained[0], explained[1]);
    explained[0].clone()
}

#[test]
fn a_required_term_that_cannot_be_read_is_skipped_and_the_others_are_tried() {
    let nodes = nodes(&[("a", "gen: '9'"), ("b", "disk: ssd")]);
    let with = |terms: &[&str]| decided(&format!("{nodes}{}", pod("p", &required(terms))));
    assert_eq!(with(&[BAD, GOOD]), "b");
    let unmatched = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.";
    assert!(with(&[BAD]).starts_with(unmatched), "{}", with(&[BAD]));
    // Nodes that such a term names are looked at anyway.
    let named = format!("{BAD}, matchFields: [{{key: metadata.name, operator: In, values: [b]}}]");
    let one = "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) \
               didn't satisfy plugin(s) [NodeAffinity].";
    assert!(with(&[&named]).starts_with(one), "{}", with(&[&named]));
}

#[test]
fn a_preferred_term_that_cannot_be_read_fails_only_where_nodes_are_scored() {
    let nodes = nodes(&[("a", "disk: hdd"), ("b", "disk: ssd")]);
    let with = |more: &str| decided(&format!("{nodes}{}", pod("p", &preferred(BAD, more))));
    assert_eq!(
        with(""),
        r#"running PreScore plugin "NodeAffinity": [1].matchExpressions[0].values[0]: Invalid value: "four": for 'Gt', 'Lt' operators, the value must be an integer"#
    );
    assert_eq!(with("nodeSelector: {disk: hdd}, "), "a");
}

#[test]
fn an_unreadable_term_of_another_pod_has_no_effect() {
    let neighbour = |name: &str, spec: &str| pod(name, &format!("nodeName: a, {spec}"));
    let text = format!(
        "{}{}{}{}",
        nodes(&[("a", "disk: ssd"), ("b", "disk: hdd")]),
        neighbour("n1", &required(&[BAD])),
        neighbour("n2", &preferred(BAD, "")),
        pod("p", &preferred("matchExpressions: [{key: disk, operator: Exists}]", ""))
    );
    let answer = run(&[("a.yaml", &text)], "simulate -f a.yaml");
    assert_eq!(answer.status, 0, "{}", answer.err);
    assert_eq!(decided(&text), "a");
}

/// While the nominated node of the pod is full, the message names the filter that rejects that node as well as the one
/// that rejects all others.
#[test]
fn both_filters_are_reported_for_a_nominated_pod_that_names_its_node() {
    let node = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n\
             status: {{allocatable: {{cpu: '4', pods: '10'}}}}\n---\n"
        )
    };
    let asks = "containers: [{name: c, resources: {requests: {cpu: '3'}}}]";
    let named = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
                 {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}}}";
    let text = format!(
        "{}{}apiVersion: v1\nkind: Pod\nmetadata: {{name: there}}\nspec: {{nodeName: a, priority: 9, {asks}}}\n\
         ---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{asks}, {named}}}\n\
         status: {{nominatedNodeName: a}}\n",
        node("a"),
        node("b")
    );
    let told = decided(&text);
    let both = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) \
                [NodeAffinity NodeResourcesFit].";
    assert!(told.starts_with(both), "{told}");
}

#[test]
fn lists_in_lists_end_in_an_error_however_deep_they_are() {
    let levels = 10_000;
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#;
    let json = r#"{"apiVersion":"v1","kind":"List","items":["#.repeat(levels);
    let json = format!("{json}{pod}{}", "]}".repeat(levels));
    let flow = "{apiVersion: v1, kind: List, items: [".repeat(levels) + &"]}".repeat(levels);
    let block: String = (0..levels)
        .map(|level| {
            let (dash, indent) =
                (if level == 0 { "" } else { "- " }, " ".repeat(level.max(1) * 2 - 2));
            format!("{indent}{dash}kind: List\n{indent}{}items:\n", " ".repeat(dash.len()))
        })
        .take(2000)
        .collect();
    for (name, text) in [("a.json", &json), ("b.yaml", &flow), ("c.yaml", &block)] {
        let answer = run(&[(name, text)], &format!("simulate -f {name}"));
        assert_eq!(answer.status, 1, "{name}: {}", answer.err);
        assert!(answer.err.starts_with(&format!("error: {name}:")), "{}", answer.err);
    }
}
