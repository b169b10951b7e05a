//! The plugin in a whole scheduler: on files, and in place of kube-scheduler.

#[path = "../../common/program.rs"]
#[allow(dead_code, reason = "each example needs a part of it")]
mod program;

use plimsoll_testserver::{Options, TestServer};
use program::{Program, node, node_of, pod, wait_for};
use serde_json::{Value, json};

const RACK_DRAIN: Program =
    Program { binary: env!("CARGO_BIN_EXE_rack-drain"), folder: env!("CARGO_MANIFEST_DIR") };

#[test]
fn bench_decides_alike_with_both_engines() {
    RACK_DRAIN.benched("DefaultTopologySpreading");
}

#[test]
fn simulate_keeps_pods_off_the_drained_rack() {
    let mut command = RACK_DRAIN.command();
    command.args(["simulate", "--output", "json", "-f"]).arg(RACK_DRAIN.file("cluster.yaml"));
    let without = Program::printed(&mut command);
    assert!(without.contains(r#""node":"drained""#), "{without}");
    assert_eq!(RACK_DRAIN.simulated()[0]["node"], "kept");
}

#[test]
fn explain_says_why() {
    let mut command = RACK_DRAIN.command();
    command.args(["explain", "--pod", "default/web", "-f"]).arg(RACK_DRAIN.file("cluster.yaml"));
    let said = Program::printed(command.arg("--config").arg(RACK_DRAIN.file("config.yaml")));
    assert!(said.contains("node(s) were in a rack that is being drained"), "{said}");
}

#[test]
fn it_is_listed_among_the_plugins_and_in_the_profile() {
    let listed = Program::printed(RACK_DRAIN.command().arg("plugins"));
    assert!(listed.lines().any(|line| line.starts_with("RackDrain ")), "{listed}");
    let mut check = RACK_DRAIN.command();
    check.args(["config", "check", "--output", "json"]);
    let checked = Program::printed(check.arg(RACK_DRAIN.file("config.yaml")));
    let checked: Value = serde_json::from_str(&checked).expect("it is JSON");
    let filters = checked["profiles"][0]["points"]["filter"].as_array().expect("there are some");
    assert_eq!(filters.last(), Some(&json!({"name": "RackDrain"})));
    assert_eq!(checked["profiles"][0]["args"]["RackDrain"], json!({"racks": ["r1"]}));
}

#[test]
fn wrong_args_are_reported_with_file_line_and_field() {
    for command in COMMANDS {
        let said = complaints(command, "racks: r1");
        assert!(said.contains(".args.racks: invalid type: string \"r1\", expected "), "{said}");
    }
}

#[test]
fn args_that_the_plugin_refuses_are_reported_with_file_line_and_field() {
    for command in COMMANDS {
        let said = complaints(command, "racks: [r1, r 2, _3]");
        let rule = "a valid label must be an empty string or consist of alphanumeric characters";
        for (index, rack) in [(1, "r 2"), (2, "_3")] {
            let fault = format!(".args.racks[{index}]: Invalid value: {rack:?}: {rule}");
            assert!(said.contains(&fault), "{said}");
        }
    }
}

/// Commands that read a configuration. Its file is the last argument.
const COMMANDS: [&[&str]; 3] =
    [&["config", "check"], &["simulate", "-f", "cluster.yaml", "--config"], &["run", "--config"]];

/// The errors of a command about the shipped configuration with wrong args.
fn complaints(command: &[&str], args: &str) -> String {
    let said = RACK_DRAIN.complaints(command, "racks: [r1]", args);
    assert!(said.contains(":11: profiles[0].pluginConfig[0].args.racks"), "{said}");
    said
}

#[test]
fn run_keeps_pods_off_the_drained_rack() {
    let server = TestServer::start(Options::default());
    let rack = |rack: &str| json!({"example.com/rack": rack});
    let objects = [
        node("drained", &rack("r1")),
        node("kept", &rack("r2")),
        pod("default", "web", &json!({})),
    ];
    server.store().apply_all(objects).expect("they are valid");
    let _running = RACK_DRAIN.run(&server);
    assert_eq!(wait_for(|| node_of(&server, "web")), "kept");
}
