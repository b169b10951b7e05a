//! The plugins of release 1.36, and how the tests read and show configurations.

use std::fmt::Write;

use plimsoll_config::{Catalogue, Configuration, Known, Point, PointSet, ResolvedProfile, load};
use plimsoll_plugins::in_tree;

use Point::{
    Bind, Filter, Permit, PlacementGenerate, PlacementScore, PostFilter, PreBind, PreEnqueue,
    PreFilter, PreScore, QueueSort, Reserve, Score,
};

/// The head of every configuration.
pub(crate) const HEAD: &str =
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// As in names.go and default_plugins.go, with `ExampleScore` from outside the tree, and without volumes.
pub(crate) fn catalogue() -> Catalogue {
    let known = |name, points: &[Point]| Known::new(name, PointSet::of(points));
    Catalogue::new(vec![
        known("SchedulingGates", &[PreEnqueue]),
        known("PrioritySort", &[QueueSort]),
        known("NodeUnschedulable", &[Filter]),
        known("NodeName", &[Filter]),
        known("TaintToleration", &[Filter, PreScore, Score]).weighing(3),
        known("NodeAffinity", &[PreFilter, Filter, PreScore, Score]).weighing(2),
        known("NodePorts", &[PreFilter, Filter]),
        known("NodeResourcesFit", &[PreFilter, Filter, PreScore, Score]).weighing(1),
        known("VolumeBinding", &[PreFilter, Filter, PreScore, Score, Reserve, PreBind])
            .unavailable(),
        known("PodTopologySpread", &[PreFilter, Filter, PreScore, Score]).weighing(2),
        known("InterPodAffinity", &[PreFilter, Filter, PreScore, Score]).weighing(2),
        known(
            "DynamicResources",
            &[PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind],
        )
        .weighing(2)
        .unavailable(),
        known("DefaultPreemption", &[PreEnqueue, PostFilter]),
        known("NodeResourcesBalancedAllocation", &[PreScore, Score]).weighing(1),
        known("ImageLocality", &[Score]).weighing(1),
        known("DefaultBinder", &[Bind]),
        known("GangScheduling", &[PreEnqueue, Permit]).on_request(),
        known("TopologyPlacementGenerator", &[PlacementGenerate]).on_request(),
        known("OtherPlacementGenerator", &[PlacementGenerate]).on_request(),
        known("PodGroupPodsCount", &[PlacementScore]).on_request(),
        known("CinderLimits", &[Filter]).on_request(),
        known("EBSLimits", &[Filter]).on_request(),
        known("OtherQueueSort", &[QueueSort]).on_request(),
        known("ExampleScore", &[Filter, Score]).on_request(),
    ])
    .with_args_of(&in_tree())
}

/// The configuration whose fields after apiVersion and kind are `text`, which must be valid.
pub(crate) fn configuration(text: &str) -> Configuration {
    match load("test.yaml", &format!("{HEAD}{text}"), &catalogue()) {
        Ok(configuration) => configuration,
        Err(errors) => panic!("{}", lines(&errors)),
    }
}

/// The errors in the configuration whose fields after apiVersion and kind are `text`.
pub(crate) fn errors(text: &str) -> String {
    errors_with(text, &catalogue())
}

/// As [`errors`], with another catalogue.
pub(crate) fn errors_with(text: &str, catalogue: &Catalogue) -> String {
    match load("test.yaml", &format!("{HEAD}{text}"), catalogue) {
        Ok(_) => "no error\n".to_owned(),
        Err(errors) => lines(&errors),
    }
}

/// The profiles as text: a line for each point at which something is enabled.
pub(crate) fn profiles(text: &str) -> String {
    shown(&configuration(text).profiles)
}

/// Profiles as text.
pub(crate) fn shown(profiles: &[ResolvedProfile]) -> String {
    let mut shown = String::new();
    for profile in profiles {
        writeln!(shown, "{}", profile.scheduler_name).expect("a string takes all");
        for (point, plugins) in &profile.points {
            let plugins: Vec<_> = plugins
                .iter()
                .map(|plugin| match plugin.weight {
                    0 => plugin.name.to_owned(),
                    weight => format!("{}={weight}", plugin.name),
                })
                .collect();
            if !plugins.is_empty() {
                writeln!(shown, "  {}: {}", point.key(), plugins.join(" "))
                    .expect("a string takes all");
            }
        }
        if !profile.unavailable.is_empty() {
            let unavailable = profile.unavailable.join(" ");
            writeln!(shown, "  unavailable: {unavailable}").expect("a string takes all");
        }
    }
    shown
}

/// One line for each of `items`.
pub(crate) fn lines<T: ToString>(items: &[T]) -> String {
    items.iter().map(|item| item.to_string() + "\n").collect()
}
