//! Everything that is remembered stays in its budget, whatever pods come.

use std::collections::BTreeMap;

use plimsoll_framework::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::{lab, plugins};
use crate::memo::Budgets;
use crate::node_judge::PreparedFilters;
use crate::{Event, Next, Observation, Options, Profile, ProfileSpec, Scans, Scheduler};

/// The topology keys that nodes have.
const KEYS: u32 = 40;
const NODES: u32 = 30;
const PODS: u32 = 1_500;
/// By how much a part may exceed its budget, in bytes: what one decision adds.
const MARGIN: usize = 16 << 10;
/// A pod is deleted when so many others have come.
const STAYS_FOR: u32 = 300;
/// So many pods in a row are alike, from time to time.
const ALIKE: u32 = 3;

/// A node must have enough CPU left. It says so in amounts, too, so that nodes can be scanned.
struct Enough;

impl Plugin for Enough {
    const NAME: &'static str = "Enough";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Enough
    }
}

impl Filter for Enough {
    type Pod = Requests;
    type Node = (Allocatable, Requested);
    fn filter(&self, pod: &Resources, (has, used): (&Allocatable, &Requested)) -> Verdict {
        match pod.milli_cpu <= has.0.milli_cpu.saturating_sub(used.0.milli_cpu) {
            true => Verdict::Pass,
            false => Verdict::unschedulable("not enough"),
        }
    }
}

impl FilterByAmounts for Enough {
    fn needs(&self, pod: &Resources) -> Option<Needs> {
        Some(Needs([("cpu".into(), pod.milli_cpu)].into_iter().collect()))
    }
}

/// At most one pod with the same labels is in a domain of the topology key that they name. The pod and its name for
/// nodes are as hostile as they can be: every pod has labels of its own.
struct Alone;

impl Plugin for Alone {
    const NAME: &'static str = "Alone";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Alone
    }
}

fn key_of(labels: &Labels) -> Option<&Str> {
    labels.get("key")
}

fn verdict(count: i64) -> Verdict {
    if count == 0 { Verdict::Pass } else { Verdict::unschedulable("not alone") }
}

impl PreFilter for Alone {
    type Pod = Labels;
    type Node = Labels;
    type Cluster = Nodes<(Labels, Pods)>;
    type State = (Str, std::collections::BTreeMap<Str, i64>);

    fn pre_filter(
        &self,
        own: &Labels,
        nodes: NodesRef<'_, (Labels, Pods)>,
    ) -> Result<Option<Self::State>, Rejection> {
        let Some(key) = key_of(own) else { return Ok(None) };
        let mut counts = std::collections::BTreeMap::new();
        for (labels, pods) in nodes.iter() {
            let Some(domain) = labels.get(key) else { continue };
            let alike = pods.iter().filter(|pod| pod.labels == *own).count();
            *counts.entry(domain.clone()).or_default() += i64::try_from(alike).expect("few pods");
        }
        Ok(Some((key.clone(), counts)))
    }

    fn filter(&self, (key, counts): &Self::State, labels: &Labels) -> Verdict {
        verdict(labels.get(key).and_then(|domain| counts.get(domain)).copied().unwrap_or(0))
    }
}

impl FilterByCounts for Alone {
    type Objects = ();
    fn by_domain(&self, own: &Labels, (): (), _: Neighbours<'_>) -> ByDomain<dyn DomainFilter> {
        let Some(key) = key_of(own) else { return ByDomain::Skips };
        let term = DomainTerm { key: TopologyKey::Label(key.clone()), nodes: CountedNodes::all() };
        ByDomain::Counts(Box::new(CountsAlike([term], own.clone())))
    }
}

struct CountsAlike([DomainTerm; 1], Labels);

impl DomainCounter for CountsAlike {
    fn terms(&self) -> &[DomainTerm] {
        &self.0
    }
    fn counts_plain_pods(&self) -> bool {
        true
    }
    fn count(&self, other: Neighbour<'_>) -> Option<Counting> {
        Some(if *other.labels == self.1 { smallvec![(0, 1)] } else { smallvec![] })
    }
}

impl DomainFilter for CountsAlike {
    fn compares_domains(&self) -> bool {
        false
    }
    fn verdict(&self, term_counts: &[TermCount], _: &[TermTotals]) -> Verdict {
        verdict(term_counts[0].count)
    }
}

/// Some pods are kept off a third of the nodes. Each of them has a key of its own, so that no verdict is ever used again.
struct Picky;

impl Plugin for Picky {
    const NAME: &'static str = "Picky";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Picky
    }
}

impl PreFilter for Picky {
    type Pod = Labels;
    type Node = Name;
    type Cluster = ();
    type State = Str;

    fn applies(&self, own: &Labels) -> bool {
        own.get("id").is_some_and(|id| id.ends_with('7'))
    }

    fn pre_filter(&self, own: &Labels, (): ()) -> Result<Option<Str>, Rejection> {
        Ok(own.get("id").cloned())
    }

    fn filter(&self, _: &Str, node: &Str) -> Verdict {
        match node.starts_with("n0") {
            true => Verdict::unresolvable("picky"),
            false => Verdict::Pass,
        }
    }

    fn may_err(&self, _: &Str) -> bool {
        false
    }
}

impl FilterByKey for Picky {
    type Key = Str;

    fn key(&self, id: &Str, (): ()) -> Option<Str> {
        Some(id.clone())
    }

    fn key_bytes(&self, id: &Str) -> usize {
        id.len()
    }

    fn concerns(&self, _: &plimsoll_api::AnyObject, (): ()) -> ConcernedNodes {
        ConcernedNodes::none()
    }
}

fn scheduler(scans: Scans) -> Scheduler {
    let picky = Entry::of::<Picky>().pre_filter().filter_by_key().done();
    let alone = Entry::of::<Alone>().pre_filter().filter_by_counts().done();
    let enough = Entry::of::<Enough>().filter().filter_by_amounts().done();
    let others = ["Sort", "Binder", "Zone"];
    let registry = Registry::new(
        plugins::entries()
            .into_iter()
            .filter(|one| others.contains(&one.name()))
            .chain([enough, picky, alone]),
    );
    let mut spec = ProfileSpec { scheduler_name: "lab".into(), ..ProfileSpec::default() };
    for entry in registry.iter() {
        for &point in entry.points() {
            spec.points.entry(point).or_default().push((entry.name().to_owned(), 1));
        }
    }
    let profile = Profile::new(&spec, &registry, &FeatureGates::default());
    let options = Options { scans, audit_every: 10, ..Options::default() };
    Scheduler::new(vec![profile.expect("it is one")], options, 0).expect("there is a profile")
}

/// A pod like hardly any other. Some have no topology key, so that nothing is counted for them, and three of them in a row are
/// alike: then the totals of scans are kept.
fn pod(number: u32) -> plimsoll_api::Pod {
    let is_plain = (number / ALIKE).is_multiple_of(4);
    let class = if is_plain { number - number % ALIKE } else { number };
    let mut rng = Pcg64::seed_from_u64(u64::from(class));
    let mut pod = lab::pod(&format!("p{number}"), &["cpu=1"]);
    let template = std::sync::Arc::make_mut(&mut pod.template);
    let key = format!("k{}", rng.random_range(0..KEYS + 5));
    let labels = [("id", format!("{class}")), ("key", key)];
    let labels = labels.into_iter().take(if is_plain { 1 } else { 2 });
    template.labels = labels.map(|(key, value)| (Str::from(key), Str::from(value))).collect();
    template.priority = rng.random_range(0..50);
    // Some request more than a node has.
    template.asks.fit.milli_cpu = rng.random_range(1..1100) * 1000;
    pod
}

/// Decides and judges many pods, hardly two of which are alike, and returns the largest size of each part with its budget.
fn largest(scans: Scans, budgets: Budgets) -> BTreeMap<&'static str, (usize, usize)> {
    let mut scheduler = scheduler(scans);
    for number in 0..NODES {
        let mut node = lab::node(&format!("n{number:02}"), &["cpu=1000"]);
        let keys = (0..KEYS).map(|key| (format!("k{key}"), format!("v{}", number / (key % 4 + 1))));
        node.labels = keys.map(|(key, value)| (Str::from(key), Str::from(value))).collect();
        scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(node))));
    }
    scheduler.memo.as_mut().expect("decisions are remembered").limit(budgets);
    scheduler.prepared_filters = PreparedFilters::within(budgets.prepared_filters);
    let mut largest: BTreeMap<&'static str, (usize, usize)> = BTreeMap::new();
    for number in 0..PODS {
        if let Some(old) = number.checked_sub(STAYS_FOR) {
            scheduler.observe(Time::ZERO, Event::pod_gone(pod(old).key));
        }
        scheduler.transaction(Time::ZERO, |all| {
            let judged = all.judge(pod(number)).map(|mut judge| judge.verdicts().rows().count());
            assert_eq!(judged, Ok(NODES as usize));
        });
        scheduler.observe(Time::ZERO, Event::pod(pod(number)));
        let mut effects = Vec::new();
        while matches!(scheduler.step(Time::ZERO, &mut effects), Next::Again) {}
        let memo = scheduler.memo.as_ref().expect("decisions are remembered");
        let prepared = scheduler.prepared_filters.bytes();
        let prepared = ("prepared filters", prepared, budgets.prepared_filters);
        for (name, bytes, budget) in memo.weights().into_iter().chain([prepared]) {
            let (most, _) = largest.entry(name).or_insert((0, budget));
            *most = bytes.max(*most);
        }
    }
    assert_eq!(scheduler.audit().differences, []);
    assert_eq!(scheduler.audit_memory(), [""; 0]);
    largest
}

/// Whatever has a budget is a part, and no part is left out: a new field of the budgets or of the memo does not compile here and
/// in [`weights`](crate::memo::Memo::weights) until it is named.
#[test]
fn every_cache_stays_in_its_budget_under_pods_that_all_differ() {
    let few = 48 << 10;
    let small = Budgets {
        rankings: few,
        sparse_counts: few / 8,
        diagnoses: few,
        kept_totals: few / 16,
        domain_counts: few,
        topologies: few,
        verdicts: few / 16,
        signatures: few,
        signature_tables: few,
        neighbours: few,
        scanner: few,
        signature_diagnoses: few / 8,
        prepared_filters: few,
    };
    for scans in [Scans::Never, Scans::WhereCheaper, Scans::Always] {
        let parts = largest(scans, small);
        assert_eq!(parts.len(), size_of::<Budgets>() / size_of::<usize>(), "{parts:?}");
        for (name, (bytes, budget)) in parts {
            assert!(bytes <= budget + MARGIN, "{scans:?}: {name} takes {bytes} bytes of {budget}");
            let is_of_scans = ["kept totals", "scanner"].contains(&name);
            let is_reached = 0 < bytes || is_of_scans && scans == Scans::Never;
            assert!(is_reached, "{scans:?}: the pods do not reach {name}");
        }
        // Without small budgets they would exceed these.
        let exceeding = largest(scans, Budgets::default());
        let exceeding = exceeding.iter().filter(|(_, (bytes, _))| few + MARGIN < *bytes);
        let names: Vec<&str> = exceeding.map(|(name, _)| *name).collect();
        for part in ["domain counts", "neighbours", "prepared filters", "rankings", "signatures"] {
            assert!(names.contains(&part), "{scans:?}: {names:?} without {part}");
        }
    }
}
