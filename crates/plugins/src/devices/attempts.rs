//! Attempts to allocate devices, remembered.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashMap;
use plimsoll_api::MemoCell;
use plimsoll_api::devices::{Allocation, AllocationMode, ClaimSpec, DeviceAsk, RequestKind};
use plimsoll_devices::{Inventory, Reach};
use plimsoll_framework::prelude::*;
use rustc_hash::{FxBuildHasher, FxHasher};

use super::sizes;

/// Beyond this many bytes all attempts are forgotten: with small claims these are about a million.
const MOST_BYTES: usize = 64 << 20;
/// The size of an attempt beside the name of its node, in bytes.
const BYTES_PER_ATTEMPT: usize = size_of::<(Str, ReachVersion, Outcome)>() + sizes::PLACE;

/// So many of the last searches keep what they have found. A decision asks about the best nodes of a few groups of equal
/// nodes, and about one node more, which is often the best for the next pod.
const MOST_FOUND: usize = 8;

/// Beyond this many bytes the versions of single nodes are forgotten: those of about 400,000 nodes.
pub(super) const MOST_VERSION_BYTES: usize = 32 << 20;

/// How an attempt ends that is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There are devices. The number says how early the alternatives are that were chosen.
    Found(i64),
    /// There are too few devices.
    TooFew,
    /// A pool is invalid, and the other pools have too few devices.
    InvalidPools,
}

/// What claims ask for, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListId {
    index: usize,
    /// How often everything was forgotten before.
    era: u64,
}

/// What was found for lists of claims, by what nodes reach.
///
/// A search depends on what the claims ask for and on the devices that are reached, not on the names of claims, pods and
/// nodes. So all pods of a Deployment share their attempts, and so do all nodes that reach the same pools.
#[derive(Debug)]
pub(crate) struct Attempts {
    lists: Vec<List>,
    by_hash: HashMap<u64, Vec<usize>, FxBuildHasher>,
    /// What the last searches have found, the latest at the end: Reserve asks for it on the node that was chosen.
    found: VecDeque<Found>,
    /// The approximate size in bytes.
    bytes: usize,
    /// Its limit.
    most_bytes: usize,
    era: u64,
}

impl Default for Attempts {
    fn default() -> Self {
        Attempts::within(MOST_BYTES)
    }
}

/// What claims of equal specs found.
#[derive(Debug)]
struct List {
    specs: Vec<ClaimSpec>,
    /// How many steps a search may take.
    most_steps: Option<u64>,
    /// On nodes that slices name.
    on_node: HashMap<Str, (ReachVersion, Outcome), FxBuildHasher>,
    /// On all others, by what selects them.
    elsewhere: HashMap<u64, (ReachVersion, Outcome), FxBuildHasher>,
}

/// What a search has found for a list of claims on a node.
#[derive(Debug)]
struct Found {
    list: ListId,
    node: Str,
    version: ReachVersion,
    allocations: Vec<Allocation>,
}

impl Attempts {
    /// No attempts yet. If they take more than `most_bytes`, all are forgotten.
    fn within(most_bytes: usize) -> Self {
        let (lists, by_hash, found) = (Vec::new(), HashMap::default(), VecDeque::new());
        Attempts { lists, by_hash, found, bytes: 0, most_bytes, era: 0 }
    }

    fn keep_within_bounds(&mut self) {
        if self.most_bytes < self.bytes {
            *self = Attempts { era: self.era + 1, ..Attempts::within(self.most_bytes) };
        }
    }

    /// The approximate size in bytes, and its limit.
    #[cfg(test)]
    pub(super) fn weight(&self) -> (usize, usize) {
        (self.bytes, self.most_bytes)
    }

    /// Changes the limit, in bytes, and forgets everything.
    #[cfg(test)]
    pub(super) fn limit(&mut self, most_bytes: usize) {
        *self = Attempts { era: self.era + 1, ..Attempts::within(most_bytes) };
    }

    /// The number of a list of claims without devices, in the order of the pod.
    pub(crate) fn list<'c>(
        &mut self,
        specs: impl Iterator<Item = &'c ClaimSpec> + Clone,
        most_steps: Option<u64>,
    ) -> ListId {
        self.keep_within_bounds();
        let era = self.era;
        let alike = self.by_hash.entry(hash(specs.clone())).or_default();
        let is_known = |&&index: &&usize| {
            let list: &List = &self.lists[index];
            list.most_steps == most_steps && list.specs.iter().eq(specs.clone())
        };
        if let Some(&index) = alike.iter().find(is_known) {
            return ListId { index, era };
        }
        let index = self.lists.len();
        alike.push(index);
        let of_specs: usize = specs.clone().map(sizes::spec).sum();
        self.bytes += size_of::<List>() + size_of::<(u64, Vec<usize>)>() + sizes::PLACE + of_specs;
        self.lists.push(List {
            specs: specs.cloned().collect(),
            most_steps,
            on_node: HashMap::default(),
            elsewhere: HashMap::default(),
        });
        ListId { index, era }
    }

    /// How an attempt ended, if nothing has changed since.
    pub(crate) fn find(
        &self,
        list: ListId,
        reach: Reach<'_>,
        now: ReachVersion,
    ) -> Option<Outcome> {
        let list = self.lists.get(list.index).filter(|_| list.era == self.era)?;
        let known = match reach.own {
            Some(node) => list.on_node.get(node),
            None => list.elsewhere.get(&reach.selected),
        };
        known.filter(|(version, _)| *version == now).map(|(_, outcome)| *outcome)
    }

    /// Keeps what a search has found on a node.
    pub(crate) fn keep(
        &mut self,
        list: ListId,
        node: &str,
        version: ReachVersion,
        allocations: Vec<Allocation>,
    ) {
        if self.found.len() == MOST_FOUND {
            self.found.pop_front();
        }
        self.found.push_back(Found { list, node: node.into(), version, allocations });
    }

    /// What a search has found for these claims on this node, if it is kept and nothing has changed since.
    pub(crate) fn take_found(
        &mut self,
        list: ListId,
        node: &str,
        now: ReachVersion,
    ) -> Option<Vec<Allocation>> {
        let is_it = |one: &Found| (one.list, one.version) == (list, now) && one.node == node;
        let at = self.found.iter().position(is_it)?;
        self.found.remove(at).map(|one| one.allocations)
    }

    /// Remembers how an attempt ended.
    pub(crate) fn note(
        &mut self,
        list: ListId,
        reach: Reach<'_>,
        now: ReachVersion,
        outcome: Outcome,
    ) {
        let Some(list) = self.lists.get_mut(list.index).filter(|_| list.era == self.era) else {
            return;
        };
        let before = match reach.own {
            Some(node) => list.on_node.insert(node.into(), (now, outcome)),
            None => list.elsewhere.insert(reach.selected, (now, outcome)),
        };
        if before.is_none() {
            self.bytes += BYTES_PER_ATTEMPT + reach.own.map_or(0, str::len);
            self.keep_within_bounds();
        }
    }
}

/// What the most claims differ in. Equal claims have equal hashes.
fn hash<'c>(specs: impl Iterator<Item = &'c ClaimSpec>) -> u64 {
    let mut hasher = FxHasher::default();
    let mut add = |ask: &DeviceAsk| {
        (&ask.class, &ask.selectors).hash(&mut hasher);
        if let AllocationMode::ExactCount(count) = ask.mode {
            count.hash(&mut hasher);
        }
    };
    for request in specs.flat_map(|spec| &spec.requests) {
        match &request.kind {
            RequestKind::Exactly { ask, .. } => add(ask),
            RequestKind::FirstAvailable(all) => all.iter().for_each(|one| add(&one.ask)),
            RequestKind::Unknown => {}
        }
    }
    hasher.finish()
}

/// The state of the devices that a node reaches. Equal versions are equal states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReachVersion {
    of_node: u64,
    of_all: u64,
    /// Which node selectors match, which the labels of the node decide.
    selected: u64,
}

/// The versions of what nodes reach.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReachVersions {
    of_node: HashMap<Str, u64, FxBuildHasher>,
    /// The approximate size of `of_node` in bytes.
    bytes: usize,
    of_all: u64,
    /// The last number that was given. Copies share it: they may change in different ways.
    last: Arc<MemoCell<u64>>,
}

impl ReachVersions {
    /// The version of what a node reaches.
    pub(crate) fn of(&self, reach: Reach<'_>) -> ReachVersion {
        let of_node = reach.own.and_then(|node| self.of_node.get(node)).copied();
        ReachVersion {
            of_node: of_node.unwrap_or_default(),
            of_all: self.of_all,
            selected: reach.selected,
        }
    }

    /// Something has changed that may matter to all nodes.
    pub(crate) fn all_changed(&mut self) {
        self.of_all = self.next();
        // A node without a number of its own has a new version, too, since the number of all nodes is new.
        self.of_node.clear();
        self.bytes = 0;
    }

    /// The approximate size in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A pool has changed, or what claims hold of it. Before and after a change of its slices.
    pub(crate) fn pool_changed(&mut self, inventory: &Inventory, driver: &Str, pool: &Str) {
        let (nodes, concerns_others) = inventory.reached_from(driver, pool);
        let next = self.next();
        for node in nodes {
            if let Some(version) = self.of_node.get_mut(node) {
                *version = next;
            } else {
                self.bytes += sizes::text(node) + size_of::<u64>() + sizes::PLACE;
                self.of_node.insert(node.clone(), next);
            }
        }
        if concerns_others {
            self.of_all = next;
        }
        self.forget_beyond(MOST_VERSION_BYTES);
    }

    /// Forgets the versions of single nodes if they take more than `most` bytes: nodes come and go under new names.
    fn forget_beyond(&mut self, most: usize) {
        if most < self.bytes {
            self.all_changed();
        }
    }

    fn next(&self) -> u64 {
        let mut last = self.last.open();
        *last += 1;
        *last
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::devices::{DeviceNodes, DeviceRequest, DeviceResult};
    use plimsoll_api::wire::{Object, object_from_str};
    use plimsoll_devices::{DeviceIds, Features, NodeRef};

    use super::*;

    const DRIVER: Str = Str::const_new("gpu.example.com");

    fn spec(count: i64) -> ClaimSpec {
        let ask = DeviceAsk {
            class: "gpu".into(),
            mode: AllocationMode::ExactCount(count),
            ..DeviceAsk::default()
        };
        let kind = RequestKind::Exactly { ask, admin_access: None };
        let requests = vec![DeviceRequest { name: "r".into(), kind }];
        ClaimSpec { requests, ..ClaimSpec::default() }
    }

    fn slice(pool: &str, nodes: DeviceNodes) -> Arc<ResourceSlice> {
        let devices = vec![plimsoll_api::devices::Device::default()];
        Arc::new(ResourceSlice {
            name: pool.into(),
            driver: DRIVER,
            pool: pool.into(),
            generation: 1,
            slice_count: 1,
            nodes,
            devices,
            ..ResourceSlice::default()
        })
    }

    fn inventory(slices: impl IntoIterator<Item = Arc<ResourceSlice>>) -> Inventory {
        let mut inventory = Inventory::new(Features::of(Release::V1_36));
        let mut ids = DeviceIds::default();
        for slice in slices {
            inventory.set(&mut ids, slice);
        }
        inventory.settle();
        inventory
    }

    const COMMON: Reach<'_> = Reach { own: None, selected: 0 };

    /// What nodes without labels reach.
    fn reach<'n>(inventory: &Inventory, name: &'n str) -> Reach<'n> {
        static NONE: Labels = Labels::empty();
        inventory.reach(NodeRef { name, labels: &NONE }).expect("it can be told")
    }

    #[test]
    fn an_attempt_is_remembered_until_what_the_node_reaches_changes() {
        let on = |node: &str| slice(node, DeviceNodes::Node(node.into()));
        let inventory = inventory([on("a"), on("b")]);
        let (mut versions, mut attempts) = (ReachVersions::default(), Attempts::default());
        let list = attempts.list([&spec(1)].into_iter(), None);
        let nodes = ["a", "b", "c"].map(|node| reach(&inventory, node));
        assert_eq!(nodes.map(|reach| reach.own), [Some("a"), Some("b"), None]);
        for reach in nodes {
            attempts.note(list, reach, versions.of(reach), Outcome::TooFew);
        }
        versions.pool_changed(&inventory, &DRIVER, &"a".into());
        let known = nodes.map(|reach| attempts.find(list, reach, versions.of(reach)));
        assert_eq!(known, [None, Some(Outcome::TooFew), Some(Outcome::TooFew)]);
        versions.all_changed();
        let known = nodes.map(|reach| attempts.find(list, reach, versions.of(reach)));
        assert_eq!(known, [None; 3]);
    }

    #[test]
    fn a_pool_that_all_nodes_reach_concerns_all_nodes() {
        let own = slice("a", DeviceNodes::Node("a".into()));
        let inventory = inventory([own, slice("fabric", DeviceNodes::All)]);
        let mut versions = ReachVersions::default();
        let all =
            |versions: &ReachVersions| ["a", "b"].map(|node| versions.of(reach(&inventory, node)));
        let before = all(&versions);
        versions.pool_changed(&inventory, &DRIVER, &"fabric".into());
        let after = all(&versions);
        assert!(before[0] != after[0] && before[1] != after[1]);
        versions.pool_changed(&inventory, &DRIVER, &"a".into());
        assert!(all(&versions)[0] != after[0] && all(&versions)[1] == after[1]);
    }

    #[test]
    fn versions_of_nodes_that_are_forgotten_are_new() {
        let inventory = inventory((0..40).map(|number| {
            let node = format!("n{number}");
            slice(&node, DeviceNodes::Node(node.as_str().into()))
        }));
        let mut versions = ReachVersions::default();
        for number in 0..40 {
            versions.pool_changed(&inventory, &DRIVER, &format!("n{number}").into());
        }
        let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
        let all = |versions: &ReachVersions| -> Vec<ReachVersion> {
            names.iter().map(|name| versions.of(reach(&inventory, name))).collect()
        };
        let (before, bytes) = (all(&versions), versions.bytes());
        versions.forget_beyond(bytes);
        assert_eq!(all(&versions), before);
        versions.forget_beyond(bytes - 1);
        assert_eq!((versions.bytes(), versions.of_node.len()), (0, 0));
        assert!(all(&versions).iter().zip(&before).all(|(now, before)| now != before));
    }

    #[test]
    fn copies_that_change_differently_have_different_versions() {
        let mut one = ReachVersions::default();
        let mut other = one.clone();
        one.all_changed();
        other.all_changed();
        assert_ne!(one.of(COMMON), other.of(COMMON));
    }

    #[test]
    fn what_was_found_is_given_once_and_only_for_the_same_question() {
        let inventory = inventory(["a", "b"].map(|one| slice(one, DeviceNodes::Node(one.into()))));
        let (mut versions, mut attempts) = (ReachVersions::default(), Attempts::default());
        let [one, two] = [1, 2].map(|count| attempts.list([&spec(count)].into_iter(), None));
        let now = versions.of(reach(&inventory, "a"));
        let found = |request: &str| {
            let request = request.into();
            let device = DeviceResult { request, ..DeviceResult::default() };
            vec![Allocation { devices: vec![device], ..Allocation::default() }]
        };
        attempts.keep(one, "a", now, found("x"));
        attempts.keep(one, "b", now, found("y"));
        assert_eq!(attempts.take_found(two, "a", now), None);
        assert_eq!(attempts.take_found(one, "c", now), None);
        assert_eq!(attempts.take_found(one, "a", now), Some(found("x")));
        assert_eq!(attempts.take_found(one, "a", now), None);
        assert_eq!(attempts.take_found(one, "b", now), Some(found("y")));
        attempts.keep(one, "a", now, found("x"));
        versions.pool_changed(&inventory, &DRIVER, &"a".into());
        let then = versions.of(reach(&inventory, "a"));
        assert_eq!(attempts.take_found(one, "a", then), None);
    }

    #[test]
    fn of_what_was_found_the_oldest_is_forgotten() {
        let mut attempts = Attempts::default();
        let list = attempts.list([&spec(1)].into_iter(), None);
        let now = ReachVersions::default().of(COMMON);
        let nodes: Vec<String> = (0..=MOST_FOUND).map(|n| format!("n{n}")).collect();
        for node in &nodes {
            attempts.keep(list, node, now, Vec::new());
        }
        let mut is_kept = |node: &String| attempts.take_found(list, node, now).is_some();
        assert!(!is_kept(&nodes[0]));
        assert!(nodes[1..].iter().all(is_kept));
    }

    #[test]
    fn claims_of_equal_specs_share_their_attempts() {
        let mut attempts = Attempts::default();
        let mut list = |specs: &[ClaimSpec], steps| attempts.list(specs.iter(), steps);
        let one = list(&[spec(1)], None);
        assert_eq!(one, list(&[spec(1)], None));
        assert_ne!(one, list(&[spec(2)], None));
        assert_ne!(one, list(&[spec(1), spec(1)], None));
        assert_ne!(one, list(&[spec(1)], Some(1)));
    }

    #[test]
    fn nodes_that_slices_select_alike_have_one_reach() {
        let selecting = r#"{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": "rack"}, "spec": {"driver": "gpu.example.com",
            "pool": {"name": "rack", "generation": 1, "resourceSliceCount": 1}, "devices": [],
            "nodeSelector": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]}}}"#;
        let Ok(Object::Other(slice)) = object_from_str(selecting) else { panic!("it is right") };
        let inventory = inventory(slice.shared());
        let of = |name, rack: &str| {
            let labels = [("rack", rack)].into_iter().collect();
            inventory.reach(NodeRef { name, labels: &labels }).map(|reach| reach.selected)
        };
        assert_eq!(of("a", "r1"), of("b", "r1"));
        assert_ne!(of("a", "r1"), of("a", "r2"));
    }

    #[test]
    fn where_devices_select_nodes_nothing_is_remembered() {
        let per_device = slice("fabric", DeviceNodes::PerDevice);
        let node = NodeRef { name: "a", labels: &Labels::default() };
        assert_eq!(inventory([per_device]).reach(node), None);
    }

    #[test]
    fn beyond_the_bound_all_is_forgotten() {
        let mut attempts = Attempts::within(64 << 10);
        let first = attempts.list([&spec(0)].into_iter(), None);
        let now = ReachVersions::default().of(COMMON);
        attempts.note(first, COMMON, now, Outcome::TooFew);
        assert_eq!(attempts.find(first, COMMON, now), Some(Outcome::TooFew));
        for count in 1..1000 {
            attempts.list([&spec(count)].into_iter(), None);
        }
        assert_eq!(attempts.find(first, COMMON, now), None);
        assert!(attempts.era != 0 && attempts.bytes <= (64 << 10) + 1024);
    }

    #[test]
    fn what_claims_say_and_the_names_of_nodes_count() {
        let mut attempts = Attempts::default();
        let small = spec(1);
        let list = attempts.list([&small].into_iter(), None);
        let bytes = attempts.bytes;
        let mut large = spec(1);
        if let RequestKind::Exactly { ask, .. } = &mut large.requests[0].kind {
            ask.selectors.push(Some("x".repeat(10_000).into()));
        }
        attempts.list([&large].into_iter(), None);
        assert!(bytes + 10_000 < attempts.bytes);
        let (before, name) = (attempts.bytes, "n".repeat(250));
        let reach = Reach { own: Some(&name), selected: 0 };
        let now = ReachVersions::default().of(reach);
        attempts.note(list, reach, now, Outcome::TooFew);
        let after = attempts.bytes;
        assert!(before + name.len() < after);
        // An attempt that is known is replaced.
        attempts.note(list, reach, now, Outcome::Found(1));
        assert_eq!(attempts.bytes, after);
    }
}
