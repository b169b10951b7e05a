//! What decides on which nodes the claims of a pod can be satisfied: the same for many pods, each of which has claims of its
//! own.

use plimsoll_api::NodeSelectorTerm;
use plimsoll_api::storage::NO_PROVISIONER;
use plimsoll_framework::prelude::*;

use super::claims::{BoundVolumeClaim, Migrated, PodClaims, WaitingClaim};

/// With more volumes or topologies a key would seldom be that of another pod: each node has its own, and each pod takes one.
const MOST_PARTS: usize = 64;

/// A node affinity; `None` for a volume that all nodes reach.
type Affinity = Option<Vec<NodeSelectorTerm>>;

/// What the verdicts on nodes depend on.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ClaimsKey {
    /// In the order of the claims, on which the first reason depends.
    bound: Vec<BoundKey>,
    matching: Vec<WaitingKey>,
}

/// A claim that is bound.
#[derive(Debug, PartialEq, Eq, Hash)]
enum BoundKey {
    /// Its volume does not exist.
    Missing,
    Reached {
        by: Affinity,
        /// The in-tree plugin of the volume, and by which nodes it is reached where that is migrated.
        migrated: Option<(&'static str, Affinity)>,
    },
}

/// A claim that waits for its pod to get a node.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WaitingKey {
    volumes: VolumesKey,
    /// Where a volume can be provisioned; `None` for nowhere.
    provisioned: Option<ProvisionKey>,
}

/// The volumes for a claim that waits.
#[derive(Debug, PartialEq, Eq, Hash)]
enum VolumesKey {
    /// Only the one that is reserved for it.
    Reserved(Affinity),
    /// Any of these. Which one does not matter for the verdict.
    Fitting(Vec<Affinity>),
}

/// Where a volume can be provisioned.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ProvisionKey {
    topologies: Vec<NodeSelectorTerm>,
    /// Where the storage suffices; `None` if the driver does not report it.
    suffices: Option<Vec<Selector>>,
}

impl ClaimsKey {
    /// The key of the claims of a pod; `None` if hardly any other pod would have it.
    pub(super) fn of(claims: &PodClaims) -> Option<Self> {
        // They can be satisfied on one node only.
        if !claims.provisioning().is_empty() {
            return None;
        }
        let matching = claims.matching();
        let has_volumes = |one: &WaitingClaim| !one.reserved.is_empty() || !one.fitting.is_empty();
        // Several claims do not take the same volume.
        if 1 < matching.len() && matching.iter().any(has_volumes) {
            return None;
        }
        Some(ClaimsKey {
            bound: claims.bound().iter().map(BoundKey::of).collect::<Option<_>>()?,
            matching: matching.iter().map(WaitingKey::of).collect::<Option<_>>()?,
        })
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        let bound = self.bound.iter().map(|one| match one {
            BoundKey::Missing => 0,
            BoundKey::Reached { by, migrated } => {
                bytes_of(by) + migrated.as_ref().map_or(0, |(_, by)| bytes_of(by))
            }
        });
        let matching = self.matching.iter().map(WaitingKey::bytes);
        size_of_val(&*self.bound)
            + size_of_val(&*self.matching)
            + bound.chain(matching).sum::<usize>()
    }
}

fn bytes_of(affinity: &Affinity) -> usize {
    affinity.iter().flatten().map(NodeSelectorTerm::bytes).sum()
}

impl BoundKey {
    /// `None` for a volume that some nodes cannot judge.
    fn of(claim: &BoundVolumeClaim) -> Option<Self> {
        let Some(volume) = &claim.volume else { return Some(BoundKey::Missing) };
        let migrated = |migrated: &Migrated| {
            let volume = migrated.volume.as_ref().ok()?;
            Some((migrated.plugin, volume.node_affinity.clone()))
        };
        let migrated = match &claim.migrated {
            Some(one) => Some(migrated(one)?),
            None => None,
        };
        Some(BoundKey::Reached { by: volume.node_affinity.clone(), migrated })
    }
}

impl WaitingKey {
    fn of(claim: &WaitingClaim) -> Option<Self> {
        let volumes = match claim.reserved.first() {
            Some(reserved) => VolumesKey::Reserved(reserved.node_affinity.clone()),
            None if claim.fitting.len() <= MOST_PARTS => {
                let affinities = claim.fitting.iter().map(|volume| volume.node_affinity.clone());
                VolumesKey::Fitting(sorted(affinities))
            }
            None => return None,
        };
        let class = &claim.class;
        let is_never = class.provisioner.is_empty() || class.provisioner == NO_PROVISIONER;
        let provisioned = match &claim.capacities {
            _ if is_never => None,
            Some(capacities) if MOST_PARTS < capacities.len() => return None,
            capacities => Some(ProvisionKey {
                topologies: class.allowed_topologies.clone(),
                suffices: capacities
                    .as_ref()
                    .map(|all| sorted(all.iter().map(|left| left.topology.clone()))),
            }),
        };
        Some(WaitingKey { volumes, provisioned })
    }

    fn bytes(&self) -> usize {
        let volumes = match &self.volumes {
            VolumesKey::Reserved(by) => bytes_of(by),
            VolumesKey::Fitting(all) => {
                size_of_val(&**all) + all.iter().map(bytes_of).sum::<usize>()
            }
        };
        let provisioned = self.provisioned.as_ref().map_or(0, |provisioned| {
            let suffices = provisioned.suffices.iter().flatten();
            let terms = provisioned.topologies.iter().map(NodeSelectorTerm::bytes);
            terms.chain(suffices.map(Selector::bytes)).sum()
        });
        volumes + provisioned
    }
}

/// Without duplicates.
fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl PodClaims {
    /// The only node on which volumes are being provisioned, if there is one.
    pub(super) fn selected_node(&self) -> Option<&Str> {
        self.provisioning().first()?.claim.selected_node.as_ref()
    }

    /// Labels of which a node must have one of the values so that it reaches the bound volumes.
    pub(super) fn labels_of_nodes(&self) -> Vec<LabelledNodes> {
        let volumes = self.bound().iter().filter(|one| one.migrated.is_none());
        let terms = volumes.filter_map(|one| one.volume.as_ref()?.node_affinity.as_deref());
        terms.flat_map(labels_of).collect()
    }
}

/// The labels that all terms require, each with the values of which one suffices.
fn labels_of(terms: &[NodeSelectorTerm]) -> impl Iterator<Item = LabelledNodes> {
    let values_of = |term: &NodeSelectorTerm, label: &Str| {
        let mut of_label = term.labels.iter().filter(|one| one.key == *label);
        of_label.find_map(|one| match &one.test {
            Test::In(values) => Some(values.clone()),
            _ => None,
        })
    };
    let first = terms.first().into_iter().flat_map(|term| &term.labels);
    first.filter_map(move |requirement| {
        let label = requirement.key.clone();
        let values = terms.iter().map(|term| values_of(term, &label));
        let values = values.collect::<Option<Vec<_>>>()?.concat();
        Some(LabelledNodes { label, values })
    })
}
