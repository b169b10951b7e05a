//! The node on the wire.

use serde::Deserialize;

use super::amount::Amounts;
use super::avoided::avoided;
use super::error::{Result, Within, each};
use super::meta::{Meta, Metadata};
use super::primitive::List;
use super::taints::WireTaint;
use super::{Manifest, Wire};
use crate::{Kind, Node, NodeImage, ObjectKey, Resources, Str};

/// v1 Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireNode {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    taints: List<WireTaint>,
    unschedulable: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    capacity: Amounts,
    allocatable: Option<Amounts>,
    images: List<Image>,
    declared_features: List<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Image {
    names: List<Str>,
    size_bytes: Option<i64>,
}

impl Wire for WireNode {
    type Value = Node;

    fn take(self) -> Result<Node> {
        let meta = Meta::take(self.metadata)?;
        let spec = self.spec.unwrap_or_default();
        let status = self.status.unwrap_or_default();
        let taints = each("taints", spec.taints, WireTaint::take).within("spec")?;
        // As in defaults.go, SetDefaults_NodeStatus: allocatable defaults to the capacity.
        let allocatable = match &status.allocatable {
            Some(allocatable) => allocatable.take("allocatable"),
            None => status.capacity.take("capacity"),
        };
        let allocatable = allocatable.within("status")?;
        let images = status.images.into_iter().map(|image| NodeImage {
            names: image.names.0,
            size: image.size_bytes.unwrap_or_default(),
        });
        let mut declared_features = status.declared_features.0;
        declared_features.sort_unstable();
        declared_features.dedup();
        Ok(Node {
            name: meta.name,
            labels: meta.labels,
            avoided: avoided(&meta.annotations),
            annotations: meta.annotations,
            taints,
            unschedulable: spec.unschedulable.unwrap_or_default(),
            allocatable: Resources::from_list(&allocatable),
            images: images.collect(),
            declared_features,
            created: meta.created,
        })
    }
}

impl Kind for Node {
    const NAME: &'static str = "Node";
    const PLURAL: &'static str = "nodes";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const NAMESPACED: bool = false;
    const WITHOUT: Option<&'static str> = None;

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireNode>()?.take()
    }
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::testing::objects;
    use crate::{Node, wire::Object};

    /// Compares a node, given without type and name, with those of its parts that differ from an empty node.
    fn check(inside: &str, expected: Result<Node, &str>) {
        let json =
            format!(r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n"}},{inside}}}"#);
        let expected = expected.map(|node| Node { name: "n".into(), ..node });
        let shown = expected.map_or_else(str::to_owned, |node| format!("{node:#?}"));
        objects(&[(&json, &shown)], |object| match object {
            Object::Node(node) => format!("{node:#?}"),
            other => panic!("a node is expected, not {other:?}"),
        });
    }

    #[test]
    fn fields_of_a_node_are_empty_by_default() {
        check(r#""spec":{},"status":null"#, Ok(Node::default()));
        check(r#""status":{"capacity":{"cpu":"8"},"allocatable":{}}"#, Ok(Node::default()));
        check(
            r#""spec":{"unschedulable":true}"#,
            Ok(Node { unschedulable: true, ..Node::default() }),
        );
    }

    #[test]
    fn allocatable_defaults_to_the_capacity() {
        let allocatable = crate::Resources { milli_cpu: 8000, ..crate::Resources::default() };
        check(r#""status":{"capacity":{"cpu":"8"}}"#, Ok(Node { allocatable, ..Node::default() }));
    }

    #[test]
    fn a_node_is_read_with_its_resources_images_and_features() {
        check(
            r#""status":{"allocatable":{"cpu":"1500m","memory":"1Ki","pods":110,"a.com/b":"2"},
                "images":[{"names":["b:1","a:1"],"sizeBytes":7},{"names":null}],
                "declaredFeatures":["Z","A"]}"#,
            Ok(Node {
                allocatable: crate::Resources {
                    milli_cpu: 1500,
                    memory: 1024,
                    pods: 110,
                    scalar: [("a.com/b".into(), 2)].into(),
                    ..crate::Resources::default()
                },
                images: vec![
                    crate::NodeImage { names: vec!["b:1".into(), "a:1".into()], size: 7 },
                    crate::NodeImage { names: vec![], size: 0 },
                ],
                declared_features: vec!["A".into(), "Z".into()],
                ..Node::default()
            }),
        );
    }

    #[test]
    fn an_error_names_the_field_of_the_node() {
        check(
            r#""spec":{"taints":[{"key":"a","effect":"NoSchedule"},{"key":"b","effect":"x"}]}"#,
            Err(
                r#"spec.taints[1].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
            ),
        );
        check(
            r#""status":{"allocatable":{"cpu":"-1"}}"#,
            Err(
                r#"status.allocatable[cpu]: Invalid value: "-1": must be greater than or equal to 0"#,
            ),
        );
        check(
            r#""status":{"images":[{"sizeBytes":"big"}]}"#,
            Err(r#"status.images[0].sizeBytes: invalid type: string "big", expected i64"#),
        );
    }
}
