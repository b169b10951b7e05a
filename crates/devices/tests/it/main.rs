//! Tests of the allocator: tables in text, and random small clusters against an obvious search.
#![expect(
    clippy::format_collect,
    clippy::format_push_string,
    reason = "the texts of tests are short"
)]

mod capacity;
mod checks;
mod expressions;
mod pools;
mod random;
mod results;
mod scenario;
mod search;
mod since_37;
mod upstream;
