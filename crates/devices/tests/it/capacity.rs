//! Counters and consumable capacity.

use crate::scenario::check;

/// Checks what two claims get of a shared device with this capacity, each requesting this much.
#[track_caller]
fn shares(capacity: &str, requests: [&str; 2], expected: &str) {
    let [one, two] = requests.map(|request| match request {
        "" => String::new(),
        amount => format!("memory>={amount}"),
    });
    check(&format!(
        "slice s a.io/p 1/1 @*\n  a shared memory:{capacity}\nclass any\nclaim c\n  r any {one}\nclaim d\n  r any {two}\n=> n: {expected}"
    ));
}

#[test]
fn shares_of_a_device_use_its_capacity() {
    shares(
        "4Gi",
        ["1Gi", "3Gi"],
        "c: r a.io/p/a share{memory=1Gi}; d: r a.io/p/a share{memory=3Gi}",
    );
    shares("4Gi", ["2Gi", "3Gi"], "none");
    // Without a policy and a request the first share takes all.
    shares("4Gi", ["", "1Gi"], "none");
    shares(
        "4Gi{default=1Gi}",
        ["", "3Gi"],
        "c: r a.io/p/a share{memory=1Gi}; d: r a.io/p/a share{memory=3Gi}",
    );
}

#[test]
fn amounts_follow_the_policy_of_the_device() {
    let values = "8{default=1,values=1|2|4}";
    shares(values, ["", "3"], "c: r a.io/p/a share{memory=1}; d: r a.io/p/a share{memory=4}");
    shares(values, ["5", ""], "none");
    let range = "1000{default=100,min=100,max=500,step=100}";
    shares(range, ["1", "101"], "c: r a.io/p/a share{memory=100}; d: r a.io/p/a share{memory=200}");
    shares(range, ["500", "501"], "none");
    shares(
        range,
        ["500", "401"],
        "c: r a.io/p/a share{memory=500}; d: r a.io/p/a share{memory=500}",
    );
    // The rounded amount has no suffix for thousands.
    let large = "10G{default=1G,min=1G,step=1G}";
    shares(
        large,
        ["2500M", ""],
        "c: r a.io/p/a share{memory=3000000000}; d: r a.io/p/a share{memory=1G}",
    );
}

#[test]
fn ranges_have_fractions_since_1_37() {
    let text = |release: &str, expected: &str| {
        format!(
            r#"
        {release}
        slice s a.io/p 1/1 @*
          a shared cores:8{{default=500m,min=500m,step=500m}}
        class any
        claim c
          r any cores>=700m
        => n: {expected}
        "#
        )
    };
    check(&text("off DRAPrioritizedList", "c: r a.io/p/a share{cores=1}"));
    check(&text("release 1.37", "c: r a.io/p/a share{cores=1}"));
    let finer = |release: &str| {
        text(release, "c: r a.io/p/a share{cores=1200m}")
            .replace("700m", "1100m")
            .replace("step=500m", "step=700m")
    };
    check(&finer("release 1.37"));
}

#[test]
fn a_device_that_is_not_shared_must_have_the_capacity() {
    let text = |request: &str, expected: &str| {
        format!(
            r#"
        slice s a.io/p 1/1 @*
          small memory:1Gi
          large memory:8Gi cores:4
        class any
        claim c
          r any {request}
        => n: {expected}
        "#
        )
    };
    check(&text("memory>=1Gi", "c: r a.io/p/small"));
    check(&text("memory>=2Gi", "c: r a.io/p/large"));
    check(&text("memory>=9Gi", "none"));
    check(&text("cores>=1", "c: r a.io/p/large"));
    check(&text("disk>=1", "none"));
}

#[test]
fn what_claims_hold_of_a_shared_device_counts() {
    let text = |held: &str, expected: &str| {
        format!(
            r#"
        slice s a.io/p 1/1 @*
          a shared memory:4Gi
        class any
        {held}
        claim c
          r any memory>=2Gi
        => n: {expected}
        "#
        )
    };
    let taken = "c: r a.io/p/a share{memory=2Gi}";
    check(&text("held a.io/p/a share memory=2Gi", taken));
    check(&text("held a.io/p/a share memory=3Gi", "none"));
    check(&text("held a.io/p/a share memory=1Gi\n        held a.io/p/a share memory=2Gi", "none"));
    check(&text("held a.io/p/a share", taken));
    check(&text("held a.io/p/a admin", taken));
    check(&text("held a.io/p/a", "none"));
    // With the gate off nothing is shared.
    let off = text("held a.io/p/a share", "none").replace(" memory>=2Gi", "");
    check(&off.replace("        class", "        off DRAConsumableCapacity\n        class"));
    let off = text("release 1.37", "c: r a.io/p/a").replace(" memory>=2Gi", "");
    check(&off.replace("        release 1.37", "        off DRAConsumableCapacity"));
}

#[test]
fn one_request_does_not_take_two_shares_of_a_device() {
    check(
        r#"
        slice s a.io/p 1/1 @*
          a shared memory:4Gi
          b shared memory:4Gi
        class any
        claim c
          r any x2 memory>=1Gi
        => n: c: r a.io/p/a share{memory=1Gi}, r a.io/p/b share{memory=1Gi}
        "#,
    );
}

#[test]
fn allocated_devices_use_the_counters_of_their_pool() {
    let text = |held: &str, expected: &str| {
        format!(
            r#"
        slice k a.io/p 1/3 @n +gpu.memory=40
        slice s a.io/p 1/3 @n
          whole -gpu.memory=40
          half -gpu.memory=20
        slice t a.io/p 1/3 @m
          far -gpu.memory=20
        class any
        held {held}
        claim c
          r any
        => n: {expected}
        "#
        )
    };
    check(&text("a.io/p/other", "c: r a.io/p/whole @n"));
    check(&text("a.io/p/far", "c: r a.io/p/half @n"));
    check(&text("a.io/p/far admin", "c: r a.io/p/whole @n"));
    check(&text("a.io/p/far share", "c: r a.io/p/half @n"));
    check(&text("a.io/p/whole", "none"));
}

#[test]
fn one_counter_that_is_used_up_keeps_all_devices_that_consume_counters() {
    check(
        r#"
        slice k a.io/p 1/2 @n +one.memory=1 +two.memory=4
        slice s a.io/p 1/2 @n
          a -one.memory=2
          b -two.memory=1
          c
        class any
        held a.io/p/a
        claim c
          r any
        => n: c: r a.io/p/c @n
        "#,
    );
}

#[test]
fn pools_of_the_same_name_share_the_counters_of_the_first() {
    // Two drivers with a pool named p: the second has 4, but the first has 1.
    check(
        r#"
        slice k a.io/p 1/2 @n +gpu.memory=1
        slice s a.io/p 1/2 @n
          a -gpu.memory=1
        slice l b.io/p 1/2 @n +gpu.memory=4
        slice t b.io/p 1/2 @n
          b -gpu.memory=4
        class any
        claim c
          r any
          s any [device.driver == "b.io"]
        => n: none
        "#,
    );
}

#[test]
fn a_shared_device_pays_its_counters_once() {
    check(
        r#"
        slice k a.io/p 1/2 @n +gpu.memory=1
        slice s a.io/p 1/2 @n
          a shared queues:2 -gpu.memory=1
        class any
        claim c
          r any queues>=1
          s any queues>=1
        => n: c: r a.io/p/a share{queues=1}, s a.io/p/a share{queues=1} @n
        "#,
    );
}

#[test]
fn amounts_that_cannot_be_counted_are_errors_since_1_37() {
    let text = |policy: &str, requested: &str, expected: &str| {
        let request = if requested.is_empty() { "" } else { "memory>=" };
        format!(
            "release 1.37\nslice s a.io/p 1/1 @*\n  a shared memory:{policy}\n  b shared memory:9\nclass any\nclaim c\n  r any {request}{requested}\n=> n: {expected}"
        )
    };
    let large = "9{default=2,min=2,max=9E,step=2}";
    for (policy, requested, why) in [
        ("9{default=1,min=1,step=2}", "10E", "request 10E is not a representable milli value"),
        (large, "10E", "request 10E exceeds MaxInt64"),
        (
            large,
            "9223372036854775807",
            "rounding request 9223372036854775807 up to the next step passes MaxInt64",
        ),
        (
            "9{default=1,min=1,step=500m}",
            "9223372036854775800m",
            "rounding request 9223372036854775800m up to the next step passes the milli-value range",
        ),
    ] {
        check(&text(
            policy,
            requested,
            &format!(
                "capacity \"memory\": capacity request cannot be represented in the device's range arithmetic: {why}"
            ),
        ));
    }
    check(&text(large, "9223372036854775805", "none"));
    let negative = "capacity \"memory\": capacity value is negative";
    check(&text("9", "-1", negative));
    check(&text("-1", "", negative));
    // 1.36 takes both as they are.
    let before = |text: String| text.replace("release 1.37\n", "");
    check(&before(text("9", "-1", "c: r a.io/p/a share{memory=-1}")));
    check(&before(text("-1", "", "c: r a.io/p/a share{memory=-1}")));
}
