//! How often each client may ask.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Buckets of tokens, one for each client.
#[derive(Debug)]
pub(super) struct Rates {
    rate: f64,
    burst: f64,
    most: usize,
    clients: HashMap<IpAddr, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    seen: Instant,
}

impl Rates {
    /// So many requests a second, and so many at once; `most` clients are remembered.
    pub(super) fn new(rate: f64, burst: f64, most: usize) -> Self {
        Rates { rate, burst, most, clients: HashMap::new() }
    }

    /// Whether a client may ask now.
    pub(super) fn allows(&mut self, client: IpAddr, now: Instant) -> bool {
        let client = network(client);
        if self.clients.len() >= self.most && !self.clients.contains_key(&client) {
            self.forget(now);
        }
        let fresh = Bucket { tokens: self.burst, seen: now };
        let bucket = self.clients.entry(client).or_insert(fresh);
        let passed = now.saturating_duration_since(bucket.seen).as_secs_f64();
        bucket.tokens = (bucket.tokens + passed * self.rate).min(self.burst);
        bucket.seen = now;
        let allowed = 1.0 <= bucket.tokens;
        if allowed {
            bucket.tokens -= 1.0;
        }
        allowed
    }

    /// Drops clients that have all their tokens again, and if that is not enough the one that was quiet
    /// for longest.
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

/// Whoever has one IPv6 address has 2^64 of them: the network counts.
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
    fn addresses_of_one_network_are_one_client() {
        let of = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:3:4:5"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
