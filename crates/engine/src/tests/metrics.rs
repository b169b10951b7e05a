//! What is counted, in virtual time and with a stopwatch that ticks whenever it is read.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use expect_test::{Expect, expect};
use plimsoll_framework::{Release, Time};

use super::flush_left;
use super::lab::{self, Lab};
use crate::metrics::{Family, Value, inventory};
use crate::{Engine, Event, Options, Scheduler};

/// A stopwatch on which some time goes by between two looks.
fn tick() -> Duration {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    Duration::from_millis(LOOKS.fetch_add(1, Ordering::Relaxed))
}

fn after(script: &str, options: Options) -> Vec<Family> {
    let mut lab = Lab::new(options);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        lab.act(line);
    }
    lab.metrics()
}

/// The series of metrics whose names end like one of `names`, a line each. Of a histogram it is told how
/// many values there are, and their sum where it does not hang on the stopwatch.
fn told(families: &[Family], names: &[&str]) -> String {
    let mut text = String::new();
    let wanted = |family: &&Family| names.iter().any(|name| family.descriptor.name.ends_with(name));
    for family in families.iter().filter(wanted) {
        let mut lines: Vec<String> = Vec::new();
        for series in &family.series {
            let labels = family.descriptor.labels.iter().zip(&series.labels);
            let labels: Vec<_> = labels.map(|(name, value)| format!("{name}={value}")).collect();
            let value = match &series.value {
                Value::Number(number) => number.to_string(),
                Value::Float(number) => number.to_string(),
                Value::Histogram(all) => format!("{} values", all.count()),
            };
            lines.push(format!("{} {value}", labels.join(" ")));
        }
        lines.sort();
        writeln!(text, "{}", family.descriptor.name).expect("a text takes everything");
        for line in lines {
            writeln!(text, "  {}", line.trim()).expect("a text takes everything");
        }
    }
    text
}

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn check(script: &str, options: Options, names: &[&str], expected: Expect) {
    expected.assert_eq(&flush_left(&told(&after(script, options), names)));
}

fn measured() -> Options {
    Options { stopwatch: Some(tick), ..Options::default() }
}

#[test]
fn attempts_are_counted_by_what_they_came_to_and_by_profile() {
    check(
        "0 node a cpu=2
         0 pod fits cpu=1
         0 pod large cpu=9
         0 pod broken cpu=1 broken=yes
         0 pod other cpu=1 for=other-lab",
        Options::default(),
        &["schedule_attempts_total", "attempt_duration_seconds", "pod_scheduling_attempts"],
        expect![[r#"
            scheduler_pod_scheduling_attempts
              2 values
            scheduler_schedule_attempts_total
              result=error profile=lab 1
              result=scheduled profile=lab 1
              result=scheduled profile=other-lab 1
              result=unschedulable profile=lab 1
        "#]],
    );
}

#[test]
fn pods_are_counted_where_they_wait_and_by_whom_they_were_rejected() {
    check(
        "0 node a cpu=2 zone=x
         0 pod fits cpu=1
         0 pod large cpu=9
         0 pod gated gate=g
         0 pod elsewhere cpu=9 zone=y
         0 pod broken broken=yes",
        Options::default(),
        &["pending_pods", "unschedulable_pods", "cache_size", "goroutines"],
        expect![[r#"
            scheduler_cache_size
              type=assumed_pods 0
              type=nodes 1
              type=pods 1
            scheduler_goroutines
              operation=binding 0
            scheduler_pending_pods
              queue=active 0
              queue=backoff 1
              queue=gated 1
              queue=unschedulable 2
            scheduler_unschedulable_pods
              plugin=Cpu profile=lab 2
              plugin=Gates profile=lab 1
        "#]],
    );
}

#[test]
fn a_pod_that_is_being_bound_is_assumed_and_what_happens_is_kept_for_pods_at_permit() {
    check(
        "0 node a cpu=4
         0 binds hang
         0 pod p cpu=1
         0 pod q cpu=1 permit=wait
         1 node b cpu=1",
        Options::default(),
        &["cache_size", "goroutines", "inflight_events"],
        expect![[r#"
            scheduler_cache_size
              type=assumed_pods 2
              type=nodes 2
              type=pods 2
            scheduler_goroutines
              operation=binding 2
            scheduler_inflight_events
              event=NodeAdd 1
              event=PodPopped 1
        "#]],
    );
}

#[test]
fn pods_are_counted_as_they_come_into_queues_with_what_brought_them() {
    check(
        "0 node a cpu=2
         0 pod large cpu=3
         0 pod gated gate=g
         0 pod broken broken=yes
         1 pod gated
         2 node a cpu=3
         20 node b sound=yes
         400 wait",
        Options::default(),
        &["queue_incoming_pods_total"],
        expect![[r#"
            scheduler_queue_incoming_pods_total
              queue=active event=BackoffComplete 38
              queue=active event=NodeUpdateNodeAllocatable 1
              queue=active event=UnscheduledPodAdd 2
              queue=active event=UnscheduledPodUpdatePodSchedulingGatesEliminated 1
              queue=backoff event=ScheduleAttemptFailure 39
              queue=unschedulable event=ScheduleAttemptFailure 1
              queue=unschedulable event=UnscheduledPodAdd 1
        "#]],
    );
}

#[test]
fn a_pod_that_was_only_tried_since_it_had_waited_too_long_was_scheduled_after_a_flush() {
    check(
        "0 node a cpu=2
         0 pod p cpu=1 permit=wait
         5 reject p Cpu
         340 allow p Group",
        Options::default(),
        &["pod_scheduled_after_flush_total", "queue_incoming_pods_total"],
        expect![[r#"
            scheduler_pod_scheduled_after_flush_total
              1
            scheduler_queue_incoming_pods_total
              queue=active event=UnschedulableTimeout 1
              queue=active event=UnscheduledPodAdd 1
              queue=unschedulable event=ScheduleAttemptFailure 1
        "#]],
    );
}

#[test]
fn waiting_is_measured_in_the_time_of_the_cluster() {
    let families = after(
        "0 node a cpu=2
         0 pod p cpu=1 permit=wait
         0 pod late cpu=1 gate=g
         5 pod late cpu=1
         7 pod q permit=release
         8 pod large cpu=9
         20 node b cpu=9",
        Options::default(),
    );
    let of = |name: &str| {
        let family = families.iter().find(|family| family.descriptor.name.ends_with(name));
        let mut all = Vec::new();
        for series in &family.expect("it is told").series {
            if let Value::Histogram(histogram) = &series.value {
                all.push(format!(
                    "{}: {} in {}s",
                    series.labels[0],
                    histogram.count(),
                    histogram.sum()
                ));
            }
        }
        all.sort();
        all
    };
    assert_eq!(of("permit_wait_duration_seconds"), ["Success: 1 in 7s"]);
    // `p` was bound after 7 s, `late` 0 s after its gate opened, `q` at once, `large` after 12 s.
    assert_eq!(of("sli_duration_seconds"), ["1: 3 in 7s", "2: 1 in 12s"]);
}

#[test]
fn preemption_counts_attempts_victims_and_evictions() {
    check(
        "0 node a cpu=2
         0 pod low cpu=2
         1 pod high cpu=2 prio=5 oust=yes
         2 pod large cpu=9",
        Options::default(),
        &["preemption_attempts_total", "victims", "execution_total"],
        expect![[r#"
            scheduler_preemption_attempts_total
              2
            scheduler_preemption_goroutines_execution_total
              result=success 1
            scheduler_preemption_victims
              1 values
        "#]],
    );
}

/// Pods that are placed among several nodes and on the only one that is left, that fit nowhere, make room,
/// name their node, wait at Permit, and come again.
const OF_ALL_KINDS: &str = "0 node a cpu=4 zone=x
     0 node b cpu=4 zone=y
     0 pod p cpu=1
     0 pod q cpu=1
     0 pod only cpu=1 zone=x
     0 pod large cpu=9
     0 pod larger cpu=9
     0 pod nowhere cpu=1 zone=w
     1 pod held cpu=1 permit=wait
     2 allow held Group
     3 node c cpu=2
     4 pod high cpu=4 prio=5 oust=yes
     9 node d cpu=9
     10 node e cpu=3 zone=e
     10 pod low cpu=3 zone=e
     11 pod higher cpu=3 prio=5 oust=yes zone=e
     40 wait";

#[test]
fn decisions_from_memory_go_through_the_phases_of_those_from_scratch() {
    let phases = |engine| {
        let families = after(OF_ALL_KINDS, Options { engine, ..measured() });
        told(&families, &["extension_point_duration_seconds", "algorithm_duration_seconds"])
    };
    let remembered = phases(Engine::Fast);
    assert_eq!(remembered, phases(Engine::Reference));
    expect![[r#"
        scheduler_framework_extension_point_duration_seconds
          extension_point=Bind status=Success profile=lab 8 values
          extension_point=Filter status=Success profile=lab 13 values
          extension_point=Permit status=Success profile=lab 7 values
          extension_point=Permit status=Wait profile=lab 1 values
          extension_point=PostBind status=Success profile=lab 8 values
          extension_point=PostFilter status=Success profile=lab 1 values
          extension_point=PostFilter status=Unschedulable profile=lab 4 values
          extension_point=PreBind status=Success profile=lab 8 values
          extension_point=PreEnqueue status=Success profile=lab 13 values
          extension_point=PreFilter status=Success profile=lab 13 values
          extension_point=PreScore status=Success profile=lab 3 values
          extension_point=Reserve status=Success profile=lab 8 values
          extension_point=Score status=Success profile=lab 3 values
        scheduler_scheduling_algorithm_duration_seconds
          13 values
    "#]]
    .assert_eq(&flush_left(&remembered));
    let families = after(OF_ALL_KINDS, measured());
    expect![[r#"
        plimsoll_decisions_total
          source=memory 13
          source=scratch 0
    "#]]
    .assert_eq(&flush_left(&told(&families, &["plimsoll_decisions_total"])));
}

#[test]
fn what_the_phases_took_is_what_the_search_took() {
    let families = after(OF_ALL_KINDS, Options { audit_every: 0, ..measured() });
    let sum = |name: &str, points: &[&str]| -> f64 {
        let family = families.iter().find(|family| family.descriptor.name.ends_with(name));
        let series = family.expect("it is told").series.iter();
        let counted = series.filter(|one| {
            points.is_empty() || one.labels.first().is_some_and(|point| points.contains(&&**point))
        });
        let spans = counted.map(|one| match &one.value {
            Value::Histogram(spans) => spans.sum(),
            Value::Number(_) | Value::Float(_) => 0.0,
        });
        spans.sum()
    };
    let points = ["PreFilter", "Filter", "PostFilter", "PreScore", "Score"];
    let (phases, search) =
        (sum("point_duration_seconds", &points), sum("algorithm_duration_seconds", &[]));
    // What the stopwatch ticks between the last phase and the end of the search belongs to the search alone.
    assert!(0.0 < phases && phases < search, "{phases} of {search}");
}

#[test]
fn one_decision_from_memory_in_ten_counts_for_ten_and_measures_a_plugin_in_turn() {
    let mut script = vec!["0 node a cpu=90".to_owned(), "0 node b cpu=90".to_owned()];
    script.extend((0..20).map(|i| format!("0 pod p{i} cpu=1")));
    let families = after(&script.join("\n"), measured());
    let text =
        told(&families, &["decisions_total", "evaluation_total", "execution_duration_seconds"]);
    let asked: String = text.split_inclusive('\n').filter(|line| !line.ends_with(" 0\n")).collect();
    expect![[r#"
        plimsoll_audit_decisions_total
          20
        plimsoll_decisions_total
          source=memory 20
        scheduler_plugin_evaluation_total
          plugin=Also extension_point=Filter profile=lab 20
          plugin=Also extension_point=PreFilter profile=lab 20
          plugin=Broken extension_point=Filter profile=lab 20
          plugin=Cpu extension_point=Filter profile=lab 20
          plugin=Invited extension_point=Filter profile=lab 20
          plugin=Only extension_point=Filter profile=lab 20
          plugin=Only extension_point=PreFilter profile=lab 20
          plugin=Zone extension_point=Filter profile=lab 20
        scheduler_plugin_execution_duration_seconds
          plugin=Invited extension_point=Filter status=Success 1 values
          plugin=Zone extension_point=Filter status=Success 1 values
    "#]]
    .assert_eq(&flush_left(&asked));
}

#[test]
fn plugins_are_counted_by_the_nodes_they_were_asked_about() {
    let families = after(
        "0 node a cpu=4 zone=x
         0 node b cpu=4 zone=x
         0 node c cpu=4 zone=y
         0 node d cpu=1 zone=x
         0 pod p cpu=2 zone=x",
        Options { engine: Engine::Reference, ..measured() },
    );
    let text = told(&families, &["plugin_evaluation_total", "plugin_execution_duration_seconds"]);
    let asked = |line: &&str| !line.ends_with(" 0");
    let asked: String = text.split_inclusive('\n').filter(|line| asked(&line.trim_end())).collect();
    // `Cpu` drops `d`, `Zone` drops `c`, the others have nothing against the two that are left.
    expect![[r#"
        scheduler_plugin_evaluation_total
          plugin=Also extension_point=Filter profile=lab 2
          plugin=Also extension_point=PreFilter profile=lab 1
          plugin=Broken extension_point=Filter profile=lab 2
          plugin=Cpu extension_point=Filter profile=lab 4
          plugin=Invited extension_point=Filter profile=lab 2
          plugin=Only extension_point=Filter profile=lab 2
          plugin=Only extension_point=PreFilter profile=lab 1
          plugin=Zone extension_point=Filter profile=lab 3
        scheduler_plugin_execution_duration_seconds
          plugin=Also extension_point=Filter status=Success 2 values
          plugin=Also extension_point=PreFilter status=Success 1 values
          plugin=Broken extension_point=Filter status=Success 2 values
          plugin=Cpu extension_point=Filter status=Success 4 values
          plugin=Invited extension_point=Filter status=Success 2 values
          plugin=Only extension_point=Filter status=Success 2 values
          plugin=Only extension_point=PreFilter status=Success 1 values
          plugin=Zone extension_point=Filter status=Success 3 values
    "#]]
    .assert_eq(&asked);
}

#[test]
fn hints_and_events_are_measured() {
    check(
        "0 node a cpu=2
         0 pod large cpu=3
         1 node b cpu=1
         2 node a cpu=3",
        measured(),
        &["hint_execution_duration_seconds", "event_handling_duration_seconds"],
        expect![[r#"
            scheduler_event_handling_duration_seconds
              event=AssignedPodAdd 1 values
              event=NodeAdd 2 values
              event=NodeUpdateNodeAllocatable 1 values
              event=UnscheduledPodAdd 1 values
            scheduler_queueing_hint_execution_duration_seconds
              plugin=Cpu event=NodeAdd hint=QueueSkip 1 values
              plugin=Cpu event=NodeUpdateNodeAllocatable hint=Queue 1 values
        "#]],
    );
}

#[test]
fn without_a_stopwatch_nothing_is_measured_but_what_goes_by_in_the_cluster() {
    let families = after("0 node a cpu=2\n0 pod p cpu=1\n0 pod large cpu=9", Options::default());
    let spans = families.iter().filter(|family| family.descriptor.name.ends_with("_seconds"));
    let measured: Vec<_> = spans
        .filter(|family| {
            let all = family.series.iter();
            all.map(|series| &series.value)
                .any(|value| matches!(value, Value::Histogram(all) if all.count() != 0))
        })
        .map(|family| family.descriptor.name)
        .collect();
    assert_eq!(measured, ["scheduler_pod_scheduling_sli_duration_seconds"]);
}

#[test]
fn a_stopwatch_changes_no_decision() {
    let effects = |options| {
        let profile = lab::profile("lab", None, |_| true);
        let scheduler = Scheduler::new(vec![profile], options, 7);
        let mut scheduler = scheduler.expect("there is one profile");
        let mut effects = Vec::new();
        for i in 0..20 {
            let cpu = format!("cpu={}", i % 5);
            let node = lab::node(&format!("n{i}"), &[&cpu]);
            scheduler.observe(Time::ZERO, Event::Node(Box::new(crate::Observation::Is(node))));
            scheduler.observe(Time::ZERO, Event::pod(lab::pod(&format!("p{i}"), &["cpu=2"])));
            scheduler.step(Time::ZERO, &mut effects);
        }
        effects
    };
    let tie_break = crate::TieBreak::Random;
    let plain = effects(Options { tie_break, ..Options::default() });
    assert!(!plain.is_empty());
    assert_eq!(plain, effects(Options { tie_break, ..measured() }));
}

#[test]
fn counting_can_begin_anew() {
    let profile = lab::profile("lab", None, |_| true);
    let scheduler = Scheduler::new(vec![profile], measured(), 0);
    let mut scheduler = scheduler.expect("there is one profile");
    scheduler.observe(Time::ZERO, Event::pod(lab::pod("p", &[])));
    scheduler.step(Time::ZERO, &mut Vec::new());
    let names = ["schedule_attempts_total", "queue_incoming_pods_total"];
    assert_ne!(told(&scheduler.metrics(), &names), "");
    scheduler.reset_metrics();
    assert_eq!(told(&scheduler.metrics(), &names), "");
}

#[test]
fn all_that_is_told_stands_in_the_inventory_in_its_order_with_all_labels() {
    let families = after("0 node a cpu=2\n0 pod p cpu=1\n0 pod large cpu=9", measured());
    let mut known = inventory(Release::NEWEST);
    for family in &families {
        let found = known.any(|descriptor| descriptor == family.descriptor);
        assert!(found, "{}", family.descriptor.name);
        for series in &family.series {
            assert_eq!(series.labels.len(), family.descriptor.labels.len());
        }
    }
}

#[test]
fn trials_on_placements_and_searches_for_room_are_counted_and_measured() {
    let mut lab = Lab::with_groups_and(Release::V1_37, Some(tick));
    for line in [
        "0 node a cpu=2 zone=x",
        "0 node b cpu=2 zone=y",
        "0 pod low cpu=2 on=a",
        "0 group g min=1 topo=zone prio=5",
        "0 pod p cpu=2 prio=5 of=g",
        "1 group h min=1 topo=zone prio=5",
        "1 pod q cpu=2 prio=5 of=h",
    ] {
        lab.act(line);
    }
    let names = ["placements_total", "placement_evaluations_total", "evaluation_duration_seconds"];
    expect![[r#"
        scheduler_generated_placements_total
          profile=lab 6
        scheduler_placement_evaluation_duration_seconds
          result=feasible profile=lab 2 values
          result=infeasible profile=lab 4 values
        scheduler_placement_evaluations_total
          result=feasible profile=lab 2
          result=infeasible profile=lab 4
        scheduler_preemption_evaluation_duration_seconds
          preemptor=podgroup result=Success 1 values
    "#]]
    .assert_eq(&flush_left(&told(&lab.metrics(), &names)));
}

#[test]
fn what_extenders_are_asked_for_a_group_is_counted_once() {
    let mut lab = Lab::with_groups_and(Release::V1_37, Some(tick));
    for line in [
        "0 extender e filter prioritize",
        "0 node a cpu=2 zone=x",
        "0 node b cpu=2 zone=x",
        "0 group g min=1 topo=zone",
        "0 pod p cpu=2 of=g",
        "1 reply e p pass=a+b",
        "2 reply e p rank=a:1",
    ] {
        lab.act(line);
    }
    let names = [
        "placements_total",
        "evaluations_total",
        "evaluation_duration_seconds",
        "group_scheduling_algorithm_duration_seconds",
    ];
    expect![[r#"
        scheduler_generated_placements_total
          profile=lab 1
        scheduler_placement_evaluation_duration_seconds
          result=feasible profile=lab 1 values
        scheduler_placement_evaluations_total
          result=feasible profile=lab 1
        scheduler_podgroup_scheduling_algorithm_duration_seconds
          1 values
    "#]]
    .assert_eq(&flush_left(&told(&lab.metrics(), &names)));
}
