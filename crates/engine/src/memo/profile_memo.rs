//! How one profile sorts pods into kinds.

use std::collections::BTreeMap;

use plimsoll_framework::parts::{ClusterReads, PodReads};
use plimsoll_framework::{PodInfo, Point, View};

use super::costs::Costs;
use super::kinds::{Kind, Kinds};
use super::{FastMap, scan};
use crate::profile::{PluginIndex, Profile};

/// What is known of a class: pods that are equal in everything that plugins read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing yet.
    Unknown,
    /// How it is decided.
    Known(Known),
    /// Some plugin can only judge it from scratch.
    FromScratch,
}

/// How pods of a class are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The number of the shape, if there is one.
    pub(crate) shape: Option<usize>,
    /// The number of the base of scans, if there is one.
    pub(crate) base: Option<usize>,
    /// The number of the tallies.
    pub(crate) tallies: usize,
    /// What pods are to all plugins that judge node by node, and in which topologies they are counted.
    pub(crate) rows: (Kind, TopologySet),
    /// What they are to those of these plugins that are of no mind what is on a node.
    pub(crate) unmoved: (Kind, TopologySet),
}

/// The number of a set of topologies.
pub(crate) type TopologySet = usize;

/// How one profile sorts pods into kinds.
pub(crate) struct ProfileMemo {
    /// Plugins that can only judge from scratch: pods that they have something to say about are no
    /// matter for the memo.
    from_scratch: Vec<(PluginIndex, Point)>,
    /// Filters that have to ask every node, in their order: see [`late`](super::late).
    pub(super) late: Vec<PluginIndex>,
    classes: Kinds,
    of_class: Vec<Class>,
    rows: Kinds,
    shapes: FastMap<(Kind, TopologySet), usize>,
    unmoved: Kinds,
    bases: FastMap<(Kind, TopologySet), usize>,
    /// By what a shape is for: what it would have cost, and what scans have.
    pub(super) costs: FastMap<(Kind, TopologySet), Costs>,
    counts: Kinds,
    tallies: BTreeMap<Kind, usize>,
    /// Whether scans can add up its scores.
    pub(super) can_scan: bool,
    /// What is read by plugins that judge node by node, beside the node.
    pub(crate) shapes_read: ClusterReads,
    /// What is read by plugins that judge by counts, beside nodes and pods.
    pub(crate) tallies_read: ClusterReads,
}

impl ProfileMemo {
    pub(crate) fn new(profile: &Profile) -> Self {
        let (mut by_row, mut by_count) = (PodReads::empty(), PodReads::empty());
        let mut unmoved = PodReads::empty();
        let (mut shapes_read, mut tallies_read) = (ClusterReads::EMPTY, ClusterReads::EMPTY);
        let (mut from_scratch, mut late) = (Vec::new(), Vec::new());
        let looks = |index| profile.indices(Point::PreFilter).any(|(other, _)| other == index);
        for (index, _) in profile.indices(Point::Filter) {
            let points = &profile.get(index).points;
            let Some(filter) = &points.filter else { continue };
            let reads = points.reads;
            let shares = reads.pod.contains(PodReads::SHARED);
            if points.filter_is_local && !shares {
                by_row |= reads.pod;
                if !scan::moves(reads.node) {
                    unmoved |= reads.pod;
                }
            } else if let Some(objects) = filter.counts_by().filter(|_| !shares) {
                by_count |= reads.pod;
                tallies_read = tallies_read.union(objects);
            } else {
                match !shares && looks(index) {
                    true => late.push(index),
                    false => from_scratch.push((index, Point::Filter)),
                }
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
            let shares = reads.pod.contains(PodReads::SHARED) || score.shares_state();
            if !shares && score.is_by_row() {
                by_row |= reads.pod;
                if !scan::moves(reads.node) {
                    unmoved |= reads.pod;
                }
                shapes_read = shapes_read.union(reads.cluster);
            } else if let Some(objects) = score.counts_by().filter(|_| !shares) {
                by_count |= reads.pod;
                tallies_read = tallies_read.union(objects);
            } else {
                from_scratch.push((index, Point::Score));
            }
        }
        ProfileMemo {
            from_scratch,
            late,
            classes: Kinds::new(by_row | by_count),
            of_class: Vec::new(),
            rows: Kinds::new(by_row),
            shapes: FastMap::default(),
            unmoved: Kinds::new(unmoved),
            bases: FastMap::default(),
            costs: FastMap::default(),
            can_scan: scan::are_totals_exact(profile.at(Point::Score).map(|(_, weight)| weight)),
            counts: Kinds::new(by_count),
            tallies: BTreeMap::new(),
            shapes_read,
            tallies_read,
        }
    }

    /// The class of a pod; `None` if it has to be judged from scratch.
    pub(crate) fn class(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        view: &View<'_>,
    ) -> Option<Kind> {
        let has_something_to_say = |&(index, point): &(PluginIndex, Point)| {
            let points = &profile.get(index).points;
            match point {
                Point::Filter => points.filter.as_ref().is_some_and(|one| one.applies(pod)),
                _ => points.score.as_ref().is_some_and(|one| one.applies_in(pod, view)),
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
        [&self.classes, &self.rows, &self.unmoved, &self.counts].into_iter().any(Kinds::is_full)
    }

    pub(crate) fn known(&self, class: Kind) -> Class {
        self.of_class[class as usize]
    }

    pub(crate) fn learn(&mut self, class: Kind, what: Class) {
        self.of_class[class as usize] = what;
    }

    /// What a pod is to plugins that judge node by node, to those of them that are of no mind what is on a
    /// node, and to those that judge by counts.
    pub(crate) fn kinds(&mut self, pod: &PodInfo) -> Option<[Kind; 3]> {
        let kinds = [&mut self.rows, &mut self.unmoved, &mut self.counts];
        let [rows, unmoved, counts] = kinds.map(|kinds| Some(kinds.number(pod)?.0));
        Some([rows?, unmoved?, counts?])
    }

    /// How pods are decided of which this is known.
    pub(crate) fn way(
        &self,
        rows: (Kind, TopologySet),
        unmoved: (Kind, TopologySet),
        tallies: usize,
    ) -> Known {
        let (shape, base) = (self.shape_of(rows), self.base_of(unmoved));
        Known { shape, base, tallies, rows, unmoved }
    }

    pub(crate) fn shape_of(&self, rows: (Kind, TopologySet)) -> Option<usize> {
        self.shapes.get(&rows).copied()
    }

    pub(crate) fn base_of(&self, unmoved: (Kind, TopologySet)) -> Option<usize> {
        self.bases.get(&unmoved).copied()
    }

    pub(crate) fn set_shape(&mut self, class: Kind, known: Known, shape: usize) {
        self.shapes.insert(known.rows, shape);
        self.learn(class, Class::Known(Known { shape: Some(shape), ..known }));
    }

    pub(crate) fn set_base(&mut self, class: Kind, known: Known, base: usize) {
        self.bases.insert(known.unmoved, base);
        self.learn(class, Class::Known(Known { base: Some(base), ..known }));
    }

    pub(crate) fn tallies_of(&self, counts: Kind) -> Option<usize> {
        self.tallies.get(&counts).copied()
    }

    pub(crate) fn set_tallies(&mut self, counts: Kind, tallies: usize) {
        self.tallies.insert(counts, tallies);
    }

    pub(crate) fn forget(&mut self) {
        for kinds in [&mut self.classes, &mut self.rows, &mut self.unmoved, &mut self.counts] {
            kinds.clear();
        }
        self.of_class.clear();
        self.forget_shapes();
        self.forget_tallies();
    }

    pub(crate) fn forget_shapes(&mut self) {
        self.shapes.clear();
        self.bases.clear();
        self.costs.clear();
        self.of_class.fill(Class::Unknown);
    }

    pub(crate) fn forget_tallies(&mut self) {
        self.tallies.clear();
        self.of_class.fill(Class::Unknown);
    }

    pub(crate) fn drop_shape(&mut self, number: usize) {
        self.shapes.retain(|_, shape| *shape != number);
        self.bases.retain(|_, base| *base != number);
        self.forget_those(|known| [known.shape, known.base].contains(&Some(number)));
    }

    pub(crate) fn drop_tallies(&mut self, number: usize) {
        self.tallies.retain(|_, tallies| *tallies != number);
        self.forget_those(|known| known.tallies == number);
    }

    /// Classes that could only be judged from scratch may be judged otherwise now.
    pub(crate) fn forget_from_scratch(&mut self) {
        for class in &mut self.of_class {
            if *class == Class::FromScratch {
                *class = Class::Unknown;
            }
        }
    }

    fn forget_those(&mut self, are: impl Fn(&Known) -> bool) {
        for class in &mut self.of_class {
            if matches!(class, Class::Known(known) if are(known)) {
                *class = Class::Unknown;
            }
        }
    }
}
