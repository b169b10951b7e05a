//! The socket on which the server listens.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use super::options::ServingOptions;

/// The backlog of connections to accept. As in Go; the kernel's own limit is usually lower.
const WAITING: i32 = 4096;

/// Why the socket cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen on {address} (--bind-address, --secure-port): {error}")]
pub struct ListenError {
    address: SocketAddr,
    error: io::Error,
}

/// Listens on the address of the options.
pub(super) fn listen(options: &ServingOptions, port: u16) -> Result<TcpListener, ListenError> {
    let given = SocketAddr::new(options.bind_address, port);
    if options.bind_address.is_unspecified() {
        // As in Go's net package, favoriteAddrFamily: an unspecified address of either family stands
        // for both.
        let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
        match open(options, both) {
            Ok(listener) => return Ok(listener),
            // This machine has no IPv6.
            Err(_) if options.bind_address.is_ipv4() => {}
            Err(error) => return Err(ListenError { address: both, error }),
        }
    }
    open(options, given).map_err(|error| ListenError { address: given, error })
}

/// Takes over a socket that already listens.
pub(super) fn take_over(listener: std::net::TcpListener) -> Result<TcpListener, ListenError> {
    let unknown = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
    let address = listener.local_addr().unwrap_or(unknown);
    let taken = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
    taken.map_err(|error| ListenError { address, error })
}

fn open(options: &ServingOptions, address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        socket.set_only_v6(false)?;
    }
    // Go sets it on every listening socket, so that a new process need not wait until the old one's
    // connections have timed out; --permit-address-sharing has no further effect.
    socket.set_reuse_address(true)?;
    #[cfg(unix)]
    socket.set_reuse_port(options.permit_port_sharing)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(WAITING)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn on(bind_address: IpAddr, permit_port_sharing: bool) -> ServingOptions {
        ServingOptions { bind_address, permit_port_sharing, ..ServingOptions::default() }
    }

    #[tokio::test]
    async fn a_port_is_shared_only_if_that_is_permitted() {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let first = listen(&on(here, false), 0).expect("there is a free port");
        let port = first.local_addr().expect("it is bound").port();
        let error = listen(&on(here, false), port).expect_err("it is taken").to_string();
        assert!(error.contains("--secure-port") && error.contains(&port.to_string()), "{error}");
        let shared = listen(&on(here, true), 0).expect("there is a free port");
        let port = shared.local_addr().expect("it is bound").port();
        listen(&on(here, true), port).expect("it is shared");
    }

    #[tokio::test]
    async fn an_unspecified_address_is_every_interface() {
        let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let listener = listen(&on(everywhere, false), 0).expect("there is a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let here = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        tokio::net::TcpStream::connect(here).await.expect("somebody listens");
    }
}
