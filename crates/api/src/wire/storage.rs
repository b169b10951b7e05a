//! Storage classes, CSI drivers, their nodes and capacities, and attachments, on the wire.

use serde::Deserialize;

use super::amount::Amount;
use super::error::{Result, WireError, Within};
use super::meta::{Meta, Metadata};
use super::primitive::List;
use super::selector::{LabelSelector, TopologyTerm, optional};
use super::volume_source::with_sources;
use super::volumes::NO_VOLUMES;
use super::{Manifest, Wire};
use crate::{
    Attached, BindingMode, CsiDriver, CsiNode, CsiNodeDriver, CsiStorageCapacity, Kind, ObjectKey,
    StorageClass, Str, VolumeAttachment,
};

pub(super) const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
pub(super) const BETA_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";
pub(super) const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// storage.k8s.io/v1 StorageClass.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireStorageClass {
    metadata: Option<Metadata>,
    provisioner: Option<Str>,
    volume_binding_mode: Option<Str>,
    allowed_topologies: List<TopologyTerm>,
}

/// storage.k8s.io/v1 CSINode.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireCsiNode {
    metadata: Option<Metadata>,
    spec: Option<CsiNodeSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CsiNodeSpec {
    drivers: List<Driver>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Driver {
    name: Option<Str>,
    #[serde(rename = "nodeID")]
    node_id: Option<Str>,
    topology_keys: List<Str>,
    allocatable: Option<Allocatable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Allocatable {
    count: Option<i32>,
}

/// storage.k8s.io/v1 CSIDriver.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireCsiDriver {
    metadata: Option<Metadata>,
    spec: Option<CsiDriverSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CsiDriverSpec {
    storage_capacity: Option<bool>,
    prevent_pod_scheduling_if_missing: Option<bool>,
}

/// storage.k8s.io/v1 CSIStorageCapacity.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireCsiStorageCapacity {
    metadata: Option<Metadata>,
    storage_class_name: Option<Str>,
    node_topology: Option<LabelSelector>,
    capacity: Option<Amount>,
    maximum_volume_size: Option<Amount>,
}

/// storage.k8s.io/v1 VolumeAttachment.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireVolumeAttachment {
    metadata: Option<Metadata>,
    spec: Option<AttachmentSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AttachmentSpec {
    attacher: Option<Str>,
    node_name: Option<Str>,
    source: Option<AttachmentSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AttachmentSource {
    persistent_volume_name: Option<Str>,
    inline_volume_spec: Option<InlineVolume>,
}

with_sources! {
    struct InlineVolume {}
}

impl Wire for WireStorageClass {
    type Value = StorageClass;

    fn take(self) -> Result<StorageClass> {
        let meta = Meta::take(self.metadata)?;
        let says_so = |key| meta.annotations.get(key).is_some_and(|says| says == "true");
        Ok(StorageClass {
            is_default: says_so(DEFAULT_CLASS) || says_so(BETA_DEFAULT_CLASS),
            name: meta.name,
            provisioner: self.provisioner.unwrap_or_default(),
            binding_mode: binding_mode(self.volume_binding_mode.as_deref())?,
            allowed_topologies: self
                .allowed_topologies
                .into_iter()
                .map(TopologyTerm::take)
                .collect(),
        })
    }
}

impl Wire for WireCsiNode {
    type Value = CsiNode;

    fn take(self) -> Result<CsiNode> {
        let meta = Meta::take(self.metadata)?;
        let drivers =
            self.spec.unwrap_or_default().drivers.into_iter().map(|driver| CsiNodeDriver {
                name: driver.name.unwrap_or_default(),
                node_id: driver.node_id.unwrap_or_default(),
                topology_keys: driver.topology_keys.0,
                limit: driver.allocatable.and_then(|allocatable| allocatable.count),
            });
        let migrated = meta.annotations.get(MIGRATED_PLUGINS).filter(|list| !list.is_empty());
        Ok(CsiNode {
            drivers: drivers.collect(),
            migrated_plugins: migrated
                .map_or_else(Vec::new, |list| list.split(',').map(Str::from).collect()),
            name: meta.name,
        })
    }
}

impl Wire for WireCsiDriver {
    type Value = CsiDriver;

    fn take(self) -> Result<CsiDriver> {
        let meta = Meta::take(self.metadata)?;
        let spec = self.spec.unwrap_or_default();
        Ok(CsiDriver {
            name: meta.name,
            storage_capacity: spec.storage_capacity.unwrap_or_default(),
            required_on_node: spec.prevent_pod_scheduling_if_missing.unwrap_or_default(),
        })
    }
}

impl Wire for WireCsiStorageCapacity {
    type Value = CsiStorageCapacity;

    fn take(self) -> Result<CsiStorageCapacity> {
        let meta = Meta::take(self.metadata)?;
        let quantity = |field, amount: Option<Amount>| {
            amount.map(|amount| amount.take()).transpose().within(field)
        };
        Ok(CsiStorageCapacity {
            key: meta.key(),
            class: self.storage_class_name.unwrap_or_default(),
            topology: optional("nodeTopology", self.node_topology)?,
            capacity: quantity("capacity", self.capacity)?,
            maximum_volume_size: quantity("maximumVolumeSize", self.maximum_volume_size)?,
        })
    }
}

impl Wire for WireVolumeAttachment {
    type Value = VolumeAttachment;

    fn take(self) -> Result<VolumeAttachment> {
        let meta = Meta::take(self.metadata)?;
        let spec = self.spec.unwrap_or_default();
        let source = spec.source.unwrap_or_default();
        Ok(VolumeAttachment {
            name: meta.name,
            attacher: spec.attacher.unwrap_or_default(),
            node: spec.node_name.unwrap_or_default(),
            attached: match (source.persistent_volume_name, source.inline_volume_spec) {
                (Some(name), _) => Attached::Volume(name),
                (None, Some(mut inline)) => Attached::Inline(inline.take_source().0),
                (None, None) => Attached::default(),
            },
            deletion: meta.deletion,
        })
    }
}

fn binding_mode(mode: Option<&str>) -> Result<BindingMode> {
    match mode {
        None | Some("Immediate") => Ok(BindingMode::Immediate),
        Some("WaitForFirstConsumer") => Ok(BindingMode::WaitForFirstConsumer),
        Some(other) => {
            let words = ["Immediate", "WaitForFirstConsumer"];
            Err(WireError::unsupported("volumeBindingMode", other, &words))
        }
    }
}

impl Kind for StorageClass {
    const NAME: &'static str = "StorageClass";
    const PLURAL: &'static str = "storageclasses";
    const VERSIONS: &'static [&'static str] = &["storage.k8s.io/v1"];
    const NAMESPACED: bool = false;
    const WITHOUT: Option<&'static str> = Some(NO_VOLUMES);

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireStorageClass>()?.take()
    }
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }
}

impl Kind for CsiNode {
    const NAME: &'static str = "CSINode";
    const PLURAL: &'static str = "csinodes";
    const VERSIONS: &'static [&'static str] = &["storage.k8s.io/v1"];
    const NAMESPACED: bool = false;
    const WITHOUT: Option<&'static str> = Some("volumes of CSI drivers are not limited");

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireCsiNode>()?.take()
    }
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }
}

impl Kind for CsiDriver {
    const NAME: &'static str = "CSIDriver";
    const PLURAL: &'static str = "csidrivers";
    const VERSIONS: &'static [&'static str] = &["storage.k8s.io/v1"];
    const NAMESPACED: bool = false;
    const WITHOUT: Option<&'static str> = Some("storage capacity is not checked");

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireCsiDriver>()?.take()
    }
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }
}

impl Kind for CsiStorageCapacity {
    const NAME: &'static str = "CSIStorageCapacity";
    const PLURAL: &'static str = "csistoragecapacities";
    const VERSIONS: &'static [&'static str] =
        &["storage.k8s.io/v1", "storage.k8s.io/v1beta1", "storage.k8s.io/v1alpha1"];
    const WITHOUT: Option<&'static str> =
        Some("drivers that report storage capacity provision no volumes");

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireCsiStorageCapacity>()?.take()
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
}

impl Kind for VolumeAttachment {
    const NAME: &'static str = "VolumeAttachment";
    const PLURAL: &'static str = "volumeattachments";
    const VERSIONS: &'static [&'static str] = &["storage.k8s.io/v1"];
    const NAMESPACED: bool = false;
    const WITHOUT: Option<&'static str> =
        Some("attached volumes without a pod do not count against limits");

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WireVolumeAttachment>()?.take()
    }
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }
    /// The name of its node.
    fn index(&self) -> Option<&str> {
        Some(&self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AnyObject;
    use crate::wire::Object;
    use crate::wire::testing::{objects, show_selector};
    use crate::{NodeSelectorTerm, ObjectKey, Quantity, Requirement, Selector, Test, VolumeSource};

    /// Compares an object `a`, given without type and name, with the value it is converted to.
    #[track_caller]
    fn check(kind: &str, inside: &str, expected: std::result::Result<AnyObject, &str>) {
        let json = format!(
            r#"{{"apiVersion":"storage.k8s.io/v1","kind":"{kind}","metadata":{{"name":"a"}}{inside}}}"#
        );
        objects_are(&json, expected);
    }

    #[track_caller]
    fn objects_are(json: &str, expected: std::result::Result<AnyObject, &str>) {
        let shown = expected.map_or_else(str::to_owned, |object| format!("{object:#?}"));
        objects(&[(json, &shown)], |object| match object {
            Object::Other(object) => format!("{object:#?}"),
            other => panic!("a volume object is expected, not {other:?}"),
        });
    }

    #[test]
    fn a_class_binds_at_once_and_everywhere_by_default() {
        let class = StorageClass {
            name: "a".into(),
            provisioner: "csi.a".into(),
            ..StorageClass::default()
        };
        check("StorageClass", r#","provisioner":"csi.a""#, Ok(AnyObject::new(class.clone())));
        check(
            "StorageClass",
            r#","provisioner":"csi.a","volumeBindingMode":"WaitForFirstConsumer",
              "allowedTopologies":[{"matchLabelExpressions":[{"key":"zone","values":["b","a"]}]},{}]"#,
            Ok(AnyObject::new(StorageClass {
                binding_mode: BindingMode::WaitForFirstConsumer,
                allowed_topologies: vec![
                    NodeSelectorTerm {
                        labels: vec![Requirement {
                            key: "zone".into(),
                            test: Test::In(vec!["a".into(), "b".into()]),
                        }],
                        ..NodeSelectorTerm::default()
                    },
                    NodeSelectorTerm::default(),
                ],
                ..class.clone()
            })),
        );
        check(
            "StorageClass",
            r#","volumeBindingMode":"Later""#,
            Err(
                r#"volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer""#,
            ),
        );
        objects_are(
            r#"{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","provisioner":"csi.a",
                "metadata":{"name":"a","annotations":{
                "storageclass.kubernetes.io/is-default-class":"true"}}}"#,
            Ok(AnyObject::new(StorageClass { is_default: true, ..class })),
        );
    }

    #[test]
    fn a_node_has_drivers_with_and_without_limits() {
        objects_are(
            r#"{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{"name":"n",
                "annotations":{"storage.alpha.kubernetes.io/migrated-plugins":
                "kubernetes.io/gce-pd,kubernetes.io/cinder"}},"spec":{"drivers":[
                {"name":"d","nodeID":"i","topologyKeys":["zone"],"allocatable":{"count":3}},
                {"name":"e","allocatable":{}}]}}"#,
            Ok(AnyObject::new(CsiNode {
                name: "n".into(),
                drivers: vec![
                    CsiNodeDriver {
                        name: "d".into(),
                        node_id: "i".into(),
                        topology_keys: vec!["zone".into()],
                        limit: Some(3),
                    },
                    CsiNodeDriver { name: "e".into(), ..CsiNodeDriver::default() },
                ],
                migrated_plugins: vec![
                    "kubernetes.io/gce-pd".into(),
                    "kubernetes.io/cinder".into(),
                ],
            })),
        );
        check(
            "CSINode",
            r#","spec":{"drivers":[{"name":"d","nodeID":3}]}"#,
            Err("spec.drivers[0].nodeID: invalid type: integer `3`, expected a string"),
        );
    }

    #[test]
    fn a_driver_says_whether_it_reports_capacity() {
        let driver = CsiDriver { name: "a".into(), ..CsiDriver::default() };
        check("CSIDriver", "", Ok(AnyObject::new(driver.clone())));
        check(
            "CSIDriver",
            r#","spec":{"storageCapacity":true,"attachRequired":null}"#,
            Ok(AnyObject::new(CsiDriver { storage_capacity: true, ..driver })),
        );
    }

    #[test]
    fn capacity_is_for_the_nodes_that_it_names_and_for_none_by_default() {
        let left = CsiStorageCapacity { key: ObjectKey::new("default", "a"), ..Default::default() };
        assert_eq!(show_selector(&left.topology), "nothing");
        check("CSIStorageCapacity", "", Ok(AnyObject::new(left.clone())));
        check(
            "CSIStorageCapacity",
            r#","storageClassName":"c","capacity":"10Gi","nodeTopology":{"matchLabels":{"z":"1"}}"#,
            Ok(AnyObject::new(CsiStorageCapacity {
                class: "c".into(),
                capacity: Some(Quantity::parse("10Gi").expect("it is a quantity")),
                topology: Selector::All(vec![Requirement::equals("z", "1")]),
                ..left
            })),
        );
        check(
            "CSIStorageCapacity",
            r#","maximumVolumeSize":"-1""#,
            Err(r#"maximumVolumeSize: Invalid value: "-1": must be greater than or equal to 0"#),
        );
    }

    #[test]
    fn an_attachment_is_of_a_volume_by_name_or_of_an_inline_volume() {
        let attachment = |attached| {
            Ok(AnyObject::new(VolumeAttachment {
                name: "a".into(),
                attacher: "d".into(),
                node: "n".into(),
                attached,
                deletion: None,
            }))
        };
        check(
            "VolumeAttachment",
            r#","spec":{"attacher":"d","nodeName":"n","source":{"persistentVolumeName":"pv"}}"#,
            attachment(Attached::Volume("pv".into())),
        );
        check(
            "VolumeAttachment",
            r#","spec":{"attacher":"d","nodeName":"n","source":{"inlineVolumeSpec":
              {"csi":{"driver":"d","volumeHandle":"h"}}}}"#,
            attachment(Attached::Inline(VolumeSource::Csi {
                driver: "d".into(),
                handle: "h".into(),
            })),
        );
    }
}
