//! Authentication and authorization.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::fixture::{ServerFixture, Signer, TOKEN, api_server};
use crate::fake::{FakeApiServer, FakeResponse};

const TOKEN_REVIEW: &str = "POST /apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEW: &str = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";

#[tokio::test]
async fn health_is_open_to_everybody_and_nothing_else_is() {
    let fake = api_server(|_| true);
    let server = ServerFixture::new(Some(&fake)).start().await;
    for path in ["/healthz", "/livez?verbose", "/readyz"] {
        assert_eq!(server.get(path, &[]).await.code, 200, "{path}");
    }
    assert!(fake.lines().is_empty(), "nobody has to be asked");
    for path in ["/healthz/ping", "/metrics", "/explain?pod=a/b", "/configz", "/nothing"] {
        assert_eq!(server.get(path, &[]).await.code, 403, "{path}");
    }
    let answer = server.get("/metrics", &[]).await;
    let message = "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"";
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": "Forbidden", "details": {}, "code": 403,
    });
    assert_eq!(answer.json(), expected);
    assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
    assert!(answer.head.contains("cache-control: no-cache, private"), "{}", answer.head);
    assert!(answer.head.contains("x-content-type-options: nosniff"), "{}", answer.head);
}

#[tokio::test]
async fn a_forged_token_gets_401_wherever_it_is_shown_and_the_api_server_is_asked_once() {
    let fake = api_server(|_| true);
    let server = ServerFixture::new(Some(&fake)).start().await;
    for path in ["/metrics", "/healthz", "/metrics"] {
        let answer = server.get(path, &[("Authorization", "Bearer forged")]).await;
        assert_eq!(answer.code, 401, "{path}");
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
        });
        assert_eq!(answer.json(), expected);
    }
    assert_eq!(fake.lines(), [TOKEN_REVIEW]);
}

#[tokio::test]
async fn a_user_without_rights_gets_403_and_answers_hold_for_a_while() {
    let fake = api_server(|path| path == "/metrics");
    let server = ServerFixture::new(Some(&fake)).start().await;
    for _ in 0..2 {
        assert_eq!(server.get_as_jane("/metrics").await.code, 200);
        let answer = server.get_as_jane("/configz").await;
        assert_eq!(answer.code, 403);
        let message = "forbidden: User \"jane\" cannot get path \"/configz\"";
        assert_eq!(answer.json()["message"], message);
    }
    assert_eq!(fake.lines(), [TOKEN_REVIEW, ACCESS_REVIEW, ACCESS_REVIEW]);
    // Another verb is a different question.
    server
        .ask(None, "DELETE", "/metrics", &[("Authorization", &format!("Bearer {TOKEN}"))], "")
        .await;
    let asked = fake.requests().pop().expect("it was asked").body;
    let expected = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "nonResourceAttributes": { "path": "/metrics", "verb": "delete" },
            "user": "jane", "uid": "7", "groups": ["devs", "system:authenticated"],
            "extra": { "a": ["b"] },
        },
    });
    assert_eq!(asked, expected);
    assert_eq!(*server.scheduler.resets.lock().expect("nobody panicked"), 1);
}

#[tokio::test]
async fn answers_do_not_hold_longer_than_they_may() {
    let fake = api_server(|_| true);
    let mut setup = ServerFixture::new(Some(&fake));
    setup.options.authentication.token_cache_ttl = std::time::Duration::ZERO;
    setup.options.authorization.allow_ttl = std::time::Duration::ZERO;
    let server = setup.start().await;
    for _ in 0..2 {
        assert_eq!(server.get_as_jane("/metrics").await.code, 200);
    }
    assert_eq!(fake.lines(), [TOKEN_REVIEW, ACCESS_REVIEW, TOKEN_REVIEW, ACCESS_REVIEW]);
}

#[tokio::test]
async fn what_the_api_server_does_not_say_is_nobodys_right() {
    // The scheduler may not create reviews.
    let refused = || FakeResponse::error(403, "Forbidden", "cannot create reviews");
    let fake = FakeApiServer::new(move |_, _| refused());
    let server = ServerFixture::new(Some(&fake)).start().await;
    assert_eq!(server.get_as_jane("/metrics").await.code, 401);
    let answer = server.get("/metrics", &[]).await;
    assert_eq!(answer.code, 500);
    assert_eq!(answer.body, "Internal Server Error: \"/metrics\": cannot create reviews\n");
    // The API server is asked again, since it may be able to answer now.
    assert_eq!(server.get("/metrics", &[]).await.code, 500);
    assert_eq!(fake.lines(), [TOKEN_REVIEW, ACCESS_REVIEW, ACCESS_REVIEW]);
    // Health checks remain open.
    assert_eq!(server.get("/healthz", &[]).await.code, 200);
}

#[tokio::test]
async fn without_an_api_server_only_what_is_open_is_served() {
    let server = ServerFixture::new(None).start().await;
    assert_eq!(server.get("/healthz", &[]).await.code, 200);
    assert_eq!(server.get_as_jane("/metrics").await.code, 403);
}

#[tokio::test]
async fn a_client_is_who_its_certificate_says() {
    let fake = api_server(|path| path == "/configz");
    let (authority, stranger) = (Signer::new("clients"), Signer::new("clients"));
    let mut setup = ServerFixture::new(Some(&fake));
    setup.options.authentication.client_ca_file = Some(setup.file("ca.crt", &authority.pem));
    let server = setup.start().await;
    let jane = authority.client("jane", &["devs"]);
    assert_eq!(server.ask(Some(&jane), "GET", "/configz", &[], "").await.code, 200);
    let spec = fake.requests().pop().expect("it was asked").body["spec"].clone();
    assert_eq!(spec["groups"], json!(["devs", "system:authenticated"]));
    let id = spec["extra"]["authentication.kubernetes.io/credential-id"][0].as_str();
    assert!(id.is_some_and(|id| id.starts_with("X509SHA256=") && id.len() == 11 + 64), "{spec}");
    // For the group of administrators the API server is not asked.
    let admin = authority.client("admin", &["system:masters"]);
    let before = fake.lines().len();
    assert_eq!(server.ask(Some(&admin), "GET", "/metrics", &[], "").await.code, 200);
    assert_eq!(fake.lines().len(), before);
    // A certificate of an unknown authority is refused like a forged token, unless there is a valid
    // token.
    let forged = stranger.client("admin", &["system:masters"]);
    assert_eq!(server.ask(Some(&forged), "GET", "/healthz", &[], "").await.code, 401);
    let token = format!("Bearer {TOKEN}");
    let headers = [("Authorization", token.as_str())];
    assert_eq!(server.ask(Some(&forged), "GET", "/configz", &headers, "").await.code, 200);
    // A server certificate does not authenticate a client.
    let own = authority.server("admin");
    assert_eq!(server.ask(Some(&own), "GET", "/healthz", &[], "").await.code, 401);
}

#[tokio::test]
async fn a_proxy_is_believed_if_it_is_one() {
    let fake = api_server(|_| true);
    let (proxies, others) = (Signer::new("proxies"), Signer::new("others"));
    let mut setup = ServerFixture::new(Some(&fake));
    let ca = setup.file("proxy-ca.crt", &proxies.pem);
    setup.options.authentication.proxy.client_ca_file = Some(ca);
    setup.options.authentication.proxy.allowed_names = vec!["front".to_owned()];
    let server = setup.start().await;
    let says = [
        ("X-Remote-User", "jane"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Why", "c"),
    ];
    let front = proxies.client("front", &[]);
    assert_eq!(server.ask(Some(&front), "GET", "/metrics", &says, "").await.code, 200);
    let spec = fake.requests().pop().expect("it was asked").body["spec"].clone();
    assert_eq!(spec["groups"], json!(["a", "b", "system:authenticated"]));
    assert_eq!(spec["extra"], json!({ "why": ["c"] }));
    for not_one in [proxies.client("other", &[]), others.client("front", &[])] {
        assert_eq!(server.ask(Some(&not_one), "GET", "/metrics", &says, "").await.code, 401);
    }
    // Without a certificate the headers of proxies are ignored.
    assert_eq!(server.get("/metrics", &says).await.code, 403);
}

#[tokio::test]
async fn authorities_are_looked_up_in_the_cluster() {
    let authority = Signer::new("clients");
    let pem = authority.pem.clone();
    let fake = FakeApiServer::new(move |seen, _| {
        let map =
            "GET /api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
        match seen.line == map {
            true => FakeResponse::Response(200, json!({ "data": { "client-ca-file": pem } })),
            false => FakeResponse::Response(201, json!({ "status": { "allowed": false } })),
        }
    });
    let mut setup = ServerFixture::new(Some(&fake));
    setup.options.authentication.skip_lookup = false;
    let server = setup.start().await;
    let admin = authority.client("admin", &["system:masters"]);
    assert_eq!(server.ask(Some(&admin), "GET", "/metrics", &[], "").await.code, 200);
}

#[tokio::test]
async fn a_lookup_that_fails_matters_if_the_flag_says_so() {
    let fake = FakeApiServer::new(|_, _| FakeResponse::not_found());
    for (tolerant, starts) in [(true, true), (false, false)] {
        let mut setup = ServerFixture::new(Some(&fake));
        setup.options.authentication.skip_lookup = false;
        setup.options.authentication.tolerate_lookup_failure = tolerant;
        match setup.try_start().await {
            Ok(server) => {
                assert!(starts);
                assert_eq!(server.get("/healthz", &[]).await.code, 200);
            }
            Err(error) => {
                assert!(!starts, "{error}");
                let message = error.to_string();
                assert!(message.contains("--authentication-tolerate-lookup-failure"), "{message}");
            }
        }
    }
}

/// A log in memory.
#[derive(Clone, Default)]
struct RequestLogLines(Arc<Mutex<Vec<u8>>>);

impl Write for RequestLogLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_secret_is_logged_however_much_is_logged() {
    let log = RequestLogLines::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // If this were the only subscriber, a log statement that another test's thread reaches first would
    // be disabled for all threads, since that thread logs nothing.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let fake = FakeApiServer::new(|seen, before| {
        match seen.line.contains("tokenreviews") && before == 0 {
            true => FakeResponse::error(403, "Forbidden", "no reviews"),
            false => FakeResponse::Response(201, json!({ "status": { "authenticated": false } })),
        }
    });
    let setup = ServerFixture::new(Some(&fake));
    let key = std::fs::read_to_string(setup.files.path().join("tls.key")).expect("it is there");
    let server = setup.start().await;
    for _ in 0..2 {
        assert_eq!(server.get_as_jane("/metrics").await.code, 401);
    }
    server.stop.cancel();
    server.ended.await.expect("it ends");
    let log = String::from_utf8_lossy(&log.0.lock().expect("nobody panicked")).into_owned();
    assert!(log.contains("Unable to authenticate the request"), "{log}");
    assert!(!log.contains(TOKEN), "the token is in the log");
    let secret = key.lines().nth(1).expect("a key has lines");
    assert!(!log.contains(secret), "the key is in the log");
}
