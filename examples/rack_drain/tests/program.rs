//! The plugin in a whole scheduler: on files, and in the place of kube-scheduler.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testserver::{Options, TestServer};
use serde_json::json;

/// Far more than anything takes, on a machine that does many other things.
const PATIENCE: Duration = Duration::from_mins(4);

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_rack-drain"))
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("files").join(name)
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

#[track_caller]
fn printed(command: &mut Command) -> String {
    let output = output(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).expect("it prints text")
}

#[test]
fn simulate_keeps_pods_off_the_drained_rack() {
    let mut command = program();
    command.args(["simulate", "--output", "json", "-f"]).arg(file("cluster.yaml"));
    let without = printed(&mut command);
    assert!(without.contains(r#""node":"drained""#), "{without}");
    let with = printed(command.arg("--config").arg(file("config.yaml")));
    assert!(with.contains(r#""node":"kept""#), "{with}");
}

#[test]
fn explain_says_why() {
    let mut command = program();
    command.args(["explain", "--pod", "default/web", "-f"]).arg(file("cluster.yaml"));
    let said = printed(command.arg("--config").arg(file("config.yaml")));
    assert!(said.contains("node(s) were in a rack that is being drained"), "{said}");
}

#[test]
fn it_is_listed_among_the_plugins_and_in_the_profile() {
    let listed = printed(program().arg("plugins"));
    assert!(listed.lines().any(|line| line.starts_with("RackDrain ")), "{listed}");
    let mut check = program();
    let checked =
        printed(check.args(["config", "check", "--output", "json"]).arg(file("config.yaml")));
    let checked: serde_json::Value = serde_json::from_str(&checked).expect("it is JSON");
    let filters = checked["profiles"][0]["points"]["filter"].as_array().expect("there are some");
    assert_eq!(filters.last(), Some(&json!({"name": "RackDrain"})));
    assert_eq!(checked["profiles"][0]["args"]["RackDrain"], json!({"racks": ["r1"]}));
}

#[test]
fn wrong_args_are_told_with_file_line_and_field() {
    for command in COMMANDS {
        let said = complaints(command, "racks: r1");
        assert!(said.contains(".args.racks: invalid type: string \"r1\", expected "), "{said}");
    }
}

#[test]
fn args_that_the_plugin_finds_wrong_are_told_with_file_line_and_field() {
    for command in COMMANDS {
        let said = complaints(command, "racks: [r1, r 2, _3]");
        let rule = "a valid label must be an empty string or consist of alphanumeric characters";
        for (index, rack) in [(1, "r 2"), (2, "_3")] {
            let fault = format!(".args.racks[{index}]: Invalid value: {rack:?}: {rule}");
            assert!(said.contains(&fault), "{said}");
        }
    }
}

/// Commands that read a configuration, whose file goes behind them.
const COMMANDS: [&[&str]; 3] =
    [&["config", "check"], &["simulate", "-f", "cluster.yaml", "--config"], &["run", "--config"]];

/// What a command says of the file that ships with other args, which are wrong.
fn complaints(command: &[&str], args: &str) -> String {
    let right = std::fs::read_to_string(file("config.yaml")).expect("it is there");
    let mut wrong = tempfile::NamedTempFile::new().expect("there is room for a file");
    write!(wrong, "{}", right.replace("racks: [r1]", args)).expect("there is room");
    let mut command_line = program();
    command_line.args(command).arg(wrong.path()).current_dir(file(""));
    let output = output(&mut command_line);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let place = format!("{}:11: profiles[0].pluginConfig[0].args.racks", wrong.path().display());
    assert!(said.contains(&place), "{said}");
    said
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn run_keeps_pods_off_the_drained_rack() {
    let server = TestServer::start(Options::default());
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let node = |name: &str, rack: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"example.com/rack": rack}},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        })
    };
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]},
    });
    let objects = [node("drained", "r1"), node("kept", "r2"), pod];
    server.store().apply_all(objects).expect("they are valid");
    // Only the kubeconfig of the test differs from the file that ships.
    let text = std::fs::read_to_string(file("config.yaml")).expect("it is there");
    let mut config = tempfile::NamedTempFile::new().expect("there is room for a file");
    write!(config, "{text}clientConnection:\n  kubeconfig: {}\n", kubeconfig.display())
        .expect("there is room");
    let child = program()
        .args(["run", "--secure-port=0", "--leader-elect=false", "--config"])
        .arg(config.path())
        .stderr(Stdio::null())
        .spawn();
    let _process = Process(child.expect("the program starts"));
    let begun = Instant::now();
    let node = loop {
        let pods = server.store().list("pods");
        if let Some(node) = pods[0]["spec"]["nodeName"].as_str() {
            break node.to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "the pod waits in vain");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(node, "kept");
}
