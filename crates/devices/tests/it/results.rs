//! What an allocation says besides its devices.

use crate::scenario::check;

#[test]
fn configurations_of_classes_come_before_those_of_the_claim() {
    let text = |release: &str, expected: &str| {
        format!(
            r#"
        {release}
        slice s a.io/p 1/1 @*
          a
          b
          c
        class one config:x config:y
        class two config:z
        claim c
          q one
          r | bad two [false] | good one
          s two
          config all.io
          config both.io q r/good
          config none.io r/bad
          config three.io q r s
        => n: c: q a.io/p/a, r/good a.io/p/b, s a.io/p/c {expected}
        "#
        )
    };
    check(&text(
        "off DRADeviceTaints",
        "FromClass:x(q,r/good) FromClass:y(q,r/good) FromClass:z(s) FromClaim:all.io() \
         FromClaim:both.io(q,r/good) FromClaim:both.io(q,r/good) FromClaim:three.io(q,r,s) \
         FromClaim:three.io(q,r,s) FromClaim:three.io(q,r,s)",
    ));
    check(&text(
        "release 1.37",
        "FromClass:x(q,r/good) FromClass:y(q,r/good) FromClass:z(s) FromClaim:all.io() \
         FromClaim:both.io(q,r/good) FromClaim:three.io()",
    ));
}

#[test]
fn the_node_selector_is_that_of_the_devices() {
    let text = |slices: &str, expected: &str| {
        format!(
            r#"
        node n zone=a rack=r
{slices}
        class any
        claim c
          r any all
        => n: c: {expected}
        "#
        )
    };
    let of = |nodes: [&str; 2], device: &str| {
        let [one, two] = nodes;
        format!(
            "        slice s a.io/p 1/1 {one}\n          a\n        slice t b.io/p 1/1 {two}\n          b {device}"
        )
    };
    let both = "r a.io/p/a, r b.io/p/b";
    check(&text(&of(["@*", "@*"], ""), both));
    check(&text(&of(["@*", "@n"], ""), &format!("{both} @n")));
    check(&text(&of(["@zone=a", "@n"], ""), &format!("{both} @n")));
    check(&text(&of(["@zone=a", "@*"], "binds"), &format!("{both} @n")));
    check(&text(&of(["@zone=a", "@rack=r"], ""), &format!("{both} @zone=a @rack=r")));
    // Equal requirements are not repeated, whatever the order of their values.
    check(&text(&of(["@zone=a|b", "@zone=b|a"], ""), &format!("{both} @zone=a|b")));
    check(&text(&of(["@zone=a|b", "@zone=a"], ""), &format!("{both} @zone=a|b @zone=a")));
}

#[test]
fn each_claim_has_a_node_selector_and_configurations_of_its_own() {
    check(
        r#"
        slice s a.io/p 1/1 @n
          a
        slice t b.io/p 1/1 @*
          b
        class any config:x
        claim one
          r any
        claim two
          r any
          config y
        => n: one: r a.io/p/a @n FromClass:x(r); two: r b.io/p/b FromClass:x(r) FromClaim:y()
        "#,
    );
}

#[test]
fn a_claim_without_requests_gets_an_empty_allocation() {
    check("class any\nclaim c\n=> n: c:");
}
