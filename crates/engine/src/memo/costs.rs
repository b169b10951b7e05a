//! Whether a node ranking or a scan is cheaper.
//!
//! Making a ranking costs a look at every node, and using it again costs a look at every node that has
//! changed since. A scan always costs the same, unless the totals of the last one are kept. Since future pods are
//! unknown, a ranking is made or updated only after scans have wasted as much as that would cost. So the total
//! cost is at most about twice that of the best choice.

use super::Memo;
use super::kept_totals::PART;
use super::profile_memo::SignatureCaches;
use crate::profile::Profile;
use crate::scheduler::Scans;

/// A look at one node costs about as much as scanning this many.
const FOLLOW: u64 = 40;
/// To compute one of the totals that are kept costs about as much as scanning this many nodes.
const COMPUTE: u64 = 3;
/// What a scan with kept totals costs beside that, at least.
const BESIDE: u64 = 500;
/// Such a scan looks at the highest totals of blocks of nodes, which costs about as much as scanning one in so
/// many nodes.
const BLOCKS: u64 = 16;

/// The costs for pods of one signature. The unit is the scan of one node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    /// The position in the change log at the last decision.
    seen: Option<u64>,
    /// How much more scans have cost than a ranking that was always up to date.
    wasted: u64,
}

impl Costs {
    /// Whether to scan for this cost, if a ranking is `behind` by this many changes of nodes or does not exist.
    fn scan(&mut self, end: u64, behind: Option<u64>, scan: u64, n_nodes: u64) -> bool {
        let catching_up = behind.unwrap_or(n_nodes).min(n_nodes) * FOLLOW;
        if let Some(seen) = self.seen.replace(end) {
            let following = (end - seen).min(n_nodes) * FOLLOW;
            self.wasted += scan.saturating_sub(following);
        }
        let scans = scan < catching_up && self.wasted < catching_up;
        if !scans {
            self.wasted = 0;
        }
        scans
    }
}

/// The cost of a scan with kept totals, which are too old after many changes.
fn scan_of_changes(changes: u64, n_nodes: u64) -> u64 {
    if n_nodes / (PART as u64) < changes {
        return n_nodes;
    }
    (BESIDE + n_nodes / BLOCKS + changes * COMPUTE).min(n_nodes)
}

impl Memo {
    /// Whether to decide by a scan and not from a ranking.
    pub(super) fn prefers_scan(&mut self, profile: &Profile, caches: &SignatureCaches) -> bool {
        let Some(of_profile) = self.profiles.get_mut(profile) else { return false };
        if !of_profile.can_scan || self.scans == Scans::Never {
            return false;
        }
        if self.scans == Scans::Always {
            return true;
        }
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let (n_nodes, end) = (node_set.name_order.len() as u64, node_set.changed.end());
        // A ranking may have been made for another signature with the same key.
        let ranking = caches.ranking.or_else(|| of_profile.ranking_of(caches.ranking_key));
        let ranking = ranking.and_then(|ranking| self.rankings.get(ranking));
        let behind = ranking.map(|entry| end - entry.ranking.followed);
        let kept = of_profile.kept.followed(caches.ranking_key);
        let scan = kept.map_or(n_nodes, |followed| scan_of_changes(end - followed, n_nodes));
        if behind.is_some_and(|behind| behind * FOLLOW <= scan) {
            return false;
        }
        of_profile.costs.entry(caches.ranking_key).or_default().scan(end, behind, scan, n_nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: u64 = 1000;

    /// How many of `n` decisions are scans, with this many changes between two of them.
    fn scans(n: u64, changes: u64) -> usize {
        scans_for(NODES, NODES, n, changes)
    }

    /// The same if a scan of so many nodes costs `scan`.
    fn scans_for(scan: u64, n_nodes: u64, n: u64, changes: u64) -> usize {
        let (mut costs, mut behind) = (Costs::default(), None);
        let one = |at: u64| {
            let scans = costs.scan(at * changes, behind, scan, n_nodes);
            behind = if scans { behind.map(|behind| behind + changes) } else { Some(changes) };
            scans
        };
        (1..=n).map(one).filter(|&scans| scans).count()
    }

    #[test]
    fn frequent_pods_get_a_ranking() {
        let scans = scans(1000, 1);
        assert!((10..100).contains(&scans), "{scans}");
    }

    #[test]
    fn pods_with_many_changes_in_between_are_scanned_for() {
        assert_eq!(scans(1000, NODES / 2), 1000);
    }

    #[test]
    fn pods_with_some_changes_in_between_are_scanned_for_if_totals_are_kept() {
        let few = scans_for(scan_of_changes(100, 5000), 5000, 1000, 100);
        assert_eq!(few, 1000);
        let hardly_any = scans_for(scan_of_changes(1, 5000), 5000, 10_000, 1);
        assert!(hardly_any < 1000, "{hardly_any}");
    }

    #[test]
    fn a_single_pod_gets_no_ranking() {
        assert_eq!(scans(1, 1), 1);
    }
}
