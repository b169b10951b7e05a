//! Random groups of pods, and groups of groups.

use std::time::Duration;

use plimsoll_api::devices::ClaimSource;
use plimsoll_api::pod_group::{DisruptionMode, GroupPolicy};
use plimsoll_api::{
    AnyObject, CompositePodGroup, KindRef, ObjectKey, Pod, PodGroup, PodKey, PodResourceClaim,
    PodTemplate, PreemptionPolicy, ResourceClaimTemplate, Str,
};
use plimsoll_engine::Event;
use plimsoll_framework::{GroupGates, GroupRules, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::nodes::{HOSTNAME, ZONE};
use super::pods::non_zero;
use super::{BEGINNING, Maker, NAMESPACES, RandomWorkload};
use crate::happening::Happening;
use crate::lifecycle;

/// What makes the random numbers of groups others than those of the rest.
const STREAM: u64 = 0x9e37_79b9_7f4a_7c15;
/// The most members of a group.
const MOST_MEMBERS: u32 = 12;
/// The names of claims and templates on devices end with a number below this.
const CLAIMS: u32 = 3;
/// The number of namespaces, at most.
const MOST_NAMESPACES: u32 = 3;
/// The name of the claim that the pods of a group share.
const SHARED: &str = "shared";

/// Which groups a workload may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupFeatures {
    /// The gates of groups.
    pub(crate) gates: GroupGates,
    /// Whether groups share claims on devices.
    pub(crate) shares_claims: bool,
}

/// What the groups of a workload have in common.
#[derive(Clone, Copy, Debug)]
struct GroupTraits {
    features: GroupFeatures,
    /// How many priorities there are; with more than one, groups and pods evict.
    n_priorities: usize,
    has_devices: bool,
}

/// A group of groups that is being made.
#[derive(Debug)]
struct Tree {
    object: CompositePodGroup,
    n_children: u32,
}

impl RandomWorkload {
    /// Adds groups of pods, which take the place of about half of the other pods. They have random numbers of their own.
    pub(super) fn with_groups(
        mut self,
        seed: u64,
        features: GroupFeatures,
        maker: &mut Maker,
    ) -> Self {
        maker.rng = Pcg64::seed_from_u64(seed ^ STREAM);
        self.cluster.pods.retain(|_| maker.once_in(2));
        self.happenings.retain(|(_, what)| match what {
            Happening::Arrives(_) => maker.once_in(2),
            _ => true,
        });
        let is_template = |object: &AnyObject| object.get::<ResourceClaimTemplate>().is_some();
        let traits = GroupTraits {
            features,
            n_priorities: maker.pick(&[1, 3]),
            has_devices: self.cluster.objects.iter().any(is_template),
        };
        maker.add_groups(traits, &mut self);
        self.happenings.sort_by_key(|(at, _)| *at);
        self
    }
}

impl Maker {
    fn add_groups(&mut self, traits: GroupTraits, workload: &mut RandomWorkload) {
        let mut trees = self.trees(traits);
        for number in 0..self.rng.random_range(1..=4) {
            let tree = (!trees.is_empty() && !self.once_in(3))
                .then(|| self.rng.random_range(0..trees.len()));
            let n_members = match self.once_in(4) {
                true => self.rng.random_range(1..=MOST_MEMBERS),
                false => self.rng.random_range(1..=6),
            };
            let tree = tree.map(|tree| &mut trees[tree]);
            let group = self.group(traits, (number, n_members), tree);
            self.add_group(traits, group, n_members, workload);
        }
        for mut tree in trees {
            if self.once_in(2) {
                let min_count = self.rng.random_range(1..=tree.n_children.max(1));
                tree.object.policy = GroupPolicy::Gang { min_count };
            }
            self.comes(AnyObject::new(tree.object), workload);
        }
    }

    /// Groups of groups, of which one may be part of another.
    fn trees(&mut self, traits: GroupTraits) -> Vec<Tree> {
        if !traits.features.gates.composite || self.once_in(3) {
            return Vec::new();
        }
        let (namespace, _) = self.pick(&NAMESPACES);
        let priority = self.group_priority(traits);
        let mut trees: Vec<Tree> = (0..self.rng.random_range(1..=2))
            .map(|number: u32| Tree {
                object: CompositePodGroup {
                    key: ObjectKey::new(namespace, format!("t{number}")),
                    uid: format!("t{number}-uid").into(),
                    topology: self.topology(traits),
                    disruption: self.disruption(),
                    priority,
                    created: lifecycle::timestamp(self.some_time()),
                    ..CompositePodGroup::default()
                },
                n_children: 0,
            })
            .collect();
        if trees.len() == 2 && self.once_in(2) {
            trees[1].object.parent = Some("t0".into());
            trees[0].n_children += 1;
        }
        trees
    }

    fn group(
        &mut self,
        traits: GroupTraits,
        (number, n_members): (u32, u32),
        tree: Option<&mut Tree>,
    ) -> PodGroup {
        let (namespace, _) = self.pick(&NAMESPACES);
        let mut group = PodGroup {
            key: ObjectKey::new(namespace, format!("g{number}")),
            uid: format!("g{number}-1").into(),
            generation: 1,
            policy: self.policy(n_members),
            topology: self.topology(traits),
            disruption: self.disruption(),
            priority: self.group_priority(traits),
            created: lifecycle::timestamp(self.some_time()),
            ..PodGroup::default()
        };
        if let Some(tree) = tree {
            tree.n_children += 1;
            group.key.namespace.clone_from(&tree.object.key.namespace);
            group.parent = Some(tree.object.key.name.clone());
            group.priority = tree.object.priority;
        }
        if traits.features.gates.preemption_policy && self.once_in(6) {
            group.preemption_policy = PreemptionPolicy::Never;
        }
        if traits.has_devices && traits.features.shares_claims && !self.once_in(3) {
            let source = self.claim_source();
            group.resource_claims = vec![PodResourceClaim { name: SHARED.into(), source }];
        }
        group
    }

    /// Mostly a gang of all or some of so many pods. Some gangs need more than there are.
    fn policy(&mut self, n_members: u32) -> GroupPolicy {
        let min_count = match self.rng.random_range(0..12) {
            0..=3 => n_members,
            4 => n_members + 1,
            5..=8 => self.rng.random_range(1..=n_members),
            _ => return GroupPolicy::Basic,
        };
        GroupPolicy::Gang { min_count }
    }

    fn topology(&mut self, traits: GroupTraits) -> Option<Vec<Str>> {
        if !traits.features.gates.topology_aware {
            return None;
        }
        match self.rng.random_range(0..10) {
            0 => Some(Vec::new()),
            1 | 2 => Some(vec![ZONE.into()]),
            3 => Some(vec![HOSTNAME.into()]),
            _ => None,
        }
    }

    fn disruption(&mut self) -> DisruptionMode {
        if self.once_in(2) { DisruptionMode::All } else { DisruptionMode::Single }
    }

    fn group_priority(&mut self, traits: GroupTraits) -> i32 {
        [0, 5, 10][self.rng.random_range(0..traits.n_priorities)]
    }

    fn claim_source(&mut self) -> ClaimSource {
        let number = self.rng.random_range(0..CLAIMS);
        match self.once_in(3) {
            true => ClaimSource::Claim(format!("d{number}").into()),
            false => ClaimSource::Template(format!("t{number}").into()),
        }
    }

    /// Adds a group with its pods, and what becomes of them.
    fn add_group(
        &mut self,
        traits: GroupTraits,
        group: PodGroup,
        n_members: u32,
        workload: &mut RandomWorkload,
    ) {
        let members = self.members(traits, &group, n_members);
        let is_there = self.once_in(4);
        let comes = self.some_time();
        for member in members {
            let key = member.key.clone();
            if !member.scheduling_gates.is_empty() && !self.once_in(4) {
                workload.happenings.push((self.some_time(), Happening::IsUngated(key.clone())));
            }
            let again = self.once_in(8).then(|| self.made_again(&member));
            match self.rng.random_range(0..20) {
                // It never comes.
                0 => continue,
                // It comes early or late.
                1 | 2 => workload.happenings.push((self.some_time(), arrives(member))),
                _ if is_there => workload.cluster.pods.push(member),
                _ => {
                    let span = Duration::from_secs(self.rng.random_range(0..3));
                    workload.happenings.push((comes + span, arrives(member)));
                }
            }
            if let Some(again) = again {
                let (gone, span) = (self.some_time(), self.pick(&[0, 0, 10]));
                let deleted = Happening::IsDeleted(key, Duration::from_secs(span));
                workload.happenings.push((gone, deleted));
                if self.once_in(2) {
                    let later = Duration::from_secs(self.rng.random_range(0..30));
                    workload.happenings.push((gone + later, arrives(again)));
                }
            }
        }
        let is_mutable = traits.features.gates.rules == GroupRules::V1_37;
        if is_mutable && group.min_count().is_some() && self.once_in(3) {
            let n = self.rng.random_range(1..=n_members + 1);
            let needs = Happening::GroupNeeds(group.key.clone(), n);
            workload.happenings.push((self.some_time(), needs));
        }
        if self.once_in(8) {
            // What is deleted was there before: an object does not become another one.
            self.replace(&group, n_members, workload);
            workload.cluster.objects.push(AnyObject::new(group));
        } else {
            self.comes(AnyObject::new(group), workload);
        }
    }

    /// The object of a group is there from the beginning, or comes at some time. Some never come.
    fn comes(&mut self, object: AnyObject, workload: &mut RandomWorkload) {
        match self.rng.random_range(0..16) {
            0 => {}
            1..=3 => {
                let comes = Happening::Other(Event::object(object));
                workload.happenings.push((self.some_time(), comes));
            }
            _ => workload.cluster.objects.push(object),
        }
    }

    /// A group is deleted, and perhaps another one of the same name is made.
    fn replace(&mut self, group: &PodGroup, n_members: u32, workload: &mut RandomWorkload) {
        let at = self.some_time();
        let gone = Event::gone(KindRef::of::<PodGroup>(), group.key.clone());
        workload.happenings.push((at, Happening::Other(gone)));
        if self.once_in(2) {
            let uid = format!("{}-2", group.key.name).into();
            let policy = self.policy(n_members);
            let again = PodGroup { uid, policy, ..group.clone() };
            let later = Duration::from_secs(self.rng.random_range(0..30));
            workload.happenings.push((at + later, Happening::Other(Event::object(again))));
        }
    }

    /// The pods of a group: mostly all alike.
    fn members(&mut self, traits: GroupTraits, group: &PodGroup, n_members: u32) -> Vec<Pod> {
        // The number says in which namespace a pod is.
        let is_here = |number: &u32| Self::key(*number).namespace == group.key.namespace;
        let mut numbers = self.n_pods..self.n_pods + MOST_NAMESPACES;
        let number = numbers.find(is_here).expect("pods are in all namespaces in turn");
        let are_alike = !self.once_in(4);
        let own_policy = match self.once_in(6) {
            true => PreemptionPolicy::Never,
            false => PreemptionPolicy::PreemptLowerPriority,
        };
        let policy = match traits.features.gates.preemption_policy {
            true => group.preemption_policy,
            false => own_policy,
        };
        let priorities_differ = traits.features.gates.rules == GroupRules::V1_36 && self.once_in(4);
        let is_small = self.once_in(2);
        let first = PodTemplate::clone(&self.pod(number).template);
        (0..n_members)
            .map(|member| {
                let mut template = match are_alike {
                    true => first.clone(),
                    false => PodTemplate::clone(&self.pod(number).template),
                };
                if is_small {
                    shrink(&mut template);
                }
                template.scheduling_group = Some(group.key.name.clone());
                template.preemption_policy = policy;
                template.priority = group.priority;
                if priorities_differ || self.once_in(60) {
                    template.priority = self.group_priority(traits);
                }
                self.claim_for_member(traits, group, &mut template);
                let key = PodKey::new(
                    group.key.namespace.clone(),
                    format!("{}-{member}", group.key.name),
                );
                let uid = format!("{key}-{}", self.rng.random_range(0..u32::MAX)).into();
                let created = lifecycle::timestamp(Time::from_millis(BEGINNING));
                Pod { key, uid, created, template: template.into(), ..Pod::default() }
            })
            .collect()
    }

    fn claim_for_member(
        &mut self,
        traits: GroupTraits,
        group: &PodGroup,
        template: &mut PodTemplate,
    ) {
        if !traits.has_devices {
            return;
        }
        let shared = group.resource_claims.iter().filter(|_| !self.once_in(10)).cloned();
        let mut claims: Vec<PodResourceClaim> = shared.collect();
        if self.once_in(6) {
            let source = self.claim_source();
            claims.push(PodResourceClaim { name: "own".into(), source });
        }
        template.resource_claims = claims;
    }

    /// The same pod, made again.
    fn made_again(&mut self, pod: &Pod) -> Pod {
        let uid = format!("{}-{}", pod.key, self.rng.random_range(0..u32::MAX)).into();
        Pod { uid, ..pod.clone() }
    }
}

fn arrives(pod: Pod) -> Happening {
    Happening::Arrives(Box::new(pod))
}

/// Lets a pod ask for a quarter of what it asked for.
fn shrink(template: &mut PodTemplate) {
    let asks = &mut template.asks;
    for requests in [&mut template.requests, &mut asks.fit, &mut asks.balance, &mut asks.room] {
        requests.milli_cpu /= 4;
        requests.memory /= 4;
    }
    let non_zero = non_zero(&template.requests);
    (template.non_zero_requests, template.asks.room_non_zero) = (non_zero, non_zero);
}
