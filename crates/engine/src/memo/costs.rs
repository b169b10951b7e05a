//! Whether a ranking pays, or a scan.
//!
//! A ranking has to follow every change of a node since it was last of use, and costs a look at every node
//! when it is made. A scan costs the same each time, whatever has changed. Nobody knows which pods are to
//! come; so a ranking is made, or brought up, once scans have cost as much more than it would have as it
//! costs to do that. Whatever comes, both together cost at most about twice of what is best.

use super::Memo;
use super::profile_memo::SignatureCaches;
use crate::profile::Profile;
use crate::scheduler::Scans;

/// To look at one node by itself costs about as much as to scan so many.
const FOLLOW: u64 = 40;

/// What was paid for pods of one signature. The unit is the scan of one node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    /// The position in the log of changes at the last decision.
    seen: Option<u64>,
    /// How much more scans have cost than a ranking that was always up to date.
    wasted: u64,
}

impl Costs {
    /// Whether to scan, where a ranking is `behind` by so many changes of nodes, or is not there.
    fn scan(&mut self, end: u64, behind: Option<u64>, n_nodes: u64) -> bool {
        let catching_up = behind.unwrap_or(n_nodes).min(n_nodes) * FOLLOW;
        if let Some(seen) = self.seen.replace(end) {
            let following = (end - seen).min(n_nodes) * FOLLOW;
            self.wasted += n_nodes.saturating_sub(following);
        }
        let scans = n_nodes < catching_up && self.wasted < catching_up;
        if !scans {
            self.wasted = 0;
        }
        scans
    }
}

impl Memo {
    /// Whether to decide by a scan rather than from a ranking.
    pub(super) fn prefers_scan(&mut self, profile: &Profile, caches: &SignatureCaches) -> bool {
        let Some(of_profile) = self.profiles.get_mut(&profile.scheduler_name) else { return false };
        if !of_profile.can_scan || self.scans == Scans::Never {
            return false;
        }
        if self.scans == Scans::Always {
            return true;
        }
        let node_set = self.node_set.as_ref().expect("it was built when changes were followed");
        let (n_nodes, end) = (node_set.name_order.len() as u64, node_set.changed.end());
        // Pods of another signature may have needed the same ranking since this one was learned.
        let ranking = caches.ranking.or_else(|| of_profile.ranking_of(caches.ranking_key));
        let ranking = ranking.and_then(|ranking| self.rankings[ranking].as_ref());
        let behind = ranking.map(|(ranking, _)| end - ranking.followed);
        if behind.is_some_and(|behind| behind * FOLLOW <= n_nodes) {
            return false;
        }
        of_profile.costs.entry(caches.ranking_key).or_default().scan(end, behind, n_nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: u64 = 1000;

    /// How many of `n` decisions are scans, with so many changes between them.
    fn scans(n: u64, changes: u64) -> usize {
        let (mut costs, mut behind) = (Costs::default(), None);
        let one = |at: u64| {
            let scans = costs.scan(at * changes, behind, NODES);
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
    fn a_single_pod_gets_no_ranking() {
        assert_eq!(scans(1, 1), 1);
    }
}
