//! Checks of claims before the search: each is an error of the node.

use crate::scenario::check;

/// Checks what a claim gets on a node with one device.
#[track_caller]
fn claim(more: &str, claim: &str, expected: &str) {
    check(&format!(
        "slice s a.io/p 1/1 @n\n  a memory:4Gi\nclass any\n{more}\nclaim c\n{claim}\n=> n: {expected}"
    ));
}

#[test]
fn a_claim_that_is_not_understood_is_an_error() {
    claim("", "  r any mode:Some", "claim default/c, request r: unsupported count mode Some");
    claim(
        "",
        "  r ?",
        "claim default/c, request r: missing device class name (unsupported request type?)",
    );
    claim(
        "",
        "  r -",
        "claim default/c, request r: missing device class name (unsupported request type?)",
    );
    claim(
        "",
        "  r any [true] []",
        "claim default/c, request r, selector #1: CEL expression empty (unsupported selector type?)",
    );
    claim(
        "",
        "  r | one any | two gone",
        r#"claim default/c, request two: could not retrieve device class gone: deviceclass.resource.k8s.io "gone" not found"#,
    );
    claim(
        "",
        "  r any\n  match a.io/x\n  constraint",
        "claim default/c, constraint #1: empty constraint (unsupported constraint type?)",
    );
}

#[test]
fn the_first_fault_in_the_order_of_claims_and_requests_is_reported() {
    claim(
        "",
        "  ok any\n  r any mode:Some\n  s gone\n  constraint",
        "claim default/c, request r: unsupported count mode Some",
    );
    claim(
        "",
        "  ok any\nclaim d\n  r any x33\n  s any mode:Some",
        "claim default/d, request s: unsupported count mode Some",
    );
}

#[test]
fn a_claim_has_at_most_32_devices() {
    claim(
        "",
        "  r any x30\n  s | a any x9 | b any x3",
        "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
    );
    claim("", "  r any x30\n  s | a any x9 | b any x2", "none");
    claim(
        "",
        "  r any\n  s any x32",
        "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
    );
}

#[test]
fn gates_that_are_off_forbid_alternatives_and_capacity() {
    claim(
        "off DRAPrioritizedList",
        "  r | a any",
        "claim default/c, request r: has subrequests, but the DRAPrioritizedList feature is disabled",
    );
    let off = "off DRAConsumableCapacity";
    let why = "has capacity requests, but the DRAConsumableCapacity feature is disabled";
    claim(off, "  r any memory>=1Gi", &format!("claim default/c, request r: {why}"));
    claim(off, "  r | a any | b any memory>=1Gi", &format!("claim default/c, subrequest b: {why}"));
}

#[test]
fn a_request_for_all_needs_all_pools_to_be_whole() {
    let text = |second: &str, expected: &str| {
        format!(
            r#"
        slice s a.io/p 1/1 @n
          a
        slice t b.io/q {second}
          b
        class a [device.driver == "a.io"]
        claim c
          r | all a all | one a
        => n: {expected}
        "#
        )
    };
    check(&text("1/1 @n", "c: r/all a.io/p/a @n"));
    check(&text(
        "1/2 @n",
        "claim default/c, request all: asks for all devices, but resource pool b.io/q is currently being updated",
    ));
    check(&text(
        "1/2 @n\n          b\n        slice u b.io/q 1/2 @n",
        "claim default/c, request all: asks for all devices, but resource pool b.io/q is currently invalid",
    ));
    check(&text("1/2 @other", "c: r/all a.io/p/a @n"));
}
