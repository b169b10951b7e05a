//! Which certificate the server presents, and which protocols it offers.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use super::fixture::{FakeScheduler, ServerFixture, Signer};
use crate::serve::limits::Patience;
use crate::serve::options::{Options, ServingOptions};
use crate::serve::server::Server;
use crate::serve::{Clients, ProcessInfo, ServerSources};

const GENEROUS: Duration = Duration::from_secs(30);

#[tokio::test]
async fn http_2_is_spoken_with_those_who_want_it_unless_it_is_off() {
    for (disabled, spoken) in [(false, Some(&b"h2"[..])), (true, Some(&b"http/1.1"[..]))] {
        let mut setup = ServerFixture::new(None);
        setup.options.serving.disable_http2 = disabled;
        let server = setup.start().await;
        let stream = server.connect_by(None, &[b"h2", b"http/1.1"], "localhost").await;
        let stream = stream.expect("the server takes anybody");
        assert_eq!(stream.get_ref().1.alpn_protocol(), spoken);
        if disabled {
            continue;
        }
        let handshake =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.expect("it speaks HTTP/2");
        let connection = tokio::spawn(connection);
        let request = http::Request::get("https://localhost/healthz");
        let request = request.body(Empty::<bytes::Bytes>::new()).expect("a request");
        let response = sender.send_request(request).await.expect("it answers");
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.expect("it is all there").to_bytes();
        assert_eq!(&body[..], b"ok");
        connection.abort();
    }
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_shown_from_then_on() {
    let patience = Patience { files: Duration::from_millis(20), ..Patience::default() };
    let server = ServerFixture { patience, ..ServerFixture::new(None) }.start().await;
    server.connect(None).await;
    // A certificate without its key is unusable, so the old pair stays.
    let new = server.signer.server("renewed.test");
    std::fs::write(server.files.path().join("tls.crt"), &new.cert).expect("there is room");
    server.connect(None).await;
    std::fs::write(server.files.path().join("tls.key"), &new.key).expect("there is room");
    let renewed = async {
        while server.connect_by(None, &[], "renewed.test").await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(GENEROUS, renewed).await.expect("it is taken up");
    assert!(server.connect_by(None, &[], "localhost").await.is_err(), "the old one is gone");
}

#[tokio::test]
async fn names_have_certificates_of_their_own() {
    let mut setup = ServerFixture::new(None);
    let other = setup.signer.server("other.test");
    let (cert, key) = (setup.file("sni.crt", &other.cert), setup.file("sni.key", &other.key));
    setup.options.serving.sni = vec![format!("{},{}", cert.display(), key.display())];
    let server = setup.start().await;
    for name in ["localhost", "other.test"] {
        assert!(server.connect_by(None, &[], name).await.is_ok(), "{name}");
    }
    assert!(server.connect_by(None, &[], "third.test").await.is_err());
}

#[tokio::test]
async fn what_cannot_be_used_is_told_before_anybody_is_let_in() {
    let not_one = Signer::new("x").server("localhost");
    for (name, text, message) in [
        ("tls.crt", "hello", "there is no certificate in the file"),
        ("tls.key", "hello", "there is no private key in PEM in the file"),
        ("tls.key", not_one.key.as_str(), "serving certificate"),
    ] {
        let setup = ServerFixture::new(None);
        setup.file(name, text);
        let error = setup.try_start().await.err().expect("it cannot be used").to_string();
        assert!(error.contains(message), "{error}");
        assert!(!error.contains(text), "keys are not shown");
    }
    let setup = ServerFixture::new(None);
    std::fs::remove_file(setup.files.path().join("tls.key")).expect("it is there");
    let error = setup.try_start().await.err().expect("it is not there").to_string();
    assert!(error.contains("--tls-private-key-file"), "{error}");
}

#[tokio::test]
async fn without_files_the_server_certifies_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let ask = ServerSources {
        scheduler: Arc::new(FakeScheduler::default()),
        clients: Clients::default(),
        process: ProcessInfo::default(),
    };
    let server = Server::on(listener, &Options::default(), ask).await.expect("it makes one");
    assert!(server.address().is_some());
}

#[tokio::test]
async fn port_0_serves_nothing_and_wrong_options_are_all_told() {
    let ask = || ServerSources {
        scheduler: Arc::new(FakeScheduler::default()),
        clients: Clients::default(),
        process: ProcessInfo::default(),
    };
    let serving = ServingOptions { port: 0, ..ServingOptions::default() };
    let off = Server::bind(&Options { serving, ..Options::default() }, ask()).await;
    assert!(off.expect("nothing is wrong").is_none());
    let serving = ServingOptions {
        port: -1,
        cipher_suites: vec!["ROT13".to_owned()],
        ..ServingOptions::default()
    };
    let error = Server::bind(&Options { serving, ..Options::default() }, ask()).await;
    let error = error.expect_err("it is wrong").to_string();
    assert!(error.contains("--secure-port") && error.contains("ROT13"), "{error}");
}
