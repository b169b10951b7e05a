//! Reads what `capacity` counts: pods, workloads, and groups with their pods.

use anyhow::bail;
use plimsoll_api::wire::{self, Object};
use plimsoll_api::{CompositePodGroup, Kinds, Pod, PodGroup};
use serde_json::Value;

use super::fault::Fault;
use super::manifests::typed;
use super::source::Source;
use super::{objects, workloads};
use crate::faults::Faults;

/// A pod with its manifest.
pub(crate) type DescribedPod = (Pod, Value);

/// What manifests describe, in their order.
#[derive(Debug, Default)]
pub(crate) struct Described {
    /// The pods of each pod and workload. A workload stands for one of its pods, but for all of them if they are in a group.
    pub(crate) pods: Vec<Vec<DescribedPod>>,
    /// The groups with their manifests.
    pub(crate) groups: Vec<(PodGroup, Value)>,
}

impl Described {
    /// What files describe.
    ///
    /// The error lists everything that is wrong with the files.
    pub(crate) fn of(sources: &[Source]) -> anyhow::Result<Self> {
        let (mut described, mut faults) = (Described::default(), Vec::new());
        for source in sources {
            let before = described.len() + faults.len();
            let documents = match objects::documents(source) {
                Ok(documents) => documents,
                Err(fault) => {
                    faults.push(fault);
                    continue;
                }
            };
            for document in documents {
                for (at, name) in objects::names(&document, &Kinds::built_in()) {
                    let Some(manifest) = document.get(&at) else { continue };
                    let manifest = typed(&document, &name, manifest.clone());
                    let Err(why) = described.add(&manifest) else { continue };
                    let line = document.line_of(&at);
                    faults.push(Fault::of_field(&source.name, line, name, &why));
                }
            }
            if described.len() + faults.len() == before {
                bail!("{}: contains no pod, and no workload with a template of one", source.name);
            }
        }
        if faults.is_empty() { Ok(described) } else { Err(Faults::from(faults).into()) }
    }

    /// Adds what a manifest describes. Returns whether it describes something that is counted. The error names the field.
    pub(crate) fn add(&mut self, manifest: &Value) -> Result<bool, String> {
        if let Some(pods) = workloads::pods_of_workload(manifest) {
            let mut described = Vec::new();
            for manifest in pods? {
                let pod = workloads::read_pod(&manifest)?;
                let is_single = pod.scheduling_group.is_none();
                described.push((pod, manifest));
                if is_single {
                    break;
                }
            }
            self.pods.push(described);
            return Ok(true);
        }
        match manifest["kind"].as_str() {
            Some("Pod") => {
                self.pods.push(vec![(workloads::read_pod(manifest)?, manifest.clone())]);
                Ok(true)
            }
            Some("PodGroup" | "CompositePodGroup") => self.add_group(manifest),
            _ => Ok(false),
        }
    }

    /// The same for a group. There are kinds of these names in other API groups.
    fn add_group(&mut self, manifest: &Value) -> Result<bool, String> {
        let read = wire::object(manifest);
        let read = read.map_err(|error| format!("{}: {}", error.field, error.message))?;
        let Object::Other(object) = read else { return Ok(false) };
        if object.get::<CompositePodGroup>().is_some() {
            return Err("kind: groups of groups are not counted; `plimsoll what-if --apply` says \
                        whether one more fits"
                .to_owned());
        }
        let Some(group) = object.get::<PodGroup>() else { return Ok(false) };
        self.groups.push((group.clone(), manifest.clone()));
        Ok(true)
    }

    fn len(&self) -> usize {
        self.pods.len() + self.groups.len()
    }

    /// All manifests: those of the groups, and those of the pods.
    pub(crate) fn into_manifests(self) -> Vec<Value> {
        let groups = self.groups.into_iter().map(|(_, manifest)| manifest);
        groups.chain(self.pods.into_iter().flatten().map(|(_, manifest)| manifest)).collect()
    }
}
