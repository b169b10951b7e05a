mod group_claims;
mod hints;
mod upstream;

use plimsoll_testkit::{check, expect, laws};

use super::*;

/// Two nodes, of which `a` has two GPUs and `b` one, and a class for them.
const GPUS: &str = r#"
    node a zone=z1
    node b zone=z2
    deviceclass gpu {"selectors": [{"cel": {"expression": "device.driver == 'gpu.io'"}}]}
    slice on-a {"driver": "gpu.io", "nodeName": "a", "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "g0", "attributes": {"model": {"string": "T4"}}},
                    {"name": "g1", "attributes": {"model": {"string": "A100"}}}]}
    slice on-b {"driver": "gpu.io", "nodeName": "b", "pool": {"name": "b", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "g0", "attributes": {"model": {"string": "A100"}}}]}
"#;

#[test]
fn nodes_without_enough_devices_are_rejected() {
    check(
        entry(),
        &format!(
            r#"{GPUS}
            claim one {{"devices": {{"requests": [{{"name": "r", "exactly": {{"deviceClassName": "gpu"}}}}]}}}}
            claim two {{"devices": {{"requests": [{{"name": "r", "exactly": {{"deviceClassName": "gpu", "count": 2}}}}]}}}}
            claim t4 {{"devices": {{"requests": [{{"name": "r", "exactly": {{"deviceClassName": "gpu",
                "selectors": [{{"cel": {{"expression": "device.attributes['gpu.io'].model == 'T4'"}}}}]}}}}]}}}}
            pod needs-one {{"resourceClaims": [{{"name": "c", "resourceClaimName": "one"}}]}}
            pod needs-two {{"resourceClaims": [{{"name": "c", "resourceClaimName": "two"}}]}}
            pod needs-t4 {{"resourceClaims": [{{"name": "c", "resourceClaimName": "t4"}}]}}
            pod needs-both {{"resourceClaims": [{{"name": "c", "resourceClaimName": "one"}},
                {{"name": "d", "resourceClaimName": "two"}}]}}
            "#
        ),
        &expect![[r#"
            needs-one gate open
            needs-one a Success
            needs-one b Success
            needs-one a score 0
            needs-one b score 0
            needs-two gate open
            needs-two a Success
            needs-two b UnschedulableAndUnresolvable: cannot allocate all claims
            needs-two a score 0
            needs-t4 gate open
            needs-t4 a Success
            needs-t4 b UnschedulableAndUnresolvable: cannot allocate all claims
            needs-t4 a score 0
            needs-both gate open
            needs-both a UnschedulableAndUnresolvable: cannot allocate all claims
            needs-both b UnschedulableAndUnresolvable: cannot allocate all claims
            needs-both is unschedulable: still not schedulable
        "#]],
    );
}

#[test]
fn a_pod_whose_claims_cannot_be_used_is_kept_out_of_the_queue_and_rejected() {
    check(
        entry(),
        &format!(
            r#"{GPUS}
            claim going {{"metadata": {{"deletionTimestamp": "2026-01-01T00:00:00Z"}}}}
            pod p {{"resourceClaims": [{{"name": "c", "resourceClaimName": "missing"}}]}}
            pod q {{"resourceClaims": [{{"name": "c", "resourceClaimName": "going"}}]}}
            pod r {{"resourceClaims": [{{"name": "c", "resourceClaimTemplateName": "t"}}]}}
            pod s {{"resourceClaims": [{{"name": "c", "resourceClaimTemplateName": "t"}}],
                "status": {{"resourceClaimStatuses": [{{"name": "c"}}]}}}}
            "#
        ),
        &expect![[r#"
            p gate closed: could not find ResourceClaim "default/missing"
            p * UnschedulableAndUnresolvable: could not find ResourceClaim "default/missing"
            p is unschedulable: no new claims to deallocate
            q gate closed: resourceclaim "going" is being deleted
            q * UnschedulableAndUnresolvable: resourceclaim "going" is being deleted
            q is unschedulable: no new claims to deallocate
            r gate closed: pod "default/r": ResourceClaim not created yet
            r * UnschedulableAndUnresolvable: pod "default/r": ResourceClaim not created yet
            r is unschedulable: no new claims to deallocate
            s gate open
            s a Success
            s b Success
            s a score 0
            s b score 0
        "#]],
    );
}

#[test]
fn a_claim_with_devices_elsewhere_is_deallocated_if_nobody_uses_it() {
    let claim = |reserved: &str| {
        format!(
            r#"{GPUS}
            claim far {{"devices": {{"requests": [{{"name": "r", "exactly": {{"deviceClassName": "gpu"}}}}]}},
                "status": {{"reservedFor": {reserved}, "allocation": {{
                    "devices": {{"results": [{{"request": "r", "driver": "gpu.io", "pool": "c", "device": "g"}}]}},
                    "nodeSelector": {{"nodeSelectorTerms": [
                        {{"matchFields": [{{"key": "metadata.name", "operator": "In", "values": ["c"]}}]}}]}}}}}}}}
            pod p {{"resourceClaims": [{{"name": "c", "resourceClaimName": "far"}}]}}
            "#
        )
    };
    check(
        entry(),
        &claim("[]"),
        &expect![[r#"
            p gate open
            p a UnschedulableAndUnresolvable: resourceclaim not available on the node
            p b UnschedulableAndUnresolvable: resourceclaim not available on the node
            p is unschedulable: deallocation of ResourceClaim completed
        "#]],
    );
    check(
        entry(),
        &claim(r#"[{"resource": "pods", "name": "other", "uid": "x"}]"#),
        &expect![[r#"
            p gate open
            p a UnschedulableAndUnresolvable: resourceclaim not available on the node
            p b UnschedulableAndUnresolvable: resourceclaim not available on the node
            p is unschedulable: still not schedulable
        "#]],
    );
}

#[test]
fn the_first_device_that_is_not_ready_decides_about_a_claim_with_conditions() {
    let claim = |failed: &str| {
        format!(
            r#"{GPUS}
            claim both {{"devices": {{"requests": [{{"name": "r", "exactly": {{"deviceClassName": "gpu", "count": 2}}}}]}},
                "status": {{"allocation": {{"devices": {{"results": [
                    {{"request": "r", "driver": "gpu.io", "pool": "a", "device": "g0",
                        "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}},
                    {{"request": "r", "driver": "gpu.io", "pool": "a", "device": "g1",
                        "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}}]}},
                    "nodeSelector": {{"nodeSelectorTerms": [
                        {{"matchFields": [{{"key": "metadata.name", "operator": "In", "values": ["a"]}}]}}]}}}},
                    "devices": [{{"driver": "gpu.io", "pool": "a", "device": "{failed}",
                        "conditions": [{{"type": "broken", "status": "True", "reason": "R", "message": "m"}}]}}]}}}}
            pod p {{"resourceClaims": [{{"name": "c", "resourceClaimName": "both"}}]}}
            "#
        )
    };
    // The other one has not reported anything.
    check(
        entry(),
        &claim("g0"),
        &expect![[r#"
        p gate open
        p a UnschedulableAndUnresolvable: resourceclaim not available on the node
        p b UnschedulableAndUnresolvable: resourceclaim not available on the node
        p is unschedulable: deallocation of ResourceClaim completed
    "#]],
    );
    check(
        entry(),
        &claim("g1"),
        &expect![[r#"
        p gate open
        p a Success
        p b UnschedulableAndUnresolvable: resourceclaim not available on the node
        p a score 0
    "#]],
    );
}

#[test]
fn devices_stand_for_resources_that_a_node_does_not_offer() {
    check(
        entry(),
        r#"
        node own {"allocatable": {"gpu.io/gpu": "1"}}
        node with
        node without
        deviceclass gpu {"extendedResourceName": "gpu.io/gpu"}
        slice on-with {"driver": "gpu.io", "nodeName": "with", "devices": [{"name": "g0"}],
            "pool": {"name": "with", "generation": 1, "resourceSliceCount": 1}}
        pod p {"requests": {"gpu.io/gpu": "1"}}
        pod q {"requests": {"gpu.io/gpu": "1", "other.io/thing": "1"}}
        "#,
        &expect![[r#"
            p gate open
            p own Success
            p with Success
            p without UnschedulableAndUnresolvable: cannot allocate all claims
            p own score 0
            p with score 0
            q gate open
            q own UnschedulableAndUnresolvable: cannot fit resource
            q with UnschedulableAndUnresolvable: cannot fit resource
            q without UnschedulableAndUnresolvable: cannot fit resource
            q is unschedulable: still not schedulable
        "#]],
    );
}

#[test]
fn a_selector_that_fails_for_one_device_is_an_error() {
    check(
        entry(),
        &format!(
            r#"{GPUS}
            claim wrong {{"devices": {{"requests": [{{"name": "r", "exactly": {{"deviceClassName": "gpu",
                "selectors": [{{"cel": {{"expression": "device.attributes['gpu.io'].cores > 3"}}}}]}}}}]}}}}
            pod p {{"resourceClaims": [{{"name": "c", "resourceClaimName": "wrong"}}]}}
            "#
        ),
        &expect![[r#"
            p gate open
            p a Error: claim default/wrong: selector #0 on device gpu.io/a/g0: CEL runtime error: no such key: cores. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields
            p b Error: claim default/wrong: selector #0 on device gpu.io/b/g0: CEL runtime error: no such key: cores. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields
            p is unschedulable: still not schedulable
        "#]],
    );
}

#[test]
fn scores_of_alternatives_are_those_of_the_rule_and_no_higher_than_their_bound() {
    let ask = |name: &str, class: &str, model: &str| {
        format!(
            r#"{{"name": "{name}", "deviceClassName": "{class}",
                "selectors": [{{"cel": {{"expression": "device.attributes['gpu.io'].model == '{model}'"}}}}]}}"#
        )
    };
    let request = |name: &str, alternatives: &[String]| {
        format!(r#"{{"name": "{name}", "firstAvailable": [{}]}}"#, alternatives.join(", "))
    };
    let claim = |name: &str, requests: &[String]| {
        format!(r#"claim {name} {{"devices": {{"requests": [{}]}}}}"#, requests.join(", "))
    };
    let either = request("r", &[ask("s", "gpu", "T4"), ask("t", "gpu", "A100")]);
    let other = request("q", &[ask("s", "gpu", "A100"), ask("t", "gpu", "T4")]);
    let third = [ask("s", "none", "T4"), ask("t", "gpu", "H100"), ask("u", "gpu", "A100")];
    let scenario = [
        GPUS.to_owned(),
        r#"deviceclass none {"selectors": [{"cel": {"expression": "device.driver == 'nic.io'"}}]}"#
            .to_owned(),
        claim("one", std::slice::from_ref(&either)),
        claim("two", &[either, other]),
        claim("late", &[request("r", &third)]),
        r#"pod p {"resourceClaims": [{"name": "c", "resourceClaimName": "one"}]}"#.to_owned(),
        r#"pod q {"resourceClaims": [{"name": "c", "resourceClaimName": "two"}]}"#.to_owned(),
        r#"pod r {"resourceClaims": [{"name": "c", "resourceClaimName": "late"},
            {"name": "d", "resourceClaimName": "one"}]}"#
            .to_owned(),
    ];
    laws(&entry(), [scenario.join("\n")]);
}

#[test]
fn claims_with_devices_count_only_if_devices_are_looked_for() {
    let either = r#"{"devices": {"requests": [{"name": "r", "firstAvailable": [
            {"name": "s", "deviceClassName": "gpu"}, {"name": "t", "deviceClassName": "gpu"}]}]}"#;
    let has = |device: &str| {
        format!(
            r#"{either}, "status": {{"allocation": {{"devices": {{"results": [
                {{"request": "r/s", "driver": "gpu.io", "pool": "a", "device": "{device}"}}]}}}}}}}}"#
        )
    };
    check(
        entry(),
        &format!(
            r#"{GPUS}
            claim has {}
            claim wants {{"devices": {{"requests": [{{"name": "r", "exactly": {{"deviceClassName": "gpu"}}}}]}}}}
            pod p {{"resourceClaims": [{{"name": "c", "resourceClaimName": "has"}}]}}
            pod q {{"resourceClaims": [{{"name": "c", "resourceClaimName": "has"}},
                {{"name": "d", "resourceClaimName": "wants"}}]}}
            "#,
            has("elsewhere")
        ),
        &expect![[r#"
            p gate open
            p a Success
            p b Success
            p a score 0
            p b score 0
            q gate open
            q a Success
            q b Success
            q a score 100
            q b score 100
        "#]],
    );
}

#[test]
fn the_args_of_kube_scheduler_are_taken() {
    let args = r#"{"filterTimeout": "10s", "bindingTimeout": "10m0s"}"#;
    let args = args.parse().expect("this is JSON");
    assert!(entry().make(Some(&args), &FeatureGates::default()).is_ok());
}
