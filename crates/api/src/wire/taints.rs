//! Taints and tolerations on the wire.

use serde::Deserialize;

use super::error::{Result, WireError};
use super::primitive::given;
use crate::{Effect, Str, Taint, Toleration};

const EFFECTS: [Effect; 3] = [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute];
const NO_COMPARISON: &str =
    ": Lt and Gt need the feature gate TaintTolerationComparisonOperators, which is alpha";

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
        let key = given(self.key)
            .ok_or_else(|| WireError::required("key", "a taint is told by its key"))?;
        let effect = effect(given(self.effect))?.ok_or_else(|| {
            WireError::required("effect", "say what the taint does, such as NoSchedule")
        })?;
        Ok(Taint { key, value: self.value.unwrap_or_default(), effect })
    }
}

impl WireToleration {
    /// As in validation.go, ValidateTolerations.
    pub(super) fn take(self) -> Result<Toleration> {
        let key = given(self.key);
        let operator = given(self.operator).unwrap_or(Str::const_new("Equal"));
        let value = self.value.unwrap_or_default();
        let value = match operator.as_str() {
            "Equal" if key.is_none() => {
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
            other => {
                let mut error = WireError::unsupported("operator", other, &["Equal", "Exists"]);
                if matches!(other, "Lt" | "Gt") {
                    error.message.push_str(NO_COMPARISON);
                }
                return Err(error);
            }
        };
        Ok(Toleration { key, value, effect: effect(given(self.effect))? })
    }
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
                    r#"operator: Unsupported value: "Is": supported values: "Equal", "Exists""#,
                ),
                (
                    r#"{"key":"a","operator":"Gt","value":"3"}"#,
                    r#"operator: Unsupported value: "Gt": supported values: "Equal", "Exists": Lt and Gt need the feature gate TaintTolerationComparisonOperators, which is alpha"#,
                ),
                (
                    r#"{"key":"a","effect":"Never"}"#,
                    r#"effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
                ),
            ],
            |toleration| {
                let key = toleration.key.as_deref().unwrap_or("every key");
                let value = toleration.value.map(|value| format!(" = {value}"));
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
                (r#"{"effect":"NoSchedule"}"#, "key: Required value: a taint is told by its key"),
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
