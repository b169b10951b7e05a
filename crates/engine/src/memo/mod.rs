//! Decisions from what is remembered: exact, and without a look at nodes that have not changed.
//!
//! Pods are sorted into kinds by what plugins read of them. For each kind there is
//! * a [`Shape`](shape::Shape): what every node is by itself, kept up to date node by node;
//! * [`Tallies`](tallies::Tallies): the counts by topology domain, kept up to date pod by pod;
//! * an [`Overlay`](overlay::Overlay) of the few nodes that counts tell apart one by one.
//!
//! A decision looks at the cells of the shape and of the overlay, of which there are few, and takes the
//! best node of the best cell. Everything here is derived: [`Memo::forget`] changes what a decision
//! costs, never what it is. Where a plugin can neither judge node by node nor by counts, or a decision
//! is not about all nodes, the [cycle](crate::cycle) judges from scratch.

mod account;
mod choose;
mod costs;
mod counted;
mod countings;
mod failures;
mod kinds;
mod late;
mod learn;
mod levels;
mod measured;
mod nominations;
mod overlay;
mod pinned;
mod preemption;
mod profile_memo;
mod rank_set;
mod ranks;
mod scan;
mod shape;
mod survey;
mod tallies;
mod trail;
mod unplaced;

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use plimsoll_framework::parts::{ClusterReads, NodeReads, PodReads};
use plimsoll_framework::{Neighbour, NominatedPods, PodInfo, Row, TopologyKey, View};
use rand::Rng;
use rustc_hash::FxBuildHasher;

use self::account::Account;
use self::choose::{Choice, Chooser};
use self::countings::Countings;
use self::kinds::{Kind, Kinds};
use self::nominations::Nominations;
use self::overlay::Overlay;
use self::profile_memo::ProfileMemo;
use self::rank_set::Rank;
use self::ranks::{Ranks, Topology};
use self::scan::Scanner;
use self::shape::{Ground, Shape};
use self::tallies::Tallies;
use self::trail::Trail;
use self::unplaced::{Own, Unplaced};
use crate::cache::{Change, Changes};
use crate::cycle::Failure;
use crate::metrics::{MeteredPoint, Phases};
use crate::pick::{TieBreak, pick};
use crate::profile::Profile;
use crate::scheduler::Scans;

/// What a plugin reads of the pods on nodes: see [`Neighbour`].
const NEIGHBOUR: PodReads =
    PodReads::NAMESPACE.union(PodReads::LABELS).union(PodReads::POD_AFFINITY);

/// The memory that tallies may take together with what pods count for in them, in bytes.
const TALLY_BUDGET: usize = 512 << 20;
/// The memory that overlays may take, in bytes. They are soon made again.
const OVERLAY_BUDGET: usize = 256 << 20;
/// The memory that the domains of topology keys may take, in bytes: with 5000 nodes some 2000 keys that nodes
/// have, of which there are seldom more than a hundred.
const TOPOLOGY_BUDGET: usize = 128 << 20;
/// So many topology keys are known at a time, also such as no node has. Pods may name any.
const MOST_KEYS: usize = 1 << 16;
/// So many sets of topology keys are known at a time. They are looked through for each class.
const MOST_SETS: usize = 1 << 12;

type FastMap<K, V> = HashMap<K, V, FxBuildHasher>;

/// What is remembered of the cluster for the sake of the next decisions.
pub(crate) struct Memo {
    profiles: BTreeMap<String, ProfileMemo>,
    ground: Option<Grounds>,
    /// There are more kinds of pods on nodes than can be told apart: every decision is made from
    /// scratch until nodes come or go.
    is_overfull: bool,
    neighbours: Kinds,
    /// The kinds of neighbours that have affinity terms.
    with_terms: Vec<Kind>,
    /// By kind of neighbour: how many are on each node. Holds with the ground.
    placed: Vec<FastMap<Rank, u32>>,
    counted_by: Countings,
    shapes: Vec<Option<(Shape, Use)>>,
    shape_bytes: Account<usize>,
    tallies: Vec<Option<(Tallies, Use)>>,
    /// About how many bytes the tallies take.
    tally_bytes: usize,
    /// What of a node decides whether pods on it count for any of the tallies.
    counted_nodes_read: NodeReads,
    /// The tallies of all pods for which nothing is counted. They hold as long as no pod is met that has
    /// affinity terms: those would have to be asked of each kind.
    blank: Option<usize>,
    overlays: FastMap<(usize, usize), Overlay>,
    overlay_bytes: Account<(usize, usize)>,
    /// Some class is judged from scratch: perhaps only for the terms of pods on nodes.
    has_given_up: bool,
    unplaced: Unplaced,
    /// Profiles and classes of pods about which late filters have something to say, for the last of which no
    /// node was found.
    late_in_vain: BTreeSet<(String, Kind)>,
    scanner: Scanner,
    scans: Scans,
    n_decisions: u64,
    /// What is measured of the decision that is being made.
    pub(crate) phases: Phases,
    /// The shape and the tallies that it was made from.
    decided_by: Option<(usize, usize)>,
    /// What plugins read of the cluster beside nodes one by one.
    shapes_read: ClusterReads,
    tallies_read: ClusterReads,
}

/// When something was last of use: the number of the decision.
type Use = u64;

/// What holds as long as no node comes, goes or changes its labels.
struct Grounds {
    ranks: Ranks,
    topologies: Vec<Topology>,
    by_key: BTreeMap<TopologyKey, usize>,
    /// The topologies of keys that no node has, with the label as such and with a domain for each node: one
    /// stands for all such keys, of which there may be any number.
    void: [Option<usize>; 2],
    /// About how many bytes the topologies take.
    topology_bytes: usize,
    /// Sets of numbers of topologies, ascending.
    sets: Vec<Vec<usize>>,
    /// The changes of single nodes.
    changed: Trail<(Rank, NodeReads)>,
    nominations: Nominations,
}

/// A decision from what is remembered.
pub(crate) enum Answer {
    /// The node, and all nodes that are as good, by name, if they were asked for.
    Found { row: Row, best: Vec<Row> },
    /// The only node that is feasible among those that were looked at: the one that was cleared for the pod,
    /// or one of those that the pod names.
    Only { row: Row, n_judged: usize },
    /// No node is feasible, and this is why.
    Failed(Box<Failure>),
    /// It has to be made from scratch.
    Unclear,
}

/// What is wanted beside a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The first of the best nodes by name.
    First,
    /// Any of them, all equally likely.
    Any,
    /// All of them.
    All,
}

impl Answer {
    /// What is wanted of the best nodes, of which there is one at least.
    fn found(best: Vec<Row>, want: Want, rng: &mut impl Rng) -> Self {
        match want {
            Want::First => Answer::Found { row: best[0], best: Vec::new() },
            Want::Any => {
                Answer::Found { row: pick(&best, TieBreak::Random, rng), best: Vec::new() }
            }
            Want::All => Answer::Found { row: best[0], best },
        }
    }
}

impl Memo {
    pub(crate) fn new<'a>(profiles: impl Iterator<Item = &'a Profile>, scans: Scans) -> Self {
        let mut memo = Memo {
            profiles: BTreeMap::new(),
            ground: None,
            is_overfull: false,
            neighbours: neighbours(),
            with_terms: Vec::new(),
            placed: Vec::new(),
            counted_by: Countings::default(),
            shapes: Vec::new(),
            shape_bytes: Account::default(),
            tallies: Vec::new(),
            tally_bytes: 0,
            counted_nodes_read: NodeReads::empty(),
            blank: None,
            overlays: FastMap::default(),
            overlay_bytes: Account::default(),
            has_given_up: false,
            unplaced: Unplaced::default(),
            late_in_vain: BTreeSet::new(),
            scanner: Scanner::default(),
            scans,
            n_decisions: 0,
            phases: Phases::default(),
            decided_by: None,
            shapes_read: ClusterReads::EMPTY,
            tallies_read: ClusterReads::EMPTY,
        };
        for profile in profiles {
            let of_profile = ProfileMemo::new(profile);
            memo.shapes_read = memo.shapes_read.union(of_profile.shapes_read);
            memo.tallies_read = memo.tallies_read.union(of_profile.tallies_read);
            memo.profiles.insert(profile.scheduler_name.clone(), of_profile);
            memo.unplaced.add(profile);
        }
        memo
    }

    /// A decision begins, of which this is measured.
    pub(crate) fn begin(&mut self, phases: Phases) {
        self.phases = phases;
        self.decided_by = None;
    }

    /// Forgets everything that is derived.
    pub(crate) fn forget(&mut self) {
        self.ground = None;
        self.neighbours = neighbours();
        self.placed.clear();
        self.with_terms.clear();
        self.counted_by.clear();
        self.forget_tallies();
        self.forget_shapes();
        self.unplaced.forget_failures();
        self.late_in_vain.clear();
        self.profiles.values_mut().for_each(ProfileMemo::forget);
    }

    fn forget_shapes(&mut self) {
        self.shapes.clear();
        self.shape_bytes.clear();
        self.forget_overlays();
        self.unplaced.forget_shapes();
        self.profiles.values_mut().for_each(ProfileMemo::forget_shapes);
    }

    fn forget_tallies(&mut self) {
        self.tallies.clear();
        self.tally_bytes = 0;
        self.counted_nodes_read = NodeReads::empty();
        self.blank = None;
        self.forget_overlays();
        self.counted_by.forget_all();
        self.profiles.values_mut().for_each(ProfileMemo::forget_tallies);
    }

    fn forget_overlays(&mut self) {
        self.overlays.clear();
        self.overlay_bytes.clear();
    }

    /// Forgets what takes more memory than it may.
    fn keep_within_bounds(&mut self) {
        if TALLY_BUDGET < self.tally_bytes + self.counted_by.bytes() {
            self.forget_tallies();
        }
        if OVERLAY_BUDGET < self.overlay_bytes.total() {
            self.forget_overlays();
        }
    }

    /// Takes in what has changed since the last decision.
    pub(crate) fn follow(
        &mut self,
        view: View<'_>,
        changes: &mut Changes,
        nominated: &mut NominatedPods,
    ) {
        if changes.ground_moved() {
            self.ground = None;
        }
        let (stores, log) = changes.take();
        let renominated = nominated.changed();
        if self.ground.is_none() || !log.is_empty() || !renominated.is_empty() {
            self.unplaced.forget_failures();
        }
        if self.shapes_read.stores.intersects(stores) {
            self.forget_shapes();
        }
        if self.tallies_read.stores.intersects(stores) {
            self.forget_tallies();
        }
        if !stores.is_empty() {
            self.unplaced.forget_stores(stores);
        }
        if self.ground.is_some() {
            for change in log {
                self.follow_one(view, change);
            }
            for node in renominated {
                self.renominate(view, nominated, &node);
            }
        }
        if self.ground.is_none() {
            self.lay_ground(view, nominated);
        }
    }

    fn lay_ground(&mut self, view: View<'_>, nominated: &NominatedPods) {
        self.forget_tallies();
        self.forget_shapes();
        let ranks = Ranks::of(view.nodes);
        self.neighbours.begin();
        self.placed.clear();
        self.with_terms.clear();
        self.counted_by.clear();
        self.is_overfull = false;
        for (rank, row) in ranks.rows() {
            for pod in view.nodes.pods_on(row).iter() {
                match self.neighbour(pod) {
                    Some(kind) => *self.placed[kind as usize].entry(rank).or_default() += 1,
                    None => self.is_overfull = true,
                }
            }
        }
        let nominations = self.nominations(&ranks, view, nominated);
        self.neighbours.count_from_here();
        let changed = Trail::new(ranks.len().max(1));
        let (topologies, by_key, sets) = (Vec::new(), BTreeMap::new(), Vec::new());
        let (void, topology_bytes) = ([None; 2], 0);
        self.ground = Some(Grounds {
            ranks,
            topologies,
            by_key,
            void,
            topology_bytes,
            sets,
            changed,
            nominations,
        });
        self.scanner.forget();
    }

    /// The kind of a pod on a node. Where there are too many kinds everything is begun anew.
    fn neighbour(&mut self, pod: &PodInfo) -> Option<Kind> {
        let (kind, is_new) = self.neighbours.number(pod)?;
        if is_new {
            self.placed.push(FastMap::default());
            self.counted_by.add_kind();
            if !pod.affinity.is_empty() {
                self.with_terms.push(kind);
                if let Some(blank) = self.blank.take() {
                    self.drop_tallies(blank);
                }
            }
        }
        Some(kind)
    }

    fn follow_one(&mut self, view: View<'_>, change: Change) {
        match change {
            Change::Node(row, reads) => {
                if reads.intersects(NodeReads::NAME | NodeReads::LABELS) {
                    self.ground = None;
                    return;
                }
                if self.shapes_read.nodes.intersects(reads) {
                    self.forget_shapes();
                }
                if self.counted_nodes_read.intersects(reads) {
                    self.forget_tallies();
                }
                self.note(row, reads);
            }
            Change::Placed(row, pod) => {
                self.count(view, row, &pod, 1);
                self.note(row, NodeReads::BY_PLACEMENT);
            }
            Change::Displaced(row, pod) => {
                self.count(view, row, &pod, -1);
                self.note(row, NodeReads::BY_PLACEMENT);
            }
        }
    }

    fn note(&mut self, row: Row, reads: NodeReads) {
        if let Some(ground) = &mut self.ground {
            ground.changed.push((ground.ranks.rank(row), reads));
        }
    }

    /// Counts a pod that came to a node, or left it, wherever it counts.
    fn count(&mut self, view: View<'_>, row: Row, pod: &PodInfo, times: i64) {
        let Some(grounds) = &self.ground else { return };
        let rank = grounds.ranks.rank(row);
        let Some(kind) = self.neighbour(pod) else {
            self.ground = None;
            return;
        };
        let count = self.placed[kind as usize].entry(rank).or_default();
        *count = count.saturating_add_signed(if times < 0 { -1 } else { 1 });
        if *count == 0 {
            self.placed[kind as usize].remove(&rank);
            if self.has_given_up
                && !pod.affinity.is_empty()
                && self.placed[kind as usize].is_empty()
            {
                self.has_given_up = false;
                self.profiles.values_mut().for_each(ProfileMemo::forget_from_scratch);
            }
        }
        if !self.counted_by.has(kind) {
            self.find_counting(kind);
        }
        let Some(grounds) = &self.ground else { return };
        let ground = grounds.with(view);
        for (number, counting) in self.counted_by.of(kind) {
            if let Some((tallies, _)) = &mut self.tallies[*number] {
                let before = tallies.bytes();
                tallies.add(counting, times, (rank, row), ground);
                self.tally_bytes += tallies.bytes() - before;
            }
        }
    }

    /// Asks all tallies whether they count pods of a kind that is new on nodes.
    fn find_counting(&mut self, kind: Kind) {
        let example = self.neighbours.example(kind).clone();
        let other = Neighbour::from(&*example);
        let is_plain = other.affinity.is_empty();
        let (mut counted_by, mut outdated) = (Vec::new(), Vec::new());
        for (number, slot) in self.tallies.iter().enumerate() {
            let Some((tallies, _)) = slot else { continue };
            if is_plain && !tallies.counts_plain_pods {
                continue;
            }
            match tallies.counting(other) {
                None => outdated.push(number),
                Some(counting) if counting.is_empty() => {}
                Some(counting) => counted_by.push((number, counting)),
            }
        }
        self.counted_by.set(kind, counted_by);
        for number in outdated {
            self.drop_tallies(number);
        }
    }

    fn drop_tallies(&mut self, number: usize) {
        let gone = self.tallies[number].take();
        self.tally_bytes -= gone.map_or(0, |(tallies, _)| tallies.bytes());
        self.overlays.retain(|&(_, tallies), _| tallies != number);
        self.overlay_bytes.retain(|(_, tallies)| tallies != number);
        self.counted_by.drop_tallies(number);
        self.profiles.values_mut().for_each(|profile| profile.drop_tallies(number));
    }

    fn drop_shape(&mut self, number: usize) {
        self.shapes[number] = None;
        self.shape_bytes.drop(number);
        self.overlays.retain(|&(shape, _), _| shape != number);
        self.overlay_bytes.retain(|(shape, _)| shape != number);
        self.unplaced.drop_shape(number);
        self.profiles.values_mut().for_each(|profile| profile.drop_shape(number));
    }

    /// Decides a pod. Nothing has changed since [`Memo::follow`].
    pub(crate) fn decide(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        view: View<'_>,
        nominated: &NominatedPods,
        want: Want,
        rng: &mut impl Rng,
    ) -> Answer {
        self.n_decisions += 1;
        if self.is_overfull {
            return Answer::Unclear;
        }
        let Some(of_profile) = self.profiles.get_mut(&profile.scheduler_name) else {
            return Answer::Unclear;
        };
        if of_profile.is_full() || self.ground.as_ref().is_some_and(Grounds::is_full) {
            self.forget();
            return Answer::Unclear;
        }
        self.keep_within_bounds();
        let of_profile = self.profiles.get_mut(&profile.scheduler_name).expect("it was just found");
        let Some(class) = of_profile.class(profile, pod, &view) else { return Answer::Unclear };
        self.phases.over(MeteredPoint::PreFilter);
        if of_profile.has_late(profile, pod) {
            let best = self.decide_late(profile, class, pod, view, nominated, want);
            return best.map_or(Answer::Unclear, |best| Answer::found(best, want, rng));
        }
        let known = match self.known(profile, class) {
            Some(known) => Some(known),
            None => match self.decide_pinned(profile, pod, view, nominated) {
                Some(answer) => return answer,
                None => self.learn(profile, class, pod, view),
            },
        };
        let Some(mut known) = known else { return Answer::Unclear };
        if nominated.is_empty() && self.prefers_scan(profile, &known) {
            if let Some(best) = self.scan(profile, (class, known), pod, &[], view, want) {
                return Answer::found(best, want, rng);
            }
            // To make room for the base of the scan, the shape may have been dropped.
            match self.known(profile, class).or_else(|| self.learn(profile, class, pod, view)) {
                Some(still) => known = still,
                None => return Answer::Unclear,
            }
        }
        let (shape, tallies) = (self.shape_of(profile, class, pod, known, view), known.tallies);
        let Some(shape) = self.behind_nominated(profile, pod, (shape, tallies), view, nominated)
        else {
            return Answer::Unclear;
        };
        if !self.bring_up(profile, shape, tallies, view) {
            return Answer::Unclear;
        }
        self.decided_by = Some((shape, tallies));
        let own = match self.own_node(pod, (shape, tallies), view, nominated) {
            Own::None => None,
            Own::Takes(row) => return Answer::Only { row, n_judged: 1 },
            Own::Unclear => return Answer::Unclear,
            Own::Rejects(own) => Some(own),
        };
        let grounds = self.ground.as_ref().expect("it was laid when changes were followed");
        let chooser = Chooser {
            shape: &self.shapes[shape].as_ref().expect("it was just brought up").0,
            tallies: &self.tallies[tallies].as_ref().expect("it was just brought up").0,
            overlay: &self.overlays[&(shape, tallies)],
            ground: grounds.with(view),
        };
        let feasible = chooser.feasible_now();
        self.phases.over(MeteredPoint::Filter);
        self.phases.is_scored = 1 < feasible.len();
        match chooser.choose(feasible) {
            Choice::Nothing => self
                .failure(profile, pod, (shape, tallies), own.as_ref(), view)
                .map_or(Answer::Unclear, |failure| Answer::Failed(Box::new(failure))),
            Choice::Unclear => Answer::Unclear,
            Choice::Best(best) => match want {
                Want::First => Answer::Found { row: chooser.first(&best), best: Vec::new() },
                Want::Any => Answer::Found { row: chooser.any(&best, rng), best: Vec::new() },
                Want::All => Answer::found(chooser.all(&best), want, rng),
            },
        }
    }
}

/// No pods on nodes yet, whose kinds are to be told apart: all of them must be.
fn neighbours() -> Kinds {
    Kinds::new(NEIGHBOUR).by_deletion().of_any_size()
}

impl Grounds {
    fn with<'a>(&'a self, view: View<'a>) -> Ground<'a> {
        let Grounds { ranks, topologies, nominations, .. } = self;
        Ground { view, ranks, topologies, nominations }
    }

    /// Whether there are so many topologies that everything has to be begun anew.
    fn is_full(&self) -> bool {
        MOST_KEYS <= self.by_key.len()
            || MOST_SETS <= self.sets.len()
            || TOPOLOGY_BUDGET <= self.topology_bytes
    }

    /// The number of a topology, which is made if it is not there.
    fn topology(&mut self, key: &TopologyKey, view: View<'_>) -> usize {
        if let Some(&known) = self.by_key.get(key) {
            return known;
        }
        let made = Topology::new(key.clone(), view.nodes, &self.ranks);
        let void = made.is_void().then(|| usize::from(matches!(key, TopologyKey::NodeWith(_))));
        let number = void.and_then(|sort| self.void[sort]).unwrap_or_else(|| {
            self.topology_bytes += made.bytes();
            self.topologies.push(made);
            self.topologies.len() - 1
        });
        if let Some(sort) = void {
            self.void[sort] = Some(number);
        }
        self.by_key.insert(key.clone(), number);
        number
    }
}
