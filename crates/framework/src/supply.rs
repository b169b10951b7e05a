//! What all nodes have and what of it is left, one array for each amount: for those who look at all
//! nodes at once.
//!
//! A plugin that judges by amounts can say so as data ([`Needs`]), or say at once for all nodes how high
//! their scores can be ([`ScoreBound`]). The engine then leaves out nodes by the thousand, and asks the plugin
//! itself only about the few that are left.

use plimsoll_api::Str;
use plimsoll_api::resources::{CPU, MEMORY, PODS};
use smallvec::SmallVec;

use crate::columns::{Columns, Row};

/// One amount on all nodes.
///
/// The numbers are rounded: shares to one part in ten million, and what is left in such a way that of
/// two amounts the greater one is never the smaller number.
#[derive(Clone, Debug, Default)]
pub struct Stock {
    /// What is left of it.
    pub left: Vec<f32>,
    /// Which share of it one unit is; 0 where a node has none, or where what pods ask for is no amount.
    pub unit: Vec<f32>,
    /// Which share of it pods ask for.
    pub asked: Vec<f32>,
    /// Which share of it pods count for in scoring.
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
    /// Of `resource` on the node in `row`; of [`PODS`] how many pods there are.
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

/// What all nodes have and what is taken of it.
#[derive(Clone, Debug, Default)]
pub struct Supply {
    len: usize,
    stocks: Vec<(Str, Stock)>,
}

impl Supply {
    /// Of so many nodes, and of no resource yet.
    pub fn new(len: usize) -> Self {
        Supply { len, stocks: Vec::new() }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many resources are looked after.
    pub fn n_resources(&self) -> usize {
        self.stocks.len()
    }

    /// Looks after `resource` from now on, too. `rows` says where the nodes are.
    pub fn cover(&mut self, resource: &Str, nodes: &Columns, rows: impl Iterator<Item = Row>) {
        if self.stock(resource).is_some() {
            return;
        }
        let mut stock = Stock::with(self.len);
        for (at, row) in rows.enumerate() {
            stock.set(at, &NodeAmount::of(resource, nodes, row));
        }
        self.stocks.push((resource.clone(), stock));
    }

    /// Looks at the node at place `at` again, which is in `row`.
    pub fn look(&mut self, at: usize, nodes: &Columns, row: Row) {
        for (resource, stock) in &mut self.stocks {
            stock.set(at, &NodeAmount::of(resource, nodes, row));
        }
    }

    /// What there is of `resource`; `None` if nobody looks after it.
    pub fn stock(&self, resource: &str) -> Option<&Stock> {
        self.stocks.iter().find(|(name, _)| name == resource).map(|(_, stock)| stock)
    }
}

/// A filter as data: exactly those nodes pass that have so much left of each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs(pub SmallVec<[(Str, i64); 4]>);

impl Needs {
    /// Whether the node in `row` has it all.
    pub fn are_met(&self, nodes: &Columns, row: Row) -> bool {
        let is_met =
            |(resource, asked): &(Str, i64)| *asked <= NodeAmount::of(resource, nodes, row).left();
        self.0.iter().all(is_met)
    }

    /// Puts [`NEVER`] into `out` for nodes that have too little. It keeps all that have enough, and
    /// perhaps some that lack less than the rounding: whether there may be any of those is the answer.
    pub fn sieve(&self, supply: &Supply, out: &mut [f32]) -> bool {
        let mut is_unsure = false;
        for (resource, asked) in &self.0 {
            let Some(stock) = supply.stock(resource) else { return true };
            let least = rounded(*asked);
            for (out, &left) in out.iter_mut().zip(&stock.left) {
                *out = if left < least { NEVER } else { *out };
            }
            is_unsure |= is_rounded(*asked) && has(&stock.left, least);
        }
        is_unsure
    }

    /// The places of nodes that may lack less of something than the rounding, and of others that have just
    /// as much as is needed.
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

/// Below every score: the node is out of the question.
pub const NEVER: f32 = f32::NEG_INFINITY;

/// How high the scores of nodes can be.
pub trait ScoreBound: Send + Sync {
    /// The resources that it looks at.
    fn resources(&self) -> SmallVec<[Str; 4]>;
    /// A part of the score that depends on the node in `row` alone, and not on the pod. Bounds of one
    /// plugin with the same [resources](Self::resources) have the same. `None` if there is none.
    fn own(&self, _nodes: &Columns, _row: Row) -> Option<f32> {
        None
    }
    /// Adds to `out` for each node `weight` times a whole number that is not below its score, and for
    /// most nodes is its score. Of the resources there is a [`Stock`]; `own` has [what depends on the node
    /// alone](Self::own) of each node, or is empty.
    fn add(&self, supply: &Supply, own: &[f32], weight: f32, out: &mut [f32]);
}

/// Whether a number is among others. All are looked at, since several at a time are faster than a few.
fn has(numbers: &[f32], one: f32) -> bool {
    numbers.iter().fold(false, |found, number| found | (number.to_bits() == one.to_bits()))
}

/// Whether an amount that is less than `amount` may be rounded to the same number.
fn is_rounded(amount: i64) -> bool {
    const EXACT: i64 = 1 << f32::MANTISSA_DIGITS;
    amount <= -EXACT || EXACT < amount
}

#[expect(clippy::cast_precision_loss, reason = "rounding keeps the order")]
fn rounded(amount: i64) -> f32 {
    amount as f32
}

#[expect(clippy::cast_precision_loss, reason = "it is rounded much more in the end")]
fn wide(amount: i64) -> f64 {
    amount as f64
}
