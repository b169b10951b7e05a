//! What one client, and all of them together, may ask for.
//!
//! Whoever can reach the port can open connections and send requests before they have proved who they
//! are, so everything has an end: a slow client costs a connection for a while, a greedy one gets
//! `429 Too Many Requests`, and health checks get through in between.

use std::time::Duration;

/// How many connections there may be. Beyond, one that is worth less goes for each that comes. Probes and
/// scrapers need a handful.
pub(super) const CONNECTIONS: usize = 256;

/// How many of them one address may have, so that one client cannot take all.
pub(super) const CONNECTIONS_PER_CLIENT: usize = 64;

/// With so many connections clients get less time for the handshake: more than honest ones ever have.
pub(super) const CROWD: usize = CONNECTIONS / 2;

/// For so long a connection is not taken for a useless one: what a handshake and a request take on a slow line.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// How many connections may still be about to end beside those that are counted. Then no new one is taken
/// until one has ended.
pub(super) const LEAVING: usize = CONNECTIONS;

/// How many TLS handshakes a second there are on average, and how many at once after a pause. Each costs up to
/// a millisecond of a processor, so these are a fifth of one.
pub(super) const HANDSHAKES: f64 = 200.0;

/// The same for one address. It may open all its connections at once.
pub(super) const HANDSHAKES_PER_CLIENT: f64 = 50.0;
pub(super) const HANDSHAKES_PER_CLIENT_AT_ONCE: f64 = 100.0;

/// So many of all handshakes are kept for clients that come rarely: probes get through while others flood.
pub(super) const HANDSHAKES_KEPT: f64 = 50.0;

/// A client comes rarely while it has used no more than so many of its handshakes.
pub(super) const RARE: f64 = 4.0;

/// How often a connection looks whether it is its turn to shake hands.
pub(super) const TURN: Duration = Duration::from_millis(20);

/// How long everything may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// A client, for its part of the TLS handshake, the wait for its turn included.
    pub(super) handshake: Duration,
    /// The same where there are many connections.
    pub(super) handshake_in_a_crowd: Duration,
    /// A client, to send the head of a request over HTTP/1.1, and a connection to wait for the next one. As
    /// in secure_serving.go, ReadHeaderTimeout.
    pub(super) head: Duration,
    /// A connection, without a request. As in secure_serving.go, IdleTimeout.
    pub(super) idle: Duration,
    /// A request, until its answer was taken. Scrapes of large clusters take seconds.
    pub(super) request: Duration,
    /// Connections, to finish when the server stops, or when it wants to end one.
    pub(super) shutdown: Duration,
    /// Between two looks at a connection for what takes too long.
    pub(super) look: Duration,
    /// Between two looks at files. As good as at once for who replaces a certificate, and nothing for the
    /// machine.
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

/// The largest head of a request, in bytes: room for the longest tokens that are in use. Over HTTP/1.1 a
/// head that comes in one piece may be somewhat longer.
pub(super) const HEAD_BYTES: u32 = 64 * 1024;

/// How many headers a request may have.
pub(super) const HEADERS: usize = 100;

/// The largest body of a request, in bytes: the only one that is read is a number.
pub(super) const BODY_BYTES: usize = 1024;

/// How many requests of one HTTP/2 connection are answered at once, unless the flag says otherwise. As in
/// secure_serving.go.
pub(super) const STREAMS: u32 = 100;

/// How many requests are worked on at once; health checks do not count. The engine answers them one
/// after the other in between its work.
pub(super) const REQUESTS: usize = 32;

/// How many requests a second one address may send on average.
pub(super) const RATE: f64 = 50.0;

/// How many it may send at once after a pause.
pub(super) const BURST: f64 = 100.0;

/// Of how many addresses the rate is known. Those that were quiet for longest are forgotten first.
pub(super) const CLIENTS: usize = 4096;

/// How many reviews of tokens and rights are under way at the API server at once.
pub(super) const REVIEWS: usize = 16;

/// The largest answer to a review, and the largest file of certificates that is read, in bytes.
pub(super) const REVIEW_BYTES: usize = 1024 * 1024;
