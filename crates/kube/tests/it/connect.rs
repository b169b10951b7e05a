//! How the API server is reached: addresses, credentials, and what is said where they are wrong.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::client::Body;
use plimsoll_kube::client::{Access, Connection, RestMetrics, connect, explain, was_never_sent};
use plimsoll_kube::limit::{Rate, TokenBucket};
use serde_json::json;
use tempfile::TempDir;

use crate::fake::{Fake, PendingRequest};

/// A kubeconfig with one context, in a directory of its own.
struct Kubeconfig {
    dir: TempDir,
    server: String,
    user: String,
}

impl Kubeconfig {
    /// `user` are the fields of the user.
    fn new(server: &str, user: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Kubeconfig { dir, server: server.to_owned(), user: user.to_owned() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("config")
    }

    /// A file beside the kubeconfig.
    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, content).expect("the directory can be written");
        path
    }

    /// A program beside the kubeconfig.
    fn program(&self, name: &str, script: &str) {
        let path = self.file(name, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is our file");
    }

    fn write(&self) {
        let indented = |fields: &str| {
            let mut text = String::new();
            for line in fields.lines() {
                let _ = writeln!(text, "    {line}");
            }
            text
        };
        let (server, user) = (&self.server, indented(&self.user));
        self.file(
            "config",
            &format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
                 contexts:\n- name: here\n  context: {{cluster: c, user: u, namespace: ours}}\n\
                 clusters:\n- name: c\n  cluster:\n    server: {server}\n\
                 users:\n- name: u\n  user:\n    tokens: unused\n{user}"
            ),
        );
    }

    async fn connect(&self) -> Result<Connection, String> {
        self.write();
        at(&self.path()).await
    }
}

async fn at(path: &Path) -> Result<Connection, String> {
    let access = Access { kubeconfig: Some(path.to_owned()), ..Access::default() };
    let connection = connect(access, Arc::new(RestMetrics::default())).await;
    connection.map_err(|error| error.to_string())
}

/// Sends a request, which `answer` answers, and gives the status.
async fn ask(client: &kube::Client, fake: &mut Fake, answer: impl FnOnce(PendingRequest)) -> u16 {
    let request = Request::get("/api/v1/namespaces/x/pods").body(Body::empty());
    let request = client.send(request.expect("it is well-formed"));
    let (answered, ()) = tokio::join!(request, async { answer(fake.next().await) });
    answered.expect("it is answered").status().as_u16()
}

/// The `Authorization` with which a request comes.
async fn authorization(client: &kube::Client, fake: &mut Fake) -> String {
    let mut seen = String::new();
    ask(client, fake, |asked| {
        let header = asked.headers.get("authorization");
        seen = header.map_or_else(String::new, |value| value.to_str().expect("text").to_owned());
        asked.json(&json!({}));
    })
    .await;
    seen
}

#[tokio::test]
async fn a_request_says_who_sends_it_and_that_it_speaks_json() {
    let mut fake = Fake::start().await;
    let config = Kubeconfig::new(&format!("{}/prefix/", fake.address), "token: t");
    let connection = config.connect().await.expect("the kubeconfig is right");
    assert_eq!(format!("http://{}", connection.host()), fake.address);
    let client = connection.client("scheduler", Rate::default());
    assert_eq!(client.default_namespace(), "ours");
    let code = ask(&client, &mut fake, |asked| {
        assert_eq!(asked.path, "/prefix/api/v1/namespaces/x/pods");
        let header = |name: &str| asked.headers[name].to_str().expect("text").to_owned();
        let agent = header("user-agent");
        assert!(
            agent.starts_with(concat!("plimsoll/v", env!("CARGO_PKG_VERSION"), " (")),
            "{agent}"
        );
        assert!(agent.ends_with(")/scheduler"), "{agent}");
        assert_eq!(header("accept"), "application/json");
        assert_eq!(header("authorization"), "Bearer t");
        asked.refuse(404, "NotFound");
    });
    assert_eq!(code.await, 404);
}

#[tokio::test]
async fn nothing_is_tried_twice() {
    let mut fake = Fake::start().await;
    let client = fake.client().await;
    for code in [429, 500, 503, 504] {
        assert_eq!(ask(&client, &mut fake, |asked| asked.refuse(code, "")).await, code);
    }
}

#[tokio::test]
async fn users_are_told_in_every_way_that_a_kubeconfig_has() {
    let exec = "exec:\n  apiVersion: client.authentication.k8s.io/v1\n  interactiveMode: Never\n  command: ./plugin\n  env:\n  - {name: WORD, value: hidden}";
    for (user, expected) in [
        ("token: t", "Bearer t"),
        ("tokenFile: token", "Bearer from-file"),
        ("token: t\ntokenFile: token", "Bearer from-file"),
        ("username: a\npassword: b", "Basic YTpi"),
        (exec, "Bearer hidden-v1"),
        ("", ""),
    ] {
        let mut fake = Fake::start().await;
        let config = Kubeconfig::new(&fake.address, user);
        config.file("token", "from-file\n");
        // As the protocol of such programs says: what they are asked is in a variable, in JSON.
        config.program(
            "plugin",
            r#"case "$KUBERNETES_EXEC_INFO" in *ExecCredential*) ;; *) exit 1;; esac
            echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"'$WORD-v1'"}}'"#,
        );
        let connection = config.connect().await.expect("the kubeconfig is right");
        let client = connection.client("", Rate::default());
        assert_eq!(authorization(&client, &mut fake).await, expected, "{user}");
    }
}

#[tokio::test]
async fn a_program_is_asked_again_once_the_server_does_not_know_us_any_more() {
    let mut fake = Fake::start().await;
    let exec = "exec:\n  apiVersion: client.authentication.k8s.io/v1\n  interactiveMode: Never\n  command: ./plugin";
    let config = Kubeconfig::new(&fake.address, exec);
    config.file("token", "first");
    config.program(
        "plugin",
        r#"echo '{"kind":"ExecCredential","status":{"token":"'$(cat "$(dirname "$0")/token")'"}}'"#,
    );
    let connection = config.connect().await.expect("the kubeconfig is right");
    let client = connection.client("", Rate::UNLIMITED);
    assert_eq!(authorization(&client, &mut fake).await, "Bearer first");
    config.file("token", "second");
    // It is asked beside what is sent, so that the next requests may still come with the old token.
    let deadline = tokio::time::Instant::now() + crate::fake::PATIENCE;
    loop {
        let mut seen = String::new();
        ask(&client, &mut fake, |asked| {
            seen = asked.headers["authorization"].to_str().expect("text").to_owned();
            asked.refuse(401, "Unauthorized");
        })
        .await;
        if seen == "Bearer second" {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "still {seen}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Nothing that the file may be in between keeps it from being read again.
#[tokio::test]
async fn a_kubeconfig_that_was_no_text_for_a_while_is_read_again() {
    let mut fake = Fake::start().await;
    let mut config = Kubeconfig::new(&fake.address, "token: first");
    let connection = config.connect().await.expect("the kubeconfig is right");
    let client = connection.client("", Rate::UNLIMITED);
    assert_eq!(authorization(&client, &mut fake).await, "Bearer first");
    fs::write(config.path(), [0xFF, 0xFE, b'a']).expect("it is our file");
    ask(&client, &mut fake, |asked| asked.refuse(401, "Unauthorized")).await;
    config.user = "token: second".to_owned();
    config.write();
    let deadline = tokio::time::Instant::now() + crate::fake::PATIENCE;
    loop {
        let mut seen = String::new();
        ask(&client, &mut fake, |asked| {
            seen = asked.headers["authorization"].to_str().expect("text").to_owned();
            asked.refuse(401, "Unauthorized");
        })
        .await;
        if seen == "Bearer second" {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "still {seen}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_address_on_the_command_line_wins() {
    let mut fake = Fake::start().await;
    let config = Kubeconfig::new("https://elsewhere.invalid:6443", "token: t");
    config.write();
    let access = Access {
        kubeconfig: Some(config.path()),
        master: Some(fake.address.trim_start_matches("http://").to_owned()),
        ..Access::default()
    };
    let connection = connect(access, Arc::default()).await.expect("both are right");
    let client = connection.client("", Rate::default());
    assert_eq!(authorization(&client, &mut fake).await, "Bearer t");
}

#[tokio::test]
async fn what_is_wrong_with_a_kubeconfig_is_said_with_its_field_and_a_remedy() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("config");
    let shown = path.display().to_string();
    let error = at(&path).await.expect_err("there is none");
    assert!(
        error.starts_with(&format!("kubeconfig {shown}: cannot be read: No such file")),
        "{error}"
    );
    assert!(
        error.ends_with("; name a readable file in --kubeconfig or clientConnection.kubeconfig")
    );
    let base = "apiVersion: v1\nkind: Config\ncurrent-context: a\n";
    let context = "contexts: [{name: a, context: {cluster: c, user: u}}]\n";
    let cluster = "clusters: [{name: c, cluster: {server: 'https://x'}}]\n";
    for (text, expected) in [
        ("users: [{name: u, user: {token: [s3cret]}}]", "line 1, column "),
        ("", "current-context: no context is chosen; it has none; choose one (kubectl"),
        (
            "current-context: b\ncontexts: [{name: a, context: {cluster: c, user: u}}]",
            "current-context: there is no context \"b\"; it has a; choose one that exists",
        ),
        (
            &format!("{base}{context}"),
            "contexts[a].context.cluster: there is no cluster \"c\"; it has none; name a cluster",
        ),
        (
            &format!("{base}{context}{cluster}users: [{{name: v, user: {{}}}}]"),
            "contexts[a].context.user: there is no user \"u\"; it has v; name a user",
        ),
        (
            &format!(
                "{base}{context}clusters: [{{name: c, cluster: {{}}}}]\nusers: [{{name: u, user: {{}}}}]"
            ),
            "clusters[c].cluster.server: Required value; give the address",
        ),
        (
            &format!(
                "{base}{context}clusters: [{{name: c, cluster: {{server: 'ftp://x'}}}}]\nusers: [{{name: u, user: {{}}}}]"
            ),
            "server: Invalid value: \"ftp://x\": http or https and a host are expected; give",
        ),
    ] {
        fs::write(&path, text).expect("the directory can be written");
        let error = at(&path).await.expect_err(text);
        let rest = error.strip_prefix(&format!("kubeconfig {shown}: ")).expect(&error);
        assert!(rest.starts_with(expected), "{text}\n{rest}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn a_kubeconfig_that_breaks_off_in_a_character_is_an_error_and_no_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("config");
    for bytes in [&[0xFF, 0xFE, b'a'][..], &[0xFE, 0xFF, 0, b'a', 0], &[0xFF, 0xFE, 0, 0xD8]] {
        fs::write(&path, bytes).expect("the directory can be written");
        let error = at(&path).await.expect_err("it is no text");
        let expected =
            ": is no text in UTF-16, though it begins with its mark; save the file as UTF-8";
        assert!(error.ends_with(expected), "{error}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_user_is_said_without_a_secret() {
    let exec = |command: &str| {
        format!(
            "exec:\n  apiVersion: client.authentication.k8s.io/v1\n  interactiveMode: Never\n  installHint: get it there\n  command: {command}"
        )
    };
    for (user, expected) in [
        ("tokenFile: nothing", "users[u].user.tokenFile: "),
        ("tokenFile: empty", "users[u].user.tokenFile: "),
        ("client-certificate: c.pem\nclient-key: k.pem", "users[u].user.client-certificate: "),
        (
            "client-certificate-data: YQ==",
            "users[u].user.client-key: Required value: certificate and key belong together; give both",
        ),
        ("client-certificate-data: YQ==\nclient-key-data: '*'", "users[u].user: "),
        (
            &exec("no-such-program"),
            "users[u].user.exec.command: the program cannot be run: No such file",
        ),
        (
            &exec("./fails"),
            "users[u].user.exec: the program failed (exit status: 3): who are you; run",
        ),
        (
            &exec("./prints"),
            "users[u].user.exec: the program prints no ExecCredential; run it by hand",
        ),
        (
            "exec: {apiVersion: client.authentication.k8s.io/v1}",
            "users[u].user.exec.command: Required value",
        ),
        (
            "token: \"s3cret\\ntoken\"",
            "users[u].user.token: this is no token; give a token as one line",
        ),
    ] {
        let config = Kubeconfig::new("https://127.0.0.1:1", user);
        config.file("empty", "\n");
        config.program("fails", "echo s3cret; echo who are you >&2; exit 3");
        config.program("prints", "echo s3cret");
        let error = config.connect().await.expect_err(user);
        let shown = config.path().display().to_string();
        let rest = error.strip_prefix(&format!("kubeconfig {shown}: ")).expect(&error);
        assert!(rest.starts_with(expected), "{user}\n{rest}");
        assert!(!error.contains("s3cret"), "{error}");
        assert_eq!(error.contains("get it there"), user.contains("no-such-program"), "{error}");
    }
}

#[tokio::test]
async fn where_nobody_listens_the_error_says_so_and_nothing_was_sent() {
    let access = Access { master: Some("http://127.0.0.1:1".to_owned()), ..Access::default() };
    let connection = connect(access, Arc::default()).await.expect("the address is right");
    let client = connection.client("", Rate::default());
    let request = Request::get("/version").body(Body::empty()).expect("it is well-formed");
    let error = client.send(request).await.expect_err("nobody listens");
    assert!(was_never_sent(&error));
    let text = explain(&error);
    assert!(text.contains("Connection refused"), "{text}");
    assert!(text.starts_with("client error (Connect)"), "{text}");
}

#[tokio::test]
async fn clients_that_share_a_bucket_wait_for_each_other_and_others_do_not() {
    let mut fake = Fake::start().await;
    let connection = fake.connection().await;
    let bucket = TokenBucket::new(Rate { qps: 0.001, burst: 1 });
    let (first, second) =
        (connection.client_with("a", bucket.clone()), connection.client_with("b", bucket));
    assert_eq!(ask(&first, &mut fake, |asked| asked.json(&json!({}))).await, 200);
    let request = Request::get("/x").body(Body::empty()).expect("it is well-formed");
    let starved = tokio::spawn(async move { second.send(request).await.is_ok() });
    let lease = connection.client("leader-election", Rate { qps: 0.001, burst: 1 });
    let code = ask(&lease, &mut fake, |asked| {
        assert!(asked.headers["user-agent"].to_str().expect("text").ends_with("/leader-election"));
        asked.json(&json!({}));
    });
    assert_eq!(code.await, 200);
    assert!(!starved.is_finished());
}

#[tokio::test]
async fn requests_are_counted_as_client_go_counts_them() {
    let mut fake = Fake::start().await;
    let metrics = Arc::new(RestMetrics::default());
    let registry = prometheus::Registry::new();
    metrics.register(&registry).expect("the names are free");
    let access = Access { master: Some(fake.address.clone()), ..Access::default() };
    let connection = connect(access, metrics).await.expect("the address is right");
    let client = connection.client("", Rate::default());
    ask(&client, &mut fake, |asked| asked.json(&json!({}))).await;
    ask(&client, &mut fake, |asked| asked.refuse(409, "Conflict")).await;
    let page = prometheus::TextEncoder::new().encode_to_string(&registry.gather());
    let page = page.expect("it can be written");
    let host = connection.host();
    for line in [
        format!(r#"rest_client_requests_total{{code="200",host="{host}",method="GET"}} 1"#),
        format!(r#"rest_client_requests_total{{code="409",host="{host}",method="GET"}} 1"#),
        format!(r#"rest_client_request_duration_seconds_count{{host="{host}",verb="GET"}} 2"#),
        format!(
            r#"rest_client_rate_limiter_duration_seconds_bucket{{host="{host}",verb="GET",le="0.005"}} 2"#
        ),
        format!(r#"rest_client_response_size_bytes_bucket{{host="{host}",verb="GET",le="64"}} 2"#),
    ] {
        assert!(page.contains(&line), "{line}\n{page}");
    }
}
