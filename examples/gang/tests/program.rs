//! The plugin in a whole scheduler: a gang is bound together, or not at all.

#[path = "../../common/program.rs"]
#[allow(dead_code, reason = "each example needs a part of it")]
mod program;

use plimsoll_testserver::{Options, TestServer};
use program::{Program, node, node_of, pod, wait_for};
use serde_json::json;

const GANG: Program =
    Program { binary: env!("CARGO_BIN_EXE_gang"), folder: env!("CARGO_MANIFEST_DIR") };

#[test]
fn bench_decides_alike_with_both_engines() {
    GANG.benched("DefaultTopologySpreading");
}

#[test]
fn simulate_binds_the_complete_gang_and_rejects_the_other() {
    let decisions = GANG.simulated();
    let of_pod = |pod: &str| decisions.iter().filter(|one| one["pod"] == pod).collect::<Vec<_>>();
    for member in ["default/train-0", "default/train-1", "default/train-2"] {
        let decisions = of_pod(member);
        assert_eq!(decisions.len(), 1, "{decisions:?}");
        assert_eq!(decisions[0]["node"], "a");
    }
    let half = of_pod("default/half-0");
    let rejected = half.iter().find(|one| one["result"] == "unschedulable");
    assert!(rejected.is_some(), "its time at Permit is over: {half:?}");
}

#[test]
fn wrong_args_are_reported_with_file_line_and_field() {
    let field = "profiles[0].pluginConfig[0].args.timeoutSeconds";
    GANG.refuses("timeoutSeconds: 30", "timeoutSeconds: 0", 11, field);
}

#[test]
fn run_binds_nothing_until_the_last_member_is_there() {
    let server = TestServer::start(Options::default());
    let member = |name: &str| {
        pod("default", name, &json!({"example.com/gang": "train", "example.com/gang-size": "2"}))
    };
    let objects = [node("a", &json!({})), member("first"), pod("default", "plain", &json!({}))];
    server.store().apply_all(objects).expect("they are valid");
    let _running = GANG.run(&server);
    // The member was created first, so it was tried first.
    wait_for(|| node_of(&server, "plain"));
    assert_eq!(node_of(&server, "first"), None);
    server.store().apply(member("second")).expect("it is valid");
    for name in ["first", "second"] {
        assert_eq!(wait_for(|| node_of(&server, name)), "a");
    }
}
