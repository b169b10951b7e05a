//! All connections, and which one is closed if another needs its place.
//!
//! Anybody who reaches the port can open connections and leave them idle. They must not block others:
//! if a probe of the kubelet is not answered, the kubelet restarts the process. A new connection is
//! therefore always accepted, and a less valuable one is closed for it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, ConnectionState};
use super::limits;
use super::rate::network;

/// All connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<Mutex<ConnectionTable>>);

#[derive(Debug, Default)]
struct ConnectionTable {
    next: u64,
    /// In the order in which they were opened.
    connections: BTreeMap<u64, ConnectionEntry>,
}

#[derive(Debug)]
struct ConnectionEntry {
    client: IpAddr,
    activity: Arc<Activity>,
    leave: CancellationToken,
}

/// An accepted connection, until it is closed.
#[derive(Debug)]
pub(super) struct OpenConnection {
    connections: Connections,
    number: u64,
    /// Its requests.
    pub(super) activity: Arc<Activity>,
    /// Cancelled when it must be closed because another one needs its place.
    pub(super) leave: CancellationToken,
}

impl Connections {
    /// Accepts a connection. At the limit one connection is closed for it: one of the same client if
    /// that client is at its limit, otherwise one of the client with the most connections among the
    /// least valuable ones.
    pub(super) fn admit(&self, address: IpAddr) -> OpenConnection {
        let client = network(address);
        let mut table = self.lock();
        if limits::CONNECTIONS_PER_CLIENT <= table.of(client) {
            table.close_one(Some(client));
        }
        if limits::CONNECTIONS <= table.connections.len() {
            table.close_one(None);
        }
        let number = table.next;
        table.next += 1;
        let (activity, leave) = (Activity::new(), CancellationToken::new());
        let connection =
            ConnectionEntry { client, activity: activity.clone(), leave: leave.clone() };
        table.connections.insert(number, connection);
        OpenConnection { connections: self.clone(), number, activity, leave }
    }

    /// How many connections there are.
    pub(super) fn count(&self) -> usize {
        self.lock().connections.len()
    }

    /// Whether there are so many connections that clients get less time.
    pub(super) fn are_many(&self) -> bool {
        limits::CROWD <= self.count()
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable {
    fn of(&self, client: IpAddr) -> usize {
        self.connections.values().filter(|connection| connection.client == client).count()
    }

    /// Closes the least valuable connection, of `client` or of all.
    fn close_one(&mut self, client: Option<IpAddr>) {
        let mut sizes = HashMap::<IpAddr, usize>::new();
        for connection in self.connections.values() {
            *sizes.entry(connection.client).or_default() += 1;
        }
        let rank = |connection: &ConnectionEntry| -> (ConnectionState, Reverse<usize>, Instant) {
            let (standing, since) = connection.activity.standing(limits::FRESH);
            let size = sizes.get(&connection.client).copied().unwrap_or_default();
            (standing, Reverse(size), since)
        };
        let candidates = self
            .connections
            .iter()
            .filter(|(_, connection)| client.is_none_or(|client| connection.client == client));
        let least = candidates.min_by_key(|(_, connection)| rank(connection));
        let Some(number) = least.map(|(number, _)| *number) else { return };
        if let Some(connection) = self.connections.remove(&number) {
            tracing::debug!(client = %connection.client, "closing a connection to make room for another one");
            connection.leave.cancel();
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.lock().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn client(n: usize) -> IpAddr {
        let part = |n: usize| u8::try_from(n % 256).expect("it is small");
        IpAddr::from([10, 0, part(n / 256), part(n)])
    }

    /// Waits longer than a connection is fresh.
    async fn a_while() {
        tokio::time::sleep(limits::FRESH + Duration::from_millis(1)).await;
    }

    /// A connection with a request that was answered.
    fn useful(connections: &Connections, n: usize) -> OpenConnection {
        let connection = connections.admit(client(n));
        drop(connection.activity.begin().track(axum::body::Body::empty()));
        connection
    }

    /// Which of the connections were closed.
    fn gone(connections: &[OpenConnection]) -> Vec<usize> {
        let closed = connections
            .iter()
            .enumerate()
            .filter(|(_, connection)| connection.leave.is_cancelled());
        closed.map(|(at, _)| at).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_too_many_connections_loses_its_own_oldest() {
        let connections = Connections::default();
        let other = connections.admit(client(2));
        let own: Vec<OpenConnection> =
            (0..limits::CONNECTIONS_PER_CLIENT + 2).map(|_| connections.admit(client(1))).collect();
        assert_eq!(gone(&own), [0, 1]);
        assert!(!other.leave.is_cancelled());
        assert_eq!(connections.count(), limits::CONNECTIONS_PER_CLIENT + 1);
        drop(own);
        assert_eq!(connections.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_is_full_a_connection_without_a_finished_request_goes_first() {
        let connections = Connections::default();
        let idle = useful(&connections, 1);
        let busy = useful(&connections, 2);
        let request = busy.activity.begin();
        let silent: Vec<OpenConnection> =
            (3..limits::CONNECTIONS).map(|n| connections.admit(client(n))).collect();
        let stuck = connections.admit(client(2));
        let never_ends = stuck.activity.begin();
        a_while().await;
        // The client with two connections loses one of those that never finished a request.
        let probe = connections.admit(client(1000));
        assert!(stuck.leave.is_cancelled());
        assert!(gone(&silent).is_empty());
        let another = connections.admit(client(1001));
        assert_eq!(gone(&silent), [0], "all have one: the oldest goes");
        for kept in [&idle, &busy, &probe, &another] {
            assert!(!kept.leave.is_cancelled());
        }
        drop((request, never_ends));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_does_not_close_who_comes_for_a_moment() {
        let connections = Connections::default();
        let idle: Vec<OpenConnection> =
            (0..limits::CONNECTIONS).map(|n| useful(&connections, n % 5)).collect();
        let probe = connections.admit(client(200));
        let flood: Vec<OpenConnection> = (0..100).map(|_| connections.admit(client(201))).collect();
        assert!(!probe.leave.is_cancelled(), "it has had no time for its request yet");
        assert!(!gone(&idle).is_empty());
        assert_eq!(connections.count(), limits::CONNECTIONS);
        drop(flood);
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_are_busy_the_oldest_request_goes() {
        let connections = Connections::default();
        let busy: Vec<(OpenConnection, _)> = (0..limits::CONNECTIONS)
            .map(|n| {
                let connection = useful(&connections, n);
                let request = connection.activity.begin();
                (connection, request)
            })
            .collect();
        a_while().await;
        let _probe = connections.admit(client(1000));
        let closed = busy.iter().filter(|(connection, _)| connection.leave.is_cancelled()).count();
        assert_eq!(closed, 1);
        assert!(busy[0].0.leave.is_cancelled());
    }
}
