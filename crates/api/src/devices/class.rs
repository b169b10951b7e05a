//! Classes of devices.

use serde::{Deserialize, Serialize};

use super::OpaqueConfig;
use crate::{Str, Timestamp};

/// resource.k8s.io DeviceClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceClass {
    /// Its name, unique in the cluster.
    pub name: Str,
    /// When it was made.
    #[serde(with = "crate::timestamp")]
    pub created: Option<Timestamp>,
    /// CEL expressions that a device must all meet. `None` for a selector of an unknown kind.
    pub selectors: Vec<Option<Str>>,
    /// Configurations for the drivers of its devices. `None` for one of an unknown kind.
    pub config: Vec<Option<OpaqueConfig>>,
    /// The extended resource that stands for one of its devices (`spec.extendedResourceName`).
    pub extended_resource: Option<Str>,
}
