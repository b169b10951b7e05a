//! The nodes that miss by least.

use plimsoll_api::{Pod, Str};
use plimsoll_engine::{NodeJudge, Verdicts};
use plimsoll_framework::{Allocatable, Code, NodePart, Rejection, Row, View};
use serde::Serialize;

use crate::relaxations::requests;

/// A node, with the verdict of every filter that rejects it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NearNode {
    /// The node.
    pub name: String,
    /// Why it is rejected, in the order of the profile.
    pub failures: Vec<Refusal>,
}

/// Why a filter rejects a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The filter.
    pub plugin: String,
    /// Whether evicting pods could help: `Unschedulable` or `UnschedulableAndUnresolvable`.
    pub code: &'static str,
    /// Its reasons.
    pub reasons: Vec<String>,
}

impl Refusal {
    pub(crate) fn of(plugin: &str, why: &Rejection) -> Self {
        let code = match why.code {
            Code::Pending => Code::UnschedulableAndUnresolvable,
            code => code,
        };
        Refusal {
            plugin: plugin.to_owned(),
            code: code.as_str(),
            reasons: why.reasons.iter().map(ToString::to_string).collect(),
        }
    }
}

/// The nodes that are rejected, those first that the fewest filters reject, then those that lack the smallest part of what
/// the pod requests, then by name.
pub(crate) fn by_distance(view: View<'_>, pod: &Pod, verdicts: &Verdicts) -> Vec<Row> {
    let name = |row: Row| view.nodes.name_of(row);
    let requested = requests::names(pod);
    let rejected = verdicts.counts().filter(|(_, count)| 0 < *count);
    let mut rows: Vec<_> = rejected
        .map(|(row, count)| {
            let shortage = shortage(view, row, pod, &requested);
            ((count, shortage, beginning(name(row))), row)
        })
        .collect();
    rows.sort_unstable_by(|(a, one), (b, other)| {
        a.cmp(b).then_with(|| name(*one).cmp(name(*other)))
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The first bytes of a name. Where they differ they are in the order of the names, and compared in one step.
fn beginning(name: &str) -> u128 {
    let mut bytes = [0; 16];
    let length = name.len().min(bytes.len());
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    u128::from_be_bytes(bytes)
}

/// How much of what the pod requests a node lacks: for each resource the part of the request, in millionths, added up.
fn shortage(view: View<'_>, row: Row, pod: &Pod, requested: &[Str]) -> i64 {
    let has = &Allocatable::at(view.nodes, row).0;
    let used = view.nodes.requested_of(row);
    let lack = |name: &str| {
        let asked = pod.requests.get(name);
        let free = has.get(name).saturating_sub(used.get(name)).max(0);
        if asked <= free { 0 } else { i128::from(asked - free) * 1_000_000 / i128::from(asked) }
    };
    requested.iter().map(|name| i64::try_from(lack(name)).unwrap_or(i64::MAX)).sum()
}

/// The first of `rows` with all that rejects them.
pub(crate) fn nearest(judge: &NodeJudge<'_>, rows: &[Row], most: usize) -> Vec<NearNode> {
    let names = rows.iter().take(most).map(|&row| judge.view().nodes.name_of(row));
    let described = names.map(|name| NearNode {
        name: name.to_string(),
        failures: judge
            .rejections_on(name)
            .unwrap_or_default()
            .iter()
            .map(|(plugin, why)| Refusal::of(plugin, why))
            .collect(),
    });
    described.collect()
}
