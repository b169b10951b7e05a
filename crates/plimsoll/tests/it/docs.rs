//! Checks that the pages about the command line show what it prints.
//!
//! A block of YAML is the file that was last named before it. A block that begins with `$ plimsoll` is a command that
//! is run with the files of the page, and what it prints: first messages, then the answer. `...` at its end means any
//! further lines.

use std::collections::BTreeMap;
use std::path::Path;

use crate::run::run;

/// Runs every command of a page. A file that the page names but does not show is taken from the page about
/// configurations.
#[track_caller]
fn check(page: &str) {
    let mut files = BTreeMap::new();
    each_block("configuration.md", |name, language, content| {
        if language == "yaml" {
            files.insert(name.to_owned(), content.to_owned());
        }
    });
    let mut n_commands = 0;
    each_block(page, |name, language, content| {
        if language == "yaml" {
            files.insert(name.to_owned(), content.to_owned());
        } else if let Some((command, expected)) = command(content) {
            let files: Vec<(&str, &str)> =
                files.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect();
            let answer = run(&files, command);
            let shown = format!("{}{}", answer.err, answer.out);
            let (mut shown, mut expected) = (lines(&shown), lines(expected));
            if expected.last() == Some(&"...") {
                expected.pop();
                shown.truncate(expected.len());
            }
            assert_eq!(shown, expected, "{page}: plimsoll {command}");
            n_commands += 1;
        }
    });
    assert!(n_commands > 0, "{page} shows commands");
}

/// As [`check`], for a page whose commands ask `journal`, which `plimsoll simulate` writes first.
#[track_caller]
fn check_journal(page: &str, journal: &str) {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join(journal).display().to_string();
    let (mut n_commands, mut is_written) = (0, false);
    each_block(page, |name, language, content| {
        if language == "yaml" && !is_written {
            let gates = "--feature-gates GenericWorkload=true";
            let command = format!("simulate -f {name} --journal {file} {gates}");
            let answer = run(&[(name, content)], &command);
            assert_eq!(answer.status, 0, "{}", answer.err);
            is_written = true;
        } else if let Some((command, expected)) = command(content) {
            let answer = run(&[], &command.replace(journal, &file));
            let shown = format!("{}{}", answer.err, answer.out);
            assert_eq!(lines(&shown), lines(expected), "{page}: plimsoll {command}");
            n_commands += 1;
        }
    });
    assert!(n_commands > 0, "{page} shows commands");
}

/// Calls `each` with every block of a page: the file last named before it, its language and its content.
fn each_block(page: &str, mut each: impl FnMut(&str, &str, &str)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let mut named = String::new();
    let mut parts = text.split("```");
    while let Some(prose) = parts.next() {
        named = last_file(prose).unwrap_or(named);
        let Some(block) = parts.next() else { break };
        let (language, content) = block.split_once('\n').expect("a block has lines");
        each(&named, language, content);
    }
}

fn command(content: &str) -> Option<(&str, &str)> {
    content.strip_prefix("$ plimsoll ")?.split_once('\n')
}

/// The last name of a YAML file in backticks.
fn last_file(prose: &str) -> Option<String> {
    let names = prose
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| Path::new(word).extension().is_some_and(|ending| ending == "yaml"));
    names.last().map(str::to_owned)
}

fn lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

#[test]
fn the_page_about_groups_shows_what_is_decided() {
    check("groups.md");
}

#[test]
fn the_page_about_the_domains_of_groups_shows_what_is_decided() {
    check("group-domains.md");
}

#[test]
fn the_page_about_groups_of_workloads_shows_what_is_decided() {
    check("groups-of-workloads.md");
}

#[test]
fn the_page_about_the_command_line_shows_what_it_prints() {
    check("cli.md");
}

#[test]
fn the_page_about_configurations_shows_what_they_resolve_to() {
    check("configuration.md");
}

#[test]
fn the_page_about_the_scale_of_10_shows_what_it_prints() {
    check("scale-of-10.md");
}

#[test]
fn the_page_about_why_shows_what_it_prints() {
    check("why.md");
}

#[test]
fn the_page_about_what_if_shows_what_it_prints() {
    check("what-if.md");
}

#[test]
fn the_page_about_the_journal_shows_what_it_prints() {
    check_journal("journal.md", "decisions.db");
}
