//! The PersistentVolumeClaims that pods name, as observed. Assumptions of VolumeBinding about claims
//! and volumes are not included: the other plugins of kube-scheduler read the informers.

use std::sync::Arc;

use plimsoll_framework::prelude::*;

/// The message for a claim with an empty name.
pub const NAMELESS_CLAIM: &str = "PersistentVolumeClaim had no name";

/// The claims that `volumes` name, without those of generic ephemeral volumes.
pub(crate) fn named(volumes: &[PodVolume]) -> impl Iterator<Item = &Str> {
    volumes.iter().filter_map(|volume| match &volume.kind {
        PodVolumeKind::Claim(name) => Some(name),
        PodVolumeKind::Ephemeral(_) | PodVolumeKind::Inline { .. } => None,
    })
}

/// Whether the pod names this claim.
pub(crate) fn names(pod: &Pod, claim: &ObjectKey) -> bool {
    pod.key.namespace == claim.namespace && named(&pod.volumes).any(|name| *name == claim.name)
}

/// The claim with this name. If there is none, the error is that of the API server.
pub fn find<'a>(
    store: VolumeStore<'a>,
    namespace: &Str,
    name: &Str,
) -> Result<&'a Arc<PersistentVolumeClaim>, String> {
    let key = KeyRef { namespace, name };
    store.claims.observed(key).ok_or_else(|| not_found("persistentvolumeclaim", name))
}

/// Checks that the claim of a generic ephemeral volume belongs to the pod. As in ephemeral.go,
/// VolumeIsForPod.
pub(crate) fn check_made_for(
    claim: &PersistentVolumeClaim,
    pod: &PodKey,
    uid: &Str,
) -> Result<(), String> {
    if claim.controller.as_ref() == Some(uid) {
        return Ok(());
    }
    Err(format!("PVC {} was not created for pod {pod} (pod is not owner)", claim.key))
}

/// The message of the API server for an object that does not exist.
#[cold]
pub(crate) fn not_found(resource: &str, name: &str) -> String {
    format!("{resource} {name:?} not found")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A pod of the namespace `default` with these volumes.
    pub(crate) fn pod_with(kinds: impl IntoIterator<Item = PodVolumeKind>) -> PodInfo {
        let volumes = kinds.into_iter().enumerate();
        let volumes = volumes.map(|(i, kind)| PodVolume { name: format!("v{i}").into(), kind });
        let template = PodTemplate { volumes: volumes.collect(), ..PodTemplate::default() };
        PodInfo::new(Pod::new(ObjectKey::new("default", "p"), template))
    }

    /// The same pod in another namespace.
    pub(crate) fn moved_to(namespace: &str, pod: &PodInfo) -> PodInfo {
        let key = ObjectKey::new(namespace, pod.key.name.clone());
        PodInfo::new(Pod { key, ..Pod::clone(pod) })
    }

    /// A volume of a pod: a claim of this name.
    pub(crate) fn claimed(name: &str) -> PodVolumeKind {
        PodVolumeKind::Claim(name.into())
    }

    /// A volume of a pod that it reads and writes.
    pub(crate) fn inline(source: VolumeSource) -> PodVolumeKind {
        PodVolumeKind::Inline { source, read_only: false }
    }

    /// A claim in the namespace `default`, bound to `volume` unless that is empty.
    pub(crate) fn claim(name: &str, volume: &str) -> PersistentVolumeClaim {
        PersistentVolumeClaim {
            key: ObjectKey::new("default", name),
            volume: (!volume.is_empty()).then(|| volume.into()),
            ..PersistentVolumeClaim::default()
        }
    }

    /// A pod with volumes for these claims, as a scenario statement.
    pub(crate) fn pod_naming(name: &str, claims: &[&str]) -> String {
        let volume = |claim| {
            format!(r#"{{"name": "{claim}", "persistentVolumeClaim": {{"claimName": "{claim}"}}}}"#)
        };
        let volumes: Vec<String> = claims.iter().map(volume).collect();
        format!("\npod {name} {{\"volumes\": [{}]}}\n", volumes.join(", "))
    }

    /// A store of these objects.
    pub(crate) fn store(objects: impl IntoIterator<Item = AnyObject>) -> Stores {
        let mut stores = Stores::default();
        for object in objects {
            assert!(stores.set(&object).is_some(), "every object of a test is another one");
        }
        stores
    }

    /// An object that came.
    pub(crate) fn came<K: Kind>(object: K) -> AnyVersions {
        Versions { before: None, after: Some(Arc::new(object)), dropped: None }.into()
    }

    /// An object that changed.
    pub(crate) fn changed<K: Kind>(before: K, after: K) -> AnyVersions {
        let [before, after] = [before, after].map(|one| Some(Arc::new(one)));
        Versions { before, after, dropped: None }.into()
    }

    #[test]
    fn a_pod_names_the_claims_of_its_namespace_but_not_those_made_for_it() {
        let pod = pod_with([claimed("a"), PodVolumeKind::Ephemeral("p-b".into())]);
        assert!(names(&pod, &ObjectKey::new("default", "a")));
        assert!(!names(&pod, &ObjectKey::new("other", "a")));
        assert!(!names(&pod, &ObjectKey::new("default", "p-b")));
    }

    #[test]
    fn a_claim_is_found_as_it_was_seen() {
        let mut stores = store([AnyObject::new(claim("a", ""))]);
        stores.of_mut().assume(claim("a", "pv"));
        let store = VolumeStore::of(&stores);
        let found = find(store, &"default".into(), &"a".into()).map(|claim| &**claim);
        assert_eq!(found, Ok(&claim("a", "")));
        let missing = find(store, &"other".into(), &"a".into());
        assert_eq!(missing, Err("persistentvolumeclaim \"a\" not found".to_owned()));
    }
}
