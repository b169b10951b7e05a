//! Which CSI driver serves the volumes of former in-tree volume plugins, and the driver's handles for
//! them. As in csi-translation-lib.

use plimsoll_framework::prelude::*;

use crate::place_labels::{BETA_ZONE, DELIMITER, ZONE};

/// A part of a handle that only the node knows.
const UNSPECIFIED: &str = "UNSPECIFIED";

/// A former in-tree volume plugin that a CSI driver has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTree {
    /// Elastic Block Store of AWS.
    AwsElasticBlockStore,
    /// Disks of Azure.
    AzureDisk,
    /// Files of Azure.
    AzureFile,
    /// Cinder of OpenStack.
    Cinder,
    /// Persistent disks of GCE.
    GcePersistentDisk,
    /// Portworx.
    Portworx,
    /// vSphere.
    Vsphere,
}

impl InTree {
    const ALL: [InTree; 7] = [
        InTree::AwsElasticBlockStore,
        InTree::AzureDisk,
        InTree::AzureFile,
        InTree::Cinder,
        InTree::GcePersistentDisk,
        InTree::Portworx,
        InTree::Vsphere,
    ];

    /// The in-tree plugin of a volume, if any.
    pub fn of(source: &VolumeSource) -> Option<Self> {
        match source {
            VolumeSource::AwsElasticBlockStore { .. } => Some(InTree::AwsElasticBlockStore),
            VolumeSource::AzureDisk { .. } => Some(InTree::AzureDisk),
            VolumeSource::AzureFile { .. } => Some(InTree::AzureFile),
            VolumeSource::Cinder { .. } => Some(InTree::Cinder),
            VolumeSource::GcePersistentDisk { .. } => Some(InTree::GcePersistentDisk),
            VolumeSource::Portworx { .. } => Some(InTree::Portworx),
            VolumeSource::Vsphere { .. } => Some(InTree::Vsphere),
            VolumeSource::Csi { .. }
            | VolumeSource::Rbd { .. }
            | VolumeSource::Iscsi { .. }
            | VolumeSource::Local
            | VolumeSource::HostPath
            | VolumeSource::Nfs
            | VolumeSource::Other => None,
        }
    }

    /// The plugin of this name, if it is one of these.
    pub(crate) fn named(name: &str) -> Option<Self> {
        InTree::ALL.into_iter().find(|plugin| plugin.name() == name)
    }

    /// The name of the plugin, as in the provisioner of StorageClasses.
    pub fn name(self) -> &'static str {
        match self {
            InTree::AwsElasticBlockStore => "kubernetes.io/aws-ebs",
            InTree::AzureDisk => "kubernetes.io/azure-disk",
            InTree::AzureFile => "kubernetes.io/azure-file",
            InTree::Cinder => "kubernetes.io/cinder",
            InTree::GcePersistentDisk => "kubernetes.io/gce-pd",
            InTree::Portworx => "kubernetes.io/portworx-volume",
            InTree::Vsphere => "kubernetes.io/vsphere-volume",
        }
    }

    /// The name of the CSI driver.
    pub(crate) fn driver(self) -> &'static str {
        match self {
            InTree::AwsElasticBlockStore => "ebs.csi.aws.com",
            InTree::AzureDisk => "disk.csi.azure.com",
            InTree::AzureFile => "file.csi.azure.com",
            InTree::Cinder => "cinder.csi.openstack.org",
            InTree::GcePersistentDisk => "pd.csi.storage.gke.io",
            InTree::Portworx => "pxd.portworx.com",
            InTree::Vsphere => "csi.vsphere.vmware.com",
        }
    }

    /// Whether scheduling treats its volumes as those of the driver. As in nodevolumelimits' utils.go,
    /// isCSIMigrationOn, and in binder.go, isCSIMigrationOnForPlugin.
    pub(crate) fn is_migrated(self) -> bool {
        match self {
            InTree::AwsElasticBlockStore
            | InTree::AzureDisk
            | InTree::Cinder
            | InTree::GcePersistentDisk
            | InTree::Portworx => true,
            InTree::AzureFile | InTree::Vsphere => false,
        }
    }
}

/// The CSI driver's handle of a volume of a [migrated](InTree::is_migrated) plugin; `None` for other
/// volumes. `labels` are those of a PersistentVolume; an inline volume of a pod has none. The error
/// says why the driver could not serve it.
pub(crate) fn handle(source: &VolumeSource, labels: &Labels) -> Option<Result<Str, String>> {
    match source {
        VolumeSource::AwsElasticBlockStore { volume_id } => Some(aws_volume(volume_id)),
        VolumeSource::GcePersistentDisk { name } => Some(gce_disk(name, labels)),
        VolumeSource::AzureDisk { uri, .. } => Some(Ok(uri.clone())),
        VolumeSource::Cinder { volume_id } | VolumeSource::Portworx { volume_id } => {
            Some(Ok(volume_id.clone()))
        }
        _ => None,
    }
}

/// As in aws_ebs.go, KubernetesVolumeIDToEBSVolumeID: `aws://ZONE/vol-1` is `vol-1`.
fn aws_volume(id: &Str) -> Result<Str, String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(id.clone()) };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let path = rest.find('/').map_or("", |at| rest[at..].trim_matches('/'));
    if path.starts_with("vol-") && !path.contains('/') {
        return Ok(path.into());
    }
    Err(format!(
        "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({id})"
    ))
}

/// As in gce_pd.go, TranslateInTreePVToCSI: a disk in several zones is identified by its region.
fn gce_disk(name: &str, labels: &Labels) -> Result<Str, String> {
    let label = |key| labels.get(key).map(Str::as_str).filter(|zones| !zones.is_empty());
    let zones = label(BETA_ZONE).or_else(|| label(ZONE)).unwrap_or(UNSPECIFIED);
    let zones: Vec<&str> = zones.split(DELIMITER).collect();
    let place = match zones[..] {
        [zone] => format!("zones/{zone}"),
        _ => format!("regions/{}", gce_region(&zones)?),
    };
    Ok(format!("projects/{UNSPECIFIED}/{place}/disks/{name}").into())
}

/// The region in which all of `zones` lie. As in gce_pd.go, gceGetRegionFromZones.
fn gce_region<'a>(zones: &[&'a str]) -> Result<&'a str, String> {
    let mut regions = Vec::new();
    for &zone in zones {
        let parts = zone.rsplit_once('-').filter(|_| zone.matches('-').count() == 2);
        let (region, _) = parts.ok_or_else(|| {
            format!(
                "failed to get region from zones: zone in unexpected format, expected: \
                 {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        })?;
        regions.push(region);
    }
    regions.sort_unstable();
    regions.dedup();
    if let [region] = regions[..] {
        return Ok(region);
    }
    let shown: Vec<String> = regions.iter().map(|region| format!("{region}:{{}}")).collect();
    Err(format!(
        "failed to get region from zones: multiple or no regions gotten from zones, got: map[{}]",
        shown.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ebs(id: &str) -> Result<Str, String> {
        let source = VolumeSource::AwsElasticBlockStore { volume_id: id.into() };
        handle(&source, &Labels::empty()).expect("the plugin is migrated")
    }

    fn gce(labels: &[(&str, &str)]) -> Result<Str, String> {
        let source = VolumeSource::GcePersistentDisk { name: "d".into() };
        let labels = labels.iter().copied().collect();
        handle(&source, &labels).expect("the plugin is migrated")
    }

    #[test]
    fn a_plugin_is_found_by_its_name_and_by_its_volumes() {
        for plugin in InTree::ALL {
            assert_eq!(InTree::named(plugin.name()), Some(plugin));
        }
        assert_eq!(InTree::named("ebs.csi.aws.com"), None);
        let cinder = VolumeSource::Cinder { volume_id: "a".into() };
        assert_eq!(InTree::of(&cinder), Some(InTree::Cinder));
        assert_eq!(InTree::of(&VolumeSource::HostPath), None);
    }

    #[test]
    fn volumes_have_handles_where_their_plugin_is_migrated() {
        let sources = [
            VolumeSource::AwsElasticBlockStore { volume_id: "a".into() },
            VolumeSource::AzureDisk { name: "x".into(), uri: "a".into() },
            VolumeSource::Cinder { volume_id: "a".into() },
            VolumeSource::Portworx { volume_id: "a".into() },
        ];
        for source in sources {
            assert_eq!(handle(&source, &Labels::empty()), Some(Ok("a".into())));
            assert!(InTree::of(&source).is_some_and(InTree::is_migrated));
        }
        let vsphere = VolumeSource::Vsphere { path: "a".into() };
        assert_eq!(handle(&vsphere, &Labels::empty()), None);
        assert!(!InTree::of(&vsphere).is_some_and(InTree::is_migrated));
    }

    #[test]
    fn an_aws_volume_may_name_its_zone() {
        assert_eq!(ebs("anything"), Ok("anything".into()));
        assert_eq!(ebs("aws://us-east-1a/vol-1"), Ok("vol-1".into()));
        assert_eq!(ebs("aws:///vol-1/"), Ok("vol-1".into()));
        for wrong in ["aws://us-east-1a/disk", "aws://vol-1", "aws:///a/vol-1"] {
            let why = "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS \
                       volume";
            assert_eq!(ebs(wrong), Err(format!("{why} ({wrong})")));
        }
    }

    #[test]
    fn a_gce_disk_is_told_by_its_zone_or_region() {
        assert_eq!(gce(&[]), Ok("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d".into()));
        let both = [(ZONE, "r-1-a"), (BETA_ZONE, "r-1-b")];
        assert_eq!(gce(&both), Ok("projects/UNSPECIFIED/zones/r-1-b/disks/d".into()));
        let regional = gce(&[(ZONE, "r-1-a__r-1-b"), (BETA_ZONE, "")]);
        assert_eq!(regional, Ok("projects/UNSPECIFIED/regions/r-1/disks/d".into()));
    }

    #[test]
    fn zones_of_several_regions_have_no_region() {
        assert_eq!(
            gce(&[(ZONE, "b-1-x__a-1-y")]),
            Err("failed to get region from zones: multiple or no regions gotten from zones, got: \
                 map[a-1:{} b-1:{}]"
                .to_owned())
        );
        assert_eq!(
            gce(&[(ZONE, "a__b")]),
            Err("failed to get region from zones: zone in unexpected format, expected: \
                 {locale}-{region}-{zone}, got: a"
                .to_owned())
        );
    }
}
