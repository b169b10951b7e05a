//! TLS: which protocol is spoken, whom we trust, and who we are by certificate.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use http::{Request, Version};
use kube::client::Body;
use plimsoll_kube::client::{Access, Connection, connect, explain};
use plimsoll_kube::limit::Rate;
use plimsoll_testserver::{Options, Right, TestServer, User};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::fake::PATIENCE;

/// A kubeconfig with `user` in a directory of its own.
fn kubeconfig(server: &TestServer, user: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let text = server.kubeconfig();
    let (before, after) = text.split_once("    token: ").expect("it has a token");
    let after = after.split_once('\n').expect("more follows").1;
    write(dir.path(), "config", &format!("{before}{user}{after}"));
    dir
}

fn write(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).expect("the directory can be written");
}

async fn connection(dir: &TempDir) -> Connection {
    let access = Access { kubeconfig: Some(dir.path().join("config")), ..Access::default() };
    connect(access, Arc::default()).await.expect("the kubeconfig is right")
}

async fn ask(client: &kube::Client) -> Result<(u16, Version), String> {
    let request = Request::get("/api/v1/nodes").body(Body::empty()).expect("it is well-formed");
    let answer = client.send(request).await.map_err(|error| explain(&error))?;
    Ok((answer.status().as_u16(), answer.version()))
}

fn may_do_all(name: &str) -> User {
    let (name, token) = (name.to_owned(), format!("token-of-{name}"));
    User { token, name, groups: Vec::new(), rights: vec![Right::everything()] }
}

#[tokio::test]
async fn http_2_is_spoken_where_tls_offers_it_and_http_1_elsewhere() {
    for (options, version) in
        [(Options::default(), Version::HTTP_2), (Options::default().plain(), Version::HTTP_11)]
    {
        let server = TestServer::start(options);
        let dir = kubeconfig(&server, "    token: any\n");
        let client = connection(&dir).await.client("", Rate::default());
        assert_eq!(ask(&client).await, Ok((200, version)));
    }
}

#[tokio::test]
async fn a_certificate_in_the_kubeconfig_says_who_we_are() {
    let users = vec![may_do_all("system:kube-scheduler")];
    let options = Options { users, authenticate: true, ..Options::default() };
    let server = TestServer::start(options);
    let pair = server.client_certificate("system:kube-scheduler", &[]).expect("it has TLS");
    let dir = kubeconfig(&server, "    client-certificate: c.pem\n    client-key: k.pem\n");
    write(dir.path(), "c.pem", &pair.certificate);
    write(dir.path(), "k.pem", &pair.key);
    let client = connection(&dir).await.client("", Rate::default());
    assert_eq!(ask(&client).await, Ok((200, Version::HTTP_2)));
}

#[tokio::test]
async fn credentials_that_were_replaced_are_used_once_the_old_ones_are_refused() {
    let options =
        Options { users: vec![may_do_all("new")], authenticate: true, ..Options::default() };
    let server = TestServer::start(options);
    let dir = kubeconfig(&server, "    token: expired\n");
    let client = connection(&dir).await.client("", Rate::UNLIMITED);
    let text = fs::read_to_string(dir.path().join("config")).expect("it was written");
    write(dir.path(), "config", &text.replace("expired", "token-of-new"));
    assert_eq!(ask(&client).await.map(|(code, _)| code), Ok(401));
    let renewed = async {
        while ask(&client).await.map(|(code, _)| code) != Ok(200) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, renewed).await.expect("the new ones are read");
}

#[tokio::test]
async fn a_server_whose_authority_is_not_ours_is_not_trusted_and_the_error_says_what_to_check() {
    let (server, other) =
        (TestServer::start(Options::default()), TestServer::start(Options::default()));
    let dir = kubeconfig(&server, "    token: any\n");
    let text = fs::read_to_string(dir.path().join("config")).expect("it was written");
    write(dir.path(), "config", &text.replace(&server.url(), &other.url()));
    let client = connection(&dir).await.client("", Rate::default());
    let error = ask(&client).await.expect_err("it is another authority's");
    assert!(error.contains("invalid peer certificate"), "{error}");
    assert!(error.contains("certificate-authority of the kubeconfig"), "{error}");
}

#[tokio::test]
async fn a_name_to_check_the_certificate_against_may_be_given() {
    let server = TestServer::start(Options::default());
    for (name, is_trusted) in [("kubernetes", true), ("elsewhere", false)] {
        let dir = kubeconfig(&server, "    token: any\n");
        let text = fs::read_to_string(dir.path().join("config")).expect("it was written");
        let named =
            text.replace("    server: ", &format!("    tls-server-name: {name}\n    server: "));
        write(dir.path(), "config", &named);
        let client = connection(&dir).await.client("", Rate::default());
        assert_eq!(ask(&client).await.is_ok(), is_trusted, "{name}");
    }
}

/// A proxy that passes on what is asked of it, and says what that was.
async fn proxy() -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut client = BufReader::new(client);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    client.read_line(&mut head).await?;
                }
                let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let _ = sender.send(head);
                let mut server = TcpStream::connect(target).await?;
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await?;
                server.read_u8().await
            });
        }
    });
    (address, receiver)
}

#[tokio::test]
async fn a_proxy_in_the_kubeconfig_is_used() {
    let server = TestServer::start(Options::default());
    let (address, mut asked) = proxy().await;
    let dir = kubeconfig(&server, "    token: any\n");
    let text = fs::read_to_string(dir.path().join("config")).expect("it was written");
    let through = format!("    proxy-url: http://me:word@{address}\n    server: ");
    write(dir.path(), "config", &text.replace("    server: ", &through));
    let client = connection(&dir).await.client("", Rate::default());
    assert_eq!(ask(&client).await, Ok((200, Version::HTTP_2)));
    let head = asked.recv().await.expect("it was asked").to_lowercase();
    assert!(head.starts_with(&format!("connect {}", server.address())), "{head}");
    assert!(head.contains("proxy-authorization: basic "), "{head}");
}
