//! Answers as tables.

use expect_test::expect;
use serde_json::{Value, json};

use crate::manifests::CLUSTER;
use crate::run::{check, run};

/// A node that takes one pod, one that takes none, and pods for each outcome.
const OUTCOMES: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10', example.com/disk: '2'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
spec: {unschedulable: true}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: fits}
spec: {containers: [{name: c, resources: {requests: {cpu: 1500m, memory: 2Gi, example.com/disk: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {schedulingGates: [{name: example.com/a}], containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: foreign}
spec: {schedulerName: other, containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: leaving, deletionTimestamp: '2026-01-01T00:00:00Z'}
spec: {containers: [{name: c}]}
";

#[test]
fn explain_says_if_the_pods_in_the_way_are_being_deleted_already() {
    let leaving = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: low, deletionTimestamp: '2026-01-01T00:00:00Z'}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: high}
spec: {priority: 10, containers: [{name: c, resources: {requests: {cpu: '1'}}}]}
";
    check(
        &[("a.yaml", leaving)],
        "explain -f a.yaml --pod high",
        &expect![[r#"
        default/high fits no node yet; it would fit on n1 once the pods that are being deleted are gone.

        REJECTED  BY                REASON            NODES
               1  NodeResourcesFit  Insufficient cpu  n1

        FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node n1, preempting 1 victims
        exit status 0
    "#]],
    );
}

/// A pod whose claim cannot be allocated, each device for a reason of its own.
const REFUSED_CLAIM: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-counters}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 2}
  sharedCounters: [{name: card, counters: {memory: {value: 8Gi}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-gpus}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 2}
  devices:
  - {name: held, attributes: {model: {string: a}}}
  - {name: old, attributes: {model: {string: old}}}
  - {name: hot, attributes: {model: {string: a}}, taints: [{key: example.com/hot, effect: NoSchedule}]}
  - name: large
    attributes: {model: {string: a}}
    consumesCounters: [{counterSet: card, counters: {memory: {value: 16Gi}}}]
  - {name: left, attributes: {model: {string: a}, side: {string: left}}}
  - {name: right, attributes: {model: {string: a}, side: {string: right}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-nics}
spec:
  driver: nic.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: eth0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: taken, uid: taken}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status:
  allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: n1, device: held}]}}
  reservedFor: [{resource: pods, name: other, uid: other}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: pair, uid: pair}
spec:
  devices:
    requests:
    - name: gpus
      exactly:
        deviceClassName: gpu
        count: 2
        selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].model == "a"'}}]
    constraints: [{matchAttribute: gpu.example.com/side}]
---
apiVersion: v1
kind: Pod
metadata: {name: trainer, uid: trainer}
spec:
  containers: [{name: c, image: i, resources: {claims: [{name: gpus}]}}]
  resourceClaims: [{name: gpus, resourceClaimName: pair}]
"#;

#[test]
fn explain_says_request_by_request_why_devices_are_refused() {
    check(
        &[("a.yaml", REFUSED_CLAIM)],
        "explain -f a.yaml --pod trainer",
        &expect![[r#"
        default/trainer fits 0 of 2 nodes.

        REJECTED  BY                REASON                      NODES
               2  DynamicResources  cannot allocate all claims  n1, n2

        DEVICES BY REQUEST
        default/pair gpus: 7 devices: 2 picked (1 of them also against constraint #0), 1 in use, 1 rejected by selector #0 of the class, 1 rejected by selector #0 of the request, 1 without enough left of the pool's counters, 1 tainted by example.com/hot (n1)
        default/pair gpus: no devices (n2)
        in use by the claim default/taken

        FailedScheduling: 0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
        exit status 0
    "#]],
    );
}

#[test]
fn the_record_says_request_by_request_why_devices_are_refused() {
    let answer = run(&[("a.yaml", REFUSED_CLAIM)], "explain -f a.yaml --pod trainer -o json");
    let record: Value = serde_json::from_str(&answer.out).expect("it is JSON");
    let reason = |devices: u32, reason: &str| json!({"reason": reason, "devices": devices});
    let in_use = json!({"reason": "in use", "devices": 1, "by": ["default/taken"]});
    let expected = json!([{
        "claim": "default/pair", "request": "gpus", "devices": 7, "picked": 2,
        "alsoRefused": [reason(1, "against constraint #0")],
        "refused": [
            in_use,
            reason(1, "rejected by selector #0 of the class"),
            reason(1, "rejected by selector #0 of the request"),
            reason(1, "without enough left of the pool's counters"),
            reason(1, "tainted by example.com/hot"),
        ],
    }]);
    assert_eq!(record["nodes"][0]["requests"], expected, "{record}");
    let none = json!([
        {"claim": "default/pair", "request": "gpus", "devices": 0, "picked": 0, "refused": []},
    ]);
    assert_eq!(record["nodes"][1]["requests"], none, "{record}");
}

#[test]
fn simulate_names_the_missing_claim() {
    let pod = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}
";
    check(
        &[("a.yaml", pod)],
        "simulate -f a.yaml",
        &expect![[r#"
        POD        NODE    NOTE
        default/p  <none>  persistentvolumeclaim "data" not found; postfilter error: not found

        Scheduled 0 of 1 pod
        Unschedulable 1 pod
          default/p: persistentvolumeclaim "data" not found; postfilter error: not found

        exit status 0
    "#]],
    );
}

#[test]
fn simulate_shows_where_pods_went_and_what_is_left() {
    check(
        &[("a.yaml", OUTCOMES)],
        "simulate -f a.yaml",
        &expect![[r#"
            POD            NODE    NOTE
            default/fits   n1
            default/gated  <none>  waiting for scheduling gates: [example.com/a]

            Scheduled 1 of 2 pods
            Gated 1 pod
              default/gated: waiting for scheduling gates: [example.com/a]
            1 pod belongs to another scheduler (default/foreign)
            1 pod is being deleted (default/leaving)

            REQUESTED         BEFORE      AFTER                   ALLOCATABLE
            cpu                    0  0%    1.5  19%  █░░░░░░░░░            8
            memory                 0  0%    2Gi  13%  █░░░░░░░░░         16Gi
            pods                   0  0%      1   5%  ░░░░░░░░░░           20
            example.com/disk       0  0%      1  50%  █████░░░░░            2
            exit status 0
        "#]],
    );
}

#[test]
fn simulate_with_explain_shows_how_many_nodes_were_feasible() {
    check(
        &[("a.yaml", CLUSTER)],
        "simulate -f a.yaml --explain",
        &expect![[r#"
            POD         NODE  FEASIBLE  SCORE  NOTE
            default/p1  n1         2/2    454  tied with 1 other
            shop/p2     n2         2/2    454

            Scheduled 2 of 2 pods

            REQUESTED  BEFORE      AFTER                   ALLOCATABLE
            cpu             0  0%      2  25%  ██░░░░░░░░            8
            memory          0  0%      0   0%  ░░░░░░░░░░         16Gi
            pods            0  0%      2  10%  █░░░░░░░░░           20
            exit status 0
        "#]],
    );
}

#[test]
fn table_and_summary_have_the_reason_of_an_unschedulable_pod() {
    let text = CLUSTER.replace("cpu: '1'", "cpu: '9'");
    let answer = run(&[("a.yaml", &text)], "simulate -f a.yaml");
    assert!(
        answer.out.contains("default/p1  <none>  0/2 nodes are available: 2 Insufficient cpu.")
    );
    assert!(answer.out.contains("\nScheduled 0 of 2 pods\nUnschedulable 2 pods\n"));
    assert!(
        answer.out.contains("\n  default/p1, shop/p2: 0/2 nodes are available: 2 Insufficient")
    );
}

#[test]
fn explain_compares_the_nodes_and_names_the_winner() {
    let text = CLUSTER.replacen("cpu: '4'", "cpu: '8'", 1);
    check(
        &[("a.yaml", &text)],
        "explain -f a.yaml --pod p1",
        &expect![[r#"
            default/p1 fits 2 of 2 nodes and goes to n1, the best.

               NODE  TOTAL  NodeResourcesFit  NodeResourcesBalancedAllocation
            →  n1      463                92                               71
               n2      454                86                               68
            Each node got the same from TaintToleration 300, DynamicResources 0, ImageLocality 0

            Scheduled: Successfully assigned default/p1 to n1
            exit status 0
        "#]],
    );
}

#[test]
fn explain_says_why_each_node_was_rejected() {
    let text = CLUSTER.replace("cpu: '1'", "cpu: '9'")
        + "---\n"
        + OUTCOMES.split("---").nth(1).expect("a node").replace("n2", "n3").as_str();
    let answer = run(&[("a.yaml", &text)], "explain -f a.yaml --pod shop/p2");
    let shown = answer.out.lines().filter(|line| !line.starts_with("FailedScheduling"));
    expect![[r#"
        shop/p2 fits 0 of 3 nodes.

        REJECTED  BY                 REASON                      NODES
               2  NodeResourcesFit   Insufficient cpu            n1, n2
               1  NodeUnschedulable  node(s) were unschedulable  n3
    "#]]
    .assert_eq(&(shown.collect::<Vec<_>>().join("\n")));
    assert!(answer.out.contains("\nFailedScheduling: 0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."));
}

#[test]
fn explain_shows_the_best_twenty_without_all() {
    let nodes = (0..30).map(|i| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: n{i:02}}}\n\
             status: {{allocatable: {{cpu: '{}', pods: '10'}}}}\n---\n",
            i + 2
        )
    });
    let text = nodes.collect::<String>() + CLUSTER.split("---").nth(2).expect("a pod");
    let lines = |options: &str| {
        let line = format!("explain -f a.yaml --pod p1 {options}");
        let out = run(&[("a.yaml", &text)], &line).out;
        let nodes = out.lines().filter(|line| line.trim_start_matches(['→', ' ']).starts_with('n'));
        (nodes.count(), out.contains("... and 10 more; --all shows them"))
    };
    assert_eq!(lines(""), (20, true));
    assert_eq!(lines("--all"), (30, false));
}

#[test]
fn a_gated_pod_is_explained_by_its_gate() {
    check(
        &[("a.yaml", OUTCOMES)],
        "explain -f a.yaml --pod gated",
        &expect![[r#"
            default/gated is not tried: SchedulingGates keeps it out of the queue: waiting for scheduling gates: [example.com/a].
            exit status 0
        "#]],
    );
}

const FULL: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: low, creationTimestamp: '2026-01-01T00:00:00Z'}
spec: {nodeName: n1, priority: 1, containers: [{name: c, resources: {requests: {cpu: 2}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: new}
spec: {priority: PRIORITY, containers: [{name: c, resources: {requests: {cpu: 2}}}]}
";

#[test]
fn the_table_marks_pods_that_were_preempted() {
    check(
        &[("a.yaml", &FULL.replace("PRIORITY", "5"))],
        "simulate -f a.yaml",
        &expect![[r#"
        POD          NODE    ATTEMPTS  NOTE
        default/new  n1             2
        default/low  <none>            preempted by default/new on n1

        Scheduled 1 of 1 pod
        Preempted 1 pod (default/low)

        REQUESTED  BEFORE        AFTER                    ALLOCATABLE
        cpu             2  100%      2  100%  ██████████            2
        memory          0    0%      0    0%  ░░░░░░░░░░          4Gi
        pods            1   10%      1   10%  █░░░░░░░░░           10
        exit status 0
    "#]],
    );
}

#[test]
fn resources_are_free_when_pods_complete_or_are_deleted() {
    let equal = FULL.replace("PRIORITY", "1");
    check(
        &[("a.yaml", &equal)],
        "simulate -f a.yaml --completion-after 1h30m",
        &expect![[r#"
            POD          NODE  ATTEMPTS  NOTE
            default/new  n1           2

            Scheduled 1 of 1 pod

            REQUESTED  BEFORE        AFTER                  ALLOCATABLE
            cpu             2  100%      0  0%  ░░░░░░░░░░            2
            memory          0    0%      0  0%  ░░░░░░░░░░          4Gi
            pods            1   10%      0  0%  ░░░░░░░░░░           10
            exit status 0
        "#]],
    );
    let going = equal.replace(
        "name: low,",
        "name: low, deletionTimestamp: '2026-01-01T00:00:30Z', deletionGracePeriodSeconds: 30,",
    );
    check(
        &[("a.yaml", &going)],
        "simulate -f a.yaml -o json",
        &expect![[r#"
        {"pod":"default/new","result":"unschedulable","message":"0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."}
        {"pod":"default/new","result":"scheduled","node":"n1","best":["n1"],"attempt":2}
        exit status 0
    "#]],
    );
}

const VOLUMES: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {disk: ssd}}
status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: example.com/disks
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: small}
spec:
  {storageClassName: late, capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
   hostPath: {path: /small}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  {storageClassName: late, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: more}
spec:
  {storageClassName: late, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: more, persistentVolumeClaim: {claimName: more}}
";

#[test]
fn volumes_are_bound_and_provisioned_and_both_are_shown() {
    check(
        &[("a.yaml", VOLUMES)],
        "simulate -f a.yaml",
        &expect![[r#"
            POD        NODE  NOTE
            default/p  n1    data bound to small, more provisioned

            Scheduled 1 of 1 pod

            REQUESTED  BEFORE      AFTER                   ALLOCATABLE
            cpu             0  0%      0   0%  ░░░░░░░░░░            2
            memory          0  0%      0   0%  ░░░░░░░░░░          4Gi
            pods            0  0%      1  10%  █░░░░░░░░░           10
            exit status 0
        "#]],
    );
    check(
        &[("a.yaml", VOLUMES)],
        "simulate -f a.yaml -o json",
        &expect![[r#"
            {"pod":"default/p","result":"scheduled","node":"n1","best":["n1"],"volumes":[{"claim":"default/data","volume":"small"},{"claim":"default/more"}]}
            exit status 0
        "#]],
    );
}

#[test]
fn claims_that_do_not_wait_for_a_pod_are_bound_before_the_first_attempt() {
    let at_once = VOLUMES.replace("WaitForFirstConsumer", "Immediate");
    let provisioned = at_once.replace("capacity: {storage: 1Gi}", "capacity: {storage: 1Mi}");
    for files in [at_once, provisioned] {
        for command in ["simulate -f a.yaml -o json", "explain -f a.yaml --pod p -o json"] {
            let answer = run(&[("a.yaml", &files)], command);
            let record: Value = serde_json::from_str(&answer.out).expect("it is one record");
            assert_eq!(
                (&record["result"], &record["attempt"]),
                (&"scheduled".into(), &Value::Null)
            );
        }
    }
}

#[test]
fn a_swarm_reports_what_it_tried() {
    let answer = run(&[], "simulate --swarm 3 --seed 7");
    assert_eq!((answer.status, answer.err.as_str()), (0, ""));
    assert!(answer.out.starts_with("3 simulations from seed 7: "), "{}", answer.out);
    assert_eq!(run(&[], "simulate --swarm 3 --seed 7"), answer);
}

#[test]
fn a_swarm_tries_only_seeds_with_what_is_asked_for() {
    let seeds = |what: &str| -> Vec<u64> {
        let answer = run(&[], &format!("simulate --swarm 3 --seed 1 -o json --with {what}"));
        assert_eq!((answer.status, answer.err.as_str()), (0, ""));
        let lines = answer.out.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
        lines.map(|record: Value| record["seed"].as_u64().expect("it is a number")).collect()
    };
    let (groups, gangs) = (seeds("groups"), seeds("coscheduling"));
    assert!(groups.contains(&3), "every third seed has groups: {groups:?}");
    assert!(gangs.len() == 3 && gangs.iter().all(|seed| seed % 3 != 0), "{gangs:?}");
    let wrong = run(&[("c.yaml", "")], "simulate --swarm 1 --with coscheduling --config c.yaml");
    assert_eq!((wrong.status, wrong.out.as_str()), (1, ""));
    assert!(wrong.err.contains("leave --config out"), "{}", wrong.err);
}
