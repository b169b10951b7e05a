//! Reads objects of which some part cannot be read.
//!
//! An API server may be newer than this reader, or contain objects that an older one accepted. Such an object must not
//! be lost: a pod takes its room even if one of its fields is wrong. Therefore the parts that cannot be read are
//! removed one by one, and the rest is read as usual. This is slow, and only done if reading has failed.

use serde_json::Value;

use super::error::WireError;
use super::{Object, Reader};

/// The number of sizes of the parts that are removed. After a number of parts of one size, the next parts are larger,
/// so that this ends for an object with many faults, too. The last parts are whole fields of spec or metadata, of
/// which there are few.
const SIZES: usize = 5;
const WHOLE_FIELD: usize = SIZES - 1;
/// At least this many parts of one size may be removed, even from the largest object.
const LEAST_ROUNDS: usize = 16;
/// The object is read again after each part, and other objects must not wait long for that. For the parts of one size
/// at most this many bytes are read.
const BYTES_OF_ONE_SIZE: usize = 16 << 20;
/// At most this many parts of one size are removed, even from the smallest object.
const MOST_ROUNDS: usize = 1024;
/// At most this many faults are listed, because there may be as many as rounds.
const MOST_TOLD: usize = 3;

/// Lists from which an item is removed as a whole: without one of its fields it would mean something else.
const WHOLE_ITEMS: [&str; 11] = [
    "tolerations",
    "taints",
    "topologySpreadConstraints",
    "nodeSelectorTerms",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "matchExpressions",
    "ports",
    "volumes",
    "devices",
    "sharedCounters",
];

/// An object, as far as it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The object without the parts that cannot be read. A pod lists those that matter in
    /// [`Pod::unreadable`](crate::Pod::unreadable).
    pub object: Object,
    /// The parts that cannot be read.
    pub faults: Vec<WireError>,
}

impl Reader {
    /// Reads as much of an object as possible, after [`Reader::read`] has failed.
    ///
    /// It is an error if the text is not JSON, if the name is missing, or if there are too many faults.
    pub fn salvage(self, json: &str) -> std::result::Result<Salvaged, WireError> {
        let tree = serde_json::from_str(json);
        let mut tree: Value = tree.map_err(|error| WireError::new("", error.to_string()))?;
        let rounds = rounds_of_one_size(json.len());
        let mut faults: Vec<WireError> = Vec::new();
        for round in 0..SIZES * rounds {
            let error = match self.take(&tree) {
                Ok(mut object) => {
                    tell(&mut object, &faults);
                    return Ok(Salvaged { object, faults });
                }
                Err(error) => error,
            };
            if !leave_out(&mut tree, &error.field, round / rounds) {
                return Err(error);
            }
            faults.push(error);
        }
        Err(faults.swap_remove(0))
    }
}

/// How many parts of one size may be removed from an object of `bytes` bytes.
fn rounds_of_one_size(bytes: usize) -> usize {
    (BYTES_OF_ONE_SIZE / bytes.max(1)).clamp(LEAST_ROUNDS, MOST_ROUNDS)
}

/// Records in a pod which of its parts cannot be read, as far as they matter.
fn tell(object: &mut Object, faults: &[WireError]) {
    let Object::Pod(pod) = object else { return };
    let mut matters = faults.iter().filter(|fault| matters(fault)).map(ToString::to_string);
    let told: Vec<String> = matters.by_ref().take(MOST_TOLD).collect();
    if told.is_empty() {
        return;
    }
    let more = match matters.count() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    pod.unreadable = Some(format!("{}{more}", told.join("; ")).into());
}

/// Whether the part that was removed may change on which node a pod belongs. Parts that kube-scheduler ignores, too,
/// do not matter: values that it does not know, and node selector terms that it cannot parse.
fn matters(fault: &WireError) -> bool {
    let WireError { field, message } = fault;
    let decides = field.starts_with("spec") || field.starts_with("metadata.labels");
    let is_no_word = message.starts_with("Unsupported value");
    let is_misshapen = message.starts_with("invalid type");
    let is_of = |list: &str| field.contains(&format!(".{list}["));
    let is_passed_over = is_no_word
        && (is_of("tolerations")
            || field.ends_with(".whenUnsatisfiable")
            || field.ends_with(".preemptionPolicy"))
        || message.ends_with(super::taints::NO_INTEGER)
        || is_of("nodeSelectorTerms") && !is_misshapen;
    decides && !is_passed_over
}

/// One step of a path: the name of a field, the key of an entry, or the index of an item.
type Step<'a> = &'a str;

/// The steps of a path such as `spec.containers[0].resources.requests[example.com/gpu]`.
fn steps(field: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        let (step, after) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        steps.push(step);
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    steps
}

/// Removes the part that `field` names from an object, or the part in which it is missing. Returns whether anything
/// was removed. A larger `size` removes more around it, up to the [`WHOLE_FIELD`] that contains it.
fn leave_out(tree: &mut Value, field: &str, size: usize) -> bool {
    let steps = steps(field);
    let n_there = (1..=steps.len()).take_while(|&n| at(tree, &steps[..n]).is_some()).count();
    let is_item = |pair: &[Step<'_>]| {
        WHOLE_ITEMS.contains(&pair[0]) && pair[1].bytes().all(|byte| byte.is_ascii_digit())
    };
    let whole = steps.windows(2).position(is_item).map(|list| list + 2);
    let n_steps = match size {
        WHOLE_FIELD.. => 0,
        size => whole.map_or(n_there, |whole| whole.min(n_there)).saturating_sub(size),
    };
    // A direct field of the object is removed only if it is itself at fault. Metadata are never removed, because an
    // object needs them.
    let n_steps = n_steps.max(2).min(n_there);
    if n_steps == 0 || steps[..n_steps] == ["metadata"] {
        return false;
    }
    let (last, outer) = (steps[n_steps - 1], &steps[..n_steps - 1]);
    match at(tree, outer) {
        Some(Value::Object(fields)) => fields.remove(last).is_some(),
        Some(Value::Array(items)) => match last.parse::<usize>() {
            Ok(index) if index < items.len() => {
                items.remove(index);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// The value at the end of a path. `null` is the same as absent.
fn at<'t>(tree: &'t mut Value, steps: &[Step<'_>]) -> Option<&'t mut Value> {
    let found = steps.iter().try_fold(tree, |value, step| match value {
        Value::Object(fields) => fields.get_mut(*step),
        Value::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
        _ => None,
    });
    found.filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Pod;

    fn salvage(kind: &str, object: &Value) -> std::result::Result<Salvaged, WireError> {
        let reader = Reader::of("v1", kind).expect("the kind is read");
        assert!(reader.read(&object.to_string()).is_err(), "it can be read: {object}");
        reader.salvage(&object.to_string())
    }

    fn pod(spec: &Value) -> (Pod, Vec<String>) {
        let metadata = json!({ "name": "p", "namespace": "n", "labels": { "app": "web" } });
        let salvaged = salvage("Pod", &json!({ "metadata": metadata, "spec": spec }));
        let Salvaged { object, faults } = salvaged.expect("a name is enough");
        let Object::Pod(pod) = object else { panic!("a pod is expected, not {object:?}") };
        assert_eq!(pod.labels.get("app").map(crate::Str::as_str), Some("web"));
        (*pod, faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn of_a_pod_all_counts_but_what_cannot_be_read() {
        let (pod, faults) = pod(&json!({
            "nodeName": "a",
            "priority": "high",
            "containers": [
                { "resources": { "requests": { "cpu": "2", "memory": "lots" } },
                  "ports": [{ "hostPort": 80 }, { "hostPort": "http" }] },
                { "resources": { "requests": { "cpu": "1", "memory": "1Ki" } } },
            ],
            "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                { "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": 7 } } },
                { "topologyKey": "host", "labelSelector": {} },
            ] } },
            "volumes": [{ "name": 1 }, { "name": "v", "persistentVolumeClaim": { "claimName": "c" } }],
        }));
        assert_eq!(pod.node_name.as_deref(), Some("a"));
        assert_eq!((pod.requests.milli_cpu, pod.requests.memory), (3000, 1024));
        assert_eq!(pod.host_ports.iter().map(|port| port.port).collect::<Vec<_>>(), [80]);
        let keys: Vec<&str> =
            pod.affinity.required_anti.iter().map(|term| term.topology_key.as_str()).collect();
        assert_eq!(keys, ["host"]);
        assert_eq!(pod.volumes.len(), 1);
        assert_eq!(faults.len(), 5, "{faults:#?}");
        let told = pod.unreadable.expect("it says so");
        assert!(told.starts_with(r#"spec."#) && told.ends_with("; and 2 more"), "{told}");
    }

    #[test]
    fn parts_that_kube_scheduler_ignores_do_not_keep_a_pod_from_being_scheduled() {
        let (pod, faults) = pod(&json!({
            "preemptionPolicy": "Sometimes",
            "tolerations": [
                { "key": "a", "operator": "Like", "value": "b" },
                { "key": "a", "operator": "Exists", "effect": "Later" },
                { "key": "a", "operator": "Gt", "value": "many" },
                { "key": "b", "operator": "Exists" },
            ],
            "topologySpreadConstraints": [
                { "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Wait" },
                { "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" },
            ],
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    { "matchExpressions": [{ "key": "a", "operator": "Near" }] },
                    { "matchExpressions": [{ "key": "a", "operator": "Exists" }] },
                ] } } },
        }));
        assert_eq!(pod.unreadable, None);
        assert_eq!(faults.len(), 6, "{faults:#?}");
        let tolerated: Vec<_> = pod.tolerations.iter().map(|one| one.key.as_deref()).collect();
        assert_eq!(tolerated, [Some("b")]);
        assert_eq!(pod.spread.len(), 1);
        assert_eq!(pod.node_selection.terms.as_ref().map(Vec::len), Some(1));
    }

    #[test]
    fn a_term_with_a_field_of_the_wrong_type_is_not_ignored() {
        let (pod, _) = pod(&json!({
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": [{ "key": 1, "operator": "Exists" }] }],
            } } },
        }));
        assert!(pod.unreadable.is_some());
        assert_eq!(pod.node_selection.terms, Some(Vec::new()), "it matches no node");
    }

    #[test]
    fn fields_that_do_not_decide_placement_do_not_keep_a_pod_from_being_scheduled() {
        let pod = json!({ "metadata": { "name": "p", "creationTimestamp": "soon" },
            "status": { "startTime": 5 } });
        let Salvaged { object, faults } = salvage("Pod", &pod).expect("a name is enough");
        assert_eq!(faults.len(), 2);
        let Object::Pod(pod) = object else { panic!("a pod is expected, not {object:?}") };
        assert_eq!(pod.unreadable, None);
    }

    #[test]
    fn a_node_keeps_its_other_taints_and_amounts() {
        let node = json!({ "metadata": { "name": "a" },
            "spec": { "taints": [{ "key": "x", "effect": "Never" }, { "key": "y", "effect": "NoSchedule" }] },
            "status": { "allocatable": { "cpu": "two", "pods": 9 } } });
        let Salvaged { object, faults } = salvage("Node", &node).expect("a name is enough");
        let Object::Node(node) = object else { panic!("a node is expected, not {object:?}") };
        assert_eq!((node.taints.len(), node.allocatable.pods), (1, 9));
        assert_eq!(faults.len(), 2);
    }

    #[test]
    fn a_pod_with_a_fault_in_each_container_requests_all_that_can_be_read() {
        let container =
            |_| json!({ "resources": { "requests": { "cpu": "1", "memory": "lots" } } });
        let containers: Vec<Value> = (0..100).map(container).collect();
        let (pod, faults) = pod(&json!({ "nodeName": "a", "containers": containers }));
        assert_eq!(pod.node_name.as_deref(), Some("a"));
        assert_eq!((pod.requests.milli_cpu, pod.requests.memory), (100_000, 0));
        assert_eq!(faults.len(), 100);
        let told = pod.unreadable.expect("it says so");
        assert!(told.ends_with("; and 97 more"), "{told}");
    }

    #[test]
    fn a_part_with_too_many_faults_is_removed_as_a_whole_and_the_rest_is_read() {
        let quantities = |n: usize| -> Value {
            let entries = (0..n).map(|i| (format!("example.com/r{i}"), json!("lots")));
            entries.collect::<serde_json::Map<_, _>>().into()
        };
        let container = |_| json!({ "resources": { "requests": quantities(2) } });
        for containers in [
            vec![json!({ "resources": { "requests": quantities(5000) } })],
            (0..5000).map(container).collect(),
        ] {
            let tolerations = (0..5000).map(|_| json!({ "operator": "Exists", "key": 5 }));
            let (pod, faults) = pod(&json!({
                "nodeName": "a",
                "containers": containers,
                "tolerations": tolerations.collect::<Vec<_>>(),
                "topologySpreadConstraints": "none",
                "nodeSelector": { "disk": "ssd" },
                "priority": 7,
            }));
            assert_eq!(pod.node_name.as_deref(), Some("a"));
            assert!(pod.priority == 7 && !pod.node_selection.is_any());
            assert!(faults.len() <= SIZES * MOST_ROUNDS, "{}", faults.len());
            assert!(pod.unreadable.is_some());
        }
    }

    #[test]
    fn a_large_object_is_read_fewer_times() {
        assert_eq!(rounds_of_one_size(0), MOST_ROUNDS);
        assert_eq!(rounds_of_one_size(20_000), 838);
        assert_eq!(rounds_of_one_size(64 << 20), LEAST_ROUNDS);
    }

    #[test]
    fn an_object_without_a_name_cannot_be_read() {
        for object in [json!({}), json!({ "metadata": {} }), json!({ "metadata": 7 }), json!([])] {
            let error = salvage("Pod", &object).expect_err("nothing can be read");
            assert!(!error.to_string().is_empty());
        }
        let nested = Reader::of("v1", "Pod").expect("the kind is read").salvage("{");
        assert!(nested.is_err());
    }
}
