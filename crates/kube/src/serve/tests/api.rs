//! `/api/v1`: who may ask, and what is told to whom.

use plimsoll_api::{Pod, PodKey};
use plimsoll_framework::PodInfo;
use serde_json::{Value, json};

use super::fixture::{RunningServer, ServerFixture, TOKEN};
use crate::fake::{FakeApiServer, FakeResponse, ReceivedRequest};
use crate::serve::AdviceError;
use crate::serve::api::OPENAPI;

/// An API server where `jane` may ask here, and may do with pods what `may` says of verb, namespace and name.
fn cluster(may: impl Fn(&str, &str, &str) -> bool + Send + 'static) -> FakeApiServer {
    cluster_with(move |of, verb, namespace, name| {
        assert_eq!(of, "pods");
        may(verb, namespace, name)
    })
}

/// The same for all resources, whose name and group come first: `podgroups.scheduling.k8s.io`.
fn cluster_with(may: impl Fn(&str, &str, &str, &str) -> bool + Send + 'static) -> FakeApiServer {
    FakeApiServer::new(move |seen: &ReceivedRequest, _| {
        let spec = &seen.body["spec"];
        let status = if spec["token"] == TOKEN {
            json!({"authenticated": true, "user": {"username": "jane"}})
        } else if spec["nonResourceAttributes"].is_object() {
            json!({"allowed": spec["user"] == "jane"})
        } else {
            let wanted = &spec["resourceAttributes"];
            let text = |key: &str| wanted[key].as_str().unwrap_or_default();
            let of = [text("resource"), text("group")].join(".");
            let of = of.trim_end_matches('.');
            json!({"allowed": may(of, text("verb"), text("namespace"), text("name"))})
        };
        FakeResponse::Response(201, json!({"kind": "Review", "status": status}))
    })
}

fn answer() -> Value {
    json!({
        "pod": "shop/web-0", "state": "unschedulable",
        "remedies": [{
            "kind": "cluster", "text": "evict pay/card-1 from n1", "node": "n1",
            "changes": [{"delete": {"kind": "Pod", "namespace": "pay", "name": "card-1"}}],
        }],
    })
}

async fn serving(fake: &FakeApiServer, answer: Result<Value, AdviceError>) -> RunningServer {
    let mut setup = ServerFixture::new(Some(fake));
    let scheduler = std::sync::Arc::get_mut(&mut setup.scheduler).expect("nobody else has it");
    scheduler.answer = answer;
    let pod = |namespace: &str, name: &str| {
        PodInfo::new(Pod { key: PodKey::new(namespace, name), ..Pod::default() })
    };
    scheduler.pods = vec![pod("shop", "web-0"), pod("pay", "card-1")];
    setup.start().await
}

const ASKED: &str = "/api/v1/why?pod=shop/web-0";

#[tokio::test]
async fn whoever_may_list_all_pods_gets_the_whole_answer_and_when_the_picture_is_from() {
    let fake = cluster(|_, _, _| true);
    let server = serving(&fake, Ok(answer())).await;
    let told = server.get_as_jane(ASKED).await;
    let mut expected = answer();
    expected["asOf"] = json!("2024-09-06T06:19:51Z");
    assert_eq!((told.code, told.json()), (200, expected));
}

#[tokio::test]
async fn who_may_not_get_the_pod_is_refused_as_the_api_server_refuses() {
    let fake = cluster(|verb, namespace, name| (verb, namespace, name) == ("get", "shop", "other"));
    let server = serving(&fake, Ok(answer())).await;
    let told = server.get_as_jane(ASKED).await;
    assert_eq!(told.code, 403);
    let message = "pods \"web-0\" is forbidden: User \"jane\" cannot get resource \"pods\" in API group \"\" in \
                   the namespace \"shop\"";
    assert_eq!(
        (&told.json()["message"], &told.json()["reason"]),
        (&json!(message), &json!("Forbidden"))
    );
    assert_eq!(server.get(ASKED, &[]).await.code, 403, "nor may strangers ask");
}

#[tokio::test]
async fn pods_of_other_namespaces_are_named_only_to_those_who_may_list_them() {
    let fake = cluster(|verb, namespace, _| verb == "get" || namespace == "shop");
    let server = serving(&fake, Ok(answer())).await;
    let told = server.get_as_jane(ASKED).await;
    assert_eq!((told.code, &told.json()["pod"]), (200, &json!("shop/web-0")));
    let remedy = &told.json()["remedies"][0];
    assert_eq!(remedy["text"], "evict a pod that you may not list from n1");
    assert_eq!(remedy["changes"], json!([{"delete": {"kind": "Pod", "withheld": true}}]));
    assert!(!told.body.contains("card-1"), "{}", told.body);
}

#[tokio::test]
async fn the_history_of_a_pod_is_told_to_those_who_may_get_the_pod() {
    let history = json!({
        "pod": "shop/web-0",
        "attempts": [{"at": 1, "pod": "shop/web-0", "number": 1, "result": "unschedulable",
            "victims": ["pay/card-1", "shop/web-1"]}],
        "preemptions": [{"at": 2, "victim": "old/gone", "preemptor": "shop/web-0"}],
    });
    let asked = "/api/v1/history?pod=shop/web-0";
    // Whether the pod is still there does not matter: its history is asked for most when it is gone.
    let fake = cluster(|_, _, _| true);
    let server = serving(&fake, Ok(history.clone())).await;
    let told = server.get_as_jane(asked).await;
    assert_eq!((told.code, told.json()), (200, history.clone()));
    assert_eq!(server.get_as_jane("/api/v1/overview").await.json()["views"]["history"], true);

    let fake = cluster(|verb, namespace, _| verb == "get" || namespace == "shop");
    let server = serving(&fake, Ok(history.clone())).await;
    let told = server.get_as_jane(asked).await;
    let withheld = "a pod that you may not list";
    assert_eq!(told.json()["attempts"][0]["victims"], json!([withheld, "shop/web-1"]));
    assert_eq!(told.json()["preemptions"][0]["victim"], withheld);
    assert!(!told.body.contains("pay/") && !told.body.contains("old/"), "{}", told.body);

    let fake = cluster(|verb, _, _| verb != "get");
    let server = serving(&fake, Ok(history)).await;
    assert_eq!(server.get_as_jane(asked).await.code, 403);
    assert_eq!(server.get(asked, &[]).await.code, 403, "nor may strangers ask");
}

#[tokio::test]
async fn what_the_instance_believes_is_told_to_those_who_may_list_all_pods() {
    let fake = cluster(|_, _, _| true);
    let server = serving(&fake, Ok(answer())).await;
    let told = server.get_as_jane("/api/v1/instance").await.json();
    assert_eq!((&told["nodes"], told["placed"].as_array().map(Vec::len)), (&json!([]), Some(2)));
    let fake = cluster(|_, namespace, _| namespace == "shop");
    let server = serving(&fake, Ok(answer())).await;
    let told = server.get_as_jane("/api/v1/instance").await;
    let message = "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" at the cluster scope";
    assert_eq!((told.code, &told.json()["message"]), (403, &json!(message)));
}

#[tokio::test]
async fn without_a_journal_there_is_no_history() {
    let fake = cluster(|_, _, _| true);
    let server = serving(&fake, Ok(answer())).await;
    let told = server.get_as_jane("/api/v1/history?pod=shop/web-0").await;
    let why = "there is no journal: start `plimsoll run` with --journal=FILE";
    assert_eq!((told.code, &told.json()["message"]), (404, &json!(why)));
    assert_eq!(server.get_as_jane("/api/v1/overview").await.json()["views"]["history"], false);
}

#[tokio::test]
async fn an_answer_is_based_on_the_manifests_that_the_user_may_read() {
    let fake = cluster_with(|of, verb, namespace, name| match of {
        "resourceclaims.resource.k8s.io" => (verb, namespace, name) == ("get", "shop", "gpus"),
        of => of == "pods",
    });
    let server = serving(&fake, Ok(json!({"pod": "shop/web-0", "found": null}))).await;
    let told = server.get_as_jane(ASKED).await.json();
    let expected = json!([
        "ResourceClaim shop/gpus",
        "the API server does not give the manifest: user \"jane\" may not get storageclasses fast",
        "the API server does not give the manifest: Horse is no known kind",
    ]);
    assert_eq!(told["found"], expected);
}

#[tokio::test]
async fn a_group_is_explained_to_those_who_may_read_it_and_its_pods() {
    const ASKED: &str = "/api/v1/why-group?group=shop/train";
    const OF_GROUPS: &str = "podgroups.scheduling.k8s.io";
    let explained = json!({"group": "shop/train", "state": "unschedulable", "record": {
        "pods": [{"pod": "shop/train-0"}], "victims": ["pay/card-1"],
    }});
    let serving = async |fake: &FakeApiServer| serving(fake, Ok(explained.clone())).await;
    let all = |of: &str, verb: &str, namespace: &str, name: &str| match of {
        OF_GROUPS => (verb, namespace, name) == ("get", "shop", "train"),
        of => of == "pods" && namespace == "shop",
    };
    let fake = cluster_with(all);
    let told = serving(&fake).await.get_as_jane(ASKED).await;
    let mut expected = explained.clone();
    expected["asOf"] = json!("2024-09-06T06:19:51Z");
    expected["record"]["victims"] = json!(["a pod that you may not list"]);
    assert_eq!((told.code, told.json()), (200, expected));
    for (missing, message) in [
        (
            ("pods", "list"),
            "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"shop\"",
        ),
        (
            ("pods", "get"),
            "pods is forbidden: User \"jane\" cannot get resource \"pods\" in API group \"\" in the namespace \"shop\"",
        ),
        (
            (OF_GROUPS, "get"),
            "podgroups.scheduling.k8s.io \"train\" is forbidden: User \"jane\" cannot get resource \"podgroups\" in API \
             group \"scheduling.k8s.io\" in the namespace \"shop\"",
        ),
    ] {
        let fake = cluster_with(move |of, verb, namespace, name| {
            (of, verb) != missing && all(of, verb, namespace, name)
        });
        let told = serving(&fake).await.get_as_jane(ASKED).await;
        assert_eq!((told.code, &told.json()["message"]), (403, &json!(message)));
    }
    // Whoever may read groups of groups is told about those only.
    let fake = cluster_with(move |of, verb, namespace, name| match of {
        OF_GROUPS => false,
        "compositepodgroups.scheduling.k8s.io" => true,
        of => all(of, verb, namespace, name),
    });
    let told = serving(&fake).await.get_as_jane(ASKED).await;
    assert_eq!(told.code, 403, "it is a PodGroup, as far as anybody knows");
    let fake = cluster_with(all);
    let told = serving(&fake).await.get_as_jane("/api/v1/why-group?group=train").await;
    assert_eq!((told.code, &told.json()["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test]
async fn what_is_not_there_is_an_error_of_the_kubernetes_api() {
    let fake = cluster(|_, _, _| true);
    let server =
        serving(&fake, Err(AdviceError::Unknown("pod shop/web-0 is not known".to_owned()))).await;
    for (path, code, message) in [
        ("/api/v1/why?pod=shop/none", 404, "pods \"none\" not found"),
        (ASKED, 404, "pod shop/web-0 is not known"),
        ("/api/v1/why", 400, "ask for one pod: /api/v1/why?pod=NAMESPACE/NAME"),
        ("/api/v1/why?pod=web-0", 400, "pod \"web-0\" is no NAMESPACE/NAME"),
    ] {
        let told = server.get_as_jane(path).await;
        assert_eq!((told.code, &told.json()["kind"]), (code, &json!("Status")), "{path}");
        let text = told.json()["message"].as_str().expect("it says why").to_owned();
        assert!(text.starts_with(message), "{path}: {text}");
    }
}

#[tokio::test]
async fn a_question_in_a_body_is_answered_without_the_names_of_hidden_pods() {
    let fake = cluster(|_, namespace, _| namespace == "shop");
    let plan =
        json!({"placed": [{"pod": "pay/card-1", "to": "n1"}, {"pod": "shop/web-0", "to": "n2"}]});
    let server = serving(&fake, Ok(plan)).await;
    let token = format!("Bearer {TOKEN}");
    let headers = [("Authorization", token.as_str())];
    let ask = async |path: &str, body: &str| server.ask(None, "POST", path, &headers, body).await;
    for (path, body) in [
        ("/api/v1/what-if", "{}"),
        ("/api/v1/capacity", r#"{"pods": []}"#),
        ("/api/v1/rebalance", "{}"),
    ] {
        let told = ask(path, body).await;
        let expected = json!({
            "placed": [{"pod": "a pod that you may not list", "to": "n1"}, {"pod": "shop/web-0", "to": "n2"}],
            "asOf": "2024-09-06T06:19:51Z",
        });
        assert_eq!((told.code, told.json()), (200, expected), "{path}");
        let told = ask(path, "no JSON").await;
        assert_eq!((told.code, &told.json()["reason"]), (400, &json!("BadRequest")));
        let told = server.ask(None, "POST", path, &[], "{}").await;
        assert_eq!(told.code, 403, "strangers may not ask");
        let large = format!("\"{}\"", "x".repeat(2 << 20));
        assert_eq!(ask(path, &large).await.code, 413);
    }
}

/// The answer about the capacity, to `jane`.
async fn capacity(server: &RunningServer, body: &Value) -> (u16, Value) {
    let token = format!("Bearer {TOKEN}");
    let headers = [("Authorization", token.as_str())];
    let told = server.ask(None, "POST", "/api/v1/capacity", &headers, &body.to_string()).await;
    (told.code, told.json())
}

#[tokio::test]
async fn shapes_of_namespaces_whose_pods_the_user_may_not_list_are_hidden() {
    let all = json!({"allShapes": true});
    let shapes = json!({"shapes": [{"pod": "shop/web", "fits": 1}]});
    for (visible, hidden) in [("shop", json!(["pay"])), ("", Value::Null)] {
        let fake = cluster(move |verb, namespace, _| verb == "list" && namespace == visible);
        let server = serving(&fake, Ok(shapes.clone())).await;
        let (code, told) = capacity(&server, &all).await;
        assert_eq!((code, &told["hidden"]), (200, &hidden), "{told}");
        assert_eq!(told["shapes"][0]["pod"], "shop/web", "{told}");
    }
    // A name that the advisor tells all the same is withheld.
    let fake = cluster(|verb, namespace, _| verb == "list" && namespace == "pay");
    let (_, told) = capacity(&serving(&fake, Ok(shapes.clone())).await, &all).await;
    assert_eq!(told["shapes"][0]["pod"], "a pod that you may not list");
    // Whoever names a namespace must be allowed to list its pods.
    let server = serving(&fake, Ok(shapes)).await;
    let of = |namespace: &str| json!({"allShapes": true, "namespace": namespace});
    let (code, told) = capacity(&server, &of("pay")).await;
    assert_eq!((code, &told["hidden"]), (200, &Value::Null), "{told}");
    let (code, told) = capacity(&server, &of("shop")).await;
    let why = "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"shop\"";
    assert_eq!((code, &told["message"]), (403, &json!(why)));
}

#[tokio::test]
async fn a_user_is_not_asked_about_in_each_of_many_namespaces() {
    let pods = (0..51).map(|n| {
        let key = PodKey::new(format!("team-{n}"), "web-0");
        PodInfo::new(Pod { key, ..Pod::default() })
    });
    let pods: Vec<PodInfo> = pods.collect();
    let serving = async |n: usize, fake: &FakeApiServer| {
        let mut setup = ServerFixture::new(Some(fake));
        let scheduler = std::sync::Arc::get_mut(&mut setup.scheduler).expect("nobody else has it");
        scheduler.answer = Ok(json!({"shapes": []}));
        scheduler.pods = pods[..n].to_vec();
        setup.start().await
    };
    let all = json!({"allShapes": true});
    let fake = cluster(|verb, namespace, _| verb == "list" && namespace == "team-7");
    let (code, told) = capacity(&serving(50, &fake).await, &all).await;
    assert_eq!((code, told["hidden"].as_array().map(Vec::len)), (200, Some(49)), "{told}");
    let server = serving(51, &fake).await;
    let (code, told) = capacity(&server, &all).await;
    let why = "you may not list the pods of all namespaces: name one (namespace)";
    assert_eq!((code, &told["message"]), (400, &json!(why)));
    let (code, _) = capacity(&server, &json!({"allShapes": true, "namespace": "team-7"})).await;
    assert_eq!(code, 200);
    let fake = cluster(|verb, namespace, _| (verb, namespace) == ("list", ""));
    assert_eq!(capacity(&serving(51, &fake).await, &all).await.0, 200);
}

#[tokio::test]
async fn a_group_is_counted_for_those_who_may_read_it_and_its_pods() {
    const OF_GROUPS: &str = "podgroups.scheduling.k8s.io";
    let asked = json!({"group": "shop/train"});
    let all = |of: &str, verb: &str, namespace: &str, name: &str| match of {
        OF_GROUPS => (verb, namespace, name) == ("get", "shop", "train"),
        of => of == "pods" && namespace == "shop",
    };
    let fake = cluster_with(all);
    let server = serving(&fake, Ok(json!({"shapes": []}))).await;
    assert_eq!(capacity(&server, &asked).await.0, 200);
    for missing in [("pods", "list"), ("pods", "get"), (OF_GROUPS, "get")] {
        let fake = cluster_with(move |of, verb, namespace, name| {
            (of, verb) != missing && all(of, verb, namespace, name)
        });
        let server = serving(&fake, Ok(json!({"shapes": []}))).await;
        let (code, told) = capacity(&server, &asked).await;
        assert_eq!((code, &told["reason"]), (403, &json!("Forbidden")), "{missing:?}: {told}");
    }
    let (code, told) = capacity(&server, &json!({"group": "train"})).await;
    let why = "group: write NAMESPACE/NAME instead of \"train\"";
    assert_eq!((code, &told["message"]), (400, &json!(why)));
}

#[tokio::test]
async fn every_path_of_the_description_is_served_and_the_description_itself() {
    let fake = cluster(|_, _, _| true);
    let server = serving(&fake, Ok(answer())).await;
    let description: Value = serde_json::from_str(OPENAPI).expect("it is JSON");
    let told = server.get_as_jane("/api/v1/openapi.json").await;
    assert_eq!((told.code, told.json()), (200, description.clone()));
    let paths = description["paths"].as_object().expect("it has paths");
    // A stream of events does not end for a while.
    for path in paths.keys().filter(|path| *path != "/api/v1/events") {
        for (verb, method) in [("get", "GET"), ("post", "POST")] {
            let token = format!("Bearer {TOKEN}");
            let headers = [("Authorization", token.as_str())];
            let told = server.ask(None, method, path, &headers, "{}").await;
            // The journal is read only by `plimsoll serve`, and only a shadow compares.
            let others = ["plimsoll serve --journal", "plimsoll shadow"];
            let is_of_other = told.code == 404 && others.iter().any(|one| told.body.contains(one));
            let is_served = is_of_other || ![404, 405].contains(&told.code);
            assert_eq!(is_served, paths[path][verb].is_object(), "{method} {path}: {}", told.code);
        }
    }
}

#[tokio::test]
async fn the_page_is_open_to_everybody_and_its_data_is_not() {
    let fake = cluster(|_, _, _| true);
    let server = serving(&fake, Ok(answer())).await;
    let page = server.get("/ui/", &[]).await;
    assert_eq!(page.code, 200);
    assert!(page.body.starts_with("<!doctype html>"), "{}", page.body);
    assert_eq!(server.get("/ui/app.js", &[]).await.code, 200);
    assert_eq!(server.get("/ui/other", &[]).await.code, 404);
    assert_eq!(server.get("/ui", &[]).await.code, 308);
    for path in ["overview", "nodes", "pods", "config", "timeline", "events", "shadow"] {
        let told = server.get(&format!("/api/v1/{path}"), &[]).await;
        assert_eq!(told.code, 403, "{path}: strangers may not ask");
    }
}

#[tokio::test]
async fn the_list_of_pods_has_only_those_that_the_user_may_list() {
    let pods = |told: &Value| -> Vec<String> {
        let pods = told["pods"].as_array().expect("there is a list").iter();
        pods.map(|pod| pod["pod"].as_str().expect("it has a name").to_owned()).collect()
    };
    let fake = cluster(|_, _, _| true);
    let server = serving(&fake, Ok(answer())).await;
    let told = server.get_as_jane("/api/v1/pods").await;
    assert_eq!(pods(&told.json()), ["pay/card-1", "shop/web-0"]);
    let fake = cluster(|verb, namespace, _| verb == "list" && namespace == "shop");
    let server = serving(&fake, Ok(answer())).await;
    let told = server.get_as_jane("/api/v1/pods").await.json();
    assert_eq!((pods(&told), &told["total"]), (vec!["shop/web-0".to_owned()], &json!(1)));
    assert_eq!(server.get_as_jane("/api/v1/pod?pod=pay/card-1").await.code, 403);
    let told = server.get_as_jane("/api/v1/pods?limit=many").await;
    assert_eq!((told.code, &told.json()["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test]
async fn the_configuration_comes_with_what_is_not_the_default() {
    let fake = cluster(|_, _, _| true);
    let server = serving(&fake, Ok(answer())).await;
    let told = server.get_as_jane("/api/v1/config").await.json();
    assert_eq!(told["differences"], json!([{"field": "parallelism", "default": 16}]));
}

async fn shadowing(fake: &FakeApiServer) -> RunningServer {
    let mut setup = ServerFixture::new(Some(fake));
    let scheduler = std::sync::Arc::get_mut(&mut setup.scheduler).expect("nobody else has it");
    let one = |number: u64, pod: &str, why: &str| json!({"number": number, "pod": pod, "kind": "worse", "theirs": "n1", "ours": ["n2"], "why": why});
    scheduler.comparison = Some(json!({"disagreements": [
        one(1, "shop/web-0", "n1 has 3 points less than n2: beside pay/card-9"),
        one(2, "pay/card-1", "n1 has 2 points less than n2"),
    ]}));
    setup.start().await
}

#[tokio::test]
async fn a_shadow_names_only_pods_that_the_user_may_list() {
    let numbers = |told: &Value| -> Vec<u64> {
        let all = told["disagreements"].as_array().expect("there is a list").iter();
        all.map(|one| one["number"].as_u64().expect("it has one")).collect()
    };
    let fake = cluster(|_, _, _| true);
    let told = shadowing(&fake).await.get_as_jane("/api/v1/shadow").await;
    assert_eq!((told.code, numbers(&told.json())), (200, vec![2, 1]));
    let fake = cluster(|verb, namespace, _| verb == "list" && namespace == "shop");
    let server = shadowing(&fake).await;
    let told = server.get_as_jane("/api/v1/shadow").await.json();
    assert_eq!((numbers(&told), &told["withheld"]), (vec![1], &json!(1)));
    assert!(!told.to_string().contains("card-"), "{told}");
    let told = server.get_as_jane("/api/v1/shadow?kind=better").await;
    assert_eq!((told.code, &told.json()["reason"]), (400, &json!("BadRequest")));
    let overview = server.get_as_jane("/api/v1/overview").await.json();
    assert_eq!(overview["views"]["shadow"], true);
    let told = server.get("/api/v1/shadow", &[]).await;
    assert_eq!(told.code, 403, "strangers may not ask");
}

#[tokio::test]
async fn a_scheduler_that_is_no_shadow_has_nothing_compared() {
    let fake = cluster(|_, _, _| true);
    let server = serving(&fake, Ok(answer())).await;
    let told = server.get_as_jane("/api/v1/shadow").await;
    assert_eq!(told.code, 404);
    assert!(told.body.contains("this is no shadow"), "{}", told.body);
}
