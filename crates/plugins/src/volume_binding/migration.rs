//! Volumes of in-tree plugins on nodes where a CSI driver serves them: there the driver's labels
//! determine which nodes reach such a volume.

use plimsoll_api::{NodeSelectorTerm, PersistentVolume, VolumeSource};
use plimsoll_framework::prelude::*;

use crate::csi_migration::{self, InTree};
use crate::place_labels::{BETA_REGION, BETA_ZONE, DELIMITER, REGION, ZONE};

/// The in-tree plugin of a volume for which a CSI driver may change the rules. As in binder.go,
/// `isCSIMigrationOnForPlugin`.
pub(super) fn in_tree_plugin(source: &VolumeSource) -> Option<&'static str> {
    InTree::of(source).filter(|plugin| plugin.is_migrated()).map(InTree::name)
}

/// The volume in the form of its CSI driver; only the required node affinity is translated. The error
/// says why the driver cannot serve it. As in csi-translation-lib, `TranslateInTreePVToCSI`.
pub(super) fn migrated(volume: &PersistentVolume) -> Result<PersistentVolume, String> {
    if let Some(handle) = csi_migration::handle(&volume.source, &volume.labels) {
        handle?;
    }
    let Some(driver_zone) = InTree::of(&volume.source).and_then(zone_label) else {
        return Ok(volume.clone());
    };
    let node_affinity = with_driver_zone(volume, driver_zone);
    Ok(PersistentVolume { node_affinity, ..volume.clone() })
}

/// The zone label of nodes with the driver of a plugin. Volumes of other plugins keep their labels.
fn zone_label(plugin: InTree) -> Option<&'static str> {
    match plugin {
        InTree::AwsElasticBlockStore => Some("topology.ebs.csi.aws.com/zone"),
        InTree::Cinder => Some("topology.cinder.csi.openstack.org/zone"),
        InTree::GcePersistentDisk => Some("topology.gke.io/zone"),
        InTree::AzureDisk | InTree::AzureFile | InTree::Portworx | InTree::Vsphere => None,
    }
}

/// The node affinity with the driver's label instead of the zone label. If it names no zone, the zones
/// in the labels of the volume are added. As in in_tree_volume.go, `translateTopologyFromInTreeToCSI`.
fn with_driver_zone(
    volume: &PersistentVolume,
    driver_zone: &'static str,
) -> Option<Vec<NodeSelectorTerm>> {
    let (zone, region) = labels_in_use(volume);
    let mut terms = volume.node_affinity.clone();
    if names_values_of(zone, terms.as_deref()) {
        rename(zone, driver_zone, terms.as_deref_mut());
    } else if let Some(zones) = volume.labels.get(zone).and_then(|label| zones_in(label)) {
        let terms = terms.get_or_insert_default();
        if terms.is_empty() {
            terms.push(NodeSelectorTerm::default());
        }
        for term in terms {
            let test = Test::In(zones.clone());
            term.labels.push(Requirement { key: driver_zone.into(), test });
        }
    }
    if region == BETA_REGION && names_values_of(region, terms.as_deref()) {
        rename(region, REGION, terms.as_deref_mut());
    }
    terms
}

/// The zone and region labels that the volume uses. As in in_tree_volume.go, `getTopologyLabel`.
fn labels_in_use(volume: &PersistentVolume) -> (&'static str, &'static str) {
    const STABLE: (&str, &str) = (ZONE, REGION);
    const BETA: (&str, &str) = (BETA_ZONE, BETA_REGION);
    let terms = volume.node_affinity.as_deref().unwrap_or_default();
    let asked_for = |key: &str| {
        terms.iter().any(|term| term.labels.iter().any(|requirement| requirement.key == key))
    };
    if asked_for(ZONE) {
        return STABLE;
    }
    let beta = asked_for(BETA_ZONE)
        || !volume.labels.contains_key(ZONE) && volume.labels.contains_key(BETA_ZONE);
    if beta { BETA } else { STABLE }
}

/// Whether some condition on `key` lists values.
fn names_values_of(key: &str, terms: Option<&[NodeSelectorTerm]>) -> bool {
    let mut conditions = terms.unwrap_or_default().iter().flat_map(|term| &term.labels);
    conditions.any(|one| {
        let listed = match &one.test {
            Test::In(values) | Test::NotIn(values) => !values.is_empty(),
            Test::Gt(_) | Test::Lt(_) => true,
            Test::Exists | Test::DoesNotExist => false,
        };
        one.key == key && listed
    })
}

fn rename(from: &str, to: &'static str, terms: Option<&mut [NodeSelectorTerm]>) {
    for one in terms.unwrap_or_default().iter_mut().flat_map(|term| &mut term.labels) {
        if one.key == from {
            one.key = to.into();
        }
    }
}

/// The zones that a label lists; `None` if it lists none.
fn zones_in(label: &str) -> Option<Vec<Str>> {
    let zones = label.split(DELIMITER).map(str::trim).filter(|zone| !zone.is_empty());
    let zones: Vec<Str> = zones.map(Str::from).collect();
    (!zones.is_empty()).then_some(zones)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(labels: &[(&str, &str)], affinity: Option<Vec<NodeSelectorTerm>>) -> PersistentVolume {
        PersistentVolume {
            labels: labels.iter().copied().collect(),
            node_affinity: affinity,
            source: VolumeSource::GcePersistentDisk { name: "disk".into() },
            ..PersistentVolume::default()
        }
    }

    fn term(requirements: &[(&str, &str)]) -> NodeSelectorTerm {
        let labels = requirements.iter().map(|&(key, value)| Requirement::equals(key, value));
        NodeSelectorTerm { labels: labels.collect(), ..NodeSelectorTerm::default() }
    }

    fn rule(volume: &PersistentVolume) -> Option<Vec<NodeSelectorTerm>> {
        migrated(volume).expect("it can be migrated").node_affinity
    }

    #[test]
    fn the_zone_of_a_rule_becomes_the_drivers_and_a_beta_region_the_stable_one() {
        let stable = disk(&[(ZONE, "other")], Some(vec![term(&[(ZONE, "a"), ("x", "y")])]));
        let expected = vec![term(&[("topology.gke.io/zone", "a"), ("x", "y")])];
        assert_eq!(rule(&stable), Some(expected));
        let beta = disk(&[], Some(vec![term(&[(BETA_ZONE, "a"), (BETA_REGION, "r")])]));
        let expected = vec![term(&[("topology.gke.io/zone", "a"), (REGION, "r")])];
        assert_eq!(rule(&beta), Some(expected));
    }

    #[test]
    fn zones_in_labels_are_added_to_a_rule_without_zones() {
        let both = NodeSelectorTerm {
            labels: vec![Requirement {
                key: "topology.gke.io/zone".into(),
                test: Test::In(vec!["r-1-a".into(), "r-1-b".into()]),
            }],
            ..NodeSelectorTerm::default()
        };
        assert_eq!(rule(&disk(&[(ZONE, "r-1-a__r-1-b")], None)), Some(vec![both]));
        let asks = disk(&[(BETA_ZONE, "a")], Some(vec![term(&[("x", "y")])]));
        let expected = vec![term(&[("x", "y"), ("topology.gke.io/zone", "a")])];
        assert_eq!(rule(&asks), Some(expected));
        assert_eq!(rule(&disk(&[], None)), None);
    }

    #[test]
    fn a_volume_that_its_driver_could_not_serve_is_told() {
        let told = migrated(&disk(&[(ZONE, "a-1-x__b-1-y")], None)).expect_err("it cannot be");
        assert_eq!(
            told,
            "failed to get region from zones: multiple or no regions gotten from zones, got: \
             map[a-1:{} b-1:{}]"
        );
    }
}
