//! Finds what could be changed for a group: in its objects, in its pods, and in the cluster.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::pod_group::PREFERRED_TOPOLOGY;
use plimsoll_api::{Effect, ObjectKey, Str, Taint, Toleration};
use plimsoll_framework::parts::{Taints, Unschedulable};
use plimsoll_framework::pod_groups::PodGroupState;
use plimsoll_framework::{Columns, GroupRef, NodePart, Row};

use super::evictions;
use super::plan::{Changed, GroupObject, GroupPlan, Member};
use super::search::GroupSearch;
use super::ways::{Field, STEPS, TOPOLOGY, Way, What, count, count_of, joined, named, pods};
use crate::cluster::{Closed, opened};
use crate::new_nodes::{self, OWN_TAINTS};
use crate::relaxations::affinity::widenable;
use crate::relaxations::{self, Relaxation, requests};
use crate::remedy::size;

/// At most so many ways are tried. Each is one decision about the whole group.
const MOST_WAYS: usize = 256;
/// What could change in the objects of the first so many groups of a tree comes before what pods give up.
const MOST_OBJECTS: usize = 16;
/// At most so many new nodes are tried together.
const MOST_NEW_NODES: usize = 64;
/// At most so many new pods are tried together.
const MOST_NEW_PODS: usize = 1000;
/// Nodes like at most so many that there are.
const MOST_SORTS: usize = 3;
/// At most so many wider labels of nodes are tried as topology.
const MOST_KEYS: usize = 4;
/// At most so many other values of a label that the pods select.
const MOST_VALUES: usize = 4;
/// At most so many different sets of taints are tolerated.
const MOST_TAINTS: usize = 12;
/// At most so many nodes are opened together, each time in one of at most so many domains.
const MOST_OPENED: usize = 32;
const MOST_DOMAINS: usize = 8;
/// A spread constraint becomes a preference beyond so much more skew.
const MOST_SKEW: usize = 16;
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Everything that could be changed for a group, with what its pods could give up of their [`needs`](super::needs). `base` is the
/// group without what keeps it out of the queue.
pub(super) fn ways(search: &GroupSearch<'_>, base: &Changed, needs: Vec<Way>) -> Vec<Way> {
    let mut all = counts(search, base);
    all.extend(topologies(search, base));
    // What allows more comes before what is given up: of two ways the later one is taken first.
    all.extend(wider_selectors(search, base));
    all.extend(of_members(search, base));
    all.extend(needs);
    all.extend(spreads(base));
    all.extend(tolerations(search, base));
    all.extend(requests_of(base));
    all.extend(new_pods(search, base));
    all.extend(closed_nodes(search, base));
    all.extend(new_nodes_of(search, base));
    let units = evictions::units(search, topology_of(search.plan, base).as_ref());
    let priority = search.priority();
    all.extend(units.into_iter().map(|units| Way {
        field: Field::Others,
        grades: units.len(),
        what: What::Gone { units, priority },
    }));
    limited(all)
}

/// Not more ways than are tried, in their order: first those in the cluster, then those of most pods.
fn limited(all: Vec<Way>) -> Vec<Way> {
    let n_pods = |way: &Way| match &way.what {
        What::Members { of, .. } => of.len(),
        What::Steps { of, .. } => of.len(),
        What::Spread { of, .. } | What::Request { of, .. } => of.len(),
        What::Count { object, .. } | What::Topology { object, .. } if MOST_OBJECTS <= *object => 0,
        What::NewPods { .. } => 0,
        _ => usize::MAX,
    };
    let mut kept: Vec<(usize, Way)> = all.into_iter().enumerate().collect();
    kept.sort_by_key(|(at, way)| (Reverse(n_pods(way)), *at));
    kept.truncate(MOST_WAYS);
    kept.sort_by_key(|(at, _)| *at);
    kept.into_iter().map(|(_, way)| way).collect()
}

/// How many pods of a group there are, and how many groups of a composite one.
fn n_parts(search: &GroupSearch<'_>, base: &Changed, group: &GroupRef) -> usize {
    match group {
        GroupRef::Pods(key) => {
            let members = base.members.iter().filter(|member| member.group == *key).count();
            let state = search.scheduler.view().stores.groups.get(key);
            members + state.map_or(0, PodGroupState::n_placed)
        }
        GroupRef::Composite(_) => search.children(group),
    }
}

/// Gangs of fewer pods or groups.
fn counts(search: &GroupSearch<'_>, base: &Changed) -> Vec<Way> {
    let is_only = base.objects.len() == 1;
    let ways = base.objects.iter().enumerate().filter_map(|(at, object)| {
        let (before, field) = count_of(object.manifest.as_ref()?)?;
        let parts = i64::try_from(n_parts(search, base, &object.group)).unwrap_or(before);
        let most = (before - 1).min(parts);
        let text = if is_only {
            field.to_owned()
        } else {
            format!("{field} of {}", object.group.key().name)
        };
        let grades = usize::try_from(most).ok().filter(|grades| 0 < *grades)?;
        let what = What::Count { object: at, text, before, most };
        Some(Way { field: Field::Count(at), grades, what })
    });
    ways.collect()
}

/// The label that the pods of the group must share: its own, or that of a group around or below it.
pub(super) fn topology_of(plan: &GroupPlan, base: &Changed) -> Option<Str> {
    let key =
        |object: &GroupObject| object.manifest.as_ref()?.pointer(TOPOLOGY)?.as_str().map(Str::from);
    let asked = base.objects.iter().find(|object| object.group == plan.asked);
    asked.and_then(key).or_else(|| base.objects.iter().find_map(key))
}

/// Wider topologies, and none.
fn topologies(search: &GroupSearch<'_>, base: &Changed) -> Vec<Way> {
    let mut all = Vec::new();
    for (at, object) in base.objects.iter().enumerate() {
        let Some(manifest) = &object.manifest else { continue };
        let Some(key) = manifest.pointer(TOPOLOGY).and_then(|key| key.as_str()) else { continue };
        let whom = named(&object.group, base.objects.len() == 1);
        let mut add = |key: Option<Str>, is_preferred: bool, text: String, size: u32| {
            let what = What::Topology { object: at, key, is_preferred, text, size };
            all.push(Way { field: Field::Topology(at), grades: 1, what });
        };
        for (step, wider) in wider_keys(search.scheduler.view().nodes, key).into_iter().enumerate()
        {
            let text = format!("keep {whom} in one {wider} instead of one {key}");
            let size = size::WIDER_TOPOLOGY + size::ONE_WIDER_TOPOLOGY * count(step);
            add(Some(wider), false, text, size);
        }
        // Only a scheduler that reads the annotation knows what is preferred.
        if manifest["metadata"]["annotations"][PREFERRED_TOPOLOGY].is_string() {
            let text = format!("prefer one {key} for {whom} instead of requiring it");
            add(None, true, text, size::PREFERRED_TOPOLOGY);
        }
        let is = if whom.starts_with("all") { "are" } else { "is" };
        let text = format!("drop the constraint that {whom} {is} in one {key}");
        add(None, false, text, size::NO_TOPOLOGY);
    }
    all
}

/// The labels whose domains consist of whole domains of `key`, the narrowest first. If no node has the key, all labels that all
/// nodes have.
fn wider_keys(nodes: &Columns, key: &str) -> Vec<Str> {
    // For each label the value that goes with each domain of the key.
    let mut by_label: BTreeMap<Str, BTreeMap<Option<Str>, Str>> = BTreeMap::new();
    let mut not_wider = BTreeSet::new();
    let has_key = nodes.rows().any(|row| nodes.node(row).labels.get(key).is_some());
    let inside = |row: &Row| !has_key || nodes.node(*row).labels.get(key).is_some();
    let mut n_with: BTreeMap<Str, usize> = BTreeMap::new();
    let mut n_inside = 0;
    for row in nodes.rows().filter(inside) {
        n_inside += 1;
        let labels = &nodes.node(row).labels;
        let domain = labels.get(key).cloned();
        for (label, value) in labels.iter().filter(|(label, _)| **label != *key) {
            *n_with.entry(label.clone()).or_default() += 1;
            let values = by_label.entry(label.clone()).or_default();
            // Without the key each node is a domain of its own.
            let domain = domain.clone().or_else(|| Some(nodes.name_of(row).clone()));
            if values.entry(domain).or_insert_with(|| value.clone()) != value {
                not_wider.insert(label.clone());
            }
        }
    }
    let wider = by_label.into_iter().filter_map(|(label, values)| {
        let n_domains = values.len();
        let mut distinct: Vec<Str> = values.into_values().collect();
        distinct.sort();
        distinct.dedup();
        let is_wider = !not_wider.contains(&label)
            && n_with.get(&label) == Some(&n_inside)
            && distinct.len() < n_domains
            && *label != *HOSTNAME;
        is_wider.then_some((Reverse(distinct.len()), label))
    });
    let mut wider: Vec<_> = wider.collect();
    wider.sort();
    wider.into_iter().map(|(_, label)| label).take(MOST_KEYS).collect()
}

/// The pods that have the same, those of each group of a tree by themselves and all together: in words, and what more groups
/// cost.
pub(super) fn scopes(base: &Changed, of: &[usize]) -> Vec<(Vec<usize>, String, u32)> {
    let is_tree = 1 < base.objects.iter().filter(|one| is_of_pods(&one.group)).count();
    let mut groups: BTreeMap<&ObjectKey, Vec<usize>> = BTreeMap::new();
    for at in of {
        groups.entry(&base.members[*at].group).or_default().push(*at);
    }
    let n_more = groups.len().saturating_sub(1);
    let mut scopes: Vec<_> = groups
        .into_iter()
        .map(|(group, of)| {
            let name = is_tree.then_some(group.name.as_str());
            let text = pods(of.len(), name);
            (of, text, 0)
        })
        .collect();
    if 0 < n_more {
        scopes.push((of.to_vec(), pods(of.len(), None), size::ONE_GROUP * count(n_more)));
    }
    scopes
}

fn is_of_pods(group: &GroupRef) -> bool {
    matches!(group, GroupRef::Pods(_))
}

/// The ways in which each of these pods gives up the same. `of` has the pods with what they give up and how that is said.
fn same_in_all(base: &Changed, field: Field, of: &[OfMember]) -> Vec<Way> {
    let at: Vec<usize> = of.iter().map(|(at, ..)| *at).collect();
    let ways = scopes(base, &at).into_iter().map(|(scope, pods, extra)| {
        let chosen: Vec<_> = of.iter().filter(|(at, ..)| scope.contains(at)).collect();
        let mut texts: Vec<String> = Vec::new();
        for (.., text) in &chosen {
            if !texts.contains(text) {
                texts.push(text.clone());
            }
        }
        let size = chosen.iter().map(|(_, one, _)| one.size()).max().unwrap_or_default();
        let of = chosen.iter().map(|(at, one, _)| (*at, vec![one.clone()])).collect();
        let text = format!("{} in {pods}", joined(texts));
        Way { field, grades: 1, what: What::Members { of, text, size: size + extra } }
    });
    ways.collect()
}

/// What is dropped of a member, by its index, and how that is said.
type OfMember = (usize, Relaxation, String);

/// What the pods select and demand, dropped.
fn of_members(search: &GroupSearch<'_>, base: &Changed) -> Vec<Way> {
    let mut known: Vec<(Relaxation, Vec<OfMember>)> = Vec::new();
    let profiles = search.scheduler.profile_names();
    for (at, member) in base.members.iter().enumerate() {
        let Some(manifest) = &member.manifest else { continue };
        let others = profiles.iter().filter(|name| **name != *member.pod.scheduler_name);
        let all = Relaxation::all_of(&member.pod, manifest).into_iter();
        let all = all.chain(others.cloned().map(Relaxation::Profile));
        for relaxation in all {
            if matches!(relaxation, Relaxation::Request(_) | Relaxation::Spread(_)) {
                continue;
            }
            let one = (at, relaxation.clone(), relaxation.text(manifest));
            match known.iter_mut().find(|(known, _)| *known == relaxation) {
                Some((_, of)) => of.push(one),
                None => known.push((relaxation, vec![one])),
            }
        }
    }
    let mut all = Vec::new();
    for (relaxation, of) in known {
        let field = Field::Members(relaxation.field());
        let mut by_text: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for one in &of {
            by_text.entry(&one.2).or_default().push(one.clone());
        }
        // Pods that differ in this may differ in what keeps them from nodes.
        if 1 < by_text.len() {
            all.extend(by_text.values().flat_map(|of| same_in_all(base, field, of)));
        }
        all.extend(same_in_all(base, field, &of));
    }
    all
}

/// More values of the labels that the pods select.
fn wider_selectors(search: &GroupSearch<'_>, base: &Changed) -> Vec<Way> {
    let nodes = search.scheduler.view().nodes;
    let mut known: Vec<(relaxations::affinity::Widenable, Vec<usize>)> = Vec::new();
    for (at, member) in base.members.iter().enumerate() {
        let manifest = member.manifest.as_deref();
        for one in manifest.map(widenable).unwrap_or_default() {
            match known.iter_mut().find(|(known, _)| *known == one) {
                Some((_, of)) => of.push(at),
                None => known.push((one, vec![at])),
            }
        }
    }
    let mut all = Vec::new();
    for (one, of) in known {
        let mut values: BTreeMap<&Str, usize> = BTreeMap::new();
        for row in nodes.rows() {
            if let Some(value) = nodes.node(row).labels.get(&one.key)
                && !one.values.iter().any(|known| *known == **value)
            {
                *values.entry(value).or_default() += 1;
            }
        }
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by_key(|(value, n_nodes)| (Reverse(*n_nodes), *value));
        for (value, _) in values.into_iter().take(MOST_VALUES) {
            let relaxation = one.with(value);
            let of = of.iter().filter_map(|at| {
                let text = relaxation.text(base.members[*at].manifest.as_ref()?);
                Some((*at, relaxation.clone(), text))
            });
            all.extend(same_in_all(base, Field::Wider, &of.collect::<Vec<_>>()));
        }
    }
    all
}

/// Spread constraints over the same label, which allow more skew or become preferences.
fn spreads(base: &Changed) -> Vec<Way> {
    let mut known: BTreeMap<(usize, String), Vec<usize>> = BTreeMap::new();
    for (at, member) in base.members.iter().enumerate() {
        let Some(manifest) = &member.manifest else { continue };
        for relaxation in Relaxation::all_of(&member.pod, manifest) {
            if let Relaxation::Spread(constraint) = relaxation {
                let text = relaxation.text(manifest);
                known.entry((constraint, text)).or_default().push(at);
            }
        }
    }
    let scoped = known.into_iter().flat_map(|((at, _), of)| {
        let scopes = scopes(base, &of).into_iter();
        scopes.map(move |scope| (at, scope))
    });
    let ways = scoped.map(|(at, (of, pods, extra))| Way {
        field: Field::Members(relaxations::Field::Spread),
        grades: of.len().min(MOST_SKEW) + 1,
        what: What::Spread { of, at, pods, extra },
    });
    ways.collect()
}

/// The different tolerations of the pods.
fn tolerations_of(members: &[Member]) -> Vec<&[Toleration]> {
    let mut all: Vec<&[Toleration]> = Vec::new();
    for member in members {
        if !all.contains(&member.pod.tolerations.as_slice()) {
            all.push(&member.pod.tolerations);
        }
    }
    all
}

fn is_tolerated(taint: &Taint, by: &[Toleration]) -> bool {
    by.iter().any(|one| one.tolerates(taint, <_>::default()))
}

/// The sets of taints that keep pods from nodes, those of the most nodes first.
fn tolerations(search: &GroupSearch<'_>, base: &Changed) -> Vec<Way> {
    let nodes = search.scheduler.view().nodes;
    let by = tolerations_of(&base.members);
    let is_in_the_way = |taint: &&Taint| {
        taint.effect != Effect::PreferNoSchedule && by.iter().any(|by| !is_tolerated(taint, by))
    };
    let is_own = |taint: &Taint| taint.key.starts_with(OWN_TAINTS);
    let mut sets: BTreeMap<Vec<Taint>, usize> = BTreeMap::new();
    for row in nodes.rows() {
        let taints = Taints::at(nodes, row);
        if taints.is_empty() {
            continue;
        }
        let (own, others): (Vec<_>, Vec<_>) =
            taints.iter().filter(is_in_the_way).cloned().partition(is_own);
        // Taints of Kubernetes itself are not put up with. The others may be, and help once those are gone.
        if !others.is_empty() {
            *sets.entry(others).or_default() += usize::from(own.is_empty());
        }
    }
    let mut sets: Vec<_> = sets.into_iter().collect();
    sets.sort_by_key(|(taints, n_nodes)| (taints.len(), Reverse(*n_nodes)));
    let mut all = Vec::new();
    for (taints, _) in sets.into_iter().take(MOST_TAINTS) {
        let of = base.members.iter().enumerate().filter_map(|(at, member)| {
            let manifest = member.manifest.as_ref()?;
            let missing = taints.iter().filter(|one| !is_tolerated(one, &member.pod.tolerations));
            let missing: Vec<Taint> = missing.cloned().collect();
            let relaxation = (!missing.is_empty()).then_some(Relaxation::Taints(missing))?;
            let text = relaxation.text(manifest);
            Some((at, relaxation, text))
        });
        let field = Field::Members(relaxations::Field::Taints);
        all.extend(same_in_all(base, field, &of.collect::<Vec<_>>()));
    }
    all
}

/// Each resource that pods request.
fn requests_of(base: &Changed) -> Vec<Way> {
    let mut known: BTreeMap<Str, Vec<usize>> = BTreeMap::new();
    for (at, member) in base.members.iter().enumerate() {
        if member.manifest.is_some() {
            for name in requests::names(&member.pod) {
                known.entry(name).or_default().push(at);
            }
        }
    }
    let scoped = known.into_iter().flat_map(|(name, of)| {
        let scopes = scopes(base, &of).into_iter();
        scopes.map(move |scope| (name.clone(), scope))
    });
    let ways = scoped.map(|(name, (of, pods, extra))| Way {
        field: Field::Members(relaxations::Field::Requests),
        grades: STEPS - 1,
        what: What::Request { of, name, pods, extra },
    });
    ways.collect()
}

/// The pods that gangs still wait for.
fn new_pods(search: &GroupSearch<'_>, base: &Changed) -> Vec<Way> {
    let ways = base.objects.iter().filter_map(|object| {
        let GroupRef::Pods(group) = &object.group else { return None };
        let (min_count, _) = count_of(object.manifest.as_ref()?)?;
        let there = n_parts(search, base, &object.group);
        let n = usize::try_from(min_count).ok()?.checked_sub(there)?;
        if !(1..=MOST_NEW_PODS).contains(&n) {
            return None;
        }
        let is_model = |member: &Member| member.group == *group && member.manifest.is_some();
        let like = base.members.iter().position(is_model)?;
        let name = &base.members[like].pod.key.name;
        let more = if n == 1 { "1 more pod".to_owned() } else { format!("{n} more pods") };
        let text = format!(
            "create {more} like {name}: the gang waits for {min_count}, and {there} are there"
        );
        let what = What::NewPods { like, n, text };
        Some(Way { field: Field::NewPods, grades: 1, what })
    });
    ways.collect()
}

/// Nodes that are cordoned, or have taints, in each domain of the topology: those first that are opened with the least.
fn closed_nodes(search: &GroupSearch<'_>, base: &Changed) -> Vec<Way> {
    let nodes = search.scheduler.view().nodes;
    let key = topology_of(search.plan, base);
    let by = tolerations_of(&base.members);
    let tolerated = |taint: &Taint| by.iter().all(|by| is_tolerated(taint, by));
    let mut closed: Vec<(Str, Row)> = Vec::new();
    for row in nodes.rows() {
        if Taints::at(nodes, row).is_empty() && !Unschedulable::at(nodes, row) {
            continue;
        }
        match &key {
            None => closed.push((Str::default(), row)),
            Some(key) => {
                let domain = nodes.node(row).labels.get(key);
                closed.extend(domain.map(|domain| (domain.clone(), row)));
            }
        }
    }
    let mut all = Vec::new();
    let (mut with_cordons, mut with_taints) = (BTreeSet::new(), BTreeSet::new());
    for what in [Closed::Cordon, Closed::Taints, Closed::Both] {
        let mut domains: BTreeMap<&Str, Vec<_>> = BTreeMap::new();
        for (domain, row) in &closed {
            let node = nodes.node(*row);
            if let Some(change) = opened(node, what, tolerated) {
                let free = node.allocatable.milli_cpu - nodes.requested_of(*row).milli_cpu;
                let one = ((change.size, Reverse(free), &node.name), change);
                domains.entry(domain).or_default().push(one);
            }
        }
        match what {
            Closed::Cordon => with_cordons.extend(domains.keys().copied()),
            Closed::Taints => with_taints.extend(domains.keys().copied()),
            // Elsewhere it is the same as one of the two.
            Closed::Both => domains
                .retain(|domain, _| with_cordons.contains(domain) && with_taints.contains(domain)),
        }
        for mut changes in domains.into_values().take(MOST_DOMAINS) {
            changes.sort_by(|one, other| one.0.cmp(&other.0));
            changes.truncate(MOST_OPENED);
            let changes: Vec<_> = changes.into_iter().map(|(_, change)| change).collect();
            let (field, grades) = (Field::Nodes, changes.len());
            all.push(Way { field, grades, what: What::Open(changes) });
        }
    }
    all
}

fn new_nodes_of(search: &GroupSearch<'_>, base: &Changed) -> Vec<Way> {
    let rows = new_nodes::models(search.scheduler.view().nodes);
    let grades = base.members.len().clamp(1, MOST_NEW_NODES);
    let way = |row| Way { field: Field::NewNodes, grades, what: What::NewNodes(row) };
    rows.into_iter().take(MOST_SORTS).map(way).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_ways_those_of_most_pods_are_kept_in_their_order() {
        let way = |n: usize| {
            let of = (0..n).map(|at| (at, Vec::new())).collect();
            let what = What::Members { of, text: n.to_string(), size: 1 };
            Way { field: Field::Wider, grades: 1, what }
        };
        let nodes = Way { field: Field::Nodes, grades: 1, what: What::Open(Vec::new()) };
        let mut all: Vec<Way> = (0..2 * MOST_WAYS).map(|_| way(1)).collect();
        all.insert(7, way(3));
        all.push(way(2));
        all.push(nodes);
        let kept = limited(all);
        assert_eq!(kept.len(), MOST_WAYS);
        let n_pods = |way: &Way| match &way.what {
            What::Members { of, .. } => of.len(),
            _ => 0,
        };
        let n_pods: Vec<usize> = kept.iter().map(n_pods).collect();
        assert_eq!((n_pods[6], n_pods[7], n_pods[8]), (1, 3, 1));
        assert_eq!(n_pods[MOST_WAYS - 2..], [2, 0]);
    }
}
