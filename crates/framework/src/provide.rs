//! Resources for which something else than the node stands.

use std::collections::BTreeSet;

use plimsoll_api::Str;

use crate::parts::{ClusterPart, Ref};
use crate::plugin::Plugin;

/// Says for which resources something else than the node stands, such as the devices of a class. A node that does not
/// offer such a resource itself is then not rejected for want of it: whoever provides it judges the node.
pub trait ProvidesResources: Plugin {
    /// What it reads. It may read nothing of nodes.
    type Objects: ClusterPart;
    /// The names of the resources. Called after each change of an object that it reads.
    fn resources(&self, objects: Ref<'_, Self::Objects>) -> BTreeSet<Str>;
}
