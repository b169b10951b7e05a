//! Extended resources for which device classes stand. As in deviceclass/extendedresourcecache.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::resources::DEVICE_CLASS_PREFIX;
use plimsoll_framework::prelude::*;

/// Which class stands for a resource: by `spec.extendedResourceName`, or by its implicit name.
///
/// It follows the classes in the order in which they change, and upstream's order of steps shows: of two classes with
/// one name the newer wins, but the loser keeps its implicit name only if it was there before the winner; a class that
/// goes takes the name with it, whoever has it; and a change that keeps the name is taken for a clash with the class
/// itself, so that the class from before remains.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtendedResources(BTreeMap<Str, Arc<DeviceClass>>);

impl ExtendedResources {
    /// The class that stands for a resource.
    pub(crate) fn class_of(&self, resource: &str) -> Option<&Arc<DeviceClass>> {
        self.0.get(resource)
    }

    /// The resources for which classes stand.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Str> {
        self.0.keys()
    }

    /// A class came, changed or went.
    pub(crate) fn change(
        &mut self,
        before: Option<&Arc<DeviceClass>>,
        after: Option<&Arc<DeviceClass>>,
    ) {
        match (before, after) {
            (before, Some(class)) => {
                let name_of = |class: &Arc<DeviceClass>| class.extended_resource.clone();
                let (old, new) = (before.and_then(name_of), name_of(class));
                self.put(class);
                if before.is_some() && old != new {
                    self.0.remove(old.as_deref().unwrap_or_default());
                }
            }
            (Some(gone), None) => {
                if let Some(name) = &gone.extended_resource {
                    self.0.remove(name);
                }
                self.0.remove(&implicit(gone));
            }
            (None, None) => {}
        }
    }

    fn put(&mut self, class: &Arc<DeviceClass>) {
        if let Some(name) = &class.extended_resource {
            if self.0.get(name).is_some_and(|known| wins(known, class)) {
                return;
            }
            self.0.insert(name.clone(), class.clone());
        }
        self.0.insert(implicit(class), class.clone());
    }
}

/// Whether a class that is known keeps the name that another one has, too: the newer one has it, and of two of the same
/// age the one whose name comes first.
fn wins(known: &DeviceClass, other: &DeviceClass) -> bool {
    match known.created.cmp(&other.created) {
        std::cmp::Ordering::Equal => known.name <= other.name,
        order => order.is_gt(),
    }
}

/// The resource for which every class stands.
fn implicit(class: &DeviceClass) -> Str {
    Str::from(format!("{DEVICE_CLASS_PREFIX}{}", class.name))
}

#[cfg(test)]
mod tests {
    use plimsoll_api::Timestamp;

    use super::*;

    const NAME: &str = "example.com/gpu";

    /// A class that was made in this second, and has the name.
    fn class(name: &str, second: i64) -> Arc<DeviceClass> {
        let created = Some(Timestamp::from_second(second).expect("it is early"));
        let (name, extended_resource) = (name.into(), Some(NAME.into()));
        Arc::new(DeviceClass { name, created, extended_resource, ..DeviceClass::default() })
    }

    /// The classes that stand for the name, and for the implicit names of `a` and `b`.
    fn known(resources: &ExtendedResources) -> [Option<&str>; 3] {
        let implicit = ["a", "b"].map(|class| format!("{DEVICE_CLASS_PREFIX}{class}"));
        [NAME, &implicit[0], &implicit[1]]
            .map(|name| resources.class_of(name).map(|class| class.name.as_str()))
    }

    #[test]
    fn of_two_classes_with_one_name_the_newer_has_it() {
        let (old, new) = (class("a", 1), class("b", 2));
        let mut resources = ExtendedResources::default();
        resources.change(None, Some(&old));
        resources.change(None, Some(&new));
        assert_eq!(known(&resources), [Some("b"), Some("a"), Some("b")]);
    }

    #[test]
    fn a_class_that_loses_its_name_from_the_beginning_has_no_implicit_one() {
        let (old, new) = (class("a", 1), class("b", 2));
        let mut resources = ExtendedResources::default();
        resources.change(None, Some(&new));
        resources.change(None, Some(&old));
        assert_eq!(known(&resources), [Some("b"), None, Some("b")]);
    }

    #[test]
    fn a_class_that_goes_takes_the_name_along_whoever_has_it() {
        let (old, new) = (class("a", 1), class("b", 2));
        let mut resources = ExtendedResources::default();
        resources.change(None, Some(&old));
        resources.change(None, Some(&new));
        resources.change(Some(&old), None);
        assert_eq!(known(&resources), [None, None, Some("b")]);
    }

    #[test]
    fn a_class_that_changes_and_keeps_its_name_stays_as_it_was() {
        let before = class("a", 1);
        let selectors = vec![Some("false".into())];
        let after = Arc::new(DeviceClass { selectors, ..(*before).clone() });
        let mut resources = ExtendedResources::default();
        resources.change(None, Some(&before));
        resources.change(Some(&before), Some(&after));
        let found = resources.class_of(NAME).expect("it has the name");
        assert!(found.selectors.is_empty(), "{found:?}");
    }
}
