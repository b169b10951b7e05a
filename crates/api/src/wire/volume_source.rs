//! The storage behind volumes, and the volumes of a pod, on the wire.

use serde::Deserialize;

use super::primitive::List;
use crate::{PodVolume, PodVolumeKind, Str, VolumeSource};

/// The pool of an `rbd` that names none. As in defaults.go, SetDefaults_RBDVolumeSource.
const DEFAULT_POOL: &str = "rbd";

/// A source of any kind. Each kind has some of these fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireSource {
    read_only: Option<bool>,
    driver: Option<Str>,
    volume_handle: Option<Str>,
    pd_name: Option<Str>,
    #[serde(rename = "volumeID")]
    volume_id: Option<Str>,
    disk_name: Option<Str>,
    #[serde(rename = "diskURI")]
    disk_uri: Option<Str>,
    secret_name: Option<Str>,
    secret_namespace: Option<Str>,
    share_name: Option<Str>,
    volume_path: Option<Str>,
    monitors: List<Str>,
    pool: Option<Str>,
    image: Option<Str>,
    iqn: Option<Str>,
}

/// Makes a source from its fields.
type Make = fn(WireSource) -> VolumeSource;

/// Adds the fields of sources to a struct. At most one of them is given. They are boxed, because otherwise a volume
/// would take kilobytes while it is read, and a pod may have tens of thousands.
macro_rules! with_sources {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($fields:tt)* }) => {
        $(#[$meta])*
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        $vis struct $name {
            csi: Option<Box<$crate::wire::volume_source::WireSource>>,
            gce_persistent_disk: Option<Box<$crate::wire::volume_source::WireSource>>,
            aws_elastic_block_store: Option<Box<$crate::wire::volume_source::WireSource>>,
            azure_disk: Option<Box<$crate::wire::volume_source::WireSource>>,
            azure_file: Option<Box<$crate::wire::volume_source::WireSource>>,
            cinder: Option<Box<$crate::wire::volume_source::WireSource>>,
            portworx_volume: Option<Box<$crate::wire::volume_source::WireSource>>,
            vsphere_volume: Option<Box<$crate::wire::volume_source::WireSource>>,
            rbd: Option<Box<$crate::wire::volume_source::WireSource>>,
            iscsi: Option<Box<$crate::wire::volume_source::WireSource>>,
            local: Option<Box<$crate::wire::volume_source::WireSource>>,
            host_path: Option<Box<$crate::wire::volume_source::WireSource>>,
            nfs: Option<Box<$crate::wire::volume_source::WireSource>>,
            $($fields)*
        }

        impl $name {
            /// Takes the source, and returns it with whether it is read-only.
            $vis fn take_source(&mut self) -> ($crate::VolumeSource, bool) {
                $crate::wire::volume_source::first([
                    self.csi.take(),
                    self.gce_persistent_disk.take(),
                    self.aws_elastic_block_store.take(),
                    self.azure_disk.take(),
                    self.azure_file.take(),
                    self.cinder.take(),
                    self.portworx_volume.take(),
                    self.vsphere_volume.take(),
                    self.rbd.take(),
                    self.iscsi.take(),
                    self.local.take(),
                    self.host_path.take(),
                    self.nfs.take(),
                ])
            }
        }
    };
}
pub(super) use with_sources;

/// In the order of the fields of `with_sources`.
const MAKES: [Make; 13] = [
    WireSource::csi,
    |source| VolumeSource::GcePersistentDisk { name: source.pd_name.unwrap_or_default() },
    |source| VolumeSource::AwsElasticBlockStore { volume_id: source.volume_id.unwrap_or_default() },
    WireSource::azure_disk,
    WireSource::azure_file,
    |source| VolumeSource::Cinder { volume_id: source.volume_id.unwrap_or_default() },
    |source| VolumeSource::Portworx { volume_id: source.volume_id.unwrap_or_default() },
    |source| VolumeSource::Vsphere { path: source.volume_path.unwrap_or_default() },
    WireSource::rbd,
    |source| VolumeSource::Iscsi { iqn: source.iqn.unwrap_or_default() },
    |_| VolumeSource::Local,
    |_| VolumeSource::HostPath,
    |_| VolumeSource::Nfs,
];

/// The first source that is given, and whether it is read-only.
pub(super) fn first(sources: [Option<Box<WireSource>>; 13]) -> (VolumeSource, bool) {
    let given = sources.into_iter().zip(MAKES).find_map(|(source, make)| Some((source?, make)));
    given.map_or((VolumeSource::Other, false), |(source, make)| {
        let read_only = source.read_only.unwrap_or_default();
        (make(*source), read_only)
    })
}

impl WireSource {
    fn csi(self) -> VolumeSource {
        VolumeSource::Csi {
            driver: self.driver.unwrap_or_default(),
            handle: self.volume_handle.unwrap_or_default(),
        }
    }

    fn azure_disk(self) -> VolumeSource {
        VolumeSource::AzureDisk {
            name: self.disk_name.unwrap_or_default(),
            uri: self.disk_uri.unwrap_or_default(),
        }
    }

    fn azure_file(self) -> VolumeSource {
        VolumeSource::AzureFile {
            secret: self.secret_name.unwrap_or_default(),
            secret_namespace: self.secret_namespace.unwrap_or_default(),
            share: self.share_name.unwrap_or_default(),
        }
    }

    fn rbd(self) -> VolumeSource {
        VolumeSource::Rbd {
            monitors: self.monitors.0,
            pool: super::primitive::given(self.pool).unwrap_or(Str::const_new(DEFAULT_POOL)),
            image: self.image.unwrap_or_default(),
        }
    }
}

with_sources! {
    /// An item of `spec.volumes` of a pod.
    pub(super) struct WirePodVolume {
        name: Option<Str>,
        image: Option<ImageVolume>,
        persistent_volume_claim: Option<Claim>,
        ephemeral: Option<Ephemeral>,
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ImageVolume {
    reference: Option<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Claim {
    claim_name: Option<Str>,
}

#[derive(Debug, Default, Deserialize)]
struct Ephemeral {}

impl WirePodVolume {
    /// The image that is mounted, if it is one.
    pub(super) fn image(&self) -> Option<&Str> {
        self.image.as_ref()?.reference.as_ref()
    }

    /// The volume of the pod named `pod`; `None` if no plugin reads such volumes.
    pub(super) fn take(mut self, pod: &str) -> Option<PodVolume> {
        let (source, read_only) = self.take_source();
        let name = self.name.unwrap_or_default();
        let kind = match (self.persistent_volume_claim, self.ephemeral, source) {
            (Some(claim), ..) => PodVolumeKind::Claim(claim.claim_name.unwrap_or_default()),
            (None, Some(_), _) => PodVolumeKind::Ephemeral(format!("{pod}-{name}").into()),
            (None, None, VolumeSource::Other | VolumeSource::HostPath | VolumeSource::Nfs) => {
                return None;
            }
            (None, None, source) => PodVolumeKind::Inline { source, read_only },
        };
        Some(PodVolume { name, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::pods;

    #[test]
    fn a_pod_has_the_volumes_that_plugins_read() {
        let show = |volume: &PodVolume| match &volume.kind {
            PodVolumeKind::Claim(claim) => format!("{}: claim {claim}", volume.name),
            PodVolumeKind::Ephemeral(claim) => format!("{}: own claim {claim}", volume.name),
            PodVolumeKind::Inline { source, read_only } => {
                let mode = if *read_only { "reads" } else { "writes" };
                format!("{}: {mode} {source:?}", volume.name)
            }
        };
        pods(
            &[
                (
                    r#""spec":{"volumes":[{"name":"a","persistentVolumeClaim":{"claimName":"data"}},
                        {"name":"b","ephemeral":{"volumeClaimTemplate":{"spec":{}}}},
                        {"name":"c","emptyDir":{}},{"name":"d","hostPath":{"path":"/"}},
                        {"name":"e","nfs":{"server":"s","path":"/","readOnly":true}},
                        {"name":"f","image":{"reference":"i"}}]}"#,
                    "a: claim data, b: own claim p-b",
                ),
                (
                    r#""spec":{"volumes":[{"name":"a","gcePersistentDisk":{"pdName":"d","readOnly":true}},
                        {"name":"b","awsElasticBlockStore":{"volumeID":"e"}},
                        {"name":"c","iscsi":{"targetPortal":"1.2.3.4:3260","iqn":"q","lun":0}}]}"#,
                    r#"a: reads GcePersistentDisk { name: "d" }, b: writes AwsElasticBlockStore { volume_id: "e" }, c: writes Iscsi { iqn: "q" }"#,
                ),
                (
                    r#""spec":{"volumes":[{"name":"a","rbd":{"monitors":["m"],"image":"i"}},
                        {"name":"b","rbd":{"monitors":null,"image":"i","pool":"p"}}]}"#,
                    r#"a: writes Rbd { monitors: ["m"], pool: "rbd", image: "i" }, b: writes Rbd { monitors: [], pool: "p", image: "i" }"#,
                ),
                (
                    r#""spec":{"volumes":[{"name":"a","csi":{"driver":"d","readOnly":false}},
                        {"name":"b","azureDisk":{"diskName":"n","diskURI":"u"}},
                        {"name":"c","azureFile":{"secretName":"s","shareName":"h"}}]}"#,
                    r#"a: writes Csi { driver: "d", handle: "" }, b: writes AzureDisk { name: "n", uri: "u" }, c: writes AzureFile { secret: "s", secret_namespace: "", share: "h" }"#,
                ),
                (
                    r#""spec":{"volumes":[{"name":"a","cinder":{"volumeID":"v"}},
                        {"name":"b","portworxVolume":{"volumeID":"w"}},
                        {"name":"c","vsphereVolume":{"volumePath":"[d] v"}}]}"#,
                    r#"a: writes Cinder { volume_id: "v" }, b: writes Portworx { volume_id: "w" }, c: writes Vsphere { path: "[d] v" }"#,
                ),
                (
                    r#""spec":{"volumes":[{"name":"a","rbd":{"monitors":"m"}}]}"#,
                    r#"spec.volumes[0].rbd.monitors: invalid type: string "m", expected a sequence"#,
                ),
            ],
            |pod| pod.volumes.iter().map(show).collect::<Vec<_>>().join(", "),
        );
    }
}
