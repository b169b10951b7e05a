//! The dashboard, the alerts and the page about metrics speak of what an instance really exports, and so do the
//! queries of a dashboard for kube-scheduler.
//!
//! An instance does everything that there is to measure. Every selector of every query must then match
//! something, by its name, its labels and their values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use plimsoll_document::Document;
use plimsoll_engine::Reservations;
use plimsoll_kube::lease::LeaseClock;
use plimsoll_kube::run::Exit;
use plimsoll_testserver::{
    FaultKind, HttpsClient, InjectedFault, Options, Right, TestServer, User,
};
use serde_json::{Value, json};

use crate::groups::{gang, member, with_gangs};
use crate::lab::{Instance, election, eventually, fill, node, placed, pod, pods, until_placed};
use crate::mixin;

/// The labels that Prometheus gives to what it scrapes.
const OF_THE_TARGET: [&str; 3] = ["cluster", "job", "instance"];

/// How often a binding is sent before it has failed.
const SENDS: u64 = 1 + 3;

/// A row of a page of metrics: its labels.
type SeriesLabels = BTreeMap<String, String>;

/// What was exported.
#[derive(Default)]
struct Exported {
    /// By the name of the family: its type.
    types: BTreeMap<String, String>,
    /// By the name of the row.
    rows: BTreeMap<String, Vec<SeriesLabels>>,
}

impl Exported {
    fn add(&mut self, page: &str) {
        for line in page.lines() {
            if let Some(told) = line.strip_prefix("# TYPE ") {
                let (name, kind) = told.split_once(' ').expect("a family has a type");
                self.types.insert(name.to_owned(), kind.to_owned());
            } else if !line.starts_with('#') {
                let (row, _) = line.rsplit_once(' ').expect("a row has a value");
                let (name, labels) = row.split_once('{').unwrap_or((row, "}"));
                let mut words = Words::of(labels.strip_suffix('}').expect("labels end"));
                let labels = words.matchers().into_iter().map(|one| (one.label, one.value));
                self.rows.entry(name.to_owned()).or_default().push(labels.collect());
            }
        }
    }

    /// Adds what another instance exported.
    fn join(&mut self, other: Exported) {
        self.types.extend(other.types);
        for (name, rows) in other.rows {
            self.rows.entry(name).or_default().extend(rows);
        }
    }

    fn series(&self) -> usize {
        self.rows.values().map(Vec::len).sum()
    }

    /// Whether a row is something that only grows.
    fn only_grows(&self, row: &str) -> bool {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().any(|part| {
            let family = row.strip_suffix(part);
            family.and_then(|family| self.types.get(family)).is_some_and(|kind| kind == "histogram")
        });
        of_histogram || self.types.get(row).is_some_and(|kind| kind == "counter")
    }
}

/// What a query asks about.
#[derive(Debug)]
struct SeriesSelector {
    metric: String,
    matchers: Vec<Matcher>,
    /// Whether it is about a span of time.
    over_time: bool,
    /// The functions around it, the nearest last.
    functions: Vec<String>,
}

#[derive(Clone, Debug)]
struct Matcher {
    label: String,
    operator: String,
    value: String,
}

impl Matcher {
    /// As Prometheus: a label that is not there is empty, and a pattern has to match the whole value. Of
    /// patterns the queries have `|`, and `.` for any letter.
    fn holds(&self, labels: &SeriesLabels) -> bool {
        let value = labels.get(&self.label).map_or("", String::as_str);
        let is_like = |pattern: &str| {
            pattern.chars().count() == value.chars().count()
                && pattern
                    .chars()
                    .zip(value.chars())
                    .all(|(wanted, is)| wanted == '.' || wanted == is)
        };
        match self.operator.as_str() {
            "=" => value == self.value,
            "!=" => value != self.value,
            "=~" => self.value.split('|').any(is_like),
            other => panic!("no query has had {other} yet: add it here"),
        }
    }
}

/// A query, word by word.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        Words { rest: text }
    }

    fn peek(&self) -> Option<&'a str> {
        Words { rest: self.rest }.next()
    }

    /// The next word: a name, a number, a text in quotes, or an operator.
    fn next(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start();
        let first = text.chars().next()?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '$');
        let length = if first == '"' {
            let end = text[1..].find('"').expect("a text in quotes ends");
            end + 2
        } else if is_name(first) {
            text.find(|c| !is_name(c)).unwrap_or(text.len())
        } else {
            let two = ["=~", "!~", "!=", "==", ">=", "<="];
            if two.iter().any(|operator| text.starts_with(operator)) { 2 } else { first.len_utf8() }
        };
        let (word, rest) = text.split_at(length);
        self.rest = rest;
        Some(word)
    }

    fn expect(&mut self, word: &str) {
        assert_eq!(self.next(), Some(word), "before {:?}", self.rest);
    }

    /// `LABEL OPERATOR "VALUE"` until a brace or the end.
    fn matchers(&mut self) -> Vec<Matcher> {
        let mut matchers = Vec::new();
        while self.peek().is_some_and(|word| word != "}") {
            let label = self.next().expect("it was just seen").to_owned();
            let operator = self.next().expect("an operator follows").to_owned();
            let value = self.next().expect("a value follows").trim_matches('"').to_owned();
            matchers.push(Matcher { label, operator, value });
            if self.peek() == Some(",") {
                self.next();
            }
        }
        matchers
    }

    /// Names in parentheses.
    fn labels(&mut self) -> BTreeSet<String> {
        let mut labels = BTreeSet::new();
        self.expect("(");
        loop {
            match self.next().expect("the list ends") {
                ")" => return labels,
                "," => {}
                label => _ = labels.insert(label.to_owned()),
            }
        }
    }
}

/// What a query selects, and by which labels it groups.
fn read(query: &str) -> (Vec<SeriesSelector>, BTreeSet<String>) {
    const FUNCTIONS: [&str; 8] = [
        "absent",
        "changes",
        "histogram_quantile",
        "increase",
        "max",
        "min_over_time",
        "rate",
        "sum",
    ];
    let mut words = Words::of(query);
    let (mut selectors, mut groups, mut open) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut function = None;
    while let Some(word) = words.next() {
        match word {
            "by" => groups.extend(words.labels()),
            // All others are kept, the bounds of a histogram among them.
            "without" => {
                let gone = words.labels();
                groups.extend(["le".to_owned()].into_iter().filter(|label| !gone.contains(label)));
            }
            "(" => open.push(function.take().unwrap_or_default()),
            ")" => _ = open.pop().expect("as many parentheses end as begin"),
            "," | "/" | ">" | "==" | "<" => {}
            number if number.parse::<f64>().is_ok() => {}
            name if FUNCTIONS.contains(&name) => function = Some(name.to_owned()),
            metric => {
                let mut matchers = Vec::new();
                if words.peek() == Some("{") {
                    words.next();
                    matchers = words.matchers();
                    words.expect("}");
                }
                let over_time = words.peek() == Some("[");
                if over_time {
                    words.next();
                    words.next();
                    words.expect("]");
                }
                let (metric, functions) = (metric.to_owned(), open.clone());
                selectors.push(SeriesSelector { metric, matchers, over_time, functions });
            }
        }
    }
    assert!(open.is_empty(), "{query}: as many parentheses end as begin");
    (selectors, groups)
}

/// Holds a query to what was exported.
fn check(query: &str, exported: &Exported) {
    let (selectors, groups) = read(query);
    assert!(!selectors.is_empty(), "{query}: it asks about something");
    let mut known: BTreeSet<String> = OF_THE_TARGET.iter().map(ToString::to_string).collect();
    known.insert(mixin::NO_MORE.to_owned());
    for SeriesSelector { metric, matchers, over_time, functions } in &selectors {
        let rows = exported.rows.get(metric);
        let rows = rows.unwrap_or_else(|| panic!("{query}: nothing is called {metric}"));
        let own = matchers.iter().filter(|one| !OF_THE_TARGET.contains(&&*one.label));
        let own: Vec<&Matcher> = own.collect();
        for one in &own {
            let has_it = |row: &SeriesLabels| row.contains_key(&one.label);
            assert!(rows.iter().any(has_it), "{query}: {metric} has no label {}", one.label);
        }
        let matching = rows.iter().filter(|row| own.iter().all(|one| one.holds(row)));
        let matching: Vec<&SeriesLabels> = matching.collect();
        assert!(!matching.is_empty(), "{query}: {metric} is exported, but not so: {rows:?}");
        known.extend(matching.iter().flat_map(|row| row.keys().cloned()));
        let grows = ["rate", "increase"].iter().any(|name| functions.iter().any(|one| one == name));
        assert_eq!(
            *over_time,
            grows || functions.iter().any(|one| one.contains("time") || one == "changes"),
            "{query}"
        );
        assert!(!grows || exported.only_grows(metric), "{query}: {metric} may fall");
        let is_bucket = functions.iter().any(|one| one == "histogram_quantile");
        assert_eq!(metric.ends_with("_bucket"), is_bucket, "{query}");
        assert!(!is_bucket || groups.contains("le"), "{query}: a quantile needs its bounds");
    }
    for group in groups {
        assert!(known.contains(&group), "{query}: nothing has the label {group}");
    }
}

fn cluster(options: Options) -> TestServer {
    let rights = vec![Right::on_paths(&["/metrics", "/metrics/resources"], &["get"])];
    let (token, name) = ("token".to_owned(), "prometheus".to_owned());
    let users = vec![User { token, name, groups: Vec::new(), rights }];
    TestServer::start(Options { users, ..options })
}

/// A pod of some priority.
fn prior(name: &str, milli_cpu: u32, priority: i32) -> Value {
    let mut pod = pod(name, milli_cpu);
    pod["spec"]["priority"] = priority.into();
    pod
}

/// What an instance exports that has done everything.
fn exported() -> Exported {
    let server = cluster(Options::default());
    fill(&server, (0..3).map(node));
    let (instance, client) = Instance::serving(&server, |config| {
        config.election = Some(election("ours", LeaseClock::default()));
    });
    let client = client.with_token("token");
    fill(&server, pods("web", 24));
    until_placed(&server, 24);
    // One that fits nowhere until a node comes, one with a gate, and one whose binding fails as often as it is sent.
    let mut gated = pod("gated", 100);
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/later"}]);
    let mut large = pod("large", 9000);
    large["spec"]["preemptionPolicy"] = json!("Never");
    fill(&server, [gated, large]);
    server.faults().add(
        InjectedFault::every(1, FaultKind::Status(500)).resources(&["pods/binding"]).times(SENDS),
    );
    fill(&server, [pod("again", 100)]);
    until_placed(&server, 25);
    // One for which others have to go.
    fill(&server, [prior("urgent", 3900, 1000)]);
    eventually("the urgent pod has a node", || placed(&server).contains_key("urgent"));
    fill(&server, [node(3)]);
    // Nothing waits for what the last answers say.
    let done = |exported: &Exported| {
        let rows = |name: &str| exported.rows.get(name).is_some_and(|rows| !rows.is_empty());
        rows("scheduler_queueing_hint_execution_duration_seconds_count")
            && rows("scheduler_preemption_goroutines_execution_total")
            && rows("kube_pod_resource_request")
    };
    let mut all = scraped(&client);
    eventually_counts(&mut all, &client, done);
    assert_eq!(instance.stop(), Exit::Stopped);
    all
}

/// What an instance exports that has decided a group of pods.
fn exported_with_groups() -> Exported {
    let also = vec!["scheduling.k8s.io/v1alpha2".to_owned()];
    let server = cluster(Options { release: 36, also, ..Options::default() });
    fill(&server, [node(0)]);
    let (instance, client) = Instance::serving(&server, |config| {
        with_gangs(config);
        let (after, at_most) = (Duration::from_mins(10), Duration::from_mins(5));
        config.engine.reservations = Some(Reservations { after, at_most });
    });
    let client = client.with_token("token");
    fill(&server, [gang("train", 2)]);
    fill(&server, (0..2).map(|number| member("train", number, 100)));
    until_placed(&server, 2);
    let mut all = scraped(&client);
    eventually_counts(&mut all, &client, |exported| {
        exported.rows.contains_key("plimsoll_podgroup_scheduling_sli_duration_seconds_bucket")
    });
    assert_eq!(instance.stop(), Exit::Stopped);
    all
}

/// What the journal of the program exports, which an instance of this crate does not have. A test of the program checks that
/// it has these metrics.
const OF_THE_JOURNAL: &str = "\
# TYPE plimsoll_journal_entries_total counter
plimsoll_journal_entries_total 2
# TYPE plimsoll_journal_lost_entries_total counter
plimsoll_journal_lost_entries_total 0
# TYPE plimsoll_journal_errors_total counter
plimsoll_journal_errors_total 0
# TYPE plimsoll_journal_size_bytes gauge
plimsoll_journal_size_bytes 8192
";

/// What `plimsoll shadow` exports. A test of the program checks that it has these metrics.
const OF_THE_SHADOW: &str = "\
# TYPE plimsoll_shadow_comparisons_total counter
plimsoll_shadow_comparisons_total{configuration=\"default\",verdict=\"same\"} 2
plimsoll_shadow_comparisons_total{configuration=\"default\",verdict=\"infeasible\"} 0
plimsoll_shadow_comparisons_total{configuration=\"default\",verdict=\"pending_although_fits\"} 1
# TYPE plimsoll_shadow_disagreements_total counter
plimsoll_shadow_disagreements_total 1
# TYPE plimsoll_shadow_pods_not_seen_pending_total counter
plimsoll_shadow_pods_not_seen_pending_total 0
# TYPE plimsoll_shadow_waiting_events gauge
plimsoll_shadow_waiting_events 0
# TYPE plimsoll_shadow_lag_seconds gauge
plimsoll_shadow_lag_seconds 0
";

/// Both pages of metrics.
fn scraped(client: &HttpsClient) -> Exported {
    let mut all = Exported::default();
    for path in ["/metrics", "/metrics/resources"] {
        eventually(&format!("{path} answers"), || {
            client.get(path).is_ok_and(|answer| answer.code == 200)
        });
        all.add(&client.get(path).expect("it answers").body);
    }
    all
}

#[track_caller]
fn eventually_counts(all: &mut Exported, client: &HttpsClient, done: impl Fn(&Exported) -> bool) {
    let last = std::cell::RefCell::new(std::mem::take(all));
    eventually("all is counted", || {
        done(&last.borrow()) || {
            *last.borrow_mut() = scraped(client);
            false
        }
    });
    *all = last.into_inner();
}

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The queries of the dashboard: those of its panels.
fn of_the_dashboard() -> Vec<String> {
    let board: Value = serde_json::from_str(&file("deploy/grafana.json")).expect("it is JSON");
    let panels = board["panels"].as_array().expect("it has panels");
    let mut queries = Vec::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(!targets.is_empty(), "{} asks for something", panel["title"]);
        queries.extend(targets.iter().filter_map(|one| one["expr"].as_str()).map(str::to_owned));
    }
    queries
}

/// The queries of the alerts.
fn of_the_alerts() -> Vec<String> {
    let documents = Document::parse_all("alerts.yaml", &file("deploy/alerts.yaml"));
    let documents = documents.expect("it is YAML");
    let groups = documents[0].value["spec"]["groups"].as_array().expect("there are groups");
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten());
    let rules = rules.map(|rule| {
        for said in ["summary", "description"] {
            assert!(rule["annotations"][said].is_string(), "{}: {said}", rule["alert"]);
        }
        rule["expr"].as_str().expect("a rule has a query").to_owned()
    });
    rules.collect()
}

/// The metrics in the tables of the page: name, type and labels, each in its column.
fn of_the_page() -> Vec<(String, String, BTreeSet<String>)> {
    let names = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let page = file("docs/metrics.md");
    let mut metrics = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        for name in names(cells[1]) {
            metrics.push((name, cells[2].to_owned(), names(cells[3]).into_iter().collect()));
        }
    }
    metrics
}

#[test]
fn every_query_finds_what_it_asks_for_and_the_page_knows_every_metric() {
    let exported = exported();
    assert!(100 < exported.series(), "much is told");
    let mut whole = Exported { types: exported.types.clone(), rows: exported.rows.clone() };
    whole.join(exported_with_groups());
    whole.add(OF_THE_JOURNAL);
    whole.add(OF_THE_SHADOW);
    let mixin = mixin::queries().into_iter().map(|(_, query)| query);
    for query in of_the_dashboard().into_iter().chain(of_the_alerts()).chain(mixin) {
        check(&query, &whole);
    }
    let of_go = exported.rows.keys().find(|name| name.starts_with("go_"));
    assert_eq!(of_go, None, "nothing here is of Go");
    let mut told = BTreeMap::new();
    for (name, kind, labels) in of_the_page() {
        assert_eq!(exported.types.get(&name), Some(&kind), "docs/metrics.md: {name}");
        told.insert(name, labels);
    }
    for (family, kind) in &exported.types {
        let labels = told.get(family);
        let labels = labels.unwrap_or_else(|| panic!("docs/metrics.md does not tell of {family}"));
        let row = if kind == "histogram" { format!("{family}_count") } else { family.clone() };
        for row in exported.rows.get(&row).into_iter().flatten() {
            let found: BTreeSet<String> = row.keys().cloned().collect();
            assert_eq!(found, *labels, "docs/metrics.md: the labels of {family}");
        }
    }
}

#[test]
fn every_metric_of_our_own_is_on_the_dashboard() {
    let asked: BTreeSet<String> = of_the_dashboard()
        .iter()
        .flat_map(|query| read(query).0)
        .map(|selector| selector.metric.trim_end_matches("_bucket").to_owned())
        .collect();
    // The panel of the hashes shows when it changes.
    let left_out = ["plimsoll_config_last_reload_success_timestamp_seconds"];
    let alerted: BTreeSet<String> = of_the_alerts()
        .iter()
        .flat_map(|query| read(query).0)
        .map(|selector| selector.metric)
        .collect();
    let page = file("docs/metrics.md");
    let quoted = page.split('`').skip(1).step_by(2);
    let named = quoted.filter_map(|text| text.split('{').next()).filter(|name| {
        name.starts_with("plimsoll_") && name.chars().all(|c| c == '_' || c.is_ascii_lowercase())
    });
    for name in named {
        let is_shown = asked.contains(name) || alerted.contains(name) || left_out.contains(&name);
        assert!(is_shown, "docs/metrics.md names {name}, and no panel and no alert asks for it");
    }
}

#[test]
fn a_query_that_finds_nothing_is_found_out() {
    let mut exported = Exported::default();
    exported.add(
        "# TYPE a_total counter\na_total{code=\"200\"} 1\n# TYPE b gauge\nb 2\n\
         # TYPE c_seconds histogram\nc_seconds_bucket{le=\"+Inf\"} 1\nc_seconds_sum 1\nc_seconds_count 1\n",
    );
    for well in [
        "sum by (code, job) (rate(a_total{job=~\"$job\", code=~\"2..|4..\"}[5m])) / sum(b) > 0.5",
        "histogram_quantile(0.99, sum by (le) (rate(c_seconds_bucket[$__rate_interval])))",
        "b{instance=~\"$instance\"}",
    ] {
        check(well, &exported);
    }
    for wrong in [
        "rate(a[5m])",
        "rate(b[5m])",
        "rate(a_total)",
        "a_total{code=\"201\"}",
        "a_total{verb=\"GET\"}",
        "sum by (verb) (b)",
        "sum(b",
        "histogram_quantile(0.99, rate(c_seconds_bucket[5m]))",
        "histogram_quantile(0.99, sum by (le) (rate(c_seconds_sum[5m])))",
    ] {
        let found = std::panic::catch_unwind(|| check(wrong, &exported));
        assert!(found.is_err(), "{wrong}");
    }
}
