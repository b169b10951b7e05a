//! Making shapes and tallies for classes that are new, and bringing known ones up to date.

use hashbrown::hash_map::Entry;
use plimsoll_framework::{Counting, Neighbour, PodInfo, View};
use smallvec::SmallVec;

use super::Memo;
use super::kinds::Kind;
use super::overlay::Overlay;
use super::profile_memo::{Class, Known, TopologySet};
use super::shape::{MadeBy, Shape};
use super::tallies::Plan;
use crate::cycle;
use crate::profile::Profile;

/// The memory that shapes may take, in bytes.
const SHAPE_BUDGET: usize = 1 << 30;
/// About what a new shape takes for each node, in bytes.
const SHAPE_BYTES_PER_NODE: usize = 40;
/// So many tallies are kept: each new kind of pod on a node is shown to all of them.
const MOST_TALLIES: usize = 1 << 16;

impl Memo {
    /// The pods on nodes that have terms, one of each kind.
    pub(super) fn neighbours_with_terms(&self) -> Vec<Neighbour<'_>> {
        let placed = |kind: &&Kind| !self.placed[**kind as usize].is_empty();
        let kinds = self.with_terms.iter().filter(placed);
        kinds.map(|&kind| Neighbour::from(&**self.neighbours.example(kind))).collect()
    }

    /// How pods of a class are decided, if that is known.
    pub(super) fn known(&self, profile: &Profile, class: Kind) -> Option<Known> {
        match self.profiles[&profile.scheduler_name].known(class) {
            Class::Known(known) => Some(known),
            Class::Unknown | Class::FromScratch => None,
        }
    }

    /// Finds out how pods of a class are decided, and finds or makes their tallies.
    pub(super) fn learn(
        &mut self,
        profile: &Profile,
        class: Kind,
        pod: &PodInfo,
        view: View<'_>,
    ) -> Option<Known> {
        let name = &profile.scheduler_name;
        if matches!(self.profiles[name].known(class), Class::FromScratch) {
            return None;
        }
        let of_profile = self.profiles.get_mut(name).expect("it was just used");
        if cycle::score_error(profile, pod).is_some() {
            of_profile.learn(class, Class::FromScratch);
            return None;
        }
        let [rows, unmoved, counts] = of_profile.kinds(pod)?;
        let tallies = if let Some(tallies) = of_profile.tallies_of(counts) {
            tallies
        } else {
            let made = self.make_tallies(profile, pod, view);
            let of_profile = self.profiles.get_mut(name).expect("it was just used");
            if made.is_none() {
                of_profile.learn(class, Class::FromScratch);
                self.has_given_up = true;
            }
            made?
        };
        let set = self.topology_set(tallies);
        let of_profile = self.profiles.get_mut(name).expect("it was just used");
        of_profile.set_tallies(counts, tallies);
        let known = of_profile.way((rows, set), (unmoved, set), tallies);
        of_profile.learn(class, Class::Known(known));
        Some(known)
    }

    /// The topologies in which tallies count.
    pub(super) fn topology_set(&mut self, tallies: usize) -> TopologySet {
        let (tallies, _) = self.tallies[tallies].as_ref().expect("it is there");
        let mut topologies: SmallVec<[usize; 4]> =
            (0..tallies.n_terms()).map(|term| tallies.topology(term)).collect();
        topologies.sort_unstable();
        topologies.dedup();
        let grounds = self.ground.as_mut().expect("it was laid when changes were followed");
        let known = grounds.sets.iter().position(|set| **set == *topologies);
        known.unwrap_or_else(|| {
            grounds.sets.push(topologies.to_vec());
            grounds.sets.len() - 1
        })
    }

    /// The shape of a class, which is made if it is not there.
    pub(super) fn shape_of(
        &mut self,
        profile: &Profile,
        class: Kind,
        pod: &PodInfo,
        known: Known,
        view: View<'_>,
    ) -> usize {
        if let Some(shape) = known.shape {
            return shape;
        }
        let shape = match self.profiles[&profile.scheduler_name].shape_of(known.rows) {
            Some(shape) => shape,
            None => self.make_shape(profile, pod, MadeBy::All, known.rows.1, None, view),
        };
        let of_profile = self.profiles.get_mut(&profile.scheduler_name).expect("it was just used");
        of_profile.set_shape(class, known, shape);
        shape
    }

    /// The base of scans for a class, which is made if it is not there.
    pub(super) fn base_of(
        &mut self,
        profile: &Profile,
        class: Kind,
        pod: &PodInfo,
        known: Known,
        view: View<'_>,
    ) -> usize {
        if let Some(base) = known.base {
            return base;
        }
        let base = match self.profiles[&profile.scheduler_name].base_of(known.unmoved) {
            Some(base) => base,
            None => self.make_shape(profile, pod, MadeBy::Unmoved, known.unmoved.1, None, view),
        };
        let of_profile = self.profiles.get_mut(&profile.scheduler_name).expect("it was just used");
        of_profile.set_base(class, known, base);
        base
    }

    fn make_tallies(&mut self, profile: &Profile, pod: &PodInfo, view: View<'_>) -> Option<usize> {
        let late = &self.profiles[&profile.scheduler_name].late;
        let plan = Plan::new(profile, late, pod, &view, &self.neighbours_with_terms())?;
        if plan.is_blank() && self.with_terms.is_empty() {
            return Some(self.blank_tallies(pod, view));
        }
        self.make_room_for_tallies();
        let grounds = self.ground.as_mut().expect("it was laid when changes were followed");
        let numbers: Vec<usize> = plan.keys().map(|key| grounds.topology(key, view)).collect();
        let ground = grounds.with(view);
        let number = free(&mut self.tallies);
        let mut countings: Vec<(Kind, Counting)> = Vec::new();
        let n_kinds = Kind::try_from(self.placed.len()).expect("kinds have 32 bits");
        let kinds: Vec<Kind> = match plan.counts_plain_pods() {
            true => (0..n_kinds).collect(),
            false => self.with_terms.clone(),
        };
        for kind in kinds {
            let is_placed = !self.placed[kind as usize].is_empty();
            if !is_placed && !self.counted_by.has(kind) {
                continue;
            }
            match plan.count(Neighbour::from(&**self.neighbours.example(kind))) {
                Some(counting) => countings.push((kind, counting)),
                // A kind of which no pod is left: it is asked about again when one comes.
                None => self.counted_by.forget(kind),
            }
        }
        let mut tallies = plan.tallies(pod, &numbers, ground);
        for (kind, counting) in countings.into_iter().filter(|(_, counting)| !counting.is_empty()) {
            for (&rank, &times) in &self.placed[kind as usize] {
                let row = ground.ranks.row(rank);
                tallies.add(&counting, i64::from(times), (rank, row), ground);
            }
            self.counted_by.add(kind, number, counting);
        }
        self.tally_bytes += tallies.bytes();
        self.counted_nodes_read |= tallies.reads();
        self.tallies[number] = Some((tallies, self.n_decisions));
        Some(number)
    }

    /// The tallies of all pods for which nothing is counted.
    fn blank_tallies(&mut self, pod: &PodInfo, view: View<'_>) -> usize {
        if let Some(blank) = self.blank {
            return blank;
        }
        self.make_room_for_tallies();
        let grounds = self.ground.as_ref().expect("it was laid when changes were followed");
        let tallies = Plan::default().tallies(pod, &[], grounds.with(view));
        let number = free(&mut self.tallies);
        self.tally_bytes += tallies.bytes();
        self.tallies[number] = Some((tallies, self.n_decisions));
        self.blank = Some(number);
        number
    }

    pub(super) fn make_shape(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        made_by: MadeBy,
        set: TopologySet,
        behind: Option<i32>,
        view: View<'_>,
    ) -> usize {
        self.make_room_for_shape(view.nodes.len());
        let grounds = self.ground.as_ref().expect("it was laid when changes were followed");
        let followed = grounds.changed.end();
        let ground = grounds.with(view);
        let topologies = grounds.sets[set].clone();
        let shape = Shape::new(profile, pod, made_by, topologies, behind, followed, ground);
        let number = free(&mut self.shapes);
        self.shape_bytes.set(number, shape.bytes());
        self.shapes[number] = Some((shape, self.n_decisions));
        number
    }

    /// Lets shape, tallies and overlay of a class follow all changes. `false` if the class has to be
    /// judged from scratch.
    pub(super) fn bring_up(
        &mut self,
        profile: &Profile,
        shape: usize,
        tallies: usize,
        view: View<'_>,
    ) -> bool {
        let grounds = self.ground.as_ref().expect("it was laid when changes were followed");
        let ground = grounds.with(view);
        let (one, used) = self.shapes[shape].as_mut().expect("known classes have their shapes");
        *used = self.n_decisions;
        let followed = one.followed;
        one.followed = grounds.changed.end();
        if let Some(changes) = grounds.changed.since(followed) {
            for (rank, reads) in changes {
                one.look(rank, ground.ranks.row(rank), reads, ground);
            }
        } else {
            *one = one.again(profile, grounds.changed.end(), ground);
            self.overlays.retain(|&(other, _), _| other != shape);
            self.overlay_bytes.retain(|(other, _)| other != shape);
        }
        self.shape_bytes.set(shape, one.bytes());
        if one.is_broken {
            return false;
        }
        let (counts, used) = self.tallies[tallies].as_mut().expect("known classes have tallies");
        *used = self.n_decisions;
        let key = (shape, tallies);
        let overlay = match self.overlays.entry(key) {
            Entry::Occupied(known) => {
                let overlay = known.into_mut();
                if !overlay.follow(one, counts, ground) {
                    *overlay = Overlay::new(one, counts, ground);
                }
                overlay
            }
            Entry::Vacant(place) => place.insert(Overlay::new(one, counts, ground)),
        };
        self.overlay_bytes.set(key, overlay.bytes());
        true
    }

    /// Drops shapes where memory is short, first those that were not of use for the longest time. Two are
    /// left in any case: as many as a decision needs.
    fn make_room_for_shape(&mut self, n_nodes: usize) {
        while SHAPE_BUDGET < self.shape_bytes.total() + SHAPE_BYTES_PER_NODE * n_nodes {
            let kept = self.shapes.iter().enumerate();
            let kept = kept.filter_map(|(at, slot)| Some((slot.as_ref()?.1, at)));
            let n_kept = kept.clone().count();
            let Some((_, number)) = kept.min().filter(|_| 2 <= n_kept) else { return };
            self.drop_shape(number);
        }
    }

    /// Drops all tallies where there are too many: those of use are soon made again.
    fn make_room_for_tallies(&mut self) {
        if self.tallies.len() == MOST_TALLIES && self.tallies.iter().all(Option::is_some) {
            self.forget_tallies();
        }
    }
}

/// The number of a slot that is free.
fn free<T>(slots: &mut Vec<Option<T>>) -> usize {
    let free = slots.iter().position(Option::is_none);
    free.unwrap_or_else(|| {
        slots.push(None);
        slots.len() - 1
    })
}
