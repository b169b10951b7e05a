//! What a running instance says about groups, claims and moves: the same as files with its objects.

use std::path::Path;

use plimsoll_testserver::{HttpsClient, Options, Right, TestServer};
use serde_json::{Value, json};

use crate::api::{Serving, is_of_schema, until, user};
use crate::reloads::configuration;
use crate::run::run;

const GATES: &str = "GenericWorkload=true,GangScheduling=true";

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "10"}},
    })
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": name},
        "spec": {"priority": 0, "preemptionPolicy": "Never", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}},
        ]},
    })
}

/// A pod of a ReplicaSet on a node.
fn placed(name: &str, cpu: &str, node: &str) -> Value {
    let mut pod = pod(name, cpu);
    pod["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true},
    ]);
    pod["spec"]["nodeName"] = json!(node);
    pod["status"] = json!({"phase": "Running"});
    pod
}

fn member(name: &str) -> Value {
    let mut pod = pod(name, "3");
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
    pod
}

/// Two nodes of which `n1` has two devices; a pod whose claim asks for three, and a gang of two of which one fits.
fn objects() -> Vec<Value> {
    let mut uses = pod("uses", "100m");
    uses["spec"]["resourceClaims"] = json!([{"name": "gpus", "resourceClaimName": "gpus"}]);
    vec![
        node("n1"),
        node("n2"),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == \"gpu.example.com\""}}]},
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "n1-gpus"},
            "spec": {
                "driver": "gpu.example.com", "nodeName": "n1",
                "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
            },
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": "shop", "name": "gpus"},
            "spec": {"devices": {"requests": [
                {"name": "gpus", "exactly": {"deviceClassName": "gpu", "count": 3}},
            ]}},
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"namespace": "shop", "name": "one-gpu"},
            "spec": {"spec": {"devices": {"requests": [
                {"name": "gpu", "exactly": {"deviceClassName": "gpu"}},
            ]}}},
        }),
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"namespace": "shop", "name": "train"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        }),
        placed("web-0", "2", "n1"),
        placed("web-1", "500m", "n2"),
        uses,
        member("train-0"),
        member("train-1"),
    ]
}

/// The objects of the server as a file.
fn as_file(server: &TestServer) -> String {
    let kinds = [
        "nodes",
        "pods",
        "deviceclasses",
        "resourceslices",
        "resourceclaims",
        "resourceclaimtemplates",
        "podgroups",
        "compositepodgroups",
    ];
    let items: Vec<Value> = kinds.iter().flat_map(|kind| server.store().list(kind)).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn on_files(file: &str, line: &str) -> Value {
    let answer = run(&[("all.json", file)], line);
    assert_eq!(answer.status, 0, "{line}: {}", answer.err);
    serde_json::from_str(&answer.out).expect("it is one document")
}

/// The answer to a `GET`, once there is one that `is_expected`.
fn get(client: &HttpsClient, path: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    until(path, || {
        let answer = client.get(path).ok()?;
        let answer: Value = serde_json::from_str(&answer.body).ok()?;
        is_expected(&answer).then_some(answer)
    })
}

/// The answer to a `POST`.
fn post(client: &HttpsClient, path: &str, body: &Value) -> Value {
    until(path, || {
        let answer = client.send("POST", path, &body.to_string()).ok()?;
        (answer.code != 429).then(|| serde_json::from_str::<Value>(&answer.body).ok())?
    })
}

#[test]
fn groups_claims_and_moves_are_answered_as_on_files() {
    let pods = Right::on("", &["pods"], &["get", "list"]).within("shop");
    let kinds = ["resourceclaims", "resourceclaimtemplates"];
    let claims = Right::on("resource.k8s.io", &kinds, &["get"]).within("shop");
    let slices = Right::on("resource.k8s.io", &["resourceslices"], &["get"]);
    let groups = Right::on("scheduling.k8s.io", &["podgroups"], &["get"]).within("shop");
    let users = vec![
        user("sre", vec![pods.clone(), claims, slices, groups]),
        user("intern", vec![pods.clone()]),
    ];
    let also = vec!["scheduling.k8s.io/v1alpha2".to_owned()];
    let server = TestServer::start(Options { users, also, ..Options::default() });
    server.store().apply_all(objects()).expect("they are valid");
    let gates = format!("--feature-gates={GATES}");
    let serving = Serving::start(&server, &["--emulated-version=1.36", &gates]);
    let [sre, intern] =
        ["sre", "intern"].map(|name| serving.client.with_token(&format!("token-of-{name}")));
    let is_tried = |answer: &Value| answer["waiting"]["attempts"].is_u64();
    let emulated = format!("--emulated-version 1.36 --feature-gates {GATES} -o json");

    let told = get(&sre, "/api/v1/why?pod=shop/uses", is_tried);
    is_of_schema("Why", &told);
    let file = as_file(&server);
    let expected = on_files(&file, &format!("why -f all.json shop/uses {emulated}"));
    assert_eq!(told["remedies"], expected["remedies"]);
    let fewer = &told["remedies"][0];
    assert_eq!(fewer["text"], "ask for 2 instead of 3 devices in request gpus of the claim gpus");
    let patched = json!({"kind": "ResourceClaim", "namespace": "shop", "name": "gpus"});
    assert_eq!(fewer["changes"][0]["patch"], patched);
    assert!(told["unknownManifests"].is_null(), "{told}");

    let told = get(&intern, "/api/v1/why?pod=shop/uses", is_tried);
    is_of_schema("Why", &told);
    assert!(!told["remedies"].to_string().contains("instead of 3 devices"), "{told}");
    let unknown = told["unknownManifests"].as_array().expect("some are not known");
    assert!(unknown.contains(&patched), "{told}");

    let path = "/api/v1/why-group?group=shop/train&text=true";
    let is_tried = |answer: &Value| answer["waiting"]["attempts"].is_u64();
    let told = get(&sre, path, is_tried);
    is_of_schema("WhyGroup", &told);
    let expected = on_files(&file, &format!("why -f all.json --group shop/train {emulated}"));
    is_of_schema("WhyGroup", &expected);
    for key in ["state", "minCount", "pending", "remedies", "record"] {
        assert_eq!(told[key], expected[key], "{key}");
    }
    assert_eq!(told["state"], "unschedulable");
    let text = told["text"].as_str().expect("it was asked for");
    assert!(text.contains("0 pods on nodes, 2 pending; minCount is 2"), "{text}");
    let path_of_member = "/api/v1/why?pod=shop/train-0";
    let told = get(&sre, path_of_member, is_tried);
    is_of_schema("Why", &told);
    assert_eq!(told["group"]["remedies"], expected["remedies"]);
    assert!(told["remedies"].is_null() && told["waiting"]["since"].is_string(), "{told}");
    let told = get(&intern, path_of_member, is_tried);
    is_of_schema("Why", &told);
    assert!(told["group"]["remedies"].is_null(), "{told}");
    let not_tried = "PodGroup shop/train: its manifest is not known; \
                     `plimsoll why --group shop/train` tries changes where that is known";
    assert_eq!(told["group"]["notTried"], not_tried);
    let told = get(&intern, path, |answer| answer["code"] == 403);
    let message = told["message"].as_str().expect("it says why");
    assert!(message.starts_with("podgroups.scheduling.k8s.io \"train\" is forbidden"), "{message}");
    let told = get(&sre, "/api/v1/why-group?group=shop/none", |answer| answer["code"].is_u64());
    assert_eq!((&told["code"], &told["reason"]), (&json!(404), &json!("NotFound")));

    let body = json!({"objectives": ["freeNodes"]}).to_string();
    let told = until("the moves", || {
        let answer = sre.send("POST", "/api/v1/rebalance", &body).ok()?;
        (answer.code == 200).then(|| serde_json::from_str::<Value>(&answer.body).ok())?
    });
    is_of_schema("RebalancePlan", &told);
    let line = format!("rebalance -f all.json --free-nodes {emulated}");
    let expected = on_files(&file, &line);
    is_of_schema("RebalancePlan", &expected);
    assert_eq!(told["steps"], expected["steps"]);
    assert!(told["steps"][1]["pod"].is_string(), "a pod moves: {told}");
    let wrong = sre.send("POST", "/api/v1/rebalance", "{\"objectives\": []}");
    let wrong = wrong.expect("it answers");
    assert_eq!(wrong.code, 400, "{}", wrong.body);

    for (flags, body) in [
        ("--group shop/train", json!({"group": "shop/train"})),
        ("--group shop/train --remedies 1", json!({"group": "shop/train", "remedies": 1})),
        ("--all-shapes --after-pending", json!({"allShapes": true, "afterPending": true})),
    ] {
        let told = post(&sre, "/api/v1/capacity", &body);
        is_of_schema("Capacity", &told);
        let expected = on_files(&file, &format!("capacity -f all.json {flags} {emulated}"));
        assert_eq!(told["shapes"], expected["shapes"], "{flags}");
    }
    copies_have_their_own_claims([&sre, &intern], &file, &emulated);
    let told = post(&sre, "/api/v1/capacity", &json!({"group": "shop/train", "text": true}));
    assert_eq!((&told["shapes"][0]["fits"], &told["shapes"][0]["pods"]), (&json!(0), &json!(2)));
    assert!(told["shapes"][0]["remedies"][0].is_object(), "something would help: {told}");
    let text = told["text"].as_str().expect("it was asked for");
    assert!(text.contains("One more of shop/train would fit"), "{text}");
    let told = post(&intern, "/api/v1/capacity", &json!({"group": "shop/train"}));
    assert_eq!(told["code"], 403, "{told}");
}

/// Each copy has a claim of its own, from a template that the scheduler does not keep: it is read for who asks.
fn copies_have_their_own_claims([sre, intern]: [&HttpsClient; 2], file: &str, flags: &str) {
    let mut one = pod("one", "100m");
    one["spec"]["resourceClaims"] =
        json!([{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]);
    let told = post(sre, "/api/v1/capacity", &json!({"pods": [one]}));
    let line = format!("capacity -f all.json --pod-file one.json {flags}");
    let files = [("all.json", file), ("one.json", &one.to_string())];
    let expected: Value = serde_json::from_str(&run(&files, &line).out).expect("it is JSON");
    assert_eq!(told["shapes"], expected["shapes"], "{told}");
    assert_eq!(told["shapes"][0]["fits"], 2, "{told}");
    let told = post(intern, "/api/v1/capacity", &json!({"pods": [one]}));
    assert_eq!(told["code"], 400, "{told}");
    let message = told["message"].as_str().unwrap_or_default();
    assert!(message.contains("ResourceClaimTemplate shop/one-gpu"), "who may not read it: {told}");
}

#[test]
fn a_canary_decides_about_groups_and_moves_of_a_running_instance_too() {
    let pods = Right::on("", &["pods"], &["get", "list"]).within("shop");
    let groups = Right::on("scheduling.k8s.io", &["podgroups"], &["get"]).within("shop");
    let users = vec![user("sre", vec![pods, groups])];
    let also = vec!["scheduling.k8s.io/v1alpha2".to_owned()];
    let server = TestServer::start(Options { users, also, ..Options::default() });
    // The profile of the canary has the nodes n1 and n2, and the other one has n3, on which a member would fit.
    let pools = [("n1", "other"), ("n2", "other"), ("n3", "default")].map(|(name, pool)| {
        let mut node = node(name);
        node["metadata"]["labels"]["pool"] = json!(pool);
        node
    });
    let members = ["train-0", "train-1"].map(|name| {
        let mut member = member(name);
        member["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3600m");
        member
    });
    let all = objects().into_iter().filter(|one| one["kind"] == "PodGroup");
    let placed = [placed("web-0", "500m", "n1"), placed("web-1", "1", "n2")];
    let all = pools.into_iter().chain(all).chain(placed).chain(members);
    server.store().apply_all(all).expect("they are valid");

    let dir = tempfile::tempdir().expect("there is room");
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, configuration(&kubeconfig, "default", "other")).expect("there is room");
    let rule = r#"podNamespace=="shop"=other"#;
    let flags = [
        "--emulated-version=1.36".to_owned(),
        format!("--feature-gates={GATES}"),
        format!("--config={}", config.display()),
        format!("--canary={rule}"),
    ];
    let serving = Serving::start(&server, &flags.each_ref().map(String::as_str));
    let sre = serving.client.with_token("token-of-sre");

    let is_tried = |answer: &Value| answer["waiting"]["attempts"].is_u64();
    let told = get(&sre, "/api/v1/why-group?group=shop/train&text=true", is_tried);
    is_of_schema("WhyGroup", &told);
    let config = configuration(Path::new(""), "default", "other");
    let file = as_file(&server);
    let line = format!(
        "why -f all.json --config s.yaml --group shop/train --emulated-version 1.36 --feature-gates {GATES} -o json \
         --canary {rule}"
    );
    let expected = run(&[("all.json", &file), ("s.yaml", &config)], &line);
    assert_eq!(expected.status, 0, "{}", expected.err);
    let expected: Value = serde_json::from_str(&expected.out).expect("it is one document");
    for key in ["state", "placed", "pending", "remedies", "record", "canary"] {
        assert_eq!(told[key], expected[key], "{key}");
    }
    is_of_schema("WhyGroup", &expected);
    assert_eq!((&told["state"], &told["placed"]), (&json!("unschedulable"), &json!(0)));
    assert_eq!(told["canary"]["profile"], "other");
    let text = told["text"].as_str().expect("it was asked for");
    assert!(text.starts_with("Profile other decides shop/train, since --canary "), "{text}");

    let on_files = |flags: &str| -> Value {
        let line = format!(
            "capacity -f all.json --config s.yaml {flags} --emulated-version 1.36 --feature-gates {GATES} -o json \
             --canary {rule}"
        );
        let answer = run(&[("all.json", &file), ("s.yaml", &config)], &line);
        assert_eq!(answer.status, 0, "{}", answer.err);
        serde_json::from_str(&answer.out).expect("it is one document")
    };
    let told = post(&sre, "/api/v1/capacity", &json!({"group": "shop/train"}));
    is_of_schema("Capacity", &told);
    assert_eq!(told["shapes"], on_files("--group shop/train")["shapes"]);
    assert_eq!(told["shapes"][0]["canary"]["profile"], "other");
    let told = post(&sre, "/api/v1/capacity", &json!({"allShapes": true}));
    let mut expected = on_files("--all-shapes");
    assert_eq!(told["shapes"][0], expected["shapes"][0], "a rule picks pods on nodes");
    assert_eq!(told["shapes"][0]["canary"]["profile"], "other");
    // Of the pods that are routed already only the profile is known.
    let canary = expected["shapes"][1].as_object_mut().and_then(|shape| shape.remove("canary"));
    assert!(canary.is_some(), "{expected}");
    assert_eq!(told["shapes"][1], expected["shapes"][1]);

    let body = json!({"objectives": ["freeNodes"]}).to_string();
    let told = until("the moves", || {
        let answer = sre.send("POST", "/api/v1/rebalance", &body).ok()?;
        (answer.code == 200).then(|| serde_json::from_str::<Value>(&answer.body).ok())?
    });
    let steps = told["steps"].as_array().expect("it has steps").iter();
    let moves: Vec<&Value> = steps.filter(|step| step["pod"].is_string()).collect();
    assert!(!moves.is_empty(), "{told}");
    assert!(moves.iter().all(|step| step["to"] != "n3"), "{told}");
}

#[test]
fn the_rule_of_a_tree_of_groups_is_named_also_if_its_root_is_asked_about() {
    let pods = Right::on("", &["pods"], &["get", "list"]).within("shop");
    let kinds = ["podgroups", "compositepodgroups"];
    let groups = Right::on("scheduling.k8s.io", &kinds, &["get"]).within("shop");
    let users = vec![user("sre", vec![pods, groups])];
    let also = ["v1beta1", "v1alpha3"].map(|version| format!("scheduling.k8s.io/{version}"));
    let options = Options { release: 37, users, also: also.to_vec(), ..Options::default() };
    let server = TestServer::start(options);
    // The profile of the canary has the node n1 alone, on which one of the two groups fits.
    let nodes = [("n1", "other"), ("n2", "default"), ("n3", "default")].map(|(name, pool)| {
        let mut node = node(name);
        node["metadata"]["labels"]["pool"] = json!(pool);
        node
    });
    let root = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": {"namespace": "shop", "name": "job"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 2}}},
    });
    let parts = ["a", "b"].map(|name| {
        let group = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}, "parentCompositePodGroupName": "job"},
        });
        let mut pod = pod(&format!("{name}-0"), "3");
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": name});
        [group, pod]
    });
    let all = nodes.into_iter().chain([root]).chain(parts.into_iter().flatten());
    server.store().apply_all(all).expect("they are valid");

    let dir = tempfile::tempdir().expect("there is room");
    let kubeconfig = server.kubeconfig_file().expect("there is room for a file");
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, configuration(&kubeconfig, "default", "other")).expect("there is room");
    let gates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true";
    let rule = r#"podNamespace=="shop"=other"#;
    let flags = [
        format!("--feature-gates={gates}"),
        format!("--config={}", config.display()),
        format!("--canary={rule}"),
    ];
    let serving = Serving::start(&server, &flags.each_ref().map(String::as_str));
    let sre = serving.client.with_token("token-of-sre");
    let config = configuration(Path::new(""), "default", "other");
    for group in ["shop/job", "shop/a"] {
        let is_tried = |answer: &Value| answer["waiting"]["attempts"].is_u64();
        let told = get(&sre, &format!("/api/v1/why-group?group={group}"), is_tried);
        is_of_schema("WhyGroup", &told);
        let line = format!(
            "why -f all.json --config s.yaml --group {group} --feature-gates {gates} -o json --canary {rule}"
        );
        let expected = run(&[("all.json", &as_file(&server)), ("s.yaml", &config)], &line);
        assert_eq!(expected.status, 0, "{}", expected.err);
        let expected: Value = serde_json::from_str(&expected.out).expect("it is one document");
        for key in ["state", "placed", "pending", "remedies", "canary"] {
            assert_eq!(told[key], expected[key], "{group}: {key}");
        }
        assert_eq!(told["state"], "unschedulable", "{told}");
        assert_eq!(told["canary"]["profile"], "other", "{told}");
    }
}
