//! Selectors of devices: CEL expressions as kube-scheduler 1.36 compiles and evaluates them. The same language picks
//! pods ([`PodExpression`]).
//!
//! ```
//! use plimsoll_cel::{AttributeValue, Device, Expression};
//!
//! let expression = Expression::compile(r#"device.attributes["gpu.example.com"].model == "A100""#)?;
//! let model = AttributeValue::String("A100".to_owned());
//! let device = Device::new("gpu.example.com", false, [("model", model)], []);
//! assert_eq!(expression.matches(&device), Ok(true));
//! # Ok::<(), plimsoll_cel::CompileError>(())
//! ```
//!
//! # What is here, and what is not
//!
//! The language and its environment are those of cel-go with the libraries that Kubernetes 1.36 adds,
//! each with all its functions (`overloads.txt` lists them): the same types, values, errors and costs.
//! Everything, the parser included, is in this crate; from others come regular expressions, semantic
//! versions and quantities. `docs/decisions/0017-cel-of-our-own.md` says why.
//!
//! The way of an expression is `lexer`, `parser` with `macros`, `checker` with `types` and
//! `overloads`, `validators`, `plan`, `estimate`, `eval` with `folds`, `cost` and `budget`.
//!
//! These differ from cel-go, and no device that the API server accepts makes them matter often:
//!
//! * An expression nests at most 250 levels, as there, and its tree has at most 400: there the second is
//!   unlimited. An evaluation ends after ten million steps, whatever it costs: there a list that holds
//!   itself twice, again and again, ends only with the memory.
//! * Messages (`google.protobuf.Duration{}`) cannot be written, and time zones other than UTC only as
//!   offsets.
//! * Keys of maps are iterated over in their order; there the order is random.
//! * After a syntax error nothing else is reported, and the words of such an error can differ.
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

mod ast;
mod budget;
mod checker;
mod cost;
mod device;
mod error;
mod estimate;
mod eval;
mod folds;
mod functions;
mod lexer;
mod macros;
mod overloads;
mod parser;
mod plan;
mod pod;
mod source;
mod types;
mod validators;
mod value;

pub use crate::budget::MAX_COST;
pub use crate::device::{AttributeValue, Attributes, Device};
pub use crate::error::{CompileError, EvaluationError};
pub use crate::eval::DomainPath;
pub use crate::pod::{DecidedWith, PodExpression};

use crate::eval::Evaluation;
use crate::plan::Plan;
use crate::types::Type;
use crate::value::Value;

/// A compiled expression that selects devices.
#[derive(Debug)]
pub struct Expression {
    plan: Plan,
    highest_cost: u64,
}

impl Expression {
    /// Compiles an expression, whose value must be a truth value or that of an attribute. Attributes are no lists, so no
    /// macro iterates over one: this is what 1.36 does by default.
    ///
    /// The error has the text that kube-scheduler shows after `CEL compile error: `. The caller limits
    /// the length of the source; the API server accepts 10 KiB. The time is proportional to it, apart
    /// from inputs made to be slow, which nesting and the size of types limit.
    pub fn compile(source: &str) -> Result<Self, CompileError> {
        Self::compile_with(source, Attributes::Single)
    }

    /// The same where attributes may be lists, if `attributes` says so.
    pub fn compile_with(source: &str, attributes: Attributes) -> Result<Self, CompileError> {
        let failed = |mut issues: Vec<source::Issue>| {
            CompileError(format!("compilation failed: {}", source::describe(source, &mut issues)))
        };
        let parsed = parser::parse(source).map_err(|issue| failed(vec![issue]))?;
        let checked = checker::check(&parsed, attributes).map_err(failed)?;
        let issues = validators::validate(&parsed.root, &checked);
        if !issues.is_empty() {
            return Err(failed(issues));
        }
        let of = &checked.types[parsed.root.id];
        let may_be_true = match of {
            Type::Bool | Type::Any => true,
            Type::Dyn => attributes == Attributes::Lists,
            _ => false,
        };
        if !may_be_true {
            let message = format!("must evaluate to bool or the unknown type, not {of}");
            return Err(CompileError(message));
        }
        let plan = plan::plan(&parsed.root, &checked)
            .map_err(|why| CompileError(format!("program instantiation failed: {why}")))?;
        let highest_cost = estimate::highest_cost(&parsed.root, &checked);
        Ok(Self { plan, highest_cost })
    }

    /// The most that it may cost for any device, in units of cel-go, as the API server estimates it. It is `u64::MAX` if
    /// there is no bound. The API server refuses a selector whose cost is above [`MAX_COST`].
    pub fn highest_cost(&self) -> u64 {
        self.highest_cost
    }

    /// The attributes and capacities that it reads beside the driver and whether the device allows multiple
    /// allocations, sorted. `None` if it may read any. Two devices that are equal in these get the same result, unless an
    /// attribute has no usable value ([`AttributeValue::Unsupported`], or a version that is not well formed): that makes
    /// every expression fail.
    pub fn reads(&self) -> Option<&[DomainPath]> {
        self.plan.reads.as_deref()
    }

    /// Whether the expression selects a device.
    ///
    /// The error has the text that kube-scheduler shows after `CEL runtime error: `. An evaluation that
    /// costs more than 1,000,000 (in units of cel-go, for which a step of a loop is a few) is one, too.
    pub fn matches(&self, device: &Device) -> Result<bool, EvaluationError> {
        if let Some(fault) = device.fault() {
            return Err(EvaluationError(fault.to_owned()));
        }
        let mut evaluation = Evaluation::new(device, self.plan.slots);
        match evaluation.evaluate(&self.plan.root) {
            Ok(value) => truth(&value).map_err(|why| {
                let name = value.type_name();
                let message =
                    format!("CEL result of type {name} could not be converted to bool: {why}");
                EvaluationError(message)
            }),
            Err(fault) => Err(EvaluationError(fault.into_text())),
        }
    }
}

/// The truth value that a result is, or why it is none. Each type of cel-go has its own words.
fn truth(value: &Value) -> Result<bool, String> {
    let name = value.type_name();
    Err(match value {
        Value::Bool(value) => return Ok(*value),
        Value::Optional(Some(value)) => return truth(value),
        Value::Optional(None) => "optional.none() dereference".to_owned(),
        Value::String(_) => "unsupported native conversion from string to 'bool'".to_owned(),
        Value::Int(_) | Value::Uint(_) => {
            format!("unsupported type conversion from '{name}' to bool")
        }
        Value::List(_) | Value::Map(_) | Value::Device => {
            format!("type conversion error from {name} to 'bool'")
        }
        Value::Double(_) => "type conversion error from Double to 'bool'".to_owned(),
        Value::Bytes(_) => "type conversion error from Bytes to 'bool'".to_owned(),
        Value::Type(_) => "type conversion not supported for 'type'".to_owned(),
        _ => {
            let short = name.rsplit('.').next().unwrap_or(name);
            format!("type conversion error from '{short}' to 'bool'")
        }
    })
}
