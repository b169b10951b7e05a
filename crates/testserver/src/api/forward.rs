//! `pods/portforward` over a WebSocket, as in kubelet's portforward/websocket.go. There are no machines with pods: a port of a
//! pod is that of its address (`status.podIP`).

use std::net::IpAddr;

use futures::{SinkExt as _, StreamExt as _};
use http::request::Parts;
use http::{Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::ApiHandler;
use crate::failure::FailureStatus;
use crate::request::RequestTarget;
use crate::respond::Body;
use crate::store::{key_of, text};

/// The only protocol that is spoken: a binary message begins with the number of its channel.
const PROTOCOL: &str = "v4.channel.k8s.io";
/// The channels of the only port: its bytes, and why it cannot be used.
const DATA: u8 = 0;
const ERROR: u8 = 1;
/// The largest piece that is sent at once.
const PIECE: usize = 16 * 1024;

impl ApiHandler {
    /// Begins to forward the port that the query names.
    pub(super) fn forward(
        &self,
        parts: &Parts,
        target: &RequestTarget,
    ) -> Result<Response<Body>, FailureStatus> {
        let pods = target.id.kind().resource();
        let pod = self
            .shared
            .lock()
            .get(target.id, &key_of(target.namespace(), target.name()))
            .map(|pod| pod.value());
        let pod: Value = pod.ok_or_else(|| FailureStatus::not_found(pods, target.name()))?;
        let query = parts.uri.query().unwrap_or_default();
        let mut asked = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == "ports");
        let port = asked.next().and_then(|(_, port)| port.parse::<u16>().ok());
        let port = port.ok_or_else(|| {
            FailureStatus::bad_request("query parameter \"port\" is required".to_owned())
        })?;
        if text(&pod, "/status/phase") != "Running" {
            let why = format!(
                "unable to forward port because pod is not running. Current status={}",
                text(&pod, "/status/phase")
            );
            return Err(FailureStatus::bad_request(why));
        }
        let address = text(&pod, "/status/podIP").parse::<IpAddr>().ok();
        let key = parts.headers.get(header::SEC_WEBSOCKET_KEY);
        let upgrade = parts.extensions.get::<OnUpgrade>().cloned();
        let (Some(key), Some(upgrade)) = (key, upgrade) else {
            return Err(FailureStatus::bad_request(
                "unable to upgrade: missing upgrade headers".to_owned(),
            ));
        };
        let accepted = derive_accept_key(key.as_bytes());
        tokio::spawn(async move {
            // Whoever asked may be gone.
            let Ok(upgraded) = upgrade.await else { return };
            carry(upgraded, address, port).await;
        });
        let mut response =
            Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, header::HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, header::HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, header::HeaderValue::from_static(PROTOCOL));
        if let Ok(accepted) = header::HeaderValue::try_from(accepted) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
        }
        Ok(response)
    }
}

/// Carries bytes between a WebSocket and a port until either end closes.
async fn carry(upgraded: Upgraded, address: Option<IpAddr>, port: u16) {
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    let (mut to, mut from) = socket.split();
    for channel in [DATA, ERROR] {
        let [low, high] = port.to_le_bytes();
        if to.send(Message::binary(vec![channel, low, high])).await.is_err() {
            return;
        }
    }
    let connected = match address {
        Some(address) => {
            TcpStream::connect((address, port)).await.map_err(|error| error.to_string())
        }
        None => Err("the pod has no address".to_owned()),
    };
    let mut stream = match connected {
        Ok(stream) => stream,
        Err(why) => {
            let mut message = vec![ERROR];
            message.extend(format!("an error occurred forwarding {port} -> {port}: {why}").bytes());
            // Whoever asked may be gone. It closes the connection.
            let _ = to.send(Message::binary(message)).await;
            let _ = from.next().await;
            return;
        }
    };
    let mut piece = vec![0; PIECE];
    loop {
        tokio::select! {
            read = stream.read(&mut piece) => match read {
                Ok(n) if 0 < n => {
                    let mut message = vec![DATA];
                    message.extend_from_slice(&piece[..n]);
                    if to.send(Message::binary(message)).await.is_err() {
                        return;
                    }
                }
                _ => break,
            },
            message = from.next() => match message {
                Some(Ok(Message::Binary(bytes))) if bytes.first() == Some(&DATA) => {
                    if stream.write_all(&bytes[1..]).await.is_err() {
                        break;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
    // Whoever asked may be gone.
    let _ = to.close().await;
}
