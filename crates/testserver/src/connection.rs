//! The listener and its connections, which can be stopped and restarted.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::access::RequestUser;
use crate::api::ApiHandler;
use crate::respond::RequestOutcome;
use crate::tls;

/// The most connections that are served at once; others wait.
const CONNECTIONS: usize = 10_000;

/// A handshake that takes longer is aborted.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// A short pause.
const PAUSE: Duration = Duration::from_millis(20);

/// A command of a test to the listener.
#[derive(Debug)]
pub(crate) enum ListenerCommand {
    /// Stop listening and drop all connections, then confirm it.
    Stop(std::sync::mpsc::Sender<()>),
    /// Listen again, then report whether it worked.
    Start(std::sync::mpsc::Sender<io::Result<()>>),
}

/// Listens until the commands end.
pub(crate) struct Listener {
    pub(crate) api: ApiHandler,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) commands: mpsc::UnboundedReceiver<ListenerCommand>,
    pub(crate) downtimes: mpsc::UnboundedReceiver<Duration>,
    /// Keeps the port while the server does not listen.
    pub(crate) reserved: TcpSocket,
}

impl Listener {
    pub(crate) async fn run(mut self, listener: TcpListener) {
        let mut listener = Some(listener);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = accept(listener.as_ref()), if connections.len() < CONNECTIONS => {
                    match accepted {
                        Ok((stream, _)) => {
                            let (api, tls) = (self.api.clone(), self.tls.clone());
                            connections.spawn(connect(api, tls, stream));
                        }
                        // Most likely no file descriptor is left: some connection must end first.
                        Err(_) => tokio::time::sleep(PAUSE).await,
                    }
                }
                Some(_) = connections.join_next() => {}
                command = self.commands.recv() => match command {
                    None => return,
                    Some(ListenerCommand::Stop(done)) => {
                        listener = None;
                        connections.shutdown().await;
                        // A test that does not wait for the answer does not need it.
                        let _ = done.send(());
                    }
                    Some(ListenerCommand::Start(done)) => {
                        let _ = done.send(self.listen(&mut listener));
                    }
                },
                Some(wait) = self.downtimes.recv() => {
                    // First let the answer to the command be sent.
                    tokio::time::sleep(PAUSE).await;
                    listener = None;
                    connections.shutdown().await;
                    tokio::time::sleep(wait).await;
                    if let Err(error) = self.listen(&mut listener) {
                        tracing::error!(%error, address = %self.address, "could not listen again");
                    }
                }
            }
        }
    }

    fn listen(&self, listener: &mut Option<TcpListener>) -> io::Result<()> {
        debug_assert_eq!(self.reserved.local_addr().ok(), Some(self.address));
        if listener.is_none() {
            *listener = Some(TcpListener::from_std(listen(self.address)?)?);
        }
        Ok(())
    }
}

/// Opens the port.
pub(crate) fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The next connection; none while the server does not listen.
async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Serves one connection to its end.
async fn connect(api: ApiHandler, tls: Option<TlsAcceptor>, stream: TcpStream) {
    // Without it small answers wait for the acknowledgement of the previous ones.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Some(tls) = tls else { return serve(api, None, stream).await };
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
    let caller = certificate.and_then(tls::caller_of);
    serve(api, caller, stream).await;
}

async fn serve(
    api: ApiHandler,
    caller: Option<RequestUser>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    let hangup = Arc::new(Notify::new());
    let caller = Arc::new(caller);
    let service = {
        let hangup = Arc::clone(&hangup);
        service_fn(move |request| {
            let (api, hangup, caller) = (api.clone(), Arc::clone(&hangup), Arc::clone(&caller));
            async move {
                match api.answer(request, caller.as_ref().as_ref()).await {
                    RequestOutcome::Response(response) => Ok(response),
                    RequestOutcome::Reset => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
                    RequestOutcome::Hangup => {
                        hangup.notify_one();
                        std::future::pending::<Result<_, Infallible>>()
                            .await
                            .map_err(|e| match e {})
                    }
                }
            }
        })
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    // As kube-apiserver's default.
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(250);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::select! {
        // How a client ends its connection does not matter.
        _ = connection => {}
        () = hangup.notified() => {}
    }
}
