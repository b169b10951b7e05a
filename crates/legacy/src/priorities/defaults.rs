//! The default priorities of releases.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::priorities::{ArgsError, Entry, OldRelease, Weighted, of_policy};

/// The default weight of a required affinity term of another pod (`hardPodAffinitySymmetricWeight`).
pub(crate) const HARD_WEIGHT: i32 = 1;

/// Those of 1.5 with their weights. As in defaults.go.
const OF_1_5: [(&str, i64); 7] = [
    ("SelectorSpreadPriority", 1),
    ("InterPodAffinityPriority", 1),
    ("LeastRequestedPriority", 1),
    ("BalancedResourceAllocation", 1),
    ("NodePreferAvoidPodsPriority", 10_000),
    ("NodeAffinityPriority", 1),
    ("TaintTolerationPriority", 1),
];
/// What 1.12 added to them.
const SINCE_1_12: (&str, i64) = ("ImageLocalityPriority", 1);

/// The default priorities of a release with their weights; as in register_priorities.go of 1.16, whose
/// EvenPodsSpreadPriority was behind a gate that was off. `args` are those of plugins by name, as in
/// [`of_policy`].
pub fn defaults(
    args: &BTreeMap<String, Value>,
    release: OldRelease,
) -> Result<Vec<Weighted>, ArgsError> {
    let later = match release {
        OldRelease::V1_5 => None,
        OldRelease::Described | OldRelease::V1_16 => Some(SINCE_1_12),
    };
    let all = OF_1_5.into_iter().chain(later);
    of_policy(all.map(|(name, weight)| Entry { name, weight, argument: None }), args, release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_were_no_matter_in_1_5() {
        let names = |release| -> Vec<String> {
            let defaults = defaults(&BTreeMap::new(), release).expect("they need no args");
            defaults.into_iter().map(|one| one.name).collect()
        };
        let (old, new) = (names(OldRelease::V1_5), names(OldRelease::V1_16));
        assert_eq!((old.len(), new.len()), (7, 8));
        assert_eq!(new[..7], old);
        assert_eq!(new[7], "ImageLocalityPriority");
    }
}
