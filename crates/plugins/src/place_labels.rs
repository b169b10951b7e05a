//! The labels for the location of nodes and volumes.

/// The zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// The deprecated label of the zone.
pub const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// The deprecated label of the region.
pub const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// Separates the values in the label of a volume with several locations.
pub(crate) const DELIMITER: &str = "__";
