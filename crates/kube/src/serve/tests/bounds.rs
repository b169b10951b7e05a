//! Limits and timeouts of clients.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::fixture::{RunningServer, ServerFixture, TOKEN, answer, api_server};
use crate::serve::limits::{self, Patience};

/// Longer than anything here takes on a busy machine.
const GENEROUS: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_head_that_is_too_large_gets_431() {
    let server = ServerFixture::new(None).start().await;
    let long = "x".repeat(usize::try_from(limits::HEAD_BYTES).expect("it fits") * 4);
    let answer = server.get("/healthz", &[("X-Long", &long)]).await;
    assert_eq!(answer.code, 431);
    let token = "y".repeat(16 * 1024);
    let answer = server.get("/healthz", &[("Authorization", &format!("Basic {token}"))]).await;
    assert_eq!(answer.code, 200, "long tokens have room");
    let many = vec![("X", "y"); limits::HEADERS + 1];
    assert_eq!(server.get("/healthz", &many).await.code, 431);
}

#[tokio::test]
async fn a_body_that_is_too_large_gets_413_whether_it_says_how_long_it_is_or_not() {
    let fake = api_server(|_| true);
    let server = ServerFixture::new(Some(&fake)).start().await;
    let token = format!("Bearer {TOKEN}");
    let long = "1".repeat(limits::BODY_BYTES + 1);
    let headers = [("Authorization", token.as_str())];
    let answered = server.ask(None, "PUT", "/debug/flags/v", &headers, &long).await;
    assert_eq!(answered.code, 413);
    let mut stream = server.connect(None).await;
    let request = format!(
        "PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {token}\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
        long.len()
    );
    stream.write_all(request.as_bytes()).await.expect("it takes it");
    assert_eq!(answer(&mut stream).await.code, 413);
}

#[tokio::test]
async fn a_client_that_asks_too_often_is_told_to_wait() {
    let server = ServerFixture::new(None).start().await;
    let mut stream = server.connect(None).await;
    let request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".repeat(400);
    let last = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all((request + last).as_bytes()).await.expect("it takes it");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).expect("it is text");
    let refused = text.matches("HTTP/1.1 429").count();
    // The number of tokens that are added meanwhile depends on the speed of the machine.
    assert!(0 < refused && refused <= 301, "{refused}");
    assert!(text.to_ascii_lowercase().contains("retry-after: 1"));
}

#[tokio::test]
async fn a_client_that_takes_too_long_is_left() {
    let soon = Duration::from_millis(200);
    let patience =
        Patience { handshake: soon, head: soon, idle: soon, look: soon, ..Patience::default() };
    let server = ServerFixture { patience, ..ServerFixture::new(None) }.start().await;
    // It does not start a handshake.
    let mut silent = tokio::net::TcpStream::connect(server.address).await.expect("it listens");
    let read = tokio::time::timeout(GENEROUS, silent.read_to_end(&mut Vec::new())).await;
    assert!(read.is_ok(), "a silent client is left");
    // It never completes its request.
    let mut slow = server.connect(None).await;
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHos").await.expect("it takes it");
    let read = tokio::time::timeout(GENEROUS, slow.read_to_end(&mut Vec::new())).await;
    assert!(read.is_ok(), "a slow client is left");
    // It sends nothing over HTTP/2.
    let idle = server.connect_by(None, &[b"h2"], "localhost").await;
    let mut idle = idle.expect("the server takes anybody");
    let read = tokio::time::timeout(GENEROUS, idle.read_to_end(&mut Vec::new())).await;
    assert!(read.is_ok(), "an idle client is left");
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_is_left() {
    let soon = Duration::from_millis(200);
    let patience = Patience { request: soon, look: soon, ..Patience::default() };
    let fake = api_server(|_| true);
    let mut setup = ServerFixture { patience, ..ServerFixture::new(Some(&fake)) };
    // More than all buffers in between hold.
    let pod = plimsoll_framework::PodInfo::new({
        let mut pod = plimsoll_api::Pod::default();
        pod.asks.fit.milli_cpu = 1;
        pod
    });
    let scheduler = std::sync::Arc::get_mut(&mut setup.scheduler).expect("nobody else has it yet");
    scheduler.pods = vec![pod; 200_000];
    let server = setup.start().await;
    let mut stream = server.connect(None).await;
    let request = format!(
        "GET /metrics/resources HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("it takes it");
    let mut head = [0; 15];
    stream.read_exact(&mut head).await.expect("it begins to answer");
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    // Nothing more is read until the server has closed the connection, before the answer is complete.
    let left = async {
        while server.state.connections.count() != 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(GENEROUS, left).await.expect("the client is left");
    let mut rest = Vec::new();
    let read = tokio::time::timeout(GENEROUS, stream.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "the connection ends");
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the answer is not whole");
}

#[tokio::test]
async fn a_client_with_too_many_connections_loses_the_oldest() {
    let server = ServerFixture::new(None).start().await;
    let mut first = server.connect(None).await;
    let mut others = Vec::new();
    for _ in 0..limits::CONNECTIONS_PER_CLIENT {
        others.push(server.connect(None).await);
    }
    assert_eq!(server.state.connections.count(), limits::CONNECTIONS_PER_CLIENT);
    let closed = tokio::time::timeout(GENEROUS, first.read_to_end(&mut Vec::new())).await;
    assert!(closed.is_ok(), "the oldest had to go");
    assert_eq!(server.get("/livez", &[]).await.code, 200, "one more is let in");
}

/// A connection from an address of this machine.
async fn connect_from(server: &RunningServer, last: u8) -> tokio::net::TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().expect("there is a socket");
    let from = std::net::SocketAddr::from(([127, 0, 0, last], 0));
    socket.bind(from).expect("it is an address of this machine");
    socket.connect(server.address).await.expect("it takes connections")
}

#[tokio::test]
async fn connections_that_do_nothing_keep_no_probe_out() {
    let server = ServerFixture::new(None).start().await;
    let mut silent = Vec::new();
    // More connections than allowed in total, but from no address more than allowed.
    for number in 0..limits::CONNECTIONS + limits::CONNECTIONS_PER_CLIENT {
        let last = u8::try_from(2 + number % 5).expect("it is small");
        silent.push(connect_from(&server, last).await);
        if number % 16 == 0 {
            assert_eq!(server.get("/livez", &[]).await.code, 200, "after {number} connections");
        }
    }
    for _ in 0..20 {
        assert_eq!(server.get("/livez", &[]).await.code, 200);
    }
    assert!(server.state.connections.count() <= limits::CONNECTIONS);
}

#[tokio::test]
async fn in_a_crowd_clients_get_less_time_to_shake_hands() {
    let patience = Patience {
        handshake: Duration::from_hours(1),
        handshake_in_a_crowd: Duration::from_millis(200),
        ..Patience::default()
    };
    let server = ServerFixture { patience, ..ServerFixture::new(None) }.start().await;
    let mut first = connect_from(&server, 2).await;
    // Its timeout starts before there are many connections.
    while server.state.connections.count() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.get("/livez", &[]).await.code, 200);
    let mut silent = Vec::new();
    for number in 0..limits::CROWD {
        let last = u8::try_from(2 + number % 4).expect("it is small");
        silent.push(connect_from(&server, last).await);
    }
    let mut last = silent.pop().expect("they were just made");
    let left = tokio::time::timeout(GENEROUS, last.read_to_end(&mut Vec::new())).await;
    assert!(left.is_ok(), "who says nothing in a crowd is left soon");
    assert_eq!(server.get("/livez", &[]).await.code, 200, "who shakes hands is let in");
    let kept = tokio::time::timeout(Duration::from_millis(50), first.read(&mut [0])).await;
    assert!(kept.is_err(), "who came before has the time that it was given");
}

#[tokio::test]
async fn a_server_that_stops_ends() {
    let server = ServerFixture::new(None).start().await;
    let _idle = server.connect(None).await;
    assert_eq!(server.get("/healthz", &[]).await.code, 200);
    server.stop.cancel();
    let ended = tokio::time::timeout(GENEROUS, server.ended).await;
    ended.expect("it ends in time").expect("it does not panic");
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err(), "nobody listens");
}
