//! The amounts that all nodes have and have left, one array for each amount, for code that looks at all nodes
//! at once.
//!
//! A plugin that judges by amounts can state its rule as data ([`Needs`]), or bound the scores of all nodes at
//! once ([`ScoreBound`]). The engine then rules out thousands of nodes, and asks the plugin itself only about the few
//! that remain.

use multiversion::multiversion;
use plimsoll_api::resources::{CPU, MEMORY, PODS};
use plimsoll_api::{Resources, Str};
use smallvec::SmallVec;

use crate::columns::{Columns, Row};

/// One amount on all nodes.
///
/// The numbers are rounded: shares to one part in ten million, and what is left in a way that keeps the order of
/// amounts.
#[derive(Clone, Debug, Default)]
pub struct Stock {
    /// What is left of it.
    pub left: Vec<f32>,
    /// The share of it that one unit is; 0 if a node has none, or if what pods request is negative.
    pub unit: Vec<f32>,
    /// The share of it that pods request.
    pub asked: Vec<f32>,
    /// The share of it that pods count for in scoring.
    pub counted: Vec<f32>,
}

impl Stock {
    fn with(len: usize) -> Self {
        let zeros = vec![0.0; len];
        Stock { left: zeros.clone(), unit: zeros.clone(), asked: zeros.clone(), counted: zeros }
    }

    #[expect(clippy::cast_possible_truncation, reason = "shares are rounded on purpose")]
    fn set(&mut self, at: usize, amount: &NodeAmount) {
        let is_sound = 0 < amount.all && 0 <= amount.asked && 0 <= amount.counted;
        let unit = if is_sound { 1.0 / wide(amount.all) } else { 0.0 };
        self.left[at] = rounded(amount.left());
        self.unit[at] = unit as f32;
        self.asked[at] = (wide(amount.asked) * unit) as f32;
        self.counted[at] = (wide(amount.counted) * unit) as f32;
    }
}

/// One amount on one node.
struct NodeAmount {
    all: i64,
    asked: i64,
    counted: i64,
}

impl NodeAmount {
    /// The amount of `resource` on the node in `row`. For [`PODS`] it is the number of pods.
    fn of(resource: &str, nodes: &Columns, row: Row) -> Self {
        let all = nodes.allocatable.at(row).0.get(resource);
        let requested = &nodes.requested.at(row).0;
        let non_zero = nodes.non_zero_requested.at(row).0;
        let (asked, counted) = match resource {
            CPU => (requested.milli_cpu, non_zero.milli_cpu),
            MEMORY => (requested.memory, non_zero.memory),
            PODS => {
                let pods = i64::try_from(nodes.pods_on(row).len()).unwrap_or(i64::MAX);
                (pods, pods)
            }
            _ => {
                let asked = requested.get(resource);
                (asked, asked)
            }
        };
        NodeAmount { all, asked, counted }
    }

    fn left(&self) -> i64 {
        self.all.saturating_sub(self.asked)
    }
}

/// What all nodes have, and what is taken of it.
#[derive(Clone, Debug, Default)]
pub struct Supply {
    len: usize,
    stocks: Vec<(Str, Stock)>,
}

impl Supply {
    /// The supply of nodes at `len` places, without any resource yet.
    pub fn new(len: usize) -> Self {
        Supply { len, stocks: Vec::new() }
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no place.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many resources are tracked.
    pub fn n_resources(&self) -> usize {
        self.stocks.len()
    }

    /// Tracks `resource` from now on, too. `places` are the places of the nodes, each with its row. At a place without
    /// a node there is nothing.
    pub fn cover(
        &mut self,
        resource: &Str,
        nodes: &Columns,
        places: impl Iterator<Item = (usize, Row)>,
    ) {
        if self.stock(resource).is_some() {
            return;
        }
        let mut stock = Stock::with(self.len);
        for (at, row) in places {
            stock.set(at, &NodeAmount::of(resource, nodes, row));
        }
        self.stocks.push((resource.clone(), stock));
    }

    /// Updates the node at place `at`, which is in `row`.
    pub fn look(&mut self, at: usize, nodes: &Columns, row: Row) {
        for (resource, stock) in &mut self.stocks {
            stock.set(at, &NodeAmount::of(resource, nodes, row));
        }
    }

    /// What there is of `resource`; `None` if it is not tracked.
    pub fn stock(&self, resource: &str) -> Option<&Stock> {
        self.stocks.iter().find(|(name, _)| name == resource).map(|(_, stock)| stock)
    }
}

/// A filter as data: a node passes if, and only if, it has this much left of each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs(pub SmallVec<[(Str, i64); 4]>);

impl Needs {
    /// Whether the node in `row` has it all.
    pub fn are_met(&self, nodes: &Columns, row: Row) -> bool {
        let is_met =
            |(resource, asked): &(Str, i64)| *asked <= NodeAmount::of(resource, nodes, row).left();
        self.0.iter().all(is_met)
    }

    /// How many equal pods the node in `row` has all this for, one after the other. Each takes `takes` of what is left, and one of
    /// [`PODS`]. As many as a `usize` holds if they take nothing of what they need.
    pub fn times_met(&self, nodes: &Columns, row: Row, takes: &Resources) -> usize {
        let times = |(resource, asked): &(Str, i64)| {
            let takes = if resource == PODS { 1 } else { takes.get(resource) };
            let beyond = NodeAmount::of(resource, nodes, row).left().saturating_sub(*asked);
            match usize::try_from(beyond) {
                Err(_) => 0,
                Ok(_) if takes <= 0 => usize::MAX,
                Ok(_) => usize::try_from(beyond / takes).unwrap_or(usize::MAX).saturating_add(1),
            }
        };
        self.0.iter().map(times).min().unwrap_or(usize::MAX)
    }

    /// Sets `out` to [`NEVER`] for nodes that have too little. Because amounts are rounded, it may keep nodes that
    /// lack a little. Returns whether there may be such nodes.
    pub fn sieve(&self, supply: &Supply, out: &mut [f32]) -> bool {
        sieve(&self.0, supply, out)
    }

    /// The same, where `out` becomes what `before` is for the other nodes.
    pub fn sieve_copy(&self, supply: &Supply, before: &[f32], out: &mut Vec<f32>) -> bool {
        let first = self.0.split_first();
        let stock = first.and_then(|((resource, _), _)| supply.stock(resource));
        let Some((((_, asked), others), stock)) = first.zip(stock) else {
            before.clone_into(out);
            return !self.0.is_empty();
        };
        let least = rounded(*asked);
        out.resize(before.len(), NEVER);
        copy_above(least, &stock.left, before, out);
        let is_unsure = is_rounded(*asked) && has(&stock.left, least);
        sieve(others, supply, out) || is_unsure
    }

    /// The places of nodes for which rounding hides whether they have enough: those that may lack a little, and
    /// those that have exactly what is needed.
    pub fn doubtful(&self, supply: &Supply, mut out: impl FnMut(usize)) {
        const BLOCK: usize = 64;
        for (resource, asked) in self.0.iter().filter(|(_, asked)| is_rounded(*asked)) {
            let Some(stock) = supply.stock(resource) else { continue };
            let asked = rounded(*asked);
            for (number, block) in stock.left.chunks(BLOCK).enumerate() {
                if has(block, asked) {
                    let is_same = |left: &f32| left.to_bits() == asked.to_bits();
                    let at = block.iter().enumerate().filter(|(_, left)| is_same(left));
                    at.for_each(|(at, _)| out(number * BLOCK + at));
                }
            }
        }
    }
}

/// Below every score: the node is ruled out.
pub const NEVER: f32 = f32::NEG_INFINITY;

/// An upper bound of the scores of nodes.
pub trait ScoreBound: Send + Sync {
    /// The resources that it reads.
    fn resources(&self) -> SmallVec<[Str; 4]>;
    /// The part of the score that depends on the node in `row` alone, and not on the pod. It is the same for all
    /// bounds of one plugin with the same [resources](Self::resources). `None` if there is no such part.
    fn own(&self, _nodes: &Columns, _row: Row) -> Option<f32> {
        None
    }
    /// Adds `weight` times a whole number to `out` for each node. That number is never below the score of the node,
    /// and is the score itself for most nodes. `supply` has a [`Stock`] of each resource. `own` has [the part that
    /// depends on the node alone](Self::own) for each node, or is empty.
    fn add(&self, supply: &Supply, own: &[f32], weight: f32, out: &mut [f32]);
}

/// Sets `out` to [`NEVER`] for nodes that have less left than is asked. Returns whether it may keep nodes that lack a little.
fn sieve(needs: &[(Str, i64)], supply: &Supply, out: &mut [f32]) -> bool {
    let mut is_unsure = false;
    for (resource, asked) in needs {
        let Some(stock) = supply.stock(resource) else { return true };
        let least = rounded(*asked);
        exclude_below(least, &stock.left, out);
        is_unsure |= is_rounded(*asked) && has(&stock.left, least);
    }
    is_unsure
}

/// Copies `before` to `out`, with [`NEVER`] where less than `least` is left. Compiled again for the wider vectors of newer
/// processors.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn copy_above(least: f32, left: &[f32], before: &[f32], out: &mut [f32]) {
    for ((out, &before), &left) in out.iter_mut().zip(before).zip(left) {
        *out = if left < least { NEVER } else { before };
    }
}

/// Sets `out` to [`NEVER`] where less than `least` is left. Compiled as [`copy_above`] is.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn exclude_below(least: f32, left: &[f32], out: &mut [f32]) {
    for (out, &left) in out.iter_mut().zip(left) {
        *out = if left < least { NEVER } else { *out };
    }
}

/// Whether `one` is among `numbers`. It does not stop at the first match: without a branch it can be vectorized, which
/// is faster.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn has(numbers: &[f32], one: f32) -> bool {
    numbers.iter().fold(false, |found, number| found | (number.to_bits() == one.to_bits()))
}

/// Whether a smaller amount may be rounded to the same number as `amount`.
fn is_rounded(amount: i64) -> bool {
    const EXACT: i64 = 1 << f32::MANTISSA_DIGITS;
    amount <= -EXACT || EXACT < amount
}

#[expect(clippy::cast_precision_loss, reason = "rounding keeps the order")]
fn rounded(amount: i64) -> f32 {
    amount as f32
}

#[expect(clippy::cast_precision_loss, reason = "the result is rounded further to f32")]
fn wide(amount: i64) -> f64 {
    amount as f64
}
