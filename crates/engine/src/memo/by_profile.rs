//! Values for profiles.

use std::ops::Index;

use crate::profile::Profile;

/// A value for each profile, found by its index: every decision asks for several.
#[derive(Debug)]
pub(super) struct ByProfile<T>(Vec<Option<T>>);

impl<T> Default for ByProfile<T> {
    fn default() -> Self {
        ByProfile(Vec::new())
    }
}

impl<T> ByProfile<T> {
    pub(super) fn insert(&mut self, profile: &Profile, value: T) {
        if self.0.len() <= profile.index {
            self.0.resize_with(profile.index + 1, || None);
        }
        self.0[profile.index] = Some(value);
    }

    pub(super) fn get(&self, profile: &Profile) -> Option<&T> {
        self.0.get(profile.index)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, profile: &Profile) -> Option<&mut T> {
        self.0.get_mut(profile.index)?.as_mut()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }
}

impl<T> Index<&Profile> for ByProfile<T> {
    type Output = T;
    fn index(&self, profile: &Profile) -> &T {
        self.get(profile).expect("whoever has the profile knows that it has a value")
    }
}
