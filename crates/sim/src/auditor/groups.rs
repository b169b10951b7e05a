//! Checks groups of pods: none is placed in part, none is spread over domains, and none is evicted in part that must not be.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::pod_group::{DisruptionMode, GroupPolicy};
use plimsoll_api::{
    AnyObject, CompositePodGroup, KindRef, ObjectKey, Pod, PodGroup, PodKey, ResourceClaim, Str,
};
use plimsoll_engine::{GroupDecision, MemberDecision, MemberResult, Observation};
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{GroupGates, GroupRules, Time};

use super::{Auditor, ObservedCluster};

/// The most levels of groups in the API.
const LEVELS: usize = 4;

/// The groups of the cluster.
#[derive(Debug, Default)]
pub(crate) struct ObservedGroups {
    pub(super) gates: GroupGates,
    pub(super) groups: BTreeMap<ObjectKey, PodGroup>,
    pub(super) composites: BTreeMap<ObjectKey, CompositePodGroup>,
}

/// A group that is part of a chain from a pod to the root of its tree.
#[derive(Clone, Copy, Debug)]
enum Link<'a> {
    Pods(&'a PodGroup),
    Composite(&'a CompositePodGroup),
}

impl Link<'_> {
    fn key(&self) -> &ObjectKey {
        match self {
            Link::Pods(group) => &group.key,
            Link::Composite(group) => &group.key,
        }
    }

    fn priority(&self) -> i32 {
        match self {
            Link::Pods(group) => group.priority,
            Link::Composite(group) => group.priority,
        }
    }

    fn is_evicted_as_a_whole(&self) -> bool {
        let mode = match self {
            Link::Pods(group) => group.disruption,
            Link::Composite(group) => group.disruption,
        };
        mode == DisruptionMode::All
    }

    fn topology_key(&self) -> Option<&Str> {
        match self {
            Link::Pods(group) => group.topology_key(),
            Link::Composite(group) => group.topology_key(),
        }
    }
}

impl ObservedGroups {
    pub(super) fn observe(&mut self, seen: &Observation<AnyObject, (KindRef, ObjectKey)>) {
        match seen {
            Observation::Is(object) => {
                if let Some(group) = object.get::<PodGroup>() {
                    self.groups.insert(group.key.clone(), group.clone());
                } else if let Some(group) = object.get::<CompositePodGroup>() {
                    self.composites.insert(group.key.clone(), group.clone());
                }
            }
            Observation::Gone((kind, key)) if kind.is::<PodGroup>() => {
                self.groups.remove(key);
            }
            Observation::Gone((kind, key)) if kind.is::<CompositePodGroup>() => {
                self.composites.remove(key);
            }
            Observation::Gone(_) => {}
        }
    }

    /// The group of a pod and those above it, as far as they exist.
    fn chain(&self, pod: &Pod) -> Vec<Link<'_>> {
        let Some(group) = group_of(pod).and_then(|key| self.groups.get(&key)) else {
            return Vec::new();
        };
        let mut chain = vec![Link::Pods(group)];
        let mut parent = group.parent.as_ref().filter(|_| self.gates.composite);
        while let Some(name) = parent.filter(|_| chain.len() < LEVELS) {
            let key = ObjectKey::new(pod.key.namespace.clone(), name.clone());
            let Some(above) = self.composites.get(&key) else { break };
            chain.push(Link::Composite(above));
            parent = above.parent.as_ref();
        }
        chain
    }

    /// Whether a pod may have to leave because others of its group do, on whatever nodes they are.
    pub(super) fn leaves_with_others(&self, pod: &Pod) -> bool {
        self.chain(pod).iter().any(Link::is_evicted_as_a_whole)
    }

    /// The priority by which a pod evicts, or its group.
    pub(super) fn priority_of_preemptor(&self, pod: &Pod, for_group: bool) -> i32 {
        match (for_group, self.gates.rules) {
            (false, _) => pod.priority,
            (true, GroupRules::V1_36) => self.chain(pod).first().map_or(0, Link::priority),
            (true, GroupRules::V1_37) => self.chain(pod).last().map_or(0, Link::priority),
        }
    }

    /// The priority by which a pod is evicted for another one, or for the group of that.
    pub(super) fn priority_of_victim(&self, pod: &Pod, for_group: bool) -> i32 {
        let chain = self.chain(pod);
        let counts = match (for_group, self.gates.rules) {
            _ if !self.gates.generic_workload => None,
            (false, GroupRules::V1_36) => None,
            (true, GroupRules::V1_36) => {
                chain.first().filter(|group| group.is_evicted_as_a_whole())
            }
            (_, GroupRules::V1_37) => chain.last(),
        };
        counts.map_or(pod.priority, Link::priority)
    }

    /// The group that is evicted as a whole if this pod is.
    fn evicted_with(&self, pod: &Pod) -> Option<ObjectKey> {
        let chain = self.chain(pod);
        let whole = chain.iter().rfind(|group| group.is_evicted_as_a_whole());
        whole.map(|group| group.key().clone())
    }
}

impl ObservedCluster {
    /// Whether a pod is scheduled together with others.
    pub(super) fn is_member(&self, pod: &Pod) -> bool {
        self.groups.gates.generic_workload && pod.scheduling_group.is_some()
    }

    /// Whether some pod of a group is on a node.
    pub(super) fn has_placed_members(&self) -> bool {
        self.placed().any(|(pod, _)| self.is_member(pod))
    }

    fn n_placed(&self, group: &ObjectKey) -> usize {
        self.placed().filter(|(pod, _)| group_of(pod).as_ref() == Some(group)).count()
    }

    /// Whether so many pods of a group are on nodes that it may be bound.
    fn is_complete(&self, group: &PodGroup) -> bool {
        let least = match group.policy {
            GroupPolicy::Gang { min_count } if self.groups.gates.gang_scheduling => min_count,
            GroupPolicy::Gang { .. } | GroupPolicy::Basic => 1,
        };
        usize::try_from(least).is_ok_and(|least| least <= self.n_placed(&group.key))
    }

    /// Whether so many groups of a group of groups are complete that it may be bound.
    fn is_tree_complete(&self, tree: &CompositePodGroup, levels: usize) -> bool {
        let is_child = |key: &ObjectKey, parent: Option<&Str>| {
            key.namespace == tree.key.namespace && parent == Some(&tree.key.name)
        };
        let groups = self.groups.groups.values();
        let groups = groups.filter(|one| is_child(&one.key, one.parent.as_ref()));
        let below = self.groups.composites.values();
        let below = below.filter(|one| 0 < levels && is_child(&one.key, one.parent.as_ref()));
        let n_complete = groups.filter(|one| self.is_complete(one)).count()
            + below.filter(|one| self.is_tree_complete(one, levels - 1)).count();
        let least = tree.policy.min_count().unwrap_or(1);
        usize::try_from(least).is_ok_and(|least| least <= n_complete)
    }

    /// Checks that enough pods are on nodes for the groups of a pod that has got one, and that they are where these groups
    /// must be.
    fn is_whole(&self, pod: &Pod) -> Result<(), String> {
        let gates = self.groups.gates;
        let chain = self.groups.chain(pod);
        if chain.is_empty() && gates.gang_scheduling {
            return Err("there is no such group".to_owned());
        }
        for group in chain {
            let is_complete = match group {
                Link::Pods(group) => self.is_complete(group),
                Link::Composite(group) => self.is_tree_complete(group, LEVELS),
            };
            if !is_complete {
                return Err(format!("{} is placed in part", group.key()));
            }
            if let Some(key) = group.topology_key().filter(|_| gates.topology_aware) {
                self.is_in_one_domain(group.key(), key)?;
            }
        }
        Ok(())
    }

    /// Checks that all pods of a group on nodes are in the same domain.
    fn is_in_one_domain(&self, group: &ObjectKey, topology_key: &Str) -> Result<(), String> {
        let is_of = |pod: &Pod| self.groups.chain(pod).iter().any(|one| one.key() == group);
        let mut domains = BTreeSet::new();
        for (pod, node) in self.placed().filter(|(pod, _)| is_of(pod)) {
            let domain = self.nodes.get(node).and_then(|node| node.labels.get(topology_key));
            let Some(domain) = domain else {
                return Err(format!("{} of {group} is in no {topology_key}", pod.key));
            };
            domains.insert(domain);
        }
        match domains.len() {
            0 | 1 => Ok(()),
            _ => Err(format!("{group} is in {domains:?} of {topology_key}")),
        }
    }

    /// The pods that are going, and must leave together with one of these victims.
    pub(super) fn going_with(&self, victims: &BTreeSet<PodKey>) -> BTreeSet<PodKey> {
        let units = self.units_of(victims);
        let is_of_unit =
            |pod: &Pod| self.groups.evicted_with(pod).is_some_and(|unit| units.contains(&unit));
        let going = self.pods.values().filter(|pod| pod.is_terminating() && is_of_unit(pod));
        going.map(|pod| pod.key.clone()).collect()
    }

    /// The groups of these victims that must leave as a whole.
    fn units_of(&self, victims: &BTreeSet<PodKey>) -> BTreeSet<ObjectKey> {
        let pods = victims.iter().filter_map(|victim| self.pods.get(victim));
        pods.filter_map(|pod| self.groups.evicted_with(pod)).collect()
    }

    /// Checks that groups that must leave as a whole do so.
    fn are_whole_units(&self, victims: &BTreeSet<PodKey>) -> Result<(), String> {
        let units = self.units_of(victims);
        let stays = |pod: &Pod| !victims.contains(&pod.key) && !pod.is_terminating();
        // A pod whose node is gone will be deleted itself, and is no victim in kube-scheduler either: that sees it on no node.
        let there = self.placed().filter(|(_, node)| self.nodes.contains_key(*node));
        for (pod, _) in there.filter(|(pod, _)| stays(pod)) {
            let unit = self.groups.evicted_with(pod).filter(|unit| units.contains(unit));
            if let Some(unit) = unit {
                return Err(format!("{} of {unit} stays, which leaves as a whole", pod.key));
            }
        }
        Ok(())
    }
}

impl Auditor {
    /// Checks a decision about a group.
    pub(crate) fn decided_group(&mut self, now: Time, decision: &GroupDecision) {
        let group = &decision.group;
        if self.known.groups.gates.preemption {
            let victims = decision.victims.iter().cloned().collect();
            if let Err(why) = self.known.are_whole_units(&victims) {
                self.violated(now, format!("{group} evicts, but {why}"));
            }
        }
        if let Some(says) = decision.broken_budgets
            && let Err(why) = self.known.are_as_harmful_as_said(&decision.victims, says)
        {
            self.violated(now, format!("{group} evicts, but {why}"));
        }
        for member in decision.pods.iter().filter_map(MemberDecision::as_decision) {
            self.decided(now, &member);
        }
        let is_placed =
            |member: &&MemberDecision| matches!(member.result, MemberResult::Scheduled { .. });
        for member in decision.pods.iter().filter(is_placed) {
            let pod = self.known.pods.get(&member.pod);
            if let Some(Err(why)) = pod.map(|pod| self.known.is_whole(pod)) {
                self.violated(now, format!("{} of {group} was placed, but {why}", member.pod));
                break;
            }
        }
    }

    /// Reports that a group waits although a fresh attempt would place it; once.
    pub(crate) fn group_sleeps(&mut self, now: Time, group: &ObjectKey) {
        if self.asleep.insert(group.clone()) {
            self.violated(now, format!("the group {group} sleeps, but it would be placed"));
        }
    }

    /// A claim that was made for a group is reserved for groups alone.
    pub(super) fn is_for_groups(claim: &ResourceClaim) -> Result<(), String> {
        let is_of_group = claim.controller.as_ref().is_some_and(|owner| owner.kind == "PodGroup");
        match claim.reserved_for.iter().find(|one| is_of_group && !one.is_group()) {
            Some(pod) => Err(format!("it is reserved for {}, and was made for a group", pod.name)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Node, PodTemplate, PreemptionPolicy};
    use plimsoll_engine::{Event, GroupResult};

    use super::*;

    const ON: GroupGates = GroupGates {
        generic_workload: true,
        gang_scheduling: true,
        topology_aware: true,
        preemption: true,
        composite: true,
        preemption_policy: false,
        rules: GroupRules::V1_37,
    };

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("default", name)
    }

    fn pod(name: &str, group: &str) -> Pod {
        let scheduling_group = Some(group.into()).filter(|group: &Str| !group.is_empty());
        let template = PodTemplate {
            scheduling_group,
            preemption_policy: PreemptionPolicy::PreemptLowerPriority,
            ..PodTemplate::default()
        };
        Pod::new(PodKey::new("default", name), template)
    }

    fn gang(name: &str, min_count: u32) -> PodGroup {
        let policy = GroupPolicy::Gang { min_count };
        PodGroup { key: key(name), policy, ..PodGroup::default() }
    }

    /// An auditor that knows nodes in two zones, these objects and these pods.
    fn auditor(objects: Vec<AnyObject>, pods: &[Pod]) -> Auditor {
        let groups = ObservedGroups { gates: ON, ..ObservedGroups::default() };
        let known = ObservedCluster { groups, ..ObservedCluster::default() };
        let mut auditor = Auditor { known, ..Auditor::default() };
        for (name, zone) in [("a", "z1"), ("b", "z2")] {
            let labels = [("zone", zone)].into_iter().collect();
            let node = Node { name: name.into(), labels, ..Node::default() };
            auditor.observe(&Event::Node(Box::new(Observation::Is(node))));
        }
        for object in objects {
            auditor.observe(&Event::object(object));
        }
        for pod in pods {
            auditor.observe(&Event::pod(pod.clone()));
        }
        auditor
    }

    fn decision(group: &str, placed: &[(&str, &str)], victims: &[&str]) -> GroupDecision {
        let member = |(pod, node): &(&str, &str)| MemberDecision {
            pod: PodKey::new("default", *pod),
            result: MemberResult::Scheduled { node: (*node).into(), best: Vec::new() },
            nodes: Vec::new(),
        };
        GroupDecision {
            group: key(group),
            is_composite: false,
            attempt: 1,
            result: GroupResult::Scheduled,
            message: None,
            placement: None,
            placements: Vec::new(),
            pods: placed.iter().map(member).collect(),
            victims: victims.iter().map(|name| PodKey::new("default", *name)).collect(),
            broken_budgets: None,
            condition: None,
            groups: Vec::new(),
        }
    }

    /// What is found wrong with a decision.
    fn found(mut auditor: Auditor, decision: &GroupDecision) -> String {
        auditor.decided_group(Time::ZERO, decision);
        let found: Vec<&str> = auditor.violations().iter().map(|one| one.what.as_str()).collect();
        found.join("; ")
    }

    #[test]
    fn a_gang_is_placed_with_as_many_pods_as_it_needs() {
        let pods = [pod("p", "g"), pod("q", "g")];
        let both = decision("g", &[("p", "a"), ("q", "b")], &[]);
        let one = decision("g", &[("p", "a")], &[]);
        assert_eq!(found(auditor(vec![gang("g", 2).into()], &pods), &both), "");
        assert_eq!(
            found(auditor(vec![gang("g", 2).into()], &pods), &one),
            "default/p of default/g was placed, but default/g is placed in part"
        );
        let running = Pod { node_name: Some("b".into()), ..pod("q", "g") };
        assert_eq!(found(auditor(vec![gang("g", 2).into()], &[pod("p", "g"), running]), &one), "");
        let without = found(auditor(Vec::new(), &pods), &both);
        assert_eq!(without, "default/p of default/g was placed, but there is no such group");
    }

    #[test]
    fn a_group_of_groups_is_placed_with_as_many_groups_as_it_needs() {
        let tree = |min_count| CompositePodGroup {
            key: key("t"),
            policy: GroupPolicy::Gang { min_count },
            ..CompositePodGroup::default()
        };
        let leaf = |name| PodGroup { parent: Some("t".into()), ..gang(name, 1) };
        let cluster = |min_count| {
            let objects = vec![leaf("g").into(), leaf("h").into(), tree(min_count).into()];
            auditor(objects, &[pod("p", "g"), pod("q", "h")])
        };
        let one = decision("t", &[("p", "a")], &[]);
        assert_eq!(found(cluster(1), &one), "");
        let text = "default/p of default/t was placed, but default/t is placed in part";
        assert_eq!(found(cluster(2), &one), text);
        assert_eq!(found(cluster(2), &decision("t", &[("p", "a"), ("q", "b")], &[])), "");
    }

    #[test]
    fn a_group_with_a_topology_is_in_one_domain() {
        let topology = Some(vec!["zone".into()]);
        let group = || PodGroup { topology: topology.clone(), ..gang("g", 1) };
        let cluster = || auditor(vec![group().into()], &[pod("p", "g"), pod("q", "g")]);
        let apart = found(cluster(), &decision("g", &[("p", "a"), ("q", "b")], &[]));
        assert!(apart.ends_with(r#"default/g is in {"z1", "z2"} of zone"#), "{apart}");
        assert_eq!(found(cluster(), &decision("g", &[("p", "a"), ("q", "a")], &[])), "");
    }

    #[test]
    fn a_group_that_leaves_as_a_whole_is_not_evicted_in_part() {
        let whole = PodGroup { disruption: DisruptionMode::All, ..gang("w", 1) };
        let on = |node: &str, pod| Pod { node_name: Some(node.into()), ..pod };
        let pods = [pod("p", "g"), on("a", pod("v", "w")), on("b", pod("w", "w"))];
        let cluster = || auditor(vec![whole.clone().into(), gang("g", 1).into()], &pods);
        let part = found(cluster(), &decision("g", &[], &["v"]));
        assert_eq!(
            part,
            "default/g evicts, but default/w of default/w stays, which leaves as a whole"
        );
        assert_eq!(found(cluster(), &decision("g", &[], &["v", "w"])), "");
        let mut without_node = cluster();
        without_node.observe(&Event::Node(Box::new(Observation::Gone("b".into()))));
        assert_eq!(found(without_node, &decision("g", &[], &["v"])), "");
    }
}
