//! A configuration that comes with a question, in place of that of this process.

use plimsoll_config::GivenGates;
use plimsoll_engine::Options;
use plimsoll_kube::serve::AdviceError;
use serde_json::Value;

use super::{Present, failed};
use crate::faults::Faults;
use crate::input::Source;
use crate::options::Setup;

/// How errors name it. A configuration has no file here.
const NAME: &str = "configuration";

/// What would decide with a configuration that came with a question.
pub(super) struct WithConfiguration {
    pub(super) present: Present,
    /// What has no effect.
    pub(super) warnings: Vec<String>,
}

impl Present {
    /// What would decide in this process if it had the `given` configuration: the text of a file, or the same as an object. It is
    /// validated as a file is. Files that it names are not read.
    pub(super) fn with_configuration(
        &self,
        given: &Value,
    ) -> Result<WithConfiguration, AdviceError> {
        let text = match given {
            Value::String(text) => text.clone(),
            Value::Object(_) => given.to_string(),
            _ => {
                return Err(wrong(
                    "write the text of a configuration file, or what it holds as an object",
                ));
            }
        };
        if !self.rankings.is_empty() {
            return Err(wrong(
                "this instance ranks nodes on the scale of 10 (--scale 10), and says what another configuration would do \
                 only on files: plimsoll what-if -f FILE --with-config FILE",
            ));
        }
        let gates =
            GivenGates { plugins: self.gates.clone(), ..GivenGates::of(self.gates.release()) };
        let source = Source { name: NAME.to_owned(), text };
        let read = Setup::of_source(&source, &self.registry, &gates);
        let (setup, warnings) = read.map_err(|error| invalid(&error))?;
        let canaries = self.canaries.as_ref().map(|canaries| canaries.under(&setup));
        let canaries = canaries.transpose().map_err(|error| {
            wrong(&format!("{error}: add this profile, since a rule of this instance names it"))
        })?;
        let options = Options { backoff: setup.options().backoff, ..self.options };
        let present = Present {
            registry: self.registry.clone(),
            configuration: setup.configuration,
            gates: setup.gates,
            rankings: Vec::new(),
            canaries,
            options,
        };
        self.check_kinds(&present)?;
        let warnings = warnings.iter().map(ToString::to_string).collect();
        Ok(WithConfiguration { present, warnings })
    }

    /// An error if the `other` reads objects of which this process knows nothing: without them it would decide otherwise than
    /// it does in a process of its own.
    fn check_kinds(&self, other: &Present) -> Result<(), AdviceError> {
        let watched = self.deciders().scheduler().map_err(failed)?.kinds();
        let read = other.deciders().scheduler().map_err(failed)?.kinds();
        let missing = read.iter().filter(|kind| !watched.contains(kind));
        let missing: Vec<&str> = missing.map(|kind| kind.as_str()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(wrong(&format!(
            "its plugins read kinds of objects that this instance does not watch: {}; ask about files: plimsoll what-if -f FILE \
             --with-config FILE",
            missing.join(", ")
        )))
    }
}

/// What is wrong with the configuration: at most as many faults as a terminal shows.
fn invalid(error: &anyhow::Error) -> AdviceError {
    let Some(faults) = error.downcast_ref::<Faults>() else {
        return AdviceError::Wrong(format!("{error:#}"));
    };
    let mut text = faults.shown().join("\n");
    if 0 < faults.hidden() {
        text = format!("{text}\nand {} more", faults.hidden());
    }
    AdviceError::Wrong(text)
}

fn wrong(why: &str) -> AdviceError {
    AdviceError::Wrong(format!("{NAME}: {why}"))
}
