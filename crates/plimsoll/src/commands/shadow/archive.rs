//! Writes the state of disagreements to a directory.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use plimsoll_api::PodKey;
use plimsoll_framework::Release;
use plimsoll_shadow::{Archive, Disagreement, Reproduction};

use crate::snapshot::write;
use crate::{args, notices};

/// The file with all commands.
const COMMANDS: &str = "commands.sh";

/// A directory for snapshots, if one was asked for.
pub(super) struct Directory {
    dir: Option<PathBuf>,
    left: u32,
    written: u32,
    release: Release,
    feature_gates: Vec<String>,
    /// The file with each configuration, by its name.
    configurations: Vec<(String, PathBuf)>,
    commands: Option<File>,
}

impl Directory {
    /// Makes the directory, and writes the configurations to it.
    pub(super) fn open(
        args: &args::Shadow,
        release: Release,
        configurations: &[(String, String)],
    ) -> Result<Self> {
        let mut directory = Directory {
            dir: args.disagreements.clone(),
            left: args.max_snapshots,
            written: 0,
            release,
            feature_gates: args.feature_gates.clone(),
            configurations: Vec::new(),
            commands: None,
        };
        let Some(dir) = &args.disagreements else { return Ok(directory) };
        let cannot = || format!("--disagreements: {}: cannot be written", dir.display());
        fs::create_dir_all(dir).with_context(cannot)?;
        for (index, (name, text)) in configurations.iter().enumerate() {
            let file = dir.join(if index == 0 { "configuration.yaml" } else { "against.yaml" });
            fs::write(&file, text).with_context(cannot)?;
            directory.configurations.push((name.clone(), file));
        }
        directory.commands = Some(File::create(dir.join(COMMANDS)).with_context(cannot)?);
        Ok(directory)
    }

    /// Whether anything is kept.
    pub(super) fn is_open(&self) -> bool {
        self.dir.is_some()
    }

    /// Says where the snapshots are.
    pub(super) fn tell(&self) {
        if let Some(dir) = &self.dir {
            let (dir, n) = (dir.display(), self.written);
            notices::note(format_args!(
                "{dir}: {n} disagreements can be reproduced by {dir}/{COMMANDS}"
            ));
        }
    }

    fn try_keep(
        &mut self,
        disagreement: &Disagreement,
        manifests: &mut dyn Iterator<Item = &str>,
    ) -> Result<Option<Reproduction>> {
        let Some(dir) = self.dir.as_ref().filter(|_| 0 < self.left) else { return Ok(None) };
        let PodKey { namespace, name } = &disagreement.key;
        let number = disagreement.number;
        let file = dir.join(format!("{number:04}-{namespace}-{name}.json.gz"));
        write(&file, manifests)?;
        self.left -= 1;
        self.written += 1;
        let configuration =
            self.configurations.iter().find(|(name, _)| *name == disagreement.configuration);
        let config = configuration
            .map(|(_, file)| format!(" --config {}", quoted(&file.display().to_string())))
            .unwrap_or_default();
        let subject = match &disagreement.group {
            Some(group) => format!("--group {group}"),
            None => format!("--pod {namespace}/{name}"),
        };
        let gates = match self.feature_gates.as_slice() {
            [] => String::new(),
            gates => format!(" --feature-gates {}", quoted(&gates.join(","))),
        };
        let file = file.display().to_string();
        let command = format!(
            "plimsoll explain -f {} {subject}{config} --emulated-version {}{gates}",
            quoted(&file),
            self.release
        );
        if let Some(commands) = &mut self.commands {
            writeln!(
                commands,
                "# {number}: {}: {}\n{command}",
                disagreement.pod, disagreement.why
            )?;
        }
        Ok(Some(Reproduction { file, command }))
    }
}

impl Archive for Directory {
    fn keep(
        &mut self,
        disagreement: &Disagreement,
        manifests: &mut dyn Iterator<Item = &str>,
    ) -> Option<Reproduction> {
        match self.try_keep(disagreement, manifests) {
            Ok(reproduction) => reproduction,
            Err(error) => {
                // The comparison goes on: the counts matter more than the files.
                tracing::warn!(
                    error = format!("{error:#}"),
                    "no more states of disagreements are written"
                );
                self.left = 0;
                None
            }
        }
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=+:@%,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use plimsoll_shadow::DisagreementKind;

    use super::*;

    #[test]
    fn a_group_is_decided_again_as_a_group_with_its_feature_gates() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut directory = Directory {
            dir: Some(folder.path().to_owned()),
            left: 2,
            written: 0,
            release: Release::V1_37,
            feature_gates: vec!["GenericWorkload=true".to_owned(), "A=true".to_owned()],
            configurations: Vec::new(),
            commands: None,
        };
        let of_pod = Disagreement {
            number: 1,
            pod: "team/g-0".to_owned(),
            group: None,
            at: String::new(),
            kind: DisagreementKind::Worse,
            configuration: "default".to_owned(),
            theirs: None,
            ours: Vec::new(),
            margin: None,
            points: Vec::new(),
            plugin: None,
            reasons: Vec::new(),
            why: String::new(),
            resource_version: "1".into(),
            reproduction: None,
            key: PodKey::new("team", "g-0"),
        };
        let of_group = Disagreement { group: Some("team/g".to_owned()), ..of_pod.clone() };
        for (one, subject) in [(of_pod, "--pod team/g-0"), (of_group, "--group team/g")] {
            let kept = directory.try_keep(&one, &mut std::iter::empty()).expect("there is room");
            let command = kept.expect("one is left").command;
            let gates = "--emulated-version 1.37 --feature-gates GenericWorkload=true,A=true";
            assert!(command.ends_with(&format!(" {subject} {gates}")), "{command}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a/b-1.json"), "a/b-1.json");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
