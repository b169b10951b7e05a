//! Runs the command in a temporary directory.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use expect_test::Expect;
use serde_json::Value;

/// The name of the file that is given as standard input.
pub(crate) const STDIN: &str = "-";

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs `plimsoll` with these arguments, in a directory with these files.
pub(crate) fn run(files: &[(&str, &str)], line: &str) -> Answer {
    run_where(&[], files, line)
}

/// As [`run`], with these variables in the environment.
pub(crate) fn run_where(variables: &[(&str, &str)], files: &[(&str, &str)], line: &str) -> Answer {
    let folder = tempfile::tempdir().expect("a folder can be made");
    for (name, text) in files.iter().filter(|(name, _)| *name != STDIN) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a file lies in a folder"))
            .expect("it can be made");
        fs::write(path, text).expect("the file can be written");
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(line.split_whitespace())
        .current_dir(folder.path())
        .env_remove("CLICOLOR_FORCE")
        .env_remove("KUBE_MAX_PD_VOLS")
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be run");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    if let Some((_, text)) = files.iter().find(|(name, _)| *name == STDIN) {
        // A command that refuses its arguments does not read standard input.
        let _ = stdin.write_all(text.as_bytes());
    }
    drop(stdin);
    let output = child.wait_with_output().expect("the command ends");
    Answer {
        status: output.status.code().expect("the command ends by itself"),
        out: String::from_utf8(output.stdout).expect("the output is text"),
        err: String::from_utf8(output.stderr).expect("the messages are text"),
    }
}

/// Compares what a run prints, messages first, and its exit status.
pub(crate) fn check(files: &[(&str, &str)], line: &str, expected: &Expect) {
    let Answer { status, out, err } = run(files, line);
    expected.assert_eq(&format!("{err}{out}exit status {status}\n"));
}

/// Compares the messages and the exit status of a run that prints no answer.
pub(crate) fn check_refused(files: &[(&str, &str)], line: &str, expected: &Expect) {
    let Answer { status, out, err } = run(files, line);
    assert_eq!(out, "", "nothing is answered");
    assert_eq!(status, 1, "{err}");
    expected.assert_eq(&err);
}

/// The records that a run prints.
pub(crate) fn records(files: &[(&str, &str)], line: &str) -> Vec<Value> {
    let Answer { status, out, err } = run(files, line);
    assert_eq!(status, 0, "{err}");
    out.lines().map(|line| serde_json::from_str(line).expect("a line is a record")).collect()
}

/// Where each pod went, one line for each record: `pod node`, or `pod result`.
pub(crate) fn placements(files: &[(&str, &str)], line: &str) -> String {
    let lines = records(files, line).into_iter().map(|record| {
        let text = |key: &str| record[key].as_str().map(ToOwned::to_owned);
        let pod = text("pod").expect("a record names its pod");
        let place = text("node").or(text("result")).expect("a record has a result");
        format!("{pod} {place}\n")
    });
    lines.collect()
}
