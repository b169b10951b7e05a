//! The edge against an API server that the test itself plays.

mod connect;
mod fake;
mod watch;
