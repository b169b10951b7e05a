//! Whether a pod may be on a node for the sake of its volumes.

use std::collections::BTreeSet;

use plimsoll_api::{AccessModes, ObjectKey, PersistentVolumeClaim, Pod, PodKey, PodVolume};

use super::Known;

impl Known {
    /// No other pod may use a claim that only one pod may use, and the volumes of claims that are bound
    /// must reach the node.
    pub(super) fn has_volumes(
        &self,
        pod: &Pod,
        node: &str,
        without: &BTreeSet<PodKey>,
    ) -> Result<(), String> {
        for key in claims_of(pod) {
            let claim = self.claims.get(&key).ok_or_else(|| format!("there is no claim {key}"))?;
            let others = |other: &&Pod| other.key != pod.key && !without.contains(&other.key);
            // Evicting any pod with a claim of that name is enough for kube-scheduler, be it another claim
            // or used by others too: that may clear a node in vain, but places no pod wrongly.
            let is_what_if = !without.is_empty();
            if let Some(other) = self.users(claim).find(others).filter(|_| !is_what_if) {
                return Err(format!("{} uses {key}, which only one pod may use", other.key));
            }
            self.reaches(claim, node)?;
        }
        Ok(())
    }

    /// The pods that use a claim that only one pod may use. As in kube-scheduler, one whose node is gone
    /// uses nothing, even before it is taken away.
    fn users<'a>(&'a self, claim: &'a PersistentVolumeClaim) -> impl Iterator<Item = &'a Pod> {
        let alone = claim.access_modes.contains(AccessModes::READ_WRITE_ONCE_POD);
        let uses = |pod: &&Pod| claims_of(pod).any(|key| key == claim.key);
        let there = self.placed().filter(|(_, node)| self.nodes.contains_key(*node));
        there.map(|(pod, _)| pod).filter(move |_| alone).filter(uses)
    }

    fn reaches(&self, claim: &PersistentVolumeClaim, node: &str) -> Result<(), String> {
        let volume = claim.volume.as_ref().and_then(|name| self.volumes.get(name));
        let (Some(volume), Some(node)) = (volume, self.nodes.get(node)) else { return Ok(()) };
        let met = volume
            .node_affinity
            .as_ref()
            .is_none_or(|terms| terms.iter().any(|term| term.matches("", &node.labels)));
        if met { Ok(()) } else { Err(format!("volume {} does not reach it", volume.name)) }
    }

    /// Whether all is done for a pod that is to be bound now.
    pub(super) fn is_mountable(&self, pod: &Pod, node: &str) -> Result<(), String> {
        for key in claims_of(pod) {
            let claim = self.claims.get(&key).ok_or_else(|| format!("there is no claim {key}"))?;
            if claim.volume.is_none() || !claim.bind_completed {
                return Err(format!("its claim {key} is not bound"));
            }
            // A node that has gone meanwhile reaches nothing, and has lost the pod anyway.
            self.reaches(claim, node)?;
        }
        Ok(())
    }
}

/// The claims of a pod, by name.
fn claims_of(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    let names = pod.volumes.iter().filter_map(PodVolume::claim);
    names.map(|name| ObjectKey::new(pod.key.namespace.clone(), name.clone()))
}
