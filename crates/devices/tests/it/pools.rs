//! The pools of a node.

use std::collections::BTreeMap;

use plimsoll_api::{Labels, Str};
use plimsoll_devices::{
    Account, Allocated, Allocator, CycleMemory, DeviceIds, Features, Inventory, NodeRef, Refusal,
};

use crate::expressions::Expressions;
use crate::scenario::{Scenario, check};

#[test]
fn only_the_newest_generation_of_a_pool_counts() {
    check(
        r#"
        slice old a.io/p 1/1 @n
          a
        slice new a.io/p 2/1 @n
          b
        class any
        claim c
          r any
        => n: c: r a.io/p/b @n
        "#,
    );
    // The newer slices are for another node: the pool is being replaced.
    check(
        r#"
        slice old a.io/p 1/2 @n
          a
        slice new a.io/p 2/2 @m
          b
        class any
        claim c
          r any
        => n: none
        => m: none
        "#,
    );
}

#[test]
fn an_incomplete_pool_has_no_devices() {
    check(
        r#"
        slice s a.io/p 1/2 @n
          a
        class any
        claim c
          r any
        => n: none
        "#,
    );
    // Slices for other nodes count.
    check(
        r#"
        slice s a.io/p 1/2 @n
          a
        slice t a.io/p 1/2 @m
          b
        class any
        claim c
          r any
        => n: c: r a.io/p/a @n
        => m: c: r a.io/p/b @m
        => o: none
        "#,
    );
}

#[test]
fn an_invalid_pool_has_no_devices_and_is_reported_if_nothing_else_is_found() {
    let text = |pool: &str, expected: &str| {
        format!(
            r#"
{pool}
        slice t z.io/q 1/1 @n
          z
        class any
        claim c
          r any x2
        => n: {expected}
        "#
        )
    };
    let invalid = "invalid resource pools were encountered";
    check(&text("        slice s a.io/p 1/1 @n\n          a", "c: r a.io/p/a, r z.io/q/z @n"));
    let two =
        "        slice s a.io/p 1/2 @n\n          a\n        slice s2 a.io/p 1/2 @n\n          a";
    check(&text(two, invalid));
    // Counters that do not exist, or a set that exists twice.
    let counters = "        slice k a.io/p 1/2 @n +gpu.memory=4";
    let of =
        |device: &str| format!("{counters}\n        slice s a.io/p 1/2 @n\n          a {device}");
    check(&text(&of("-gpu.memory=1"), "c: r a.io/p/a, r z.io/q/z @n"));
    check(&text(&of("-gpu.cores=1"), invalid));
    check(&text(&of("-nic.memory=1"), invalid));
    let twice =
        "        slice k a.io/p 1/3 @n +gpu.memory=4\n        slice l a.io/p 1/3 @n +gpu.memory=4";
    check(&text(&format!("{twice}\n        slice s a.io/p 1/3 @n\n          a"), invalid));
}

#[test]
fn counters_make_a_broken_pool_matter_to_every_node() {
    check(
        r#"
        slice k a.io/p 1/1 @m +gpu.memory=4 +gpu.memory=4
        slice l a.io/q 1/2 @m +gpu.memory=4
        class any
        claim c
          r any all
        => n: claim default/c, request r: asks for all devices, but resource pool a.io/q is currently being updated
        "#,
    );
    check(
        r#"
        slice k a.io/p 1/2 @m +gpu.memory=4
        slice l a.io/p 1/2 @m +gpu.memory=4
        class any
        claim c
          r any
        => n: invalid resource pools were encountered
        "#,
    );
}

#[test]
fn devices_are_reached_from_the_nodes_that_slices_or_devices_select() {
    check(
        r#"
        node n zone=a
        node m zone=b
        slice s a.io/p 1/1 @zone=a
          a
        slice t b.io/p 1/1 @devices
          b @m
          c @zone=a|c
        class any
        claim c
          r any
          s any [device.driver == "b.io"]
        => n: c: r a.io/p/a, s b.io/p/c @zone=a @zone=a|c
        => m: none
        "#,
    );
    check(
        r#"
        slice s a.io/p 1/1
          a
        slice t b.io/p 1/1 @*
          b
        class any
        claim c
          r any
        => n: c: r b.io/p/b
        "#,
    );
}

#[test]
fn a_node_selector_that_does_not_parse_is_an_error() {
    check(
        r#"
        slice s a.io/p 1/1 @zone~a
          a
        class any
        claim c
          r any
        => n: gather pool information: failed to perform node selection for slice s: failed to parse node selector &NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{MatchExpressions:[]NodeSelectorRequirement{NodeSelectorRequirement{Key:zone,Operator:Near,Values:[a],},},MatchFields:[]NodeSelectorRequirement{},},},}: nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator
        "#,
    );
}

#[test]
fn partitionable_devices_need_their_gate() {
    let text = |gate: &str, expected: &str| {
        format!(
            r#"
        {gate}
        slice k a.io/p 1/2 @n +gpu.memory=4
        slice s a.io/p 1/2 @n
          a -gpu.memory=1
          b
        slice t b.io/p 1/1 @devices
          c @n
        class any
        claim c
          r any
        => n: c: r {expected} @n
        "#
        )
    };
    check(&text("release 1.37", "a.io/p/a"));
    check(&text("off DRAPartitionableDevices", "a.io/p/b"));
}

#[test]
fn since_1_37_a_broken_pool_with_counters_matters_only_where_it_is_reached() {
    let text = |release: &str, expected: &str| {
        format!(
            r#"
        {release}
        slice k a.io/p 1/3 @m +gpu.memory=4
        slice s a.io/p 1/3 @m
          a -gpu.memory=1
        slice t b.io/p 1/1 @n
          b
        class any
        claim c
          r any all
        => n: {expected}
        "#
        )
    };
    check(&text(
        "",
        "claim default/c, request r: asks for all devices, but resource pool a.io/p is currently being updated",
    ));
    check(&text("release 1.37", "c: r b.io/p/b @n"));
}

#[test]
fn counters_count_wherever_their_slice_is() {
    let text = |release: &str| {
        format!(
            r#"
        {release}
        slice k a.io/p 1/3 @m +gpu.memory=4
        slice s a.io/p 1/3 @n
          a -gpu.memory=3
          b -gpu.memory=2
        slice t a.io/p 1/3 @m
          c -gpu.memory=2
        class any
        held a.io/p/c
        claim c
          r any
        => n: c: r a.io/p/b @n
        "#
        )
    };
    check(&text(""));
    check(&text("release 1.37"));
    check(&text("release 1.37").replace("1/3 @m +", "1/3 @zone=z +"));
}

#[test]
fn devices_with_binding_conditions_need_their_gate() {
    let text = |gate: &str, expected: &str| {
        format!(
            r#"
        {gate}
        slice s a.io/p 1/1 @n
          a if:up unless:down
        class any
        claim c
          r any
        => n: {expected}
        "#
        )
    };
    check(&text("release 1.37", "c: r a.io/p/a if:up unless:down @n"));
    check(&text("off DRADeviceBindingConditions", "none"));
}

/// The first device on each node, after some changes of the slices.
fn first_devices(inventory: &Inventory, scenario: &Scenario, nodes: &[&str]) -> Vec<String> {
    let allocated = Allocated::new(Features::of(plimsoll_api::Release::V1_36));
    let claims: Vec<_> = scenario.claims.iter().collect();
    let classes = |name: &str| scenario.classes.get(name);
    let allocator = Allocator::new(inventory, &allocated, &claims, classes);
    let labels = Labels::default();
    let mut memory = CycleMemory::default();
    let first = |name: &&str| {
        let node = NodeRef { name, labels: &labels };
        let found =
            allocator.allocate(node, &mut memory, &mut Expressions::default(), &mut || true);
        let found = found.expect("the slices are right");
        found.map_or("none".to_owned(), |all| all[0].devices[0].device.to_string())
    };
    nodes.iter().map(first).collect()
}

#[test]
fn a_slice_that_comes_changes_or_goes_changes_the_pools_of_its_nodes() {
    let scenario = Scenario::parse(
        r#"
        slice a a.io/n 1/1 @n
          n-1
        slice b a.io/m 1/1 @m
          m-1
        slice b a.io/m 2/1 @n
          m-2
        slice z z.io/all 1/1 @*
          z-1
        class any
        claim c
          r any
        "#,
    );
    let [a, b, moved, everywhere] = &scenario.slices[..] else { panic!("four slices") };
    let nodes = ["m", "n", "o"];
    let mut ids = DeviceIds::default();
    let mut inventory = Inventory::new(Features::of(plimsoll_api::Release::V1_36));
    let mut after = |change: &mut dyn FnMut(&mut Inventory, &mut DeviceIds)| {
        change(&mut inventory, &mut ids);
        inventory.settle();
        first_devices(&inventory, &scenario, &nodes).join(" ")
    };
    assert_eq!(after(&mut |_, _| {}), "none none none");
    assert_eq!(after(&mut |all, ids| all.set(ids, a.clone())), "none n-1 none");
    assert_eq!(after(&mut |all, ids| all.set(ids, b.clone())), "m-1 n-1 none");
    assert_eq!(after(&mut |all, ids| all.set(ids, everywhere.clone())), "m-1 n-1 z-1");
    assert_eq!(after(&mut |all, ids| all.set(ids, moved.clone())), "z-1 m-2 z-1");
    assert_eq!(after(&mut |all, ids| all.remove(ids, "b")), "z-1 n-1 z-1");
    assert_eq!(after(&mut |all, ids| all.remove(ids, "z")), "none n-1 none");
    assert_eq!(after(&mut |all, ids| all.remove(ids, "a")), "none none none");
}

/// Whether devices are found on node `n` within so many steps, and how many steps it takes.
fn within(scenario: &str, most: usize) -> (Result<bool, String>, usize) {
    let scenario = Scenario::parse(scenario);
    let mut ids = DeviceIds::default();
    let mut inventory = Inventory::new(scenario.features);
    inventory.set(&mut ids, scenario.slices[0].clone());
    inventory.settle();
    let allocated = Allocated::new(scenario.features);
    let classes = |name: &str| scenario.classes.get(name);
    let claims: Vec<_> = scenario.claims.iter().collect();
    let allocator = Allocator::new(&inventory, &allocated, &claims, classes);
    let labels = Labels::default();
    let node = NodeRef { name: "n", labels: &labels };
    let mut steps = 0;
    let mut go_on = || {
        steps += 1;
        steps < most
    };
    let memory = &mut CycleMemory::default();
    let found = allocator.allocate(node, memory, &mut Expressions::default(), &mut go_on);
    (found.map(|found| found.is_some()).map_err(|error| error.to_string()), steps)
}

#[test]
fn a_search_stops_when_the_caller_says_so() {
    let two = "slice s a.io/p 1/1 @n\n  a\n  b\nclass any\nclaim c\n  r any x2";
    assert_eq!(within(two, 2), (Err("filter operation aborted".to_owned()), 2));
    let (found, steps) = within(two, 100);
    assert!(found == Ok(true) && steps < 10, "{steps}");
}

#[test]
fn each_device_that_is_tried_is_a_step() {
    let devices: String = (0..40).map(|number| format!("  d{number} m=x\n")).collect();
    let three = format!(
        "slice s a.io/p 1/1 @n\n{devices}class any\nclaim c\n  r any x3\n  distinct a.io/m"
    );
    // The second device differs from the first in none of 780 pairs.
    assert_eq!(within(&three, 500), (Err("filter operation aborted".to_owned()), 500));
    let (found, steps) = within(&three, 10_000);
    assert!(found == Ok(false) && 780 < steps && steps < 1_000, "{steps}");
}

/// Why devices of node `n` are picked or not for the claims of a scenario.
fn account(scenario: &Scenario) -> Account {
    let mut ids = DeviceIds::default();
    let mut inventory = Inventory::new(scenario.features);
    let mut allocated = Allocated::new(scenario.features);
    for slice in &scenario.slices {
        inventory.set(&mut ids, slice.clone());
    }
    inventory.settle();
    allocated.add(&mut ids, &scenario.held[0]);
    let claims: Vec<_> = scenario.claims.iter().collect();
    let classes = |name: &str| scenario.classes.get(name);
    let allocator = Allocator::new(&inventory, &allocated, &claims, classes);
    let labels = Labels::default();
    let node = NodeRef { name: "n", labels: &labels };
    let memory = &mut CycleMemory::default();
    allocator.account(node, memory, &mut Expressions::default(), &mut || true)
}

fn show(refused: &BTreeMap<Refusal, usize>) -> String {
    let all = refused.iter().map(|(why, count)| format!("{why:?} {count}"));
    all.collect::<Vec<_>>().join(", ")
}

#[test]
fn an_account_says_why_devices_were_not_picked() {
    let scenario = Scenario::parse(
        r#"
        slice s a.io/p 1/1 @n
          used model=x
          other model=y
          hot model=x !hot:NoSchedule
          small model=x memory:1Gi
          good model=x memory:8Gi
        slice t b.io/q 1/2 @n
          b
        class x [device.driver == "a.io"] [device.attributes["a.io"].model == "x"]
        held a.io/p/used
        claim c
          r x memory>=4Gi
          s x
        "#,
    );
    let account = account(&scenario);
    assert_eq!(account.devices, 5);
    assert_eq!(account.incomplete, ["b.io/q"]);
    let requests = account.requests.iter();
    let requests: Vec<String> = requests
        .map(|one| format!("{} {}: {}", one.request, one.picked, show(&one.refused)))
        .collect();
    assert_eq!(
        requests,
        [
            "r 1: InUse 1, ClassSelector(1) 1, Capacity 2",
            "s 1: InUse 1, ClassSelector(1) 1, Tainted(\"hot\") 1",
        ]
    );
}

#[test]
fn an_account_says_what_is_against_devices_that_could_be_picked_one_by_one() {
    let scenario = Scenario::parse(
        r#"
        slice s a.io/p 1/2 @n +card.memory=4
        slice t a.io/p 1/2 @n
          one root=x
          two root=y
          three root=x -card.memory=4
          four root=x -card.memory=4
          used root=x
        class any
        held a.io/p/used
        claim c
          r any x3
          match a.io/root
        "#,
    );
    let account = account(&scenario);
    let [request] = &account.requests[..] else { panic!("there is one request") };
    assert_eq!((request.picked, &*show(&request.refused)), (4, "InUse 1"));
    assert_eq!(show(&request.also_refused), "Counters 1, Constraint(0) 2");
    let used = (Str::from("a.io"), Str::from("p"), Str::from("used"));
    assert_eq!(request.in_use, [used]);
}
