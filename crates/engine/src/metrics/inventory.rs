//! The metrics of kube-scheduler, exactly as in scheduler/metrics/metrics.go of the newest release;
//! [`inventory`] has those of each release.
//!
//! Metrics about things that do not exist here are missing: batches and node hints (results are
//! remembered in another way), calls by the API dispatcher, and the metrics of the volume binder and of
//! device allocation.

use plimsoll_framework::Release;

use plimsoll_framework::metrics::{Buckets, Descriptor, MetricType, Stability};

pub(super) const ATTEMPT_BUCKETS: Buckets = Buckets { start: 0.001, factor: 2.0, count: 15 };
pub(super) const EXTENSION_POINT_BUCKETS: Buckets =
    Buckets { start: 0.0001, factor: 2.0, count: 12 };
pub(super) const PLUGIN_BUCKETS: Buckets = Buckets { start: 0.00001, factor: 1.5, count: 20 };
pub(super) const SLI_BUCKETS: Buckets = Buckets { start: 0.01, factor: 2.0, count: 20 };
pub(super) const ATTEMPTS_BUCKETS: Buckets = Buckets { start: 1.0, factor: 2.0, count: 5 };
pub(super) const VICTIMS_BUCKETS: Buckets = Buckets { start: 1.0, factor: 2.0, count: 7 };
pub(super) const GROUP_VICTIMS_BUCKETS: Buckets = Buckets { start: 1.0, factor: 2.0, count: 11 };
pub(super) const PREEMPTION_BUCKETS: Buckets = Buckets { start: 0.001, factor: 2.0, count: 16 };

/// All metrics of the engine, by name.
static NEWEST: [Descriptor; 43] = [
    AUDITED,
    DIFFERING,
    DECISIONS,
    BEHIND_RESERVATION,
    RESERVATIONS,
    GROUPS_WAITED,
    WAITING_GROUPS,
    CACHE_SIZE,
    EVENT_HANDLING,
    EXTENSION_POINT,
    PLACEMENTS,
    GOROUTINES,
    INFLIGHT_EVENTS,
    PENDING_PODS,
    PERMIT_WAIT,
    PLACEMENT_EVALUATION_TOOK,
    PLACEMENT_EVALUATIONS,
    PLUGIN_EVALUATION,
    PLUGIN_EXECUTION,
    AFTER_FLUSH,
    ATTEMPTS,
    SLI,
    GROUP_ATTEMPTS,
    GROUP_ALGORITHM,
    GROUP_ATTEMPT_TOOK,
    PREEMPTION_ATTEMPTS,
    PREEMPTION_EVALUATION,
    PREEMPTION_EXECUTION,
    EVICTIONS_TOOK,
    EVICTIONS,
    BROKEN_BUDGETS,
    VICTIMS,
    DISRUPTIONS,
    INCOMING_ENTITIES,
    INCOMING_PODS,
    QUEUED_ENTITIES,
    HINTS,
    SCHEDULE_ATTEMPTS,
    ALGORITHM,
    ATTEMPT_TOOK,
    UNSCHEDULABLE_PODS,
    GROUP_PREEMPTIONS,
    GROUP_VICTIMS,
];

/// Metrics that are new in a release.
const SINCE: [(Release, &str); 11] = [
    (Release::V1_37, INCOMING_ENTITIES.name),
    (Release::V1_37, QUEUED_ENTITIES.name),
    (Release::V1_37, PLACEMENTS.name),
    (Release::V1_37, PLACEMENT_EVALUATION_TOOK.name),
    (Release::V1_37, PLACEMENT_EVALUATIONS.name),
    (Release::V1_37, PREEMPTION_EVALUATION.name),
    (Release::V1_37, BROKEN_BUDGETS.name),
    (Release::V1_37, PREEMPTION_EXECUTION.name),
    (Release::V1_37, DISRUPTIONS.name),
    (Release::V1_37, GROUP_PREEMPTIONS.name),
    (Release::V1_37, GROUP_VICTIMS.name),
];

/// Metrics that were different before a release.
static BEFORE: [(Release, Descriptor); 6] = [
    (
        Release::V1_37,
        Descriptor {
            help: "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated.",
            ..PENDING_PODS
        },
    ),
    (Release::V1_37, Descriptor { help: "Number of selected preemption victims", ..VICTIMS }),
    (
        Release::V1_37,
        Descriptor {
            help: "Number of pods that were successfully scheduled after being flushed from unschedulablePods due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
            ..AFTER_FLUSH
        },
    ),
    (
        Release::V1_37,
        Descriptor {
            help: "Duration in seconds for running goroutines for the preemption.",
            ..EVICTIONS_TOOK
        },
    ),
    (Release::V1_37, Descriptor { stability: Stability::Alpha, ..PLUGIN_EXECUTION }),
    (Release::V1_37, Descriptor { stability: Stability::Alpha, ..ALGORITHM }),
];

/// All metrics of the engine as a release has them, by name.
pub fn inventory(release: Release) -> impl Iterator<Item = &'static Descriptor> {
    NEWEST.iter().filter_map(move |one| as_of(release, one))
}

/// A metric in a release; `None` if the release does not have it.
pub(super) fn as_of(release: Release, newest: &'static Descriptor) -> Option<&'static Descriptor> {
    let is_later = |(since, name): &(Release, &str)| *name == newest.name && release < *since;
    if SINCE.iter().any(is_later) {
        return None;
    }
    let was = |(until, one): &&(Release, Descriptor)| one.name == newest.name && release < *until;
    Some(BEFORE.iter().find(was).map_or(newest, |(_, one)| one))
}

const fn new(
    name: &'static str,
    stability: Stability,
    metric_type: MetricType,
    labels: &'static [&'static str],
    help: &'static str,
) -> Descriptor {
    Descriptor { name, help, stability, metric_type, labels }
}

pub(super) const AUDITED: Descriptor = new(
    "plimsoll_audit_decisions_total",
    Stability::Alpha,
    MetricType::Counter,
    &[],
    "Number of decisions from memory that were made a second time, from scratch, and compared.",
);
pub(super) const DIFFERING: Descriptor = new(
    "plimsoll_audit_differences_total",
    Stability::Alpha,
    MetricType::Counter,
    &[],
    "Number of audited decisions that came out otherwise from scratch. Anything but 0 is a defect: the decision from scratch was carried out, and what was remembered was dropped.",
);
pub(super) const DECISIONS: Descriptor = new(
    "plimsoll_decisions_total",
    Stability::Alpha,
    MetricType::Counter,
    &["source"],
    "Number of decisions, by what they were made from.",
);
pub(super) const BEHIND_RESERVATION: Descriptor = new(
    "plimsoll_podgroup_reservation_pods",
    Stability::Alpha,
    MetricType::Gauge,
    &[],
    "Number of pods that are not tried because room is reserved for a pod group.",
);
pub(super) const RESERVATIONS: Descriptor = new(
    "plimsoll_podgroup_reservations_total",
    Stability::Alpha,
    MetricType::Counter,
    &["result"],
    "Number of reservations for pod groups that have ended: since the group was 'scheduled', since the time was over ('expired'), or since a pod of the group is 'gone'.",
);
pub(super) const GROUPS_WAITED: Descriptor = new(
    "plimsoll_podgroup_scheduling_sli_duration_seconds",
    Stability::Alpha,
    MetricType::Histogram(SLI_BUCKETS),
    &[],
    "Time from when a pod group could first be tried until it was scheduled, which may have taken several attempts. A tree of groups counts once.",
);
pub(super) const WAITING_GROUPS: Descriptor = new(
    "plimsoll_waiting_podgroups",
    Stability::Alpha,
    MetricType::Gauge,
    &["reason"],
    "Number of pod groups that have waiting pods, by the reason: 'queued' for their turn; 'unschedulable', since there is no room; 'preemption' of others for them; 'error'; 'gated', since pods or objects are missing or a pod is held back. A tree of groups counts once.",
);
pub(super) const PLACEMENTS: Descriptor = new(
    "scheduler_generated_placements_total",
    Stability::Alpha,
    MetricType::Counter,
    &["profile"],
    "Number of candidate placements generated when scheduling pod groups.",
);
pub(super) const PLACEMENT_EVALUATIONS: Descriptor = new(
    "scheduler_placement_evaluations_total",
    Stability::Alpha,
    MetricType::Counter,
    &["result", "profile"],
    "Number of candidate placements evaluated when scheduling pod groups, by result. 'feasible' means the pod group fit into the placement, while 'infeasible' means it did not.",
);
/// Its help and its buckets are not as in metrics.go, which is not at hand: the buckets are those of attempts.
pub(super) const PLACEMENT_EVALUATION_TOOK: Descriptor = new(
    "scheduler_placement_evaluation_duration_seconds",
    Stability::Alpha,
    MetricType::Histogram(ATTEMPT_BUCKETS),
    &["result", "profile"],
    "Duration in seconds for evaluating a candidate placement when scheduling pod groups, by result.",
);
pub(super) const PREEMPTION_EVALUATION: Descriptor = new(
    "scheduler_preemption_evaluation_duration_seconds",
    Stability::Alpha,
    MetricType::Histogram(PREEMPTION_BUCKETS),
    &["preemptor", "result"],
    "Duration in seconds for identifying the target preemption victims.",
);
pub(super) const BROKEN_BUDGETS: Descriptor = new(
    "scheduler_preemption_pdb_violations_total",
    Stability::Alpha,
    MetricType::Counter,
    &["preemptor"],
    "Total number of pod disruption budget violations caused by preemption.",
);
pub(super) const PREEMPTION_EXECUTION: Descriptor = new(
    "scheduler_preemption_execution_duration_seconds",
    Stability::Alpha,
    MetricType::Histogram(PREEMPTION_BUCKETS),
    &["preemptor", "result"],
    "Duration in seconds for preempting the target preemption victims. With async preemption enabled, preemption execution does not block the scheduling of other pods.",
);
pub(super) const DISRUPTIONS: Descriptor = new(
    "scheduler_preemption_workload_disruptions",
    Stability::Alpha,
    MetricType::Histogram(GROUP_VICTIMS_BUCKETS),
    &["preemptor"],
    "Number of workload preemption units being preempted. A single preemption unit can be all pods in a pod group (in case of DisruptionMode=all), or a single pod (in case of DisruptionMode=single).",
);
pub(super) const GROUP_PREEMPTIONS: Descriptor = new(
    "scheduler_workload_preemption_attempts_total",
    Stability::Alpha,
    MetricType::Counter,
    &["result"],
    "Total preemption attempts initiated by workload (including pod groups) in the cluster till now.",
);
pub(super) const GROUP_VICTIMS: Descriptor = new(
    "scheduler_workload_preemption_victims",
    Stability::Alpha,
    MetricType::Histogram(GROUP_VICTIMS_BUCKETS),
    &[],
    "Number of pod preemption victims caused by workload preemption.",
);
pub(super) const CACHE_SIZE: Descriptor = new(
    "scheduler_cache_size",
    Stability::Alpha,
    MetricType::Gauge,
    &["type"],
    "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
);
pub(super) const EVENT_HANDLING: Descriptor = new(
    "scheduler_event_handling_duration_seconds",
    Stability::Alpha,
    MetricType::Histogram(EXTENSION_POINT_BUCKETS),
    &["event"],
    "Event handling latency in seconds.",
);
pub(super) const EXTENSION_POINT: Descriptor = new(
    "scheduler_framework_extension_point_duration_seconds",
    Stability::Stable,
    MetricType::Histogram(EXTENSION_POINT_BUCKETS),
    &["extension_point", "status", "profile"],
    "Latency for running all plugins of a specific extension point.",
);
pub(super) const GOROUTINES: Descriptor = new(
    "scheduler_goroutines",
    Stability::Beta,
    MetricType::Gauge,
    &["operation"],
    "Number of running goroutines split by the work they do such as binding.",
);
pub(super) const INFLIGHT_EVENTS: Descriptor = new(
    "scheduler_inflight_events",
    Stability::Alpha,
    MetricType::Gauge,
    &["event"],
    "Number of events currently tracked in the scheduling queue.",
);
pub(super) const PENDING_PODS: Descriptor = new(
    "scheduler_pending_pods",
    Stability::Stable,
    MetricType::Gauge,
    &["queue"],
    "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulableEntities that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated; 'incomplete' means number of pods in incompletePodGroupPods; 'pending' means number of pods in pendingPodGroupPods.",
);
pub(super) const PERMIT_WAIT: Descriptor = new(
    "scheduler_permit_wait_duration_seconds",
    Stability::Beta,
    MetricType::Histogram(ATTEMPT_BUCKETS),
    &["result"],
    "Duration of waiting on permit.",
);
pub(super) const PLUGIN_EVALUATION: Descriptor = new(
    "scheduler_plugin_evaluation_total",
    Stability::Beta,
    MetricType::Counter,
    &["plugin", "extension_point", "profile"],
    "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, Filter, PreScore, and Score).",
);
pub(super) const PLUGIN_EXECUTION: Descriptor = new(
    "scheduler_plugin_execution_duration_seconds",
    Stability::Beta,
    MetricType::Histogram(PLUGIN_BUCKETS),
    &["plugin", "extension_point", "status"],
    "Duration for running a plugin at a specific extension point.",
);
pub(super) const AFTER_FLUSH: Descriptor = new(
    "scheduler_pod_scheduled_after_flush_total",
    Stability::Alpha,
    MetricType::Counter,
    &[],
    "Number of pods that were successfully scheduled after being flushed from unschedulableEntities due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
);
pub(super) const ATTEMPTS: Descriptor = new(
    "scheduler_pod_scheduling_attempts",
    Stability::Stable,
    MetricType::Histogram(ATTEMPTS_BUCKETS),
    &[],
    "Number of attempts to successfully schedule a pod.",
);
pub(super) const SLI: Descriptor = new(
    "scheduler_pod_scheduling_sli_duration_seconds",
    Stability::Beta,
    MetricType::Histogram(SLI_BUCKETS),
    &["attempts"],
    "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.",
);
pub(super) const PREEMPTION_ATTEMPTS: Descriptor = new(
    "scheduler_preemption_attempts_total",
    Stability::Stable,
    MetricType::Counter,
    &[],
    "Total preemption attempts in the cluster till now",
);
pub(super) const EVICTIONS_TOOK: Descriptor = new(
    "scheduler_preemption_goroutines_duration_seconds",
    Stability::Alpha,
    MetricType::Histogram(SLI_BUCKETS),
    &["result"],
    "(Deprecated since 1.37.0) Duration in seconds for running goroutines for the preemption.",
);
pub(super) const EVICTIONS: Descriptor = new(
    "scheduler_preemption_goroutines_execution_total",
    Stability::Alpha,
    MetricType::Counter,
    &["result"],
    "Number of preemption goroutines executed.",
);
pub(super) const VICTIMS: Descriptor = new(
    "scheduler_preemption_victims",
    Stability::Stable,
    MetricType::Histogram(VICTIMS_BUCKETS),
    &[],
    "Number of selected preemption victims for preemption initiated by a single pod",
);
pub(super) const INCOMING_ENTITIES: Descriptor = new(
    "scheduler_queue_incoming_entities_total",
    Stability::Alpha,
    MetricType::Counter,
    &["queue", "event", "type"],
    "Number of scheduling entities added to scheduling queues by event, queue type, and entity type. Entity types are either 'pod' (for individual pods that are not members of any podgroup) or 'podgroup'.",
);
pub(super) const QUEUED_ENTITIES: Descriptor = new(
    "scheduler_queued_entities",
    Stability::Alpha,
    MetricType::Gauge,
    &["queue", "type"],
    "Number of queued scheduling entities ('pod' or 'podgroup'; 'pod' stands for individual pods that are not members of any podgroup) by the queue type. 'active' means number of entities in activeQ; 'backoff' means number of entities in backoffQ; 'unschedulable' means number of entities in unschedulableEntities that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable entities that the scheduler never attempted to schedule because they are gated.",
);
pub(super) const INCOMING_PODS: Descriptor = new(
    "scheduler_queue_incoming_pods_total",
    Stability::Stable,
    MetricType::Counter,
    &["queue", "event"],
    "Number of pods added to scheduling queues by event and queue type.",
);
pub(super) const HINTS: Descriptor = new(
    "scheduler_queueing_hint_execution_duration_seconds",
    Stability::Alpha,
    MetricType::Histogram(PLUGIN_BUCKETS),
    &["plugin", "event", "hint"],
    "Duration for running a queueing hint function of a plugin.",
);
pub(super) const GROUP_ATTEMPTS: Descriptor = new(
    "scheduler_podgroup_schedule_attempts_total",
    Stability::Alpha,
    MetricType::Counter,
    &["result", "profile"],
    "Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not be scheduled, while 'error' means an internal scheduler problem.",
);
pub(super) const GROUP_ALGORITHM: Descriptor = new(
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    Stability::Alpha,
    MetricType::Histogram(ATTEMPT_BUCKETS),
    &[],
    "Pod group scheduling algorithm latency in seconds",
);
pub(super) const GROUP_ATTEMPT_TOOK: Descriptor = new(
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    Stability::Alpha,
    MetricType::Histogram(ATTEMPT_BUCKETS),
    &["result", "profile"],
    "Pod group scheduling attempt latency in seconds",
);
pub(super) const SCHEDULE_ATTEMPTS: Descriptor = new(
    "scheduler_schedule_attempts_total",
    Stability::Stable,
    MetricType::Counter,
    &["result", "profile"],
    "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
);
pub(super) const ALGORITHM: Descriptor = new(
    "scheduler_scheduling_algorithm_duration_seconds",
    Stability::Beta,
    MetricType::Histogram(ATTEMPT_BUCKETS),
    &[],
    "Scheduling algorithm latency in seconds",
);
pub(super) const ATTEMPT_TOOK: Descriptor = new(
    "scheduler_scheduling_attempt_duration_seconds",
    Stability::Stable,
    MetricType::Histogram(ATTEMPT_BUCKETS),
    &["result", "profile"],
    "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
);
pub(super) const UNSCHEDULABLE_PODS: Descriptor = new(
    "scheduler_unschedulable_pods",
    Stability::Beta,
    MetricType::Gauge,
    &["plugin", "profile"],
    "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
);
