//! Every recorded decision of kube-scheduler 1.36 is ours, too.

use plimsoll_conformance::{Known, differences, suite};

/// Decides every case of a suite and compares.
#[track_caller]
fn check(name: &str) {
    let known = Known::load();
    let (mut n_decisions, mut n_audited, mut failures) = (0, 0, Vec::new());
    for (case, expected) in suite(name) {
        let mut recorded = expected.decisions.iter();
        let audit = case.decide(|ours| {
            n_decisions += 1;
            let recorded = recorded.next().expect("a decision was recorded for every pod");
            let found = differences(recorded, &ours);
            match (known.contains(&case.name, &recorded.pod), found.is_empty()) {
                (false, false) => failures.push(format!(
                    "{} {}:\n    {}",
                    case.name,
                    recorded.pod,
                    found.join("\n    ")
                )),
                (true, true) => failures.push(format!(
                    "{} {}: listed in known.toml, but the decision is the same",
                    case.name, recorded.pod
                )),
                _ => {}
            }
        });
        assert!(recorded.next().is_none(), "{}: a pod was not decided", case.name);
        let remembered = audit.differences.iter();
        failures.extend(remembered.map(|one| format!("{}: from memory, {one}", case.name)));
        n_audited += audit.audited;
    }
    // While pods are nominated everything is judged from scratch.
    assert!(n_audited > 0 || name == "nominated", "suite {name}: memory was never asked");
    assert!(n_decisions > 0, "suite {name} has decisions");
    let shown = failures.iter().take(8).cloned().collect::<Vec<_>>().join("\n");
    let n_failures = failures.len();
    assert!(failures.is_empty(), "suite {name}: {n_failures} of {n_decisions} differ\n{shown}");
}

macro_rules! suites {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    )* };
}

suites! {
    resources taints nodeaffinity ports images spread podaffinity mixed config trace rollout
    preemption nominated volumes
}
