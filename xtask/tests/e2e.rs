//! `cargo xtask e2e` on an external API server.

use std::process::Command;

use plimsoll_testserver::{Options, Terminating, TestServer};

#[test]
fn a_run_can_start_while_the_namespace_of_the_last_one_terminates() {
    let server = TestServer::start(Options {
        // As with an API server without controllers, a deleted namespace terminates for ever.
        terminating_namespaces: Terminating::Kept,
        ..Options::default()
    });
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    for workload in ["basic", "deployments"] {
        let ended = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["e2e", "--nodes", "3", "--pods", "12", "--runs", "2", "--who", "binder"])
            .args(["--workload", workload, "--kubeconfig"])
            .arg(&kubeconfig)
            .output()
            .expect("it can be started");
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{workload}: {told}");
        let table = String::from_utf8_lossy(&ended.stdout);
        assert!(table.lines().any(|line| line.starts_with("binder ")), "{table}");
    }
    assert_eq!(server.counts().bindings().len(), 4 * 12);
    assert_eq!(server.store().len("pods") + server.store().len("nodes"), 0, "it cleans up");
}
