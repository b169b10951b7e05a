//! The search for what would let a group be scheduled.

use std::collections::BTreeMap;

use plimsoll_api::{Pod, Str};
use plimsoll_engine::{GroupDecision, GroupResult, Scheduler};
use plimsoll_framework::{Columns, GroupRules, PodGroupState, Time};
use serde_json::{Value, json};

use super::evictions;
use super::plan::{Changed, GroupPlan};
use super::{GroupRemedy, GroupSubject, n_placed};
use crate::draft::Manifests;
use crate::new_nodes;
use crate::relaxations::{list, requests};
use crate::remedy::{RemedyKind, size};

/// At most so many new nodes are tried together.
const MOST_NODES: usize = 64;
/// Nodes like at most so many that there are.
const MOST_SORTS: usize = 3;
/// At most so many other labels of nodes are tried as topology.
const MOST_KEYS: usize = 4;
/// Requests are lowered in steps of this part.
const STEPS: i64 = 20;
const HOSTNAME: &str = "kubernetes.io/hostname";
const MIN_COUNT: &str = "/spec/schedulingPolicy/gang/minCount";
const TOPOLOGY: &str = "/spec/schedulingConstraints/topology";

/// A search for one group.
pub(super) struct GroupSearch<'s> {
    pub(super) scheduler: &'s mut Scheduler,
    pub(super) now: Time,
    pub(super) plan: &'s GroupPlan,
    manifests: Manifests<'s>,
    /// What keeps its pods out of the queue is removed here.
    base: Changed,
    needed: Option<(String, u32)>,
    most: usize,
    remedies: Vec<GroupRemedy>,
}

impl<'s> GroupSearch<'s> {
    pub(super) fn new(
        scheduler: &'s mut Scheduler,
        now: Time,
        plan: &'s GroupPlan,
        subject: &'s GroupSubject<'s>,
    ) -> Self {
        let (manifests, most) = (subject.manifests, subject.remedies);
        let (base, needed, remedies) = (plan.as_it_is(), None, Vec::new());
        GroupSearch { scheduler, now, plan, manifests, base, needed, most, remedies }
    }

    /// Looks for remedies, the smallest first. `decision` is that about the group as it is.
    pub(super) fn run(mut self, decision: &GroupDecision) -> Vec<GroupRemedy> {
        self.open_gates(decision);
        if !self.fits(&self.base.clone()) {
            self.try_min_count();
            self.try_topology();
            self.try_requests();
            self.try_nodes();
            self.try_evictions();
            self.try_priority();
        }
        self.remedies.sort_by(|a, b| (a.size, &a.text).cmp(&(b.size, &b.text)));
        self.remedies.dedup_by(|a, b| a.text == b.text);
        self.remedies.truncate(self.most);
        self.remedies
    }

    /// What keeps the group out of the queue is given first: it is needed whatever else is.
    fn open_gates(&mut self, decision: &GroupDecision) {
        let (mut texts, mut total) = (Vec::new(), 0);
        let mut gated = 0;
        for member in &mut self.base.members {
            if !list(member, "/spec/schedulingGates").is_empty() {
                crate::relaxations::remove_key(member, "/spec", "schedulingGates");
                gated += 1;
            }
        }
        if 0 < gated {
            let pods = if gated == 1 { "pod" } else { "pods" };
            texts.push(format!("remove the scheduling gates of {gated} {pods}"));
            total += size::GATE;
        }
        let n_pods = self.base.members.len() + self.n_running();
        if self.base.object.is_none() {
            let name = &self.plan.group.name;
            texts.push(format!("create the PodGroup {name} (here with minCount {n_pods})"));
            total += size::NEW_CLAIM;
            self.base.object = Some(self.new_group(n_pods));
        } else if decision.result == GroupResult::Waiting && texts.is_empty() {
            self.try_fewer_or_more(n_pods);
            return;
        }
        if !texts.is_empty() {
            self.needed = Some((texts.join(", and "), total));
            let base = self.base.clone();
            self.propose(&base, (String::new(), 0, RemedyKind::Pod));
        }
    }

    /// A PodGroup in a version that the release serves. Since 1.37 its pods must agree with it, so it takes after them.
    fn new_group(&self, min_count: usize) -> Value {
        let key = &self.plan.group;
        let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": min_count}}});
        let mut version = "scheduling.k8s.io/v1alpha2";
        if self.must_agree() {
            version = "scheduling.k8s.io/v1beta1";
            for field in ["priorityClassName", "priority", "preemptionPolicy"] {
                let first = self.base.members.first();
                let of_pods = first.map(|pod| pod["spec"][field].clone());
                if let Some(value) = of_pods.filter(|value| !value.is_null()) {
                    spec[field] = value;
                }
            }
        }
        json!({
            "apiVersion": version, "kind": "PodGroup",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": format!("{}-new", key.name)},
            "spec": spec,
        })
    }

    /// Whether the pods must have the priority of their group, as since 1.37.
    fn must_agree(&self) -> bool {
        GroupRules::V1_37 <= self.scheduler.group_gates().rules
    }

    /// A gang of which there are too few pods.
    fn try_fewer_or_more(&mut self, n_pods: usize) {
        let Some(min_count) = self.min_count() else { return };
        let Some(missing) = usize::try_from(min_count).ok().and_then(|n| n.checked_sub(n_pods))
        else {
            return;
        };
        let Some(model) = self.base.members.first().cloned().filter(|_| 0 < missing) else {
            return;
        };
        let mut with_more = self.base.clone();
        let name = model["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        for number in 1..=missing {
            let mut new = model.clone();
            new["metadata"]["name"] = json!(format!("{name}-new{number}"));
            new["metadata"]["uid"] = json!(format!("{name}-new{number}"));
            with_more.new.push(new);
        }
        let pods =
            if missing == 1 { "1 more pod".to_owned() } else { format!("{missing} more pods") };
        let text = format!(
            "create {pods} like {name}: the gang waits for {min_count}, and {n_pods} are there"
        );
        let size = size::NEW_CLAIM + size::ONE_EVICTION * count(missing);
        self.propose(&with_more, (text, size, RemedyKind::Pod));
    }

    fn n_running(&self) -> usize {
        let state = self.scheduler.view().stores.groups.get(&self.plan.group);
        state.map_or(0, PodGroupState::n_placed)
    }

    fn min_count(&self) -> Option<i64> {
        self.base.object.as_ref()?.pointer(MIN_COUNT)?.as_i64()
    }

    /// The largest `minCount` with which the group fits.
    fn try_min_count(&mut self) {
        let Some(before) = self.min_count() else { return };
        let with = |search: &Self, min_count: i64| {
            let mut changed = search.base.clone();
            if let Some(field) = changed.object.as_mut().and_then(|one| one.pointer_mut(MIN_COUNT))
            {
                *field = json!(min_count);
            }
            changed
        };
        let n_pods = i64::try_from(self.base.members.len() + self.n_running()).unwrap_or(before);
        let (mut fits, mut too_many) = (0, before.min(n_pods.saturating_add(1)));
        while 1 < too_many - fits {
            let middle = fits + (too_many - fits) / 2;
            let changed = with(self, middle);
            if self.fits(&changed) { fits = middle } else { too_many = middle }
        }
        if 0 < fits {
            let part = (before - fits) * i64::from(size::WHOLE_REQUEST) / before;
            let size = size::REQUEST + u32::try_from(part).unwrap_or(size::WHOLE_REQUEST);
            let text = format!("set minCount to {fits} instead of {before}");
            let changed = with(self, fits);
            self.propose(&changed, (text, size, RemedyKind::Pod));
        }
    }

    /// Another topology, or none.
    fn try_topology(&mut self) {
        let object = self.base.object.clone().unwrap_or_default();
        let Some(key) = list(&object, TOPOLOGY).first().and_then(|one| one["key"].as_str()) else {
            return;
        };
        for other in other_keys(self.scheduler.view().nodes, key) {
            let mut changed = self.base.clone();
            if let Some(object) = &mut changed.object {
                object["spec"]["schedulingConstraints"]["topology"][0]["key"] = json!(other);
            }
            let text = format!("keep the group in one {other} instead of one {key}");
            self.propose(&changed, (text, size::SELECTOR, RemedyKind::Pod));
        }
        let mut changed = self.base.clone();
        if let Some(object) = &mut changed.object {
            crate::relaxations::remove_key(object, "/spec", "schedulingConstraints");
        }
        let text = format!("drop the constraint that the group is in one {key}");
        self.propose(&changed, (text, size::POD_AFFINITY, RemedyKind::Pod));
    }

    /// Each resource that the pods request, lowered in all of them by the smallest part.
    fn try_requests(&mut self) {
        let mut names: Vec<Str> = Vec::new();
        for (_, known) in &self.plan.members {
            names.extend(requests::names(known));
        }
        names.sort();
        names.dedup();
        for name in names {
            let (mut enough, mut too_little) = (STEPS, 0);
            while 1 < enough - too_little {
                let middle = too_little + (enough - too_little) / 2;
                let fits = self.lowered(&name, middle).is_some_and(|(one, _)| self.fits(&one));
                if fits { enough = middle } else { too_little = middle }
            }
            if enough == STEPS {
                continue;
            }
            let Some((changed, text)) = self.lowered(&name, enough) else { continue };
            let part = i64::from(size::WHOLE_REQUEST) * enough / STEPS;
            let size = size::REQUEST + u32::try_from(part).unwrap_or(size::WHOLE_REQUEST);
            self.propose(&changed, (text, size, RemedyKind::Pod));
        }
    }

    /// All pods request less of a resource, by so many steps.
    fn lowered(&self, name: &str, steps: i64) -> Option<(Changed, String)> {
        let mut changed = self.base.clone();
        let (mut texts, mut n_pods) = (BTreeMap::<String, usize>::new(), 0);
        for (member, (_, known)) in changed.members.iter_mut().zip(&self.plan.members) {
            let asked = known.requests.get(name);
            let total =
                i64::try_from(i128::from(asked) * i128::from(STEPS - steps) / i128::from(STEPS));
            if 0 < asked {
                *texts.entry(requests::lower(member, name, total.ok()?)?).or_default() += 1;
                n_pods += 1;
            }
        }
        let text = match texts.len() {
            0 => return None,
            1 => texts.into_keys().next()?,
            _ => format!("request {} % less {name}", steps * 100 / STEPS),
        };
        let pods = if n_pods == 1 { "pod" } else { "pods" };
        Some((changed, format!("{text} in {n_pods} {pods}")))
    }

    /// The fewest new nodes of each sort that let the group in.
    fn try_nodes(&mut self) {
        for row in new_nodes::models(self.scheduler.view().nodes).into_iter().take(MOST_SORTS) {
            let with = |search: &Self, n: usize| {
                let view = search.scheduler.view();
                let mut changed = search.base.clone();
                changed.cluster = Some(new_nodes::like(view, search.manifests, row, n));
                changed
            };
            let most = self.base.members.len().clamp(1, MOST_NODES);
            let all = with(self, most);
            if !self.fits(&all) {
                continue;
            }
            let (mut too_few, mut enough) = (0, most);
            while 1 < enough - too_few {
                let middle = too_few + (enough - too_few) / 2;
                let changed = with(self, middle);
                if self.fits(&changed) { enough = middle } else { too_few = middle }
            }
            let changed = with(self, enough);
            let Some(cluster) = &changed.cluster else { continue };
            let (text, size) = (cluster.text.clone(), cluster.size);
            self.propose(&changed, (text, size, RemedyKind::Cluster));
        }
    }

    fn try_evictions(&mut self) {
        let priority = self.priority();
        for cluster in evictions::changes(self, priority) {
            let mut changed = self.base.clone();
            let (text, size) = (cluster.text.clone(), cluster.size);
            changed.cluster = Some(cluster);
            self.propose(&changed, (text, size, RemedyKind::Cluster));
        }
    }

    /// The priority of the group, or else of its most important pod.
    fn priority(&self) -> i32 {
        let of_object = self.base.object.as_ref().and_then(|one| one["spec"]["priority"].as_i64());
        let of_pods =
            self.plan.members.iter().map(|(_, pod): &(Value, std::sync::Arc<Pod>)| pod.priority);
        let given = of_object.and_then(|priority| i32::try_from(priority).ok());
        given.or(of_pods.max()).unwrap_or(0)
    }

    /// A priority with which the group evicts others itself, if it may.
    fn try_priority(&mut self) {
        let (before, must_agree) = (self.priority(), self.must_agree());
        let view = self.scheduler.view();
        let rows = view.nodes.rows();
        let pods = rows.flat_map(|row| view.nodes.pods_on(row).iter());
        let mut others: Vec<i32> =
            pods.map(|pod| pod.priority).filter(|it| before <= *it).collect();
        others.sort_unstable();
        others.dedup();
        for priority in others.into_iter().take(MOST_KEYS) {
            let Some(priority) = priority.checked_add(1) else { continue };
            let mut changed = self.base.clone();
            let Some(object) = &mut changed.object else { return };
            object["spec"]["priority"] = json!(priority);
            if must_agree {
                for member in &mut changed.members {
                    member["spec"]["priority"] = json!(priority);
                }
            }
            let Ok(decision) = changed.decide(self.scheduler, self.now) else { continue };
            if decision.result != GroupResult::Preempting {
                continue;
            }
            let mut without = changed.clone();
            without.cluster = Some(evictions::without(&decision.victims));
            if !self.fits(&without) {
                continue;
            }
            let (n, pods) = (decision.victims.len(), crate::cluster::names(&decision.victims));
            let whom = if must_agree { "the group and its pods" } else { "the group" };
            let text = format!(
                "give {whom} priority {priority} instead of {before}: it then evicts {pods}"
            );
            let size = size::PROFILE + size::ONE_EVICTION * count(n);
            self.keep(&changed, &without, (text, size, RemedyKind::Pod));
            return;
        }
    }

    pub(super) fn fits(&mut self, changed: &Changed) -> bool {
        let decision = changed.decide(self.scheduler, self.now);
        decision.is_ok_and(|decision| self.plan.is_enough(&decision))
    }

    /// The group as it is asked about, with this change of the cluster.
    pub(super) fn fits_with(&mut self, cluster: crate::cluster::ClusterChange) -> bool {
        let mut changed = self.base.clone();
        changed.cluster = Some(cluster);
        self.fits(&changed)
    }

    /// Proves a change, and keeps it.
    fn propose(&mut self, changed: &Changed, told: (String, u32, RemedyKind)) {
        self.keep(changed, changed, told);
    }

    /// Keeps a change if the group fits with `proof`.
    fn keep(
        &mut self,
        changed: &Changed,
        proof: &Changed,
        (text, mut size, kind): (String, u32, RemedyKind),
    ) {
        let Ok(decision) = proof.decide(self.scheduler, self.now) else { return };
        if !self.plan.is_enough(&decision) {
            return;
        }
        let mut texts = Vec::new();
        if let Some((needed, more)) = &self.needed {
            texts.push(needed.clone());
            size += more;
        }
        texts.extend(Some(text).filter(|text| !text.is_empty()));
        self.remedies.push(GroupRemedy {
            kind,
            text: texts.join(", and "),
            changes: self.plan.changes(changed),
            placement: decision.placement.as_ref().map(ToString::to_string),
            placed: n_placed(&decision),
            pods: decision.pods.len(),
            size,
        });
    }
}

/// Other labels of nodes by which they could be told apart, those with the fewest values first.
fn other_keys(nodes: &Columns, key: &str) -> Vec<Str> {
    let mut values: BTreeMap<Str, BTreeMap<Str, usize>> = BTreeMap::new();
    for row in nodes.rows() {
        for (label, value) in nodes.node(row).labels.iter() {
            *values.entry(label.clone()).or_default().entry(value.clone()).or_default() += 1;
        }
    }
    let n_nodes = nodes.len();
    values.retain(|label, values| {
        let is_on_all = values.values().sum::<usize>() == n_nodes;
        label != key && label != HOSTNAME && is_on_all && values.len() < n_nodes
    });
    let mut keys: Vec<(usize, Str)> =
        values.into_iter().map(|(label, values)| (values.len(), label)).collect();
    keys.sort();
    keys.into_iter().map(|(_, label)| label).take(MOST_KEYS).collect()
}

pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
