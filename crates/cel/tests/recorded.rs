//! The decisions of kube-scheduler 1.36 that depend on selectors of devices: for each node, the first
//! device that all selectors of the class and the request select, or the error of the first selector
//! that fails.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use plimsoll_api::Quantity;
use plimsoll_cel::{AttributeValue, Device, Expression};
use ruzstd::decoding::StreamingDecoder;
use serde_json::Value;

/// As many cases as were recorded.
const CASES: usize = 270;
/// What precedes the text of a compiler's error.
const COMPILE_ERROR: &str = "CEL compile error: ";

#[test]
fn selectors_select_what_kube_scheduler_selects() {
    let cases = read("dra_cel.cases");
    let expected = read("dra_cel.expected");
    assert_eq!((cases.len(), expected.len()), (CASES, CASES));
    let (mut devices, mut errors, mut rejected) = (0, 0, 0);
    for (case, expected) in cases.iter().zip(&expected) {
        for node in array(&expected["decisions"][0]["nodes"]) {
            let context = format!("{} on {}", text(&case["name"]), text(&node["name"]));
            match (array(&node["devices"]).first(), text(&node["filter"]["plugin"])) {
                (Some(device), _) => {
                    assert_eq!(decide(case, node), Ok(Some(text(device).to_owned())), "{context}");
                    devices += 1;
                }
                (None, "DynamicResources") if node["filter"]["code"] == "Error" => {
                    let reason = text(&node["filter"]["reasons"][0]);
                    let reason =
                        reason.strip_prefix("running \"DynamicResources\" filter plugin: ");
                    let found = decide(case, node).expect_err(&context);
                    let words = |text: &str| match text.split_once(COMPILE_ERROR) {
                        Some((before, _)) => format!("{before}{COMPILE_ERROR}"),
                        None => text.to_owned(),
                    };
                    assert_eq!(Some(words(&found)), reason.map(words), "{context}: {found}");
                    errors += 1;
                }
                (None, "DynamicResources") => {
                    assert_eq!(decide(case, node), Ok(None), "{context}");
                    rejected += 1;
                }
                // Another plugin rejected the node before.
                _ => {}
            }
        }
    }
    assert_eq!((devices, errors, rejected), (432, 222, 76), "no node was left out");
}

#[test]
fn errors_of_the_compiler_read_as_in_kube_scheduler() {
    let (mut different, mut compared) = (Vec::new(), 0);
    for expected in read("dra_cel.expected") {
        let message = text(&expected["decisions"][0]["message"]).to_owned();
        let Some((_, message)) = message.split_once(COMPILE_ERROR) else { continue };
        let Some(source) = source(message) else { continue };
        compared += 1;
        let error = Expression::compile(&source).expect_err("kube-scheduler does not compile it");
        if error.to_string() != message {
            different.push(format!("{message}\n{error}"));
        }
    }
    assert_eq!((different, compared), (Vec::<String>::new(), 39));
}

/// The source that an error of the compiler shows.
fn source(message: &str) -> Option<String> {
    if message.contains("<input>:1:0:") {
        return Some(String::new());
    }
    let (_, shown) = message.split_once("\n | ")?;
    Some(shown.split('\n').next()?.to_owned())
}

/// What the selectors select on a node: the device as the record names it.
fn decide(case: &Value, node: &Value) -> Result<Option<String>, String> {
    let objects = array(&case["objects"]);
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let claim = of_kind("ResourceClaim").next().expect("each case has a claim");
    let claim_name =
        format!("{}/{}", text(&claim["metadata"]["namespace"]), text(&claim["metadata"]["name"]));
    let mut slices = of_kind("ResourceSlice")
        .filter(|slice| slice["spec"]["nodeName"] == node["name"])
        .collect::<Vec<_>>();
    slices.sort_by_key(|slice| {
        let spec = &slice["spec"];
        (text(&spec["driver"]), text(&spec["pool"]["name"]), text(&slice["metadata"]["name"]))
    });
    for (request, name) in requests(&claim["spec"]["devices"]["requests"][0]) {
        let class_name = text(&request["deviceClassName"]);
        let class = of_kind("DeviceClass").find(|class| class["metadata"]["name"] == class_name);
        let class = class.expect("each class is there");
        let of_class = selectors(&class["spec"], &format!("class {class_name}"));
        let of_request = selectors(request, &format!("claim {claim_name}"));
        let selectors = of_class.into_iter().chain(of_request).collect::<Vec<_>>();
        for slice in &slices {
            for device in array(&slice["spec"]["devices"]) {
                if selected(&selectors, &prepared(&slice["spec"], device))? {
                    let spec = &slice["spec"];
                    let (driver, pool) = (text(&spec["driver"]), text(&spec["pool"]["name"]));
                    let device = text(&device["name"]);
                    return Ok(Some(format!("{claim_name} {name} {driver}/{pool}/{device}")));
                }
            }
        }
    }
    Ok(None)
}

/// The request, or the ones of which the first is used that can be satisfied, with their names.
fn requests(request: &Value) -> Vec<(&Value, String)> {
    let name = text(&request["name"]);
    if request["exactly"].is_object() {
        return vec![(&request["exactly"], name.to_owned())];
    }
    let alternatives = array(&request["firstAvailable"]).iter();
    alternatives.map(|one| (one, format!("{name}/{}", text(&one["name"])))).collect()
}

/// The expressions with how errors name them.
fn selectors(of: &Value, owner: &str) -> Vec<(String, String)> {
    let expressions = array(&of["selectors"]).iter().map(|one| text(&one["cel"]["expression"]));
    let named = |(i, expression): (usize, &str)| {
        (format!("{owner}: selector #{i}: "), expression.to_owned())
    };
    expressions.enumerate().map(named).collect()
}

fn selected(selectors: &[(String, String)], device: &Device) -> Result<bool, String> {
    for (owner, source) in selectors {
        let expression = Expression::compile(source)
            .map_err(|error| format!("{owner}{COMPILE_ERROR}{error}"))?;
        let matches = expression.matches(device);
        if !matches.map_err(|error| format!("{owner}CEL runtime error: {error}"))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn prepared(slice: &Value, device: &Value) -> Device {
    let object = |key| device[key].as_object().into_iter().flatten();
    let attributes = object("attributes").map(|(name, value)| {
        let (kind, value) =
            value.as_object().and_then(|value| value.iter().next()).expect("a value");
        let value = match kind.as_str() {
            "int" => AttributeValue::Int(value.as_i64().expect("an int")),
            "bool" => AttributeValue::Bool(value.as_bool().expect("a bool")),
            "string" => AttributeValue::String(text(value).to_owned()),
            "version" => AttributeValue::Version(text(value).to_owned()),
            _ => AttributeValue::Unsupported,
        };
        (name.as_str(), value)
    });
    let capacity = object("capacity").map(|(name, amount)| {
        let amount = Quantity::parse(text(&amount["value"])).expect("an amount");
        (name.as_str(), amount)
    });
    let many = device["allowMultipleAllocations"] == true;
    Device::new(text(&slice["driver"]), many, attributes, capacity)
}

fn read(name: &str) -> Vec<Value> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/corpus");
    let file = File::open(corpus.join(format!("{name}.jsonl.zst"))).expect("the suite is there");
    let decoder = StreamingDecoder::new(BufReader::new(file)).expect("it is compressed with zstd");
    let lines = BufReader::new(decoder).lines();
    lines.map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON")).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
