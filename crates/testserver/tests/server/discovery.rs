//! Discovery by kube-rs, group by group and all at once, and in old releases.

use super::kit::{client, get, send};
use http::{Method, header};
use kube::Discovery;
use plimsoll_testserver::{Options, TestServer};

#[tokio::test]
async fn kube_rs_discovers_what_is_served() {
    let server = TestServer::start(Options::default());
    let client = client(&server).await;
    assert_eq!(client.apiserver_version().await.expect("a version").minor, "36");
    let discovery = Discovery::new(client.clone()).run().await.expect("discovered");
    let dra = discovery.get("resource.k8s.io").expect("the group is there");
    assert!(dra.recommended_kind("ResourceSlice").is_some());
    let (resource, capabilities) =
        discovery.get("").and_then(|core| core.recommended_kind("Pod")).expect("pods");
    assert_eq!(resource.plural, "pods");
    let subresources: Vec<_> = capabilities.subresources.iter().map(|(r, _)| &r.kind).collect();
    assert_eq!(subresources, ["Pod", "Binding", "Eviction", "PodPortForwardOptions"]);
}

#[tokio::test]
async fn an_old_release_lacks_what_came_later() {
    let options = Options { release: 20, ..Options::default().plain() };
    let server = TestServer::start(options);
    let client = client(&server).await;
    let discovery = Discovery::new(client.clone()).run().await.expect("discovered");
    assert!(discovery.get("resource.k8s.io").is_none());
    let policy = discovery.get("policy").expect("the group is there");
    assert_eq!(policy.versions().collect::<Vec<_>>(), ["v1beta1"]);
    assert_eq!(get(&client, "/apis/policy/v1").await.0, 404);
    assert_eq!(get(&client, "/apis/policy/v1/poddisruptionbudgets").await.0, 404);
}

#[tokio::test]
async fn options_take_kinds_away_and_add_alpha_ones() {
    let options = Options {
        without: vec!["resource.k8s.io".to_owned()],
        also: vec!["scheduling.k8s.io/v1alpha2".to_owned()],
        ..Options::default().plain()
    };
    let server = TestServer::start(options);
    let client = client(&server).await;
    assert_eq!(get(&client, "/apis/resource.k8s.io/v1/resourceslices").await.0, 404);
    assert_eq!(get(&client, "/apis/scheduling.k8s.io/v1alpha2/podgroups").await.0, 200);
}

#[tokio::test]
async fn everything_is_told_at_once_where_a_client_asks_for_it() {
    let server = TestServer::start(Options::default().plain());
    let client = client(&server).await;
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let response = send(&client, Method::GET, "/apis", accept, None).await;
    let kind = response.headers()[header::CONTENT_TYPE].to_str().expect("text").to_owned();
    assert_eq!(kind, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
}
