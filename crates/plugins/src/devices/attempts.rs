//! Attempts to allocate devices, remembered.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashMap;
use plimsoll_api::MemoCell;
use plimsoll_api::devices::{AllocationMode, ClaimSpec, DeviceAsk, RequestKind};
use plimsoll_devices::{Inventory, Reach};
use plimsoll_framework::prelude::*;
use rustc_hash::{FxBuildHasher, FxHasher};

/// Beyond this many attempts all are forgotten: some 64 MiB.
const MOST_ATTEMPTS: usize = 1 << 20;
/// Beyond this many lists of claims that differ all are forgotten.
const MOST_LISTS: usize = 4096;

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
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    lists: Vec<List>,
    by_hash: HashMap<u64, Vec<usize>, FxBuildHasher>,
    n_known: usize,
    era: u64,
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

impl Attempts {
    /// The number of a list of claims without devices, in the order of the pod.
    pub(crate) fn list<'c>(
        &mut self,
        specs: impl Iterator<Item = &'c ClaimSpec> + Clone,
        most_steps: Option<u64>,
    ) -> ListId {
        if MOST_ATTEMPTS < self.n_known || MOST_LISTS < self.lists.len() {
            *self = Attempts { era: self.era + 1, ..Attempts::default() };
        }
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
        self.n_known += usize::from(before.is_none());
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
    }

    /// A pool has changed, or what claims hold of it. Before and after a change of its slices.
    pub(crate) fn pool_changed(&mut self, inventory: &Inventory, driver: &Str, pool: &Str) {
        let (nodes, concerns_others) = inventory.reached_from(driver, pool);
        let next = self.next();
        for node in nodes {
            match self.of_node.get_mut(node) {
                Some(version) => *version = next,
                None => _ = self.of_node.insert(node.clone(), next),
            }
        }
        if concerns_others {
            self.of_all = next;
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
    use plimsoll_api::devices::{DeviceNodes, DeviceRequest};
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
    fn copies_that_change_differently_have_different_versions() {
        let mut one = ReachVersions::default();
        let mut other = one.clone();
        one.all_changed();
        other.all_changed();
        assert_ne!(one.of(COMMON), other.of(COMMON));
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
        let mut attempts = Attempts::default();
        let first = attempts.list([&spec(0)].into_iter(), None);
        let now = ReachVersions::default().of(COMMON);
        attempts.note(first, COMMON, now, Outcome::TooFew);
        for (_, count) in (0..=MOST_LISTS).zip(1..) {
            attempts.list([&spec(count)].into_iter(), None);
        }
        assert_eq!(attempts.find(first, COMMON, now), None);
        assert!(attempts.lists.len() <= MOST_LISTS);
    }
}
