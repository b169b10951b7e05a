//! The args of plugins in a configuration: their faults and their defaults.
//!
//! A plugin says in [`Plugin::validate`] which args are valid. The code that reads configurations does not know the
//! types of args. It uses the [`ArgsForm`] in the plugin's entry, and adds file and line to each [`ArgsFault`].

mod faults;
pub mod shape;

use serde::Serialize;
use serde_json::Value;

pub use self::faults::{ArgsFault, ArgsFaults, ArgsField, messages};
use crate::plugin::{FeatureGates, Plugin};

/// Validates and completes the args of one plugin, without their type.
#[derive(Clone, Copy, Debug)]
pub struct ArgsForm {
    validate: fn(&Value, &FeatureGates) -> Vec<ArgsFault>,
    shown: Option<ArgsWriter>,
}

/// Writes args with their defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgsWriter {
    decode: fn(&Value) -> Result<Value, ArgsFault>,
    complete: fn(Option<&Value>, &FeatureGates) -> Result<Value, ArgsFault>,
}

impl ArgsWriter {
    pub(crate) fn of<P: Plugin<Args: Serialize>>() -> Self {
        ArgsWriter {
            decode: |args| Ok(written(&parse::<P>(Some(args))?)),
            complete: |args, gates| {
                let mut args = parse::<P>(args)?;
                P::complete(&mut args, gates);
                Ok(written(&args))
            },
        }
    }
}

impl ArgsForm {
    pub(crate) fn of<P: Plugin>(shown: Option<ArgsWriter>) -> Self {
        let validate = |args: &Value, gates: &FeatureGates| match completed::<P>(Some(args), gates)
        {
            Ok(args) => faults::<P>(&args, gates),
            Err(fault) => vec![fault],
        };
        ArgsForm { validate, shown }
    }

    /// The faults of `args`: one if they cannot be parsed, else all that the plugin finds.
    pub fn validate(&self, args: &Value, gates: &FeatureGates) -> Vec<ArgsFault> {
        (self.validate)(args, gates)
    }

    /// Whether a configuration shows the args with all defaults, rather than as given
    /// ([`Builder::shows_args`](crate::registry::Builder::shows_args)).
    pub fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// The args as their type writes them, before [`Plugin::complete`]. `None` if they are not
    /// [shown](Self::is_shown).
    pub fn decode(&self, args: &Value) -> Option<Result<Value, ArgsFault>> {
        self.shown.map(|shown| (shown.decode)(args))
    }

    /// The args with all defaults; the default args if none are given. `None` if they are not
    /// [shown](Self::is_shown).
    pub fn complete(
        &self,
        args: Option<&Value>,
        gates: &FeatureGates,
    ) -> Option<Result<Value, ArgsFault>> {
        self.shown.map(|shown| (shown.complete)(args, gates))
    }
}

/// The args of a plugin with all defaults, or the first fault if they are not valid.
pub(crate) fn valid<P: Plugin>(
    args: Option<&Value>,
    gates: &FeatureGates,
) -> Result<P::Args, ArgsFault> {
    let args = completed::<P>(args, gates)?;
    match faults::<P>(&args, gates).into_iter().next() {
        Some(fault) => Err(fault),
        None => Ok(args),
    }
}

fn completed<P: Plugin>(args: Option<&Value>, gates: &FeatureGates) -> Result<P::Args, ArgsFault> {
    let mut args = parse::<P>(args)?;
    P::complete(&mut args, gates);
    Ok(args)
}

fn faults<P: Plugin>(args: &P::Args, gates: &FeatureGates) -> Vec<ArgsFault> {
    let mut faults = ArgsFaults::default();
    P::validate(args, gates, &mut faults);
    faults.into_vec()
}

fn parse<P: Plugin>(args: Option<&Value>) -> Result<P::Args, ArgsFault> {
    let Some(args) = args else { return Ok(P::Args::default()) };
    serde_path_to_error::deserialize(args).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { String::new() } else { path };
        ArgsFault { field, message: error.into_inner().to_string() }
    })
}

fn written(args: &impl Serialize) -> Value {
    serde_json::to_value(args).expect("args are plain data")
}
