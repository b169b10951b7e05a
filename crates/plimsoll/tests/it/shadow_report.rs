//! The report of `plimsoll shadow` as people read it: in the terminal, as docs/shadow.md shows it, and as a page.

use std::fs::File;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::pages::text;
use crate::process::{Process, eventually};
use crate::shadow::{SHADOW, place_at_random, start_server};

/// The command that docs/shadow.md shows.
const COMMAND: &str = "plimsoll shadow --kubeconfig config --window 0s --report shadow.json --report shadow.html --disagreements differ";

/// Runs the command beside that scheduler, until all pods are compared. Returns the folder with what it wrote.
fn run_shadow() -> TempDir {
    let server = start_server();
    let folder = tempfile::tempdir().expect("there is room");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let file = |name: &str| File::create(folder.path().join(name)).expect("there is room");
    std::fs::write(folder.path().join("config"), server.kubeconfig_of(SHADOW))
        .expect("there is room");
    let words: Vec<&str> = COMMAND.split(' ').skip(1).collect();
    let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(words)
        .args(["--report-every", "20ms"])
        .current_dir(folder.path())
        .stdout(file("out"))
        .stderr(file("log"))
        .spawn();
    let mut process = Process(child.expect("the binary starts"));
    eventually("it knows the cluster", || read("log").contains("the whole cluster is known"));
    // Each is compared before the next one is made, so that nothing depends on which events come at the same time.
    place_at_random(&server, &|n| {
        eventually("the pod is compared and placed", || {
            let report: Value = serde_json::from_str(&read("shadow.json")).unwrap_or_default();
            report["configurations"][0]["pods"]["compared"] == n
                && report["ourCluster"]["placed"] == n
        });
    });
    let id = process.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill is there").success());
    assert!(process.0.wait().expect("it can be waited for").success(), "{}", read("log"));
    folder
}

/// The lines of a report, without how long anything took and when it was.
fn lines(report: &str) -> Vec<String> {
    let line = |line: &str| match line.split_once(" for ") {
        Some((followed, _)) if followed.starts_with("Followed") => followed.to_owned(),
        _ if line.starts_with("Pending ") => {
            line.replace(|c: char| c.is_ascii_digit() || c == '.', "")
        }
        _ => line.trim_end().to_owned(),
    };
    report.trim().lines().map(line).collect()
}

#[test]
fn the_page_about_the_shadow_shows_its_report_and_the_page_of_a_report_has_it_all() {
    let folder = run_shadow();
    let read =
        |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("it was written");
    let page = text("docs/shadow.md");
    let shown =
        page.split("```").find_map(|block| block.strip_prefix(&format!("text\n$ {COMMAND}\n")));
    let told = read("out");
    let shown = shown.unwrap_or_else(|| panic!("docs/shadow.md shows no such command: {told}"));
    assert_eq!(
        lines(shown),
        lines(&told),
        "docs/shadow.md shows another report than this one:\n{told}"
    );

    let report: Value = serde_json::from_str(&read("shadow.json")).expect("it is JSON");
    let html = read("shadow.html");
    assert!(html.starts_with("<!doctype html>\n") && html.ends_with("</html>\n"), "{html}");
    assert!(html.contains("default-src 'none'; style-src 'sha256-"), "{html}");
    // Texts are escaped, so that only tags of the page itself begin so.
    let known = [
        "!doctype", "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "ul", "li",
        "table", "thead", "tbody", "tr", "th", "td", "bdi", "br", "code", "meter",
    ];
    for tag in html.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        let name = tag.trim_start_matches('/').split(' ').next().unwrap_or_default();
        assert!(known.contains(&name), "<{tag}>");
        assert!(
            [" on", " src=", " href=", " style="].iter().all(|part| !tag.contains(part)),
            "<{tag}>"
        );
    }
    let disagreements = report["disagreements"].as_array().expect("there is a list");
    assert!(10 < disagreements.len(), "{disagreements:?}");
    for one in disagreements {
        for text in [&one["pod"], &one["why"], &one["reproduction"]["command"]] {
            let text = text.as_str().expect("it is text");
            let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            assert!(html.contains(&format!("<bdi>{escaped}</bdi>")), "{text}");
        }
    }
    for limit in report["limits"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(html.contains(&format!("<li><bdi>{limit}</bdi></li>")), "{limit}");
    }
}

#[test]
fn without_our_own_cluster_there_is_only_the_one_that_is() {
    let server = start_server();
    let folder = tempfile::tempdir().expect("there is room");
    std::fs::write(folder.path().join("config"), server.kubeconfig_of(SHADOW))
        .expect("there is room");
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args([
            "shadow",
            "--kubeconfig",
            "config",
            "--no-own-cluster",
            "--duration",
            "3s",
            "-o",
            "json",
        ])
        .current_dir(folder.path())
        .output()
        .expect("the binary starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert!(report.get("ourCluster").is_none() && report["balance"].is_object(), "{report:#}");
    let limits = report["limits"].to_string();
    assert!(limits.contains("is not simulated"), "{limits}");
}
