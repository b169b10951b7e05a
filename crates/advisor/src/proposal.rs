//! Proposals: changes that should make the pod fit are made as small as possible, and proven.

use plimsoll_api::{Pod, Str};
use plimsoll_engine::Outcome;
use plimsoll_framework::{PodInfo, Row, View};

use crate::change::{Change, Reference, operations};
use crate::cluster::ClusterChange;
use crate::draft::Draft;
use crate::relaxations::{Relaxation, Steps, requests, spread};
use crate::remedy::{Remedy, RemedyKind, size};
use crate::search::{Search, Trial, Variant, make};

/// Beyond this skew a constraint is as good as none.
const MOST_SKEW: i64 = 1 << 20;

/// Changes that are to be proven.
pub(crate) struct Proposal {
    pub(crate) texts: Vec<String>,
    pub(crate) size: u32,
    pub(crate) kind: RemedyKind,
    /// The pod and its objects as they would be; `None` as they are.
    pub(crate) draft: Option<Draft>,
    pub(crate) cluster: Option<ClusterChange>,
}

impl Default for Proposal {
    fn default() -> Self {
        let (texts, kind) = (Vec::new(), RemedyKind::Pod);
        Proposal { texts, size: 0, kind, draft: None, cluster: None }
    }
}

impl Search<'_> {
    /// Proposes what a trial relaxes, no further than necessary. Returns whether something is proposed.
    pub(crate) fn propose_tight(&mut self, trial: &Trial, with: Option<ClusterChange>) -> bool {
        let mut proposal = Proposal::default();
        let mut draft = self.base.clone();
        // What can be given up in part comes last, the requests after everything else.
        let in_part = |one: &&Relaxation| {
            matches!(one, Relaxation::Request(_) | Relaxation::Spread(_) | Relaxation::Graded(_))
        };
        let (in_part, whole): (Vec<&Relaxation>, Vec<&Relaxation>) =
            trial.relaxations.iter().partition(in_part);
        for relaxation in &whole {
            self.tell(relaxation, &mut proposal);
        }
        // What is later in a list goes first, so that the others keep their places in it.
        for relaxation in whole.iter().rev() {
            relaxation.loosen(&mut draft);
        }
        for (at, relaxation) in in_part.iter().enumerate() {
            let mut looser = draft.clone();
            let others = in_part.iter().enumerate().filter(|(other, _)| *other != at);
            others.for_each(|(_, other)| other.loosen(&mut looser));
            match relaxation {
                Relaxation::Graded(grades) => {
                    let grade = self.least_grade(&looser, grades, with.as_ref());
                    proposal.texts.push(grade.text.clone());
                    proposal.size += grade.size;
                    proposal.kind = proposal.kind.max(grade.kind);
                    grade.take(&mut draft);
                }
                Relaxation::Spread(constraint) => {
                    let skew = self.least_skew(&looser, *constraint, with.as_ref());
                    let Some(skew) = skew else {
                        self.tell(relaxation, &mut proposal);
                        relaxation.loosen(&mut draft);
                        continue;
                    };
                    let more = skew - spread::skew(&self.base.pod, *constraint);
                    let more = u32::try_from(more).unwrap_or(u32::MAX);
                    let steps = more.saturating_mul(size::ONE_SKEW);
                    proposal.size += size::SPREAD.saturating_add(steps).min(size::NO_SPREAD);
                    proposal.texts.push(spread::skew_text(&self.base.pod, *constraint, skew));
                    spread::allow_skew(&mut draft.pod, *constraint, skew);
                }
                _ => {}
            }
        }
        let names = in_part.iter().filter_map(|relaxation| match relaxation {
            Relaxation::Request(name) => Some(name.clone()),
            _ => None,
        });
        let names: Vec<Str> = names.collect();
        if !names.is_empty() {
            let Some((texts, size)) = self.lower(&mut draft, &names, with.as_ref()) else {
                return false;
            };
            proposal.texts.extend(texts);
            proposal.size += size;
        }
        proposal.size += with.as_ref().map_or(0, |change| change.size);
        proposal.draft = Some(draft);
        proposal.cluster = with;
        self.propose(proposal)
    }

    /// Says that something is given up as far as possible.
    fn tell(&self, relaxation: &Relaxation, proposal: &mut Proposal) {
        proposal.texts.push(relaxation.text(&self.base.pod));
        proposal.size += relaxation.size();
        proposal.kind = proposal.kind.max(relaxation.kind());
    }

    /// The smallest of the changes with which the pod fits. It fits with the last one.
    fn least_grade<'g>(
        &mut self,
        draft: &Draft,
        grades: &'g [Steps],
        with: Option<&ClusterChange>,
    ) -> &'g Steps {
        let (mut from, mut to) = (0, grades.len() - 1);
        while from < to {
            let middle = usize::midpoint(from, to);
            let mut looser = draft.clone();
            grades[middle].take(&mut looser);
            if self.fits(&looser, with) {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        &grades[to]
    }

    /// The smallest skew with which the pod fits; `None` if none is large enough.
    fn least_skew(
        &mut self,
        draft: &Draft,
        at: usize,
        with: Option<&ClusterChange>,
    ) -> Option<i64> {
        let mut fits = |skew: i64| {
            let mut draft = draft.clone();
            spread::allow_skew(&mut draft.pod, at, skew);
            self.fits(&draft, with)
        };
        let (mut too_small, mut step) = (spread::skew(&draft.pod, at), 1);
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
        draft: &mut Draft,
        names: &[Str],
        with: Option<&ClusterChange>,
    ) -> Option<(Vec<String>, u32)> {
        let mut without = draft.clone();
        for name in names {
            Relaxation::Request(name.clone()).loosen(&mut without);
        }
        let (asked, variant) = (self.variant(&self.base)?.pod, self.variant(&without)?);
        let best = self.scheduler.transaction(self.now, |transaction| {
            make(&variant, with, transaction)?;
            let mut judge = transaction.judge(variant.pod.clone()).ok()?;
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
            texts.push(requests::lower(&mut draft.pod, name, amount)?);
            let part =
                i128::from(before - amount) * i128::from(size::WHOLE_REQUEST) / i128::from(before);
            total += size::REQUEST + u32::try_from(part).unwrap_or(size::WHOLE_REQUEST);
        }
        (!texts.is_empty()).then_some((texts, total))
    }

    /// Proves a proposal, and keeps it. Returns whether it was proven.
    pub(crate) fn propose(&mut self, proposal: Proposal) -> bool {
        let Proposal { mut texts, mut size, mut kind, draft, cluster } = proposal;
        let after = draft.unwrap_or_else(|| self.base.clone());
        let Some(variant) = self.variant(&after) else { return false };
        let Some((node, also_fits)) = self.proof(&variant, cluster.as_ref()) else { return false };
        let of_pod = operations(self.original, &after.pod);
        let mut changes = Vec::new();
        if !of_pod.is_empty() {
            let patch = Reference::pod(&variant.pod.key);
            changes.push(Change::Patch { patch, operations: of_pod });
        }
        changes.extend(after.changes(&self.base));
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
        true
    }

    /// Where the pod goes, and how many other nodes are feasible.
    fn proof(
        &mut self,
        variant: &Variant,
        with: Option<&ClusterChange>,
    ) -> Option<(String, usize)> {
        self.scheduler.transaction(self.now, |transaction| {
            make(variant, with, transaction)?;
            let mut judge = transaction.judge(variant.pod.clone()).ok()?;
            let verdicts = judge.verdicts();
            let others = verdicts.feasible().count().checked_sub(1)?;
            // A pod that fits only one node goes there: what would be decided is known already.
            if let Some(row) = verdicts.sure_choice().filter(|_| judge.pod().unreadable.is_none()) {
                return Some((judge.view().nodes.name_of(row).to_string(), others));
            }
            match transaction.decide(variant.pod.clone()).ok()?.outcome {
                Outcome::Scheduled { node, .. } => Some((node.to_string(), others)),
                Outcome::Unschedulable { .. } | Outcome::Error { .. } => None,
            }
        })
    }
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
