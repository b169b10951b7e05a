//! The forms that configurations had before v1: the versions of KubeSchedulerConfiguration with their defaults, and how
//! their files are read; algorithm providers and Policies; and flags and feature gates that were removed.
//!
//! [`load`] reads a file of any form, including v1. [`Migration`] goes the other way, to a file of v1.

mod changes;
mod disks;
mod fields;
mod flags;
mod form;
mod load;
mod migrate;
mod old_gates;
mod policy;
mod provider;
mod reading;
mod source;
mod v1alpha1;
mod v1alpha2;
mod v1beta1;
mod v1beta2;
mod v1beta3;

pub use disks::{counts_disks, set_max_volumes};
pub use flags::{rename_profile, set_hard_pod_affinity_weight, with_policy, with_provider};
pub use form::{POLICY, V1ALPHA1, V1ALPHA2, V1BETA1, V1BETA2, V1BETA3, place};
pub use load::{PolicyPlace, load, load_beside_policy, policy_place};
pub use migrate::{Migration, Note, extensions};
pub use old_gates::OLD_GATES;
pub use policy::{load_config_map, load_policy};
pub use provider::{Provider, ProviderError};
