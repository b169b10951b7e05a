//! Our decisions equal every recorded decision of kube-scheduler 1.36, and those of release 1.20 as far
//! as they concern plugins that later releases dropped.

use plimsoll_conformance::{Case, ExpectedDecision, Known, differences, legacy_differences, suite};
use plimsoll_engine::Decision;

/// The suite in which everything is judged from scratch, since SelectorSpread scores there, whose
/// counts over all nodes are not remembered.
const FROM_SCRATCH: &str = "legacy_selectorspread";

/// Decides every case of a suite and compares by `differences`.
#[track_caller]
fn check(name: &str, differences: impl Fn(&Case, &ExpectedDecision, &Decision) -> Vec<String>) {
    let known = Known::load();
    let (mut n_decisions, mut n_audited, mut failures) = (0, 0, Vec::new());
    for (case, expected) in suite(name) {
        let mut recorded = expected.decisions.iter();
        let audits = case.decide(|ours| {
            n_decisions += 1;
            let recorded = recorded.next().expect("a decision was recorded for every pod");
            let found = differences(&case, recorded, &ours);
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
        let remembered = audits.iter().flat_map(|audit| &audit.differences);
        failures.extend(remembered.map(|one| format!("{}: from memory, {one}", case.name)));
        n_audited += audits.iter().map(|audit| audit.audited).sum::<u64>();
    }
    assert!(n_audited > 0 || name == FROM_SCRATCH, "suite {name}: memory was never asked");
    assert!(n_decisions > 0, "suite {name} has decisions");
    let shown = failures.iter().take(8).cloned().collect::<Vec<_>>().join("\n");
    let n_failures = failures.len();
    assert!(failures.is_empty(), "suite {name}: {n_failures} of {n_decisions} differ\n{shown}");
}

macro_rules! suites {
    ($differences:expr => $($name:ident)*) => { $(
        #[test]
        fn $name() {
            check(stringify!($name), $differences);
        }
    )* };
}

suites! {
    |_: &Case, recorded: &ExpectedDecision, ours: &Decision| differences(recorded, ours) =>
    resources taints nodeaffinity ports images spread podaffinity mixed config trace rollout
    preemption nominated volumes
    dra_claims dra_alloc dra_cel dra_partition dra_extended dra_quirks dra_gates dra_trace
}

suites! {
    legacy_differences => legacy_selectorspread legacy_resources legacy_policy legacy_default
}
