//! The search for remedies: what could be changed is tried, made as small as possible, and proven.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::PatchOperation;
use plimsoll_api::{Effect, Pod, PodVolume, Str, Taint};
use plimsoll_engine::{Outcome, Profile, Scheduler, Transaction, Verdicts};
use plimsoll_framework::parts::Taints;
use plimsoll_framework::{NodePart, Row, Time};
use serde_json::Value;

use crate::change::{Change, Reference, as_known, operations, pod_of};
use crate::cluster::{self, ClusterChange, Edit, NodeChange};
use crate::device_users;
use crate::draft::{Draft, Manifests};
use crate::new_nodes;
use crate::proposal::Proposal;
use crate::relaxations::volumes::{self, Storage};
use crate::relaxations::{Field, Relaxation, devices, list};
use crate::remedy::{Remedy, RemedyKind, size};
use crate::why::Subject;

/// Taints that Kubernetes adds and removes itself begin with it: a pod should not tolerate them.
const OWN_TAINTS: &str = "node.kubernetes.io/";
/// At most so many different sets of taints are considered.
const MOST_TAINTS: usize = 12;
/// At most so many new nodes are tried together, like at most so many that there are.
const MOST_NODES: usize = 8;
const MOST_SORTS: usize = 3;
/// No change of nodes is smaller.
const LEAST_NODE_CHANGE: u32 = size::UNCORDON;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many remedies are returned.
    pub remedies: usize,
    /// How many of the nearest nodes are returned.
    pub nearest: usize,
    /// How many pairs of changes of the pod are tried, and as many of a change of the pod and one of the nodes.
    pub pairs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { remedies: 10, nearest: 5, pairs: 64 }
    }
}

/// Another configuration, which is tried if nothing is said against it.
#[derive(Debug)]
pub struct Alternative {
    /// What it is, such as `switch off the filter PodTopologySpread`.
    pub text: String,
    /// How the resolved configuration changes, as in RFC 6902.
    pub operations: Vec<PatchOperation>,
    /// The profile that would decide the pod.
    pub profile: Profile,
    /// The filter that it switches off, if that is what it does. It is tried only if this filter rejects a node.
    pub without: Option<String>,
}

/// A search for one pod.
pub(crate) struct Search<'s> {
    pub(crate) scheduler: &'s mut Scheduler,
    pub(crate) now: Time,
    /// The pod as it is.
    pub(crate) original: &'s Value,
    known: &'s Pod,
    manifests: Manifests<'s>,
    /// The pod without what keeps it out of the queue, with the objects that could change, and what that takes.
    pub(crate) base: Draft,
    pub(crate) needed: Option<(String, u32)>,
    limits: Limits,
    /// One node of each sort.
    models: Vec<Row>,
    pub(crate) remedies: Vec<Remedy>,
}

/// A pod as it would be, with what changes in the cluster for it.
#[derive(Clone)]
pub(crate) struct Variant {
    pub(crate) pod: Arc<Pod>,
    edits: Vec<Edit>,
}

/// A pod that was relaxed as far as possible in one respect or two.
pub(crate) struct Trial {
    pub(crate) relaxations: Vec<Relaxation>,
    variant: Variant,
    verdicts: Verdicts,
    /// Whether a proposal came of it. A pod may fit only if nothing is left of a request, which is not proposed.
    is_proposed: bool,
}

impl Trial {
    fn fits(&self) -> bool {
        self.verdicts.feasible().next().is_some()
    }
}

impl<'s> Search<'s> {
    pub(crate) fn new(
        scheduler: &'s mut Scheduler,
        now: Time,
        (subject, known): (&'s Subject<'s>, &'s Pod),
    ) -> Self {
        let Subject { manifest: original, manifests, limits, .. } = *subject;
        let mut base = original.clone();
        let gates = crate::relaxations::list(original, "/spec/schedulingGates");
        let names: Vec<_> = gates.iter().filter_map(|gate| gate["name"].as_str()).collect();
        let needed = (!names.is_empty()).then(|| {
            let gates = if names.len() == 1 { "gate" } else { "gates" };
            (format!("remove the scheduling {gates} {}", names.join(" and ")), size::GATE)
        });
        crate::relaxations::remove_key(&mut base, "/spec", "schedulingGates");
        let base = Draft { pod: base, objects: BTreeMap::new() };
        let (models, remedies) = (Vec::new(), Vec::new());
        Search {
            scheduler,
            now,
            original,
            known,
            manifests,
            base,
            needed,
            limits,
            models,
            remedies,
        }
    }

    /// Looks for remedies, the smallest first. `base` are the verdicts on the pod as it is, and `near` the nodes that reject it,
    /// those first that miss by least.
    pub(crate) fn run(
        mut self,
        base: &Verdicts,
        near: &[Row],
        alternatives: &[Alternative],
    ) -> Vec<Remedy> {
        if base.feasible().next().is_some() {
            // Only what keeps it out of the queue is in its way.
            if self.needed.is_some() {
                self.propose(Proposal::default());
            }
            return self.remedies;
        }
        let Some(Variant { pod, .. }) = self.variant(&self.base) else { return self.remedies };
        self.models = new_nodes::models(self.scheduler.view().nodes);
        let mut trials = self.try_relaxations(&pod, base);
        trials.extend(self.try_volumes(&pod, base, near));
        trials.extend(self.try_devices(&pod, base));
        for trial in trials.iter_mut().filter(|trial| trial.fits()) {
            trial.is_proposed = self.propose_tight(trial, None);
        }
        let mut changes = self.cluster_changes(&pod, base, near);
        changes.sort_by(|a, b| (a.size, &a.text).cmp(&(b.size, &b.text)));
        for change in changes {
            let size = change.size;
            // A proof takes time, and as many smaller remedies are known as are asked for.
            let n_smaller = self.remedies.iter().filter(|known| known.size < size).count();
            if self.limits.remedies <= n_smaller {
                break;
            }
            self.propose(Proposal { size, cluster: Some(change), ..Proposal::default() });
        }
        self.try_more_nodes(&pod);
        self.try_alternatives(&pod, base, alternatives);
        self.try_pairs(&trials, near);
        self.remedies.sort_by(|a, b| (a.size, &a.text).cmp(&(b.size, &b.text)));
        self.remedies.dedup_by(|a, b| a.text == b.text);
        self.remedies.truncate(self.limits.remedies);
        self.remedies
    }

    /// Each thing that the pod could give up, given up as far as possible.
    fn try_relaxations(&mut self, pod: &Pod, base: &Verdicts) -> Vec<Trial> {
        let mut all = Relaxation::all_of(pod, &self.base.pod);
        all.extend(self.taints(pod, base).into_iter().map(Relaxation::Taints));
        let names = self.scheduler.profile_names().into_iter();
        let others = names.filter(|name| **name != *pod.scheduler_name);
        all.extend(others.map(Relaxation::Profile));
        all.into_iter().filter_map(|relaxation| self.try_pod(vec![relaxation])).collect()
    }

    /// The sets of taints that keep the pod from nodes, those of the most nodes first.
    fn taints(&self, pod: &Pod, base: &Verdicts) -> Vec<Vec<Taint>> {
        let nodes = self.scheduler.view().nodes;
        let is_in_the_way = |taint: &&Taint| {
            taint.effect != Effect::PreferNoSchedule
                && !pod.tolerations.iter().any(|one| one.tolerates(taint, <_>::default()))
        };
        let mut sets: BTreeMap<Vec<Taint>, (u32, usize)> = BTreeMap::new();
        for row in base.rows() {
            let taints: Vec<_> =
                Taints::at(nodes, row).iter().filter(is_in_the_way).cloned().collect();
            if !taints.is_empty() && taints.iter().all(|one| !one.key.starts_with(OWN_TAINTS)) {
                let distance = base.count(row);
                let (nearest, n_nodes) = sets.entry(taints).or_insert((distance, 0));
                (*nearest, *n_nodes) = ((*nearest).min(distance), *n_nodes + 1);
            }
        }
        let mut sets: Vec<_> = sets.into_iter().collect();
        sets.sort_by_key(|(taints, (nearest, n_nodes))| {
            (*nearest, taints.len(), Reverse(*n_nodes))
        });
        sets.into_iter().map(|(taints, _)| taints).take(MOST_TAINTS).collect()
    }

    /// What could be given up of each volume that keeps the pod from nodes, and the volume itself.
    fn try_volumes(&mut self, pod: &Pod, base: &Verdicts, near: &[Row]) -> Vec<Trial> {
        let mut trials = Vec::new();
        let taken: Vec<Str> = pod.volumes.iter().filter_map(PodVolume::claim).cloned().collect();
        for at in volumes::storage_of(&self.base.pod) {
            let emptied = volumes::emptied(&self.base.pod, at);
            let Some(without) = self.try_pod(vec![emptied]) else { continue };
            // Another volume changes nothing if none changes nothing.
            if without.verdicts == *base {
                continue;
            }
            let view = self.scheduler.view();
            let storage = Storage { pod, taken: &taken, view, manifests: self.manifests, near };
            let changes = storage.changes(&mut self.base, at);
            trials.push(without);
            trials.extend(changes.into_iter().filter_map(|one| self.try_pod(vec![one])));
        }
        trials
    }

    /// What could be given up of each claim on devices that keeps the pod from nodes, and the claim itself.
    fn try_devices(&mut self, pod: &Pod, base: &Verdicts) -> Vec<Trial> {
        let mut trials = Vec::new();
        for claim in list(&self.base.pod, "/spec/resourceClaims").to_vec() {
            let dropped = devices::dropped(&self.base.pod, &claim);
            let Some(without) = self.try_pod(vec![dropped]) else { continue };
            if without.verdicts == *base {
                continue;
            }
            let name = claim["name"].as_str().unwrap_or_default();
            let view = self.scheduler.view();
            let changes = devices::changes(pod, view, self.manifests, &mut self.base, name);
            trials.push(without);
            trials.extend(changes.into_iter().filter_map(|one| self.try_pod(vec![one])));
        }
        trials
    }

    /// The pod that manifests describe, and what changes in the cluster for it.
    pub(crate) fn variant(&self, draft: &Draft) -> Option<Variant> {
        let pod = Arc::new(as_known(pod_of(&draft.pod).ok()?, self.known));
        let edits = draft.edits(&self.base, self.known, self.scheduler.view())?;
        Some(Variant { pod, edits })
    }

    fn try_pod(&mut self, relaxations: Vec<Relaxation>) -> Option<Trial> {
        let mut draft = self.base.clone();
        // What is later in a list goes first, so that the others keep their places in it.
        for relaxation in relaxations.iter().rev() {
            relaxation.loosen(&mut draft);
        }
        let variant = self.variant(&draft)?;
        let verdicts = self.verdicts(&variant, None)?;
        Some(Trial { relaxations, variant, verdicts, is_proposed: false })
    }

    pub(crate) fn verdicts(
        &mut self,
        variant: &Variant,
        with: Option<&ClusterChange>,
    ) -> Option<Verdicts> {
        self.scheduler.transaction(self.now, |transaction| {
            make(variant, with, transaction)?;
            Some(transaction.judge(variant.pod.clone()).ok()?.verdicts())
        })
    }

    /// Whether the pod would fit as the manifests describe it.
    pub(crate) fn fits(&mut self, draft: &Draft, with: Option<&ClusterChange>) -> bool {
        let verdicts = self.variant(draft).and_then(|variant| self.verdicts(&variant, with));
        verdicts.is_some_and(|verdicts| verdicts.feasible().next().is_some())
    }

    fn cluster_changes(
        &mut self,
        pod: &Arc<Pod>,
        base: &Verdicts,
        near: &[Row],
    ) -> Vec<ClusterChange> {
        let (manifests, models) = (self.manifests, &self.models);
        let mut changes = self.scheduler.transaction(self.now, |transaction| {
            let judge = transaction.judge(pod.clone());
            let about = (near, models.as_slice());
            judge.map(|judge| cluster::changes(&judge, base, about, manifests)).unwrap_or_default()
        });
        if !pod.resource_claims.is_empty() {
            changes.extend(device_users::changes(self.scheduler, self.now, pod, near));
        }
        changes
    }

    /// The fewest new nodes that let the pod in, where one is not enough.
    fn try_more_nodes(&mut self, pod: &Arc<Pod>) {
        // More nodes cost so much that they are only worth naming where little else helps.
        if self.limits.remedies <= self.remedies.len() || self.remedies.iter().any(adds_nodes) {
            return;
        }
        let variant = Variant { pod: pod.clone(), edits: Vec::new() };
        for row in self.models.iter().copied().take(MOST_SORTS).collect::<Vec<_>>() {
            let nodes = |search: &Self, n| {
                new_nodes::like(search.scheduler.view(), search.manifests, row, n)
            };
            let may_help = self.scheduler.transaction(self.now, |transaction| {
                let judge = transaction.judge(pod.clone());
                judge.is_ok_and(|mut judge| new_nodes::may_help(&mut judge, row, MOST_NODES))
            });
            if !may_help {
                continue;
            }
            let fits = |search: &mut Self, n| {
                let change = nodes(search, n);
                let verdicts = search.verdicts(&variant, Some(&change));
                verdicts.is_some_and(|verdicts| verdicts.feasible().next().is_some())
            };
            if !fits(self, MOST_NODES) {
                continue;
            }
            let n = (2..MOST_NODES).find(|n| fits(self, *n)).unwrap_or(MOST_NODES);
            let change = nodes(self, n);
            let size = change.size;
            self.propose(Proposal { size, cluster: Some(change), ..Proposal::default() });
        }
    }

    /// Two changes together, where they could be smaller than what is known already.
    fn try_pairs(&mut self, trials: &[Trial], near: &[Row]) {
        let mut left = self.limits.pairs;
        let mut pairs = Vec::new();
        for (at, one) in trials.iter().enumerate() {
            for other in &trials[at + 1..] {
                let is_single = one.fits() || other.fits();
                let one_field = field(one) == field(other) && field(one) != Some(Field::Taints);
                // Under another profile a filter may reject for the other reason only.
                let by_another = [one, other].into_iter().any(is_of_profile);
                let may_fit = one_field || by_another;
                if !is_single && (may_fit || one.verdicts.may_fit_with(&other.verdicts)) {
                    let both = [&one.relaxations[..], &other.relaxations[..]].concat();
                    pairs.push((least_size(&both), both));
                }
            }
        }
        pairs.sort_by_key(|(size, _)| *size);
        for (size, both) in pairs {
            if left == 0 || self.best_size() <= size {
                break;
            }
            left -= 1;
            if let Some(trial) = self.try_pod(both).filter(Trial::fits) {
                self.propose_tight(&trial, None);
            }
        }
        // Pairs of changes of the pod may have used up what they may: these have as many tries of their own.
        let mut left = self.limits.pairs;
        let mut with_nodes: Vec<(u32, &Trial, ClusterChange)> = Vec::new();
        for trial in trials.iter().filter(|trial| !trial.is_proposed) {
            let least = least_size(&trial.relaxations);
            // None of its changes would be tried.
            if self.best_size() <= least + LEAST_NODE_CHANGE {
                continue;
            }
            let changes = self.node_changes(trial, near);
            with_nodes.extend(changes.into_iter().map(|one| (least + one.size, trial, one)));
        }
        with_nodes.sort_by_key(|(size, ..)| *size);
        for (size, trial, change) in with_nodes {
            if left == 0 || self.best_size() <= size {
                break;
            }
            left -= 1;
            self.propose_tight(trial, Some(change));
        }
    }

    /// The changes of closed nodes, and new nodes, with which the relaxed pod should fit.
    fn node_changes(&mut self, trial: &Trial, near: &[Row]) -> Vec<ClusterChange> {
        let (manifests, models) = (self.manifests, &self.models);
        let variant = trial.variant.clone();
        self.scheduler.transaction(self.now, |transaction| {
            if make(&variant, None, transaction).is_none() {
                return Vec::new();
            }
            let Ok(judge) = transaction.judge(variant.pod.clone()) else { return Vec::new() };
            let mut changes = Vec::new();
            for (row, all) in cluster::closed_nodes(&judge, near) {
                let opens = |change: &&NodeChange| {
                    judge.rejections_if(row, change.node.clone(), |_| true).is_empty()
                };
                let smallest = all.iter().find(opens);
                changes.extend(smallest.map(NodeChange::alone));
            }
            changes.extend(new_nodes::new_nodes(&judge, models, manifests));
            changes
        })
    }

    fn best_size(&self) -> u32 {
        self.remedies.iter().map(|remedy| remedy.size).min().unwrap_or(u32::MAX)
    }

    fn try_alternatives(&mut self, pod: &Arc<Pod>, base: &Verdicts, all: &[Alternative]) {
        let rejectors = base.rejectors();
        for alternative in all {
            let rejects = |name: &String| rejectors.contains(&name.as_str());
            if !alternative.without.as_ref().is_none_or(rejects) {
                continue;
            }
            let profile = &alternative.profile;
            let decision = self.scheduler.transaction(self.now, |transaction| {
                transaction.decide_under(profile, pod.clone())
            });
            let Outcome::Scheduled { node, best } = decision.outcome else { continue };
            let configuration = alternative.operations.clone();
            let mut changes = vec![Change::Configuration { configuration }];
            let of_pod = operations(self.original, &self.base.pod);
            if !of_pod.is_empty() {
                changes.push(Change::Patch { patch: Reference::pod(&pod.key), operations: of_pod });
            }
            let needed = self.needed.as_ref();
            let texts = needed.map(|(text, _)| text).into_iter().chain([&alternative.text]);
            let texts: Vec<_> = texts.cloned().collect();
            self.remedies.push(Remedy {
                kind: RemedyKind::Configuration,
                text: texts.join(", and "),
                changes,
                node: node.to_string(),
                also_fits: best.len().saturating_sub(1),
                size: size::PLUGIN + needed.map_or(0, |(_, size)| *size),
            });
        }
    }
}

/// Makes changes of the cluster; `None` if one of them is not possible.
pub(crate) fn make(
    variant: &Variant,
    with: Option<&ClusterChange>,
    transaction: &mut Transaction<'_>,
) -> Option<()> {
    let edits = with.map_or(&[][..], |change| change.edits.as_slice());
    variant.edits.iter().chain(edits).try_for_each(|edit| edit.make(transaction)).ok()
}

/// Whether a remedy has a new node.
fn adds_nodes(remedy: &Remedy) -> bool {
    let is_node =
        |change: &Change| matches!(change, Change::Create { create } if create["kind"] == "Node");
    remedy.changes.iter().any(is_node)
}

fn is_of_profile(trial: &Trial) -> bool {
    field(trial) == Some(Field::Profile)
}

fn field(trial: &Trial) -> Option<Field> {
    trial.relaxations.first().map(Relaxation::field)
}

/// The least size that relaxations can have together.
fn least_size(relaxations: &[Relaxation]) -> u32 {
    let least = relaxations.iter().map(|relaxation| match relaxation {
        Relaxation::Request(_) => size::REQUEST,
        Relaxation::Spread(_) => size::SPREAD,
        Relaxation::Graded(grades) => grades[0].size,
        other => other.size(),
    });
    least.sum()
}
