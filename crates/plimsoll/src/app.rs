//! The application: every command, with the plugins that it was given.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use plimsoll_framework::{Entry, Registry};
use plimsoll_plugins::in_tree;

use crate::args::Args;
use crate::{commands, notices};

/// A whole scheduler: all commands of `plimsoll`, with plugins from outside beside the in-tree ones.
///
/// Such a plugin can be named in every configuration, its args are validated with file, line and field, and
/// `plugins`, `config check`, `explain`, the metrics and `/configz` show it as they show an in-tree plugin. It is in
/// no profile until a configuration enables it.
#[derive(Debug, Default)]
#[must_use = "nothing happens until it runs"]
pub struct App {
    plugins: Vec<Entry>,
}

impl App {
    /// The application with the in-tree plugins alone: the program `plimsoll`.
    pub fn new() -> Self {
        App::default()
    }

    /// Adds a plugin, as `app.WithPlugin` of kube-scheduler does.
    pub fn with_plugin(mut self, entry: Entry) -> Self {
        self.plugins.push(entry);
        self
    }

    /// Does what the command line of this process says.
    ///
    /// The exit code is a failure if that fails, after a message on standard error. It is one, too, if two plugins
    /// have the same name, or one has that of an in-tree plugin.
    pub fn run(self) -> ExitCode {
        self.run_from(std::env::args_os())
    }

    /// Does what a command line says: the name of the program, and then its arguments. It ends the process where the
    /// command line is wrong or asks for help.
    ///
    /// The exit code is that of [`App::run`].
    pub fn run_from<T: Into<OsString>>(self, line: impl IntoIterator<Item = T>) -> ExitCode {
        let line = commands::with_dashes(line.into_iter().map(Into::into));
        let done =
            self.registry().and_then(|registry| commands::run(Args::parse_from(line), &registry));
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => {
                notices::error(&error);
                ExitCode::FAILURE
            }
        }
    }

    /// The in-tree plugins, and then those that were added.
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

/// Whether whoever reads the output has seen enough, as `head` has.
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
