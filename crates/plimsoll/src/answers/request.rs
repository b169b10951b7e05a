//! Reads the questions that are asked in JSON.

use plimsoll_api::Kinds;
use plimsoll_sim::what_if::{Action, Model};
use plimsoll_sim::{Objective, RebalanceOptions};
use serde::Deserialize;
use serde_json::Value;

use crate::args::{
    DEFAULT_MOVES, labelled_pods, node_choice, node_taint, object_name, object_number, replicas,
};
use crate::commands::target;
use crate::input::{Described, read_pod, workload};

/// `POST /api/v1/what-if`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhatIfRequest {
    /// In their order.
    pub(super) actions: Vec<RequestedAction>,
    /// The configuration that decides in place of that of the instance.
    pub(super) configuration: Option<Value>,
    /// Whether the answer has a text for people, too.
    #[serde(default)]
    pub(super) text: bool,
}

/// One action. Texts are as on the command line.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum RequestedAction {
    Apply(Vec<Value>),
    Delete(String),
    DeletePods(String),
    Scale(String),
    Drain(String),
    Cordon(String),
    Uncordon(String),
    Lose(String),
    AddNodes(NewNodes),
    Taint(String),
    Priority(String),
}

/// New nodes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewNodes {
    n: usize,
    /// The name of a node, or a manifest.
    like: Value,
}

/// At most so many moves can be asked for.
const MOST_MOVES: usize = 10_000;

/// `POST /api/v1/rebalance`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RebalanceRequest {
    /// In their order.
    objectives: Vec<RequestedObjective>,
    /// How many moves at most.
    max_moves: Option<usize>,
    /// Whether the answer has a text for people, too.
    #[serde(default)]
    pub(super) text: bool,
}

/// What moves are for.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RequestedObjective {
    FreeNodes,
    Spread,
}

impl RebalanceRequest {
    /// What is asked for.
    pub(super) fn options(&self) -> Result<RebalanceOptions, String> {
        let mut objectives = Vec::new();
        for (at, requested) in self.objectives.iter().enumerate() {
            let objective = match requested {
                RequestedObjective::FreeNodes => Objective::FreeNodes,
                RequestedObjective::Spread => Objective::Spread,
            };
            if objectives.contains(&objective) {
                return Err(format!("objectives[{at}]: is given twice"));
            }
            objectives.push(objective);
        }
        if objectives.is_empty() {
            return Err("objectives: name freeNodes, spread or both".to_owned());
        }
        let max_moves = self.max_moves.unwrap_or(DEFAULT_MOVES);
        if MOST_MOVES < max_moves {
            return Err(format!("maxMoves: {max_moves} is more than {MOST_MOVES}"));
        }
        Ok(RebalanceOptions { objectives, max_moves })
    }
}

impl WhatIfRequest {
    /// The actions. The error names the action and the remedy.
    pub(super) fn actions(self, kinds: &Kinds) -> Result<Vec<Action>, String> {
        let mut actions = Vec::new();
        for (at, requested) in self.actions.into_iter().enumerate() {
            let found = requested.resolve(kinds).map_err(|why| format!("actions[{at}].{why}"))?;
            actions.extend(found);
        }
        Ok(actions)
    }
}

impl RequestedAction {
    fn resolve(self, kinds: &Kinds) -> Result<Vec<Action>, String> {
        fn named<T>(field: &str, read: Result<T, &'static str>) -> Result<T, String> {
            read.map_err(|why| format!("{field}: {why}"))
        }
        Ok(vec![match self {
            RequestedAction::Apply(manifests) => return applied(&manifests, kinds),
            RequestedAction::Delete(text) => {
                let name = named("delete", object_name(&text))?;
                Action::Delete(target(&name, kinds).map_err(|why| format!("delete: {why}"))?)
            }
            RequestedAction::DeletePods(text) => {
                let pods = named("deletePods", labelled_pods(&text))?;
                Action::DeletePods { namespace: pods.namespace, labels: pods.labels }
            }
            RequestedAction::Scale(text) => {
                let scaled = named("scale", replicas(&text))?;
                let replicas = usize::try_from(scaled.number).unwrap_or(0);
                Action::Scale { controller: scaled.key, replicas }
            }
            RequestedAction::Drain(text) => Action::Drain(named("drain", node_choice(&text))?),
            RequestedAction::Cordon(text) => Action::Cordon(named("cordon", node_choice(&text))?),
            RequestedAction::Uncordon(text) => {
                Action::Uncordon(named("uncordon", node_choice(&text))?)
            }
            RequestedAction::Lose(text) => Action::Lose(named("lose", node_choice(&text))?),
            RequestedAction::AddNodes(NewNodes { n, like }) => {
                let like = match &like {
                    Value::String(name) => Model::Existing(name.as_str().into()),
                    manifest => Model::Given(node_of(manifest, kinds)?),
                };
                Action::AddNodes { n, like }
            }
            RequestedAction::Taint(text) => {
                let tainted = named("taint", node_taint(&text))?;
                Action::Taint(tainted.nodes, tainted.taint)
            }
            RequestedAction::Priority(text) => {
                let given = named("priority", object_number(&text))?;
                let priority = i32::try_from(given.number).unwrap_or(i32::MAX);
                Action::Priority { of: given.key, priority }
            }
        }])
    }
}

fn node_of(manifest: &Value, kinds: &Kinds) -> Result<Box<plimsoll_api::Node>, String> {
    let objects = kinds.objects(manifest);
    let objects =
        objects.map_err(|error| format!("addNodes.like.{}: {}", error.field, error.message))?;
    let mut nodes = objects.into_iter().filter_map(|object| match object {
        plimsoll_api::wire::Object::Node(node) => Some(node),
        _ => None,
    });
    nodes.next().ok_or_else(|| {
        "addNodes.like: is neither the name of a node nor the manifest of one".to_owned()
    })
}

/// The objects of manifests, and the pods of the workloads among them.
fn applied(manifests: &[Value], kinds: &Kinds) -> Result<Vec<Action>, String> {
    let (mut objects, mut rollouts) = (Vec::new(), Vec::new());
    for (at, manifest) in manifests.iter().enumerate() {
        let read = kinds.objects(manifest);
        let read =
            read.map_err(|error| format!("apply[{at}].{}: {}", error.field, error.message))?;
        objects.extend(read);
        if let Some(found) = workload(manifest) {
            let found = found.map_err(|why| format!("apply[{at}].{why}"))?;
            rollouts.push(Action::Rollout { controller: found.controller, pods: found.pods });
        }
    }
    Ok([Action::Apply(objects)].into_iter().chain(rollouts).collect())
}

/// The pods and groups of the manifests of `/api/v1/capacity`.
pub(super) fn described(manifests: &[Value]) -> Result<Described, String> {
    let mut described = Described::default();
    for (at, manifest) in manifests.iter().enumerate() {
        let added = match manifest.get("kind") {
            Some(_) => described.add(manifest),
            // It need not say that it is a pod.
            None => read_pod(manifest).map(|pod| {
                described.pods.push(vec![(pod, manifest.clone())]);
                true
            }),
        };
        let other = || "kind: is neither Pod nor PodGroup, and no workload".to_owned();
        let added = added.and_then(|added| if added { Ok(()) } else { Err(other()) });
        added.map_err(|why| format!("pods[{at}].{why}"))?;
    }
    Ok(described)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn actions(request: Value) -> Result<usize, String> {
        let request: WhatIfRequest =
            serde_json::from_value(request).map_err(|error| error.to_string())?;
        request.actions(&Kinds::built_in()).map(|actions| actions.len())
    }

    #[test]
    fn actions_are_written_as_on_the_command_line() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        let request = json!({"actions": [
            {"drain": "n1"}, {"lose": "zone=a"}, {"addNodes": {"n": 2, "like": "n1"}},
            {"addNodes": {"n": 1, "like": node}}, {"apply": [pod]}, {"scale": "shop/web=3"},
            {"delete": "pod/shop/web-0"}, {"deletePods": "shop/app=web"}, {"cordon": "n1"},
            {"uncordon": "n1"}, {"taint": "n1=k:v:NoExecute"}, {"priority": "shop/web=-1"},
        ]});
        assert_eq!(actions(request), Ok(12));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (action, why) in [
            (json!({"drain": "=x"}), "actions[0].drain: write the name of a node"),
            (json!({"scale": "web"}), "actions[0].scale: write NAMESPACE/NAME=N"),
            (
                json!({"delete": "horse/a"}),
                "actions[0].delete: decisions do not depend on objects of kind horse",
            ),
            (json!({"apply": [{"kind": "Pod"}]}), "actions[0].apply[0]."),
            (json!({"addNodes": {"n": 1, "like": 7}}), "actions[0].addNodes.like"),
            (json!({"explode": "n1"}), "unknown variant `explode`"),
        ] {
            let error = actions(json!({"actions": [action]})).expect_err(why);
            assert!(error.starts_with(why), "{error}");
        }
        assert!(actions(json!({"actions": [], "more": 1})).is_err());
    }

    #[test]
    fn what_moves_are_for_is_named() {
        let options = |request: Value| {
            let request: RebalanceRequest =
                serde_json::from_value(request).map_err(|error| error.to_string())?;
            request.options()
        };
        let objectives = vec![Objective::Spread, Objective::FreeNodes];
        assert_eq!(
            options(json!({"objectives": ["spread", "freeNodes"]})),
            Ok(RebalanceOptions { objectives, max_moves: DEFAULT_MOVES })
        );
        for (request, why) in [
            (json!({}), "missing field `objectives`"),
            (json!({"objectives": []}), "objectives: name freeNodes, spread or both"),
            (json!({"objectives": ["spread", "spread"]}), "objectives[1]: is given twice"),
            (json!({"objectives": ["sort"]}), "unknown variant `sort`"),
            (
                json!({"objectives": ["spread"], "maxMoves": 1_000_000}),
                "maxMoves: 1000000 is more than 10000",
            ),
        ] {
            let error = options(request).expect_err(why);
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn capacity_reads_pods_workloads_and_groups() {
        let read = |pods: Value| {
            let described = described(pods.as_array().expect("it is a list"))?;
            let pods = described.pods.iter().map(Vec::len).collect::<Vec<_>>();
            Ok::<_, String>((pods, described.groups.len()))
        };
        let template = |group: Value| json!({"spec": {"schedulingGroup": group, "containers": []}});
        let job = |template: Value| {
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
                "spec": {"parallelism": 3, "template": template},
            })
        };
        let group = |version: &str| {
            json!({
                "apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g", "namespace": "default"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "minMember": 2},
            })
        };
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": []}});
        let of_group = template(json!({"podGroupName": "g"}));
        let all = json!([
            pod,
            job(template(Value::Null)),
            group("scheduling.k8s.io/v1alpha2"),
            job(of_group)
        ]);
        assert_eq!(read(all), Ok((vec![1, 1, 3], 1)));
        for (manifest, why) in [
            (group("scheduling.x-k8s.io/v1alpha1"), "pods[0].kind: is neither Pod nor PodGroup"),
            (json!({"kind": "Service"}), "pods[0].kind: is neither Pod nor PodGroup"),
            (
                json!({"kind": "Job", "metadata": {"name": "j"}}),
                "pods[0].spec.template: is missing",
            ),
            (json!({"spec": {}}), "pods[0].metadata.name"),
        ] {
            let error = read(json!([manifest])).expect_err(why);
            assert!(error.starts_with(why), "{error}");
        }
    }
}
