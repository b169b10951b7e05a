//! The search for what would let a group be scheduled.

use plimsoll_engine::{GroupDecision, GroupResult, Scheduler};
use plimsoll_framework::{GroupForest, GroupRef, GroupRules, PodGroupState, Time};
use serde_json::{Value, json};

use super::needs::is_other;
use super::plan::{Changed, GroupPlan};
use super::survey;
use super::ways::{Sources, Way, count, pods};
use super::{GroupRemedy, GroupSubject, evictions, n_placed};
use crate::draft::Manifests;
use crate::relaxations::{list, remove_key};
use crate::remedy::{RemedyKind, size};

/// At most so many pairs of changes are tried.
const MOST_PAIRS: usize = 64;
/// At most so many other priorities are tried.
const MOST_PRIORITIES: usize = 4;

/// A search for one group.
pub(super) struct GroupSearch<'s> {
    pub(super) scheduler: &'s mut Scheduler,
    pub(super) now: Time,
    pub(super) plan: &'s GroupPlan,
    pub(super) manifests: Manifests<'s>,
    /// What keeps its pods out of the queue is removed here.
    pub(super) base: Changed,
    needed: Option<(String, u32)>,
    most: usize,
    remedies: Vec<GroupRemedy>,
}

/// A way that does not help by itself.
struct Open {
    way: Way,
    /// The least that it costs.
    least: u32,
    /// Whether something else would be said about the group.
    is_seen: bool,
}

/// Ways that are taken together, each as far as its grade says.
pub(super) type Taking<'w> = [(&'w Way, usize)];

impl<'s> GroupSearch<'s> {
    pub(super) fn new(
        scheduler: &'s mut Scheduler,
        now: Time,
        plan: &'s GroupPlan,
        subject: &'s GroupSubject<'s>,
    ) -> Self {
        let (manifests, most) = (subject.manifests, subject.remedies);
        let (base, needed, remedies) = (plan.as_it_is.clone(), None, Vec::new());
        GroupSearch { scheduler, now, plan, manifests, base, needed, most, remedies }
    }

    /// Looks for remedies, the smallest first.
    pub(super) fn run(mut self) -> Vec<GroupRemedy> {
        self.open_gates();
        let base = self.base.clone();
        let decision = self.plan.decide(&base, self.scheduler, self.now);
        if decision.as_ref().is_ok_and(|decision| self.plan.is_enough(decision)) {
            self.propose(&[]);
        } else {
            let open = self.try_each(decision.as_ref().ok());
            self.try_priority();
            self.try_pairs(&open);
        }
        self.remedies.sort_by(|a, b| (a.size, &a.text).cmp(&(b.size, &b.text)));
        self.remedies.dedup_by(|a, b| a.text == b.text);
        self.remedies.truncate(self.most);
        self.remedies
    }

    /// What keeps the group out of the queue is given first: it is needed whatever else is.
    fn open_gates(&mut self) {
        let (mut texts, mut total, mut gated) = (Vec::new(), 0, 0);
        for member in &mut self.base.members {
            let is_gated = |manifest: &Value| !list(manifest, "/spec/schedulingGates").is_empty();
            let opened = member.manifest.as_deref().is_some_and(is_gated).then(|| {
                member.change(|manifest| remove_key(manifest, "/spec", "schedulingGates"))
            });
            gated += usize::from(opened.flatten().is_some());
        }
        if 0 < gated {
            texts.push(format!("remove the scheduling gates of {}", pods(gated, None)));
            total += size::GATE;
        }
        if self.plan.object().is_none()
            && let GroupRef::Pods(key) = &self.plan.asked
        {
            let state = self.scheduler.view().stores.groups.get(key);
            let n_running = state.map_or(0, PodGroupState::n_placed);
            let n_pods = self.base.members.len() + n_running;
            texts.push(format!("create the PodGroup {} (here with minCount {n_pods})", key.name));
            total += size::NEW_CLAIM;
            let new = self.new_group(n_pods);
            for object in self.base.objects.iter_mut().filter(|one| one.group == self.plan.asked) {
                object.manifest = Some(new.clone().into());
            }
        }
        if !texts.is_empty() {
            self.needed = Some((texts.join(", and "), total));
        }
    }

    /// A PodGroup in a version that the release serves. Since 1.37 its pods must agree with it, so it takes after them.
    fn new_group(&self, min_count: usize) -> Value {
        let key = self.plan.asked.key();
        let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": min_count}}});
        let mut version = "scheduling.k8s.io/v1alpha2";
        if self.must_agree() {
            version = "scheduling.k8s.io/v1beta1";
            for field in ["priorityClassName", "priority", "preemptionPolicy"] {
                let first = self.base.members.first().and_then(|first| first.manifest.as_ref());
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

    /// How many groups are part of a composite one.
    pub(super) fn children(&self, group: &GroupRef) -> usize {
        let stores = self.scheduler.view().stores;
        GroupForest::of(stores, self.scheduler.group_gates()).children(group).len()
    }

    /// Tries each way as far as it goes. Of those that help the least is proposed; the others are returned. `as_it_is` is what
    /// is decided without them.
    fn try_each(&mut self, as_it_is: Option<&GroupDecision>) -> Vec<Open> {
        let mut open = Vec::new();
        let needs = self.needs(as_it_is);
        for way in survey::ways(self, &self.base, needs) {
            let Some(decision) = self.decide(&[(&way, way.grades)]) else { continue };
            if self.plan.is_enough(&decision) {
                self.propose_least(vec![way]);
            } else if let Some(least) = self.least_size(&way) {
                let is_seen = as_it_is.is_none_or(|before| is_other(before, &decision));
                open.push(Open { way, least, is_seen });
            }
        }
        open
    }

    /// Two ways together, where that could be smaller than what is known already.
    fn try_pairs(&mut self, open: &[Open]) {
        let mut pairs: Vec<(u32, &Open, &Open)> = Vec::new();
        for (at, one) in open.iter().enumerate() {
            for other in &open[at + 1..] {
                // Each node has one reason at a time: what nobody sees may still be behind what somebody does.
                let may_help = one.is_seen || other.is_seen || one.way.field == other.way.field;
                if may_help && one.way.field.goes_with(other.way.field) {
                    pairs.push((one.least + other.least, one, other));
                }
            }
        }
        pairs.sort_by_key(|(size, ..)| *size);
        for (size, one, other) in pairs.into_iter().take(MOST_PAIRS) {
            let best = self.remedies.iter().map(|remedy| remedy.size).min().unwrap_or(u32::MAX);
            if best <= size {
                break;
            }
            if self.fits(&[(&one.way, one.way.grades), (&other.way, other.way.grades)]) {
                self.propose_least(vec![one.way.clone(), other.way.clone()]);
            }
        }
    }

    /// Takes each way no further than necessary, and proposes them together. They help if each is taken as far as it goes.
    fn propose_least(&mut self, mut ways: Vec<Way>) {
        let mut grades: Vec<usize> = ways.iter().map(|way| way.grades).collect();
        for at in 0..ways.len() {
            let (mut too_little, mut enough) = (0, grades[at]);
            while 1 < enough - too_little {
                grades[at] = too_little + (enough - too_little) / 2;
                if self.fits(&taking(&ways, &grades)) {
                    enough = grades[at];
                } else {
                    too_little = grades[at];
                }
            }
            grades[at] = enough;
            // What comes last costs most: it is the first to be left out, as long as the group fits.
            for left_out in (0..enough).rev() {
                if grades[at] == 1 {
                    break;
                }
                let Some(less) = ways[at].without(left_out, grades[at]) else { break };
                let before = std::mem::replace(&mut ways[at], less);
                grades[at] -= 1;
                if !self.fits(&taking(&ways, &grades)) {
                    ways[at] = before;
                    grades[at] += 1;
                }
            }
        }
        self.propose(&taking(&ways, &grades));
    }

    /// The group with these changes, and what they come to; `None` if one of them is not possible.
    fn with(&self, ways: &Taking<'_>) -> Option<(Changed, String, u32, RemedyKind)> {
        let mut changed = self.base.clone();
        let sources = Sources { view: self.scheduler.view(), manifests: self.manifests };
        let (mut texts, mut size, mut kind) = (Vec::new(), 0, RemedyKind::Pod);
        // What is later in a list goes first, so that the others keep their places in it.
        for (way, grade) in ways.iter().rev() {
            let taken = way.take(&mut changed, *grade, sources)?;
            texts.insert(0, taken.text);
            size += taken.size;
            kind = kind.max(taken.kind);
        }
        if let Some((needed, more)) = &self.needed {
            texts.insert(0, needed.clone());
            size += more;
        }
        Some((changed, texts.join(", and "), size, kind))
    }

    /// The least that a way costs by itself.
    fn least_size(&self, way: &Way) -> Option<u32> {
        let (.., size, _) = self.with(&[(way, 1)])?;
        Some(size)
    }

    pub(super) fn decide(&mut self, ways: &Taking<'_>) -> Option<GroupDecision> {
        let (changed, ..) = self.with(ways)?;
        self.plan.decide(&changed, self.scheduler, self.now).ok()
    }

    fn fits(&mut self, ways: &Taking<'_>) -> bool {
        self.decide(ways).is_some_and(|decision| self.plan.is_enough(&decision))
    }

    /// The priority of the group that counts, or else of its most important pod.
    pub(super) fn priority(&self) -> i32 {
        let of_objects = self.base.objects.first().and_then(|root| root.manifest.as_ref());
        let given =
            of_objects.and_then(|root| i32::try_from(root["spec"]["priority"].as_i64()?).ok());
        given.or(self.base.members.iter().map(|member| member.pod.priority).max()).unwrap_or(0)
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
        for priority in others.into_iter().take(MOST_PRIORITIES) {
            let Some(priority) = priority.checked_add(1) else { continue };
            let Some(changed) = self.with_priority(priority) else { return };
            let decision = self.plan.decide(&changed, self.scheduler, self.now);
            let Some(decision) = decision.ok().filter(|it| it.result == GroupResult::Preempting)
            else {
                continue;
            };
            let mut without = changed.clone();
            without.cluster.push(evictions::without(&decision.victims));
            let (n, pods) = (decision.victims.len(), crate::cluster::names(&decision.victims));
            let whom = match (&self.plan.asked, must_agree) {
                (GroupRef::Pods(_), true) if self.base.objects.len() == 1 => {
                    "the group and its pods"
                }
                (_, true) => "the root of the groups and all pods",
                (_, false) => "the group",
            };
            let text = format!(
                "give {whom} priority {priority} instead of {before}: it then evicts {pods}"
            );
            let (text, size) =
                self.with_needed(text, size::PROFILE + size::ONE_EVICTION * count(n));
            let so_far = self.remedies.len();
            self.keep(&changed, &without, (text, size, RemedyKind::Pod));
            if so_far < self.remedies.len() {
                return;
            }
        }
    }

    /// The group with another priority. Since 1.37 that of a tree is that of its root, and its pods must have it.
    fn with_priority(&self, priority: i32) -> Option<Changed> {
        let mut changed = self.base.clone();
        changed.objects.first_mut()?.change()?["spec"]["priority"] = json!(priority);
        if self.must_agree() {
            for member in &mut changed.members {
                member.change(|pod| pod["spec"]["priority"] = json!(priority))?;
            }
        }
        Some(changed)
    }

    fn with_needed(&self, text: String, size: u32) -> (String, u32) {
        match &self.needed {
            Some((needed, more)) => (format!("{needed}, and {text}"), size + more),
            None => (text, size),
        }
    }

    /// Proves changes, and keeps them.
    fn propose(&mut self, ways: &Taking<'_>) {
        let Some((changed, text, size, kind)) = self.with(ways) else { return };
        self.keep(&changed, &changed, (text, size, kind));
    }

    /// Keeps a change if the group fits with `proof`.
    fn keep(
        &mut self,
        changed: &Changed,
        proof: &Changed,
        (text, size, kind): (String, u32, RemedyKind),
    ) {
        let Ok(decision) = self.plan.decide(proof, self.scheduler, self.now) else { return };
        if !self.plan.is_enough(&decision) || text.is_empty() {
            return;
        }
        self.remedies.push(GroupRemedy {
            kind,
            text,
            changes: self.plan.changes(changed),
            placement: decision.placement.as_ref().map(ToString::to_string),
            placed: n_placed(&decision),
            pods: decision.pods.len(),
            size,
        });
    }
}

fn taking<'w>(ways: &'w [Way], grades: &[usize]) -> Vec<(&'w Way, usize)> {
    ways.iter().zip(grades.iter().copied()).collect()
}
