//! Verdicts of VolumeBinding on pods with claims.

use plimsoll_testkit::{check, expect, laws};

use super::entry;
use crate::pod_claims::tests::pod_naming as pod;

/// Nodes and classes that most tests share. Filters are the same in every release; this one does not
/// score unless the gate is on.
const CLASSES: &str = r#"
    release 1.36
    node a zone=z1
    node b zone=z2
    sc now {"provisioner": "csi.a", "volumeBindingMode": "Immediate"}
    sc local {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    sc made {"provisioner": "csi.a", "volumeBindingMode": "WaitForFirstConsumer"}
"#;

/// A claim for some GiB of a class; `more` has additional fields and begins with a comma.
fn claim(name: &str, class: &str, size: u32, more: &str) -> String {
    format!(
        r#"
        pvc {name} {{"storageClassName": "{class}", "accessModes": ["ReadWriteOnce"],
            "resources": {{"requests": {{"storage": "{size}Gi"}}}}{more}}}
        "#
    )
}

/// A volume of some GiB that only nodes in one zone reach; `more` fields begin with a comma.
fn volume(name: &str, class: &str, size: u32, zone: &str, more: &str) -> String {
    format!(
        r#"
        pv {name} {{"storageClassName": "{class}", "accessModes": ["ReadWriteOnce"],
            "capacity": {{"storage": "{size}Gi"}}, "local": {{"path": "/mnt"}},
            "nodeAffinity": {{"required": {{"nodeSelectorTerms": [
                {{"matchExpressions": [{{"key": "zone", "operator": "In", "values": ["{zone}"]}}]}}
            ]}}}}{more}}}
        "#
    )
}

/// A claim that is bound to a volume.
fn bound(name: &str, to: &str) -> String {
    let more = format!(
        r#", "volumeName": "{to}", "annotations": {{"pv.kubernetes.io/bind-completed": "yes"}},
            "status": {{"phase": "Bound"}}"#
    );
    claim(name, "now", 1, &more)
}

#[test]
fn a_pod_without_claims_may_run_everywhere() {
    check(
        entry(),
        "node a\npod p",
        &expect![[r#"
            p a Success
            p skips score
        "#]],
    );
}

#[test]
fn a_volume_that_is_bound_must_be_there_and_be_reached() {
    let zoned = volume("pv1", "now", 1, "z1", "");
    check(
        entry(),
        &[
            CLASSES,
            &zoned,
            "pv pv2\n",
            r#"pv pv3 {"nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["z1"]}]}
            ]}}}"#,
            &["pv1", "pv2", "pv3", "gone"].map(|to| bound(&format!("to-{to}"), to)).concat(),
            &pod("zoned", &["to-pv1"]),
            &pod("anywhere", &["to-pv2"]),
            &pod("broken", &["to-pv3"]),
            &pod("lost", &["to-gone"]),
            &pod("both", &["to-pv1", "to-gone"]),
        ]
        .concat(),
        &expect![[r#"
            zoned a Success
            zoned b UnschedulableAndUnresolvable: node(s) didn't match PersistentVolume's node affinity
            zoned skips score
            anywhere a Success
            anywhere b Success
            anywhere skips score
            broken a UnschedulableAndUnresolvable: node(s) didn't match PersistentVolume's node affinity
            broken b UnschedulableAndUnresolvable: node(s) didn't match PersistentVolume's node affinity
            lost a UnschedulableAndUnresolvable: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)
            lost b UnschedulableAndUnresolvable: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)
            both a UnschedulableAndUnresolvable: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)
            both b UnschedulableAndUnresolvable: node(s) didn't match PersistentVolume's node affinity
        "#]],
    );
}

#[test]
fn a_claim_that_no_node_can_satisfy_rejects_the_pod_for_all() {
    let ephemeral = |name: &str| {
        format!(
            r#"
            pod {name} {{"volumes": [{{"name": "tmp", "ephemeral": {{"volumeClaimTemplate": {{}}}}}}]}}
            "#
        )
    };
    check(
        entry(),
        &[
            CLASSES,
            &claim("lost", "now", 1, r#", "volumeName": "gone", "status": {"phase": "Lost"}"#),
            &claim(
                "dying",
                "now",
                1,
                r#", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}"#,
            ),
            &claim("unbound", "now", 1, ""),
            &claim("classless", "", 1, ""),
            &claim("no-such-class", "nosuch", 1, ""),
            &claim("named", "made", 1, r#", "volumeName": "pv1""#),
            &claim("taken-tmp", "made", 1, r#", "owner": "default/other""#),
            &claim("own-tmp", "made", 1, r#", "owner": "default/own""#),
            &["missing", "lost", "dying", "unbound", "classless", "no-such-class", "named"]
                .map(|name| pod(name, &[name]))
                .concat(),
            &["early", "taken", "own"].map(ephemeral).concat(),
        ]
        .concat(),
        &expect![[r#"
            missing * UnschedulableAndUnresolvable: persistentvolumeclaim "missing" not found
            lost * UnschedulableAndUnresolvable: persistentvolumeclaim "lost" bound to non-existent persistentvolume "gone"
            dying * UnschedulableAndUnresolvable: persistentvolumeclaim "dying" is being deleted
            unbound * UnschedulableAndUnresolvable: pod has unbound immediate PersistentVolumeClaims
            classless * UnschedulableAndUnresolvable: pod has unbound immediate PersistentVolumeClaims
            no-such-class * UnschedulableAndUnresolvable: pod has unbound immediate PersistentVolumeClaims
            named * UnschedulableAndUnresolvable: pod has unbound immediate PersistentVolumeClaims
            early * UnschedulableAndUnresolvable: waiting for ephemeral volume controller to create the persistentvolumeclaim "early-tmp"
            taken * UnschedulableAndUnresolvable: PVC default/taken-tmp was not created for pod default/taken (pod is not owner)
            own a Success
            own b Success
            own skips score
        "#]],
    );
}

#[test]
fn what_is_wrong_with_bound_and_unbound_claims_is_told_at_once() {
    check(
        entry(),
        &[
            CLASSES,
            &volume("pv1", "now", 1, "z1", ""),
            &bound("here", "pv1"),
            &bound("gone", "nosuch"),
            &claim("data", "local", 1, ""),
            &pod("p", &["here", "data"]),
            &pod("q", &["gone", "data"]),
        ]
        .concat(),
        &expect![[r#"
            p a UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            p b UnschedulableAndUnresolvable: node(s) didn't match PersistentVolume's node affinity, node(s) didn't find available persistent volumes to bind
            q a UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind, node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)
            q b UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind, node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)
        "#]],
    );
}

#[test]
fn a_volume_is_found_by_size_class_mode_access_selector_and_state() {
    let available = |name: &str, more| volume(name, "local", 5, "z1", more);
    check(
        entry(),
        &[
            CLASSES,
            &available("small", "").replace("5Gi", "1Gi"),
            &available("block", r#", "volumeMode": "Block""#),
            &available("shared", r#", "accessModes": ["ReadWriteMany"]"#),
            &available("released", r#", "status": {"phase": "Released"}"#),
            &available("dying", r#", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}"#),
            &available("gold", r#", "volumeAttributesClassName": "gold""#),
            &available("taken", r#", "claimRef": {"namespace": "default", "name": "other"}"#),
            &volume("other-class", "made", 5, "z1", ""),
            &claim("two", "local", 2, ""),
            &claim("one", "local", 1, ""),
            &claim("raw", "local", 2, r#", "volumeMode": "Block""#),
            &claim("many", "local", 2, r#", "accessModes": ["ReadWriteMany"]"#),
            &claim("fine", "local", 2, r#", "volumeAttributesClassName": "gold""#),
            &claim("picky", "local", 1, r#", "selector": {"matchLabels": {"disk": "ssd"}}"#),
            &["two", "one", "raw", "many", "fine", "picky"].map(|name| pod(name, &[name])).concat(),
        ]
        .concat(),
        &expect![[r#"
            two a UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            two b UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            one a Success
            one b UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            one skips score
            raw a Success
            raw b UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            raw skips score
            many a Success
            many b UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            many skips score
            fine a Success
            fine b UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            fine skips score
            picky a UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            picky b UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
        "#]],
    );
}

#[test]
fn two_claims_of_a_pod_do_not_share_a_volume() {
    check(
        entry(),
        &[
            CLASSES,
            &volume("a5", "local", 5, "z1", ""),
            &volume("a9", "local", 9, "z1", ""),
            &volume("b9", "local", 9, "z2", ""),
            &claim("large", "local", 8, ""),
            &claim("small", "local", 2, ""),
            &pod("both", &["large", "small"]),
            &pod("large", &["large"]),
        ]
        .concat(),
        &expect![[r#"
            both a Success
            both b UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            both skips score
            large a Success
            large b Success
            large skips score
        "#]],
    );
}

#[test]
fn a_volume_that_is_reserved_for_the_claim_is_the_only_one_that_will_do() {
    let reserved = r#", "claimRef": {"namespace": "default", "name": "data"}"#;
    check(
        entry(),
        &[
            CLASSES,
            &volume("free", "local", 5, "z1", ""),
            &volume("reserved", "local", 9, "z2", &format!("{reserved}, \"status\": null")),
            &claim("data", "local", 1, ""),
            &pod("p", &["data"]),
        ]
        .concat(),
        &expect![[r#"
            p a UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            p b Success
            p skips score
        "#]],
    );
}

#[test]
fn a_volume_is_provisioned_where_the_class_can_and_the_claim_has_not_chosen_otherwise() {
    let topologies = r#""allowedTopologies": [
        {"matchLabelExpressions": [{"key": "zone", "values": ["z2"]}]}
    ]"#;
    let chosen = r#", "annotations": {"volume.kubernetes.io/selected-node": "a"}"#;
    check(
        entry(),
        &[
            CLASSES,
            &format!(
                r#"sc zoned {{"provisioner": "csi.a",
                "volumeBindingMode": "WaitForFirstConsumer", {topologies}}}"#
            ),
            &claim("anywhere", "made", 1, ""),
            &claim("zoned", "zoned", 1, ""),
            &claim("chosen", "made", 1, chosen),
            &["anywhere", "zoned", "chosen"].map(|name| pod(name, &[name])).concat(),
            &pod("torn", &["zoned", "chosen"]),
        ]
        .concat(),
        &expect![[r#"
            anywhere a Success
            anywhere b Success
            anywhere skips score
            zoned a UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            zoned b Success
            zoned skips score
            chosen a Success
            chosen b UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            chosen skips score
            torn a UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            torn b UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
        "#]],
    );
}

#[test]
fn a_driver_that_counts_what_is_left_must_have_enough_of_it() {
    check(
        entry(),
        &[
            CLASSES,
            "node c zone=z3",
            r#"
            csidriver csi.a {"storageCapacity": true}
            csicapacity z1 zone=z1 {"storageClassName": "made", "capacity": "100Gi"}
            csicapacity z2 zone=z2 {"storageClassName": "made", "capacity": "100Gi", "maximumVolumeSize": "5Gi"}
            csicapacity z3 zone=z3 {"storageClassName": "other", "capacity": "100Gi"}
            csicapacity nowhere {"storageClassName": "made", "capacity": "100Gi"}
            "#,
            &claim("data", "made", 10, ""),
            &pod("p", &["data"]),
        ]
        .concat(),
        &expect![[r#"
            p a Success
            p b UnschedulableAndUnresolvable: node(s) did not have enough free storage
            p c UnschedulableAndUnresolvable: node(s) did not have enough free storage
            p skips score
        "#]],
    );
}

#[test]
fn a_volume_of_an_in_tree_plugin_is_reached_by_the_drivers_zone_where_it_is_migrated() {
    let disk = r#""awsElasticBlockStore": {"volumeID": "vol-1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}
        ]}]}}"#;
    let migrated = r#"{"annotations": {
        "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"
    }}"#;
    check(
        entry(),
        &[
            "node old topology.kubernetes.io/zone=z1\n",
            "node new topology.kubernetes.io/zone=z1 topology.ebs.csi.aws.com/zone=z1\n",
            "node bare topology.kubernetes.io/zone=z1\n",
            &["new", "bare"].map(|node| format!("csinode {node} {migrated}\n")).concat(),
            &format!("pv disk {{{disk}}}\n"),
            &format!("pv odd {{{}}}\n", disk.replace("vol-1", "aws://z1/disk")),
            &bound("data", "disk"),
            &bound("odd", "odd"),
            &pod("p", &["data"]),
            &pod("q", &["odd"]),
        ]
        .concat(),
        &expect![[r#"
            p old Success
            p new Success
            p bare UnschedulableAndUnresolvable: node(s) didn't match PersistentVolume's node affinity
            p skips score
            q old Success
            q new Error: could not translate pv: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z1/disk)
            q bare Error: could not translate pv: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z1/disk)
            q skips score
        "#]],
    );
}

#[test]
fn with_its_gate_nodes_are_scored_by_the_share_of_their_storage_that_is_taken() {
    check(
        entry(),
        &[
            "gate StorageCapacityScoring=true\n",
            CLASSES,
            "csidriver csi.a {\"storageCapacity\": true}\n",
            r#"
            csicapacity z1 zone=z1 {"storageClassName": "made", "capacity": "100Gi"}
            csicapacity z2 zone=z2 {"storageClassName": "made", "capacity": "40Gi"}
            "#,
            &volume("a10", "local", 10, "z1", ""),
            &volume("b20", "local", 20, "z2", ""),
            &claim("data", "local", 5, ""),
            &claim("new", "made", 10, ""),
            &claim("newer", "made", 10, ""),
            "pod none",
            &pod("found", &["data"]),
            &pod("made", &["new", "newer"]),
            &pod("mixed", &["data", "new"]),
        ]
        .concat(),
        &expect![[r#"
            none a Success
            none b Success
            none skips score
            found a Success
            found b Success
            found a score 50
            found b score 75
            made a Success
            made b Success
            made a score 80
            made b score 50
            mixed a Success
            mixed b Success
            mixed a score 50
            mixed b score 75
        "#]],
    );
}

#[test]
fn storage_whose_size_is_not_known_is_not_scored() {
    check(
        entry(),
        &[
            "gate StorageCapacityScoring=true\n",
            CLASSES,
            &claim("new", "made", 10, ""),
            &pod("made", &["new"]),
        ]
        .concat(),
        &expect![[r#"
            made a Success
            made b Success
            made skips score
        "#]],
    );
}

#[test]
fn the_shape_is_taken_from_the_args_and_classes_count_alike() {
    check(
        entry(),
        &[
            "gate StorageCapacityScoring=true\n",
            r#"args {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}"#,
            CLASSES,
            "sc slow {\"provisioner\": \"kubernetes.io/no-provisioner\", \"volumeBindingMode\": \"WaitForFirstConsumer\"}",
            &volume("a10", "local", 10, "z1", ""),
            &volume("a100", "slow", 100, "z1", ""),
            &claim("data", "local", 5, ""),
            &claim("more", "slow", 1, ""),
            &pod("p", &["data", "more"]),
        ]
        .concat(),
        &expect![[r#"
            p a Success
            p b UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind
            p a score 26
        "#]],
    );
}

#[test]
fn it_holds_to_the_laws_of_the_framework() {
    let scenario = [
        CLASSES,
        &volume("a5", "local", 5, "z1", ""),
        &volume("b9", "local", 9, "z2", ""),
        &bound("here", "a5"),
        &claim("data", "local", 8, ""),
        &claim("new", "made", 1, ""),
        &pod("p", &["data", "new"]),
        &pod("q", &["here"]),
    ];
    laws(&entry(), [scenario.concat()]);
}
