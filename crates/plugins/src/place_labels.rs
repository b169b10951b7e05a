//! The labels by which nodes and volumes tell where they are.

/// The zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// The region.
pub(crate) const REGION: &str = "topology.kubernetes.io/region";
/// What the label of the zone was called before.
pub(crate) const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// What the label of the region was called before.
pub(crate) const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// Separates the places in the label of a volume that lies in several.
pub(crate) const DELIMITER: &str = "__";
