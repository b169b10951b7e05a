//! A cluster with devices as text, and what is allocated there.
//!
//! ```text
//! node NAME LABEL=VALUE ..
//! slice NAME DRIVER/POOL GENERATION/COUNT NODES +SET.COUNTER=AMOUNT ..
//!   DEVICE ATTRIBUTE=VALUE CAPACITY:AMOUNT{POLICY} -SET.COUNTER=AMOUNT !KEY:EFFECT NODES shared binds if:X unless:X
//! class NAME [CEL] .. config:DRIVER
//! claim NAME
//!   REQUEST CLASS xCOUNT all mode:WORD [CEL] ~KEY=VALUE:EFFECT admin CAPACITY>=AMOUNT
//!   REQUEST | ALTERNATIVE CLASS .. | ALTERNATIVE CLASS ..
//!   match ATTRIBUTE REQUEST .. , distinct ATTRIBUTE REQUEST .. , config DRIVER REQUEST ..
//! held DRIVER/POOL/DEVICE admin share CAPACITY=AMOUNT ..
//! rule DRIVER/POOL/DEVICE !KEY:EFFECT
//! off GATE
//! release 1.37
//! => NODE: what is allocated on the node, nothing without claims
//! ```
//!
//! `NODES` is `@NODE`, `@*` for all, `@LABEL=VALUE`, `@LABEL~VALUE` for a selector that does not parse, or `@devices`.
//! A word that contains spaces is in brackets.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_api::devices::{Allocation, DeviceNodeSelector};
use plimsoll_api::wire::Object;
use plimsoll_api::{
    DeviceClass, DeviceTaintRule, KindRef, Kinds, Labels, Release, ResourceClaim, ResourceSlice,
    Str,
};
use plimsoll_devices::{
    AllocateError, Allocated, Allocator, CycleMemory, DeviceIds, Features, Inventory, NodeRef,
};
use serde_json::{Map, Value, json};

use crate::expressions::Expressions;

/// A cluster, and the claims of a pod.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) nodes: Vec<(Str, Labels)>,
    pub(crate) slices: Vec<Arc<ResourceSlice>>,
    pub(crate) classes: BTreeMap<Str, DeviceClass>,
    pub(crate) claims: Vec<ResourceClaim>,
    pub(crate) held: Vec<Allocation>,
    rules: Vec<DeviceTaintRule>,
    pub(crate) features: Features,
    expected: Vec<(String, String)>,
}

/// Compares what is allocated on each node with what the text expects, on one node after the other.
#[track_caller]
pub(crate) fn check(text: &str) {
    let scenario = Scenario::parse(text);
    assert!(!scenario.expected.is_empty(), "the text expects something");
    let nodes: Vec<&str> = scenario.expected.iter().map(|(node, _)| node.as_str()).collect();
    let found = scenario.allocate(&nodes);
    for ((node, expected), found) in scenario.expected.iter().zip(found) {
        assert_eq!(found, *expected, "node {node} of\n{text}");
    }
}

impl Scenario {
    /// What is allocated on each of these nodes, in one attempt.
    pub(crate) fn allocate(&self, nodes: &[&str]) -> Vec<String> {
        let mut ids = DeviceIds::default();
        let mut inventory = Inventory::new(self.features);
        let mut allocated = Allocated::new(self.features);
        for slice in &self.slices {
            inventory.set(&mut ids, slice.clone());
        }
        inventory.set_rules(self.rules.clone());
        inventory.settle();
        for allocation in &self.held {
            allocated.add(&mut ids, allocation);
        }
        let claims: Vec<&ResourceClaim> = self.claims.iter().collect();
        let classes = |name: &str| self.classes.get(name);
        let allocator = Allocator::new(&inventory, &allocated, &claims, classes);
        let mut memory = CycleMemory::default();
        let mut found = Vec::new();
        for name in nodes {
            let bare = Labels::default();
            let known = self.nodes.iter().find(|(known, _)| known == name);
            let labels = known.map_or(&bare, |(_, labels)| labels);
            let node = NodeRef { name, labels };
            let result =
                allocator.allocate(node, &mut memory, &mut Expressions::default(), &mut || true);
            found.push(self.show(result));
        }
        found
    }

    fn show(&self, result: Result<Option<Vec<Allocation>>, AllocateError>) -> String {
        let all = match result {
            Ok(None) => return "none".to_owned(),
            Err(error) => return error.to_string(),
            Ok(Some(all)) => all,
        };
        let shown = all.iter().zip(&self.claims).map(|(allocation, claim)| {
            let devices: Vec<String> = allocation
                .devices
                .iter()
                .map(|device| {
                    let mut text = format!(
                        "{} {}/{}/{}",
                        device.request, device.driver, device.pool, device.device
                    );
                    if device.admin_access == Some(true) {
                        text += " admin";
                    }
                    if device.share_id.is_some() {
                        let amounts = device.consumed_capacity.iter();
                        let amounts: Vec<_> =
                            amounts.map(|(name, amount)| format!("{name}={amount}")).collect();
                        text += &format!(" share{{{}}}", amounts.join(","));
                    }
                    for condition in &device.binding_conditions {
                        text += &format!(" if:{condition}");
                    }
                    for condition in &device.binding_failure_conditions {
                        text += &format!(" unless:{condition}");
                    }
                    text
                })
                .collect();
            let mut text = format!("{}:", claim.key.name);
            if !devices.is_empty() {
                text += &format!(" {}", devices.join(", "));
            }
            text += &show_selector(allocation.node_selector.as_ref());
            for config in &allocation.config {
                let driver = config.opaque.as_ref().map_or("?", |opaque| opaque.driver.as_str());
                let source = config.source.as_str();
                text += &format!(" {source}:{driver}({})", config.requests.join(","));
            }
            text
        });
        shown.collect::<Vec<_>>().join("; ")
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut scenario = Scenario {
            nodes: Vec::new(),
            slices: Vec::new(),
            classes: BTreeMap::new(),
            claims: Vec::new(),
            held: Vec::new(),
            rules: Vec::new(),
            features: Features::of(Release::V1_36),
            expected: Vec::new(),
        };
        let lines: Vec<&str> =
            text.lines().map(str::trim_end).filter(|one| !one.is_empty()).collect();
        let indent = lines.iter().map(|line| line.len() - line.trim_start().len()).min();
        let lines: Vec<&str> =
            lines.iter().map(|line| &line[indent.unwrap_or_default()..]).collect();
        let mut at = 0;
        while at < lines.len() {
            let below = lines[at + 1..].iter().take_while(|line| line.starts_with(' ')).count();
            let inside: Vec<Vec<&str>> =
                lines[at + 1..=at + below].iter().map(|line| words(line)).collect();
            scenario.statement(lines[at], &words(lines[at]), &inside);
            at += 1 + below;
        }
        scenario
    }

    fn statement(&mut self, line: &str, words: &[&str], inside: &[Vec<&str>]) {
        match words {
            ["node", name, labels @ ..] => {
                let labels = labels.iter().map(|one| one.split_once('=').expect("a label"));
                self.nodes.push(((*name).into(), labels.collect()));
            }
            ["slice", name, pool, number, rest @ ..] => {
                self.slices.push(Arc::new(slice(name, pool, number, rest, inside)));
            }
            ["class", name, rest @ ..] => {
                let class: DeviceClass = class(name, rest);
                self.classes.insert(class.name.clone(), class);
            }
            ["claim", name] => self.claims.push(claim(name, inside)),
            ["held", device, rest @ ..] => self.held.push(held(device, rest, self.held.len())),
            ["rule", device, taint] => {
                let parts: Vec<&str> = device.split('/').collect();
                let part = |at: usize| parts.get(at).filter(|one| **one != "*");
                let selector = json!({"driver": part(0), "pool": part(1), "device": part(2)});
                let name = format!("r{}", self.rules.len());
                let spec = json!({"deviceSelector": selector, "taint": taint_of(taint)});
                self.rules.push(read("resource.k8s.io/v1beta2", "DeviceTaintRule", &name, &spec));
            }
            ["off", gate] => match *gate {
                "DRAPrioritizedList" => self.features.prioritized_list = false,
                "DRAPartitionableDevices" => self.features.partitionable_devices = false,
                "DRADeviceTaints" => self.features.device_taints = false,
                "DRADeviceBindingConditions" => self.features.binding_conditions = false,
                "DRAConsumableCapacity" => self.features.consumable_capacity = false,
                other => panic!("no gate {other}"),
            },
            ["release", "1.37"] => self.features = Features::of(Release::V1_37),
            ["=>", ..] => {
                let rest = line.trim_start_matches("=> ");
                let (node, expected) = rest.split_once(':').expect("a node and what it gets");
                self.expected.push((node.to_owned(), expected.trim_start().to_owned()));
            }
            _ => panic!("unknown statement: {line}"),
        }
    }
}

fn show_selector(selector: Option<&DeviceNodeSelector>) -> String {
    let Some(selector) = selector else { return String::new() };
    let [term] = selector.terms() else { panic!("one term is expected") };
    let all = term.fields.iter().chain(&term.expressions);
    all.map(|one| match one.key.as_str() {
        "metadata.name" => format!(" @{}", one.values.join("|")),
        key => format!(" @{key}={}", one.values.join("|")),
    })
    .collect()
}

/// The words of a line. Spaces within brackets do not separate.
fn words(line: &str) -> Vec<&str> {
    let (mut depth, mut start, mut words) = (0, None, Vec::new());
    for (at, byte) in line.bytes().enumerate() {
        depth += i32::from(byte == b'[') - i32::from(byte == b']');
        match (start, byte == b' ' && depth == 0) {
            (None, false) => start = Some(at),
            (Some(from), true) => {
                words.push(&line[from..at]);
                start = None;
            }
            _ => {}
        }
    }
    words.extend(start.map(|from| &line[from..]));
    words
}

fn read<K: plimsoll_api::Kind + Clone>(version: &str, kind: &str, name: &str, spec: &Value) -> K {
    let kinds = Kinds::built_in().with(KindRef::of::<DeviceTaintRule>());
    let object = json!({"apiVersion": version, "kind": kind,
        "metadata": {"name": name, "uid": name}, "spec": spec});
    match kinds.object(&object).expect("the object is right") {
        Object::Other(object) => object.get::<K>().expect("it is of this kind").clone(),
        other => panic!("{other:?}"),
    }
}

fn driver_and_pool(text: &str) -> (&str, &str) {
    text.split_once('/').expect("a driver and a pool")
}

fn slice(
    name: &str,
    pool: &str,
    number: &str,
    rest: &[&str],
    devices: &[Vec<&str>],
) -> ResourceSlice {
    let (driver, pool) = driver_and_pool(pool);
    let (generation, count) = number.split_once('/').expect("generation and count");
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let mut spec = json!({"driver": driver, "pool": {
        "name": pool, "generation": number(generation), "resourceSliceCount": number(count)}});
    let mut sets: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for word in rest {
        match word.split_at(1) {
            ("@", nodes) => add_nodes(&mut spec, nodes),
            ("+", counter) => add_counter(&mut sets, counter),
            _ => panic!("unknown word {word} of slice {name}"),
        }
    }
    let sets: Vec<Value> = sets
        .into_iter()
        .map(|(name, counters)| json!({"name": name, "counters": counters}))
        .collect();
    spec["sharedCounters"] = sets.into();
    spec["devices"] = devices.iter().map(|words| device(words)).collect();
    let mut slice: ResourceSlice = read("resource.k8s.io/v1", "ResourceSlice", name, &spec);
    // The API server refuses a policy for a device that is not shared, and upstream's allocator knows one all the same.
    for (device, words) in slice.devices.iter_mut().zip(devices) {
        device.allow_multiple_allocations = words.contains(&"shared");
    }
    slice
}

/// `SET.COUNTER=AMOUNT`, or `SET` for a set without counters
fn add_counter<'a>(sets: &mut BTreeMap<&'a str, Map<String, Value>>, text: &'a str) {
    let Some((set, counter)) = text.split_once('.') else {
        sets.entry(text).or_default();
        return;
    };
    let (counter, amount) = counter.split_once('=').expect("an amount");
    sets.entry(set).or_default().insert(counter.to_owned(), json!({"value": amount}));
}

fn add_nodes(spec: &mut Value, nodes: &str) {
    let selector = |key: &str, operator: &str, value: &str| {
        json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": key, "operator": operator, "values": value.split('|').collect::<Vec<_>>()}]}]})
    };
    match (nodes, nodes.split_once('='), nodes.split_once('~')) {
        ("*", ..) => spec["allNodes"] = true.into(),
        ("devices", ..) => spec["perDeviceNodeSelection"] = true.into(),
        (_, Some((key, value)), _) => spec["nodeSelector"] = selector(key, "In", value),
        (_, _, Some((key, value))) => spec["nodeSelector"] = selector(key, "Near", value),
        (name, ..) => spec["nodeName"] = name.into(),
    }
}

fn device(words: &[&str]) -> Value {
    let mut device = json!({"name": words[0], "attributes": {}, "capacity": {}});
    if words.iter().any(|word| word.ends_with('}')) {
        device["allowMultipleAllocations"] = true.into();
    }
    let mut consumed: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let mut lists: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for word in &words[1..] {
        let (first, rest) = word.split_at(1);
        match (first, *word) {
            ("@", _) => add_nodes(&mut device, rest),
            ("!", _) => lists.entry("taints").or_default().push(taint_of(word)),
            ("-", _) => add_counter(&mut consumed, rest),
            (_, "shared") => device["allowMultipleAllocations"] = true.into(),
            (_, "binds") => device["bindsToNode"] = true.into(),
            _ => match (word.split_once('='), word.split_once(':')) {
                (_, Some(("if", name))) => {
                    lists.entry("bindingConditions").or_default().push(name.into());
                }
                (_, Some(("unless", name))) => {
                    lists.entry("bindingFailureConditions").or_default().push(name.into());
                }
                (Some((name, value)), colon)
                    if colon.is_none_or(|(before, _)| name.len() < before.len()) =>
                {
                    device["attributes"][name] = attribute(value);
                }
                (_, Some((name, amount))) => device["capacity"][name] = capacity(amount),
                _ => panic!("unknown word {word} of device {}", words[0]),
            },
        }
    }
    for (name, items) in lists {
        device[name] = items.into();
    }
    let consumed = consumed.into_iter();
    device["consumesCounters"] =
        consumed.map(|(set, counters)| json!({"counterSet": set, "counters": counters})).collect();
    device
}

fn attribute(value: &str) -> Value {
    if let Some(version) = value.strip_prefix('v') {
        return json!({"version": version});
    }
    if let Some(list) = value.strip_prefix('[') {
        let list: Vec<&str> = list.trim_end_matches(']').split(',').collect();
        return match list.iter().map(|one| one.parse()).collect::<Result<Vec<i64>, _>>() {
            Ok(numbers) => json!({"ints": numbers}),
            Err(_) => json!({"strings": list}),
        };
    }
    match value.parse::<i64>() {
        Ok(number) => json!({"int": number}),
        Err(_) if value == "true" || value == "false" => json!({"bool": value == "true"}),
        Err(_) if value == "?" => json!({}),
        Err(_) => json!({"string": value}),
    }
}

/// `AMOUNT` or `AMOUNT{default=A,values=A|B,min=A,max=A,step=A}`
fn capacity(text: &str) -> Value {
    let Some((value, policy)) = text.split_once('{') else { return json!({"value": text}) };
    let (mut request, mut range) = (Map::new(), Map::new());
    for part in policy.trim_end_matches('}').split(',') {
        let (name, amount) = part.split_once('=').expect("an amount");
        match name {
            "default" => request.insert("default".to_owned(), amount.into()),
            "values" => {
                let values = amount.split('|').collect::<Vec<_>>();
                request.insert("validValues".to_owned(), values.into())
            }
            _ => range.insert(name.to_owned(), amount.into()),
        };
    }
    if !range.is_empty() {
        request.insert("validRange".to_owned(), range.into());
    }
    json!({"value": value, "requestPolicy": request})
}

/// `!KEY=VALUE:EFFECT`
fn taint_of(word: &str) -> Value {
    let (key, effect) = word[1..].split_once(':').expect("an effect");
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    json!({"key": key, "value": value, "effect": effect})
}

fn class(name: &str, rest: &[&str]) -> DeviceClass {
    let selectors = rest.iter().filter(|word| word.starts_with('['));
    let config = rest.iter().filter_map(|word| word.strip_prefix("config:"));
    let config = config.map(|driver| json!({"opaque": {"driver": driver, "parameters": {}}}));
    let spec = json!({"selectors": selectors.map(|word| selector(word)).collect::<Vec<_>>(),
        "config": config.collect::<Vec<_>>()});
    read("resource.k8s.io/v1", "DeviceClass", name, &spec)
}

fn selector(word: &str) -> Value {
    match &word[1..word.len() - 1] {
        "" => json!({}),
        expression => json!({"cel": {"expression": expression}}),
    }
}

fn claim(name: &str, inside: &[Vec<&str>]) -> ResourceClaim {
    let (mut requests, mut constraints, mut configs) = (Vec::new(), Vec::new(), Vec::new());
    for words in inside {
        match words.as_slice() {
            ["match", attribute, names @ ..] => {
                constraints.push(json!({"matchAttribute": attribute, "requests": names}));
            }
            ["distinct", attribute, names @ ..] => {
                constraints.push(json!({"distinctAttribute": attribute, "requests": names}));
            }
            ["constraint"] => constraints.push(json!({})),
            ["config", driver, names @ ..] => configs
                .push(json!({"opaque": {"driver": driver, "parameters": {}}, "requests": names})),
            [name, "?"] => requests.push(json!({"name": name})),
            [name, "|", alternatives @ ..] => {
                let all = alternatives.split(|word| *word == "|").map(|words| {
                    let mut alternative = ask(&words[1..]);
                    alternative["name"] = words[0].into();
                    alternative
                });
                requests.push(json!({"name": name, "firstAvailable": all.collect::<Vec<_>>()}));
            }
            [name, words @ ..] => requests.push(json!({"name": name, "exactly": ask(words)})),
            [] => panic!("a request is expected"),
        }
    }
    let devices = json!({"requests": requests, "constraints": constraints, "config": configs});
    read("resource.k8s.io/v1", "ResourceClaim", name, &json!({"devices": devices}))
}

fn ask(words: &[&str]) -> Value {
    let class = words.first().filter(|class| **class != "-");
    let mut ask = json!({"deviceClassName": class});
    let (mut selectors, mut tolerations, mut capacity) = (Vec::new(), Vec::new(), Map::new());
    for word in words.iter().skip(1) {
        match (word.split_at(1), word.split_once(">="), word.split_once(':')) {
            ((_, _), _, Some(("mode", mode))) => ask["allocationMode"] = mode.into(),
            (("[", _), ..) => selectors.push(selector(word)),
            (("~", rest), ..) => tolerations.push(toleration(rest)),
            (_, Some((name, amount)), _) => {
                capacity.insert(name.to_owned(), amount.into());
            }
            _ if *word == "all" => ask["allocationMode"] = "All".into(),
            _ if *word == "admin" => ask["adminAccess"] = true.into(),
            (("x", count), ..) => ask["count"] = count.parse::<i64>().expect("a count").into(),
            _ => panic!("unknown word {word} of a request"),
        }
    }
    ask["selectors"] = selectors.into();
    ask["tolerations"] = tolerations.into();
    if !capacity.is_empty() {
        ask["capacity"] = json!({"requests": capacity});
    }
    ask
}

/// `KEY=VALUE:EFFECT`; without a value any is tolerated, without an effect any.
fn toleration(text: &str) -> Value {
    let (key, effect) = text.split_once(':').unwrap_or((text, ""));
    match key.split_once('=') {
        Some((key, value)) => json!({"key": key, "value": value, "effect": effect}),
        None => json!({"key": key, "operator": "Exists", "effect": effect}),
    }
}

fn held(device: &str, rest: &[&str], number: usize) -> Allocation {
    let parts: Vec<&str> = device.splitn(3, '/').collect();
    let [driver, pool, device] = parts[..] else { panic!("DRIVER/POOL/DEVICE is expected") };
    let mut result = json!({"request": "r", "driver": driver, "pool": pool, "device": device});
    let mut amounts = Map::new();
    for word in rest {
        match (*word, word.split_once('=')) {
            ("admin", _) => result["adminAccess"] = true.into(),
            ("share", _) => result["shareID"] = format!("share-{number}").into(),
            (_, Some((name, amount))) => {
                amounts.insert(name.to_owned(), amount.into());
            }
            _ => panic!("unknown word {word}"),
        }
    }
    if !amounts.is_empty() {
        result["consumedCapacity"] = amounts.into();
    }
    let object = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "held"}, "status": {"allocation": {"devices": {"results": [result]}}}});
    let claim = plimsoll_api::wire::object(&object).expect("the claim is right");
    let claim = claim.get::<ResourceClaim>().expect("it is a claim");
    claim.allocation.clone().expect("it is allocated")
}
