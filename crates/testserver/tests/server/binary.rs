//! The server as a program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::kit::get;

/// A program that ends with its test.
struct RunningProcess(Child);

impl Drop for RunningProcess {
    fn drop(&mut self) {
        self.0.kill().expect("it still runs");
        self.0.wait().expect("it has ended");
    }
}

#[tokio::test]
async fn it_prints_its_address_and_writes_a_kubeconfig() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("kubeconfig");
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll-testserver"))
        .args(["--nodes", "7", "--pods", "3", "--release", "30", "--kubeconfig-out"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .map(RunningProcess)
        .expect("it starts");
    let mut url = String::new();
    let out = child.0.stdout.take().expect("it is a pipe");
    BufReader::new(out).read_line(&mut url).expect("it prints a line");
    let config = Kubeconfig::read_from(&path).expect("the kubeconfig can be read");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options).await.expect("it is valid");
    assert_eq!(config.cluster_url.to_string().trim_end_matches('/'), url.trim());
    let client = Client::try_from(config).expect("it makes a client");
    let (_, nodes) = get(&client, "/api/v1/nodes").await;
    assert_eq!(nodes["items"].as_array().map(Vec::len), Some(7));
    let (_, version) = get(&client, "/version").await;
    assert_eq!(version["minor"], "30");
}
