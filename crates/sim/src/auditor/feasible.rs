//! Checks whether a pod may be on a node: resources, ports, taints, and its conditions on the node
//! itself.

use std::collections::BTreeSet;

use plimsoll_api::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use plimsoll_api::{Effect, Node, Pod, PodKey, Resources, Str};

use super::ObservedCluster;

const CORDON: &str = "node.kubernetes.io/unschedulable";

impl ObservedCluster {
    /// Whether a pod may be placed on a node in the present cluster without the pods in `without`; the
    /// error says why not.
    pub(crate) fn feasible(
        &self,
        pod: &Pod,
        node: &str,
        without: &BTreeSet<PodKey>,
    ) -> Result<(), String> {
        let node = self.nodes.get(node).ok_or("there is no such node")?;
        let others = |other: &&Pod| other.key != pod.key && !without.contains(&other.key);
        let there: Vec<&Pod> = self.pods_on(&node.name).filter(others).collect();
        if self.filter(&["NodeResourcesFit"]) {
            let by_devices = |name: &str| self.devices.stand_for(name, node);
            fits(pod, node, &there, by_devices)?;
        }
        if self.filter(&["NodePorts"]) {
            self.has_ports(pod, node, &there)?;
        }
        if self.filter(&["NodeUnschedulable", "TaintToleration"]) {
            tolerated(pod, node)?;
        }
        if self.filter(&["NodeAffinity"]) && !pod.node_selection.matches(&node.name, &node.labels) {
            return Err("the pod asks for other nodes".to_owned());
        }
        if let Some(feature) = missing_feature(pod, node)
            && self.filter(&["NodeDeclaredFeatures"])
        {
            return Err(format!("the node lacks the feature {feature}"));
        }
        if self.filter(&["NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"]) {
            self.has_volumes(pod, &node.name, without)?;
            self.has_disks(pod, &node.name, &there)?;
        }
        if self.filter(&["DynamicResources"]) {
            self.has_devices(pod, node)?;
        }
        if self.filter(&["InterPodAffinity"]) {
            self.near_and_far(pod, node, without)?;
        }
        if self.filter(&["PodTopologySpread"]) {
            self.evenly_spread(pod, node, without)?;
        }
        Ok(())
    }

    /// Why a node is overcommitted: requests beyond its resources, too many pods, or a port that two
    /// pods use.
    pub(crate) fn overfull(&self, node: &str) -> Option<String> {
        if !self.filter(&["NodePorts", "NodeResourcesFit"]) {
            return None;
        }
        let node = self.nodes.get(node)?;
        let pods: Vec<&Pod> = self.pods_on(&node.name).collect();
        let taken = sum(&pods);
        let all = names(&taken).into_iter().filter(|name| !self.devices.stand_for(name, node));
        let over = all.into_iter().find(|name| node.allocatable.get(name) < taken.get(name));
        if let Some(name) = over {
            let (asked, has) = (taken.get(&name), node.allocatable.get(&name));
            return Some(format!("pods ask for {asked} of {name}, and there is {has}"));
        }
        if node.allocatable.pods < count(&pods) {
            return Some(format!(
                "there are {} pods, and room for {}",
                pods.len(),
                node.allocatable.pods
            ));
        }
        let shared = pods.iter().enumerate().find_map(|(i, pod)| {
            let other = pods[..i].iter().find(|other| self.share_port(pod, other, node))?;
            Some((pod, other))
        });
        shared.map(|(one, other)| format!("{} and {} use the same port", one.key, other.key))
    }
}

pub(super) fn sum(pods: &[&Pod]) -> Resources {
    let mut sum = Resources::default();
    for pod in pods {
        sum.add(&pod.requests);
    }
    sum
}

fn count(pods: &[&Pod]) -> i64 {
    i64::try_from(pods.len()).unwrap_or(i64::MAX)
}

/// The names of nonzero resources, except the number of pods.
fn names(resources: &Resources) -> Vec<Str> {
    let fixed = [CPU, MEMORY, EPHEMERAL_STORAGE].map(Str::from);
    let all = fixed.into_iter().chain(resources.scalar.keys().cloned());
    all.filter(|name| 0 < resources.get(name)).collect()
}

/// Resources that the pod does not request may be overcommitted.
fn fits(
    pod: &Pod,
    node: &Node,
    there: &[&Pod],
    by_devices: impl Fn(&str) -> bool,
) -> Result<(), String> {
    if node.allocatable.pods <= count(there) {
        return Err(format!("there are {} pods already", there.len()));
    }
    let (taken, asked) = (sum(there), &pod.asks.fit);
    for name in names(asked).into_iter().filter(|name| !by_devices(name)) {
        let left = node.allocatable.get(&name) - taken.get(&name);
        if left < asked.get(&name) {
            return Err(format!("it asks for {} of {name}, and {left} is left", asked.get(&name)));
        }
    }
    Ok(())
}

/// Checks that a pod tolerates the taints of a node, and its cordon.
fn tolerated(pod: &Pod, node: &Node) -> Result<(), String> {
    let is_tolerated = |key: &str, value: &str, effect: Effect| {
        pod.tolerations.iter().any(|one| {
            // The feature gate for tolerations that compare is always off here.
            one.comparison.is_none()
                && one.key.as_ref().is_none_or(|wanted| wanted == key)
                && one.value.as_ref().is_none_or(|wanted| wanted == value)
                && one.effect.is_none_or(|wanted| wanted == effect)
        })
    };
    if node.unschedulable && !is_tolerated(CORDON, "", Effect::NoSchedule) {
        return Err("the node is cordoned".to_owned());
    }
    for taint in &node.taints {
        let keeps_off = taint.effect != Effect::PreferNoSchedule;
        if keeps_off && !is_tolerated(&taint.key, &taint.value, taint.effect) {
            return Err(format!("it does not tolerate {}={}", taint.key, taint.value));
        }
    }
    Ok(())
}

/// Whether a pod tolerates all taints of a node that reject pods.
pub(super) fn tolerates(pod: &Pod, node: &Node) -> bool {
    tolerated(pod, &Node { unschedulable: false, ..node.clone() }).is_ok()
}

fn missing_feature<'a>(pod: &'a Pod, node: &Node) -> Option<&'a Str> {
    pod.required_features.iter().find(|wanted| !node.declared_features.contains(wanted))
}
