//! The edge to an API server: one that the test itself plays, and one in memory.

mod connect;
mod fake;
mod server;
mod tls;
mod watch;
