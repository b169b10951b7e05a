//! Expressions that pick pods, with the same language and other variables.

use plimsoll_api::{Pod, Str};

use crate::checker;
use crate::device::Device;
use crate::error::{CompileError, EvaluationError, Fault};
use crate::eval::{Evaluation, Slot};
use crate::parser;
use crate::plan::{self, Plan};
use crate::source;
use crate::types::Type;
use crate::validators;
use crate::value::{Map, Value};

/// The variables in the order of their slots. A test holds `variables` to it.
const VARIABLES: [&str; 7] =
    ["schedulerName", "podNamespace", "podName", "podGroup", "labels", "priority", "share"];

/// With which other pods a pod is decided. They must all be picked alike, so an expression can only read what they have in
/// common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedWith {
    /// It is decided by itself.
    Nobody,
    /// With the pods of its group.
    Group,
    /// With the pods of all groups of the tree that its group is part of.
    Tree,
}

impl DecidedWith {
    /// Why a variable cannot be read, if it may differ between these pods.
    fn hides(self, variable: &str) -> Option<String> {
        let others = match (self, variable) {
            (DecidedWith::Group, "podName" | "labels" | "priority") => "a group",
            (DecidedWith::Tree, "podName" | "labels" | "priority" | "podGroup" | "share") => {
                "a tree of groups"
            }
            _ => return None,
        };
        Some(format!("{variable} may differ between the pods of {others}"))
    }
}

/// A compiled expression that picks pods.
///
/// | variable | type | |
/// |---|---|---|
/// | `schedulerName` | string | `spec.schedulerName` of the pod |
/// | `podNamespace`, `podName` | string | |
/// | `podGroup` | string | `spec.schedulingGroup.podGroupName`; empty without a group |
/// | `labels` | map of string to string | |
/// | `priority` | int | `spec.priority` |
/// | `share` | double | a number from 0 to less than 1 that belongs to the pod and never changes |
///
/// ```
/// use plimsoll_cel::PodExpression;
/// use plimsoll_api::{Pod, PodKey};
///
/// let expression = PodExpression::compile(r#"podNamespace == "ml" && share < 0.5"#)?;
/// let pod = Pod { key: PodKey::new("ml", "train-0"), ..Pod::default() };
/// assert_eq!(expression.matches(&pod, 0.25), Ok(true));
/// assert_eq!(expression.matches(&pod, 0.75), Ok(false));
/// # Ok::<(), plimsoll_cel::CompileError>(())
/// ```
#[derive(Debug)]
pub struct PodExpression {
    plan: Plan,
    /// The evaluator wants a device. No expression reads it.
    nothing: Device,
}

impl PodExpression {
    /// Compiles an expression, whose value must be a truth value.
    pub fn compile(source: &str) -> Result<Self, CompileError> {
        let failed = |mut issues: Vec<source::Issue>| {
            CompileError(format!("compilation failed: {}", source::describe(source, &mut issues)))
        };
        let types = [
            Type::String,
            Type::String,
            Type::String,
            Type::String,
            Type::map(Type::String, Type::String),
            Type::Int,
            Type::Double,
        ];
        let names = VARIABLES.into_iter().map(str::to_owned);
        let parsed = parser::parse(source).map_err(|issue| failed(vec![issue]))?;
        let checked = checker::check_with(&parsed, names.zip(types).collect()).map_err(failed)?;
        let issues = validators::validate(&parsed.root, &checked);
        if !issues.is_empty() {
            return Err(failed(issues));
        }
        let of = &checked.types[parsed.root.id];
        if !matches!(of, Type::Bool) {
            return Err(CompileError(format!("must evaluate to bool, not {of}")));
        }
        let plan = plan::plan_with(&parsed.root, &checked, &VARIABLES)
            .map_err(|why| CompileError(format!("program instantiation failed: {why}")))?;
        Ok(PodExpression { plan, nothing: Device::new("", false, [], []) })
    }

    /// Whether it picks a pod that is decided by itself; `share` is its number from 0 to less than 1. An expression fails if it
    /// reads a label that the pod does not have, for example, unless the rest decides: `has(labels.team) && labels.team == "ml"`.
    pub fn matches(&self, pod: &Pod, share: f64) -> Result<bool, EvaluationError> {
        self.matches_with(pod, share, DecidedWith::Nobody)
    }

    /// Whether it picks a pod that is decided with others. It also fails if it reads what may differ between them.
    pub fn matches_with(
        &self,
        pod: &Pod,
        share: f64,
        with: DecidedWith,
    ) -> Result<bool, EvaluationError> {
        let mut evaluation = Evaluation::new(&self.nothing, self.plan.slots);
        let variables = VARIABLES.into_iter().zip(variables(pod, share));
        for (slot, (name, value)) in evaluation.slots.iter_mut().zip(variables) {
            *slot = Slot::Value(with.hides(name).map_or(Ok(value), |why| Err(Fault::text(why))));
        }
        match evaluation.evaluate(&self.plan.root) {
            Ok(Value::Bool(matches)) => Ok(matches),
            Ok(_) => Err(EvaluationError("the result is no bool".to_owned())),
            Err(fault) => Err(EvaluationError(fault.into_text())),
        }
    }
}

/// The values of the variables of a pod.
fn variables(pod: &Pod, share: f64) -> [Value; VARIABLES.len()] {
    let text = |text: &Str| Value::string(text);
    let labels = pod.labels.iter().map(|(key, value)| (text(key), text(value)));
    let labels = Map::of_texts(labels.collect());
    [
        text(&pod.scheduler_name),
        text(&pod.key.namespace),
        text(&pod.key.name),
        text(pod.scheduling_group.as_ref().unwrap_or(&Str::default())),
        Value::Map(labels.into()),
        Value::Int(i64::from(pod.priority)),
        Value::Double(share),
    ]
}

#[cfg(test)]
mod tests {
    use plimsoll_api::PodKey;

    use super::*;

    fn pod() -> Pod {
        let mut pod = Pod { key: PodKey::new("ml", "train-0"), ..Pod::default() };
        pod.labels = [("team", "vision"), ("tier", "2")].into_iter().collect();
        pod.scheduler_name = "default-scheduler".into();
        pod.priority = 7;
        pod
    }

    fn check(expression: &str, expected: Result<bool, &str>) {
        check_of(&pod(), DecidedWith::Nobody, expression, expected);
    }

    fn check_of(pod: &Pod, with: DecidedWith, expression: &str, expected: Result<bool, &str>) {
        let found = match PodExpression::compile(expression) {
            Ok(compiled) => {
                compiled.matches_with(pod, 0.25, with).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match (found, expected) {
            (Err(found), Err(part)) => assert!(found.contains(part), "{expression}: {found}"),
            (found, expected) => {
                assert_eq!(found, expected.map_err(str::to_owned), "{expression}");
            }
        }
    }

    #[test]
    fn every_variable_can_be_read() {
        check(r#"podNamespace == "ml" && podName.startsWith("train-")"#, Ok(true));
        check(r#"schedulerName == "default-scheduler""#, Ok(true));
        check(r#"labels.team == "vision" && labels["tier"] in ["1", "2"]"#, Ok(true));
        check("priority > 6 && share >= 0.25", Ok(true));
        check("share < 0.25", Ok(false));
        check(r#"has(labels.owner) && labels.owner == "me""#, Ok(false));
        check(r#"labels.exists(key, key.startsWith("te"))"#, Ok(true));
        check(r#"podGroup == """#, Ok(true));
    }

    #[test]
    fn of_a_member_only_what_all_members_have_is_read() {
        let mut pod = pod();
        pod.scheduling_group = Some("train".into());
        let group = |expression, expected| {
            check_of(&pod, DecidedWith::Group, expression, expected);
        };
        group(r#"podNamespace == "ml" && podGroup == "train" && share < 0.5"#, Ok(true));
        group(r#"schedulerName == "default-scheduler""#, Ok(true));
        group(r#"podName == "train-0""#, Err("podName may differ between the pods of a group"));
        group(r#"labels.team == "vision""#, Err("labels may differ"));
        group("has(labels.team)", Err("labels may differ"));
        group("priority > 6", Err("priority may differ"));
        group(r#"podName == "train-0" || podNamespace == "ml""#, Ok(true));
        let tree = |expression, expected| check_of(&pod, DecidedWith::Tree, expression, expected);
        tree(r#"podNamespace == "ml""#, Ok(true));
        tree("share < 0.5", Err("share may differ between the pods of a tree of groups"));
        tree(r#"podGroup == "train""#, Err("podGroup may differ"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        check("labels.owner == \"me\"", Err("no such key"));
        check("labels.owner == \"me\" || share < 1.0", Ok(true));
        check("device.driver == \"x\"", Err("undeclared reference to 'device'"));
        check("podNamespace", Err("must evaluate to bool, not string"));
        check("podNamespace ==", Err("Syntax error"));
        check("share < 1", Ok(true));
        check("share + 1 < 2.0", Err("no matching overload"));
    }
}
