//! The search for remedies: what could be changed is tried, made as small as possible, and proven.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::PatchOperation;
use plimsoll_api::{Effect, Pod, Str, Taint};
use plimsoll_engine::{Outcome, Profile, Scheduler, Transaction, Verdicts};
use plimsoll_framework::{PodInfo, Row, Time, View};
use serde_json::Value;

use crate::change::{Change, Reference, as_known, operations, pod_of};
use crate::cluster::{self, ClusterChange, Edit, NodeChange};
use crate::nearest::by_distance;
use crate::relaxations::{Field, Relaxation, requests, spread};
use crate::remedy::{Remedy, RemedyKind, size};

/// Taints that Kubernetes adds and removes itself begin with it: a pod should not tolerate them.
const OWN_TAINTS: &str = "node.kubernetes.io/";
/// At most so many different sets of taints are considered.
const MOST_TAINTS: usize = 12;
/// Beyond this skew a constraint is as good as none.
const MOST_SKEW: i64 = 1 << 20;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many remedies are returned.
    pub remedies: usize,
    /// How many of the nearest nodes are returned.
    pub nearest: usize,
    /// How many pairs of changes are tried.
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
    scheduler: &'s mut Scheduler,
    now: Time,
    /// The pod as it is.
    original: &'s Value,
    known: &'s Pod,
    /// The pod without what keeps it out of the queue, and what that takes.
    base: Value,
    needed: Option<(String, u32)>,
    limits: Limits,
    remedies: Vec<Remedy>,
}

/// A pod that was relaxed as far as possible in one respect or two.
struct Trial {
    relaxations: Vec<Relaxation>,
    pod: Arc<Pod>,
    verdicts: Verdicts,
}

impl Trial {
    fn fits(&self) -> bool {
        self.verdicts.feasible().next().is_some()
    }
}

/// Changes that are to be proven.
#[derive(Default)]
struct Proposal {
    texts: Vec<String>,
    size: u32,
    /// The pod as it would be.
    manifest: Option<Value>,
    cluster: Option<ClusterChange>,
}

impl<'s> Search<'s> {
    pub(crate) fn new(
        scheduler: &'s mut Scheduler,
        now: Time,
        (original, known): (&'s Value, &'s Pod),
        limits: Limits,
    ) -> Self {
        let mut base = original.clone();
        let gates = crate::relaxations::list(original, "/spec/schedulingGates");
        let names: Vec<_> = gates.iter().filter_map(|gate| gate["name"].as_str()).collect();
        let needed = (!names.is_empty()).then(|| {
            let gates = if names.len() == 1 { "gate" } else { "gates" };
            (format!("remove the scheduling {gates} {}", names.join(" and ")), size::GATE)
        });
        crate::relaxations::remove_key(&mut base, "/spec", "schedulingGates");
        Search { scheduler, now, original, known, base, needed, limits, remedies: Vec::new() }
    }

    /// Looks for remedies, the smallest first. `base` are the verdicts on the pod as it is.
    pub(crate) fn run(mut self, base: &Verdicts, alternatives: &[Alternative]) -> Vec<Remedy> {
        if base.feasible().next().is_some() {
            // Only what keeps it out of the queue is in its way.
            if self.needed.is_some() {
                self.propose(Proposal { manifest: Some(self.base.clone()), ..Proposal::default() });
            }
            return self.remedies;
        }
        let Some(pod) = self.pod(&self.base) else { return self.remedies };
        let trials = self.try_relaxations(&pod, base);
        for trial in trials.iter().filter(|trial| trial.fits()) {
            self.propose_tight(trial, None);
        }
        let near = by_distance(self.scheduler.view(), &pod, base);
        let mut changes = self.cluster_changes(&pod, base, &near);
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
        self.try_alternatives(&pod, base, alternatives);
        self.try_pairs(&trials, &near);
        self.remedies.sort_by(|a, b| (a.size, &a.text).cmp(&(b.size, &b.text)));
        self.remedies.dedup_by(|a, b| a.text == b.text);
        self.remedies.truncate(self.limits.remedies);
        self.remedies
    }

    /// Each thing that the pod could give up, given up as far as possible.
    fn try_relaxations(&mut self, pod: &Pod, base: &Verdicts) -> Vec<Trial> {
        let mut all = Relaxation::all_of(pod, &self.base);
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
                nodes.node(row).taints.iter().filter(is_in_the_way).cloned().collect();
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

    /// The pod that a manifest describes.
    fn pod(&self, manifest: &Value) -> Option<Arc<Pod>> {
        Some(Arc::new(as_known(pod_of(manifest).ok()?, self.known)))
    }

    fn try_pod(&mut self, relaxations: Vec<Relaxation>) -> Option<Trial> {
        let mut manifest = self.base.clone();
        for relaxation in &relaxations {
            relaxation.loosen(&mut manifest);
        }
        let pod = self.pod(&manifest)?;
        let verdicts = self.verdicts(&pod, None)?;
        Some(Trial { relaxations, pod, verdicts })
    }

    fn verdicts(&mut self, pod: &Arc<Pod>, with: Option<&ClusterChange>) -> Option<Verdicts> {
        self.scheduler.transaction(self.now, |transaction| {
            make(with, transaction)?;
            Some(transaction.judge(pod.clone()).ok()?.verdicts())
        })
    }

    fn cluster_changes(
        &mut self,
        pod: &Arc<Pod>,
        base: &Verdicts,
        near: &[Row],
    ) -> Vec<ClusterChange> {
        self.scheduler.transaction(self.now, |transaction| {
            let judge = transaction.judge(pod.clone());
            judge.map(|judge| cluster::changes(&judge, base, near)).unwrap_or_default()
        })
    }

    /// Two changes together, where they could be smaller than what is known already.
    fn try_pairs(&mut self, trials: &[Trial], near: &[Row]) {
        let mut left = self.limits.pairs;
        let mut pairs = Vec::new();
        for (at, one) in trials.iter().enumerate() {
            for other in &trials[at + 1..] {
                let is_single = one.fits() || other.fits();
                let one_field = field(one) == field(other) && field(one) != Some(Field::Taints);
                if !is_single && (one_field || one.verdicts.may_fit_with(&other.verdicts)) {
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
        for trial in trials.iter().filter(|trial| !trial.fits()) {
            let changes: Vec<_> = self.node_changes(trial, near);
            for change in changes {
                let least = least_size(&trial.relaxations) + change.size;
                if left == 0 || self.best_size() <= least {
                    continue;
                }
                left -= 1;
                self.propose_tight(trial, Some(change));
            }
        }
    }

    /// The changes of closed nodes, and new nodes, with which the relaxed pod should fit.
    fn node_changes(&mut self, trial: &Trial, near: &[Row]) -> Vec<ClusterChange> {
        self.scheduler.transaction(self.now, |transaction| {
            let Ok(judge) = transaction.judge(trial.pod.clone()) else { return Vec::new() };
            let nodes = judge.view().nodes;
            let mut changes = Vec::new();
            for (row, all) in cluster::closed_nodes(&judge, near) {
                let opens = |change: &&NodeChange| {
                    judge.rejections_if(row, change.node.clone(), |_| true).is_empty()
                };
                let smallest = all.iter().find(opens);
                changes.extend(smallest.map(|change| change.of(nodes.name_of(row))));
            }
            changes.extend(cluster::new_nodes(&judge));
            changes
        })
    }

    fn best_size(&self) -> u32 {
        self.remedies.iter().map(|remedy| remedy.size).min().unwrap_or(u32::MAX)
    }

    /// Proposes what a trial relaxes, no further than necessary.
    fn propose_tight(&mut self, trial: &Trial, with: Option<ClusterChange>) {
        let mut proposal = Proposal::default();
        let mut manifest = self.base.clone();
        // What can be given up in part comes last, the requests after everything else.
        let in_part =
            |one: &&Relaxation| matches!(one, Relaxation::Request(_) | Relaxation::Spread(_));
        let (in_part, whole): (Vec<&Relaxation>, Vec<&Relaxation>) =
            trial.relaxations.iter().partition(in_part);
        for relaxation in whole {
            self.relax(relaxation, &mut manifest, &mut proposal);
        }
        for (at, relaxation) in in_part.iter().enumerate() {
            let Relaxation::Spread(constraint) = relaxation else { continue };
            let mut looser = manifest.clone();
            let others = in_part.iter().enumerate().filter(|(other, _)| *other != at);
            others.for_each(|(_, other)| other.loosen(&mut looser));
            if let Some(skew) = self.least_skew(&looser, *constraint, with.as_ref()) {
                let more = skew - spread::skew(&self.base, *constraint);
                let more = u32::try_from(more).unwrap_or(u32::MAX);
                let steps = more.saturating_mul(size::ONE_SKEW);
                proposal.size += size::SPREAD.saturating_add(steps).min(size::NO_SPREAD);
                proposal.texts.push(spread::skew_text(&self.base, *constraint, skew));
                spread::allow_skew(&mut manifest, *constraint, skew);
            } else {
                self.relax(relaxation, &mut manifest, &mut proposal);
            }
        }
        let names = in_part.iter().filter_map(|relaxation| match relaxation {
            Relaxation::Request(name) => Some(name.clone()),
            _ => None,
        });
        let names: Vec<Str> = names.collect();
        if !names.is_empty() {
            let Some((texts, size)) = self.lower(&mut manifest, &names, with.as_ref()) else {
                return;
            };
            proposal.texts.extend(texts);
            proposal.size += size;
        }
        proposal.size += with.as_ref().map_or(0, |change| change.size);
        proposal.manifest = Some(manifest);
        proposal.cluster = with;
        self.propose(proposal);
    }

    /// Relaxes a manifest as far as possible.
    fn relax(&self, relaxation: &Relaxation, manifest: &mut Value, proposal: &mut Proposal) {
        proposal.texts.push(relaxation.text(&self.base));
        proposal.size += relaxation.size();
        relaxation.loosen(manifest);
    }

    /// The smallest skew with which the pod fits; `None` if none is large enough.
    fn least_skew(
        &mut self,
        manifest: &Value,
        at: usize,
        with: Option<&ClusterChange>,
    ) -> Option<i64> {
        let mut fits = |skew: i64| {
            let mut manifest = manifest.clone();
            spread::allow_skew(&mut manifest, at, skew);
            let verdicts = self.pod(&manifest).and_then(|pod| self.verdicts(&pod, with));
            verdicts.is_some_and(|verdicts| verdicts.feasible().next().is_some())
        };
        let (mut too_small, mut step) = (spread::skew(manifest, at), 1);
        let mut enough = loop {
            if fits(too_small + step) {
                break too_small + step;
            }
            too_small += step;
            step *= 2;
            if MOST_SKEW < too_small {
                return None;
            }
        };
        while 1 < enough - too_small {
            let middle = too_small + (enough - too_small) / 2;
            if fits(middle) {
                enough = middle;
            } else {
                too_small = middle;
            }
        }
        Some(enough)
    }

    /// Lowers requests to what is free on the node where the smallest part is given up, among those that are feasible
    /// without these requests. Returns what was done, and its size.
    fn lower(
        &mut self,
        manifest: &mut Value,
        names: &[Str],
        with: Option<&ClusterChange>,
    ) -> Option<(Vec<String>, u32)> {
        let mut without = manifest.clone();
        for name in names {
            Relaxation::Request(name.clone()).loosen(&mut without);
        }
        let (asked, pod) = (self.pod(&self.base)?, self.pod(&without)?);
        let best = self.scheduler.transaction(self.now, |transaction| {
            make(with, transaction)?;
            let judge = transaction.judge(pod.clone()).ok()?;
            let (verdicts, view) = (judge.verdicts(), judge.view());
            let offers = verdicts.feasible().filter_map(|row| {
                let amounts = offer(view, row, &judge.nominated_ahead(row), &asked, names)?;
                let parts = names.iter().zip(&amounts).map(|(name, amount)| {
                    let asked = i128::from(asked.requests.get(name));
                    u32::try_from((asked - i128::from(*amount)) * 10_000 / asked.max(1))
                        .unwrap_or(10_000)
                });
                Some((parts.sum::<u32>(), view.nodes.name_of(row).clone(), amounts))
            });
            offers.min()
        });
        let (_, _, amounts) = best?;
        let (mut texts, mut total) = (Vec::new(), 0);
        for (name, amount) in names.iter().zip(amounts) {
            let before = asked.requests.get(name);
            if before <= amount {
                continue;
            }
            texts.push(requests::lower(manifest, name, amount)?);
            let part =
                i128::from(before - amount) * i128::from(size::WHOLE_REQUEST) / i128::from(before);
            total += size::REQUEST + u32::try_from(part).unwrap_or(size::WHOLE_REQUEST);
        }
        (!texts.is_empty()).then_some((texts, total))
    }

    /// Proves a proposal, and keeps it.
    fn propose(&mut self, proposal: Proposal) {
        let Proposal { mut texts, mut size, manifest, cluster } = proposal;
        let after = manifest.unwrap_or_else(|| self.base.clone());
        let Some(pod) = self.pod(&after) else { return };
        let Some((node, also_fits)) = self.proof(&pod, cluster.as_ref()) else { return };
        let of_pod = operations(self.original, &after);
        let mut changes = Vec::new();
        let mut kind = RemedyKind::Pod;
        if !of_pod.is_empty() {
            changes.push(Change::Patch { patch: Reference::pod(&pod.key), operations: of_pod });
        }
        if let Some(cluster) = cluster {
            kind = RemedyKind::Cluster;
            texts.push(cluster.text);
            changes.extend(cluster.changes);
        }
        if let Some((text, more)) = &self.needed {
            texts.insert(0, text.clone());
            size += more;
        }
        let text = texts.join(", and ");
        self.remedies.push(Remedy { kind, text, changes, node, also_fits, size });
    }

    /// Where the pod goes, and how many other nodes are feasible.
    fn proof(&mut self, pod: &Arc<Pod>, with: Option<&ClusterChange>) -> Option<(String, usize)> {
        self.scheduler.transaction(self.now, |transaction| {
            make(with, transaction)?;
            let feasible = transaction.judge(pod.clone()).ok()?.verdicts().feasible().count();
            let others = feasible.checked_sub(1)?;
            match transaction.decide(pod.clone()).ok()?.outcome {
                Outcome::Scheduled { node, .. } => Some((node.to_string(), others)),
                Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
            }
        })
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
            let of_pod = operations(self.original, &self.base);
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
fn make(with: Option<&ClusterChange>, transaction: &mut Transaction<'_>) -> Option<()> {
    let edits = with.map_or(&[][..], |change| change.edits.as_slice());
    edits.iter().try_for_each(|edit: &Edit| edit.make(transaction)).ok()
}

fn field(trial: &Trial) -> Option<Field> {
    trial.relaxations.first().map(Relaxation::field)
}

/// The least size that relaxations can have together.
fn least_size(relaxations: &[Relaxation]) -> u32 {
    let least = relaxations.iter().map(|relaxation| match relaxation {
        Relaxation::Request(_) => size::REQUEST,
        Relaxation::Spread(_) => size::SPREAD,
        other => other.size(),
    });
    least.sum()
}

/// The amounts of resources that are free on a node, at most what the pod requests; `None` if nothing is left of one.
fn offer(
    view: View<'_>,
    row: Row,
    ahead: &[PodInfo],
    asked: &Pod,
    names: &[Str],
) -> Option<Vec<i64>> {
    let (has, used) = (&view.nodes.node(row).allocatable, view.nodes.requested_of(row));
    let amounts = names.iter().map(|name| {
        let ahead: i64 = ahead.iter().map(|pod| pod.requests.get(name)).sum();
        let free = has.get(name).saturating_sub(used.get(name)).saturating_sub(ahead);
        let amount = free.min(asked.requests.get(name));
        (0 < amount).then_some(amount)
    });
    amounts.collect()
}
