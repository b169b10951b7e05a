//! NodeResourcesFit: free resources for the requests of a pod.

mod args;
mod placement;
mod requeue;
mod strategy;

use std::collections::BTreeSet;

use plimsoll_api::ObjectStores;
use plimsoll_api::resources::{
    CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_extended_resource_name, is_for_devices,
};
use plimsoll_framework::prelude::*;

use crate::devices::{CountedDevices, DeviceGates, DeviceKinds, TaintRules};
use crate::resource_allocation::ResourceAmounts;

pub use args::{NodeResourcesFitArgs, RequestedToCapacityRatioParam, ScoringStrategyArgs};
use strategy::ScoringStrategy;

const TOO_MANY_PODS: &str = "Too many pods";

/// At most this many reasons of a node are listed, and the others are counted: a pod may request tens
/// of thousands of resources, and every node may lack all of them.
const MOST_REASONS: usize = 64;

/// Rejects nodes without enough free resources for the requests of the pod, or without room for one
/// more pod. Prefers emptier or fuller nodes, depending on the scoring strategy.
///
/// Requests are guarantees: a node whose pods request more than it has could not satisfy all of them.
/// The actual usage of pods does not matter.
///
/// Example: a node with 4 CPUs, of which pods request 3, rejects a pod that requests 2 with
/// `Insufficient cpu`. If the pod requested 5, the rejection would be unresolvable, since the pod would
/// not fit even if the node were empty.
///
/// Differences from kube-scheduler: if a node lacks more than 64 resources, the others are only
/// counted. When a node is added or changed, the hint also ignores the resources that args ignore
/// (kube-scheduler does not wake a pod that requests an ignored resource).
///
/// A resource for which a device class stands is not looked at on nodes that do not offer it themselves:
/// DynamicResources finds devices there.
#[derive(Debug)]
pub struct NodeResourcesFit {
    /// Extended resources that the filter does not look at.
    ignored_resources: BTreeSet<String>,
    /// Nor at those with one of these prefixes.
    ignored_resource_groups: BTreeSet<String>,
    reject_overcommitted_nodes: bool,
    strategy: ScoringStrategy,
    gates: DeviceGates,
}

/// The plugin, where it stands.
pub fn entry() -> Entry {
    Entry::of::<NodeResourcesFit>()
        .filter()
        .at(Point::PreFilter)
        .filter_by_amounts()
        .score()
        .at(Point::PreScore)
        .pre_score_if(NodeResourcesFit::counts_devices)
        .reads_if::<DeviceKinds>(NodeResourcesFit::counts_devices)
        .reads_if::<TaintRules>(|plugin| plugin.gates.taint_rules)
        .score_by_amounts()
        .placement_score()
        .requeue()
        .shows_args()
        .done()
}

impl Plugin for NodeResourcesFit {
    const NAME: &'static str = "NodeResourcesFit";
    type Args = NodeResourcesFitArgs;

    fn new(args: NodeResourcesFitArgs, gates: &FeatureGates) -> Self {
        NodeResourcesFit {
            ignored_resources: args.ignored_resources.into_iter().collect(),
            ignored_resource_groups: args.ignored_resource_groups.into_iter().collect(),
            reject_overcommitted_nodes: args.reject_overcommitted_nodes,
            strategy: args.scoring_strategy.map(Into::into).unwrap_or_default(),
            gates: DeviceGates::of(gates),
        }
    }

    fn complete(args: &mut NodeResourcesFitArgs, _: &FeatureGates) {
        args.complete();
    }

    fn validate(args: &NodeResourcesFitArgs, _: &FeatureGates, faults: &mut ArgsFaults) {
        args.validate(faults);
    }
}

impl Filter for NodeResourcesFit {
    type Pod = Requests;
    type Node = ((Allocatable, Requested), (Pods, ProvidedResources));

    fn filter(
        &self,
        requests: &Resources,
        ((Allocatable(allocatable), Requested(requested)), (pods, provided)): Ref<
            '_,
            <Self as Filter>::Node,
        >,
    ) -> Verdict {
        let room = Room { allocatable, requested, pods: pods.len(), provided };
        self.lacks(requests, &room).map_or(Verdict::Pass, Verdict::Fail)
    }
}

impl FilterByAmounts for NodeResourcesFit {
    fn needs(&self, requests: &Resources) -> Option<Needs> {
        if self.counts_unasked(requests) {
            return None;
        }
        let own = [
            (CPU, requests.milli_cpu),
            (MEMORY, requests.memory),
            (EPHEMERAL_STORAGE, requests.ephemeral_storage),
        ];
        let own = own.into_iter().map(|(name, asked)| (Str::const_new(name), asked));
        let scalar = requests.scalar.iter().filter(|(name, _)| !self.ignores(name));
        let scalar = scalar.map(|(name, &asked)| (name.clone(), asked));
        let asked = own.chain(scalar).filter(|&(_, asked)| 0 < asked);
        Some(Needs(std::iter::once((Str::const_new(PODS), 1)).chain(asked).collect()))
    }
}

impl Score for NodeResourcesFit {
    type Pod = (RoomRequests, NonZeroRequests);
    type Node = (Allocatable, Requested, NonZeroRequested);

    fn score(
        &self,
        (requests, non_zero_requests): (&Resources, &NonZero),
        node: (&Allocatable, &Requested, &NonZeroRequested),
    ) -> i64 {
        let (Allocatable(allocatable), Requested(requested), NonZeroRequested(non_zero)) = node;
        let node = ResourceAmounts::non_zero(*non_zero, requested);
        let pod = ResourceAmounts::non_zero(*non_zero_requests, requests);
        self.strategy.score(allocatable, node, pod)
    }
}

/// Counts devices where classes stand for resources that the strategy names. As in resource_allocation.go,
/// calculateResourceAllocatableRequest.
impl PreScore for NodeResourcesFit {
    type Pod = (RoomRequests, NonZeroRequests);
    type Node = ((Name, Labels), (Allocatable, Requested, NonZeroRequested));
    type Cluster = ObjectsOf<DeviceKinds>;
    type State = (Resources, NonZero, CountedDevices);

    fn pre_score(
        &self,
        (requests, non_zero): (&Resources, &NonZero),
        _: Feasible<'_, <Self as PreScore>::Node>,
        objects: &ObjectStores,
    ) -> Option<Self::State> {
        let devices = CountedDevices::of(&self.gates, self.strategy.scalars(), objects);
        Some((requests.clone(), *non_zero, devices))
    }

    fn score(
        &self,
        (requests, non_zero, devices): &Self::State,
        _: Row,
        ((name, labels), (Allocatable(allocatable), Requested(requested), node_non_zero)): Ref<
            '_,
            <Self as PreScore>::Node,
        >,
    ) -> i64 {
        let (allocatable, requested) = devices.count(name, labels, allocatable, requested);
        let NonZeroRequested(node_non_zero) = node_non_zero;
        let node = ResourceAmounts::non_zero(*node_non_zero, &requested);
        let pod = ResourceAmounts::non_zero(*non_zero, requests);
        self.strategy.score(&allocatable, node, pod)
    }
}

impl ScoreByAmounts for NodeResourcesFit {
    fn bound(
        &self,
        (requests, non_zero_requests): (&Resources, &NonZero),
    ) -> Option<Box<dyn ScoreBound>> {
        let pod = ResourceAmounts::non_zero(*non_zero_requests, requests);
        Some(self.strategy.bound(pod))
    }
}

/// The resources of a node, and those in use.
struct Room<'a> {
    allocatable: &'a Resources,
    requested: &'a Resources,
    pods: usize,
    /// The resources for which devices stand where the node does not offer them.
    provided: &'a BTreeSet<Str>,
}

impl NodeResourcesFit {
    /// All resources that the node lacks, not only the first. The rejection is unresolvable if even the
    /// empty node would lack one of them.
    ///
    /// As in fit.go, `fitsRequest`: a request of 0 is always satisfied, even on an overcommitted node.
    fn lacks(&self, requests: &Resources, room: &Room<'_>) -> Option<Rejection> {
        let Room { allocatable, requested, pods, provided } = *room;
        let mut rejection = Rejection { code: Code::Unschedulable, reasons: SmallVec::new() };
        if i64::try_from(pods).is_ok_and(|pods| allocatable.pods <= pods) {
            rejection.reasons.push(TOO_MANY_PODS.into());
        }
        let all_count = self.counts_unasked(requests);
        let mut untold = 0_usize;
        let mut check = |name: &str, asked: i64, all: i64, taken: i64| {
            if (asked > 0 || all_count) && asked > all.saturating_sub(taken) {
                if rejection.reasons.len() < MOST_REASONS {
                    rejection.reasons.push(Reason::Insufficient(name.into()));
                } else {
                    untold += 1;
                }
                if asked > all {
                    rejection.code = Code::UnschedulableAndUnresolvable;
                }
            }
        };
        check(CPU, requests.milli_cpu, allocatable.milli_cpu, requested.milli_cpu);
        check(MEMORY, requests.memory, allocatable.memory, requested.memory);
        let disk = |amounts: &Resources| amounts.ephemeral_storage;
        check(EPHEMERAL_STORAGE, disk(requests), disk(allocatable), disk(requested));
        for (name, &asked) in requests.scalar.iter() {
            // As in fit.go, shouldDelegateResourceToDRA.
            let is_provided = allocatable.get(name) <= 0 && provided.contains(name);
            if !self.ignores(name) && !is_provided {
                check(name, asked, allocatable.get(name), requested.get(name));
            }
        }
        if 0 < untold {
            rejection
                .reasons
                .push(format!("Insufficient amounts of {untold} more resources").into());
        }
        (!rejection.reasons.is_empty()).then_some(rejection)
    }

    /// Whether devices can stand for a resource that the strategy names.
    fn counts_devices(&self) -> bool {
        self.gates.extended_resources && self.strategy.scalars().any(|name| is_for_devices(name))
    }

    /// Whether resources that a pod with these `requests` does not request are checked, too.
    ///
    /// As in fit.go of release 1.20, fitsRequest.
    fn counts_unasked(&self, requests: &Resources) -> bool {
        let own = [requests.milli_cpu, requests.memory, requests.ephemeral_storage];
        let asks = own != [0; 3] || !requests.scalar.is_empty();
        self.reject_overcommitted_nodes && asks
    }

    /// Whether args say to ignore the resource `name`. Native resources, such as huge pages, cannot be
    /// ignored.
    fn ignores(&self, name: &str) -> bool {
        if self.ignored_resources.is_empty() && self.ignored_resource_groups.is_empty() {
            return false;
        }
        let group = name.split_once('/').map_or(name, |(group, _)| group);
        is_extended_resource_name(name)
            && (self.ignored_resources.contains(name)
                || self.ignored_resource_groups.contains(group))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_testkit::{check, expect};

    use super::*;

    /// `cpu memory ephemeral-storage`, then scalar resources.
    fn amounts(own: [i64; 3], scalar: &[(&'static str, i64)]) -> Resources {
        let [milli_cpu, memory, ephemeral_storage] = own;
        let scalar = scalar.iter().map(|&(name, amount)| (Str::const_new(name), amount)).collect();
        Resources { milli_cpu, memory, ephemeral_storage, scalar, pods: 32 }
    }

    fn node() -> Resources {
        amounts([10, 20, 20], &[("example.com/a", 5), ("hugepages-2Mi", 5)])
    }

    fn plugin(ignored_resources: &[&str], ignored_groups: &[&str]) -> NodeResourcesFit {
        let set = |names: &[&str]| names.iter().copied().map(String::from).collect();
        let args = NodeResourcesFitArgs {
            ignored_resources: set(ignored_resources),
            ignored_resource_groups: set(ignored_groups),
            ..NodeResourcesFitArgs::default()
        };
        NodeResourcesFit::new(args, &FeatureGates::default())
    }

    /// The rejection by [`node`] with `pods` pods on it that use `taken`: the code's initials, and the
    /// reasons.
    fn verdict_of(
        plugin: &NodeResourcesFit,
        pod: &Resources,
        taken: &Resources,
        pods: usize,
    ) -> String {
        let allocatable = &node();
        match plugin
            .lacks(pod, &Room { allocatable, requested: taken, pods, provided: &BTreeSet::new() })
        {
            None => "fits".to_owned(),
            Some(rejection) if rejection.code == Code::Unschedulable => format!("U: {rejection}"),
            Some(rejection) => format!("UU: {rejection}"),
        }
    }

    fn verdict(pod: &Resources, taken: &Resources) -> String {
        verdict_of(&plugin(&[], &[]), pod, taken, 1)
    }

    #[test]
    fn it_stands_at_the_points_of_the_upstream_plugin() {
        let points = [Point::PreFilter, Point::Filter, Point::PreScore, Point::Score];
        let points = points.into_iter().chain([Point::PlacementScore]);
        assert_eq!(*entry().points(), points.collect());
    }

    #[test]
    fn what_is_asked_must_be_left() {
        let of = |pod, taken| verdict(&amounts(pod, &[]), &amounts(taken, &[]));
        assert_eq!(of([1, 1, 0], [5, 5, 0]), "fits");
        assert_eq!(of([5, 1, 0], [5, 19, 0]), "fits");
        assert_eq!(of([2, 1, 0], [9, 5, 0]), "U: Insufficient cpu");
        assert_eq!(of([1, 2, 0], [5, 19, 0]), "U: Insufficient memory");
        assert_eq!(of([0, 0, 10], [2, 2, 11]), "U: Insufficient ephemeral-storage");
        assert_eq!(of([0, 0, 10], [2, 2, 10]), "fits");
    }

    #[test]
    fn all_shortages_are_told_and_one_that_an_empty_node_has_too_cannot_be_resolved() {
        let of = |pod, taken| verdict(&amounts(pod, &[]), &amounts(taken, &[]));
        let all = "Insufficient cpu, Insufficient memory, Insufficient ephemeral-storage";
        assert_eq!(of([1, 1, 1], [10, 20, 20]), format!("U: {all}"));
        assert_eq!(of([1, 1, 21], [10, 20, 20]), format!("UU: {all}"));
        assert_eq!(of([0, 21, 0], [0, 0, 0]), "UU: Insufficient memory");
        assert_eq!(of([0, 20, 0], [0, 1, 0]), "U: Insufficient memory");
    }

    #[test]
    fn what_is_not_asked_for_may_be_overdrawn() {
        let overdrawn = amounts([11, 21, 21], &[("example.com/a", 6)]);
        assert_eq!(verdict(&Resources::default(), &overdrawn), "fits");
        assert_eq!(verdict(&amounts([1, 0, 0], &[]), &overdrawn), "U: Insufficient cpu");
        assert_eq!(verdict(&amounts([0, 0, 0], &[("example.com/a", 0)]), &overdrawn), "fits");
    }

    #[test]
    fn what_a_pod_asks_for_as_a_whole_counts_unless_the_gate_is_off() {
        let cluster = r#"
            node n {"allocatable": {"cpu": "4", "pods": "9"}}
            pod 1 on n {"resources": {"requests": {"cpu": "3"}},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
            pod p {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}
            "#;
        let with = |gate: &str, expected: &_| {
            let profile = r#"args {"scoringStrategy": {"type": "LeastAllocated",
                "resources": [{"name": "cpu", "weight": 1}]}}"#;
            check(entry(), &format!("{gate}{profile}{cluster}"), expected);
        };
        with(
            "",
            &expect![[r"
                p n Unschedulable: Insufficient cpu
            "]],
        );
        with(
            "gate PodLevelResources=false\n",
            &expect![[r#"
                p n Success
                p n score 25
            "#]],
        );
    }

    #[test]
    fn an_overdrawn_node_may_be_left_to_pods_that_ask_for_nothing() {
        let args = NodeResourcesFitArgs {
            reject_overcommitted_nodes: true,
            ..NodeResourcesFitArgs::default()
        };
        let plugin = NodeResourcesFit::new(args, &FeatureGates::default());
        let of = |own, scalar: &[_]| {
            let overdrawn = amounts([10, 21, 20], &[("example.com/a", 6)]);
            verdict_of(&plugin, &amounts(own, scalar), &overdrawn, 1)
        };
        assert_eq!(of([0, 0, 0], &[]), "fits");
        assert_eq!(of([0, 0, 1], &[]), "U: Insufficient memory, Insufficient ephemeral-storage");
        let unasked = "U: Insufficient memory, Insufficient example.com/a";
        assert_eq!(of([0, 0, 0], &[("example.com/a", 0)]), unasked);
    }

    #[test]
    fn a_full_node_takes_no_pod_whatever_it_asks_for() {
        let of =
            |pod| verdict_of(&plugin(&[], &[]), &amounts(pod, &[]), &amounts([9, 0, 0], &[]), 32);
        assert_eq!(of([0, 0, 0]), "U: Too many pods");
        assert_eq!(of([2, 0, 0]), "U: Too many pods, Insufficient cpu");
        assert_eq!(of([11, 0, 0]), "UU: Too many pods, Insufficient cpu");
    }

    #[test]
    fn extended_resources_and_huge_pages_must_be_left_too() {
        let of = |name, asked, taken| {
            verdict(&amounts([1, 1, 0], &[(name, asked)]), &amounts([0, 0, 0], &[(name, taken)]))
        };
        for name in ["example.com/a", "hugepages-2Mi"] {
            assert_eq!(of(name, 3, 2), "fits");
            assert_eq!(of(name, 4, 2), format!("U: Insufficient {name}"));
            assert_eq!(of(name, 6, 0), format!("UU: Insufficient {name}"));
        }
        // The node does not have these at all.
        for name in ["example.com/b", "kubernetes.io/something", "sub.kubernetes.io/something"] {
            assert_eq!(of(name, 1, 0), format!("UU: Insufficient {name}"));
        }
    }

    #[test]
    fn of_very_many_shortages_the_rest_is_counted() {
        let scalar = (0..10_000).map(|n| (format!("example.com/r{n:05}").into(), 1)).collect();
        let pod = Resources { milli_cpu: 99, scalar, ..Resources::default() };
        let told = verdict(&pod, &Resources::default());
        let (first, last) = ("UU: Insufficient cpu, Insufficient example.com/r00000", 10_001 - 64);
        assert!(told.starts_with(first), "{told}");
        let last = format!("r00062, Insufficient amounts of {last} more resources");
        assert!(told.ends_with(&last), "{told}");
    }

    #[test]
    fn pods_that_ask_for_more_than_64_bits_hold_leave_no_room() {
        const MUCH: i64 = 6_900_000_000_000_000_000;
        let mut taken = amounts([0, MUCH, 0], &[("example.com/a", MUCH)]);
        taken.add(&taken.clone());
        assert_eq!(verdict(&amounts([1, 1, 0], &[]), &taken), "U: Insufficient memory");
        let asked = amounts([1, 0, 0], &[("example.com/a", 1)]);
        assert_eq!(verdict(&asked, &taken), "U: Insufficient example.com/a");
        // Requests may be negative: a node with the largest possible amount does not have more because
        // of that.
        let less = amounts([0, -2, 0], &[]);
        let all = Resources { memory: i64::MAX, pods: 9, ..Resources::default() };
        let provided = &BTreeSet::new();
        let room = Room { allocatable: &all, requested: &less, pods: 0, provided };
        assert!(plugin(&[], &[]).lacks(&amounts([0, 1, 0], &[]), &room).is_none());
    }

    #[test]
    fn args_can_ignore_extended_resources_but_no_others() {
        let of = |plugin: &NodeResourcesFit, name| {
            verdict_of(plugin, &amounts([0, 0, 0], &[(name, 9)]), &Resources::default(), 0)
        };
        let by_name = plugin(&["example.com/b", "hugepages-2Mi"], &[]);
        assert_eq!(of(&by_name, "example.com/b"), "fits");
        assert_eq!(of(&by_name, "example.com/c"), "UU: Insufficient example.com/c");
        assert_eq!(of(&by_name, "hugepages-2Mi"), "UU: Insufficient hugepages-2Mi");
        let by_group = plugin(&[], &["example.com", "kubernetes.io"]);
        assert_eq!(of(&by_group, "example.com/b"), "fits");
        assert_eq!(of(&by_group, "example.org/b"), "UU: Insufficient example.org/b");
        assert_eq!(of(&by_group, "kubernetes.io/b"), "UU: Insufficient kubernetes.io/b");
    }

    #[test]
    fn pods_count_in_scores_as_what_they_ask_for_but_at_least_the_default() {
        let plugin = plugin(&[], &[]);
        let allocatable = Allocatable(amounts([1000, 1000, 0], &[]));
        let requested = Requested(amounts([0, 0, 0], &[]));
        let taken = NonZeroRequested(NonZero { milli_cpu: 200, memory: 400 });
        let pod = NonZero { milli_cpu: 100, memory: 200 };
        let score = Score::score(
            &plugin,
            (&Resources::default(), &pod),
            (&allocatable, &requested, &taken),
        );
        // 70 percent of the CPU and 40 percent of the memory are free.
        assert_eq!(score, 55);
    }
}
