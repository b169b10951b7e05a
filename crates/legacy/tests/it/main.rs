//! Each test reads a configuration of an earlier form and checks what it resolves to, or its errors.

#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes snapshots so")]

mod catalogue;
mod flags;
mod migration;
mod old_versions;
mod policies;
mod policy_errors;
#[path = "../../../config/tests/it/catalogue.rs"]
#[expect(dead_code, reason = "the tests of today's form need the rest of it")]
mod today;
mod written;
