//! Tests for plugins: text in, text out.
//!
//! [`check()`] judges the pods of a scenario, a small cluster written as text, and compares the verdicts of the
//! plugin with the expected ones. [`laws()`] checks that a plugin keeps the laws of the framework in any scenario.
//! [`random_scenarios`] makes random ones.
//!
//! # Scenarios
//!
//! There is one statement on each line. Indentation and blank lines do not matter, and `#` begins a comment. A
//! statement may end with a JSON object, which may continue on the following lines.
//!
//! ```text
//! args {"racks": ["r1"]}
//! release 1.36
//! gate SomeFeature=true
//! namespace team-a team=a
//! node a zone=z1 {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
//! node b zone=z2 {"allocatable": {"cpu": "2"}, "unschedulable": true}
//! service web app=web
//! pod web-0 app=web on a
//! pod team-a/web-1 app=web {"requests": {"cpu": "500m"}, "tolerations": [{"operator": "Exists"}]}
//! ```
//!
//! | statement | meaning |
//! |---|---|
//! | `args JSON` | the args of the plugin; without it, its defaults |
//! | `release VERSION` | the release whose decisions the plugin makes, written above all pods; without it, the newest |
//! | `gate NAME=true` | a feature gate |
//! | `node NAME [LABEL=VALUE ...] [JSON]` | a node |
//! | `pod [NAMESPACE/]NAME [LABEL=VALUE ...] on NODE [JSON]` | a pod on a node, which is written above it |
//! | `pod [NAMESPACE/]NAME [LABEL=VALUE ...] [JSON]` | a pending pod, which is judged |
//! | `namespace NAME [LABEL=VALUE ...]` | a namespace with labels; the namespaces of pods need no statement |
//! | `service`, `rc`, `rs`, `sts` `[NAMESPACE/]NAME [KEY=VALUE ...] [JSON]` | a Service, ReplicationController, ReplicaSet or StatefulSet that selects by these labels |
//! | `pv NAME [LABEL=VALUE ...] [JSON]` | a PersistentVolume, which is Available |
//! | `pvc [NAMESPACE/]NAME [JSON]` | a PersistentVolumeClaim |
//! | `claim [NAMESPACE/]NAME [JSON]` | a ResourceClaim |
//! | `slice NAME [JSON]` | a ResourceSlice |
//! | `deviceclass NAME [JSON]` | a DeviceClass |
//! | `sc`, `csinode`, `csidriver`, `va` `NAME [JSON]` | a StorageClass, CSINode, CSIDriver or VolumeAttachment |
//! | `csicapacity [NAMESPACE/]NAME [LABEL=VALUE ...] [JSON]` | a CSIStorageCapacity, for the nodes with these labels |
//! | `pdb [NAMESPACE/]NAME [LABEL=VALUE ...] [JSON]` | a PodDisruptionBudget for the pods with these labels |
//!
//! The JSON is merged (RFC 7386) into the manifest of the object, which is then read like the manifests of users.
//! These keys are short for others:
//!
//! | object | key | meaning |
//! |---|---|---|
//! | a node | `taints`, `unschedulable` | the field of `spec` |
//! | | `allocatable`, `images` | the field of `status` |
//! | | `features` | `status.declaredFeatures` |
//! | | `annotations` | `metadata.annotations` |
//! | | `metadata`, `spec`, `status` | themselves |
//! | a pod | `requests`, `limits` | `resources` of its only container |
//! | | `image`, `ports` | the fields of its only container |
//! | | `annotations` | `metadata.annotations` |
//! | | `owner`, such as `"rs/web"` | the controller that owns it, named as in a statement |
//! | | `metadata`, `spec`, `status` | themselves |
//! | | any field of `spec` that a scheduler reads, such as `tolerations` | itself |
//! | a service, ... | any field of `spec` | itself |
//! | a pv, ... or pdb | `annotations` | `metadata.annotations` |
//! | | `owner`, such as `"default/p"` | the pod that controls it, by namespace and name, which is its uid |
//! | | `metadata`, `spec`, `status` | themselves |
//! | | any other field of `spec`, or of the object if it has no `spec` | itself |
//!
//! The defaults do not get in the way: a node has 64 CPUs, 256 GiB of memory, 1 TiB of ephemeral storage and room for
//! 1000 pods, and a pod has one container without requests.
//!
//! # Expectations
//!
//! For each pending pod, in order, with the nodes in the order of the scenario:
//!
//! | line | meaning |
//! |---|---|
//! | `p gate open`, `p gate closed: REASONS` | PreEnqueue |
//! | `p only a, b` | only these nodes are worth judging, and no others are judged |
//! | `p * CODE: REASONS` | the filter rejects the pod for all nodes |
//! | `p a Success`, `p a CODE: REASONS` | the filter's verdict on node `a` |
//! | `p a score 42` | the normalised score, not weighted, of a node that passed |
//! | `p skips score` | the plugin gives this pod no scores |
//! | `p nominates a`, `p nominates a without x, y` | PostFilter found a node, and these pods must go |
//! | `p is unschedulable: REASON`, `p stops: REASON`, `p errs: REASON` | PostFilter found nothing, stopped, failed |
//!
//! A pod outside the namespace `default` is written `NAMESPACE/NAME`. PostFilter runs only if no node passed. If the
//! plugin cannot be made from its args, the only line is the error.
//!
//! Set `UPDATE_EXPECT=1` to let a test write its actual output into its source.

mod amounts;
mod by_node;
pub mod check;
pub mod cluster;
mod counts;
mod handle;
mod keys;
pub mod laws;
mod manifest;
mod random;
pub mod scenario;
mod shrink;

pub use check::{check, check_among, report};
pub use cluster::Cluster;
pub use expect_test::{Expect, expect};
pub use handle::HandleParts;
pub use laws::laws;
pub use random::random_scenarios;
pub use scenario::{Scenario, ScenarioError};
