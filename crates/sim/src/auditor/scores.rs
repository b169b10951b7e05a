//! Computes the best of the feasible nodes for a pod, by the scores of the default profile.

use plimsoll_api::{Effect, Labels, Node, Pod, Str};

use super::ObservedCluster;
use super::feasible::sum;

/// The highest score of a plugin, before its weight.
const HIGHEST: i64 = 100;
/// The weights of the plugins: taints, preferred nodes, spread, preferred pods. The others have weight
/// 1.
const WEIGHTS: [i64; 4] = [3, 2, 2, 2];
/// The weight of a required affinity term of another pod.
const REQUIRED: i64 = 1;
const MIB: i64 = 1 << 20;

impl ObservedCluster {
    /// The nodes with the highest total, by name.
    pub(super) fn best(&self, pod: &Pod, feasible: &[&Node]) -> Vec<Str> {
        if let [only] = feasible {
            return vec![only.name.clone()];
        }
        let totals = self.totals(pod, feasible);
        let highest = totals.iter().max().copied().unwrap_or(0);
        let with_totals = feasible.iter().zip(totals);
        let mut best: Vec<Str> = with_totals
            .filter(|(_, total)| *total == highest)
            .map(|(node, _)| node.name.clone())
            .collect();
        best.sort();
        best
    }

    fn totals(&self, pod: &Pod, feasible: &[&Node]) -> Vec<i64> {
        let each = |score: &dyn Fn(&Node) -> i64| -> Vec<i64> {
            feasible.iter().map(|node| score(node)).collect()
        };
        let taints = shares(&each(&|node| disliked(pod, node)));
        let nodes = shares(&each(&|node| pod.preferred_nodes.weight(&node.name, &node.labels)));
        let spread = self.evenness(pod, feasible);
        let near = between(&each(&|node| self.nearness(pod, node)));
        let free = each(&|node| self.free(pod, node));
        let balance = each(&|node| self.balance(pod, node));
        let images = each(&|node| self.images(pod, node));
        let total = |at: usize| {
            let [taint, node, even, close] = WEIGHTS;
            // The node with the most untolerated taints gets 0.
            taint * (HIGHEST - taints[at])
                + node * nodes[at]
                + even * spread[at]
                + close * near[at]
                + free[at]
                + balance[at]
                + images[at]
        };
        (0..feasible.len()).map(total).collect()
    }

    /// The mean of the free fractions of CPU and memory.
    fn free(&self, pod: &Pod, node: &Node) -> i64 {
        let there: Vec<&Pod> = self.pods_on(&node.name).collect();
        let (asked, has) = (pod.asks.room_non_zero, &node.allocatable);
        let cpu: i128 = there.iter().map(|pod| i128::from(pod.non_zero_requests.milli_cpu)).sum();
        let memory: i128 = there.iter().map(|pod| i128::from(pod.non_zero_requests.memory)).sum();
        let taken = [(cpu, asked.milli_cpu, has.milli_cpu), (memory, asked.memory, has.memory)];
        let scores: Vec<i64> = taken
            .into_iter()
            .filter(|(.., has)| *has != 0)
            .map(|(taken, asked, has)| {
                let left = (i128::from(has) - taken - i128::from(asked)).max(0);
                to_i64(left * i128::from(HIGHEST) / i128::from(has))
            })
            .collect();
        scores.iter().sum::<i64>() / i64::try_from(scores.len().max(1)).unwrap_or(1)
    }

    /// How much more balanced the node becomes with the pod.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the rule is one of floating point, cut off to whole numbers"
    )]
    fn balance(&self, pod: &Pod, node: &Node) -> i64 {
        let asked = &pod.asks.balance;
        if asked.milli_cpu == 0 && asked.memory == 0 {
            return 0;
        }
        let there: Vec<&Pod> = self.pods_on(&node.name).collect();
        let (taken, has) = (sum(&there), &node.allocatable);
        let evenness = |cpu: i64, memory: i64| {
            let amounts = [(cpu, has.milli_cpu), (memory, has.memory)];
            let shares: Vec<f64> = amounts
                .into_iter()
                .filter(|(_, has)| *has != 0)
                .map(|(used, has)| (used as f64 / has as f64).min(1.0))
                .collect();
            let apart = if let [a, b] = shares[..] { ((a - b) / 2.0).abs() } else { 0.0 };
            ((1.0 - apart) * HIGHEST as f64) as i64
        };
        let before = evenness(taken.milli_cpu, taken.memory);
        let after = evenness(taken.milli_cpu + asked.milli_cpu, taken.memory + asked.memory);
        HIGHEST / 2 + (HIGHEST / 2 + after - before) / 2
    }

    /// The sizes of the pod's images on the node, each times the fraction of nodes that have it.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the rule is one of floating point, cut off to whole numbers"
    )]
    fn images(&self, pod: &Pod, node: &Node) -> i64 {
        let held = |node: &Node, name: &Str| {
            node.images.iter().find(|image| image.names.contains(name)).map(|image| image.size)
        };
        let worth = |name: &Str| {
            let size = held(node, name)?;
            let holders = self.nodes.values().filter(|node| held(node, name).is_some()).count();
            Some((size as f64 * (holders as f64 / self.nodes.len() as f64)) as i64)
        };
        let worth: i64 = pod.images.names.iter().filter_map(worth).sum();
        let containers = i64::try_from(pod.images.containers).unwrap_or(0);
        let (least, most) = (23 * MIB, 1000 * MIB * containers);
        let worth = if worth < least { least } else { worth.min(most) };
        HIGHEST * (worth - least) / (most - least)
    }

    /// The sum of the weights of preferred affinity terms, of the pod and of others, that match in the
    /// node's domains; anti-affinity counts negatively.
    fn nearness(&self, pod: &Pod, node: &Node) -> i64 {
        let mut sum = 0;
        let others = self.placed().filter_map(|(other, on)| Some((other, self.nodes.get(on)?)));
        for (other, on) in others {
            let mut add = |term, weight, meant: &Pod| {
                if self.speaks_of(term, meant) && super::pods::together(term, node, on) {
                    sum += weight;
                }
            };
            for one in &pod.affinity.preferred {
                add(&one.term, i64::from(one.weight), other);
            }
            for one in &pod.affinity.preferred_anti {
                add(&one.term, -i64::from(one.weight), other);
            }
            for one in &other.affinity.preferred {
                add(&one.term, i64::from(one.weight), pod);
            }
            for one in &other.affinity.preferred_anti {
                add(&one.term, -i64::from(one.weight), pod);
            }
            for term in &other.affinity.required {
                add(term, REQUIRED, pod);
            }
        }
        sum
    }
}

/// The untolerated taints `PreferNoSchedule`.
fn disliked(pod: &Pod, node: &Node) -> i64 {
    let soft = node.taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
    let untolerated = soft.filter(|taint| {
        !pod.tolerations.iter().any(|one| {
            one.key.as_ref().is_none_or(|key| *key == taint.key)
                && one.value.as_ref().is_none_or(|value| *value == taint.value)
                && one.effect.is_none_or(|effect| effect == taint.effect)
        })
    });
    i64::try_from(untolerated.count()).unwrap_or(i64::MAX)
}

/// In proportion to the highest.
fn shares(raw: &[i64]) -> Vec<i64> {
    let highest = raw.iter().max().copied().unwrap_or(0);
    raw.iter().map(|one| if highest == 0 { 0 } else { HIGHEST * one / highest }).collect()
}

/// Between the lowest and the highest.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the rule is one of floating point, cut off to whole numbers"
)]
fn between(raw: &[i64]) -> Vec<i64> {
    let (least, most) = (raw.iter().min().copied(), raw.iter().max().copied());
    let (Some(least), Some(most)) = (least, most) else { return Vec::new() };
    let share = |one: &i64| match most - least {
        0 => 0,
        range => (HIGHEST as f64 * ((one - least) as f64 / range as f64)) as i64,
    };
    raw.iter().map(share).collect()
}

fn to_i64(n: i128) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The value of a label; empty if it is missing.
pub(super) fn value<'a>(labels: &'a Labels, key: &str) -> &'a str {
    labels.get(key).map_or("", Str::as_str)
}
