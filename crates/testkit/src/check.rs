//! The verdicts and scores of a plugin for the pods of a scenario, as text.

use std::fmt::Write;

use expect_test::Expect;
use plimsoll_api::{PodKey, Str};
use plimsoll_framework::points::FilterPoint;
use plimsoll_framework::{
    Candidates, CycleState, DryRun, Entry, Gate, NodeRejection, NominatedPods, PodInfo, Points,
    PostFilterAnswer, Prepared, Rejection, Row, Verdict,
};

use crate::cluster::Cluster;
use crate::scenario::{DEFAULT_NAMESPACE, Scenario};

/// Compares the [`report`] on the pending pods of `scenario` with `expected`. Both formats are described in the
/// [docs of the crate](crate).
///
/// # Panics
/// If the report differs, or if the scenario cannot be parsed.
#[expect(clippy::needless_pass_by_value, reason = "`check(entry(), ...)` is easy to read")]
pub fn check(entry: Entry, scenario: &str, expected: &Expect) {
    expected.assert_eq(&report(&entry, &[], &read(scenario)));
}

/// As [`check()`], with `others` in the profile, too. They come first, with their default args, and are not reported.
/// Nodes that they reject have no score, and a PostFilter plugin is given them. What they share can be read.
///
/// # Panics
/// If the report differs, or if the scenario cannot be parsed.
#[expect(clippy::needless_pass_by_value, reason = "`check_among(.., entry(), ...)` as `check`")]
pub fn check_among(others: &[Entry], entry: Entry, scenario: &str, expected: &Expect) {
    expected.assert_eq(&report(&entry, others, &read(scenario)));
}

/// The verdicts and scores of the plugin of `entry` for the pending pods of `scenario`, with `others` before it in its
/// profile.
pub fn report(entry: &Entry, others: &[Entry], scenario: &Scenario) -> String {
    report_on(entry, others, scenario, &Cluster::of(scenario))
}

/// The same for a cluster whose rows may be in another order.
pub(crate) fn report_on(
    entry: &Entry,
    others: &[Entry],
    scenario: &Scenario,
    cluster: &Cluster,
) -> String {
    let plugin = match entry.make(scenario.args.as_ref(), &scenario.gates) {
        Ok(points) => CheckedPlugin { name: entry.name(), points },
        Err(error) => return format!("{error}\n"),
    };
    let others = others.iter().map(|other| CheckedPlugin {
        name: other.name(),
        points: other.make(None, &scenario.gates).expect("plugins have default args"),
    });
    let others: Vec<CheckedPlugin> = others.collect();
    let rows = scenario.nodes.iter().map(|node| cluster.row(&node.name));
    let rows: Vec<Row> = rows.map(|row| row.expect("the cluster is the scenario's")).collect();
    let mut out = String::new();
    for pod in &scenario.pending {
        let lines = PodLines { out: &mut out, pod: shown(&pod.key), cluster };
        ProfileRun::new(pod, cluster, &rows).run(&others, &plugin, lines);
    }
    out
}

/// Parses a scenario.
///
/// # Panics
/// If it cannot be parsed.
pub(crate) fn read(scenario: &str) -> Scenario {
    match Scenario::parse(scenario) {
        Ok(scenario) => scenario,
        Err(error) => panic!("{error}"),
    }
}

struct CheckedPlugin {
    name: &'static str,
    points: Points,
}

/// One pod on its way through a profile.
struct ProfileRun<'a> {
    pod: &'a PodInfo,
    cluster: &'a Cluster,
    rows: &'a [Row],
    shared: CycleState,
    prepared: Vec<Prepared>,
    feasible: Vec<Row>,
    rejected: Vec<NodeRejection>,
}

impl<'a> ProfileRun<'a> {
    fn new(pod: &'a PodInfo, cluster: &'a Cluster, rows: &'a [Row]) -> Self {
        ProfileRun {
            pod,
            cluster,
            rows,
            shared: CycleState::default(),
            prepared: Vec::new(),
            feasible: rows.to_vec(),
            rejected: Vec::new(),
        }
    }

    fn run(mut self, others: &[CheckedPlugin], plugin: &CheckedPlugin, mut lines: PodLines<'_>) {
        let view = self.cluster.view();
        if let Some(point) = &plugin.points.pre_enqueue {
            lines.gate(&point.pre_enqueue(self.pod, &view));
        }
        for other in others {
            if let Some(filter) = &other.points.filter {
                self.filter(other.name, filter);
            }
        }
        if let Some(filter) = &plugin.points.filter {
            lines.verdicts(&self.filter(plugin.name, filter));
        }
        if let Some(point) = &plugin.points.score
            && !self.feasible.is_empty()
        {
            let scores = point.score(self.pod, &mut self.shared, &view, &self.feasible);
            lines.scores(scores.map(|all| all.into_iter().map(|one| (one.row, one.score))));
        }
        if let Some(point) = &plugin.points.post_filter
            && self.feasible.is_empty()
        {
            let nominated = NominatedPods::default();
            let looked = others.iter().chain([plugin]).map(|plugin| plugin.name).collect();
            let dry_run = DryRun::new(self.pod, &self.prepared, &looked, &nominated, view);
            lines.post_filter(&point.post_filter(self.pod, &self.rejected, &dry_run));
        }
    }

    /// Judges all nodes by a filter, and removes those that it rejects from the feasible ones.
    fn filter(&mut self, plugin: &'static str, filter: &FilterPoint) -> Verdicts {
        let prepared = filter.prepare(self.pod, &mut self.shared, &self.cluster.view());
        let verdicts = Verdicts::of(&prepared, self.pod, self.cluster, self.rows);
        self.prepared.push(prepared);
        for row in std::mem::take(&mut self.feasible) {
            match verdicts.on(row) {
                Some(Verdict::Pass) => self.feasible.push(row),
                Some(Verdict::Fail(rejection)) => {
                    self.rejected.push(NodeRejection { row, plugin, rejection });
                }
                None => (),
            }
        }
        verdicts
    }
}

/// The verdicts of a filter on one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdicts {
    /// It rejects the pod for all nodes.
    pub(crate) everywhere: Option<Rejection>,
    /// The only nodes worth judging.
    pub(crate) candidates: Candidates,
    /// The verdicts on these, in the order of the rows that were given.
    pub(crate) nodes: Vec<(Row, Verdict)>,
}

impl Verdicts {
    /// The verdicts of a prepared filter on `rows`.
    pub(crate) fn of(prepared: &Prepared, pod: &PodInfo, cluster: &Cluster, rows: &[Row]) -> Self {
        let everywhere = prepared.rejection().cloned();
        let candidates = prepared.candidates();
        let mut worth = rows.to_vec();
        if let Candidates::Only(names) = &candidates {
            worth.retain(|&row| names.contains(cluster.nodes.name_of(row)));
        }
        let mut nodes = Vec::new();
        if everywhere.is_none() {
            prepared.judge(pod, &cluster.nodes, &worth, &mut |row, found| nodes.push((row, found)));
        }
        Verdicts { everywhere, candidates, nodes }
    }

    /// The verdict on one node; `None` if it was not judged.
    pub(crate) fn on(&self, row: Row) -> Option<Verdict> {
        if let Some(rejection) = &self.everywhere {
            return Some(Verdict::Fail(rejection.clone()));
        }
        self.nodes.iter().find(|(at, _)| *at == row).map(|(_, verdict)| verdict.clone())
    }
}

/// Lines about one pod.
struct PodLines<'a> {
    out: &'a mut String,
    pod: String,
    cluster: &'a Cluster,
}

impl PodLines<'_> {
    fn gate(&mut self, gate: &Gate) {
        match gate {
            Gate::Open => self.line("gate open"),
            Gate::Closed(rejection) => self.line(&format!("gate closed: {rejection}")),
        }
    }

    fn verdicts(&mut self, verdicts: &Verdicts) {
        if let Candidates::Only(names) = &verdicts.candidates {
            let names: Vec<&str> = names.iter().map(Str::as_str).collect();
            let names = if names.is_empty() { "(none)".to_owned() } else { names.join(", ") };
            self.line(&format!("only {names}"));
        }
        if let Some(rejection) = &verdicts.everywhere {
            self.line(&format!("* {}", in_words(&Verdict::Fail(rejection.clone()))));
        }
        for (row, verdict) in &verdicts.nodes {
            let name = self.cluster.nodes.name_of(*row);
            self.line(&format!("{name} {}", in_words(verdict)));
        }
    }

    fn scores(&mut self, scores: Option<impl Iterator<Item = (Row, i64)>>) {
        let Some(scores) = scores else { return self.line("skips score") };
        for (row, score) in scores {
            let name = self.cluster.nodes.name_of(row);
            self.line(&format!("{name} score {score}"));
        }
    }

    fn post_filter(&mut self, answer: &PostFilterAnswer) {
        let line = match answer {
            PostFilterAnswer::Nominated(nomination) if nomination.victims.is_empty() => {
                format!("nominates {}", nomination.node)
            }
            PostFilterAnswer::Nominated(nomination) => {
                let victims: Vec<String> = nomination.victims.iter().map(shown).collect();
                format!("nominates {} without {}", nomination.node, victims.join(", "))
            }
            PostFilterAnswer::Unschedulable(reason) => format!("is unschedulable: {reason}"),
            PostFilterAnswer::Hopeless(reason) => format!("is hopeless: {reason}"),
            PostFilterAnswer::Stop(reason) => format!("stops: {reason}"),
            PostFilterAnswer::Error(reason) => format!("errs: {reason}"),
        };
        self.line(&line);
    }

    fn line(&mut self, text: &str) {
        writeln!(self.out, "{} {text}", self.pod).expect("a string takes any text");
    }
}

/// `Success`, or the code and the reasons.
pub(crate) fn in_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Pass => "Success".to_owned(),
        Verdict::Fail(why) => format!("{}: {why}", why.code.as_str()),
    }
}

/// The name of a pod; with its namespace, unless that is `default`.
fn shown(pod: &PodKey) -> String {
    if pod.namespace == DEFAULT_NAMESPACE { pod.name.to_string() } else { pod.to_string() }
}
