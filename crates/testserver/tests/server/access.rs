//! Who may do what: tokens, certificates, reviews.

use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use plimsoll_testserver::{Options, Right, TestServer, User};
use serde_json::{Value, json};

use super::kit::{client, get, post};

fn user(name: &str, token: &str, rights: Vec<Right>) -> User {
    let groups = vec!["team".to_owned()];
    User { token: token.to_owned(), name: name.to_owned(), groups, rights }
}

fn guarded() -> TestServer {
    let rights =
        vec![Right::on("", &["pods"], &["list"]), Right::on_paths(&["/metrics"], &["get"])];
    let users = vec![user("ann", "token-of-ann", rights)];
    TestServer::start(Options { users, authenticate: true, ..Options::default() })
}

/// A client with changed credentials.
async fn client_with(server: &TestServer, change: impl FnOnce(&mut AuthInfo)) -> Client {
    let mut config = Kubeconfig::from_yaml(&server.kubeconfig()).expect("a kubeconfig");
    let mut auth = AuthInfo::default();
    change(&mut auth);
    config.auth_infos[0].auth_info = Some(auth);
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options).await.expect("it is valid");
    Client::try_from(config).expect("it makes a client")
}

async fn client_of(server: &TestServer, token: &str) -> Client {
    let config = Kubeconfig::from_yaml(&server.kubeconfig_of(token)).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options).await.expect("it is valid");
    Client::try_from(config).expect("it makes a client")
}

#[tokio::test]
async fn a_token_opens_what_its_user_may_do() {
    let server = guarded();
    let ann = client_of(&server, "token-of-ann").await;
    assert_eq!(get(&ann, "/api/v1/pods").await.0, 200);
    let (code, status) = get(&ann, "/api/v1/nodes").await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        status["message"],
        "nodes is forbidden: User \"ann\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
    );
    let forged = client_of(&server, "forged").await;
    let (code, status) = get(&forged, "/api/v1/pods").await;
    assert_eq!((code, &status["message"]), (401, &json!("Unauthorized")));
    let admin = client(&server).await;
    assert_eq!(get(&admin, "/api/v1/nodes").await.0, 200);
    let nobody = client_with(&server, |_| {}).await;
    assert_eq!(get(&nobody, "/api/v1/pods").await.0, 403);
    assert_eq!(get(&nobody, "/healthz").await.0, 200);
    server.access().set_users(Vec::new());
    assert_eq!(get(&ann, "/api/v1/pods").await.0, 401);
}

#[tokio::test]
async fn a_certificate_opens_what_its_group_may_do() {
    let server = guarded();
    let with = async |groups: &[&str]| {
        let certificate = server.client_certificate("bob", groups).expect("it has TLS");
        client_with(&server, |auth| {
            let encode = |pem: &str| {
                use base64::Engine;
                base64::prelude::BASE64_STANDARD.encode(pem)
            };
            auth.client_certificate_data = Some(encode(&certificate.certificate));
            auth.client_key_data = Some(encode(&certificate.key).into());
        })
        .await
    };
    assert_eq!(get(&with(&["system:masters"]).await, "/api/v1/nodes").await.0, 200);
    let (code, status) = get(&with(&[]).await, "/api/v1/nodes").await;
    assert_eq!(code, 403);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("User \"bob\" cannot list"), "{message}");
}

async fn reviewed(client: &Client, group: &str, kind: &str, spec: Value) -> Value {
    let plural = format!("{}s", kind.to_ascii_lowercase());
    let review = json!({ "apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec });
    let (code, review) = post(client, &format!("/apis/{group}/v1/{plural}"), review).await;
    assert_eq!(code, 201);
    review
}

#[tokio::test]
async fn reviews_are_answered_from_the_table() {
    let server = guarded();
    let client = client(&server).await;
    let group = "authentication.k8s.io";
    let token = reviewed(&client, group, "TokenReview", json!({"token": "token-of-ann"})).await;
    assert_eq!(token["status"]["authenticated"], true);
    assert_eq!(token["status"]["user"]["username"], "ann");
    assert_eq!(token["status"]["user"]["groups"], json!(["team", "system:authenticated"]));
    assert!(!token.to_string().contains("token-of-ann"));
    let forged = reviewed(&client, group, "TokenReview", json!({"token": "forged"})).await;
    assert_ne!(forged["status"]["authenticated"], true);

    let may = async |attributes: Value| {
        let mut spec = json!({"user": "ann", "groups": ["team"]});
        spec.as_object_mut()
            .expect("an object")
            .extend(attributes.as_object().expect("one").clone());
        let review = reviewed(&client, "authorization.k8s.io", "SubjectAccessReview", spec).await;
        review["status"]["allowed"].clone()
    };
    assert_eq!(
        may(json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}})).await,
        true
    );
    assert_eq!(
        may(json!({"nonResourceAttributes": {"path": "/configz", "verb": "get"}})).await,
        false
    );
    let pods = |verb: &str| json!({"resourceAttributes": {"resource": "pods", "verb": verb}});
    assert_eq!(may(pods("list")).await, true);
    assert_eq!(may(pods("delete")).await, false);
    assert_eq!(server.counts().requests("create", "subjectaccessreviews"), 4);
}
