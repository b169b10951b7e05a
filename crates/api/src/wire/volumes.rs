//! PersistentVolumes and the claims on them, on the wire.

use serde::Deserialize;

use super::amount::Amounts;
use super::error::{Result, WireError, Within, each};
use super::meta::{Meta, Metadata};
use super::primitive::{List, given};
use super::selector::{LabelSelector, NodeTerm};
use super::volume_source::with_sources;
use super::{Manifest, Wire};
use crate::{
    AccessModes, ClaimPhase, ClaimRef, Kind, Labels, ObjectKey, PersistentVolume,
    PersistentVolumeClaim, Quantity, Selector, Str, VolumeMode, VolumePhase,
};

/// The consequence if a kind that volumes need is not served.
pub(super) const NO_VOLUMES: &str = "pods with volumes that depend on it stay unschedulable";

pub(super) const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
pub(super) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
pub(super) const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";

/// The resource that a volume has and a claim asks for.
const STORAGE: &str = "storage";

/// v1 PersistentVolume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WirePersistentVolume {
    metadata: Option<Metadata>,
    spec: Option<VolumeSpec>,
    status: Option<Status>,
}

with_sources! {
    struct VolumeSpec {
        capacity: Amounts,
        access_modes: List<Str>,
        volume_mode: Option<Str>,
        storage_class_name: Option<Str>,
        volume_attributes_class_name: Option<Str>,
        node_affinity: Option<NodeAffinity>,
        claim_ref: Option<Reference>,
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    required: Option<Required>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Required {
    node_selector_terms: List<NodeTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reference {
    namespace: Option<Str>,
    name: Option<Str>,
    uid: Option<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Option<Str>,
}

/// v1 PersistentVolumeClaim.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WirePersistentVolumeClaim {
    metadata: Option<Metadata>,
    spec: Option<ClaimSpec>,
    status: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpec {
    resources: Option<ClaimResources>,
    access_modes: List<Str>,
    volume_mode: Option<Str>,
    storage_class_name: Option<Str>,
    volume_attributes_class_name: Option<Str>,
    volume_name: Option<Str>,
    selector: Option<LabelSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimResources {
    requests: Amounts,
}

impl Wire for WirePersistentVolume {
    type Value = PersistentVolume;

    fn take(self) -> Result<PersistentVolume> {
        let meta = Meta::take(self.metadata)?;
        let phase = self.status.unwrap_or_default().phase;
        let volume = PersistentVolume {
            bound_by_controller: meta.annotations.contains_key(BOUND_BY_CONTROLLER),
            provisioned_by: meta.annotations.get(PROVISIONED_BY).cloned().unwrap_or_default(),
            name: meta.name,
            uid: meta.uid,
            resource_version: meta.resource_version,
            labels: meta.labels,
            deletion: meta.deletion,
            phase: volume_phase(phase.as_deref()),
            ..PersistentVolume::default()
        };
        let spec = self.spec.unwrap_or_default();
        spec.take(volume, &meta.annotations).within("spec")
    }
}

impl VolumeSpec {
    /// Adds everything in the spec to the volume.
    fn take(mut self, volume: PersistentVolume, annotations: &Labels) -> Result<PersistentVolume> {
        let (source, _) = self.take_source();
        Ok(PersistentVolume {
            class: class(annotations, self.storage_class_name),
            attributes_class: self.volume_attributes_class_name.unwrap_or_default(),
            capacity: storage("capacity", &self.capacity)?,
            access_modes: access_modes(self.access_modes)?,
            mode: volume_mode(self.volume_mode.as_deref())?,
            node_affinity: self.node_affinity.and_then(|affinity| affinity.required).map(|rule| {
                // kube-scheduler parses each term by itself. One that it cannot parse matches no node.
                rule.node_selector_terms
                    .into_iter()
                    .map(|term| term.take().unwrap_or_default())
                    .collect()
            }),
            claim: self.claim_ref.map(|by| ClaimRef {
                key: ObjectKey::new(by.namespace.unwrap_or_default(), by.name.unwrap_or_default()),
                uid: by.uid.unwrap_or_default(),
            }),
            source,
            ..volume
        })
    }
}

impl Wire for WirePersistentVolumeClaim {
    type Value = PersistentVolumeClaim;

    fn take(self) -> Result<PersistentVolumeClaim> {
        let meta = Meta::take(self.metadata)?;
        let annotation = |key: &str| meta.annotations.get(key).cloned();
        let phase = self.status.unwrap_or_default().phase;
        let provisioner = annotation(PROVISIONER).or_else(|| annotation(BETA_PROVISIONER));
        let claim = PersistentVolumeClaim {
            key: meta.key(),
            bind_completed: meta.annotations.contains_key(BIND_COMPLETED),
            selected_node: annotation(SELECTED_NODE),
            provisioner: provisioner.unwrap_or_default(),
            uid: meta.uid,
            resource_version: meta.resource_version,
            deletion: meta.deletion,
            controller: meta.controller.map(|by| by.uid),
            phase: claim_phase(phase.as_deref()),
            ..PersistentVolumeClaim::default()
        };
        let spec = self.spec.unwrap_or_default();
        spec.take(claim, &meta.annotations).within("spec")
    }
}

impl ClaimSpec {
    /// Adds everything in the spec to the claim.
    fn take(
        self,
        claim: PersistentVolumeClaim,
        annotations: &Labels,
    ) -> Result<PersistentVolumeClaim> {
        let requests = self.resources.unwrap_or_default().requests;
        let selector = self.selector.map(LabelSelector::take).transpose().within("selector")?;
        Ok(PersistentVolumeClaim {
            class: class(annotations, self.storage_class_name),
            attributes_class: self.volume_attributes_class_name.unwrap_or_default(),
            requested: storage("requests", &requests).within("resources")?,
            access_modes: access_modes(self.access_modes)?,
            mode: volume_mode(self.volume_mode.as_deref())?,
            selector: selector.unwrap_or_else(Selector::everything),
            volume: given(self.volume_name),
            ..claim
        })
    }
}

/// As in component-helpers' helpers.go, GetPersistentVolumeClaimClass and GetPersistentVolumeClass.
fn class(annotations: &Labels, named: Option<Str>) -> Str {
    annotations.get(BETA_CLASS).cloned().or(named).unwrap_or_default()
}

fn storage(field: &str, amounts: &Amounts) -> Result<Quantity> {
    Ok(amounts.take(field)?.remove(STORAGE).unwrap_or_default())
}

fn access_modes(modes: List<Str>) -> Result<AccessModes> {
    let modes = each("accessModes", modes, |mode| match mode.as_str() {
        "ReadWriteOnce" => Ok(AccessModes::READ_WRITE_ONCE),
        "ReadOnlyMany" => Ok(AccessModes::READ_ONLY_MANY),
        "ReadWriteMany" => Ok(AccessModes::READ_WRITE_MANY),
        "ReadWriteOncePod" => Ok(AccessModes::READ_WRITE_ONCE_POD),
        other => {
            let words = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
            Err(WireError::unsupported("", other, &words))
        }
    });
    Ok(modes?.into_iter().collect())
}

fn volume_mode(mode: Option<&str>) -> Result<VolumeMode> {
    match mode {
        None | Some("Filesystem") => Ok(VolumeMode::Filesystem),
        Some("Block") => Ok(VolumeMode::Block),
        Some(other) => Err(WireError::unsupported("volumeMode", other, &["Block", "Filesystem"])),
    }
}

fn volume_phase(phase: Option<&str>) -> VolumePhase {
    match phase {
        None | Some("" | "Pending") => VolumePhase::Pending,
        Some("Available") => VolumePhase::Available,
        Some("Bound") => VolumePhase::Bound,
        Some("Released") => VolumePhase::Released,
        Some(_) => VolumePhase::Failed,
    }
}

fn claim_phase(phase: Option<&str>) -> ClaimPhase {
    match phase {
        Some("Bound") => ClaimPhase::Bound,
        Some("Lost") => ClaimPhase::Lost,
        Some("Pending") => ClaimPhase::Pending,
        _ => ClaimPhase::Unset,
    }
}

impl Kind for PersistentVolume {
    const NAME: &'static str = "PersistentVolume";
    const PLURAL: &'static str = "persistentvolumes";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const NAMESPACED: bool = false;
    const WITHOUT: Option<&'static str> = Some(NO_VOLUMES);

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WirePersistentVolume>()?.take()
    }
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.name.clone())
    }
    /// The name of the claim for which it is reserved; the class of a free volume, which may be empty. So a claim
    /// finds its volumes without a look at those of others.
    fn index(&self) -> Option<&str> {
        Some(self.claim.as_ref().map_or(&self.class, |claim| &claim.key.name))
    }
}

impl Kind for PersistentVolumeClaim {
    const NAME: &'static str = "PersistentVolumeClaim";
    const PLURAL: &'static str = "persistentvolumeclaims";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const WITHOUT: Option<&'static str> = Some(NO_VOLUMES);

    fn read(manifest: Manifest<'_>) -> Result<Self> {
        manifest.parse::<WirePersistentVolumeClaim>()?.take()
    }
    fn key(&self) -> ObjectKey {
        self.key.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AnyObject;
    use crate::wire::Object;
    use crate::wire::testing::objects;
    use crate::{NodeSelectorTerm, Requirement, Test, VolumeSource};

    /// Compares an object, given without its type, with the value it is converted to.
    #[track_caller]
    fn check(kind: &str, inside: &str, expected: std::result::Result<AnyObject, &str>) {
        let json = format!(r#"{{"apiVersion":"v1","kind":"{kind}",{inside}}}"#);
        let shown = expected.map_or_else(str::to_owned, |object| format!("{object:#?}"));
        objects(&[(&json, &shown)], |object| match object {
            Object::Other(object) => format!("{object:#?}"),
            other => panic!("a volume object is expected, not {other:?}"),
        });
    }

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).expect("it is a quantity")
    }

    #[test]
    fn a_volume_is_read_with_its_claim_node_affinity_and_source() {
        check(
            "PersistentVolume",
            r#""metadata":{"name":"pv","uid":"u","resourceVersion":"7","labels":{"zone":"z"},"annotations":{
                "pv.kubernetes.io/bound-by-controller":"yes",
                "pv.kubernetes.io/provisioned-by":"csi.a"}},
               "spec":{"capacity":{"storage":"10Gi"},"accessModes":["ReadWriteOnce","ReadOnlyMany"],
                "volumeMode":"Block","storageClassName":"fast","volumeAttributesClassName":"gold",
                "csi":{"driver":"csi.a","volumeHandle":"vol-1"},
                "claimRef":{"kind":"PersistentVolumeClaim","namespace":"a","name":"b","uid":"c"},
                "nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[
                    {"key":"zone","operator":"In","values":["z"]}]}]}}},
               "status":{"phase":"Bound"}"#,
            Ok(AnyObject::new(PersistentVolume {
                name: "pv".into(),
                uid: "u".into(),
                resource_version: "7".into(),
                labels: [("zone", "z")].into_iter().collect(),
                deletion: None,
                class: "fast".into(),
                attributes_class: "gold".into(),
                capacity: quantity("10Gi"),
                access_modes: AccessModes::READ_WRITE_ONCE | AccessModes::READ_ONLY_MANY,
                mode: VolumeMode::Block,
                node_affinity: Some(vec![NodeSelectorTerm {
                    labels: vec![Requirement {
                        key: "zone".into(),
                        test: Test::In(vec!["z".into()]),
                    }],
                    ..NodeSelectorTerm::default()
                }]),
                claim: Some(ClaimRef { key: ObjectKey::new("a", "b"), uid: "c".into() }),
                bound_by_controller: true,
                provisioned_by: "csi.a".into(),
                phase: VolumePhase::Bound,
                source: VolumeSource::Csi { driver: "csi.a".into(), handle: "vol-1".into() },
            })),
        );
    }

    #[test]
    fn a_volume_with_an_invalid_node_affinity_matches_no_node() {
        for terms in [
            "[]",
            "[{}]",
            r#"[{"matchExpressions":[{"key":"zone","operator":"Near","values":["z"]}]}]"#,
        ] {
            let json = format!(
                r#"{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"pv"}},
                    "spec":{{"nodeAffinity":{{"required":{{"nodeSelectorTerms":{terms}}}}}}}}}"#
            );
            let labels: Labels = [("zone", "z")].into_iter().collect();
            objects(&[(&json, "false")], |object| {
                let volume: &PersistentVolume = object.get().expect("a volume is expected");
                volume.reaches(&labels).to_string()
            });
        }
    }

    #[test]
    fn omitted_fields_of_volumes_and_claims_have_the_defaults_of_the_api_server() {
        check(
            "PersistentVolume",
            r#""metadata":{"name":"pv"},"spec":{"local":{"path":"/mnt"}}"#,
            Ok(AnyObject::new(PersistentVolume {
                name: "pv".into(),
                source: VolumeSource::Local,
                ..PersistentVolume::default()
            })),
        );
        check(
            "PersistentVolumeClaim",
            r#""metadata":{"name":"pvc"},"spec":{"volumeName":""}"#,
            Ok(AnyObject::new(PersistentVolumeClaim {
                key: ObjectKey::new("default", "pvc"),
                selector: Selector::everything(),
                ..PersistentVolumeClaim::default()
            })),
        );
    }

    #[test]
    fn a_claim_is_read_with_its_class_owner_and_annotations() {
        check(
            "PersistentVolumeClaim",
            r#""metadata":{"name":"b","namespace":"a","uid":"u","resourceVersion":"8","ownerReferences":[
                {"kind":"Pod","name":"p","uid":"owner","controller":true}],"annotations":{
                "volume.beta.kubernetes.io/storage-class":"old",
                "pv.kubernetes.io/bind-completed":"yes","volume.kubernetes.io/selected-node":"n",
                "volume.beta.kubernetes.io/storage-provisioner":"csi.a"}},
               "spec":{"storageClassName":"new","volumeAttributesClassName":"gold",
                "volumeName":"pv","accessModes":["ReadWriteOncePod"],
                "resources":{"requests":{"storage":"1Gi"}},"selector":{"matchLabels":{"a":"b"}}},
               "status":{"phase":"Lost"}"#,
            Ok(AnyObject::new(PersistentVolumeClaim {
                key: ObjectKey::new("a", "b"),
                uid: "u".into(),
                resource_version: "8".into(),
                deletion: None,
                controller: Some("owner".into()),
                class: "old".into(),
                attributes_class: "gold".into(),
                requested: quantity("1Gi"),
                access_modes: AccessModes::READ_WRITE_ONCE_POD,
                mode: VolumeMode::Filesystem,
                selector: Selector::All(vec![Requirement::equals("a", "b")]),
                volume: Some("pv".into()),
                bind_completed: true,
                selected_node: Some("n".into()),
                provisioner: "csi.a".into(),
                phase: ClaimPhase::Lost,
            })),
        );
    }

    #[test]
    fn an_error_names_the_field_of_the_volume_or_claim() {
        check(
            "PersistentVolume",
            r#""metadata":{"name":"a"},"spec":{"accessModes":["ReadWriteOnce","Often"]}"#,
            Err(
                r#"spec.accessModes[1]: Unsupported value: "Often": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod""#,
            ),
        );
        check(
            "PersistentVolume",
            r#""metadata":{"name":"a"},"spec":{"capacity":{"storage":"-1"}}"#,
            Err(
                r#"spec.capacity[storage]: Invalid value: "-1": must be greater than or equal to 0"#,
            ),
        );
        check(
            "PersistentVolumeClaim",
            r#""metadata":{"name":"a"},"spec":{"resources":{"requests":{"storage":[]}}}"#,
            Err(
                r#"spec.resources.requests[storage]: invalid type: sequence, expected a quantity, such as "500m" or 2"#,
            ),
        );
        check(
            "PersistentVolumeClaim",
            r#""metadata":{"name":"a"},"spec":{"volumeMode":"Tape"}"#,
            Err(
                r#"spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem""#,
            ),
        );
    }
}
