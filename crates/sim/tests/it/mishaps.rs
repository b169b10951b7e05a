//! Failures in a cluster, and how the scheduler reports them.

use expect_test::expect;

use crate::script::check;

#[test]
fn a_claim_that_can_never_be_bound_keeps_its_pod_waiting() {
    check(
        r#"
        0 node a
        0 sc local {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        0 pvc data {"storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}}
        1 pod p {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
        1000 wait
        "#,
        &expect![[r#"
            1s p #1 !!
            1s event p FailedScheduling: 0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
            1s condition p Unschedulable: 0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
            1000s p #2 !!
            1000s event p FailedScheduling: 0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
            1000s condition p Unschedulable: 0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        "#]],
    );
}

/// As in kube-scheduler: a pod that leaves a node frees its ports, even if another pod uses them, too.
#[test]
fn one_of_two_pods_with_the_same_port_is_evicted_for_a_third() {
    check(
        r#"
        0 node a
        0 pod high {"priority": 9, "nodeName": "a", "ports": [{"containerPort": 80, "hostPort": 80}]}
        0 pod low {"nodeName": "a", "ports": [{"containerPort": 80, "hostPort": 80}]}
        1 pod p {"priority": 5, "ports": [{"containerPort": 80, "hostPort": 80}]}
        2 wait
        "#,
        &expect![[r#"
            1s p #1 clears a
            1s evict low for p
            1s nominate p to a
            1s event p FailedScheduling: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. preemption: found a potential placement for pod on node a, preempting 1 victims
            1s condition p Unschedulable: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. preemption: found a potential placement for pod on node a, preempting 1 victims
            1s p #2 -> a
            1s bind p to a
            1s event p Scheduled: Successfully assigned default/p to a
        "#]],
    );
}

#[test]
fn a_provisioner_that_fails_has_the_pod_tried_anew() {
    check(
        r#"
        0 node a
        0 sc late {"provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"}
        0 pvc data {"storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}
        0 storage 1 30
        0 provision refused
        1 pod p {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
        20 provision works
        100 wait
        "#,
        &expect![[r#"
            1s p #1 -> a
            1s nominate p to a
            1s patch PersistentVolumeClaim default/data for p
            32s p #1 error
            32s nominate p to nothing
            32s event p FailedScheduling: running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"
            32s condition p SchedulerError: running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"
            34s p #2 -> a
            34s nominate p to a
            34s patch PersistentVolumeClaim default/data for p
            66s bind p to a
            66s event p Scheduled: Successfully assigned default/p to a
        "#]],
    );
}

#[test]
fn a_pod_whose_volume_is_too_late_is_tried_anew() {
    check(
        r#"
        0 node a
        0 sc late {"provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"}
        0 pvc data {"storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}
        0 storage 0 700
        1 pod p {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
        900 wait
        "#,
        &expect![[r#"
            1s p #1 -> a
            1s nominate p to a
            1s patch PersistentVolumeClaim default/data for p
            601s p #1 error
            601s nominate p to nothing
            601s event p FailedScheduling: running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded
            601s condition p SchedulerError: running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded
            603s p #2 -> a
            603s nominate p to a
            701s bind p to a
            701s event p Scheduled: Successfully assigned default/p to a
        "#]],
    );
}

#[test]
fn a_binding_that_is_never_answered_is_given_up() {
    check(
        "0 node a
         0 bind lost
         1 pod p
         10 bind works
         100 wait",
        &expect![[r#"
            1s p #1 -> a
            1s bind p to a
            61s p #1 error
            61s event p FailedScheduling: running Bind plugin "DefaultBinder": timed out waiting for the binding
            61s condition p SchedulerError: running Bind plugin "DefaultBinder": timed out waiting for the binding
            63s p #2 -> a
            63s bind p to a
            63s event p Scheduled: Successfully assigned default/p to a
        "#]],
    );
}

#[test]
fn a_pod_whose_node_goes_before_it_is_bound_goes_elsewhere() {
    check(
        r#"
        0 node a
        0 sc late {"provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"}
        0 pvc data {"storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}
        0 storage 0 30
        1 pod p {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
        10 delete node a
        20 node b
        100 wait
        "#,
        &expect![[r#"
            1s p #1 -> a
            1s nominate p to a
            1s patch PersistentVolumeClaim default/data for p
            10s p #1 error
            10s nominate p to nothing
            10s event p FailedScheduling: running PreBind plugin "VolumeBinding": binding volumes: failed to get node "a": node "a" not found
            10s condition p SchedulerError: running PreBind plugin "VolumeBinding": binding volumes: failed to get node "a": node "a" not found
            12s p #2 !!
            12s event p FailedScheduling: no nodes available to schedule pods
            12s condition p Unschedulable: no nodes available to schedule pods
            20s p #3 !!
            20s event p FailedScheduling: 0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
            20s condition p Unschedulable: 0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
            31s p #4 -> b
            31s bind p to b
            31s event p Scheduled: Successfully assigned default/p to b
        "#]],
    );
}

#[test]
fn a_pod_waits_for_a_victim_that_does_not_terminate() {
    check(
        r#"
        0 node a {"allocatable": {"cpu": "2"}}
        0 grace 30
        0 terminate lost
        0 pod low {"requests": {"cpu": "2"}, "priority": 1}
        1 pod high {"requests": {"cpu": "2"}, "priority": 5}
        200 wait
        300 delete pod low
        400 wait
        "#,
        &expect![[r#"
            0s low #1 -> a
            0s bind low to a
            0s event low Scheduled: Successfully assigned default/low to a
            1s high #1 clears a
            1s evict low for high
            1s nominate high to a
            1s event high FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
            1s condition high Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
            300s high #2 -> a
            300s bind high to a
            300s event high Scheduled: Successfully assigned default/high to a
        "#]],
    );
}

#[test]
fn a_victim_has_its_time_to_terminate() {
    check(
        r#"
        0 node a {"allocatable": {"cpu": "2"}}
        0 grace 30
        0 pod low {"requests": {"cpu": "2"}, "priority": 1}
        1 pod high {"requests": {"cpu": "2"}, "priority": 5}
        100 wait
        "#,
        &expect![[r#"
            0s low #1 -> a
            0s bind low to a
            0s event low Scheduled: Successfully assigned default/low to a
            1s high #1 clears a
            1s evict low for high
            1s nominate high to a
            1s event high FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
            1s condition high Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
            31s high #2 -> a
            31s bind high to a
            31s event high Scheduled: Successfully assigned default/high to a
        "#]],
    );
}

#[test]
fn a_nomination_does_not_outlast_the_last_node() {
    check(
        r#"
        0 node a {"allocatable": {"cpu": "1"}}
        0 grace 30
        0 pod low {"requests": {"cpu": "1"}}
        1 pod medium {"priority": 100, "requests": {"cpu": "1"}}
        5 delete node a
        6 delete pod low
        60 wait
        "#,
        &expect![[r#"
            0s low #1 -> a
            0s bind low to a
            0s event low Scheduled: Successfully assigned default/low to a
            1s medium #1 clears a
            1s evict low for medium
            1s nominate medium to a
            1s event medium FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
            1s condition medium Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
            6s medium #2 !!
            6s nominate medium to nothing
            6s event medium FailedScheduling: no nodes available to schedule pods
            6s condition medium Unschedulable: no nodes available to schedule pods
        "#]],
    );
}

#[test]
fn a_pod_that_may_not_be_deleted_is_tried_again_ever_more_seldom() {
    check(
        r#"
        0 node a {"allocatable": {"cpu": "1"}}
        0 evict refused
        0 pod low {"requests": {"cpu": "1"}}
        1 pod medium {"priority": 100, "requests": {"cpu": "1"}}
        3600 wait
        "#,
        &expect![[r#"
            0s low #1 -> a
            0s bind low to a
            0s event low Scheduled: Successfully assigned default/low to a
            1s medium #1 clears a
            1s evict low for medium
            1s nominate medium to a
            1s event medium FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
            1s condition medium Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
            3s medium #2 !!
            3s nominate medium to nothing
            3s event medium FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
            3s condition medium Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
            3s medium #3 !!
            3s event medium FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
            3s condition medium Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
            3600s medium #4 clears a
            3600s evict low for medium
            3600s nominate medium to a
            3600s event medium FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
            3600s condition medium Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims
        "#]],
    );
}
