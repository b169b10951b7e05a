use super::*;

/// Parses a pod from lines such as `sidecar cpu=4 memory=1Gi allocated cpu=3 actual cpu=2`.
///
/// A line is an `app`, an `init` container, a `sidecar`, the `pod` level, its `status`, its `overhead`,
/// or the state of a resize: `infeasible` or `deferred`.
fn pod(text: &str) -> PodResourcesInput {
    let mut pod = PodResourcesInput::default();
    for line in text.split(';').map(str::trim).filter(|line| !line.is_empty()) {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (rest, actual) = cut(rest, "actual");
        let (requests, allocated) = cut(rest, "allocated");
        let requests = list(requests);
        let restart_always = kind == "sidecar";
        let container = ContainerResources {
            requests: requests.clone(),
            restart_always,
            allocated: allocated.clone(),
            actual: actual.clone(),
            ..ContainerResources::default()
        };
        match kind {
            "app" => pod.containers.push(container),
            "init" | "sidecar" => pod.init_containers.push(container),
            "pod" => {
                let limits = ResourceList::new();
                pod.pod_level = Some(PodLevelResources { requests, limits });
                pod.status = PodStatusResources { allocated, actual };
            }
            "status" => pod.status = PodStatusResources { allocated, actual },
            "overhead" => pod.overhead = requests,
            "infeasible" => pod.resize = Resize::from_pending_reason(Some("Infeasible")),
            "deferred" => pod.resize = Resize::from_pending_reason(Some("Deferred")),
            _ => panic!("unknown line {line:?}"),
        }
    }
    pod
}

fn cut<'a>(text: &'a str, word: &str) -> (&'a str, Option<ResourceList>) {
    match text.split_once(word) {
        Some((before, after)) => (before, Some(list(after))),
        None => (text, None),
    }
}

fn list(text: &str) -> ResourceList {
    let entry = |word: &str| {
        let (name, quantity) = word.split_once('=').unwrap();
        (Str::from(name), Quantity::parse(quantity).unwrap())
    };
    text.split_whitespace().map(entry).collect()
}

fn check(cases: &[(&str, &str)], options: &RequestOptions<'_>) {
    for (text, expected) in cases {
        assert_eq!(pod_requests(&pod(text), options), list(expected), "{text}");
    }
}

const SPEC: RequestOptions<'_> = RequestOptions {
    gates: RequestGates {
        pod_level_resources: true,
        pod_level_resize: true,
        footprint: Footprint::ByContainer,
    },
    status: Status::Ignored,
    missing: None,
};
const WITH_STATUS: RequestOptions<'_> = RequestOptions { status: Status::Counted, ..SPEC };
/// The same since 1.37.
const BY_SUM: RequestOptions<'_> = RequestOptions {
    gates: RequestGates { footprint: Footprint::BySum, ..SPEC.gates },
    ..WITH_STATUS
};

#[test]
fn containers_add_up_and_a_larger_init_container_counts_instead() {
    let cases = [
        ("", ""),
        ("app", ""),
        ("app cpu=9; app cpu=9", "cpu=18"),
        ("init cpu=4; app cpu=1", "cpu=4"),
        ("init cpu=2; app cpu=2; app cpu=3", "cpu=5"),
        ("init cpu=9; app cpu=9", "cpu=9"),
        ("init cpu=4m memory=5Mi; app cpu=2m memory=6Mi", "cpu=4m memory=6Mi"),
        ("init cpu=1 memory=2Gi; init cpu=3 memory=1Gi; app", "cpu=3 memory=2Gi"),
        ("init a.com/gpu=2; app a.com/gpu=1; app cpu=1", "a.com/gpu=2 cpu=1"),
        ("app cpu=0; app memory=-1", "cpu=0 memory=-1"),
    ];
    check(&cases, &SPEC);
}

#[test]
fn overhead_comes_on_top_of_whatever_counts() {
    let cases = [
        ("overhead cpu=1 memory=1Gi; init cpu=2; app cpu=2; app cpu=3", "cpu=6 memory=1Gi"),
        ("overhead cpu=1; init cpu=4; app cpu=1", "cpu=5"),
        ("overhead cpu=1 memory=1; app cpu=1; pod cpu=4", "cpu=5 memory=1"),
    ];
    check(&cases, &SPEC);
}

#[test]
fn a_sidecar_runs_beside_containers_and_later_init_containers() {
    let cases = [
        ("sidecar cpu=1; app cpu=1", "cpu=2"),
        ("sidecar cpu=5", "cpu=5"),
        ("init cpu=5; sidecar cpu=1; sidecar cpu=2; sidecar cpu=3; app cpu=1", "cpu=7"),
        ("init cpu=5; sidecar cpu=1; sidecar cpu=2; init cpu=5; sidecar cpu=3; app cpu=1", "cpu=8"),
        ("sidecar cpu=10; init cpu=200; app cpu=100", "cpu=210"),
        ("sidecar cpu=8; init cpu=6; app cpu=9", "cpu=17"),
        ("sidecar cpu=4m memory=5Mi; app cpu=2m memory=3Mi", "cpu=6m memory=8Mi"),
        (
            "sidecar cpu=4m memory=5Mi; init cpu=8m memory=6Mi; app cpu=2m memory=3Mi",
            "cpu=12m memory=11Mi",
        ),
    ];
    check(&cases, &SPEC);
}

#[test]
fn requests_of_the_pod_replace_the_sum_for_what_a_pod_can_request() {
    let cases = [
        ("pod memory=2Mi", "memory=2Mi"),
        ("pod memory=2Mi; app cpu=2m", "memory=2Mi cpu=2m"),
        ("pod cpu=8m memory=6Mi; app cpu=2m memory=3Mi", "cpu=8m memory=6Mi"),
        ("pod cpu=1; app cpu=2", "cpu=1"),
        (
            "pod cpu=18m memory=15Mi; sidecar cpu=4m memory=5Mi; init cpu=8m memory=6Mi; \
             app cpu=2m memory=3Mi",
            "cpu=18m memory=15Mi",
        ),
        ("pod storage=2Mi; app storage=3Mi", "storage=3Mi"),
        ("pod storage=2Mi; app memory=3Mi", "memory=3Mi"),
        ("pod cpu=1 a.com/gpu=9 ephemeral-storage=9; app a.com/gpu=2", "cpu=1 a.com/gpu=2"),
        ("pod memory=10Mi hugepages-2Mi=2Mi", "memory=10Mi hugepages-2Mi=2Mi"),
        (
            "pod cpu=1 hugepages-2Mi=2Mi hugepages-1Gi=1Gi",
            "cpu=1 hugepages-2Mi=2Mi hugepages-1Gi=1Gi",
        ),
        ("pod cpu=1 hugepages-2Mi=10Mi; app hugepages-2Mi=6Mi", "cpu=1 hugepages-2Mi=10Mi"),
        (
            "pod cpu=1 hugepages-2Mi=10Mi; app memory=4Mi hugepages-1Gi=1Gi",
            "cpu=1 memory=4Mi hugepages-2Mi=10Mi hugepages-1Gi=1Gi",
        ),
    ];
    check(&cases, &SPEC);
}

#[test]
fn requests_of_the_pod_count_for_nothing_while_their_gate_is_off() {
    let gates = RequestGates { pod_level_resources: false, pod_level_resize: false, ..SPEC.gates };
    let cases = [("pod memory=2Mi", ""), ("pod cpu=9; init cpu=4; app cpu=2", "cpu=4")];
    check(&cases, &RequestOptions { gates, ..SPEC });
}

#[test]
fn while_a_container_changes_the_largest_of_asked_granted_and_in_force_counts() {
    let cases = [
        ("app cpu=4 actual cpu=2", "cpu=4"),
        ("app cpu=1 actual cpu=2", "cpu=2"),
        ("app actual cpu=2", "cpu=2"),
        ("sidecar actual cpu=2", "cpu=2"),
        ("app cpu=1 allocated cpu=3 actual cpu=2", "cpu=3"),
        (
            "app cpu=30m memory=20M ephemeral-storage=10G \
             allocated cpu=20m memory=10M ephemeral-storage=30G \
             actual cpu=10m memory=30M ephemeral-storage=20G",
            "cpu=30m memory=30M ephemeral-storage=30G",
        ),
        ("deferred; app cpu=4 actual cpu=2", "cpu=4"),
        ("infeasible; app cpu=4 actual cpu=2", "cpu=2"),
        ("infeasible; app cpu=6 allocated cpu=4 actual cpu=2", "cpu=4"),
        ("infeasible; app cpu=6 memory=1 actual cpu=2", "cpu=2"),
        ("infeasible; sidecar cpu=4 actual cpu=2", "cpu=2"),
        ("sidecar cpu=4 actual cpu=2; app cpu=1 actual cpu=2", "cpu=6"),
        // Allocated resources count only together with actual ones.
        ("app cpu=1 allocated cpu=3", "cpu=1"),
        ("infeasible; app cpu=6", "cpu=6"),
        // A container that ended before the resize is not resized.
        ("init cpu=1 actual cpu=9; app cpu=2", "cpu=2"),
    ];
    check(&cases, &WITH_STATUS);
}

#[test]
fn without_the_status_only_the_spec_counts() {
    let cases = [
        ("app cpu=4 actual cpu=9", "cpu=4"),
        ("infeasible; app cpu=4 actual cpu=2", "cpu=4"),
        ("infeasible; sidecar cpu=4 actual cpu=2", "cpu=4"),
        ("pod cpu=4 allocated cpu=9 actual cpu=9", "cpu=4"),
    ];
    check(&cases, &SPEC);
}

#[test]
fn while_a_pod_as_a_whole_changes_the_same_holds_for_what_it_requests() {
    let cases = [
        ("pod cpu=4 actual cpu=2; app cpu=1", "cpu=4"),
        ("pod cpu=1 allocated cpu=3 actual cpu=2; app cpu=9", "cpu=3"),
        ("infeasible; pod cpu=4 actual cpu=2", "cpu=2"),
        ("infeasible; pod cpu=4 memory=1Gi actual cpu=2", "cpu=2 memory=0"),
        ("pod cpu=1 allocated cpu=3", "cpu=1"),
        // Only resources that the pod-level spec names are replaced.
        ("pod cpu=1 actual cpu=2 memory=9; app memory=3", "cpu=2 memory=3"),
    ];
    check(&cases, &WITH_STATUS);
}

#[test]
fn the_status_of_a_pod_as_a_whole_counts_for_nothing_while_its_gate_is_off() {
    let gates = RequestGates { pod_level_resize: false, ..SPEC.gates };
    let cases = [
        ("pod cpu=1 allocated cpu=3 actual cpu=2", "cpu=1"),
        ("app cpu=1 allocated cpu=3 actual cpu=2", "cpu=3"),
    ];
    check(&cases, &RequestOptions { gates, ..WITH_STATUS });
    let gates = RequestGates { footprint: Footprint::BySum, ..gates };
    let cases = [
        ("pod cpu=1 allocated cpu=3 actual cpu=2; app cpu=2", "cpu=1"),
        ("status allocated cpu=9 actual cpu=9; app cpu=1 allocated cpu=3 actual cpu=2", "cpu=3"),
    ];
    check(&cases, &RequestOptions { gates, ..WITH_STATUS });
}

/// The requests of a pod in 1.36 and since 1.37.
fn check_both(cases: &[(&str, &str, &str)]) {
    for (text, old, new) in cases {
        assert_eq!(pod_requests(&pod(text), &WITH_STATUS), list(old), "1.36: {text}");
        assert_eq!(pod_requests(&pod(text), &BY_SUM), list(new), "1.37: {text}");
    }
    assert_eq!(RequestGates::of(Release::V1_36), WITH_STATUS.gates);
    assert_eq!(RequestGates::of(Release::V1_37), BY_SUM.gates);
}

#[test]
fn the_largest_is_taken_of_each_container_and_since_1_37_of_the_sums() {
    check_both(&[
        ("app cpu=4 actual cpu=2", "cpu=4", "cpu=4"),
        ("app cpu=1 allocated cpu=3 actual cpu=2", "cpu=3", "cpu=3"),
        // One container grows, the other shrinks.
        (
            "app cpu=4 allocated cpu=1 actual cpu=1; app cpu=1 allocated cpu=4 actual cpu=4",
            "cpu=8",
            "cpu=5",
        ),
        ("sidecar cpu=4 actual cpu=2; app cpu=1 actual cpu=2", "cpu=6", "cpu=5"),
        // Allocated resources count by themselves, and instead of actual ones.
        ("app cpu=1 allocated cpu=3", "cpu=1", "cpu=3"),
        // Init containers that are not sidecars are resized, too.
        ("init cpu=1 actual cpu=9; app cpu=2", "cpu=2", "cpu=9"),
        ("app cpu=1 actual memory=2; app cpu=2", "cpu=3 memory=2", "cpu=3 memory=2"),
    ]);
}

#[test]
fn what_cannot_be_had_counts_for_containers_of_which_nothing_is_known_up_to_1_36() {
    check_both(&[
        ("infeasible; app cpu=4 actual cpu=2", "cpu=2", "cpu=2"),
        ("infeasible; app cpu=6", "cpu=6", ""),
        ("infeasible; app cpu=6 actual cpu=2; app cpu=3", "cpu=5", "cpu=2"),
        ("deferred; app cpu=6 actual cpu=2; app cpu=3", "cpu=9", "cpu=9"),
    ]);
}

#[test]
fn what_the_status_says_of_the_pod_as_a_whole_counts_since_1_37() {
    check_both(&[
        // With and without pod-level resources in the spec.
        ("status allocated cpu=7 actual cpu=6; app cpu=4 actual cpu=5", "cpu=5", "cpu=7"),
        // Both must be present.
        ("status allocated cpu=7; app cpu=4 actual cpu=5", "cpu=5", "cpu=5"),
        ("pod cpu=4 actual cpu=2; app cpu=1", "cpu=4", "cpu=4"),
        ("pod cpu=1 allocated cpu=3 actual cpu=2; app cpu=9", "cpu=3", "cpu=3"),
        // A resource that the pod-level spec does not name.
        ("pod cpu=1 actual cpu=2 memory=9; app memory=3", "cpu=2 memory=3", "cpu=2 memory=9"),
        ("infeasible; pod cpu=4 memory=1Gi actual cpu=2", "cpu=2 memory=0", "cpu=2"),
        ("pod a.com/gpu=1 actual cpu=2; app cpu=1", "cpu=1", "cpu=1"),
    ]);
}

#[test]
fn a_pod_to_be_placed_needs_what_its_spec_asks_and_never_less_than_nothing() {
    let text = "app cpu=1 memory=-1 pods=2 a.com/gpu=0 storage=1 actual cpu=3";
    let request = incoming_request(&pod(text), RequestGates::default());
    let scalar = [("a.com/gpu".into(), 0)].into();
    assert_eq!(request, Resources { milli_cpu: 1000, scalar, ..Resources::default() });
}

#[test]
fn a_pod_on_a_node_takes_what_its_status_says_and_no_further_place() {
    let text = "app cpu=1 memory=-1 pods=2 ephemeral-storage=5 a.com/gpu=1 actual cpu=3";
    let requests = requests_on_node(&pod(text), RequestGates::default()).requests;
    let expected = Resources {
        milli_cpu: 3000,
        memory: -1,
        ephemeral_storage: 5,
        pods: 0,
        scalar: [("a.com/gpu".into(), 1)].into(),
    };
    assert_eq!(requests, expected);
}

const MI: i64 = 1024 * 1024;

#[test]
fn containers_without_requests_count_with_a_default() {
    let cases = [
        // pod, on a node: milli-CPU, memory; in scores: the same
        ("", (0, 0), (0, 0)),
        ("app", (100, 200 * MI), (100, 200 * MI)),
        ("app cpu=0 memory=0", (0, 0), (0, 0)),
        ("app cpu=1; app memory=1Mi", (1100, 201 * MI), (1100, 201 * MI)),
        ("init; init; app cpu=50m memory=1Mi", (100, 200 * MI), (100, 200 * MI)),
        ("sidecar; init cpu=1; app cpu=1", (1100, 400 * MI), (1100, 400 * MI)),
        ("overhead cpu=1; app", (1100, 200 * MI), (1100, 200 * MI)),
        // Scores ignore the status and pod-level requests.
        ("app actual cpu=3", (3000, 200 * MI), (100, 200 * MI)),
        ("pod cpu=1 memory=1Mi; app; app", (1000, MI), (200, 400 * MI)),
        ("pod cpu=1; app; app", (1000, 400 * MI), (200, 400 * MI)),
        ("pod cpu=1; app memory=1Mi; app", (1000, MI), (200, 201 * MI)),
        ("pod hugepages-2Mi=2Mi; app cpu=1; app", (1000, 400 * MI), (1100, 400 * MI)),
        ("pod cpu=1; overhead memory=1Mi; app", (1000, MI), (100, 201 * MI)),
        ("pod a.com/gpu=1; app cpu=1; app", (1100, 400 * MI), (1100, 400 * MI)),
    ];
    for (text, on_node, scored) in cases {
        let (pod, gates) = (pod(text), RequestGates::default());
        let non_zero = requests_on_node(&pod, gates).non_zero;
        assert_eq!((non_zero.milli_cpu, non_zero.memory), on_node, "{text}");
        let counted = Asks::of(&pod, gates).room_non_zero;
        assert_eq!((counted.milli_cpu, counted.memory), scored, "{text}");
    }
}

#[test]
fn balance_is_scored_by_what_is_requested_with_no_default() {
    let text = "app; app a.com/gpu=1 actual a.com/gpu=2";
    let asks = Asks::of(&pod(text), RequestGates::default());
    assert_eq!(asks.balance, Resources::from_list(&list("a.com/gpu=2")));
    assert_eq!(asks.room, Resources::from_list(&list("a.com/gpu=1")));
}

#[test]
fn limits_add_up_as_requests_do_and_overhead_is_no_limit() {
    for (text, expected) in [
        ("app", (0, 0)),
        ("app cpu=1; app cpu=2 memory=1Mi", (3000, MI)),
        ("init cpu=4 memory=1Ki; app cpu=1 memory=1Mi", (4000, MI)),
        ("sidecar cpu=1; init cpu=2; app cpu=1", (3000, 0)),
        ("overhead cpu=1 memory=1Mi; app cpu=1", (1000, 0)),
    ] {
        let mut pod = pod(text);
        for container in pod.containers.iter_mut().chain(&mut pod.init_containers) {
            container.limits = std::mem::take(&mut container.requests);
        }
        let asks = Asks::of(&pod, RequestGates::default());
        assert_eq!((asks.limits.milli_cpu, asks.limits.memory), expected, "{text}");
    }
}

#[test]
fn a_pod_reckoned_once_for_all_demands_what_it_does_reckoned_in_each_way() {
    for text in [
        "",
        "app",
        "app cpu=1 memory=1Gi",
        "app cpu=1; app memory=1Gi a.com/gpu=2",
        "app cpu=1 memory=-1 pods=2 a.com/gpu=0 storage=1; overhead cpu=250m pods=1",
        "init cpu=4 memory=1; sidecar cpu=1 memory=2; app cpu=2 memory=4; infeasible",
        "init; app cpu=2 memory=4 hugepages-2Mi=4Mi",
        "app cpu=1 memory=1 allocated cpu=3 memory=1; deferred",
        "app cpu=1 memory=1 actual cpu=3 memory=1",
        "app cpu=1 memory=1; pod cpu=5",
    ] {
        let mut pod = pod(text);
        pod.containers.iter_mut().for_each(|one| one.limits = list("cpu=9 a.com/gpu=3"));
        for gates in Release::ALL.map(RequestGates::of) {
            let expected = Demand {
                asks: Asks::of(&pod, gates),
                on_node: requests_on_node(&pod, gates),
                limits: limits_of(&pod, gates),
            };
            assert_eq!(Demand::of(&pod, gates), expected, "{text}");
        }
    }
}

#[test]
fn the_overhead_in_cpu_is_told_apart() {
    let of = |text| Asks::of(&pod(text), RequestGates::default()).overhead_milli_cpu;
    assert_eq!(of("app cpu=1"), 0);
    assert_eq!(of("overhead cpu=250m memory=1Mi; app cpu=1"), 250);
}

#[test]
fn removing_what_was_added_leaves_no_trace() {
    let pod = NonZero { milli_cpu: i64::MAX / 4, memory: 7 };
    let mut sum = pod;
    sum.add(pod);
    assert_ne!(sum, pod);
    assert!(!sum.is_full());
    sum.sub(pod);
    assert_eq!(sum, pod);
}

#[test]
fn what_64_bits_cannot_hold_stays_at_the_largest_number() {
    let pod = NonZero { milli_cpu: i64::MAX / 4 * 3, memory: 7 };
    let mut sum = pod;
    sum.add(pod);
    assert_eq!((sum.milli_cpu, sum.memory, sum.is_full()), (i64::MAX, 14, true));
}

#[test]
fn only_cpu_memory_and_huge_pages_can_be_requested_for_a_pod() {
    for (name, can) in [
        ("cpu", true),
        ("memory", true),
        ("hugepages-2Mi", true),
        ("hugepages-1Gi", true),
        ("ephemeral-storage", false),
        ("a.com/gpu", false),
    ] {
        assert_eq!(is_pod_level_resource(name), can, "{name}");
    }
}
