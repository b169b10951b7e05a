//! What is typed.

use std::process::{Command, Stdio};

use expect_test::expect;
use serde_json::Value;

use crate::manifests::CLUSTER;
use crate::run::{STDIN, check_refused, run};

#[test]
fn every_command_has_help_with_examples() {
    for command in ["", "simulate", "explain", "config check", "bench", "new-plugin", "completions"]
    {
        let answer = run(&[], &format!("{command} --help"));
        assert_eq!(answer.status, 0, "{command}");
        assert!(answer.out.contains("Usage: plimsoll"), "{command}");
        assert!(answer.out.contains("Examples:"), "{command}");
        let widest = answer.out.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{command}: {widest:?}");
    }
}

#[test]
fn the_version_is_printed() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(run(&[], "--version").out, format!("plimsoll {version}\n"));
}

#[test]
fn wrong_usage_and_wrong_files_have_different_exit_statuses() {
    for line in [
        "",
        "simulat",
        "simulate",
        "simulate -f",
        "simulate -f a.yaml --tie-break last",
        "simulate -f a.yaml --seed -1",
        "simulate -f a.yaml -o xml",
        "simulate -f a.yaml --engine slow",
        "simulate -f a.yaml --engine both",
        "simulate -f a.yaml --audit -1",
        "simulate --swarm 1 --engine fast",
        "simulate --swarm 1 --audit 1",
        "simulate --swarm 1 --with none",
        "simulate --swarm 1 --with groups --feature-gates GenericWorkload=true",
        "simulate --swarm 1 --with groups --scale 10",
        "simulate -f a.yaml --with groups",
        "explain -f a.yaml --pod b --engine fast",
        "explain -f a.yaml",
        "explain -f a.yaml --pod a/b/c",
        "bench",
        "bench Scal",
        "bench Scale --list",
        "bench Scale --nodes 0",
        "bench Scale --runs 0",
        "bench Scale --engine none",
        "bench Scale --audit some",
        "bench Scale --audit-pods 0",
        "new-plugin",
        "completions sh",
    ] {
        let answer = run(&[("a.yaml", CLUSTER)], line);
        assert_eq!((answer.status, answer.out.as_str()), (2, ""), "{line}");
    }
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let answer = run(&[], &format!("completions {shell}"));
        assert_eq!(answer.status, 0, "{shell}");
        assert!(answer.out.contains("tie-break"), "{shell}");
    }
}

#[test]
fn plugins_are_listed_with_what_they_read_and_unavailable_ones_apart() {
    let table = run(&[], "plugins").out;
    let line =
        |name: &str| table.lines().find(|line| line.starts_with(name)).expect("it is listed");
    assert!(line("TaintToleration").contains("filter preScore score"));
    assert!(line("TaintToleration").ends_with("pod: tolerations · node: taints"));
    let json: Value = serde_json::from_str(&run(&[], "plugins -o json").out).expect("it is JSON");
    let plugins = json.as_array().expect("it is a list");
    let missing = plugins.iter().filter(|plugin| plugin["available"] == false);
    for plugin in missing {
        let name = plugin["name"].as_str().expect("a plugin has a name");
        assert!(
            table.lines().any(|line| line.contains("not available yet") && line.contains(name))
        );
    }
    let taints = plugins.iter().find(|plugin| plugin["name"] == "TaintToleration");
    assert_eq!(taints.expect("it is listed")["weight"], 3);
}

#[test]
fn in_tree_plugins_need_no_permissions_of_their_own() {
    let role = run(&[], "plugins --rbac").out;
    assert!(
        role.ends_with("kind: ClusterRole\nmetadata:\n  name: plimsoll-plugins\nrules: []\n"),
        "{role}"
    );
    assert_eq!(run(&[], "plugins --rbac -o json").status, 2);
}

#[test]
fn coscheduling_needs_to_read_its_groups_if_a_configuration_enables_it() {
    let role = |text: &str| run(&[("s.yaml", text)], "plugins --rbac --config s.yaml").out;
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    assert!(role(head).ends_with("rules: []\n"), "{}", role(head));
    let with = role(&format!(
        "{head}profiles:\n- plugins:\n    multiPoint: {{enabled: [{{name: Coscheduling}}]}}\n    \
         queueSort: {{enabled: [{{name: Coscheduling}}], disabled: [{{name: '*'}}]}}\n"
    ));
    expect![[r#"
        rules:
        - apiGroups: ["scheduling.x-k8s.io"]
          resources: ["podgroups"]
          verbs: ["get", "list", "watch"]
    "#]]
    .assert_eq(&with[with.find("rules:").expect("it has rules")..]);
    assert_eq!(run(&[("s.yaml", head)], "plugins --config s.yaml").status, 2);
}

#[test]
fn standard_input_that_is_named_twice_is_refused() {
    let files: &[(&str, &str)] = &[(STDIN, CLUSTER)];
    check_refused(
        files,
        "simulate -f - -f -",
        &expect![[r#"
            error: -: is named twice
        "#]],
    );
    check_refused(
        files,
        "simulate -f - --config -",
        &expect![[r#"
            error: standard input can hold the cluster or the configuration, not both
        "#]],
    );
}

#[test]
fn a_pipe_that_closes_early_is_no_error() {
    let cluster = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cluster");
    for format in ["json", "table"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["simulate", "-f", cluster, "--explain", "-o", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the command ends");
        assert_eq!(output.status.code(), Some(0), "{format}");
        let err = String::from_utf8(output.stderr).expect("the messages are text");
        assert!(!err.contains("error"), "{err}");
    }
}

#[test]
fn podgroups_of_two_apis_may_have_one_name() {
    let groups = "\
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: train}
spec: {minMember: 2}
";
    let both = run(&[("s.yaml", groups)], "simulate -f s.yaml");
    assert!(!both.err.contains("already defined"), "{}", both.err);
    let second = groups.split_once("---").expect("there are two").1;
    let twice = run(&[("s.yaml", &format!("{groups}---{second}"))], "simulate -f s.yaml");
    assert!(twice.err.contains("PodGroup default/train"), "{}", twice.err);
}
