//! Upper bounds of scores by resources, for all nodes at once.
//!
//! Shares are rounded 32-bit numbers, so that one instruction computes several. Their error is much
//! less than [`SLACK`]. A bound that is too high only costs an evaluation of the node. One that is too
//! low would lead to a wrong decision, so everything is rounded up.
//!
//! The loops over all nodes are functions of their own, compiled again for the wider vectors of newer processors.
//! The results are the same to the last bit, since no operations are fused.

use multiversion::multiversion;
use plimsoll_framework::prelude::*;

use crate::resource_allocation::ScoredResource;
use crate::utilization_shape::{MAX_UTILIZATION, UtilizationShape};

/// In percent. Much more than the error of shares, and rarely enough to reach the next whole number.
const SLACK: f32 = 1e-4;

/// The highest score.
const MOST: f32 = 100.0;

/// A resource of a pod that is scored.
#[derive(Clone, Debug)]
pub(crate) struct RequestedResource {
    pub(crate) resource: Str,
    pub(crate) amount: f32,
    pub(crate) weight: f32,
}

impl RequestedResource {
    #[expect(clippy::cast_precision_loss, reason = "bounds are rounded, see the module")]
    pub(crate) fn new(counted: &ScoredResource, amount: i64) -> Self {
        let (amount, weight) = (amount as f32, counted.weight as f32);
        RequestedResource { resource: counted.name(), amount, weight }
    }
}

/// Whether emptier or fuller nodes are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefer {
    /// The share that is free with the pod.
    Empty,
    /// The share that is used with it.
    Full,
}

/// The mean of the shares of resources, as in LeastAllocated and MostAllocated.
#[derive(Debug)]
pub(crate) struct MeanShare {
    pub(crate) prefer: Prefer,
    pub(crate) asked: SmallVec<[RequestedResource; 4]>,
}

impl ScoreBound for MeanShare {
    fn resources(&self) -> SmallVec<[Str; 4]> {
        self.asked.iter().map(|one| one.resource.clone()).collect()
    }

    fn add(&self, supply: &Supply, _: &[f32], weight: f32, out: &mut [f32]) {
        if self.asked.is_empty() {
            return;
        }
        let weights: f32 = self.asked.iter().map(|one| one.weight).sum();
        let share = 1.0 / weights;
        let stocks =
            |one: &RequestedResource| supply.stock(&one.resource).expect("it was asked for");
        if let [one, other] = self.asked.as_slice() {
            let stocks = [stocks(one), stocks(other)];
            let add = match self.prefer {
                Prefer::Empty => add_means_of_free,
                Prefer::Full => add_means_of_used,
            };
            return add(stocks, [one, other], share, weight, out);
        }
        let mut sums = vec![0.0; out.len()];
        let mut has_none = vec![false; out.len()];
        for one in &self.asked {
            let stock = stocks(one);
            let nodes =
                sums.iter_mut().zip(&mut has_none).zip(stock.unit.iter().zip(&stock.counted));
            for ((sum, has_none), (&unit, &counted)) in nodes {
                *sum += part(self.prefer, one, Of { unit, used: counted });
                *has_none |= unit <= 0.0;
            }
        }
        for ((out, sum), has_none) in out.iter_mut().zip(sums).zip(has_none) {
            *out += weight * if has_none { MOST } else { whole_above(sum * share) };
        }
    }
}

/// One resource on one node.
#[derive(Clone, Copy)]
struct Of {
    unit: f32,
    used: f32,
}

/// Two resources on every node, as they count in scoring.
fn per_node<'a>(
    one: &'a Stock,
    other: &'a Stock,
    out: &'a mut [f32],
) -> impl Iterator<Item = ((&'a mut f32, Of), Of)> {
    let of = |(&unit, &used): (&f32, &f32)| Of { unit, used };
    let one = one.unit.iter().zip(&one.counted).map(of);
    let other = other.unit.iter().zip(&other.counted).map(of);
    out.iter_mut().zip(one).zip(other)
}

/// Adds the means of what is free of two resources.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn add_means_of_free(
    stocks: [&Stock; 2],
    asked: [&RequestedResource; 2],
    share: f32,
    weight: f32,
    out: &mut [f32],
) {
    for ((out, one), other) in per_node(stocks[0], stocks[1], out) {
        let sum = part(Prefer::Empty, asked[0], one) + part(Prefer::Empty, asked[1], other);
        *out += weighted_mean(sum, [one, other], share, weight);
    }
}

/// The same of what is used.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn add_means_of_used(
    stocks: [&Stock; 2],
    asked: [&RequestedResource; 2],
    share: f32,
    weight: f32,
    out: &mut [f32],
) {
    for ((out, one), other) in per_node(stocks[0], stocks[1], out) {
        let sum = part(Prefer::Full, asked[0], one) + part(Prefer::Full, asked[1], other);
        *out += weighted_mean(sum, [one, other], share, weight);
    }
}

#[inline]
fn weighted_mean(sum: f32, [one, other]: [Of; 2], share: f32, weight: f32) -> f32 {
    let has_none = if one.unit < other.unit { one.unit } else { other.unit } <= 0.0;
    weight * if has_none { MOST } else { whole_above(sum * share) }
}

#[inline]
fn part(prefer: Prefer, asked: &RequestedResource, node: Of) -> f32 {
    let used = within(node.used + asked.amount * node.unit);
    let part = match prefer {
        Prefer::Empty => 1.0 - used,
        Prefer::Full => used,
    };
    asked.weight * whole_above(MOST * part)
}

/// The highest score of a shape for any of the resources, for RequestedToCapacityRatio: the mean of the
/// scores is not higher.
#[derive(Debug)]
pub(crate) struct HighestOfShape {
    /// By utilization in percent.
    scores: Vec<f32>,
    asked: SmallVec<[RequestedResource; 4]>,
}

impl ScoreBound for HighestOfShape {
    fn resources(&self) -> SmallVec<[Str; 4]> {
        self.asked.iter().map(|one| one.resource.clone()).collect()
    }

    fn add(&self, supply: &Supply, _: &[f32], weight: f32, out: &mut [f32]) {
        let mut highest = vec![0.0_f32; out.len()];
        for one in &self.asked {
            let stock = supply.stock(&one.resource).expect("it was asked for");
            let nodes = highest.iter_mut().zip(stock.unit.iter().zip(&stock.counted));
            for (highest, (&unit, &used)) in nodes {
                *highest = highest.max(if unit <= 0.0 {
                    MOST
                } else {
                    let percent = MOST * within(used + one.amount * unit);
                    self.score(whole_below(percent)).max(self.score(whole_above(percent)))
                });
            }
        }
        for (out, highest) in out.iter_mut().zip(highest) {
            *out += weight * highest;
        }
    }
}

impl HighestOfShape {
    pub(crate) fn new(shape: &UtilizationShape, asked: SmallVec<[RequestedResource; 4]>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "scores are 0 to 100")]
        let scores = (0..=MAX_UTILIZATION).map(|percent| shape.score(percent) as f32).collect();
        HighestOfShape { scores, asked }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is a percentage"
    )]
    fn score(&self, percent: f32) -> f32 {
        let at = (percent.max(0.0) as usize).min(self.scores.len() - 1);
        self.scores[at]
    }
}

/// How much more balanced two resources become, as in NodeResourcesBalancedAllocation.
pub(crate) struct Evener<F> {
    pub(crate) asked: [RequestedResource; 2],
    /// Their balance without the pod, which depends only on the node and is exact.
    pub(crate) without: F,
}

impl<F: Fn(&Columns, Row) -> f32 + Send + Sync> ScoreBound for Evener<F> {
    fn resources(&self) -> SmallVec<[Str; 4]> {
        self.asked.iter().map(|one| one.resource.clone()).collect()
    }

    fn own(&self, nodes: &Columns, row: Row) -> Option<f32> {
        Some((self.without)(nodes, row))
    }

    fn add(&self, supply: &Supply, own: &[f32], weight: f32, out: &mut [f32]) {
        let stock =
            |asked: &RequestedResource| supply.stock(&asked.resource).expect("it was asked for");
        let stocks = self.asked.each_ref().map(stock);
        add_gains(stocks, &self.asked, own, weight, out);
    }
}

/// Adds how much more balanced two resources become. `own` is their balance without the pod.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn add_gains(
    [a, b]: [&Stock; 2],
    [one, other]: &[RequestedResource; 2],
    own: &[f32],
    weight: f32,
    out: &mut [f32],
) {
    let nodes = a.unit.iter().zip(&a.asked).zip(b.unit.iter().zip(&b.asked)).zip(own);
    for (out, (((&a_unit, &a_used), (&b_unit, &b_used)), &without)) in out.iter_mut().zip(nodes) {
        let (a, b) = (a_used + one.amount * a_unit, b_used + other.amount * b_unit);
        let with = (at_most_all(a) - at_most_all(b)).abs() * 0.5;
        let gained = whole_above((1.0 - with) * MOST) - without;
        let score = MOST / 2.0 + half(MOST / 2.0 + gained);
        let has_none = if a_unit < b_unit { a_unit } else { b_unit } <= 0.0;
        *out += weight * if has_none { MOST } else { score };
    }
}

/// A share from 0 to 1.
#[inline]
fn within(share: f32) -> f32 {
    let share = if share < 1.0 { share } else { 1.0 };
    if 0.0 < share { share } else { 0.0 }
}

/// A share of at most 1.
#[inline]
fn at_most_all(share: f32) -> f32 {
    if share < 1.0 { share } else { 1.0 }
}

/// Adding and subtracting this rounds a 32-bit number to the nearest whole number. There are
/// instructions for rounding, but not on every machine.
const NO_FRACTION: f32 = 12_582_912.0;

/// The whole part of a percentage, or one more if it is close.
#[inline]
fn whole_above(percent: f32) -> f32 {
    (percent - (0.5 - SLACK) + NO_FRACTION) - NO_FRACTION
}

/// The whole part of a percentage, or one less if it is close.
#[inline]
fn whole_below(percent: f32) -> f32 {
    (percent - (0.5 + SLACK) + NO_FRACTION) - NO_FRACTION
}

/// Half of a whole number, truncated.
#[inline]
fn half(number: f32) -> f32 {
    (number * 0.5 - 0.25 + NO_FRACTION) - NO_FRACTION
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Asks, Node, NonZero};
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    use serde_json::json;

    use super::*;

    const NODES: usize = 64;

    /// Milli-CPU and bytes, of which some are round and some are not.
    fn amounts(most: [i64; 2]) -> impl Strategy<Value = Resources> {
        let amount = |most: i64| {
            let round = most / 40;
            prop_oneof![(0..=40_i64).prop_map(move |n| n * round), 0..=most]
        };
        (amount(most[0]), amount(most[1]), 0..8_i64).prop_map(|(milli_cpu, memory, gpus)| {
            let scalar = [(Str::const_new("example.com/gpu"), gpus)].into();
            Resources { milli_cpu, memory, scalar, pods: 110, ..Resources::default() }
        })
    }

    fn pod(asked: &Resources) -> PodInfo {
        let counted = |asked, default| if asked == 0 { default } else { asked };
        let non_zero_requests = NonZero {
            milli_cpu: counted(asked.milli_cpu, 100),
            memory: counted(asked.memory, 200 << 20),
        };
        let [fit, room, balance] = [(); 3].map(|()| asked.clone());
        let asks = Asks { fit, room, balance, ..Asks::default() };
        let requests = asked.clone();
        PodInfo::new(PodTemplate { asks, requests, non_zero_requests, ..PodTemplate::default() })
    }

    /// How often a bound equals the score.
    #[expect(clippy::cast_possible_truncation, reason = "bounds are small whole numbers")]
    fn n_exact(
        entry: &Entry,
        args: Option<&serde_json::Value>,
        nodes: &Columns,
        pod: &PodInfo,
    ) -> usize {
        let plugin = entry.make(args, &FeatureGates::default()).expect("the args are valid");
        let score = plugin.score.as_ref().expect("it scores");
        let rows: Vec<Row> = nodes.rows().collect();
        let stores = Stores::default();
        let view = View { nodes, stores: &stores };
        let (Some(bound), ByRow::Scores(by_row, _)) = (score.bound(pod), score.by_row(pod, &view))
        else {
            return rows.len();
        };
        let mut supply = Supply::new(rows.len());
        for resource in bound.resources() {
            supply.cover(&resource, nodes, rows.iter().copied().enumerate());
        }
        let own: Vec<f32> = rows.iter().filter_map(|&row| bound.own(nodes, row)).collect();
        let mut bounds = vec![0.0; rows.len()];
        bound.add(&supply, &own, 1.0, &mut bounds);
        let is_exact = |(&row, bound): (&Row, &f32)| {
            let (score, bound) = (by_row.raw(pod, nodes, row), *bound as i64);
            assert!(score <= bound, "{score} > {bound} on {:?}", nodes.node(row).allocatable);
            score == bound
        };
        rows.iter().zip(&bounds).filter(|&one| is_exact(one)).count()
    }

    /// Nodes of one size, what pods take on each, and what a pod asks for.
    fn case() -> impl Strategy<Value = (Resources, Vec<Resources>, Resources)> {
        (
            amounts([64_000, 256 << 30]),
            proptest::collection::vec(amounts([8_000, 32 << 30]), NODES),
            amounts([16_000, 64 << 30]),
        )
    }

    /// How many bounds are the scores, for each of the plugins. None is below.
    fn n_exact_of((node, placed, asked): &(Resources, Vec<Resources>, Resources)) -> [usize; 3] {
        let mut nodes = Columns::default();
        for (number, placed) in placed.iter().enumerate() {
            let name = Str::from(format!("n{number}"));
            let row = nodes.add(Node { name, allocatable: node.clone(), ..Node::default() });
            nodes.place(row, &pod(placed));
        }
        let asked = pod(asked);
        let fit = |r#type: &str| Some(json!({"scoringStrategy": {"type": r#type}}));
        [
            (crate::node_resources_fit::entry(), fit("LeastAllocated")),
            (crate::node_resources_fit::entry(), fit("MostAllocated")),
            (crate::node_resources_balanced_allocation::entry(), None),
        ]
        .map(|(entry, args)| n_exact(&entry, args.as_ref(), &nodes, &asked))
    }

    proptest! {
        #[test]
        fn no_score_is_above_its_bound(case in case()) {
            n_exact_of(&case);
        }
    }

    #[test]
    fn hardly_any_score_is_below_its_bound() {
        let mut runner = TestRunner::deterministic();
        let (mut exact, mut n) = ([0; 3], 0);
        for _ in 0..100 {
            let case = case().new_tree(&mut runner).expect("there are such amounts").current();
            if case.0.milli_cpu == 0 || case.0.memory == 0 {
                continue;
            }
            n += NODES;
            exact.iter_mut().zip(n_exact_of(&case)).for_each(|(sum, one)| *sum += one);
        }
        // All nodes of a case have one size, so the bounds of a whole case may be above.
        assert!(0 < n && exact.iter().all(|one| n * 3 / 4 <= *one), "{exact:?} of {n}");
    }
}
