//! Which version of a pod was observed, for code that writes to it.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::Str;

/// Which edition of a pod this is. No decision depends on it, and it changes often, so editions are
/// always equal: pods that differ in nothing else are equal.
#[derive(Clone, Debug, Default)]
pub struct Edition {
    /// `metadata.resourceVersion`; empty where the pod was not read from an API server.
    pub resource_version: Str,
    /// `metadata.generation`; 0 where the API server counts none for pods (before 1.33).
    pub generation: i64,
    /// What the condition `PodScheduled` says, where its status is `False`.
    pub unscheduled: Option<Box<Unscheduled>>,
}

impl PartialEq for Edition {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Edition {}

/// What a condition `PodScheduled=False` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unscheduled {
    /// Its `observedGeneration`, 0 where it has none.
    pub observed_generation: i64,
    /// A hash of reason and message: messages are long, and many pods wait with one.
    words: u64,
}

impl Unscheduled {
    /// A condition with this reason and message.
    pub fn new(observed_generation: i64, reason: &str, message: &str) -> Self {
        let mut words = DefaultHasher::new();
        (reason, message).hash(&mut words);
        Unscheduled { observed_generation, words: words.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pod;

    #[test]
    fn pods_that_differ_only_in_their_edition_are_equal() {
        let edition = Edition { resource_version: "7".into(), ..Edition::default() };
        assert_eq!(Pod { edition, ..Pod::default() }, Pod::default());
    }

    #[test]
    fn conditions_are_equal_if_all_their_fields_are() {
        let said = Unscheduled::new(1, "Unschedulable", "0/1 nodes");
        assert_eq!(said, Unscheduled::new(1, "Unschedulable", "0/1 nodes"));
        for other in [
            Unscheduled::new(2, "Unschedulable", "0/1 nodes"),
            Unscheduled::new(1, "SchedulerError", "0/1 nodes"),
            Unscheduled::new(1, "Unschedulable", "0/2 nodes"),
            Unscheduled::new(1, "Unschedulable0", "/1 nodes"),
        ] {
            assert_ne!(said, other);
        }
    }
}
