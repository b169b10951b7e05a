//! What upstream's own tests of the plugin expect, from its `dynamicresources_test.go`. The facts of each case are in
//! `upstream.txt`, under the name that it has there, with the texts and codes of 1.36: verdicts and scores, and then, for
//! a pod that fits, what is held at Reserve and written first at PreBind.
//!
//! Left out are `DRA-disabled` and `request-admin-access-without-DRAAdminAccess-featuregate`, whose gates are locked;
//! `canceled`, since no caller can end a filter; and what is about the course of writes, which the tests with an API
//! server and those of the simulator check: claims that change before PreBind (`with-resources-finalizer-gets-removed`,
//! `-added`), pods that are given up (`skip-bind`, `bind-failure`, `bind-podgroup-failure`, `extended-resource-name-bind-failure`, `-skip-bind`,
//! `-with-resources-fail-patch`, `-claim-creation-failure`), and `prebind-fail-with-binding-timeout`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use plimsoll_api::devices::ClaimConsumer;
use plimsoll_testkit::{Cluster, HandleParts, Scenario, report};
use serde_json::Value;

use super::*;

/// What a name stands for.
pub(super) type Snippets<'t> = BTreeMap<&'t str, &'t str>;

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '-'
}

/// Replaces each `$name` by what it stands for.
pub(super) fn expand(text: &str, snippets: &Snippets<'_>) -> String {
    let mut parts = text.split('$');
    let mut expanded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_at(part.find(|one| !is_of_name(one)).unwrap_or(part.len()));
        let snippet = snippets.get(name).unwrap_or_else(|| panic!("${name} stands for nothing"));
        expanded.push_str(&expand(snippet, snippets));
        expanded.push_str(rest);
    }
    expanded
}

fn snippet(text: &str) -> (&str, &str) {
    let (name, text) = text.split_once('=').expect("`let NAME = TEXT`");
    (name.trim(), text.trim())
}

/// The snippets that a text defines: `let NAME = TEXT`, one after the other.
pub(super) fn snippets(text: &str) -> Snippets<'_> {
    let text = text.strip_prefix("let ").expect("it begins with a snippet");
    text.split("\nlet ").map(snippet).collect()
}

/// The node with the highest score in a report, the first of several.
fn best_node(report: &str) -> Option<(&str, i64)> {
    let mut best: Option<(&str, i64)> = None;
    for line in report.lines() {
        let [_, node, "score", score] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let score = score.parse().expect("it is a number");
        if best.is_none_or(|(_, highest)| highest < score) {
            best = Some((node, score));
        }
    }
    best
}

/// How a claim is called: the one that is made for extended resources has no name before.
fn called(claim: &ResourceClaim) -> &str {
    if claim.is_extended { "<extended-resources>" } else { &claim.key.name }
}

/// The group for which a claim is reserved, in words; empty if it is reserved for a pod.
fn for_group(reserved_for: &[ClaimConsumer]) -> String {
    let group = reserved_for.iter().find(|one| one.is_group());
    group.map_or_else(String::new, |group| format!(" for group {}", group.name))
}

/// The same for a claim as it is written.
fn written_for_group(merge: &Value) -> String {
    let consumers = merge["status"]["reservedFor"].as_array().into_iter().flatten();
    let consumer = |one: &Value| {
        let text = |field: &str| Str::from(one[field].as_str().unwrap_or_default());
        ClaimConsumer {
            api_group: text("apiGroup"),
            resource: text("resource"),
            name: text("name"),
            uid: text("uid"),
        }
    };
    for_group(&consumers.map(consumer).collect::<Vec<_>>())
}

/// What is held at Reserve and written first at PreBind if the only pending pod is placed on a node.
fn placed(scenario: &Scenario, node: &str) -> String {
    let args: DynamicResourcesArgs = match &scenario.args {
        Some(args) => serde_json::from_value(args.clone()).expect("the args are right"),
        None => DynamicResourcesArgs::default(),
    };
    let plugin = DynamicResources::new(args, &scenario.gates);
    let mut cluster = Cluster::of(scenario);
    let pod = &scenario.pending[0];
    let row = cluster.row(node).expect("it is a node of the scenario");
    cluster.nodes.place(row, pod);
    let mut parts = HandleParts::default();
    let view = cluster.view();
    let at = Placement { pod, node: view.nodes.name_of(row), row: Some(row), view };
    let held = plugin.reserve(&at, &mut parts.handle(DynamicResources::NAME));
    let held = held.expect("the node passes the filter");
    let mut text = String::new();
    for assumed in std::mem::take(&mut parts.assumed) {
        let Assumption::Held(object) = assumed else { continue };
        let claim = object.shared::<ResourceClaim>().expect("it is a claim");
        let devices = claim.allocation.iter().flat_map(|allocation| &allocation.devices);
        let devices: Vec<String> = devices
            .map(|one| {
                let admin = if one.is_admin() { " admin" } else { "" };
                format!("{} {}/{}/{}{admin}", one.request, one.driver, one.pool, one.device)
            })
            .collect();
        let name = called(&claim);
        let group = for_group(&claim.reserved_for);
        writeln!(text, "holds {name}{group}: {}", devices.join(", ")).expect("text can grow");
        cluster.stores.objects.hold(&object);
    }
    let view = cluster.view();
    let at = Placement { pod, node: view.nodes.name_of(row), row: Some(row), view };
    plugin.pre_bind(&held, &at, &mut parts.handle(DynamicResources::NAME));
    for ObjectWrite { key, verb, .. } in &parts.written {
        let (name, what, group) = match verb {
            WriteVerb::Create(_) => ("<extended-resources>", "create", String::new()),
            WriteVerb::Patch { merge, .. } => {
                let merge = merge.to_value();
                let fields = ["allocation", "reservedFor"].map(|field| &merge["status"][field]);
                let what = match fields.map(Value::is_null) {
                    [false, _] => "allocation",
                    [true, false] => "reservation",
                    [true, true] => "finalizer",
                };
                (key.name.as_str(), what, written_for_group(&merge))
            }
            _ => (key.name.as_str(), "finalizer", String::new()),
        };
        writeln!(text, "writes {name}: {what}{group}").expect("text can grow");
    }
    text
}

#[test]
fn the_cases_of_upstream_have_the_verdicts_that_it_expects() {
    let (common, cases) = include_str!("upstream.txt").split_once("\n# ").expect("there are cases");
    let snippets = snippets(common);
    let mut failures = Vec::new();
    let mut count = 0;
    for case in cases.split("\n# ") {
        let (name, inside) = case.split_once('\n').expect("a case has a name");
        let (scenario, expected) = inside.split_once("\n=>\n").expect("a case expects something");
        let scenario = format!("release 1.36\n{}", expand(scenario, &snippets));
        let scenario = Scenario::parse(&scenario).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut found = report(&entry(), &[], &scenario);
        let fits = best_node(&found).filter(|_| !found.contains(" Error: "));
        if let Some(node) = fits.map(|(node, _)| node.to_owned()) {
            found.push_str(&placed(&scenario, &node));
        }
        if found.trim() != expected.trim() {
            failures.push(format!("{name}:\n{found}instead of\n{expected}"));
        }
        count += 1;
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    // A case that is lost by a mistake in the file would not be missed otherwise.
    assert_eq!(count, 60);
}
