//! Deliberate differences.

use serde::Deserialize;

/// One decision that deliberately differs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The name of the case.
    pub case: String,
    /// The pod.
    pub pod: String,
    /// Why it differs.
    pub reason: String,
}

/// All deliberate differences, from `known.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// In the order of the file.
    #[serde(default)]
    pub difference: Vec<Difference>,
}

impl Known {
    /// Loads the list of the project.
    ///
    /// # Panics
    /// If the file is broken.
    pub fn load() -> Self {
        toml::from_str(include_str!("../known.toml")).expect("known.toml has the form it describes")
    }

    /// Whether this decision is known to differ.
    pub fn contains(&self, case: &str, pod: &str) -> bool {
        self.difference.iter().any(|known| known.case == case && known.pod == pod)
    }
}
