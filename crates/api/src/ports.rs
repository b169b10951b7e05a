//! Host ports, and when two of them conflict.

use serde::{Deserialize, Serialize};

use crate::Str;

/// The address that stands for all addresses of a node.
pub const ANY_IP: &str = "0.0.0.0";

/// A host port that a container requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPort {
    /// `TCP`, `UDP` or `SCTP`; TCP by default.
    pub protocol: Str,
    /// The address of the host; [`ANY_IP`] by default.
    pub ip: Str,
    /// The port, 1 to 65535.
    pub port: i32,
}

impl HostPort {
    /// Whether the two conflict on one node: the same port of the same protocol, on the same address or
    /// on all addresses.
    pub fn conflicts_with(&self, other: &HostPort) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == ANY_IP || other.ip == ANY_IP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(ip: &str, protocol: &str, port: i32) -> HostPort {
        HostPort { protocol: protocol.into(), ip: ip.into(), port }
    }

    #[test]
    fn the_wildcard_address_conflicts_with_every_address() {
        let wanted = port("10.0.0.1", "TCP", 80);
        assert!(wanted.conflicts_with(&port(ANY_IP, "TCP", 80)));
        assert!(port(ANY_IP, "TCP", 80).conflicts_with(&wanted));
        assert!(wanted.conflicts_with(&wanted.clone()));
        assert!(!wanted.conflicts_with(&port("10.0.0.2", "TCP", 80)));
        assert!(!wanted.conflicts_with(&port(ANY_IP, "UDP", 80)));
        assert!(!wanted.conflicts_with(&port(ANY_IP, "TCP", 81)));
    }
}
