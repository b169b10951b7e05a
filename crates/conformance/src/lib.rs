//! Recorded decisions of kube-scheduler, and code to compare ours with them.
//!
//! `corpus/SUITE.cases.jsonl.zst` holds random clusters, one case a line, and
//! `corpus/SUITE.expected.jsonl.zst` what kube-scheduler 1.36 decided for them; in suites whose names begin
//! with `legacy_`, what release 1.20 decided. `known.toml` lists the deliberate differences.

mod case;
mod claims;
mod compare;
mod corpus;
mod groups;
mod groups_1_37;
mod known;
mod legacy;
mod profiles;

pub use case::{Case, Mode};
pub use compare::{Expected, ExpectedDecision, differences};
pub use corpus::{read, runs, suite};
pub use groups::{ExpectedRun, GroupRun};
pub use groups_1_37::{GroupCase, groups_1_37};
pub use known::{Difference, Known};
pub use legacy::legacy_differences;
pub use profiles::{RECORDED, profiles};
