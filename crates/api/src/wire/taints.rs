//! Taints and tolerations on the wire.

use serde::Deserialize;

use super::error::{Result, WireError};
use super::primitive::given;
use crate::taints::decimal_integer;
use crate::{Comparison, Effect, Str, Taint, Toleration};

const EFFECTS: [Effect; 3] = [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute];
pub(super) const NO_INTEGER: &str = "for 'Gt', 'Lt' operators, the value must be a 64-bit integer without a plus sign or leading zeros";
const OPERATORS: [&str; 4] = ["Equal", "Exists", "Gt", "Lt"];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireTaint {
    key: Option<Str>,
    value: Option<Str>,
    effect: Option<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireToleration {
    key: Option<Str>,
    operator: Option<Str>,
    value: Option<Str>,
    effect: Option<Str>,
}

impl WireTaint {
    /// As in validation.go, validateNodeTaints.
    pub(super) fn take(self) -> Result<Taint> {
        let key =
            given(self.key).ok_or_else(|| WireError::required("key", "a taint needs a key"))?;
        let effect = effect(given(self.effect))?.ok_or_else(|| {
            WireError::required("effect", "say what the taint does, such as NoSchedule")
        })?;
        Ok(Taint { key, value: self.value.unwrap_or_default(), effect })
    }
}

impl WireToleration {
    /// As in validation.go, ValidateTolerations, with the feature gate `TaintTolerationComparisonOperators` on.
    /// Whether the gate is on is for the plugins to check.
    pub(super) fn take(self) -> Result<Toleration> {
        let key = given(self.key);
        let operator = given(self.operator).unwrap_or(Str::const_new("Equal"));
        let value = self.value.unwrap_or_default();
        let mut comparison = None;
        let value = match operator.as_str() {
            "Equal" | "Gt" | "Lt" if key.is_none() => {
                return Err(WireError::invalid(
                    "operator",
                    &operator,
                    "operator must be Exists when `key` is empty, which means \"match all values \
                     and all keys\"",
                ));
            }
            "Equal" => Some(value),
            "Exists" if value.is_empty() => None,
            "Exists" => {
                return Err(WireError::invalid(
                    "value",
                    value,
                    "value must be empty when `operator` is 'Exists'",
                ));
            }
            "Gt" => {
                comparison = Some(Comparison::Gt(bound(&value)?));
                None
            }
            "Lt" => {
                comparison = Some(Comparison::Lt(bound(&value)?));
                None
            }
            other => return Err(WireError::unsupported("operator", other, &OPERATORS)),
        };
        Ok(Toleration { key, value, effect: effect(given(self.effect))?, comparison })
    }
}

/// The number that `Gt` and `Lt` compare with.
fn bound(value: &str) -> Result<i64> {
    decimal_integer(value).ok_or_else(|| WireError::invalid("value", value, NO_INTEGER))
}

fn effect(word: Option<Str>) -> Result<Option<Effect>> {
    let Some(word) = word else { return Ok(None) };
    match EFFECTS.into_iter().find(|effect| effect.as_str() == word) {
        Some(effect) => Ok(Some(effect)),
        None => Err(WireError::unsupported("effect", &word, &EFFECTS.map(Effect::as_str))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::table;

    #[test]
    fn a_toleration_is_read_as_the_api_server_validates_it() {
        table(
            WireToleration::take,
            &[
                (r#"{"key":"a","value":"b"}"#, "a = b on every effect"),
                (r#"{"key":"a","operator":"Equal","effect":""}"#, "a =  on every effect"),
                (r#"{"key":"a","operator":"Exists","effect":"NoExecute"}"#, "a on NoExecute"),
                (r#"{"operator":"Exists","key":null}"#, "every key on every effect"),
                (
                    "{}",
                    r#"operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys""#,
                ),
                (
                    r#"{"key":"a","operator":"Exists","value":"b"}"#,
                    r#"value: Invalid value: "b": value must be empty when `operator` is 'Exists'"#,
                ),
                (
                    r#"{"key":"a","operator":"Is"}"#,
                    r#"operator: Unsupported value: "Is": supported values: "Equal", "Exists", "Gt", "Lt""#,
                ),
                (r#"{"key":"a","operator":"Gt","value":"3"}"#, "a Gt(3) on every effect"),
                (
                    r#"{"key":"a","operator":"Lt","value":"-3","effect":"NoExecute"}"#,
                    "a Lt(-3) on NoExecute",
                ),
                (
                    r#"{"key":"a","operator":"Lt","value":"03"}"#,
                    r#"value: Invalid value: "03": for 'Gt', 'Lt' operators, the value must be a 64-bit integer without a plus sign or leading zeros"#,
                ),
                (
                    r#"{"operator":"Lt","value":"3"}"#,
                    r#"operator: Invalid value: "Lt": operator must be Exists when `key` is empty, which means "match all values and all keys""#,
                ),
                (
                    r#"{"key":"a","effect":"Never"}"#,
                    r#"effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
                ),
            ],
            |toleration| {
                let key = toleration.key.as_deref().unwrap_or("every key");
                let comparison = toleration.comparison.map(|one| format!(" {one:?}"));
                let value = toleration.value.map(|value| format!(" = {value}")).or(comparison);
                let effect = toleration.effect.map_or("every effect", Effect::as_str);
                format!("{key}{} on {effect}", value.unwrap_or_default())
            },
        );
    }

    #[test]
    fn a_taint_needs_a_key_and_a_known_effect() {
        table(
            WireTaint::take,
            &[
                (r#"{"key":"a","value":"b","effect":"NoSchedule"}"#, "a=b:NoSchedule"),
                (r#"{"key":"a","effect":"PreferNoSchedule"}"#, "a=:PreferNoSchedule"),
                (r#"{"effect":"NoSchedule"}"#, "key: Required value: a taint needs a key"),
                (
                    r#"{"key":"a"}"#,
                    "effect: Required value: say what the taint does, such as NoSchedule",
                ),
                (
                    r#"{"key":"a","effect":"noschedule"}"#,
                    r#"effect: Unsupported value: "noschedule": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
                ),
            ],
            |taint| format!("{}={}:{}", taint.key, taint.value, taint.effect.as_str()),
        );
    }
}
