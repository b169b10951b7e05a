//! Taints of nodes, and the tolerations of pods.

use serde::{Deserialize, Serialize};

use crate::Str;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Effect {
    /// They are not placed on the node.
    NoSchedule,
    /// They are placed on other nodes if possible.
    PreferNoSchedule,
    /// They are not placed on the node, and evicted from it.
    NoExecute,
}

impl Effect {
    /// The word Kubernetes uses for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::NoSchedule => "NoSchedule",
            Effect::PreferNoSchedule => "PreferNoSchedule",
            Effect::NoExecute => "NoExecute",
        }
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// The key of the taint.
    pub key: Str,
    /// Its value; often empty.
    pub value: Str,
    /// What it does.
    pub effect: Effect,
}

/// Whether tolerations may compare numbers: the feature gate `TaintTolerationComparisonOperators`,
/// which is off by default.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Comparisons {
    /// A toleration that compares tolerates nothing.
    #[default]
    Off,
    /// It tolerates values for which the comparison holds.
    On,
}

impl Comparisons {
    /// The name of the feature gate.
    pub const GATE: &str = "TaintTolerationComparisonOperators";

    /// The value for the state of the gate.
    pub fn from_gate(enabled: bool) -> Self {
        if enabled { Comparisons::On } else { Comparisons::Off }
    }
}

/// A number with which the value of a taint is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Comparison {
    /// The taint is greater than this.
    Gt(i64),
    /// The taint is less than this.
    Lt(i64),
}

impl Comparison {
    fn holds(self, value: &str) -> bool {
        decimal_integer(value).is_some_and(|value| match self {
            Comparison::Gt(bound) => bound < value,
            Comparison::Lt(bound) => value < bound,
        })
    }
}

/// Parses a 64-bit integer in canonical form. As in apimachinery's api/validate/content,
/// IsDecimalInteger: no plus sign, no leading zero, no negative zero.
pub fn decimal_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = match digits.as_bytes() {
        [b'0'] => text == "0",
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if is_canonical { text.parse().ok() } else { None }
}

/// A toleration of a pod. An empty one tolerates every taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// The key it tolerates; `None` tolerates every key.
    pub key: Option<Str>,
    /// The value it tolerates; `None` (operator `Exists`) tolerates every value.
    pub value: Option<Str>,
    /// The effect it tolerates; `None` tolerates every effect.
    pub effect: Option<Effect>,
    /// A comparison with the value as a number (operators `Gt` and `Lt`); `value` is `None` then.
    pub comparison: Option<Comparison>,
}

impl Toleration {
    /// Whether this toleration tolerates `taint`. As in toleration.go, ToleratesTaint: a value that is no
    /// integer is neither greater nor less.
    pub fn tolerates(&self, taint: &Taint, comparisons: Comparisons) -> bool {
        let compares = |comparison: Comparison| match comparisons {
            Comparisons::Off => false,
            Comparisons::On => comparison.holds(&taint.value),
        };
        self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.comparison.is_none_or(compares)
    }
}

/// The first of `taints` for which `matters` is true and that none of `tolerations` tolerates.
pub fn untolerated<'t>(
    taints: &'t [Taint],
    tolerations: &[Toleration],
    comparisons: Comparisons,
    matters: impl Fn(Effect) -> bool,
) -> Option<&'t Taint> {
    taints
        .iter()
        .filter(|taint| matters(taint.effect))
        .find(|taint| !tolerations.iter().any(|one| one.tolerates(taint, comparisons)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_a_toleration_omits_matches_everything() {
        let taint = Taint { key: "gpu".into(), value: "a".into(), effect: Effect::NoExecute };
        let tolerates = |key: Option<&str>, value: Option<&str>, effect| {
            let (key, value) = (key.map(Str::from), value.map(Str::from));
            let toleration = Toleration { key, value, effect, ..Toleration::default() };
            toleration.tolerates(&taint, Comparisons::Off)
        };
        assert!(tolerates(None, None, None));
        assert!(tolerates(Some("gpu"), None, Some(Effect::NoExecute)));
        assert!(tolerates(Some("gpu"), Some("a"), None));
        assert!(!tolerates(Some("gpu"), Some(""), None));
        assert!(!tolerates(Some("gpu"), None, Some(Effect::NoSchedule)));
        assert!(!tolerates(Some("cpu"), None, None));
    }

    #[test]
    fn a_comparison_holds_for_integers_and_only_if_the_gate_is_on() {
        let tolerates = |comparison, value: &str, comparisons| {
            let key = Some(Str::const_new("sla"));
            let toleration =
                Toleration { key, comparison: Some(comparison), ..Toleration::default() };
            let taint =
                Taint { key: "sla".into(), value: value.into(), effect: Effect::NoSchedule };
            toleration.tolerates(&taint, comparisons)
        };
        for (comparison, value, expected) in [
            (Comparison::Gt(950), "951", true),
            (Comparison::Gt(950), "950", false),
            (Comparison::Gt(950), "-951", false),
            (Comparison::Gt(-4), "-3", true),
            (Comparison::Lt(950), "0", true),
            (Comparison::Lt(950), "950", false),
            (Comparison::Lt(950), "high", false),
            (Comparison::Lt(950), "", false),
            (Comparison::Lt(950), "0900", false),
            (Comparison::Lt(950), "+900", false),
            (Comparison::Lt(950), "-0", false),
            (Comparison::Lt(950), "9.5", false),
            (Comparison::Gt(950), "9223372036854775808", false),
        ] {
            let on = tolerates(comparison, value, Comparisons::On);
            assert_eq!(on, expected, "{comparison:?} {value}");
            assert!(!tolerates(comparison, value, Comparisons::Off), "{comparison:?} {value}");
        }
    }

    #[test]
    fn only_effects_that_matter_are_considered() {
        let taints = [
            Taint { key: "a".into(), value: "".into(), effect: Effect::PreferNoSchedule },
            Taint { key: "b".into(), value: "".into(), effect: Effect::NoSchedule },
        ];
        let found = untolerated(&taints, &[], Comparisons::Off, |effect| {
            effect != Effect::PreferNoSchedule
        });
        assert_eq!(found.map(|taint| taint.key.as_str()), Some("b"));
    }
}
