//! Scenarios: small clusters as text. The format is described in the [docs of the crate](crate).

use std::fmt;

use plimsoll_api::wire::{self, Object};
use plimsoll_api::{AnyObject, Namespace, Node, Str};
use plimsoll_framework::{FeatureGates, PodInfo, ReleaseError};
use serde_json::{Deserializer, Value};

use crate::manifest::{self, Fields, ObjectHead};

/// The namespace of objects that name none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// A small cluster, and the pods that are to be judged in it.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// The args of the plugin; `None` if the scenario has none.
    pub args: Option<Value>,
    /// The release, with the feature gates.
    pub gates: FeatureGates,
    /// The nodes, in the order in which they are written.
    pub nodes: Vec<Node>,
    /// The pods on nodes; each names its node.
    pub placed: Vec<PodInfo>,
    /// The pods to be judged, in the order in which they are written.
    pub pending: Vec<PodInfo>,
    /// Everything else. It includes the namespaces of all these pods.
    pub objects: Vec<AnyObject>,
}

/// A statement of a scenario that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The line on which it begins, counted from 1.
    pub line: usize,
    /// The statement.
    pub statement: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the scenario: {}\n    {}", self.line, self.message, self.statement)
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// Parses a scenario.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let mut scenario = Scenario::default();
        let mut lines = text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            let mut statement = line.trim().to_owned();
            let told = loop {
                match Statement::read(&statement) {
                    Ok(None) => break Ok(()),
                    Ok(Some(read)) => break scenario.take(read),
                    Err(Unread::Wrong(message)) => break Err(message),
                    Err(Unread::Unfinished) => match lines.next() {
                        Some((line, _)) => statement = format!("{statement} {}", line.trim()),
                        None => break Err("the JSON is incomplete".to_owned()),
                    },
                }
            };
            told.map_err(|message| ScenarioError { line: number, statement, message })?;
        }
        Ok(scenario)
    }

    fn take(&mut self, statement: Statement<'_>) -> Result<(), String> {
        match statement.keyword {
            "args" => self.args = Some(statement.json.map(Value::Object).ok_or("write JSON args")?),
            "gate" => {
                for (name, value) in statement.labels {
                    let on = match value.as_str() {
                        Some("true") => true,
                        Some("false") => false,
                        _ => return Err(format!("gate {name:?} must be true or false")),
                    };
                    self.gates = std::mem::take(&mut self.gates).with(&name, on);
                }
            }
            "release" => {
                let release = statement.name.ok_or("name the release")?.parse();
                let release = release.map_err(|error: ReleaseError| error.to_string())?;
                self.gates = std::mem::take(&mut self.gates).at(release);
            }
            _ => self.take_object(statement)?,
        }
        Ok(())
    }

    fn take_object(&mut self, statement: Statement<'_>) -> Result<(), String> {
        let Statement { keyword, name, on, labels, json } = statement;
        let name = name.ok_or_else(|| format!("name the {keyword}"))?;
        let (namespace, name) = name.split_once('/').unwrap_or((DEFAULT_NAMESPACE, name));
        let head = ObjectHead { namespace, name, labels };
        let fields = json.unwrap_or_default();
        let manifest = match keyword {
            "node" => manifest::node(&head, fields)?,
            "pod" => manifest::pod(&head, on, fields)?,
            "namespace" => manifest::namespace(&head),
            _ => manifest::selecting(keyword, &head, &fields)
                .or_else(|| manifest::around(keyword, &head, &fields))
                .ok_or_else(|| format!("unknown statement {keyword:?}"))?,
        };
        match wire::object(&manifest).map_err(|error| error.to_string())? {
            Object::Node(node) => self.add_node(*node),
            Object::Pod(mut pod) => {
                pod.reckon(self.gates.requests());
                self.add_pod(PodInfo::new(*pod), on)
            }
            Object::Other(object) => {
                // It replaces a namespace that was only implied by a pod above.
                let implied = |known: &AnyObject| {
                    known.kind().is::<Namespace>()
                        && (known.kind(), known.key()) == (object.kind(), object.key())
                };
                self.objects.retain(|known| !implied(known));
                self.objects.push(object);
                Ok(())
            }
            Object::Unknown { kind, .. } => Err(format!("a scenario cannot contain a {kind}")),
        }
    }

    fn add_node(&mut self, node: Node) -> Result<(), String> {
        if self.nodes.iter().any(|known| known.name == node.name) {
            return Err(format!("node {} already exists", node.name));
        }
        self.nodes.push(node);
        Ok(())
    }

    fn add_pod(&mut self, pod: PodInfo, on: Option<&str>) -> Result<(), String> {
        if self.placed.iter().chain(&self.pending).any(|known| known.key == pod.key) {
            return Err(format!("pod {} already exists", pod.key));
        }
        self.imply_namespace(&pod.key.namespace)?;
        let Some(node) = on else {
            self.pending.push(pod);
            return Ok(());
        };
        if !self.nodes.iter().any(|known| known.name == node) {
            return Err(format!("node {node} must be defined above"));
        }
        self.placed.push(pod);
        Ok(())
    }

    /// Adds a namespace without a statement of its own. It has the labels that the API server gives it.
    fn imply_namespace(&mut self, name: &Str) -> Result<(), String> {
        let mut namespaces = self.objects.iter().filter_map(AnyObject::get::<Namespace>);
        if namespaces.any(|known| known.name == *name) {
            return Ok(());
        }
        let head = ObjectHead { namespace: "", name, labels: Fields::new() };
        match wire::object(&manifest::namespace(&head)).map_err(|error| error.to_string())? {
            Object::Other(namespace) => self.objects.push(namespace),
            other => unreachable!("the manifest of a namespace was read as {other:?}"),
        }
        Ok(())
    }
}

/// The parts of a statement.
#[derive(Debug)]
struct Statement<'a> {
    keyword: &'a str,
    name: Option<&'a str>,
    on: Option<&'a str>,
    labels: Fields,
    json: Option<Fields>,
}

/// Why a statement was not parsed.
#[derive(Debug)]
enum Unread {
    /// Its JSON continues on the next line.
    Unfinished,
    /// It is wrong.
    Wrong(String),
}

impl<'a> Statement<'a> {
    /// `None` for a line without a statement.
    fn read(text: &'a str) -> Result<Option<Self>, Unread> {
        let (head, json) = split(text)?;
        let mut words = head.split_whitespace().peekable();
        let Some(keyword) = words.next() else { return Ok(None) };
        let name = words.next_if(|word| !word.contains('='));
        let mut statement = Statement { keyword, name, on: None, labels: Fields::new(), json };
        while let Some(word) = words.next() {
            match word.split_once('=') {
                Some((key, value)) => {
                    statement.labels.insert(key.to_owned(), Value::from(value));
                }
                None if word == "on" && keyword == "pod" => {
                    let node = words.next();
                    statement.on =
                        Some(node.ok_or_else(|| Unread::Wrong("name the node".to_owned()))?);
                }
                None => return Err(Unread::Wrong(format!("{word:?} is not KEY=VALUE"))),
            }
        }
        Ok(Some(statement))
    }
}

/// The words of a statement, and the JSON after them.
fn split(text: &str) -> Result<(&str, Option<Fields>), Unread> {
    let starts_word = |at: usize| text[..at].ends_with(char::is_whitespace) || at == 0;
    let end = text.char_indices().find(|&(at, c)| matches!(c, '{' | '#') && starts_word(at));
    let Some((at, '{')) = end else {
        return Ok((end.map_or(text, |(at, _)| &text[..at]), None));
    };
    let mut json = Deserializer::from_str(&text[at..]).into_iter::<Fields>();
    let fields = match json.next() {
        Some(Ok(fields)) => fields,
        Some(Err(error)) if !error.is_eof() => return Err(Unread::Wrong(error.to_string())),
        Some(Err(_)) | None => return Err(Unread::Unfinished),
    };
    let rest = text[at + json.byte_offset()..].trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        Ok((&text[..at], Some(fields)))
    } else {
        Err(Unread::Wrong(format!("unexpected text after the JSON: {rest:?}")))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{
        Kind, PersistentVolume, PersistentVolumeClaim, PodDisruptionBudget, ReplicaSet,
        StorageClass,
    };
    use plimsoll_framework::Release;

    use super::*;

    /// The first object of a kind.
    fn only<K: Kind>(scenario: &Scenario) -> &K {
        scenario.objects.iter().find_map(AnyObject::get).expect("there is one")
    }

    fn error(text: &str) -> String {
        Scenario::parse(text).expect_err("the scenario is wrong").to_string()
    }

    #[test]
    fn objects_are_read_as_they_are_written() {
        let scenario = Scenario::parse(
            r#"
            # a comment
            args {"racks": ["r1"]}   # another
            gate A=true B=false
            release 1.36
            namespace team team=a
            node a zone=z1 {"unschedulable": true}
            pod other/p app=web on a {"priority": 7}
            pod q {"tolerations": [
                {"operator": "Exists"}
            ]}
            rs web app=web
            pv disk zone=z1 {"capacity": {"storage": "1Gi"}}
            pvc other/data {"owner": "other/p", "volumeName": "disk"}
            sc fast {"provisioner": "csi.a"}
            pdb other/web app=web {"status": {"disruptionsAllowed": 1}}
            "#,
        )
        .expect("the scenario is right");
        assert_eq!(scenario.args, Some(serde_json::json!({ "racks": ["r1"] })));
        assert!(scenario.gates.enabled("A", false));
        assert!(!scenario.gates.enabled("B", true));
        assert_eq!(scenario.gates.release(), Release::V1_36);
        assert!(scenario.nodes[0].unschedulable);
        assert_eq!(scenario.nodes[0].labels.get("zone").map(Str::as_str), Some("z1"));
        let placed = &scenario.placed[0];
        assert_eq!((placed.key.to_string().as_str(), placed.priority), ("other/p", 7));
        assert_eq!(placed.node_name.as_deref(), Some("a"));
        assert_eq!(scenario.pending[0].tolerations.len(), 1);
        let replicas: &ReplicaSet = only(&scenario);
        assert!(replicas.selector.matches(&placed.labels));
        let (disk, data): (&PersistentVolume, &PersistentVolumeClaim) =
            (only(&scenario), only(&scenario));
        assert_eq!(disk.labels.get("zone").map(Str::as_str), Some("z1"));
        assert_eq!((data.volume.as_ref(), data.is_made_for(placed)), (Some(&disk.name), true));
        assert_eq!(only::<StorageClass>(&scenario).name, "fast");
        let budget: &PodDisruptionBudget = only(&scenario);
        assert_eq!((budget.key.to_string().as_str(), budget.disruptions_allowed), ("other/web", 1));
        assert!(budget.selector.matches(&placed.labels));
        let namespaces = scenario.objects.iter().filter_map(AnyObject::get::<Namespace>);
        let namespaces = namespaces.map(|namespace| namespace.name.as_str());
        assert_eq!(namespaces.collect::<Vec<_>>(), ["team", "other", "default"]);
    }

    #[test]
    fn omitted_objects_and_fields_have_defaults() {
        let text = "node a\npod other/p";
        let scenario = Scenario::parse(text).expect("the scenario is right");
        let name = only::<Namespace>(&scenario).labels.get("kubernetes.io/metadata.name");
        assert_eq!(name.map(Str::as_str), Some("other"));
        assert_eq!(scenario.nodes[0].allocatable.milli_cpu, 64_000);
        assert_eq!(scenario.args, None);
    }

    #[test]
    fn a_statement_that_cannot_be_parsed_is_reported_with_its_line() {
        for (text, told) in [
            ("\nnodes a", "line 2 of the scenario: unknown statement \"nodes\"\n    nodes a"),
            ("node", "line 1 of the scenario: name the node\n    node"),
            ("node a x", "line 1 of the scenario: \"x\" is not KEY=VALUE\n    node a x"),
            ("pod p on a", "line 1 of the scenario: node a must be defined above\n    pod p on a"),
            ("node a\nnode a", "line 2 of the scenario: node a already exists\n    node a"),
            ("pod p\npod p", "line 2 of the scenario: pod default/p already exists\n    pod p"),
            (
                "pod p {\"priority\":\n1",
                "line 1 of the scenario: the JSON is incomplete\n    pod p {\"priority\": 1",
            ),
            (
                "pod p {} x",
                "line 1 of the scenario: unexpected text after the JSON: \"x\"\n    pod p {} x",
            ),
            ("release", "line 1 of the scenario: name the release\n    release"),
            (
                "release 1.1",
                "line 1 of the scenario: emulation version 1.1 is not between [1.36, 1.37]\n    release 1.1",
            ),
            (
                "gate A=on",
                "line 1 of the scenario: gate \"A\" must be true or false\n    gate A=on",
            ),
        ] {
            assert_eq!(error(text), told);
        }
    }

    #[test]
    fn a_manifest_that_the_api_server_would_reject_is_rejected() {
        let told = error(r#"node a {"taints": [{"key": "k", "effect": "Never"}]}"#);
        assert!(told.contains("spec.taints[0]"), "{told}");
    }
}
