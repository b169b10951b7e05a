//! The subject of a scheduling cycle, and the state of the cluster on which it is decided.
//!
//! A *unit* is what leaves the queue together, is decided on one state of the cluster, and is committed
//! together. A pod by itself is a unit with one member. A [cycle](crate::cycle) and the
//! [deciders](crate::decide) know a [`Member`] and a [`Snapshot`]: neither whether there are other
//! members, nor what is done with the decision. Only the driver of the cycles knows that.

use plimsoll_framework::{NominatedPods, PodInfo, Row, View};

use crate::profile::Profile;

/// A member of a unit: the subject of one scheduling cycle.
#[derive(Clone, Copy)]
pub(crate) struct Member<'a> {
    /// The profile that decides it. As in schedule_one_podgroup.go, all members of a unit have the same.
    pub(crate) profile: &'a Profile,
    pub(crate) pod: &'a PodInfo,
}

/// The state of the cluster on which a member is decided: with the members of its unit that were placed
/// before it.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot<'a> {
    pub(crate) view: View<'a>,
    pub(crate) nominated: &'a NominatedPods,
    /// The nodes of the placement on which its unit is tried, ascending; `None` for all. Plugins still see the others.
    pub(crate) within: Option<&'a [Row]>,
    /// Whether PostFilter plugins are asked if there is no node.
    pub(crate) asks_post_filter: bool,
}

impl<'a> Snapshot<'a> {
    /// The whole cluster.
    pub(crate) fn of(view: View<'a>, nominated: &'a NominatedPods) -> Self {
        Snapshot { view, nominated, within: None, asks_post_filter: true }
    }

    /// How many nodes there are for the member.
    pub(crate) fn n_nodes(&self) -> usize {
        self.within.map_or(self.view.nodes.len(), <[Row]>::len)
    }

    /// These nodes, ascending.
    pub(crate) fn rows(&self) -> Vec<Row> {
        self.within.map_or_else(|| self.view.nodes.rows().collect(), <[Row]>::to_vec)
    }

    /// Whether a node is one of them.
    pub(crate) fn has(&self, row: Row) -> bool {
        self.within.is_none_or(|rows| rows.binary_search(&row).is_ok())
    }
}
