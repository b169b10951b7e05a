//! The order of the search, and what is undone.

use plimsoll_devices::{Allocated, DeviceIds};

use crate::scenario::{Scenario, check};

#[test]
fn the_first_devices_in_the_order_of_pools_slices_and_devices_are_taken() {
    check(
        r#"
        slice z-2 b.io/p 1/2 @n
          b-3
        slice z-1 b.io/p 1/2 @n
          b-2
          b-1
        slice a-1 c.io/a 1/1 @n
          c-1
        slice b-1 a.io/q 1/1 @n
          a-1 if:up
        class any
        claim c
          r any x5
        => n: c: r b.io/p/b-2, r b.io/p/b-1, r b.io/p/b-3, r c.io/a/c-1, r a.io/q/a-1 if:up @n
        => m: none
        "#,
    );
}

#[test]
fn a_device_in_use_is_skipped_and_each_device_is_taken_once() {
    check(
        r#"
        slice s a.io/p 1/1 @n
          a
          b
          c
        class any
        held a.io/p/a
        claim one
          r any
        claim two
          r any
        => n: one: r a.io/p/b @n; two: r a.io/p/c @n
        "#,
    );
    check(
        r#"
        slice s a.io/p 1/1 @n
          a
          b
        class any
        held a.io/p/a
        claim one
          r any
        claim two
          r any
        => n: none
        "#,
    );
}

#[test]
fn an_earlier_choice_is_changed_if_a_later_request_needs_the_device() {
    check(
        r#"
        slice s a.io/p 1/1 @n
          a model=big
          b model=small
        class any
        claim c
          first any
          second any [device.attributes["a.io"].model == "big"]
        => n: c: first a.io/p/b, second a.io/p/a @n
        "#,
    );
}

#[test]
fn the_first_alternative_that_leads_to_a_solution_is_taken() {
    check(
        r#"
        slice s a.io/p 1/1 @n
          a model=big
          b model=small
          c model=small
        class big [device.attributes["a.io"].model == "big"]
        class small [device.attributes["a.io"].model == "small"]
        claim c
          r | two big x2 | one big | other small
          s small
        => n: c: r/one a.io/p/a, s a.io/p/b @n
        "#,
    );
    check(
        r#"
        slice s a.io/p 1/1 @n
          a
        class any
        claim c
          r | two any x2 | three any x3
        => n: none
        "#,
    );
}

#[test]
fn an_alternative_with_fewer_devices_is_taken_if_the_claim_would_have_too_many() {
    let devices: String = (0..40).map(|at| format!("          d-{at:02}\n")).collect();
    let all: Vec<String> = (0..31).map(|at| format!("r a.io/p/d-{at:02}")).collect();
    check(&format!(
        r#"
        slice s a.io/p 1/1 @n
{devices}
        class any
        claim c
          r any x31
          s | two any x2 | one any
        => n: c: {}, s/one a.io/p/d-31 @n
        "#,
        all.join(", ")
    ));
    check(&format!(
        r#"
        slice s a.io/p 1/1 @n
{devices}
        class any
        claim c
          r any x31
          s | two any x2 | three any x3
        => n: claim default/c: number of requested devices 33 exceeds the claim limit of 32
        "#
    ));
    // Twice an alternative of 20 is too many, but one of 20 and one of 2 is not.
    let first: Vec<String> = (0..20).map(|at| format!("r/l a.io/p/d-{at:02}")).collect();
    check(&format!(
        r#"
        slice s a.io/p 1/1 @n
{devices}
        class any
        claim c
          r | l any x20 | s any x2
          t | l any x20 | s any x2
        => n: c: {}, t/s a.io/p/d-20, t/s a.io/p/d-21 @n
        "#,
        first.join(", ")
    ));
}

#[test]
fn a_request_for_all_fails_if_one_of_them_is_in_use_or_tainted() {
    let text = |more: &str, expected: &str| {
        format!(
            r#"
        slice s a.io/p 1/1 @n
          a model=x
          b model=x {more}
          c model=y
        class x [device.attributes["a.io"].model == "x"]
        held a.io/p/c
        claim c
          r x all
        => n: {expected}
        "#
        )
    };
    check(&text("", "c: r a.io/p/a, r a.io/p/b @n"));
    check(&text("!hot:NoSchedule", "none"));
    check(&(text("", "none").replace("held a.io/p/c", "held a.io/p/a")));
    check(&text("", "none").replace("\"x\"]", "\"none\"]"));
}

#[test]
fn admin_access_gets_devices_in_use_and_leaves_them_available() {
    check(
        r#"
        slice s a.io/p 1/1 @n
          a
          b
        class any
        held a.io/p/a
        held a.io/p/b admin
        claim watch
          r any all admin
        => n: watch: r a.io/p/a admin, r a.io/p/b admin @n
        "#,
    );
    // In one pod an admin pick keeps other requests from the device, as upstream.
    check(
        r#"
        slice s a.io/p 1/1 @n
          a
          b
        class any
        claim watch
          r any admin
          s any admin
        claim use
          t any
        => n: none
        "#,
    );
}

#[test]
fn taints_keep_devices_from_requests_that_do_not_tolerate_them() {
    let text = |toleration: &str, expected: &str| {
        format!(
            r#"
        slice s a.io/p 1/1 @n
          a !hot=x:NoSchedule
          b !hot=x:NoExecute !old:None
          c !new:Unknown
        class any
        claim c
          r any {toleration}
        => n: c: r a.io/p/{expected} @n
        "#
        )
    };
    check(&text("", "c"));
    check(&text("~hot", "a"));
    check(&text("~hot=x:NoExecute", "b"));
    check(&text("~hot=y", "c"));
    check(
        &text("", "a")
            .replace("        class any", "        off DRADeviceTaints\n        class any"),
    );
}

#[test]
fn rules_taint_the_devices_that_they_name() {
    let text = |rule: &str, expected: &str| {
        format!(
            r#"
        slice s a.io/p 1/1 @n
          a
          b
        class any
        rule {rule} !hot:NoSchedule
        claim c
          r any
        => n: {expected}
        "#
        )
    };
    check(&text("a.io/p/a", "c: r a.io/p/b @n"));
    check(&text("*/*/b", "c: r a.io/p/a @n"));
    check(&text("*/*/*", "none"));
    check(&text("b.io/*/*", "c: r a.io/p/a @n"));
}

#[test]
fn all_devices_of_a_match_constraint_have_the_same_value() {
    let devices = r#"
        slice s a.io/p 1/1 @n
          a model=x numa=0
          b model=y numa=0
          c model=y numa=[1]
          d a.io/model=x
          e
        class any
    "#;
    for (constraint, expected) in [
        ("match a.io/model", "c: r a.io/p/a, r a.io/p/d @n"),
        ("match a.io/numa", "c: r a.io/p/a, r a.io/p/b @n"),
        ("match b.io/model", "none"),
        (
            "other any\n          match a.io/model other",
            "c: r a.io/p/a, r a.io/p/b, other a.io/p/c @n",
        ),
    ] {
        check(&format!(
            "{devices}    claim c\n          r any x2\n          {constraint}\n        => n: {expected}\n"
        ));
    }
}

#[test]
fn a_list_value_satisfies_a_match_constraint_only_for_one_device() {
    check(
        r#"
        slice s a.io/p 1/1 @n
          a m=[1]
          b m=[1]
        class any
        claim c
          r any
          match a.io/m
        => n: c: r a.io/p/a @n
        "#,
    );
    check(
        r#"
        slice s a.io/p 1/1 @n
          a m=[1]
          b m=[1]
        class any
        claim c
          r any x2
          match a.io/m
        => n: none
        "#,
    );
}

#[test]
fn a_distinct_constraint_compares_with_the_last_device_of_each_request() {
    let devices = r#"
        slice s a.io/p 1/1 @n
          a m=x
          b m=y
          c m=x
          d m=z
        class any
    "#;
    for (requests, expected) in [
        ("q any\n          r any\n          s any", "c: q a.io/p/a, r a.io/p/b, s a.io/p/d @n"),
        // One value is kept for each request: x, y, x passes.
        ("q any x3", "c: q a.io/p/a, q a.io/p/b, q a.io/p/c @n"),
        ("q any x2", "c: q a.io/p/a, q a.io/p/b @n"),
    ] {
        check(&format!(
            "{devices}    claim c\n          {requests}\n          distinct a.io/m\n        => n: {expected}\n"
        ));
    }
}

#[test]
fn a_constraint_names_requests_or_alternatives() {
    let text = |names: &str, expected: &str| {
        format!(
            r#"
        slice s a.io/p 1/1 @n
          a m=x
          b m=y
          c m=x
        class any
        claim c
          q any
          r | a any | b any
          match a.io/m {names}
        => n: c: q a.io/p/a, r/a a.io/p/{expected} @n
        "#
        )
    };
    check(&text("q r", "c"));
    check(&text("q r/a", "c"));
    check(&text("q r/b", "b"));
    check(&text("", "c"));
}

#[test]
fn a_request_for_all_that_violates_a_constraint_is_an_error() {
    check(
        r#"
        slice s a.io/p 1/1 @n
          a m=x
          b m=y
        class any
        claim c
          r | first any all | second any
          match a.io/m
        => n: claim default/c, request first: cannot add device a.io/p/b because a claim constraint would not be satisfied
        "#,
    );
}

#[test]
fn counters_of_a_refused_device_stay_taken() {
    // The tainted device keeps the memory that it was given before its taint was seen.
    check(
        r#"
        slice c a.io/p 1/2 @n +gpu.memory=40
        slice s a.io/p 1/2 @n
          half -gpu.memory=20 !hot:NoSchedule
          whole -gpu.memory=40
        class any
        claim c
          r any
        => n: none
        "#,
    );
    check(
        r#"
        slice c a.io/p 1/2 @n +gpu.memory=40
        slice s a.io/p 1/2 @n
          half -gpu.memory=20
          whole -gpu.memory=40
          other -gpu.memory=20
        class any
        claim c
          r any x2
        => n: c: r a.io/p/half, r a.io/p/other @n
        "#,
    );
}

#[test]
fn a_share_without_capacity_stays_when_it_is_given_back() {
    // Its counters stay taken, too. What is left over of the share counts as having paid them.
    check(
        r#"
        slice k a.io/p 1/2 @n +gpu.memory=1
        slice s a.io/p 1/2 @n
          a shared root=x -gpu.memory=1
          b root=y
        class any
        claim c
          r any
          s any [device.attributes["a.io"].root == "x"]
          distinct a.io/root r s
        => n: c: r a.io/p/b, s a.io/p/a share{} @n
        "#,
    );
}

#[test]
fn a_selector_that_fails_is_an_error_unless_a_device_is_found_before() {
    let text = |class: &str, selector: &str, expected: &str| {
        format!(
            r#"
        slice s a.io/p 1/1 @n
          a model=x
          b
        class any {class}
        claim c
          r any {selector}
        => n: {expected}
        "#
        )
    };
    let model = |value| format!(r#"[device.attributes["a.io"].model == "{value}"]"#);
    check(&text("", &model("x"), "c: r a.io/p/a @n"));
    check(&text(
        "",
        &format!("[true] {}", model("y")),
        "claim default/c: selector #1: CEL runtime error: no such key: model",
    ));
    check(&text(&model("y"), "", "class any: selector #0: CEL runtime error: no such key: model"));
    check(&text("[false]", "[nonsense]", "none"));
    check(&text(
        "",
        "[nonsense]",
        "claim default/c: selector #0: CEL compile error: compilation failed: nonsense",
    ));
    let newer = text(
        "",
        &model("y"),
        "claim default/c: selector #0 on device a.io/p/b: CEL runtime error: no such key: model. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields",
    );
    check(&newer.replace("        class any", "        release 1.37\n        class any"));
}

/// As upstream: which devices are in use is a set.
#[test]
fn a_device_that_two_claims_held_is_free_when_one_of_them_has_gone() {
    let scenario = Scenario::parse("held a.io/p/a\nheld a.io/p/a");
    let mut ids = DeviceIds::default();
    let mut allocated = Allocated::new(scenario.features);
    for allocation in &scenario.held {
        allocated.add(&mut ids, allocation);
    }
    allocated.remove(&mut ids, &scenario.held[0]);
    let id = ids.get("a.io", "p", "a").expect("the other claim has it");
    assert!(!allocated.is_allocated(id));
}
