//! What 1.37 allocates and 1.36 does not, or the other way round.

use crate::scenario::check;

/// Checks what a claim gets in 1.36, and what since 1.37.
#[track_caller]
fn differs(text: &str, before: &str, since: &str) {
    // The lines have the indentation of the others.
    let indent = " ".repeat(8);
    check(&format!("{text}\n{indent}=> n: {before}"));
    check(&format!("\n{indent}release 1.37\n{text}\n{indent}=> n: {since}"));
}

#[test]
fn counters_of_a_refused_device_are_given_back() {
    differs(
        r#"
        slice k a.io/p 1/2 @n +gpu.memory=4
        slice s a.io/p 1/2 @n
          a -gpu.memory=3 !hot:NoSchedule
          b -gpu.memory=2
        class any
        claim c
          r any
        "#,
        "none",
        "c: r a.io/p/b @n",
    );
    differs(
        r#"
        slice k a.io/p 1/2 @n +gpu.memory=4
        slice s a.io/p 1/2 @n
          a -gpu.memory=1 model=x
          b -gpu.memory=3 model=y
          c -gpu.memory=3 model=x
        class any
        claim c
          r any x2
          match a.io/model
        "#,
        "none",
        "c: r a.io/p/a, r a.io/p/c @n",
    );
}

#[test]
fn counters_of_a_shared_device_are_given_back_on_backtracking() {
    differs(
        r#"
        slice k a.io/p 1/2 @n +gpu.memory=2
        slice s a.io/p 1/2 @n
          a shared queues:1 -gpu.memory=2 model=y
          b -gpu.memory=2 model=x
          c model=y
        class any
        claim c
          r any
          s any [device.attributes["a.io"].model == "x"]
        "#,
        "none",
        "c: r a.io/p/c, s a.io/p/b @n",
    );
}

#[test]
fn pools_of_one_name_have_counters_of_their_own() {
    differs(
        r#"
        slice k a.io/p 1/2 @n +gpu.memory=1
        slice s a.io/p 1/2 @n
          a -gpu.memory=2
        slice l b.io/p 1/2 @n +gpu.memory=2
        slice t b.io/p 1/2 @n
          b -gpu.memory=2
        class any
        claim c
          r any
        "#,
        "none",
        "c: r b.io/p/b @n",
    );
}

#[test]
fn a_distinct_attribute_is_distinct_among_the_devices_of_one_request() {
    differs(
        r#"
        slice s a.io/p 1/1 @n
          a model=x
          b model=y
          c model=x
        class any
        claim c
          r any x3
          distinct a.io/model
        "#,
        "c: r a.io/p/a, r a.io/p/b, r a.io/p/c @n",
        "none",
    );
}

#[test]
fn all_devices_are_not_those_alone_that_have_room() {
    differs(
        r#"
        slice s a.io/p 1/1 @n
          a shared memory:1
          b shared memory:1
        class any
        held a.io/p/a share memory=1
        claim c
          r any all memory>=1
        "#,
        "c: r a.io/p/b share{memory=1} @n",
        "none",
    );
}

#[test]
fn a_share_without_capacity_has_paid_the_counters() {
    differs(
        r#"
        slice k a.io/p 1/2 @n +gpu.memory=1
        slice s a.io/p 1/2 @n
          a shared -gpu.memory=1
        class any
        held a.io/p/a share
        claim c
          r any
        "#,
        "none",
        "c: r a.io/p/a share{} @n",
    );
}

#[test]
fn a_constraint_forgets_a_device_that_turns_out_to_have_no_room() {
    differs(
        r#"
        slice s a.io/p 1/1 @n
          a shared memory:1 root=x
          b root=y
        class any
        claim c
          q any [device.attributes["a.io"].root == "x"]
          r | s any all [device.attributes["a.io"].root == "x"] | t any [device.attributes["a.io"].root == "y"]
          match a.io/root r
        "#,
        "none",
        "c: q a.io/p/a share{memory=1}, r/t a.io/p/b @n",
    );
}
