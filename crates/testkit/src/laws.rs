//! The laws that every plugin keeps, whatever it decides.
//!
//! 1. The order of rows is irrelevant: the verdict on a node does not depend on when nodes and pods were added.
//! 2. A change that is undone changes nothing: `update` with a pod that comes and then leaves, or leaves and then
//!    comes, restores all verdicts.
//! 3. `update` gives the same verdicts as preparing again: after a pod came or left, the updated state gives the same
//!    verdicts as a state that is prepared afterwards.
//! 4. Updating a copy of a state does not change the original.
//! 5. Normalised scores are 0 to 100.
//! 6. Amounts agree with the rule: [needs] pass the same nodes as the filter, and no score is above its [bound].
//! 7. Counts agree with the rule: a filter that judges [by counts] passes the same nodes, and a score by counts gives
//!    the same scores. A pod that [does not move] such a filter changes no verdict when it comes or leaves, also in a
//!    dry run, for nominated pods and victims. If the filter [follows dry runs], those that begin with counts give the
//!    same verdict as an update of the rule.
//! 8. Scores [by node] and [on demand] agree with the rule: a node has the same score, whichever nodes are feasible. No
//!    score on demand is above its bound.
//! 9. A filter that says that it [cannot err](plimsoll_framework::PreFilter::may_err) judges every node, and one that says
//!    on which nodes [alone it passes](plimsoll_framework::PreFilter::passes_only_on) rejects all others.
//! 10. States of equal [keys](plimsoll_framework::FilterByKey) give equal verdicts, also after an object has come or gone
//!     that does not concern the node.
//! 11. Nothing panics.
//!
//! Laws 6 to 8 and 10 compare the [acceleration](plimsoll_framework::accelerate) of a plugin with its rule. They are checked
//! for every plugin that registers any.
//!
//! [needs]: plimsoll_framework::FilterByAmounts
//! [bound]: plimsoll_framework::ScoreByAmounts
//! [by node]: plimsoll_framework::ScoreByNode
//! [on demand]: plimsoll_framework::ScoreOnDemand
//! [by counts]: plimsoll_framework::domains
//! [follows dry runs]: plimsoll_framework::DomainFilter::follows_dry_runs
//! [does not move]: plimsoll_framework::DomainFilter::count_in_dry_run
//!
//! [`Update::Rebuild`] promises nothing, so laws 2 and 3 ignore the verdicts after it. They also ignore a filter that
//! skips the pod: as in kube-scheduler, it is not told of changes. They check how a plugin follows changes, not what
//! changes leave on a node: if two pods have the same host port, the first that leaves frees it.
//!
//! A rule that is wrong in the same way from scratch and when accelerated breaks no law. Scenarios, recorded decisions
//! and independent computations find such mistakes.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use plimsoll_api::{Node, Pod};
use plimsoll_framework::points::{FilterPoint, ScorePoint};
use plimsoll_framework::{
    Code, Columns, CycleState, Entry, LabelledNodes, MAX_NODE_SCORE, PodChange, PodInfo, Points,
    Prepared, Row, Update, Verdict,
};

use crate::amounts::amounts_agree;
use crate::by_node::nodes_agree;
use crate::check::{Verdicts, in_words, read, report_on};
use crate::cluster::Cluster;
use crate::counts::{counts_agree, in_dry_run, may_be_moved};
use crate::keys::keys_agree;
use crate::scenario::Scenario;
use crate::shrink::smallest;

/// Checks that the plugin of `entry` keeps the laws in each of `scenarios`; see the [module](self).
///
/// # Panics
/// If the plugin breaks a law; the message has a smallest scenario in which it does. Also if a scenario cannot be
/// parsed, or the plugin cannot be made from its args.
pub fn laws(entry: &Entry, scenarios: impl IntoIterator<Item = impl AsRef<str>>) {
    for text in scenarios {
        let text = text.as_ref();
        let scenario = read(text);
        if let Err(error) = entry.make(scenario.args.as_ref(), &scenario.gates) {
            panic!("{error}");
        }
        let Some(broken) = breach(entry, text) else { continue };
        let (text, broken) = smallest(text, broken, |text| breach(entry, text));
        panic!("{} breaks a law: {broken}\nin this scenario:\n{text}", entry.name());
    }
}

/// How the plugin breaks a law in a scenario. Also `None` for a scenario that cannot be parsed.
fn breach(entry: &Entry, text: &str) -> Option<String> {
    let scenario = Scenario::parse(text).ok()?;
    let judged = catch_unwind(AssertUnwindSafe(|| judge(entry, &scenario)));
    match judged {
        Ok(kept) => kept.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Some(format!("it panics: {text}"))
        }
    }
}

pub(crate) type Kept = Result<(), String>;

fn judge(entry: &Entry, scenario: &Scenario) -> Kept {
    let plugin = entry.make(scenario.args.as_ref(), &scenario.gates);
    let plugin = plugin.expect("the plugin was made from these args before");
    order_is_irrelevant(entry, scenario)?;
    if let Some(filter) = &plugin.filter {
        let followed = Followed { filter, scenario };
        for pod in &scenario.pending {
            followed.changes(pod)?;
            judges_as_said(filter, pod, scenario)?;
        }
    }
    if let Some(score) = &plugin.score {
        scores_are_in_range(&plugin, score, scenario)?;
    }
    counts_agree(&plugin, scenario)?;
    nodes_agree(&plugin, scenario)?;
    keys_agree(&plugin, scenario)?;
    amounts_agree(&plugin, scenario)
}

/// A filter that says that it cannot err judges every node, and it passes only where it says.
fn judges_as_said(filter: &FilterPoint, pod: &PodInfo, scenario: &Scenario) -> Kept {
    let cluster = Cluster::of(scenario);
    let prepared = filter.prepare(pod, &mut CycleState::default(), &cluster.view());
    let (may_err, only) = (prepared.may_err(), prepared.passes_only_on());
    let only_with = prepared.passes_only_with();
    for row in cluster.nodes.rows() {
        let node = cluster.nodes.name_of(row);
        let labels = &cluster.nodes.node(row).labels;
        let lacks = |one: &&LabelledNodes| {
            labels.get(&one.label).is_none_or(|value| !one.values.contains(value))
        };
        match prepared.judge_one(pod, &cluster.nodes, row) {
            Verdict::Fail(why) if why.code == Code::Error && !may_err => {
                let pod = &pod.key;
                return Err(format!(
                    "`may_err` is false, but {node} gets an error for {pod}: {why}"
                ));
            }
            Verdict::Pass if only.as_ref().is_some_and(|names| !names.contains(node)) => {
                let pod = &pod.key;
                return Err(format!("`passes_only_on` lacks {node}, but it passes for {pod}"));
            }
            Verdict::Pass if only_with.iter().any(|one| lacks(&one)) => {
                let pod = &pod.key;
                return Err(format!("`passes_only_with` excludes {node}, but it passes for {pod}"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn order_is_irrelevant(entry: &Entry, scenario: &Scenario) -> Kept {
    let cluster = Cluster::of(scenario);
    let expected = report_on(entry, &[], scenario, &cluster);
    let backwards =
        Cluster::with(scenario, scenario.nodes.iter().rev(), scenario.placed.iter().rev());
    for (order, other) in [("reversed", backwards), ("moved to other rows", moved(scenario))] {
        let found = report_on(entry, &[], scenario, &other);
        if found != expected {
            return Err(format!(
                "the order of rows is irrelevant, but with nodes and pods {order} \
                 the verdicts are\n{found}instead of\n{expected}"
            ));
        }
    }
    Ok(())
}

/// The cluster with every node in another row, and empty rows between them.
fn moved(scenario: &Scenario) -> Cluster {
    let mut cluster = Cluster::of(scenario);
    let mut empty = Vec::new();
    for node in &scenario.nodes {
        let row = cluster.row(&node.name).expect("the cluster is the scenario's");
        let pods = cluster.nodes.remove(row);
        empty.push(cluster.nodes.add(Node::default()));
        let row = cluster.nodes.add(node.clone());
        for pod in &pods {
            cluster.nodes.place(row, pod);
        }
    }
    for row in empty {
        cluster.nodes.remove(row);
    }
    cluster
}

/// A filter that follows changes of the cluster.
struct Followed<'a> {
    filter: &'a FilterPoint,
    scenario: &'a Scenario,
}

/// A pod that comes to a row, or leaves it.
#[derive(Clone, Copy)]
struct PodMove<'a> {
    comes: bool,
    pod: &'a PodInfo,
    row: Row,
}

impl<'a> PodMove<'a> {
    fn happen(self, nodes: &mut Columns) {
        if self.comes {
            nodes.place(self.row, self.pod);
        } else {
            let gone = nodes.displace(self.row, &self.pod.key);
            assert!(gone.is_some(), "only a pod that is there leaves");
        }
    }

    fn told(self) -> PodChange<'a> {
        if self.comes { PodChange::Added(self.pod) } else { PodChange::Removed(self.pod) }
    }

    fn undone(self) -> Self {
        PodMove { comes: !self.comes, ..self }
    }

    fn describe(self, cluster: &Cluster, judged: &PodInfo) -> String {
        let word = if self.comes { "comes to" } else { "leaves" };
        let node = cluster.nodes.name_of(self.row);
        format!("{} {word} {node} and {} is judged", self.pod.key, judged.key)
    }
}

impl Followed<'_> {
    /// Lets every placed pod leave, and every other pending pod come to every node.
    fn changes(&self, judged: &PodInfo) -> Kept {
        let mut cluster = Cluster::of(self.scenario);
        let rows: Vec<Row> = cluster.nodes.rows().collect();
        for pod in &self.scenario.placed {
            let node = pod.node_name.as_ref().expect("a placed pod names its node");
            let row = cluster.row(node).expect("the cluster is the scenario's");
            self.change(judged, &mut cluster, PodMove { comes: false, pod, row })?;
        }
        let others = self.scenario.pending.iter().filter(|pod| pod.key != judged.key);
        for pod in others {
            for &row in &rows {
                let node_name = Some(cluster.nodes.name_of(row).clone());
                let pod = PodInfo::new(Pod { node_name, ..Pod::clone(pod) });
                self.change(judged, &mut cluster, PodMove { comes: true, pod: &pod, row })?;
            }
        }
        Ok(())
    }

    /// One change, followed and undone.
    fn change(&self, judged: &PodInfo, cluster: &mut Cluster, change: PodMove<'_>) -> Kept {
        let rows: Vec<Row> = cluster.nodes.rows().collect();
        let before = self.prepare(judged, cluster);
        if before.skips() {
            return Ok(());
        }
        let stood = Verdicts::of(&before, judged, cluster, &rows);
        let is_moved = may_be_moved(self.filter, judged, change.pod, cluster);
        let (mut after, nodes) = (before.clone(), cluster.nodes.clone());

        let mut changed = nodes.clone();
        change.happen(&mut changed);
        let dry_run = (change.told(), &changed, change.row);
        let by_counts = in_dry_run(self.filter, judged, cluster, dry_run)?;

        change.happen(&mut cluster.nodes);
        let update = after.update(change.told(), &cluster.nodes, change.row);
        let fresh = Verdicts::of(&self.prepare(judged, cluster), judged, cluster, &rows);
        let updated = Verdicts::of(&after, judged, cluster, &rows);
        let law = "a pod that does not move a filter changes no verdict";
        let kept = if is_moved { Ok(()) } else { same(law, cluster, &rows, &updated, &stood) };
        let kept = kept.and_then(|()| match by_counts {
            Some(counted) if updated.on(change.row).as_ref() != Some(&counted) => {
                let node = cluster.nodes.name_of(change.row);
                let counted = in_words(&counted);
                Err(format!("dry runs by counts agree with `update`, but on {node}: {counted}\n"))
            }
            _ => Ok(()),
        });
        let kept = if kept.is_err() || update == Update::Rebuild {
            kept
        } else {
            let law = "`update` gives the same verdicts as preparing again";
            same(law, cluster, &rows, &updated, &fresh)
        };
        let described = change.describe(cluster, judged);

        let undone = change.undone();
        cluster.nodes = nodes;
        let kept = kept.and_then(|()| {
            let law = "updating a copy does not change the original";
            same(law, cluster, &rows, &Verdicts::of(&before, judged, cluster, &rows), &stood)?;
            let again = after.update(undone.told(), &cluster.nodes, change.row);
            if update == Update::Rebuild || again == Update::Rebuild {
                return Ok(());
            }
            let law = "a change that is undone changes nothing";
            same(law, cluster, &rows, &Verdicts::of(&after, judged, cluster, &rows), &stood)
        });
        kept.map_err(|broken| format!("{broken}when {described}"))
    }

    fn prepare(&self, pod: &PodInfo, cluster: &Cluster) -> Prepared {
        self.filter.prepare(pod, &mut CycleState::default(), &cluster.view())
    }
}

/// Checks that both have the same verdicts on `rows`.
fn same(law: &str, cluster: &Cluster, rows: &[Row], found: &Verdicts, expected: &Verdicts) -> Kept {
    let mut apart = String::new();
    if found.candidates != expected.candidates {
        apart = format!("{:?}, expected {:?}\n", found.candidates, expected.candidates);
    }
    let told = |verdict: Option<Verdict>| {
        verdict.map_or_else(|| "not asked".to_owned(), |verdict| in_words(&verdict))
    };
    for &row in rows {
        let (found, expected) = (told(found.on(row)), told(expected.on(row)));
        if found != expected {
            let node = cluster.nodes.name_of(row);
            writeln!(apart, "{node} {found}, expected {expected}")
                .expect("a string takes any text");
        }
    }
    if apart.is_empty() { Ok(()) } else { Err(format!("{law}, but\n{apart}")) }
}

fn scores_are_in_range(plugin: &Points, score: &ScorePoint, scenario: &Scenario) -> Kept {
    let cluster = Cluster::of(scenario);
    let rows: Vec<Row> = cluster.nodes.rows().collect();
    for pod in &scenario.pending {
        let mut shared = CycleState::default();
        let mut feasible = rows.clone();
        if let Some(filter) = &plugin.filter {
            let prepared = filter.prepare(pod, &mut shared, &cluster.view());
            let verdicts = Verdicts::of(&prepared, pod, &cluster, &rows);
            feasible.retain(|&row| verdicts.on(row).is_some_and(|verdict| verdict.passes()));
        }
        let scores = score.score(pod, &mut shared, &cluster.view(), &feasible).unwrap_or_default();
        for one in scores {
            if !(0..=MAX_NODE_SCORE).contains(&one.score) {
                let node = cluster.nodes.name_of(one.row);
                return Err(format!(
                    "normalised scores are 0 to {MAX_NODE_SCORE}, but {node} has {} for {}",
                    one.score, pod.key
                ));
            }
        }
    }
    Ok(())
}
