//! What it takes to clear nodes for pods, remembered node by node.

use std::ops::Range;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::parts::StoreReads;
use plimsoll_framework::{
    Clearing, Clearings, Columns, ErasedByNode, Harm, NodeWhatIf, PodInfo, Rejection, Row,
};

use super::counted::{Counted, ValueId};
use super::shape::{Ground, Shape};

/// About what one of the different reasons takes, in bytes.
pub(crate) const BYTES_PER_REASON: usize = 256;

/// What is known of clearing one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing, or it has changed.
    Unknown,
    /// It can be cleared.
    Possible,
    /// It cannot.
    Impossible,
}

/// What one plugin has found out about clearing nodes for pods of one shape and one priority.
pub(crate) struct Cleared {
    /// What that was made from beside pod and node.
    reads: StoreReads,
    /// By the index of the row.
    states: Vec<State>,
    /// The same, where it is possible.
    clearings: Vec<Option<Clearing>>,
    /// The same, where it is not.
    reason_of: Vec<ValueId>,
    reasons: Counted<Rejection>,
    scratch: Columns,
    /// How many victims are named in `clearings`.
    n_victims: usize,
}

impl Cleared {
    pub(crate) fn new(reads: StoreReads, ground: Ground<'_>) -> Self {
        let n_rows = ground.ranks.rows().map(|(_, row)| row.index() + 1).max().unwrap_or(0);
        Cleared {
            reads,
            states: vec![State::Unknown; n_rows],
            clearings: vec![None; n_rows],
            reason_of: vec![0; n_rows],
            reasons: Counted::default(),
            scratch: Columns::default(),
            n_victims: 0,
        }
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let per_row = size_of::<State>() + size_of::<Option<Clearing>>() + size_of::<ValueId>();
        self.states.len() * per_row
            + self.n_victims * size_of::<PodKey>()
            + self.reasons.n_numbers() * BYTES_PER_REASON
    }

    pub(crate) fn reads(&self) -> StoreReads {
        self.reads
    }

    pub(crate) fn n_reasons(&self) -> usize {
        self.reasons.n_numbers()
    }

    /// Something has changed on a node.
    pub(crate) fn forget(&mut self, row: Row) {
        let at = row.index();
        match std::mem::replace(&mut self.states[at], State::Unknown) {
            State::Unknown => {}
            State::Possible => {
                let gone = self.clearings[at].take().expect("it is possible");
                self.n_victims -= gone.victims.len();
            }
            State::Impossible => self.reasons.sub(self.reason_of[at]),
        }
    }

    fn learn(&mut self, row: Row, found: Result<Clearing, Rejection>) {
        let at = row.index();
        match found {
            Ok(clearing) => {
                self.states[at] = State::Possible;
                self.n_victims += clearing.victims.len();
                self.clearings[at] = Some(clearing);
            }
            Err(why) => {
                self.states[at] = State::Impossible;
                self.reason_of[at] = self.reasons.add(why);
            }
        }
    }
}

/// One look for a node to be cleared.
pub(crate) struct Turn<'a> {
    plugin: &'a dyn ErasedByNode,
    pod: &'a PodInfo,
    shape: &'a Shape,
    places: &'a [Row],
    /// The node that was cleared for the pod before, and what was found out about it: not what all others
    /// would find.
    own: Option<(Row, Option<Result<Clearing, Rejection>>)>,
    cleared: &'a mut Cleared,
    ground: Ground<'a>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        plugin: &'a dyn ErasedByNode,
        pod: &'a PodInfo,
        shape: &'a Shape,
        places: &'a [Row],
        own: Option<Row>,
        cleared: &'a mut Cleared,
        ground: Ground<'a>,
    ) -> Self {
        let own = own.map(|row| (row, None));
        Turn { plugin, pod, shape, places, own, cleared, ground }
    }

    fn try_node(&mut self, row: Row) -> Result<Clearing, Rejection> {
        let Ground { view, ranks, nominations, .. } = self.ground;
        if let Some(why) = self.plugin.in_vain(self.pod, view.nodes.pods_on(row)) {
            return Err(why);
        }
        let mut scratch = std::mem::take(&mut self.cleared.scratch);
        scratch.become_scratch(view.nodes, row);
        let own = self.own.as_ref().filter(|(own, _)| *own == row).map(|_| self.pod);
        let ahead = self
            .shape
            .behind
            .map_or_else(Vec::new, |priority| nominations.ahead(ranks.rank(row), priority, own));
        let mut node = NodeWhatIf::new(self.pod, &self.shape.prepared, ahead, scratch);
        let found = self.plugin.clear(self.pod, &mut node, view.stores);
        self.cleared.scratch = node.into_scratch();
        found
    }

    /// What it takes to clear the own node.
    fn own_harm(&mut self, row: Row) -> Option<Harm> {
        let found = self.try_node(row);
        let harm = found.as_ref().ok().map(|clearing| clearing.harm);
        self.own = Some((row, Some(found)));
        harm
    }
}

impl Clearings for Turn<'_> {
    fn n_nodes(&self) -> usize {
        self.ground.ranks.len()
    }

    fn n_places(&self) -> usize {
        self.places.len()
    }

    fn next(&mut self, places: Range<usize>) -> Option<(usize, Harm)> {
        let all = self.places;
        let own = self.own.as_ref().map(|(row, _)| *row);
        for (place, &row) in places.clone().zip(&all[places]) {
            if own == Some(row) {
                match self.own_harm(row) {
                    Some(harm) => return Some((place, harm)),
                    None => continue,
                }
            }
            let at = row.index();
            if self.cleared.states[at] == State::Unknown {
                let found = self.try_node(row);
                self.cleared.learn(row, found);
            }
            if self.cleared.states[at] == State::Possible {
                let clearing = self.cleared.clearings[at].as_ref();
                return Some((place, clearing.expect("it is possible").harm));
            }
        }
        None
    }

    fn node(&self, place: usize) -> &Str {
        self.ground.view.nodes.name_of(self.places[place])
    }

    fn victims(&self, place: usize) -> Vec<PodKey> {
        let row = self.places[place];
        let clearing = match &self.own {
            Some((own, found)) if *own == row => {
                found.as_ref().and_then(|found| found.as_ref().ok())
            }
            _ => self.cleared.clearings[row.index()].as_ref(),
        };
        clearing.expect("only a node that can be cleared is asked for").victims.to_vec()
    }

    fn rejections(&self) -> Vec<(&Rejection, usize)> {
        let own = self.own.as_ref();
        let known = own.map(|(row, _)| row.index());
        let known = known.filter(|&at| self.cleared.states[at] == State::Impossible);
        let known = known.map(|at| self.cleared.reason_of[at]);
        let own = own.and_then(|(_, found)| found.as_ref()?.as_ref().err());
        self.cleared.reasons.iter(known).chain(own.map(|why| (why, 1))).collect()
    }
}
