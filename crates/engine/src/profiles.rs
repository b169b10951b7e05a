//! All profiles, by scheduler name.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_framework::parts::StoreReads;
use plimsoll_framework::points::QueueSortPoint;
use plimsoll_framework::{ClusterEvent, Point, QueuedPod, Release, SortKey, View};

use crate::cycle::{NO_NODE_REJECTOR, UNREADABLE_REJECTOR};
use crate::profile::{NEW_NODE, Profile, ProfileError};

/// Stands for a rejector that is not a plugin of any profile.
const UNKNOWN_REJECTOR: &str = "(unknown)";

/// All profiles, by scheduler name. There is at least one, and all have the same order of the queue.
#[derive(Debug)]
pub(crate) struct Profiles {
    /// By name. There are few, so a linear search is faster than a map. A binding cycle shares the profile that placed its
    /// pod, and finishes with it even if the profile is replaced.
    all: Vec<Arc<Profile>>,
    /// The scheduler names of all profiles so far, by [index](Profile::index).
    names: Vec<String>,
    /// The index of the first profile of the configuration, whose QueueSort orders the queue.
    first: usize,
    /// Whether plugins of any profile share what they learn at PreFilter.
    pub(crate) share_filter_state: bool,
}

impl Profiles {
    pub(crate) fn new(profiles: Vec<Profile>, release: Release) -> Result<Self, ProfileError> {
        Profiles::following(&[], profiles, release)
    }

    /// The profiles that replace those which had these `names` by their indices.
    pub(crate) fn following(
        names: &[String],
        mut profiles: Vec<Profile>,
        release: Release,
    ) -> Result<Self, ProfileError> {
        let sort = |profile: &Profile| profile.at(Point::QueueSort).next().map(|(p, _)| p.name);
        let Some(first) = profiles.first() else {
            let message = "at least one profile is needed";
            return Err(ProfileError::Incomplete { profile: String::new(), message });
        };
        let (first, order) = (first.scheduler_name.clone(), sort(first));
        let mut own_names = BTreeSet::new();
        for profile in &profiles {
            let name = || profile.scheduler_name.clone();
            if sort(profile) != order {
                let message = "different queue sort plugins in two profiles";
                return Err(ProfileError::Incomplete { profile: name(), message });
            }
            if profile.release != release {
                let made_for = profile.release;
                return Err(ProfileError::Release { profile: name(), made_for, release });
            }
            if !own_names.insert(name()) {
                return Err(ProfileError::Duplicate(name()));
            }
        }
        profiles.sort_by(|a, b| a.scheduler_name.cmp(&b.scheduler_name));
        let mut names = names.to_vec();
        for profile in &mut profiles {
            let known = names.iter().position(|name| *name == profile.scheduler_name);
            profile.index = known.unwrap_or_else(|| {
                names.push(profile.scheduler_name.clone());
                names.len() - 1
            });
        }
        let is_first = |profile: &Profile| profile.scheduler_name == first;
        let first = profiles.iter().position(is_first).expect("it was just sorted in");
        let share_filter_state = profiles.iter().any(|profile| profile.shares_filter_state);
        let all = profiles.into_iter().map(Arc::new).collect();
        Ok(Profiles { all, names, first, share_filter_state })
    }

    /// All profiles, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.all.iter().map(|profile| &**profile)
    }

    /// The name of the plugin that orders the queue.
    pub(crate) fn queue_sort_plugin(&self) -> Option<&'static str> {
        self.all[self.first].at(Point::QueueSort).next().map(|(plugin, _)| plugin.name)
    }

    /// The scheduler name of the first profile of the configuration.
    pub(crate) fn first_name(&self) -> String {
        self.all[self.first].scheduler_name.clone()
    }

    /// The scheduler names of all profiles so far, by index.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The profile of a scheduler name.
    pub(crate) fn get(&self, scheduler_name: &str) -> Option<&Profile> {
        self.iter().find(|profile| profile.scheduler_name == scheduler_name)
    }

    /// The same, to be kept.
    pub(crate) fn shared(&self, scheduler_name: &str) -> Option<Arc<Profile>> {
        self.all.iter().find(|profile| profile.scheduler_name == scheduler_name).cloned()
    }

    /// The plugin named `name` as a rejector. All names that no profile has give the same rejector.
    pub(crate) fn rejector(&self, name: &str) -> &'static str {
        let known = self.iter().find_map(|profile| profile.named(name));
        match known {
            Some(plugin) => plugin.name,
            None if name == NO_NODE_REJECTOR => NO_NODE_REJECTOR,
            None if name == UNREADABLE_REJECTOR => UNREADABLE_REJECTOR,
            None => UNKNOWN_REJECTOR,
        }
    }

    /// Whether `plugin`, as a rejector, is registered for `event`. If no profile registers it, the
    /// event helps no pod that this plugin rejected.
    pub(crate) fn hears(&self, plugin: &str, event: ClusterEvent) -> bool {
        if plugin == NO_NODE_REJECTOR {
            return NEW_NODE.covers(event);
        }
        if plugin == UNREADABLE_REJECTOR {
            // It waits for a change of itself, which is handled separately.
            return false;
        }
        let mut known = self.iter().filter_map(|profile| profile.named(plugin)).peekable();
        // As in scheduling_queue.go: a rejector without registered events, such as an extender, hears
        // of every event.
        known.peek().is_none() || known.any(|plugin| plugin.hears(event))
    }

    /// The sort key of a pod in the queue.
    pub(crate) fn sort_key(&self, pod: &QueuedPod<'_>, view: &View<'_>) -> SortKey {
        self.queue_sort().key(pod, view)
    }

    /// The stores on which sort keys depend.
    pub(crate) fn order_reads(&self) -> StoreReads {
        self.queue_sort().reads()
    }

    fn queue_sort(&self) -> &QueueSortPoint {
        let (sort, _) = self.all[self.first]
            .at(Point::QueueSort)
            .next()
            .expect("a profile has exactly one QueueSort plugin");
        sort.points.queue_sort.as_ref().expect("it stands at QueueSort")
    }
}
