//! What the pages in `docs/plugins` say of the plugins is true.
//!
//! A page is named after its plugin and begins with where the plugin stands. A block `json` on it
//! holds the default args. A block `scenario` is judged by the plugin, and what it says is the block
//! `output` that follows; `scenario among NodeResourcesFit` puts that plugin before it into the profile.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use plimsoll_framework::{Entry, FeatureGates, Plugin, Point};
use plimsoll_legacy::in_tree;
use plimsoll_plugins::{DEFAULT_PROFILE, node_resources_fit, taint_toleration};
use plimsoll_testkit::{Scenario, report};
use serde_json::Value;

use crate::pages::place;

/// Plugins of which a scenario has nothing to tell: they order the queue, bind, or deal with groups.
const SILENT: [&str; 8] = [
    "Coscheduling",
    "DefaultBinder",
    "GangScheduling",
    "PodGroupFragmentation",
    "PodGroupPodsCount",
    "PreferredTopology",
    "PrioritySort",
    "TopologyPlacementGenerator",
];

/// A page by the name of its plugin.
type Pages = BTreeMap<String, String>;

fn pages() -> Pages {
    let files = fs::read_dir(place("docs/plugins")).expect("the folder can be read");
    let paths = files.map(|file| file.expect("its files can be listed").path());
    let pages = paths.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let page = |path: &Path| {
        let name = path.file_stem().expect("a file has a name").to_string_lossy();
        (name.into_owned(), fs::read_to_string(path).expect("a page can be read"))
    };
    pages.map(|path| page(&path)).collect()
}

/// A fenced block of a page: what stands behind the fence, and the lines in it.
struct Block<'a> {
    info: &'a str,
    text: String,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let inside = lines.by_ref().take_while(|line| *line != "```");
        blocks.push(Block { info, text: inside.flat_map(|line| [line, "\n"]).collect() });
    }
    blocks
}

/// A scenario of a page, with the plugins that are in the profile, too.
struct PageScenario<'a> {
    others: Vec<&'a str>,
    scenario: &'a str,
    output: &'a str,
}

/// The scenarios among `blocks`.
fn scenarios<'a>(page: &str, blocks: &'a [Block<'a>]) -> Vec<PageScenario<'a>> {
    let mut all = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let mut words = block.info.split_whitespace();
        if words.next() != Some("scenario") {
            continue;
        }
        let others = words.skip_while(|word| *word == "among").collect();
        let output = blocks.get(at + 1).filter(|next| next.info == "output");
        let output = output.unwrap_or_else(|| panic!("{page}: a scenario without an output"));
        all.push(PageScenario { others, scenario: &block.text, output: &output.text });
    }
    all
}

/// What the plugin of `entry` says of a scenario, with the args that this gives or else `args`.
fn output(entry: &Entry, told: &PageScenario<'_>, args: Option<&Value>) -> String {
    let others: Vec<Entry> = told.others.iter().map(|name| other(name)).collect();
    let mut scenario = match Scenario::parse(told.scenario) {
        Ok(scenario) => scenario,
        Err(error) => panic!("{}: {error}", entry.name()),
    };
    scenario.args = scenario.args.or(args.cloned());
    report(entry, &others, &scenario)
}

/// A plugin that pages put before their own into the profile.
fn other(name: &str) -> Entry {
    match name {
        node_resources_fit::NodeResourcesFit::NAME => node_resources_fit::entry(),
        taint_toleration::TaintToleration::NAME => taint_toleration::entry(),
        _ => panic!("no page has had {name} in its profile yet: add it here"),
    }
}

/// How a page begins.
fn head(entry: &Entry) -> String {
    let points = entry.points().iter().map(|point| {
        let (first, rest) = point.as_str().split_at(1);
        format!("`{}{rest}`", first.to_lowercase())
    });
    let points: Vec<String> = points.collect();
    let reads = match entry.describe_reads() {
        reads if reads.is_empty() => "nothing".to_owned(),
        reads => reads,
    };
    let weight = DEFAULT_PROFILE.iter().find(|plugin| plugin.name == entry.name());
    let weight = weight.map_or(1, |plugin| plugin.weight.max(1));
    let weight = match entry.points().contains(&Point::Score) {
        true => format!("{weight} by default"),
        false => "none, it does not score".to_owned(),
    };
    let name = entry.name();
    let points = points.join(" ");
    format!("# {name}\n\n- **Points**: {points}\n- **Reads**: {reads}\n- **Weight**: {weight}\n")
}

#[test]
fn every_plugin_has_a_page_and_every_page_a_plugin() {
    let mut names: Vec<&str> = in_tree().iter().map(Entry::name).collect();
    names.sort_unstable();
    assert_eq!(pages().into_keys().collect::<Vec<_>>(), names);
}

#[test]
fn a_page_begins_with_where_its_plugin_stands_and_what_it_reads() {
    let pages = pages();
    for entry in in_tree().iter() {
        let (page, head) = (&pages[entry.name()], head(entry));
        assert!(page.starts_with(&head), "the page of {} must begin:\n{head}", entry.name());
    }
}

#[test]
fn the_args_on_a_page_are_the_defaults_of_its_plugin() {
    let pages = pages();
    for entry in in_tree().iter() {
        let name = entry.name();
        let blocks = blocks(&pages[name]);
        for args in blocks.iter().filter(|block| block.info == "json") {
            let args = args.text.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
            let made = entry.make(Some(&args), &FeatureGates::default());
            assert_eq!(made.err(), None, "{name}");
            for told in scenarios(name, &blocks) {
                assert_eq!(output(entry, &told, Some(&args)), told.output, "{name}");
            }
        }
    }
}

#[test]
fn a_scenario_on_a_page_comes_out_as_the_page_says() {
    let pages = pages();
    for entry in in_tree().iter() {
        let name = entry.name();
        let blocks = blocks(&pages[name]);
        let scenarios = scenarios(name, &blocks);
        assert_eq!(scenarios.is_empty(), SILENT.contains(&name), "{name}");
        for told in scenarios {
            assert_eq!(output(entry, &told, None), told.output, "{name}:\n{}", told.scenario);
        }
    }
}
