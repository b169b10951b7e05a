//! Taints of nodes, and the tolerations of pods.

use crate::Str;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// They are not placed on the node.
    NoSchedule,
    /// They are placed elsewhere if possible.
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// The key of the taint.
    pub key: Str,
    /// Its value; often empty.
    pub value: Str,
    /// What it does.
    pub effect: Effect,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// The key it tolerates; `None` tolerates every key.
    pub key: Option<Str>,
    /// The value it tolerates; `None` (operator `Exists`) tolerates every value.
    pub value: Option<Str>,
    /// The effect it tolerates; `None` tolerates every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether this toleration tolerates `taint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

/// The first of `taints` that `matters` and that none of `tolerations` tolerates.
pub fn untolerated<'t>(
    taints: &'t [Taint],
    tolerations: &[Toleration],
    matters: impl Fn(Effect) -> bool,
) -> Option<&'t Taint> {
    taints
        .iter()
        .filter(|taint| matters(taint.effect))
        .find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_toleration_leaves_open_it_tolerates() {
        let taint = Taint { key: "gpu".into(), value: "a".into(), effect: Effect::NoExecute };
        let toleration = |key: Option<&str>, value: Option<&str>, effect| Toleration {
            key: key.map(Str::from),
            value: value.map(Str::from),
            effect,
        };
        assert!(toleration(None, None, None).tolerates(&taint));
        assert!(toleration(Some("gpu"), None, Some(Effect::NoExecute)).tolerates(&taint));
        assert!(toleration(Some("gpu"), Some("a"), None).tolerates(&taint));
        assert!(!toleration(Some("gpu"), Some(""), None).tolerates(&taint));
        assert!(!toleration(Some("gpu"), None, Some(Effect::NoSchedule)).tolerates(&taint));
        assert!(!toleration(Some("cpu"), None, None).tolerates(&taint));
    }

    #[test]
    fn only_effects_that_matter_are_looked_at() {
        let taints = [
            Taint { key: "a".into(), value: "".into(), effect: Effect::PreferNoSchedule },
            Taint { key: "b".into(), value: "".into(), effect: Effect::NoSchedule },
        ];
        let found = untolerated(&taints, &[], |effect| effect != Effect::PreferNoSchedule);
        assert_eq!(found.map(|taint| taint.key.as_str()), Some("b"));
    }
}
