//! Groups of pods in the lab.
//!
//! `0 group g min=2 topo=zone prio=5` adds a PodGroup, and `of=g` makes a pod one of its members. Three plugins decide about
//! groups: [`Gang`], [`Domains`] and [`Clear`].

use plimsoll_api::pod_group::GroupPolicy;
use plimsoll_api::{ObjectKey, PodGroup, Str};
use plimsoll_framework::prelude::*;
use plimsoll_framework::{FeatureGates, GroupRules, Point, Release};

use super::super::plugins::registry;
use super::{Lab, pair, spec_of};
use crate::metrics::Stopwatch;
use crate::{Detail, Gates, GroupDecision, MemberResult, Options, Profile, Scheduler};

/// A gang fits if enough of its pods do.
struct Gang;

impl Plugin for Gang {
    const NAME: &'static str = "Gang";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Gang
    }
}

impl PreEnqueue for Gang {
    type Pod = ();
    type Cluster = ();
    fn pre_enqueue(&self, (): (), (): ()) -> Gate {
        Gate::Open
    }
}

impl PlacementFeasible for Gang {
    fn placement_feasible(
        &self,
        group: &GroupInCycle<'_>,
        progress: PlacementProgress,
    ) -> PlacementFeasibility {
        let GroupPolicy::Gang { min_count } = group.policy() else {
            return PlacementFeasibility::Feasible;
        };
        let PlacementProgress { scheduled, remaining } = progress;
        let min_count = usize::try_from(min_count).expect("it is small");
        if scheduled + remaining < min_count {
            PlacementFeasibility::Infeasible("too few fit".into())
        } else if scheduled < min_count {
            PlacementFeasibility::NotYet("not enough yet".into())
        } else {
            PlacementFeasibility::Feasible
        }
    }
}

/// One placement for each value of a label.
struct Domains;

impl Plugin for Domains {
    const NAME: &'static str = "Domains";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Domains
    }
}

impl PlacementGenerate for Domains {
    fn placements(
        &self,
        group: &GroupInCycle<'_>,
        all: &[Row],
        view: &View<'_>,
    ) -> Result<Option<Vec<GroupPlacement>>, Reason> {
        let Some(key) = group.topology_key() else { return Ok(None) };
        let mut domains = Vec::<GroupPlacement>::new();
        for &row in all {
            let Some(value) = view.nodes.node(row).labels.get(key).cloned() else { continue };
            match domains.iter_mut().find(|domain| domain.name == value) {
                Some(domain) => domain.rows.push(row),
                None => domains.push(GroupPlacement { name: value, rows: vec![row], level: 0 }),
            }
        }
        Ok(Some(domains))
    }
}

/// Evicts all pods of lower priority, if the group fits without them.
struct Clear;

impl Plugin for Clear {
    const NAME: &'static str = "Clear";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Clear
    }
}

impl PostFilter for Clear {
    fn post_filter(&self, _: &PodInfo, _: &[NodeRejection], _: &DryRun<'_>) -> PostFilterAnswer {
        PostFilterAnswer::Unschedulable("".into())
    }
}

impl GroupPostFilter for Clear {
    fn group_post_filter(
        &self,
        group: &GroupInCycle<'_>,
        dry_run: &mut dyn GroupDryRun,
    ) -> GroupPostFilterAnswer {
        let view = dry_run.view();
        let all = view.nodes.rows().flat_map(|row| view.nodes.pods_on(row).iter());
        let lower = all.filter(|pod| pod.priority < group.priority());
        let victims: Vec<_> = lower.map(|pod| pod.key.clone()).collect();
        if victims.is_empty() {
            return GroupPostFilterAnswer::Unschedulable("nobody to clear".into());
        }
        for victim in &victims {
            dry_run.remove(victim);
        }
        match dry_run.assign_group() {
            Ok(nominations) => {
                let says = "clears".into();
                GroupPostFilterAnswer::Preempts { victims, nominations, broken_budgets: 0, says }
            }
            Err(GroupMisfit::Unschedulable(why)) => GroupPostFilterAnswer::Unschedulable(why),
            Err(GroupMisfit::Error(why)) => GroupPostFilterAnswer::Error(why),
        }
    }
}

impl Lab {
    /// A lab that schedules groups by the rules of a release, in 1.37 also by their topology.
    pub(in crate::tests) fn with_groups(release: Release) -> Self {
        Lab::with_groups_and(release, None)
    }

    /// The same with a stopwatch.
    pub(in crate::tests) fn with_groups_and(
        release: Release,
        stopwatch: Option<Stopwatch>,
    ) -> Self {
        let gates = FeatureGates::of(release)
            .with("GenericWorkload", true)
            .with("TopologyAwareWorkloadScheduling", GroupRules::V1_37 == GroupRules::of(release));
        let mut registry = registry();
        registry.add(Entry::of::<Gang>().pre_enqueue().placement_feasible().done());
        registry.add(Entry::of::<Domains>().placement_generate().done());
        registry.add(Entry::of::<Clear>().post_filter().group_post_filter().done());
        let spec = spec_of(&registry, "lab", None, |_: Point| true);
        let profile = Profile::new(&spec, &registry, &gates).expect("the plugins make a profile");
        let options = Options {
            release,
            gates: Gates::of(&gates),
            detail: Detail::Outcome,
            audit_every: 1,
            stopwatch,
            ..Options::default()
        };
        let scheduler = Scheduler::new(vec![profile], options, 0);
        Lab::of(scheduler.expect("the profile is of the release"))
    }

    /// What was decided about groups.
    pub(super) fn groups_decided(&mut self) {
        for decision in self.scheduler.take_group_decisions() {
            let GroupDecision { group, attempt, result, pods, .. } = decision;
            let members: Vec<String> = pods
                .iter()
                .map(|member| {
                    let name = &member.pod.name;
                    match &member.result {
                        MemberResult::Scheduled { node, .. } => format!("{name} -> {node}"),
                        MemberResult::Unschedulable { message, nominated } => {
                            let to = nominated.as_deref().map(|node| format!(" (to {node})"));
                            format!("{name} !! {message}{}", to.unwrap_or_default())
                        }
                        MemberResult::Error { message } => format!("{name} error: {message}"),
                        MemberResult::Skipped => format!("{name} skipped"),
                    }
                })
                .collect();
            let (group, result) = (&group.name, result.as_str());
            self.note(&format!("{group} #{attempt} {result}: {}", members.join("; ")));
        }
    }
}

/// A group as a line of the script says.
pub(super) fn group(name: &str, what: &[&str]) -> PodGroup {
    let mut group = PodGroup { key: ObjectKey::new("default", name), ..PodGroup::default() };
    for (key, value) in what.iter().map(|word| pair(word)) {
        match key {
            "min" => {
                let min_count = value.parse().expect("a count is a number");
                group.policy = GroupPolicy::Gang { min_count };
            }
            "topo" => group.topology = Some(vec![Str::from(value)]),
            "prio" => group.priority = value.parse().expect("a priority is a number"),
            other => panic!("{other:?} is nothing of a group"),
        }
    }
    group
}
