//! Each test reads a configuration and checks what it resolves to, or its errors.

#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes snapshots so")]

mod args;
mod catalogue;
mod files;
mod merging;
mod rules;
