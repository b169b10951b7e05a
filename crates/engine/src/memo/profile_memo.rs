//! How one profile sorts pods into kinds.

use std::collections::BTreeMap;

use plimsoll_api::Pod;
use plimsoll_framework::domains::ByDomain;
use plimsoll_framework::parts::{ClusterReads, PodReads};
use plimsoll_framework::{Columns, PodInfo, Point, Stores, View};

use super::kinds::{Kind, Kinds};
use crate::profile::{PluginIndex, Profile};

/// What is known of a class: pods that are equal in everything that plugins read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing yet.
    Unknown,
    /// The numbers of its shape and of its tallies.
    Known { shape: usize, tallies: usize },
    /// Some plugin can only judge it from scratch.
    FromScratch,
}

/// How one profile sorts pods into kinds.
pub(crate) struct ProfileMemo {
    /// Plugins that can only judge from scratch: pods that they have something to say about are no
    /// matter for the memo.
    from_scratch: Vec<(PluginIndex, Point)>,
    classes: Kinds,
    of_class: Vec<Class>,
    rows: Kinds,
    shapes: BTreeMap<(Kind, Vec<usize>), usize>,
    counts: Kinds,
    tallies: BTreeMap<Kind, usize>,
    /// What is read by plugins that judge node by node, beside the node.
    pub(crate) shapes_read: ClusterReads,
    /// What is read by plugins that judge by counts, beside nodes and pods.
    pub(crate) tallies_read: ClusterReads,
}

impl ProfileMemo {
    pub(crate) fn new(profile: &Profile) -> Self {
        // Whether a plugin supports a way of judging does not depend on the pod.
        let (nodes, stores, pod) =
            (Columns::default(), Stores::default(), PodInfo::new(Pod::default()));
        let view = View { nodes: &nodes, stores: &stores };
        let (mut by_row, mut by_count) = (PodReads::empty(), PodReads::empty());
        let (mut shapes_read, mut tallies_read) = (ClusterReads::EMPTY, ClusterReads::EMPTY);
        let mut from_scratch = Vec::new();
        for (index, _) in profile.indices(Point::Filter) {
            let points = &profile.get(index).points;
            let Some(filter) = &points.filter else { continue };
            let reads = points.reads;
            let shares = reads.pod.contains(PodReads::SHARED);
            if points.filter_is_local && !shares {
                by_row |= reads.pod;
            } else if shares || matches!(filter.by_domain(&pod, &view, &[]), ByDomain::Unsupported)
            {
                from_scratch.push((index, Point::Filter));
            } else {
                by_count |= reads.pod;
                tallies_read = tallies_read.union(reads.cluster);
            }
        }
        // A plugin that only looks at pods at PreFilter may reject them there.
        let judges = |index| profile.indices(Point::Filter).any(|(other, _)| other == index);
        for (index, _) in profile.indices(Point::PreFilter) {
            if profile.get(index).points.filter.is_some() && !judges(index) {
                from_scratch.push((index, Point::Filter));
            }
        }
        for (index, _) in profile.indices(Point::Score) {
            let Some(score) = &profile.get(index).points.score else { continue };
            let reads = score.reads();
            let shares = reads.pod.contains(PodReads::SHARED);
            if !shares && score.is_by_row() {
                by_row |= reads.pod;
                shapes_read = shapes_read.union(reads.cluster);
            } else if shares || matches!(score.by_domain(&pod, &view, &[]), ByDomain::Unsupported) {
                from_scratch.push((index, Point::Score));
            } else {
                by_count |= reads.pod;
                tallies_read = tallies_read.union(reads.cluster);
            }
        }
        ProfileMemo {
            from_scratch,
            classes: Kinds::new(by_row | by_count),
            of_class: Vec::new(),
            rows: Kinds::new(by_row),
            shapes: BTreeMap::new(),
            counts: Kinds::new(by_count),
            tallies: BTreeMap::new(),
            shapes_read,
            tallies_read,
        }
    }

    /// The class of a pod; `None` if it has to be judged from scratch.
    pub(crate) fn class(&mut self, profile: &Profile, pod: &PodInfo) -> Option<Kind> {
        let has_something_to_say = |&(index, point): &(PluginIndex, Point)| {
            let points = &profile.get(index).points;
            match point {
                Point::Filter => points.filter.as_ref().is_some_and(|one| one.applies(pod)),
                _ => points.score.as_ref().is_some_and(|one| one.applies(pod)),
            }
        };
        if self.from_scratch.iter().any(has_something_to_say) {
            return None;
        }
        let (class, is_new) = self.classes.number(pod)?;
        if is_new {
            self.of_class.push(Class::Unknown);
        }
        Some(class)
    }

    /// Whether there are so many kinds that everything has to be begun anew.
    pub(crate) fn is_full(&self) -> bool {
        [&self.classes, &self.rows, &self.counts].into_iter().any(Kinds::is_full)
    }

    pub(crate) fn known(&self, class: Kind) -> Class {
        self.of_class[class as usize]
    }

    pub(crate) fn learn(&mut self, class: Kind, what: Class) {
        self.of_class[class as usize] = what;
    }

    /// What a pod is to plugins that judge node by node, and to those that judge by counts.
    pub(crate) fn kinds(&mut self, pod: &PodInfo) -> Option<(Kind, Kind)> {
        Some((self.rows.number(pod)?.0, self.counts.number(pod)?.0))
    }

    pub(crate) fn shape_of(&self, rows: Kind, topologies: &[usize]) -> Option<usize> {
        self.shapes.get(&(rows, topologies.to_vec())).copied()
    }

    pub(crate) fn set_shape(&mut self, rows: Kind, topologies: Vec<usize>, shape: usize) {
        self.shapes.insert((rows, topologies), shape);
    }

    pub(crate) fn tallies_of(&self, counts: Kind) -> Option<usize> {
        self.tallies.get(&counts).copied()
    }

    pub(crate) fn set_tallies(&mut self, counts: Kind, tallies: usize) {
        self.tallies.insert(counts, tallies);
    }

    pub(crate) fn forget(&mut self) {
        for kinds in [&mut self.classes, &mut self.rows, &mut self.counts] {
            kinds.clear();
        }
        self.of_class.clear();
        self.forget_shapes();
        self.forget_tallies();
    }

    pub(crate) fn forget_shapes(&mut self) {
        self.shapes.clear();
        self.of_class.fill(Class::Unknown);
    }

    pub(crate) fn forget_tallies(&mut self) {
        self.tallies.clear();
        self.of_class.fill(Class::Unknown);
    }

    pub(crate) fn drop_shape(&mut self, number: usize) {
        self.shapes.retain(|_, shape| *shape != number);
        self.forget_those(|class| matches!(class, Class::Known { shape, .. } if shape == number));
    }

    pub(crate) fn drop_tallies(&mut self, number: usize) {
        self.tallies.retain(|_, tallies| *tallies != number);
        self.forget_those(
            |class| matches!(class, Class::Known { tallies, .. } if tallies == number),
        );
    }

    fn forget_those(&mut self, are: impl Fn(Class) -> bool) {
        for class in self.of_class.iter_mut().filter(|class| are(**class)) {
            *class = Class::Unknown;
        }
    }
}
