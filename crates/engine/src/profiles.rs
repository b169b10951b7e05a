//! All profiles, by scheduler name.

use std::collections::BTreeMap;

use plimsoll_framework::{ClusterEvent, Point, QueuedPod, SortKey};

use crate::cycle::NO_NODE_REJECTOR;
use crate::profile::{NEW_NODE, Profile, ProfileError};

/// Stands for whoever rejects a pod and is no plugin of any profile.
const UNKNOWN_REJECTOR: &str = "(unknown)";

/// All profiles, by scheduler name. There is at least one, and all order the queue alike.
#[derive(Debug)]
pub(crate) struct Profiles {
    by_name: BTreeMap<String, Profile>,
    /// The profile whose QueueSort orders the queue.
    first: String,
}

impl Profiles {
    pub(crate) fn new(profiles: Vec<Profile>) -> Result<Self, ProfileError> {
        let sort = |profile: &Profile| profile.at(Point::QueueSort).next().map(|(p, _)| p.name);
        let Some(first) = profiles.first() else {
            let message = "at least one profile is needed";
            return Err(ProfileError::Incomplete { profile: String::new(), message });
        };
        let (first, order) = (first.scheduler_name.clone(), sort(first));
        let mut by_name = BTreeMap::<String, Profile>::new();
        for profile in profiles {
            let name = profile.scheduler_name.clone();
            if sort(&profile) != order {
                let message = "different queue sort plugins in two profiles";
                return Err(ProfileError::Incomplete { profile: name, message });
            }
            if by_name.insert(name.clone(), profile).is_some() {
                return Err(ProfileError::Duplicate(name));
            }
        }
        for (index, profile) in by_name.values_mut().enumerate() {
            profile.index = index;
        }
        Ok(Profiles { by_name, first })
    }

    /// All profiles, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.by_name.values()
    }

    /// The profile of a scheduler name.
    pub(crate) fn get(&self, scheduler_name: &str) -> Option<&Profile> {
        self.by_name.get(scheduler_name)
    }

    /// The plugin named `name` as a rejector. All that no profile has are alike.
    pub(crate) fn rejector(&self, name: &str) -> &'static str {
        let known = self.by_name.values().find_map(|profile| profile.named(name));
        match known {
            Some(plugin) => plugin.name,
            None if name == NO_NODE_REJECTOR => NO_NODE_REJECTOR,
            None => UNKNOWN_REJECTOR,
        }
    }

    /// Whether `plugin`, as a rejector, wants to know of `event`: what no profile hears of helps no pod
    /// that waits for that plugin.
    pub(crate) fn hears(&self, plugin: &str, event: ClusterEvent) -> bool {
        if plugin == NO_NODE_REJECTOR {
            return NEW_NODE.covers(event);
        }
        let mut known =
            self.by_name.values().filter_map(|profile| profile.named(plugin)).peekable();
        // As in scheduling_queue.go: a rejector without registered events, such as an extender, hears
        // of every event.
        known.peek().is_none() || known.any(|plugin| plugin.hears(event))
    }

    /// Where a pod stands in the queue.
    pub(crate) fn sort_key(&self, pod: &QueuedPod<'_>) -> SortKey {
        let (sort, _) = self.by_name[&self.first]
            .at(Point::QueueSort)
            .next()
            .expect("a profile has exactly one QueueSort plugin");
        sort.points.queue_sort.as_ref().expect("it stands at QueueSort").key(pod)
    }
}
