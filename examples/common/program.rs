//! Runs the program of an example: on files, and in place of kube-scheduler with a test server.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testserver::{HttpsClient, TestServer};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// Far longer than anything takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

/// The program of an example, and the directory with its files.
pub(crate) struct Program {
    pub(crate) binary: &'static str,
    pub(crate) folder: &'static str,
}

impl Program {
    pub(crate) fn command(&self) -> Command {
        Command::new(self.binary)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        Path::new(self.folder).join("files").join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).expect("the file is there")
    }

    /// Runs a command, which must succeed, and returns what it prints.
    #[track_caller]
    pub(crate) fn printed(command: &mut Command) -> String {
        let Output { status, stdout, stderr } = command.output().expect("the program starts");
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).expect("it prints text")
    }

    /// The decision records of a simulation of `cluster.yaml` with `config.yaml`.
    #[track_caller]
    pub(crate) fn simulated(&self) -> Vec<Value> {
        let mut command = self.command();
        command.args(["simulate", "--output", "json", "--config"]).arg(self.file("config.yaml"));
        let printed = Self::printed(command.arg("-f").arg(self.file("cluster.yaml")));
        printed.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
    }

    /// Measures a workload with `config.yaml`, with both engines and every decision audited. Checks that both place the
    /// same pods on the same nodes.
    #[track_caller]
    pub(crate) fn benched(&self, workload: &str) {
        let mut command = self.command();
        command.args(["bench", workload, "--nodes", "40", "--init-pods", "40", "--pods", "100"]);
        command.args(["--engine", "both", "--audit", "1", "--output", "json", "--config"]);
        let printed = Self::printed(command.arg(self.file("config.yaml")));
        let records: Vec<Value> =
            printed.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        let numbers =
            |field: &str| records.iter().filter_map(|one| one[field].as_u64()).collect::<Vec<_>>();
        assert_eq!(numbers("scheduled"), [100, 100], "{printed}");
        assert_eq!(numbers("differing"), [0], "{printed}");
        assert_eq!(records[0]["placements"], records[1]["placements"], "{printed}");
    }

    /// Checks that `config.yaml` with `right` replaced by `wrong` is refused with an error about `field` at `line`.
    #[track_caller]
    pub(crate) fn refuses(&self, right: &str, wrong: &str, line: usize, field: &str) {
        let said = self.complaints(&["config", "check"], right, wrong);
        assert!(said.contains(&format!(":{line}: {field}: ")), "{said}");
    }

    /// The errors of a command about `config.yaml` with `right` replaced by `wrong`. It must fail and name the file.
    #[track_caller]
    pub(crate) fn complaints(&self, command: &[&str], right: &str, wrong: &str) -> String {
        let text = self.text("config.yaml");
        assert!(text.contains(right), "the file says {right}");
        let file = written(&text.replace(right, wrong));
        let mut command_line = self.command();
        command_line.args(command).arg(file.path()).current_dir(self.file(""));
        let output = command_line.output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&file.path().display().to_string()), "{said}");
        said
    }

    /// Runs it in place of kube-scheduler until the value is dropped.
    pub(crate) fn run(&self, server: &TestServer) -> Running {
        self.run_with(server, &["--secure-port=0"])
    }

    /// The same, and asks it for pages in the name of the user with this token.
    pub(crate) fn run_with_client(
        &self,
        server: &TestServer,
        token: &str,
    ) -> (Running, HttpsClient) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let certificates = tempfile::tempdir().expect("there is room for a folder");
        let folder = certificates.path().display();
        let flags = [
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--cert-dir={folder}"),
        ];
        let running = self.run_with(server, &flags.each_ref().map(String::as_str));
        let file = certificates.path().join("kube-scheduler.crt");
        let client = wait_for(|| {
            let certificate = std::fs::read_to_string(&file).ok()?;
            let client = HttpsClient::new(([127, 0, 0, 1], port).into(), &certificate).ok()?;
            let client = client.with_token(token);
            client.get("/livez").is_ok().then_some(client)
        });
        (running, client)
    }

    fn run_with(&self, server: &TestServer, flags: &[&str]) -> Running {
        let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
        // Only the kubeconfig of the test differs from the file that ships.
        let text = self.text("config.yaml");
        let kubeconfig = kubeconfig.display();
        let config = written(&format!("{text}clientConnection:\n  kubeconfig: {kubeconfig}\n"));
        let child = self
            .command()
            .args(["run", "--leader-elect=false", "--config"])
            .arg(config.path())
            .args(flags)
            .stderr(Stdio::null())
            .spawn();
        Running { child: child.expect("the program starts"), _config: config }
    }
}

fn written(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("there is room for a file");
    write!(file, "{text}").expect("there is room");
    file
}

/// A running program.
pub(crate) struct Running {
    child: Child,
    _config: NamedTempFile,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `what` returns a value.
#[track_caller]
pub(crate) fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The node of a pod on the server, once it has one.
pub(crate) fn node_of(server: &TestServer, name: &str) -> Option<String> {
    let pods = server.store().list("pods");
    let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name)?;
    pod["spec"]["nodeName"].as_str().map(str::to_owned)
}

/// The message of the condition PodScheduled of a pod on the server, once it has one.
pub(crate) fn unscheduled(server: &TestServer, name: &str) -> Option<String> {
    let pods = server.store().list("pods");
    let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name)?;
    let conditions = pod["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|one| one["type"] == "PodScheduled")?;
    condition["message"].as_str().map(str::to_owned)
}

/// A node with resources for some pods.
pub(crate) fn node(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    })
}

/// A plain pod.
pub(crate) fn pod(namespace: &str, name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    })
}
