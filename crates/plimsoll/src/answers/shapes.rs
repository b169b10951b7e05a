//! What `capacity` counts: pods, and groups with their pods.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use plimsoll_advisor::Reference;
use plimsoll_api::wire::{self, Object};
use plimsoll_api::{ObjectKey, Pod, PodGroup, PodKey, PodPhase};
use plimsoll_engine::Options;
use plimsoll_framework::pod_groups::group_of;
use plimsoll_sim::{GroupShape, InitialCluster, PodShape, Shape};
use serde_json::{Value, json};

use super::groups::check_on;
use crate::input::{Described, DescribedPod, read_pod};
use crate::report::Copied;

/// What is counted.
#[derive(Debug)]
pub(crate) enum Given {
    /// A pod.
    Pod(DescribedPod),
    /// A group.
    Group(GivenGroup),
}

/// A group with its pods.
#[derive(Debug)]
pub(crate) struct GivenGroup {
    pub(crate) group: PodGroup,
    /// Its manifest, if that is known.
    pub(crate) manifest: Option<Value>,
    pub(crate) pods: Vec<DescribedPod>,
}

impl Given {
    /// Its pods.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Pod> {
        let pods = match self {
            Given::Pod(pod) => std::slice::from_ref(pod),
            Given::Group(group) => &group.pods,
        };
        pods.iter().map(|(pod, _)| pod)
    }

    /// The same, to be changed.
    pub(crate) fn pods_mut(&mut self) -> impl Iterator<Item = &mut Pod> {
        let pods = match self {
            Given::Pod(pod) => std::slice::from_mut(pod),
            Given::Group(group) => &mut group.pods,
        };
        pods.iter_mut().map(|(pod, _)| pod)
    }

    /// What it is called in an answer.
    pub(crate) fn copied(&self) -> Copied {
        match self {
            Given::Pod((pod, _)) => Copied::Pod { pod: pod.key.to_string() },
            Given::Group(given) => {
                Copied::Group { group: given.group.key.to_string(), pods: given.pods.len() }
            }
        }
    }

    /// What is placed in a cluster.
    pub(crate) fn shape(&self, cluster: &InitialCluster) -> Shape {
        match self {
            Given::Pod((pod, _)) => Shape::Pod(Box::new(PodShape::of(pod.clone(), cluster))),
            Given::Group(given) => Shape::Group(Box::new(GroupShape {
                group: given.group.clone(),
                pods: self.pods().cloned().collect(),
            })),
        }
    }
}

/// What manifests describe: pods of a group are one shape. The PodGroup may also be in the cluster.
pub(crate) fn given(
    described: Described,
    options: &Options,
    cluster: &InitialCluster,
) -> Result<Vec<Given>> {
    let Described { pods, groups } = described;
    if !options.gates.groups.generic_workload {
        // A scheduler that knows no groups decides pods one by one.
        if !groups.is_empty() {
            check_on(options)?;
        }
        let first = pods.into_iter().filter_map(|pods| pods.into_iter().next());
        return Ok(first.map(Given::Pod).collect());
    }
    let mut given: Vec<Given> = Vec::new();
    for (pod, manifest) in pods.into_iter().flatten() {
        let Some(key) = group_of(&pod) else {
            given.push(Given::Pod((pod, manifest)));
            continue;
        };
        let known = given.iter_mut().find_map(|given| match given {
            Given::Group(group) if group.group.key == key => Some(group),
            Given::Group(_) | Given::Pod(_) => None,
        });
        if let Some(known) = known {
            known.pods.push((pod, manifest));
            continue;
        }
        let described = groups.iter().find(|(group, _)| group.key == key);
        let (group, own) = match described {
            Some((group, own)) => (group.clone(), Some(own.clone())),
            None => match group_in(cluster, &key) {
                Some(group) => (group.clone(), None),
                None => bail!(
                    "pod {} belongs to group {key} (spec.schedulingGroup), and there is no such PodGroup: add its manifest",
                    pod.key,
                ),
            },
        };
        given.push(Given::Group(GivenGroup { group, manifest: own, pods: vec![(pod, manifest)] }));
    }
    for (group, _) in &groups {
        let has_pods =
            |given: &Given| matches!(given, Given::Group(one) if one.group.key == group.key);
        ensure!(
            given.iter().any(has_pods),
            "PodGroup {} has no pods: add their manifests",
            group.key
        );
    }
    for given in &given {
        if let Given::Group(group) = given {
            group.check(options)?;
        }
    }
    Ok(given)
}

/// A group of the cluster with its pods, pending ones and those on nodes. `find` knows manifests.
pub(crate) fn group_of_cluster(
    key: &ObjectKey,
    options: &Options,
    cluster: &InitialCluster,
    find: &dyn Fn(&Reference) -> Option<Value>,
) -> Result<GivenGroup> {
    let Some(group) = group_in(cluster, key) else {
        bail!("there is no PodGroup {key}: its pods name it, or it is a group of groups")
    };
    let pods = cluster
        .pods
        .iter()
        .filter(|pod| pod.phase != PodPhase::Ended && group_of(pod).as_ref() == Some(key));
    let pods = pods.map(|pod| (pod.clone(), find(&Reference::pod(&pod.key)).unwrap_or_default()));
    let mut pods: Vec<DescribedPod> = pods.collect();
    pods.sort_by(|(one, _), (other, _)| one.key.cmp(&other.key));
    let manifest = find(&of_group(key));
    let given = GivenGroup { group: group.clone(), manifest, pods };
    ensure!(!given.pods.is_empty(), "group {key} has no pods: there is nothing to count");
    given.check(options)?;
    Ok(given)
}

/// The groups of the cluster that have pods, with these, by name: of all namespaces, or of one.
pub(super) fn groups_of_cluster<'c>(
    options: &Options,
    cluster: &'c InitialCluster,
    namespace: Option<&str>,
) -> Vec<(&'c PodGroup, Vec<&'c Pod>)> {
    if !options.gates.groups.generic_workload {
        return Vec::new();
    }
    let is_meant = |group: &&PodGroup| namespace.is_none_or(|name| group.key.namespace == *name);
    let groups = groups_in(cluster).filter(is_meant);
    let mut found: BTreeMap<&ObjectKey, (&PodGroup, Vec<&Pod>)> =
        groups.map(|group| (&group.key, (group, Vec::new()))).collect();
    for pod in cluster.pods.iter().filter(|pod| pod.phase != PodPhase::Ended) {
        if let Some((_, pods)) = group_of(pod).and_then(|key| found.get_mut(&key)) {
            pods.push(pod);
        }
    }
    let mut found: Vec<_> = found.into_values().filter(|(_, pods)| !pods.is_empty()).collect();
    for (_, pods) in &mut found {
        pods.sort_unstable_by_key(|pod| &pod.key);
    }
    found
}

fn groups_in(cluster: &InitialCluster) -> impl Iterator<Item = &PodGroup> {
    cluster.objects.iter().filter_map(|object| object.get::<PodGroup>())
}

/// A group of the cluster.
pub(super) fn group_in<'c>(cluster: &'c InitialCluster, key: &ObjectKey) -> Option<&'c PodGroup> {
    groups_in(cluster).find(|group| group.key == *key)
}

impl GivenGroup {
    /// A group of a cluster without manifests, if it can be counted.
    pub(super) fn of_cluster(group: &PodGroup, pods: &[&Pod], options: &Options) -> Option<Self> {
        let pods = pods.iter().map(|&pod| (pod.clone(), Value::Null)).collect();
        let given = GivenGroup { group: group.clone(), manifest: None, pods };
        given.check(options).is_ok().then_some(given)
    }

    /// Fails, with advice, if copies of the group say nothing.
    fn check(&self, options: &Options) -> Result<()> {
        const ADVICE: &str = "ask `plimsoll what-if --apply` whether one more fits";
        let GivenGroup { group, pods, .. } = self;
        if let Some(parent) = group.parent.as_ref().filter(|_| options.gates.groups.composite) {
            bail!(
                "PodGroup {} is part of CompositePodGroup {parent} (spec.parentCompositePodGroupName), which is placed as a \
                 whole: {ADVICE}, or leave the field out",
                group.key,
            );
        }
        let claims = "claims devices (spec.resourceClaims), which copies would not use up";
        ensure!(group.resource_claims.is_empty(), "PodGroup {} {claims}: {ADVICE}", group.key);
        for (pod, _) in pods {
            ensure!(
                pod.resource_claims.is_empty(),
                "pod {} of group {} {claims}: {ADVICE}",
                pod.key,
                group.key,
            );
        }
        Ok(())
    }

    /// The same group with all its pods pending, under names that nothing in the cluster has; `None` if a manifest is not
    /// known.
    pub(super) fn as_new_in(&self, cluster: &InitialCluster) -> Result<Option<Self>> {
        let Some(manifest) = &self.manifest else { return Ok(None) };
        let is_taken = |suffix: &str| {
            let key = with_suffix(&self.group.key, suffix);
            let pods: Vec<PodKey> =
                self.pods.iter().map(|(pod, _)| with_suffix(&pod.key, suffix)).collect();
            group_in(cluster, &key).is_some()
                || cluster.pods.iter().any(|pod| pods.contains(&pod.key))
        };
        let suffixes = (0..).map(|n| if n == 0 { String::new() } else { format!("-more{n}") });
        let suffix = suffixes.into_iter().find(|suffix| !is_taken(suffix));
        let suffix = suffix.expect("there are more names than objects");
        let own = renamed(manifest, &suffix);
        let name = own["metadata"]["name"].clone();
        let mut pods = Vec::new();
        for (_, manifest) in &self.pods {
            if manifest.is_null() {
                return Ok(None);
            }
            let mut manifest = renamed(manifest, &suffix);
            manifest["spec"]["schedulingGroup"]["podGroupName"] = name.clone();
            if let Some(spec) = manifest["spec"].as_object_mut() {
                spec.remove("nodeName");
            }
            let pod = read_pod(&manifest).map_err(anyhow::Error::msg)?;
            pods.push((pod, manifest));
        }
        let Ok(Object::Other(object)) = wire::object(&own) else { return Ok(None) };
        let Some(group) = object.get::<PodGroup>().cloned() else { return Ok(None) };
        Ok(Some(GivenGroup { group, manifest: Some(own), pods }))
    }

    /// The manifest of the group or of one of its pods.
    pub(super) fn manifest_of(&self, object: &Reference) -> Option<Value> {
        if *object == of_group(&self.group.key) {
            return self.manifest.clone();
        }
        let found = self.pods.iter().find(|(pod, _)| *object == Reference::pod(&pod.key));
        found.map(|(_, manifest)| manifest.clone())
    }
}

fn of_group(key: &ObjectKey) -> Reference {
    Reference::of("PodGroup", key)
}

fn with_suffix(key: &ObjectKey, suffix: &str) -> ObjectKey {
    ObjectKey::new(key.namespace.clone(), format!("{}{suffix}", key.name))
}

/// A manifest as that of a new object with a longer name.
fn renamed(manifest: &Value, suffix: &str) -> Value {
    let mut manifest = manifest.clone();
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
    manifest["metadata"]["name"] = json!(format!("{name}{suffix}"));
    if let Some(metadata) = manifest["metadata"].as_object_mut() {
        metadata.remove("uid");
        metadata.remove("creationTimestamp");
    }
    if let Some(fields) = manifest.as_object_mut() {
        fields.remove("status");
    }
    manifest
}
