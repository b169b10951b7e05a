//! What an evaluation may cost, and how long it may take.

use std::sync::Arc;

use regex::Regex;

use crate::error::Fault;
use crate::functions::regexes;
use crate::value::Value;

/// The cost at which an evaluation is cancelled, for each device. As in the API of
/// resource.k8s.io, CELSelectorExpressionMaxCost.
pub const MAX_COST: u64 = 1_000_000;
/// How many steps, of some nanoseconds each, an evaluation may take apart from what it costs. cel-go
/// has no such limit: its cost does not count the elements of nested lists, which double in number
/// at a constant cost, nor the length of texts whose size is asked for.
const MAX_STEPS: u64 = 10_000_000;
/// The steps for calls of constants when an expression is compiled: what takes longer is left to
/// the evaluation.
const MAX_STEPS_OF_CONSTANTS: u64 = 10_000;
/// The steps for a value that is kept, so that all values together take some ten megabytes.
const STEPS_OF_VALUE: usize = 8;
/// The bytes of text that are read in a step.
const BYTES_READ: usize = 64;
/// The bytes of text that are written in a step.
const BYTES_WRITTEN: usize = 4;
/// The steps for compiling a regular expression that is no constant.
const STEPS_OF_REGEX: usize = 50_000;

/// What an evaluation has used.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    cost: u64,
    steps: u64,
    /// The last regular expression that was no constant, since loops use one again and again.
    regex: Option<(Arc<str>, Regex)>,
}

impl Budget {
    /// The budget for a call of constants.
    pub(crate) fn of_constants() -> Self {
        Self { steps: MAX_STEPS - MAX_STEPS_OF_CONSTANTS, ..Self::default() }
    }

    /// The cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Adds to the cost.
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), Fault> {
        self.cost = self.cost.saturating_add(cost);
        if MAX_COST < self.cost {
            return Err(Fault::cancelled("operation cancelled: actual cost limit exceeded"));
        }
        Ok(())
    }

    /// Counts a value that is looked at.
    pub(crate) fn step(&mut self) -> Result<(), Fault> {
        self.steps(1)
    }

    /// Counts values that are looked at.
    pub(crate) fn steps(&mut self, steps: usize) -> Result<(), Fault> {
        self.steps = self.steps.saturating_add(u64::try_from(steps).unwrap_or(u64::MAX));
        if MAX_STEPS < self.steps {
            return Err(Fault::cancelled("operation cancelled: too many values"));
        }
        Ok(())
    }

    /// Counts values that are kept.
    pub(crate) fn keep(&mut self, values: usize) -> Result<(), Fault> {
        self.steps(values.saturating_mul(STEPS_OF_VALUE))
    }

    /// Counts the bytes of a text that is written.
    pub(crate) fn write(&mut self, bytes: usize) -> Result<(), Fault> {
        self.steps(bytes / BYTES_WRITTEN)
    }

    /// Counts the texts among arguments, which functions read as a whole.
    pub(crate) fn read(&mut self, args: &[&Value]) -> Result<(), Fault> {
        let length = |value: &Value| match value {
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        self.steps(args.iter().map(|arg| length(arg)).sum::<usize>() / BYTES_READ)
    }

    /// A regular expression; the inner error says what is wrong with it.
    pub(crate) fn regex(&mut self, pattern: &Arc<str>) -> Result<Result<&Regex, String>, Fault> {
        let known = matches!(&self.regex, Some((known, _)) if known == pattern);
        if !known {
            self.steps(STEPS_OF_REGEX)?;
            match regexes::compile(pattern) {
                Ok(regex) => self.regex = Some((pattern.clone(), regex)),
                Err(why) => return Ok(Err(why)),
            }
        }
        let (_, regex) = self.regex.as_ref().expect("it was just compiled, or is the last one");
        Ok(Ok(regex))
    }
}
