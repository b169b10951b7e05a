//! All that requests are answered from.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::CertificateDer;
use tokio::sync::{Semaphore, watch};

use super::auth::{Authenticator, Authorizer};
use super::health::Health;
use super::inside::Inside;
use super::limits;
use super::rate::{Rates, network};
use super::tls::Material;
use super::told::{Build, Feature};

/// All that requests are answered from.
pub(super) struct Site {
    pub(super) inside: Arc<dyn Inside>,
    pub(super) authenticator: Authenticator,
    pub(super) authorizer: Authorizer,
    pub(super) material: watch::Receiver<Arc<Material>>,
    pub(super) health: Health,
    pub(super) registries: Vec<prometheus::Registry>,
    pub(super) build: Build,
    pub(super) features: Vec<Feature>,
    pub(super) flags: Vec<(String, String)>,
    pub(super) profiling: bool,
    pub(super) rates: Mutex<Rates>,
    /// A permit for each request that is worked on.
    pub(super) work: Semaphore,
    pub(super) guests: Guests,
}

/// Who sends the requests of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    /// Its certificate with what it sent along; empty without one.
    pub(super) chain: Vec<CertificateDer<'static>>,
}

/// How many connections there are, by client.
#[derive(Debug, Default)]
pub(super) struct Guests(Mutex<HashMap<IpAddr, usize>>);

impl Guests {
    /// Lets a client in, if there is room for it.
    pub(super) fn admit(&self, address: IpAddr) -> bool {
        let mut guests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = guests.values().sum();
        let own = guests.entry(network(address)).or_default();
        let admitted = all < limits::CONNECTIONS && *own < limits::CONNECTIONS_PER_CLIENT;
        if admitted {
            *own += 1;
        } else if *own == 0 {
            guests.remove(&network(address));
        }
        admitted
    }

    /// How many connections there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// A client that was let in has gone.
    pub(super) fn leaves(&self, address: IpAddr) {
        let mut guests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = guests.get_mut(&network(address)) {
            *own -= 1;
            if *own == 0 {
                guests.remove(&network(address));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_takes_all_connections() {
        let guests = Guests::default();
        let client = |n: u8| IpAddr::from([10, 0, 0, n]);
        let admitted =
            |address| (0..limits::CONNECTIONS * 2).filter(|_| guests.admit(address)).count();
        assert_eq!(admitted(client(1)), limits::CONNECTIONS_PER_CLIENT);
        assert_eq!(admitted(client(2)), limits::CONNECTIONS_PER_CLIENT);
        guests.leaves(client(1));
        assert!(guests.admit(client(1)));
        let others: usize = (3..=255).map(|n| usize::from(guests.admit(client(n)))).sum();
        assert_eq!(others, limits::CONNECTIONS - limits::CONNECTIONS_PER_CLIENT * 2);
        assert_eq!(guests.0.lock().expect("nobody panicked").len(), 2 + others);
    }
}
