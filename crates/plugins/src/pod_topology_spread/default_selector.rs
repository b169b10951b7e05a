//! The selector of default constraints, from the Services and the controller of a pod.

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::SelectingStore;

/// Selects the pods that all Services of the pod and its controller select. Selects everything if no
/// object selects the pod.
///
/// As in helper/spread.go, DefaultSelector: Services and a ReplicationController contribute one value
/// for each key, and the controller takes precedence over a Service. The requirements of a ReplicaSet
/// or StatefulSet are added.
pub(crate) fn default_selector(
    namespace: &str,
    labels: &Labels,
    owner: Option<&Controller>,
    objects: SelectingStore<'_>,
) -> Selector {
    let mut all = Vec::new();
    for (_, selector) in objects.selecting(namespace, SelectingKind::Service, labels) {
        override_with(&mut all, selector);
    }
    let Some((owner, kind)) = owner.and_then(|owner| Some((owner, kind_of(owner)?))) else {
        return Selector::All(all);
    };
    if let Some(selector) = objects.get(kind, namespace, &owner.name) {
        match kind {
            SelectingKind::Service => {}
            SelectingKind::ReplicationController => override_with(&mut all, selector),
            SelectingKind::ReplicaSet | SelectingKind::StatefulSet => add(&mut all, selector),
        }
    }
    Selector::All(all)
}

/// The kind of a controller that selects pods; `None` for any other, such as a Job.
fn kind_of(owner: &Controller) -> Option<SelectingKind> {
    match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("v1", "ReplicationController") => Some(SelectingKind::ReplicationController),
        ("apps/v1", "ReplicaSet") => Some(SelectingKind::ReplicaSet),
        ("apps/v1", "StatefulSet") => Some(SelectingKind::StatefulSet),
        _ => None,
    }
}

/// Adds the requirements of `selector`, replacing those on the same keys.
fn override_with(all: &mut Vec<Requirement>, selector: &Selector) {
    for requirement in requirements(selector) {
        all.retain(|earlier| earlier.key != requirement.key);
        all.push(requirement.clone());
    }
}

/// Adds the requirements of `selector`, each once.
fn add(all: &mut Vec<Requirement>, selector: &Selector) {
    for requirement in requirements(selector) {
        if !all.contains(requirement) {
            all.push(requirement.clone());
        }
    }
}

fn requirements(selector: &Selector) -> &[Requirement] {
    match selector {
        // A selector that selects nothing has no requirements.
        Selector::Nothing => &[],
        Selector::All(requirements) => requirements,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(pairs: &[(&str, &str)]) -> Selector {
        Selector::All(pairs.iter().map(|(key, value)| Requirement::equals(*key, *value)).collect())
    }

    fn store(objects: &[(SelectingKind, &str, Selector)]) -> Stores {
        let mut stores = Stores::default();
        for (kind, name, selector) in objects {
            let key = PodKey::new("default", *name);
            stores.set(&kind.object(key, selector.clone()));
        }
        stores
    }

    fn owner(api_version: &str, kind: &str) -> Controller {
        Controller {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "web".into(),
            uid: Str::default(),
        }
    }

    fn labels() -> Labels {
        [("app", "web"), ("tier", "front")].into_iter().collect()
    }

    #[test]
    fn all_services_that_select_the_pod_count_and_no_others() {
        let store = store(&[
            (SelectingKind::Service, "a", selector(&[("app", "web")])),
            (SelectingKind::Service, "b", selector(&[("tier", "front")])),
            (SelectingKind::Service, "c", selector(&[("app", "db")])),
            (SelectingKind::Service, "d", Selector::Nothing),
        ]);
        let found = default_selector("default", &labels(), None, SelectingStore::of(&store));
        assert_eq!(found, selector(&[("app", "web"), ("tier", "front")]));
        let elsewhere = default_selector("other", &labels(), None, SelectingStore::of(&store));
        assert!(elsewhere.is_everything());
    }

    #[test]
    fn the_controller_counts_by_its_kind() {
        let store = store(&[
            (SelectingKind::Service, "a", selector(&[("app", "web")])),
            (SelectingKind::ReplicationController, "web", selector(&[("app", "other")])),
            (SelectingKind::ReplicaSet, "web", selector(&[("app", "web"), ("hash", "1")])),
            (SelectingKind::StatefulSet, "web", selector(&[("app", "other")])),
        ]);
        for (api_version, kind, expected) in [
            ("v1", "ReplicationController", selector(&[("app", "other")])),
            ("apps/v1", "ReplicaSet", selector(&[("app", "web"), ("hash", "1")])),
            ("apps/v1", "StatefulSet", selector(&[("app", "web"), ("app", "other")])),
            ("batch/v1", "Job", selector(&[("app", "web")])),
            ("example.com/v1", "ReplicaSet", selector(&[("app", "web")])),
        ] {
            let owner = owner(api_version, kind);
            let found =
                default_selector("default", &labels(), Some(&owner), SelectingStore::of(&store));
            assert_eq!(found, expected, "{kind}");
        }
    }
}
