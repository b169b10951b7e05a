//! Where volumes come from, and the volumes of a pod.

use serde::{Deserialize, Serialize};

use crate::Str;

/// The storage behind a volume, as far as scheduling distinguishes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum VolumeSource {
    /// Storage of a CSI driver.
    Csi {
        /// The name of the driver.
        driver: Str,
        /// What the driver calls the volume. Empty for an inline volume of a pod, which has no such
        /// name.
        handle: Str,
    },
    /// `gcePersistentDisk`.
    GcePersistentDisk {
        /// `pdName`.
        name: Str,
    },
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore {
        /// `volumeID`.
        volume_id: Str,
    },
    /// `azureDisk`.
    AzureDisk {
        /// `diskName`.
        name: Str,
        /// `diskURI`.
        uri: Str,
    },
    /// `azureFile`.
    AzureFile {
        /// `secretName`.
        secret: Str,
        /// `secretNamespace`; empty where it is not given, as in every pod.
        secret_namespace: Str,
        /// `shareName`.
        share: Str,
    },
    /// `cinder`.
    Cinder {
        /// `volumeID`.
        volume_id: Str,
    },
    /// `portworxVolume`.
    Portworx {
        /// `volumeID`.
        volume_id: Str,
    },
    /// `vsphereVolume`.
    Vsphere {
        /// `volumePath`.
        path: Str,
    },
    /// `rbd`.
    Rbd {
        /// The Ceph monitors, in the order they are listed.
        monitors: Vec<Str>,
        /// The pool, `rbd` by default.
        pool: Str,
        /// The image.
        image: Str,
    },
    /// `iscsi`.
    Iscsi {
        /// The qualified name of the target.
        iqn: Str,
    },
    /// `local`.
    Local,
    /// `hostPath`.
    HostPath,
    /// `nfs`.
    Nfs,
    /// Anything else.
    #[default]
    Other,
}

/// A volume of a pod (`spec.volumes`). Those that no plugin reads, such as an `emptyDir`, are left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodVolume {
    /// Its name in the pod.
    pub name: Str,
    /// What it is.
    pub kind: PodVolumeKind,
}

/// What a volume of a pod is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PodVolumeKind {
    /// `persistentVolumeClaim`: the name of a claim in the pod's namespace.
    Claim(Str),
    /// `ephemeral`: the name of the claim that is created for the pod. As in component-helpers'
    /// ephemeral.go, VolumeClaimName.
    Ephemeral(Str),
    /// Storage that the pod names itself.
    Inline {
        /// The storage.
        source: VolumeSource,
        /// Whether the pod only reads it.
        read_only: bool,
    },
}

impl PodVolume {
    /// The name of its claim, whether given or created for the pod.
    pub fn claim(&self) -> Option<&Str> {
        match &self.kind {
            PodVolumeKind::Claim(name) | PodVolumeKind::Ephemeral(name) => Some(name),
            PodVolumeKind::Inline { .. } => None,
        }
    }
}
