//! The application: all commands, with the in-tree plugins and those that were added.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use plimsoll_framework::{Entry, Registry};
use plimsoll_legacy::in_tree;

use crate::args::Args;
use crate::{commands, notices};

/// A whole scheduler: all commands of `plimsoll`, with your plugins in addition to the in-tree ones.
///
/// Every configuration can name such a plugin. Errors in its args have file, line and field, and `plugins`,
/// `config check`, `explain`, the metrics and `/configz` show it like an in-tree plugin. No profile contains it until a
/// configuration enables it.
#[derive(Debug, Default)]
#[must_use = "nothing happens until it runs"]
pub struct App {
    plugins: Vec<Entry>,
}

impl App {
    /// The application with only the in-tree plugins: the program `plimsoll`.
    pub fn new() -> Self {
        App::default()
    }

    /// Adds a plugin, as `app.WithPlugin` of kube-scheduler does.
    pub fn with_plugin(mut self, entry: Entry) -> Self {
        self.plugins.push(entry);
        self
    }

    /// Runs the command line of this process.
    ///
    /// On an error it prints a message to standard error and returns a failure. It is also an error if two plugins have
    /// the same name, or one has the name of an in-tree plugin.
    pub fn run(self) -> ExitCode {
        self.run_from(std::env::args_os())
    }

    /// Runs a command line: the name of the program, followed by its arguments. It exits the process if the command
    /// line is wrong or asks for help.
    ///
    /// The exit code is that of [`App::run`].
    pub fn run_from<T: Into<OsString>>(self, line: impl IntoIterator<Item = T>) -> ExitCode {
        let line = as_command(line.into_iter().map(Into::into).collect());
        let line = commands::with_dashes(line.into_iter());
        let done =
            self.registry().and_then(|registry| commands::run(Args::parse_from(line), registry));
        match done {
            Ok(code) => code,
            Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => {
                notices::error(&error);
                ExitCode::FAILURE
            }
        }
    }

    /// The in-tree plugins, followed by those that were added.
    fn registry(self) -> Result<Registry> {
        let mut registry = in_tree();
        for entry in self.plugins {
            let name = entry.name();
            ensure!(
                registry.get(name).is_none(),
                "a plugin named {name} already exists: App::with_plugin needs one with another Plugin::NAME"
            );
            registry.add(entry);
        }
        Ok(registry)
    }
}

/// The name under which kubectl runs the program for `kubectl plimsoll`.
const KUBECTL_PLUGIN: &str = "kubectl-plimsoll";

/// The command line of a plugin of kubectl as that of `plimsoll kubectl`.
fn as_command(mut line: Vec<OsString>) -> Vec<OsString> {
    let name = line.first().and_then(|program| Path::new(program).file_stem());
    if name.is_some_and(|name| name == KUBECTL_PLUGIN) {
        line.insert(1, "kubectl".into());
    }
    line
}

/// Whether the reader of the output has closed it, as `head` does.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        io.or_else(|| cause.downcast_ref::<serde_json::Error>()?.io_error_kind())
    });
    kinds.into_iter().any(|kind| kind == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::FeatureGates;
    use plimsoll_framework::prelude::*;

    use super::*;

    struct NodeName;

    impl Plugin for NodeName {
        const NAME: &'static str = "NodeName";
        type Args = ();
        fn new((): (), _: &FeatureGates) -> Self {
            NodeName
        }
    }

    #[test]
    fn a_plugin_with_the_name_of_another_is_refused() {
        let app = App::new().with_plugin(Entry::of::<NodeName>().done());
        let error = app.registry().expect_err("there is one in-tree").to_string();
        assert!(error.starts_with("a plugin named NodeName already exists"), "{error}");
    }
}
