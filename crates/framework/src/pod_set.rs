//! The pods on one node.

use std::sync::Arc;

use plimsoll_api::{PodTemplate, Str};

use crate::pod_info::PodInfo;
use crate::volume_use::VolumeNumbers;

/// The pods on a node, in no particular order.
#[derive(Clone, Debug, Default)]
pub struct PodSet {
    all: Vec<PodInfo>,
    affinity: Vec<PodInfo>,
    anti_affinity: Vec<PodInfo>,
    volumes: VolumeNumbers,
    /// Those that are not terminating, by template and namespace: who counts pods by their labels need not look at each.
    replicas: Vec<CountedReplicas>,
    /// Whether `replicas` are left out, as in a copy for a dry run, which is made more often than it is counted.
    leaves_out_replicas: bool,
}

/// So many kinds of replicas are compared with a pod that comes. Beyond that, a kind may be there twice.
const MOST_COMPARED: usize = 8;

/// Pods on a node that have the same template and namespace, and are not terminating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas<'a> {
    /// Their template.
    pub template: &'a Arc<PodTemplate>,
    /// Their namespace.
    pub namespace: &'a Str,
    /// How many there are.
    pub n_pods: usize,
}

#[derive(Clone, Debug)]
struct CountedReplicas {
    template: Arc<PodTemplate>,
    namespace: Str,
    n_pods: usize,
}

impl CountedReplicas {
    fn include(&self, pod: &PodInfo) -> bool {
        Arc::ptr_eq(&self.template, &pod.template) && self.namespace == pod.key.namespace
    }
}

impl PodSet {
    /// All pods.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &PodInfo> {
        self.all.iter()
    }

    /// The pod at place `at`, counted from 0.
    pub fn get(&self, at: usize) -> Option<&PodInfo> {
        self.all.get(at)
    }

    /// All pods that are not terminating. Those of one template and namespace are mostly together.
    pub fn replicas(&self) -> impl Iterator<Item = Replicas<'_>> {
        let counted = self.replicas.iter().map(|one| Replicas {
            template: &one.template,
            namespace: &one.namespace,
            n_pods: one.n_pods,
        });
        let one_by_one = if self.leaves_out_replicas { self.all.as_slice() } else { &[] };
        let one_by_one = one_by_one.iter().filter(|pod| !pod.is_terminating());
        let one_by_one = one_by_one.map(|pod| Replicas {
            template: &pod.template,
            namespace: &pod.key.namespace,
            n_pods: 1,
        });
        counted.chain(one_by_one)
    }

    /// The pods with any affinity or anti-affinity term.
    pub fn with_affinity(&self) -> &[PodInfo] {
        &self.affinity
    }

    /// The pods with a required anti-affinity term.
    pub fn with_required_anti_affinity(&self) -> &[PodInfo] {
        &self.anti_affinity
    }

    /// How many volumes they have.
    pub fn volumes(&self) -> VolumeNumbers {
        self.volumes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds a pod.
    pub(crate) fn insert(&mut self, pod: &PodInfo) {
        self.all.push(pod.clone());
        self.volumes.add(&pod.volumes);
        if !pod.affinity.is_empty() {
            self.affinity.push(pod.clone());
        }
        if !pod.affinity.required_anti.is_empty() {
            self.anti_affinity.push(pod.clone());
        }
        self.count_replica(pod);
    }

    /// Removes the pod at `at`. The last pod moves to that place.
    pub(crate) fn remove(&mut self, at: usize) -> PodInfo {
        let gone = self.all.swap_remove(at);
        self.volumes.sub(&gone.volumes);
        if !gone.affinity.is_empty() {
            self.affinity.retain(|pod| pod.key != gone.key);
            self.anti_affinity.retain(|pod| pod.key != gone.key);
        }
        self.discount_replica(&gone);
        gone
    }

    /// Replaces the pod at `at` by another version of it. Both have the same volumes, and neither has an affinity.
    pub(crate) fn replace(&mut self, at: usize, pod: &PodInfo) {
        let before = std::mem::replace(&mut self.all[at], pod.clone());
        let is_alike = Arc::ptr_eq(&before.template, &pod.template)
            && before.is_terminating() == pod.is_terminating();
        if !is_alike {
            self.discount_replica(&before);
            self.count_replica(pod);
        }
    }

    /// The last pod and the one at `at` change places.
    pub(crate) fn swap_with_last(&mut self, at: usize) {
        let last = self.all.len() - 1;
        self.all.swap(at, last);
    }

    /// Becomes a copy of `of` for a dry run.
    pub(crate) fn become_copy(&mut self, of: &PodSet) {
        self.all.clone_from(&of.all);
        self.affinity.clone_from(&of.affinity);
        self.anti_affinity.clone_from(&of.anti_affinity);
        self.volumes = of.volumes;
        self.replicas.clear();
        self.leaves_out_replicas = true;
    }

    /// All pods, in their places.
    pub(crate) fn into_all(self) -> Vec<PodInfo> {
        self.all
    }

    fn count_replica(&mut self, pod: &PodInfo) {
        if self.leaves_out_replicas || pod.is_terminating() {
            return;
        }
        let mut last = self.replicas.iter_mut().rev().take(MOST_COMPARED);
        if let Some(same) = last.find(|one| one.include(pod)) {
            same.n_pods += 1;
            return;
        }
        if self.replicas.is_empty() {
            // Where there are many nodes, most have pods of one kind.
            self.replicas.reserve_exact(1);
        }
        self.replicas.push(CountedReplicas {
            template: pod.template.clone(),
            namespace: pod.key.namespace.clone(),
            n_pods: 1,
        });
    }

    fn discount_replica(&mut self, pod: &PodInfo) {
        if self.leaves_out_replicas || pod.is_terminating() {
            return;
        }
        let Some(at) = self.replicas.iter().rposition(|one| one.include(pod)) else { return };
        if self.replicas[at].n_pods == 1 {
            self.replicas.swap_remove(at);
        } else {
            self.replicas[at].n_pods -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Pod, PodKey, Timestamp};

    use super::*;

    /// How often the pods of each priority are counted, and how often they are there.
    fn counted(set: &PodSet, priority: i32, namespace: &str) -> [usize; 2] {
        let is_meant = |one: &Replicas<'_>| {
            one.template.priority == priority && one.namespace.as_str() == namespace
        };
        let counted = set.replicas().filter(is_meant).map(|one| one.n_pods).sum();
        let there = set.iter().filter(|pod| {
            pod.priority == priority && pod.key.namespace == namespace && !pod.is_terminating()
        });
        [counted, there.count()]
    }

    #[test]
    fn replicas_are_counted_as_they_come_change_and_go() {
        let templates: Vec<_> = (0..20)
            .map(|priority| Arc::new(PodTemplate { priority, ..PodTemplate::default() }))
            .collect();
        let mut set = PodSet::default();
        for number in 0..100_usize {
            let key = PodKey::new(["a", "b"][number % 2], format!("pod-{number}"));
            let mut pod = Pod::new(key, templates[number * 7 % 20].clone());
            if number % 5 == 0 {
                pod.deletion = Some(Timestamp::default());
            }
            set.insert(&PodInfo::new(pod.clone()));
            match number % 3 {
                0 => drop(set.remove(number / 2 % set.len())),
                1 => {
                    let at = set.len() - 1;
                    pod.deletion = Some(Timestamp::default());
                    set.replace(at, &PodInfo::new(pod));
                }
                _ => set.swap_with_last(0),
            }
            let mut copy = PodSet::default();
            copy.become_copy(&set);
            for (priority, namespace) in (0..20).flat_map(|one| [(one, "a"), (one, "b")]) {
                for set in [&set, &copy] {
                    let [counted, there] = counted(set, priority, namespace);
                    assert_eq!(counted, there, "after {number}: {priority} in {namespace}");
                }
            }
        }
    }
}
