//! The cluster as it is in one scheduling cycle.

use crate::columns::Columns;
use crate::stores::Stores;

/// The cluster at one moment. Filters and scores reach it only through the parts they declare.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The nodes and the pods on them.
    pub nodes: &'a Columns,
    /// Everything else.
    pub stores: &'a Stores,
}
