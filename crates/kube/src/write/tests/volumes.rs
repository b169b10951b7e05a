//! Volumes and claims are changed once, for the plugins that bind them.

use plimsoll_api::{KindRef, ObjectKey, PersistentVolumeClaim};
use plimsoll_engine::{Effect, Write};
use plimsoll_framework::{ObjectWrite, WriteVerb};
use serde_json::{Value, json};

use super::fixture::{WriterFixture, effect, pod};
use crate::fake::{FakeApiServer, FakeResponse};

const PATCH: &str = "PATCH /api/v1/namespaces/ns/persistentvolumeclaims/c";
const CLAIM: &str = "GET /api/v1/namespaces/ns/persistentvolumeclaims/c";

fn merge() -> Value {
    json!({ "metadata": { "uid": "u", "resourceVersion": "4", "annotations": { "node": "n1" } } })
}

fn change() -> Effect {
    let write = ObjectWrite {
        kind: KindRef::of::<PersistentVolumeClaim>(),
        key: ObjectKey::new("ns", "c"),
        verb: WriteVerb::Patch { subresource: None, merge: merge().into() },
        purpose: 0,
    };
    effect(3, &pod("p"), Write::Object(write))
}

async fn check(script: &[(&str, &[FakeResponse])], expected: Result<(), &str>, lines: &[&str]) {
    let mut fixture = WriterFixture::new(FakeApiServer::scripted(script));
    let answer = fixture.answer_to(change()).await;
    assert_eq!(answer, expected.map_err(str::to_owned));
    assert_eq!(fixture.fake.lines(), lines);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_a_merge_patch_of_the_object() {
    let mut fixture = WriterFixture::new(FakeApiServer::scripted(&[]));
    assert_eq!(fixture.answer_to(change()).await, Ok(()));
    let seen = fixture.fake.requests();
    assert_eq!(fixture.fake.lines(), [PATCH]);
    assert_eq!(seen[0].content_type, "application/merge-patch+json");
    assert_eq!(seen[0].body, merge());
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_answer_is_lost_is_looked_after() {
    let done = json!({ "metadata": {
        "uid": "u", "resourceVersion": "5", "annotations": { "node": "n1", "more": "x" } } });
    check(
        &[(PATCH, &[FakeResponse::Broken]), (CLAIM, &[FakeResponse::Response(200, done)])],
        Ok(()),
        &[PATCH, CLAIM],
    )
    .await;
    let undone = json!({ "metadata": { "uid": "u", "resourceVersion": "4" } });
    let late =
        "Patch \"/api/v1/namespaces/ns/persistentvolumeclaims/c\": context deadline exceeded";
    check(
        &[(PATCH, &[FakeResponse::Silence]), (CLAIM, &[FakeResponse::Response(200, undone)])],
        Err(late),
        &[PATCH, CLAIM],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_what_has_changed_meanwhile_is_an_error() {
    let text = "the object has been modified";
    check(&[(PATCH, &[FakeResponse::error(409, "Conflict", text)])], Err(text), &[PATCH]).await;
}
