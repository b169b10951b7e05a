use super::*;
use crate::fake::{Fake, Reply};

const TIMEOUT: Duration = Duration::from_secs(10);

async fn fails(reply: Reply) -> Failed {
    let fake = Fake::new(move |_, _| reply.clone());
    let ask = Ask::post("/api/v1/pods".to_owned(), b"{}".to_vec());
    tell(&fake.client().into(), &ask, TIMEOUT).await.expect_err("it does not succeed")
}

#[tokio::test(start_paused = true)]
async fn what_surely_was_not_sent_is_told_apart() {
    assert!(matches!(fails(Reply::Unreachable).await, Failed::NotSent(_)));
    assert!(matches!(fails(Reply::Broken).await, Failed::Unanswered(_)));
    let silent = fails(Reply::Silence).await;
    let text = "Post \"/api/v1/pods\": context deadline exceeded";
    assert_eq!(silent, Failed::Unanswered(text.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn errors_are_told_in_the_words_of_the_api_server() {
    let told = fails(Reply::error(409, "Conflict", "pod p is already assigned")).await;
    assert_eq!(told.to_string(), "pod p is already assigned");
    assert_eq!(told.code(), Some(StatusCode::CONFLICT));
    let untold = fails(Reply::RetryAfter(429, 7)).await;
    let text = "the server has received too many requests and has asked us to try again later \
                (post /api/v1/pods)";
    assert_eq!(untold.to_string(), text);
    assert_eq!(untold.retry_after(), Some(Duration::from_secs(7)));
}

#[tokio::test(start_paused = true)]
async fn the_api_server_gives_up_before_we_do() {
    let fake = Fake::new(|_, _| Reply::Answer(200, serde_json::json!({ "a": 1 })));
    let read = ask(&fake.client().into(), &Ask::get("/x".to_owned()), TIMEOUT).await;
    assert_eq!(read.expect("it is answered"), &b"{\"a\":1}"[..]);
    let seen = fake.seen();
    assert_eq!((seen[0].line.as_str(), seen[0].query.as_str()), ("GET /x", "timeout=8s"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let long = serde_json::Value::String("x".repeat(ANSWER_LIMIT));
    let fake = Fake::new(move |_, _| Reply::Answer(200, long.clone()));
    let read = ask(&fake.client().into(), &Ask::get("/x".to_owned()), TIMEOUT).await;
    let error = read.expect_err("it is too long").to_string();
    assert!(error.contains("longer than"), "{error}");
}

#[tokio::test]
async fn a_connection_that_nobody_accepts_was_not_used() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let config = kube::Config::new(format!("http://{address}").parse().expect("a URI"));
    let client = kube::Client::try_from(config).expect("it needs no files");
    let ask = Ask::post("/api/v1/pods".to_owned(), b"{}".to_vec());
    let failed = tell(&client.into(), &ask, TIMEOUT).await.expect_err("nobody listens");
    assert!(matches!(failed, Failed::NotSent(_)), "{failed:?}");
}

#[test]
fn names_cannot_leave_their_segment() {
    assert_eq!(segment("web-0.x"), "web-0.x");
    assert_eq!(segment("a/b?c#d%"), "a%2Fb%3Fc%23d%25");
}
