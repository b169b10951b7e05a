//! Limits for each client, and for all clients together.
//!
//! Anybody who can reach the port can open connections and send requests before being authenticated, so
//! everything has a limit: a slow client occupies a connection for a limited time, a greedy one gets
//! `429 Too Many Requests`, and health checks are still answered.

use std::time::Duration;

/// The most connections. Beyond that, a less valuable one is closed for each new one. Probes and
/// scrapers need a handful.
pub(super) const CONNECTIONS: usize = 256;

/// The most connections of one address, so that one client cannot take all.
pub(super) const CONNECTIONS_PER_CLIENT: usize = 64;

/// From this many connections on, clients get less time for the handshake. Well-behaved clients never
/// open that many.
pub(super) const CROWD: usize = CONNECTIONS / 2;

/// A connection younger than this does not count as useless: a handshake and a request take this long
/// on a slow line.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// At most this many connections may be closing in addition to those that are counted. Beyond that no
/// new one is accepted until one has ended.
pub(super) const LEAVING: usize = CONNECTIONS;

/// The average rate of TLS handshakes per second, and the burst after a pause. Each costs up to a
/// millisecond of CPU time, so this is a fifth of a processor.
pub(super) const HANDSHAKES: f64 = 200.0;

/// The same for one address. It may open all its connections at once.
pub(super) const HANDSHAKES_PER_CLIENT: f64 = 50.0;
pub(super) const HANDSHAKES_PER_CLIENT_AT_ONCE: f64 = 100.0;

/// This many of all handshakes are reserved for clients that connect rarely, so that probes succeed
/// while others flood the server.
pub(super) const HANDSHAKES_KEPT: f64 = 50.0;

/// A client connects rarely if it has used at most this many of its handshakes.
pub(super) const RARE: f64 = 4.0;

/// How often a connection checks whether it may do its handshake.
pub(super) const TURN: Duration = Duration::from_millis(20);

/// All timeouts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For the client's part of the TLS handshake, including the wait for the rate limit.
    pub(super) handshake: Duration,
    /// The same if there are many connections.
    pub(super) handshake_in_a_crowd: Duration,
    /// For a client to send the head of a request over HTTP/1.1, and for a connection to wait for the
    /// next one. As in secure_serving.go, ReadHeaderTimeout.
    pub(super) head: Duration,
    /// For a connection without a request. As in secure_serving.go, IdleTimeout.
    pub(super) idle: Duration,
    /// For a request, until the client has received the answer. Scrapes of large clusters take seconds.
    pub(super) request: Duration,
    /// For connections to finish when the server stops, or closes one.
    pub(super) shutdown: Duration,
    /// The interval at which connections are checked for timeouts.
    pub(super) look: Duration,
    /// The interval at which files are checked. A replaced certificate is noticed almost at once, and
    /// the cost is negligible.
    pub(super) files: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            handshake: Duration::from_secs(10),
            handshake_in_a_crowd: Duration::from_secs(3),
            head: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            request: Duration::from_mins(1),
            shutdown: Duration::from_secs(5),
            look: Duration::from_secs(5),
            files: Duration::from_secs(10),
        }
    }
}

/// The largest head of a request, in bytes: enough for the longest tokens in use. Over HTTP/1.1 a head
/// that comes in one piece may be somewhat longer.
pub(super) const HEAD_BYTES: u32 = 64 * 1024;

/// The most headers of a request.
pub(super) const HEADERS: usize = 100;

/// The largest body of a request, in bytes, but for questions: the only other body that is read is a number.
pub(super) const BODY_BYTES: usize = 1024;

/// The largest body of a question of `/api/v1`, in bytes: the manifests of a release.
pub(super) const QUESTION_BYTES: usize = 1024 * 1024;

/// The default number of concurrent requests on one HTTP/2 connection. As in secure_serving.go.
pub(super) const STREAMS: u32 = 100;

/// The most concurrent requests, not counting health checks. The engine answers them one after the
/// other between its steps.
pub(super) const REQUESTS: usize = 32;

/// The average rate of requests per second from one address.
pub(super) const RATE: f64 = 50.0;

/// The burst after a pause.
pub(super) const BURST: f64 = 100.0;

/// The number of addresses whose rate is tracked. The one that was quiet for longest is dropped first.
pub(super) const CLIENTS: usize = 4096;

/// The most concurrent token and access reviews at the API server.
pub(super) const REVIEWS: usize = 16;

/// The largest answer to a review, and the largest file of certificates that is read, in bytes.
pub(super) const REVIEW_BYTES: usize = 1024 * 1024;
