//! Rate limits for requests and TLS handshakes of clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::limits;

/// Buckets of tokens, one for each client.
#[derive(Debug)]
pub(super) struct Rates {
    rate: f64,
    burst: f64,
    most: usize,
    clients: HashMap<IpAddr, ClientBucket>,
}

#[derive(Clone, Copy, Debug)]
struct ClientBucket {
    tokens: f64,
    seen: Instant,
}

impl ClientBucket {
    /// The number of tokens at this time.
    fn at(&self, now: Instant, rate: f64, burst: f64) -> f64 {
        let passed = now.saturating_duration_since(self.seen).as_secs_f64();
        (self.tokens + passed * rate).min(burst)
    }
}

impl Rates {
    /// `rate` requests per second and bursts of `burst`; `most` clients are tracked.
    pub(super) fn new(rate: f64, burst: f64, most: usize) -> Self {
        Rates { rate, burst, most, clients: HashMap::new() }
    }

    /// Whether a client may send a request now.
    pub(super) fn allows(&mut self, client: IpAddr, now: Instant) -> bool {
        let client = network(client);
        if self.clients.len() >= self.most && !self.clients.contains_key(&client) {
            self.forget(now);
        }
        let fresh = ClientBucket { tokens: self.burst, seen: now };
        let bucket = self.clients.entry(client).or_insert(fresh);
        bucket.tokens = bucket.at(now, self.rate, self.burst);
        bucket.seen = now;
        let allowed = 1.0 <= bucket.tokens;
        if allowed {
            bucket.tokens -= 1.0;
        }
        allowed
    }

    /// How many of its tokens a client has used.
    fn used(&self, client: IpAddr, now: Instant) -> f64 {
        let bucket = self.clients.get(&network(client));
        bucket.map_or(0.0, |bucket| self.burst - bucket.at(now, self.rate, self.burst))
    }

    /// Drops clients whose bucket is full again, and if that is not enough, the one that was quiet for
    /// longest.
    fn forget(&mut self, now: Instant) {
        let full = Duration::from_secs_f64(self.burst / self.rate);
        self.clients.retain(|_, bucket| now.saturating_duration_since(bucket.seen) < full);
        if self.clients.len() >= self.most {
            let quiet = self.clients.iter().min_by_key(|(_, bucket)| bucket.seen);
            if let Some(client) = quiet.map(|(client, _)| *client) {
                self.clients.remove(&client);
            }
        }
    }
}

/// The TLS handshakes of all clients: each one costs a signature.
#[derive(Debug)]
pub(super) struct Handshakes {
    all: ClientBucket,
    clients: Rates,
}

impl Handshakes {
    pub(super) fn new(now: Instant) -> Self {
        Handshakes {
            all: ClientBucket { tokens: limits::HANDSHAKES, seen: now },
            clients: Rates::new(
                limits::HANDSHAKES_PER_CLIENT,
                limits::HANDSHAKES_PER_CLIENT_AT_ONCE,
                limits::CLIENTS,
            ),
        }
    }

    /// Whether a client may do a handshake now.
    pub(super) fn allows(&mut self, client: IpAddr, now: Instant) -> bool {
        self.all.tokens = self.all.at(now, limits::HANDSHAKES, limits::HANDSHAKES);
        self.all.seen = now;
        let is_rare = self.clients.used(client, now) < limits::RARE;
        let least = if is_rare { 1.0 } else { 1.0 + limits::HANDSHAKES_KEPT };
        let allowed = least <= self.all.tokens && self.clients.allows(client, now);
        if allowed {
            self.all.tokens -= 1.0;
        }
        allowed
    }
}

/// A client with one IPv6 address usually has 2^64 of them, so its network counts.
pub(super) fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => {
            let mut segments = v6.segments();
            segments[4..].fill(0);
            IpAddr::V6(segments.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    #[test]
    fn a_client_may_ask_as_often_as_its_rate_and_burst_say() {
        let (mut rates, now) = (Rates::new(2.0, 3.0, 8), Instant::now());
        let allowed =
            |rates: &mut Rates, at| (0..10).filter(|_| rates.allows(client(1), at)).count();
        assert_eq!(allowed(&mut rates, now), 3);
        assert_eq!(allowed(&mut rates, now + Duration::from_secs(1)), 2);
        assert_eq!(allowed(&mut rates, now + Duration::from_hours(1)), 3);
        assert!(rates.allows(client(2), now), "another client is another matter");
    }

    #[test]
    fn clients_that_are_not_greedy_are_forgotten_before_those_that_are() {
        let (mut rates, now) = (Rates::new(1.0, 2.0, 2), Instant::now());
        let later = now + Duration::from_millis(1500);
        rates.allows(client(1), now);
        for _ in 0..3 {
            rates.allows(client(2), later);
        }
        assert!(rates.allows(client(3), later));
        assert!(!rates.allows(client(2), later), "it has asked too often, and that is known");
        assert_eq!(rates.clients.len(), 2);
    }

    #[test]
    fn handshakes_are_bounded_for_each_client_and_for_all() {
        let now = Instant::now();
        let mut handshakes = Handshakes::new(now);
        let mut shaken =
            |n: u8, tries: u32| (0..tries).filter(|_| handshakes.allows(client(n), now)).count();
        assert_eq!(shaken(1, 1000), 100, "one client has its own bound");
        assert_eq!(shaken(2, 1000) + shaken(3, 1000), 54, "all of them leave some to others");
        assert_eq!((4..20).map(|n| shaken(n, 3)).sum::<usize>(), 46, "who comes rarely gets them");
        assert_eq!(shaken(20, 1), 0, "beyond all nobody is served");
        let later = now + Duration::from_millis(100);
        let mut shaken =
            |n: u8, tries: u32| (0..tries).filter(|_| handshakes.allows(client(n), later)).count();
        assert_eq!((shaken(1, 1000), shaken(30, 3)), (0, 3));
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let of = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:3:4:5"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
