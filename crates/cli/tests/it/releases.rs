//! As which release decisions are made.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testserver::{Options, TestServer};

use crate::manifests::CLUSTER;
use crate::run::run;

/// Far more than a start takes, on a machine that does many other things.
const PATIENCE: Duration = Duration::from_mins(4);

/// Every command that decides.
const COMMANDS: [&str; 5] = [
    "simulate -f a.yaml",
    "simulate --swarm 1",
    "explain -f a.yaml --pod p1",
    "config check config.yaml",
    "bench SchedulingBasic --nodes 5 --init-pods 0 --pods 5 --audit 0",
];

const CONFIG: &str =
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

#[test]
fn every_command_that_decides_takes_the_release_as_kube_scheduler_does() {
    let files = [("a.yaml", CLUSTER), ("config.yaml", CONFIG)];
    for command in COMMANDS {
        for version in ["1.36", "1.37", "kube=1.36", "v1.37"] {
            let answer = run(&files, &format!("{command} --emulated-version={version}"));
            assert_eq!(answer.status, 0, "{command} {version}: {}", answer.err);
        }
    }
    for command in COMMANDS.into_iter().chain(["run"]) {
        for (version, told) in [
            ("1.38", "emulation version 1.38 is not between [1.36, 1.37]"),
            ("1.35", "emulation version 1.35 is not between [1.36, 1.37]"),
            ("1.36.1", "patch version not allowed, got: 1.36.1"),
            ("wardle=1.2", "component not registered: wardle"),
            ("new", "could not parse \"new\" as version"),
        ] {
            let answer = run(&files, &format!("{command} --emulated-version={version}"));
            assert_eq!(answer.status, 2, "{command} {version}");
            assert!(answer.err.contains(told), "{command} {version}: {}", answer.err);
        }
    }
}

/// What `run` says of its release at the API server of release 1.`minor`.
fn followed(minor: u32, flags: &[&str]) -> String {
    let server = TestServer::start(Options { release: minor, ..Options::default() });
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let dir = tempfile::tempdir().expect("there is room");
    let log = dir.path().join("log");
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["run", "--secure-port=0", "--leader-elect=false", "--kubeconfig"])
        .arg(&kubeconfig)
        .args(flags)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).expect("there is room"))
        .spawn()
        .expect("the binary starts");
    let begun = Instant::now();
    let told = loop {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let line = text.lines().find_map(|line| line.split_once("of this release"));
        if let Some((_, fields)) = line {
            break fields.to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "it does not say its release: {text}");
        assert_eq!(child.try_wait().expect("it can be asked"), None, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    };
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    told
}

#[test]
fn in_a_cluster_it_decides_as_the_release_of_the_api_server_unless_it_is_told() {
    for (minor, release) in [(30, "1.36"), (36, "1.36"), (37, "1.37"), (38, "1.37")] {
        let told = followed(minor, &[]);
        assert!(told.contains(&format!("release=\"{release}\"")), "1.{minor}: {told}");
    }
    let told = followed(36, &["--emulated-version=1.37"]);
    assert!(told.contains("release=\"1.37\""), "{told}");
}
