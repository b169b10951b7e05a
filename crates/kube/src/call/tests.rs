use super::*;
use crate::fake::{FakeApiServer, FakeResponse};

const TIMEOUT: Duration = Duration::from_secs(10);

async fn fails(reply: FakeResponse) -> ApiError {
    let fake = FakeApiServer::new(move |_, _| reply.clone());
    let request = ApiRequest::post("/api/v1/pods".to_owned(), b"{}".to_vec());
    send(&fake.client().into(), &request, TIMEOUT).await.expect_err("it does not succeed")
}

#[tokio::test(start_paused = true)]
async fn an_unsent_request_and_a_missing_response_are_different_errors() {
    assert!(matches!(fails(FakeResponse::Unreachable).await, ApiError::NotSent(_)));
    assert!(matches!(fails(FakeResponse::Broken).await, ApiError::NoResponse(_)));
    let silent = fails(FakeResponse::Silence).await;
    let text = "Post \"/api/v1/pods\": context deadline exceeded";
    assert_eq!(silent, ApiError::NoResponse(text.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn errors_have_the_message_of_the_api_server() {
    let explained = fails(FakeResponse::error(409, "Conflict", "pod p is already assigned")).await;
    assert_eq!(explained.to_string(), "pod p is already assigned");
    assert_eq!(explained.code(), Some(StatusCode::CONFLICT));
    let unexplained = fails(FakeResponse::RetryAfter(429, 7)).await;
    let text = "the server has received too many requests and has asked us to try again later \
                (post /api/v1/pods)";
    assert_eq!(unexplained.to_string(), text);
    assert_eq!(unexplained.retry_after(), Some(Duration::from_secs(7)));
}

#[tokio::test(start_paused = true)]
async fn the_api_server_has_a_shorter_timeout() {
    let fake =
        FakeApiServer::new(|_, _| FakeResponse::Response(200, serde_json::json!({ "a": 1 })));
    let read =
        send_and_read(&fake.client().into(), &ApiRequest::get("/x".to_owned()), TIMEOUT).await;
    assert_eq!(read.expect("it is answered"), &b"{\"a\":1}"[..]);
    let seen = fake.requests();
    assert_eq!((seen[0].line.as_str(), seen[0].query.as_str()), ("GET /x", "timeout=8s"));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_too_long_is_an_error() {
    let long = serde_json::Value::String("x".repeat(RESPONSE_LIMIT));
    let fake = FakeApiServer::new(move |_, _| FakeResponse::Response(200, long.clone()));
    let read =
        send_and_read(&fake.client().into(), &ApiRequest::get("/x".to_owned()), TIMEOUT).await;
    let error = read.expect_err("it is too long").to_string();
    assert!(error.contains("longer than"), "{error}");
}

#[tokio::test]
async fn a_request_without_a_connection_was_not_sent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let config = kube::Config::new(format!("http://{address}").parse().expect("a URI"));
    let client = kube::Client::try_from(config).expect("it needs no files");
    let request = ApiRequest::post("/api/v1/pods".to_owned(), b"{}".to_vec());
    let failed = send(&client.into(), &request, TIMEOUT).await.expect_err("nobody listens");
    assert!(matches!(failed, ApiError::NotSent(_)), "{failed:?}");
}

#[test]
fn names_cannot_leave_their_segment() {
    assert_eq!(segment("web-0.x"), "web-0.x");
    assert_eq!(segment("a/b?c#d%"), "a%2Fb%3Fc%23d%25");
}
