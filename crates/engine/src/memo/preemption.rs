//! Preemption candidates, remembered node by node.

use std::collections::BTreeMap;
use std::ops::Range;

use plimsoll_api::{PodKey, Str};
use plimsoll_framework::parts::StoreReads;
use plimsoll_framework::{
    Columns, ErasedByNode, FoundPlaces, NodeDryRun, PodInfo, PreemptionCandidate,
    PreemptionCandidates, PreemptionCost, Prepared, Rejection, Row,
};

use super::counted_values::{CountedValues, ValueId};
use super::domain_counts::DomainCounts;
use super::node_ranking::ClusterView;

/// The approximate size of a reason in bytes.
pub(crate) const BYTES_PER_REASON: usize = 256;
/// So many rows are a block. A search looks at each node only in the blocks where it begins and ends, and in those of which a node
/// has changed.
const BLOCK: usize = 16;

/// What is known about preemption on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CandidateState {
    /// Nothing, or the node has changed.
    Unknown,
    /// The node is a candidate.
    Possible,
    /// It is not.
    Impossible,
}

/// Whether evictions on one node are useless whatever the filters say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EarlyState {
    /// Nothing is known, or the node has changed.
    Unknown,
    /// They may be of use.
    Open,
    /// They are useless, for this reason.
    Useless(ValueId),
}

/// The candidates that one plugin has found for pods of one ranking and one priority.
#[derive(Default)]
pub(crate) struct CandidateCache {
    /// What the plugin reads, other than pod and node.
    reads: StoreReads,
    /// By the index of the row.
    states: Vec<CandidateState>,
    /// The same, for candidates.
    candidates: Vec<Option<PreemptionCandidate>>,
    /// The same, for nodes that are no candidates.
    reason_of: Vec<ValueId>,
    reasons: CountedValues<Rejection>,
    /// By block of rows: what a search among its places comes to, once all of them are known. Places are counted from
    /// the first one of the block.
    blocks: Vec<Option<FoundPlaces>>,
    /// By the index of the row, whatever the filters say; and the reasons. A search with late filters has them in common with
    /// others even on nodes that only these filters reject.
    early: Vec<EarlyState>,
    early_reasons: CountedValues<Rejection>,
    /// A node for dry runs; none while it is in use.
    scratch: Option<Columns>,
    /// The number of victims in `candidates`.
    n_victims: usize,
}

impl CandidateCache {
    pub(crate) fn new(reads: StoreReads) -> Self {
        CandidateCache {
            reads,
            states: Vec::new(),
            candidates: Vec::new(),
            reason_of: Vec::new(),
            reasons: CountedValues::default(),
            blocks: Vec::new(),
            early: Vec::new(),
            early_reasons: CountedValues::default(),
            scratch: None,
            n_victims: 0,
        }
    }

    /// Its approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let per_row = size_of::<CandidateState>()
            + size_of::<Option<PreemptionCandidate>>()
            + size_of::<ValueId>()
            + size_of::<EarlyState>();
        self.states.len() * per_row
            + self.blocks.len() * size_of::<Option<FoundPlaces>>()
            + self.n_victims * size_of::<PodKey>()
            + self.n_reasons() * BYTES_PER_REASON
    }

    pub(crate) fn reads(&self) -> StoreReads {
        self.reads
    }

    pub(crate) fn n_reasons(&self) -> usize {
        self.reasons.n_numbers() + self.early_reasons.n_numbers()
    }

    /// Makes room for rows up to `last`.
    fn cover(&mut self, last: Row) {
        let n_rows = self.states.len().max(last.index() + 1);
        self.states.resize(n_rows, CandidateState::Unknown);
        self.candidates.resize(n_rows, None);
        self.reason_of.resize(n_rows, 0);
        self.early.resize(n_rows, EarlyState::Unknown);
        self.blocks.resize(n_rows.div_ceil(BLOCK), None);
    }

    /// Forgets a node that has changed or is gone. So must be all nodes that become a place or are one no longer.
    pub(crate) fn forget(&mut self, row: Row) {
        if let Some(block) = self.blocks.get_mut(block_of(row)) {
            *block = None;
        }
        let at = row.index();
        let Some(state) = self.states.get_mut(at) else { return };
        if let EarlyState::Useless(reason) =
            std::mem::replace(&mut self.early[at], EarlyState::Unknown)
        {
            self.early_reasons.sub(reason);
        }
        match std::mem::replace(state, CandidateState::Unknown) {
            CandidateState::Unknown => {}
            CandidateState::Possible => {
                let gone = self.candidates[at].take().expect("it is possible");
                self.n_victims -= gone.victims.len();
            }
            CandidateState::Impossible => self.reasons.sub(self.reason_of[at]),
        }
    }

    /// How it differs from what is found anew for a pod with these filters.
    pub(super) fn difference(
        &self,
        plugin: &dyn ErasedByNode,
        pod: &PodInfo,
        filters: &[Prepared],
        cluster: ClusterView<'_>,
    ) -> Option<String> {
        let rows: Vec<Row> = cluster.view.nodes.rows().collect();
        let mut anew = CandidateCache::new(self.reads);
        let mut search =
            CandidateSearch::new(plugin, pod, filters, &rows, None, &mut anew, cluster);
        for &row in rows.iter().filter(|row| row.index() < self.states.len()) {
            let at = row.index();
            let known = match self.states[at] {
                CandidateState::Unknown => continue,
                CandidateState::Possible => Ok(self.candidates[at].clone()),
                CandidateState::Impossible => Err(self.reasons.value(self.reason_of[at]).clone()),
            };
            let found = search.dry_run(row).map(Some);
            if known != found {
                return Some(format!("candidate on {row:?}: {known:?}, anew {found:?}"));
            }
        }
        let live = |at: usize| rows.binary_search(&Row::from_index(at)).is_ok();
        let mut gone = (0..self.states.len()).filter(|&at| !live(at));
        let left = gone.find(|&at| self.states[at] != CandidateState::Unknown);
        left.map(|at| format!("a candidate is left in row {at}, where no node is"))
    }

    fn learn(&mut self, row: Row, found: Result<PreemptionCandidate, Rejection>) {
        let at = row.index();
        match found {
            Ok(candidate) => {
                self.states[at] = CandidateState::Possible;
                self.n_victims += candidate.victims.len();
                self.candidates[at] = Some(candidate);
            }
            Err(why) => {
                self.states[at] = CandidateState::Impossible;
                self.reason_of[at] = self.reasons.add(why);
            }
        }
    }
}

/// The search for a candidate for one pod.
pub(crate) struct CandidateSearch<'a> {
    plugin: &'a dyn ErasedByNode,
    pod: &'a PodInfo,
    /// All filters that apply to the pod, in the order of the profile.
    filters: &'a [Prepared],
    places: &'a [Row],
    /// The nominated node of the pod with the result of its dry run, which differs from that for other pods.
    own: Option<(Row, Option<Result<PreemptionCandidate, Rejection>>)>,
    cache: &'a mut CandidateCache,
    cluster: ClusterView<'a>,
    /// If there are [late filters](super::late_failure).
    late: Option<LateSearch<'a>>,
}

/// What a search with late filters does not share with others.
struct LateSearch<'a> {
    /// The rows of the nodes that only these filters reject, ascending.
    only: &'a [Row],
    counts: &'a DomainCounts,
    /// The candidates, by the index of the row.
    found: BTreeMap<usize, PreemptionCandidate>,
    /// Why there is none on other nodes.
    reasons: CountedValues<Rejection>,
}

impl<'a> CandidateSearch<'a> {
    pub(crate) fn new(
        plugin: &'a dyn ErasedByNode,
        pod: &'a PodInfo,
        filters: &'a [Prepared],
        places: &'a [Row],
        own: Option<Row>,
        cache: &'a mut CandidateCache,
        cluster: ClusterView<'a>,
    ) -> Self {
        // They are ascending.
        if let Some(&last) = places.last() {
            cache.cover(last);
        }
        let own = own.map(|row| (row, None));
        CandidateSearch { plugin, pod, filters, places, own, cache, cluster, late: None }
    }

    /// There are late filters: the last ones of the filters, and after them those by `counts`. They are the only
    /// ones that reject the nodes in `only`. Where the others alone make evictions useless, they are useless for
    /// the same reason.
    pub(crate) fn with_late_filters(self, only: &'a [Row], counts: &'a DomainCounts) -> Self {
        let (found, reasons) = (BTreeMap::new(), CountedValues::default());
        CandidateSearch { late: Some(LateSearch { only, counts, found, reasons }), ..self }
    }

    /// Why evictions on a node are useless whatever the filters say.
    fn useless(&mut self, row: Row) -> Option<&Rejection> {
        let cache = &mut *self.cache;
        let at = row.index();
        if cache.early[at] == EarlyState::Unknown {
            let on_node = self.cluster.view.nodes.pods_on(row);
            let why = self.plugin.early_rejection(self.pod, on_node);
            cache.early[at] = why
                .map_or(EarlyState::Open, |why| EarlyState::Useless(cache.early_reasons.add(why)));
        }
        match cache.early[at] {
            EarlyState::Useless(reason) => Some(cache.early_reasons.value(reason)),
            EarlyState::Unknown | EarlyState::Open => None,
        }
    }

    fn dry_run(&mut self, row: Row) -> Result<PreemptionCandidate, Rejection> {
        let ClusterView { view, nominations, .. } = self.cluster;
        if let Some(why) = self.useless(row) {
            return Err(why.clone());
        }
        let mut scratch = self.cache.scratch.take().unwrap_or_default();
        scratch.become_scratch(view.nodes, row);
        let own = self.own.as_ref().filter(|(own, _)| *own == row).map(|_| self.pod);
        let ahead = nominations.ahead(row, self.pod.priority, own);
        let mut with_counts = Vec::new();
        let filters = match self.late.as_ref().filter(|late| late.counts.judge_nodes()) {
            None => self.filters,
            Some(late) => {
                with_counts.extend(self.filters.iter().cloned());
                with_counts.extend(late.counts.prepared_on(row, self.cluster));
                &with_counts
            }
        };
        let mut node = NodeDryRun::new(self.pod, filters, ahead, scratch);
        let found = self.plugin.select_victims(self.pod, &mut node, view.stores);
        self.cache.scratch = Some(node.into_scratch());
        found
    }

    /// The cost of evictions on a node.
    fn cost(&mut self, row: Row) -> Option<PreemptionCost> {
        let at = row.index();
        if self.cache.states[at] == CandidateState::Unknown {
            let found = self.dry_run(row);
            self.cache.learn(row, found);
        }
        self.cache.candidates[at].as_ref().map(|candidate| candidate.cost)
    }

    /// The cost of evictions on a node in a search with late filters.
    fn late_cost(&mut self, row: Row) -> Option<PreemptionCost> {
        let is_shared =
            self.late.as_ref().is_some_and(|search| search.only.binary_search(&row).is_err());
        if is_shared {
            if self.cache.states[row.index()] == CandidateState::Unknown
                && let Some(why) = self.useless(row).cloned()
            {
                self.cache.learn(row, Err(why));
            }
            if self.cache.states[row.index()] == CandidateState::Impossible {
                return None;
            }
        }
        let found = self.dry_run(row);
        let late = self.late.as_mut()?;
        match found {
            Ok(candidate) => {
                let cost = candidate.cost;
                late.found.insert(row.index(), candidate);
                Some(cost)
            }
            Err(why) => {
                late.reasons.add(why);
                None
            }
        }
    }

    /// The cost of evictions on the nominated node.
    fn own_cost(&mut self, row: Row) -> Option<PreemptionCost> {
        let found = self.dry_run(row);
        let cost = found.as_ref().ok().map(|candidate| candidate.cost);
        self.own = Some((row, Some(found)));
        cost
    }

    /// The cost of evictions on the node at a place.
    fn cost_at(&mut self, place: usize) -> Option<PreemptionCost> {
        let row = self.places[place];
        if self.own.as_ref().is_some_and(|(own, _)| *own == row) {
            self.own_cost(row)
        } else if self.late.is_some() {
            self.late_cost(row)
        } else {
            self.cost(row)
        }
    }

    /// Adds what a search comes to at the next place.
    fn look(&mut self, found: &mut FoundPlaces) {
        let place = found.end;
        let best = self.cost_at(place).map(|cost| (place, cost));
        let n_found = usize::from(best.is_some());
        let more = FoundPlaces { n_found, best, end: place + 1 };
        found.add(&more, |place, other| self.precedes(place, other));
    }

    /// What a search comes to at all places of the block that begins with `places`. `None` if none does, if the block has further
    /// places or more than `most` nodes that can be cleared, or if what is found there does not hold for other pods.
    fn look_at_block(&mut self, places: Range<usize>, most: usize) -> Option<FoundPlaces> {
        let first = places.start;
        let block = block_of(self.places[first]);
        let is_in = |row: Row| block_of(row) == block;
        let begins_before = first.checked_sub(1).is_some_and(|before| is_in(self.places[before]));
        let has_own = self.own.as_ref().is_some_and(|(row, _)| is_in(*row));
        if begins_before || has_own || self.late.is_some() {
            return None;
        }
        if self.cache.blocks[block].is_none() {
            let n_places = self.places[first..].partition_point(|&row| is_in(row));
            if places.len().min(most) < n_places {
                return None;
            }
            let mut found = FoundPlaces { end: first, ..FoundPlaces::default() };
            for _ in 0..n_places {
                self.look(&mut found);
            }
            let best = found.best.map(|(place, cost)| (place - first, cost));
            self.cache.blocks[block] = Some(FoundPlaces { best, end: n_places, ..found });
        }
        let found = self.cache.blocks[block]?;
        let is_all = found.end <= places.len() && found.n_found <= most;
        let best = found.best.map(|(place, cost)| (first + place, cost));
        is_all.then_some(FoundPlaces { best, end: first + found.end, ..found })
    }
}

/// The block of a row.
fn block_of(row: Row) -> usize {
    row.index() / BLOCK
}

impl PreemptionCandidates for CandidateSearch<'_> {
    fn n_nodes(&self) -> usize {
        self.cluster.name_order.len()
    }

    fn n_places(&self) -> usize {
        self.places.len()
    }

    fn next(&mut self, mut places: Range<usize>) -> Option<(usize, PreemptionCost)> {
        places.find_map(|place| Some((place, self.cost_at(place)?)))
    }

    fn find(&mut self, places: Range<usize>, most: usize) -> FoundPlaces {
        let mut found = FoundPlaces { end: places.start, ..FoundPlaces::default() };
        while found.n_found < most && found.end < places.end {
            let of_block = self.look_at_block(found.end..places.end, most - found.n_found);
            match of_block {
                Some(more) => found.add(&more, |place, other| self.precedes(place, other)),
                None => self.look(&mut found),
            }
        }
        found
    }

    fn node(&self, place: usize) -> &Str {
        self.cluster.view.nodes.name_of(self.places[place])
    }

    fn precedes(&self, place: usize, other: usize) -> bool {
        let index = |place: usize| self.cluster.name_order.index(self.places[place]);
        index(place) < index(other)
    }

    fn victims(&self, place: usize) -> Vec<PodKey> {
        let row = self.places[place];
        let late = self.late.as_ref();
        let candidate = match &self.own {
            Some((own, found)) if *own == row => {
                found.as_ref().and_then(|found| found.as_ref().ok())
            }
            _ if late.is_some() => late.and_then(|search| search.found.get(&row.index())),
            _ => self.cache.candidates[row.index()].as_ref(),
        };
        candidate.expect("only a candidate is asked for").victims.to_vec()
    }

    fn rejections(&self) -> Vec<(&Rejection, usize)> {
        let own = self.own.as_ref();
        let known = own.map(|(row, _)| row.index());
        let known =
            known.filter(|&at| self.cache.states.get(at) == Some(&CandidateState::Impossible));
        let known = known.map(|at| self.cache.reason_of[at]);
        let own = own.and_then(|(_, found)| found.as_ref()?.as_ref().err());
        let late = self.late.iter().flat_map(|search| search.reasons.iter(None));
        self.cache.reasons.iter(known).chain(own.map(|why| (why, 1))).chain(late).collect()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::{Code, PodSet, PostFilterAnswer, Stores, View};
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::super::name_order::NameOrder;
    use super::super::node_set::NodeSet;
    use super::super::nominations::Nominations;
    use super::*;
    use crate::tests::lab;

    const NODES: usize = 150;

    /// Clears a node of all its pods, and prefers some numbers of pods to others.
    struct Clear;

    impl ErasedByNode for Clear {
        fn looks_at_one_node(&self, _: &View<'_>) -> bool {
            true
        }
        fn reads(&self) -> StoreReads {
            StoreReads::empty()
        }
        fn without_dry_run(
            &self,
            _: &PodInfo,
            _: Option<(Row, Code)>,
            _: &View<'_>,
        ) -> Option<PostFilterAnswer> {
            None
        }
        fn early_rejection(&self, _: &PodInfo, _: &PodSet) -> Option<Rejection> {
            None
        }
        fn select_victims(
            &self,
            _: &PodInfo,
            node: &mut NodeDryRun<'_>,
            _: &Stores,
        ) -> Result<PreemptionCandidate, Rejection> {
            let victims: Vec<PodKey> = node.pods().map(|pod| pod.key.clone()).collect();
            let cost = i64::try_from(victims.len() % 3).expect("it is small");
            match victims.is_empty() {
                true => Err(Rejection::unschedulable("it is clear")),
                false => Ok(PreemptionCandidate {
                    cost: PreemptionCost([cost, 0, 0, 0, 0]),
                    victims: victims.into(),
                }),
            }
        }
        fn choose(
            &self,
            _: &PodInfo,
            _: &mut dyn PreemptionCandidates,
        ) -> Option<PostFilterAnswer> {
            None
        }
    }

    /// A search that looks at each place.
    struct OneByOne<'a>(CandidateSearch<'a>);

    impl PreemptionCandidates for OneByOne<'_> {
        fn n_nodes(&self) -> usize {
            self.0.n_nodes()
        }
        fn n_places(&self) -> usize {
            self.0.n_places()
        }
        fn next(&mut self, places: Range<usize>) -> Option<(usize, PreemptionCost)> {
            self.0.next(places)
        }
        fn node(&self, place: usize) -> &Str {
            self.0.node(place)
        }
        fn victims(&self, place: usize) -> Vec<PodKey> {
            self.0.victims(place)
        }
        fn rejections(&self) -> Vec<(&Rejection, usize)> {
            self.0.rejections()
        }
    }

    #[test]
    fn a_search_by_blocks_finds_what_one_finds_that_looks_at_each_place() {
        let mut rng = Pcg64::seed_from_u64(1);
        let (mut nodes, stores) = (Columns::default(), Stores::default());
        let name = |number: usize| format!("node-{}", number * 7 % NODES);
        let rows: Vec<Row> =
            (0..NODES).map(|number| nodes.add(lab::node(&name(number), &[]))).collect();
        let node_set = NodeSet::new(NameOrder::of(&nodes), Nominations::default());
        let pod = PodInfo::from(lab::pod("p", &[]));
        let mut cache = CandidateCache::new(StoreReads::empty());
        let mut is_place = [false; NODES];
        for round in 0..600_usize {
            let number = rng.random_range(0..NODES);
            let row = rows[number];
            match rng.random_range(0..4_u8) {
                0 => is_place[number] = !is_place[number],
                1 if !nodes.pods_on(row).is_empty() => drop(nodes.displace_at(row, 0)),
                _ => nodes.place(row, &PodInfo::from(lab::pod(&format!("pod-{round}"), &[]))),
            }
            cache.forget(row);
            let places: Vec<Row> =
                rows.iter().zip(is_place).filter(|one| one.1).map(|(row, _)| *row).collect();
            let own = rng.random_bool(0.2).then_some(row).filter(|_| is_place[number]);
            let [one, other] = [(); 2].map(|()| rng.random_range(0..=places.len()));
            let (range, most) = (one.min(other)..one.max(other), rng.random_range(1..=80));
            let cluster = node_set.with(View { nodes: &nodes, stores: &stores });
            let mut search =
                CandidateSearch::new(&Clear, &pod, &[], &places, own, &mut cache, cluster);
            let found = search.find(range.clone(), most);
            let mut none = CandidateCache::new(StoreReads::empty());
            let mut each =
                OneByOne(CandidateSearch::new(&Clear, &pod, &[], &places, own, &mut none, cluster));
            let expected = each.find(range, most);
            assert_eq!((found.n_found, found.best), (expected.n_found, expected.best), "{round}");
            assert_eq!(each.next(expected.end..found.end), None, "{round}");
            if let Some((place, _)) = found.best {
                assert_eq!(search.victims(place), each.victims(place), "{round}");
            }
        }
    }
}
