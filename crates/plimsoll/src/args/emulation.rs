//! `--emulated-version`, as kube-scheduler has it.

use plimsoll_config::GivenGates;
use plimsoll_framework::{Release, ReleaseError};

/// The default component.
const COMPONENT: &str = "kube";

/// The release that decides.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Emulation {
    /// The release of Kubernetes whose decisions are made: 1.36 or 1.37; if not given, the one that serves
    /// the API version of the groups of pods in the files, or else the newest
    #[arg(long, value_name = "VERSION", value_parser = emulated_version)]
    pub(crate) emulated_version: Option<Release>,
}

impl Emulation {
    /// The release; the newest if none was given.
    pub(crate) fn release(self) -> Release {
        self.emulated_version.unwrap_or_default()
    }

    /// The default feature gates of the release.
    pub(crate) fn gates(self) -> GivenGates {
        GivenGates::of(self.release())
    }

    /// The flag as it can be typed again, followed by a space; empty if it was not given.
    pub(crate) fn typed(self) -> String {
        self.emulated_version.map_or_else(String::new, |it| format!("--emulated-version {it} "))
    }
}

/// Reads `1.36` or `kube=1.36`. As in compatibility/registry.go of component-base.
pub(crate) fn emulated_version(text: &str) -> Result<Release, EmulationError> {
    let (component, version) = text.split_once('=').unwrap_or((COMPONENT, text));
    if component.trim() != COMPONENT {
        let (component, version) = (component.to_owned(), version.to_owned());
        return Err(EmulationError::Component { component, version });
    }
    Ok(version.parse()?)
}

/// A text does not name a supported release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EmulationError {
    #[error("component not registered: {component}: write {COMPONENT}={version}")]
    Component { component: String, version: String },
    #[error(transparent)]
    Release(#[from] ReleaseError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_may_be_named() {
        let read = |text| emulated_version(text).map_err(|error| error.to_string());
        assert_eq!(read("1.36"), Ok(Release::V1_36));
        assert_eq!(read("kube=1.37"), Ok(Release::V1_37));
        let told = "component not registered: wardle: write kube=1.2";
        assert_eq!(read("wardle=1.2"), Err(told.to_owned()));
        let told = "emulation version 1.38 is not between [1.36, 1.37]";
        assert_eq!(read("kube=1.38"), Err(told.to_owned()));
    }
}
