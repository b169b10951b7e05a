//! PodGroupFragmentation: a group goes where it leaves the most room for other groups.

use plimsoll_framework::parts::NodePart;
use plimsoll_framework::prelude::*;
use rustc_hash::FxHashMap;

/// Pods that ask for different amounts than the others of their group count up to so many; a group has a few roles.
const MOST_SHAPES: usize = 8;

/// Prefers the placement that the group breaks up least for groups that come after it.
///
/// The *room* of a placement is how many pods like those of the group fit on its nodes, each on one node. A group of `k` pods
/// uses room in pieces of `k`, so of a room of `x` groups of that size can use `k * floor(x / k)`; the rest is a fragment. The
/// *use* of a room is the sum of that over the sizes 1, 2, 4, 8 and so on. A group costs what the use of the room becomes less
/// by. The cheapest placement gets 100, the most expensive one 0, and the others in proportion. Those on which fewer pods fit
/// than on another get 0.
///
/// Example: a group of 4 fits into racks with room for 8, 12 and 5. It costs 32 - 12 = 20 in the first one, 44 - 32 = 12 in the
/// second, and 13 - 1 = 12 in the third; the first one is not broken up.
#[derive(Clone, Copy, Debug)]
pub struct PodGroupFragmentation;

impl Plugin for PodGroupFragmentation {
    const NAME: &'static str = "PodGroupFragmentation";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        PodGroupFragmentation
    }
}

/// The lowest bits of a score hold the cost, and those above the number of pods that fit, as long as scores are not normalised.
const COST_BITS: u32 = 40;
const MOST_COST: i64 = (1 << COST_BITS) - 1;

impl PlacementScore for PodGroupFragmentation {
    fn score_placement(
        &self,
        group: &GroupInCycle<'_>,
        proposed: &ProposedPlacement<'_>,
        view: &View<'_>,
    ) -> Result<i64, Reason> {
        let cost = cost(&rooms(group, proposed, view)).min(MOST_COST);
        let n_members = i64::try_from(proposed.members.len()).expect("a number of pods fits");
        Ok((n_members << COST_BITS) | (MOST_COST - cost))
    }

    fn describe_placement(
        &self,
        group: &GroupInCycle<'_>,
        proposed: &ProposedPlacement<'_>,
        view: &View<'_>,
    ) -> Option<String> {
        let rooms = rooms(group, proposed, view);
        let left = rooms.iter().map(|one| {
            let Room { pod, before, after, .. } = one;
            format!("{after} of {before} like {}", pod.key.name)
        });
        let left: Vec<String> = left.collect();
        Some(format!("leaves room for {}; costs {}", left.join(", "), mean_cost(&rooms)))
    }

    fn normalize_placement_scores(&self, scores: &mut [i64]) -> Result<(), Reason> {
        let most = scores.iter().map(|score| score >> COST_BITS).max().unwrap_or(0);
        let costs = scores.iter().filter(|score| **score >> COST_BITS == most);
        let costs = costs.map(|score| MOST_COST - (score & MOST_COST));
        let (least, greatest) = costs
            .fold((i64::MAX, 0), |(least, greatest), cost| (least.min(cost), greatest.max(cost)));
        for score in scores {
            let cost = MOST_COST - (*score & MOST_COST);
            *score = if *score >> COST_BITS < most {
                0
            } else if least == greatest {
                MAX_NODE_SCORE
            } else {
                (greatest - cost) * MAX_NODE_SCORE / (greatest - least)
            };
        }
        Ok(())
    }
}

/// The room of a placement for pods that ask for the same.
#[derive(Clone, Copy, Debug)]
struct Room<'a> {
    /// One of them.
    pod: &'a PodInfo,
    /// How many of the group there are.
    n_pods: i64,
    /// The room without the group.
    before: i64,
    /// The room with it.
    after: i64,
}

/// The room of a placement for the pods of a group, by what these ask for: most of them first.
fn rooms<'a>(
    group: &GroupInCycle<'a>,
    proposed: &ProposedPlacement<'_>,
    view: &View<'_>,
) -> Vec<Room<'a>> {
    let mut index = FxHashMap::<&Resources, usize>::default();
    let mut rooms = Vec::<Room<'a>>::new();
    for pod in group.members {
        let at = *index.entry(&pod.asks.room).or_insert(rooms.len());
        match rooms.get_mut(at) {
            Some(room) => room.n_pods += 1,
            None => rooms.push(Room { pod, n_pods: 1, before: 0, after: 0 }),
        }
    }
    rooms.sort_by_key(|room| std::cmp::Reverse(room.n_pods));
    rooms.truncate(MOST_SHAPES);
    let mut taken = FxHashMap::<Row, Resources>::default();
    for (pod, row) in proposed.members {
        let of_row = taken.entry(*row).or_default();
        of_row.add(&pod.asks.room);
        of_row.pods += 1;
    }
    for &row in &proposed.placement.rows {
        let Allocatable(allocatable) = Allocatable::at(view.nodes, row);
        let mut free = allocatable.clone();
        free.sub(view.nodes.requested_of(row));
        free.pods = allocatable.pods - in_i64(view.nodes.pods_on(row).len());
        let left = taken.get(&row).map(|taken| {
            let mut left = free.clone();
            left.sub(taken);
            left
        });
        for room in &mut rooms {
            let asked = &room.pod.asks.room;
            let fit = how_many_fit(asked, &free);
            room.before += fit;
            room.after += left.as_ref().map_or(fit, |left| how_many_fit(asked, left));
        }
    }
    rooms
}

/// How many pods that ask for `asked` fit into what is free on a node.
fn how_many_fit(asked: &Resources, free: &Resources) -> i64 {
    let Resources { milli_cpu, memory, ephemeral_storage, pods: _, scalar } = asked;
    let of_all = [
        (*milli_cpu, free.milli_cpu),
        (*memory, free.memory),
        (*ephemeral_storage, free.ephemeral_storage),
        (1, free.pods),
    ];
    let of_others = scalar.iter().map(|(name, amount)| (*amount, free.get(name)));
    let all = of_all.into_iter().chain(of_others).filter(|(asked, _)| 0 < *asked);
    all.map(|(asked, free)| free.max(0) / asked).min().unwrap_or(0)
}

/// How much of a room groups can use, over the sizes 1, 2, 4, 8 and so on.
fn usable(room: i64) -> i64 {
    let sizes = std::iter::successors(Some(1_i64), |size| size.checked_mul(2));
    let used = sizes.take_while(|size| *size <= room).map(|size| room / size * size);
    used.fold(0, i64::saturating_add)
}

/// What a group costs, added up over its pods.
fn cost(rooms: &[Room<'_>]) -> i64 {
    let of_each = rooms
        .iter()
        .map(|room| (usable(room.before) - usable(room.after)).max(0).saturating_mul(room.n_pods));
    of_each.fold(0, i64::saturating_add)
}

/// What a group costs, as the mean over its pods.
fn mean_cost(rooms: &[Room<'_>]) -> i64 {
    let n_pods: i64 = rooms.iter().map(|room| room.n_pods).sum();
    cost(rooms) / n_pods.max(1)
}

fn in_i64(n: usize) -> i64 {
    i64::try_from(n).expect("a number of pods fits")
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<PodGroupFragmentation>().placement_score().done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_room_is_what_groups_of_all_sizes_can_use_of_it() {
        let slowly = |room: i64| {
            let sizes = (0..20).map(|power| 1 << power);
            sizes.map(|size: i64| (1..=room).filter(|pod| *pod <= room - room % size).count()).sum()
        };
        for room in 0..200 {
            assert_eq!(usize::try_from(usable(room)), Ok::<usize, _>(slowly(room)), "{room}");
        }
    }

    #[test]
    fn the_scarcest_resource_says_how_many_pods_fit() {
        let mut free = Resources { milli_cpu: 4000, memory: 100, pods: 9, ..Resources::default() };
        free.scalar.insert("nvidia.com/gpu".into(), 3);
        let cpu = Resources { milli_cpu: 1000, ..Resources::default() };
        assert_eq!(how_many_fit(&cpu, &free), 4);
        assert_eq!(how_many_fit(&Resources::default(), &free), 9);
        let mut gpu = Resources { milli_cpu: 1000, ..Resources::default() };
        gpu.scalar.insert("nvidia.com/gpu".into(), 2);
        assert_eq!(how_many_fit(&gpu, &free), 1);
        gpu.scalar.insert("nvidia.com/nic".into(), 1);
        assert_eq!(how_many_fit(&gpu, &free), 0);
        let full = Resources { milli_cpu: -1, pods: 1, ..Resources::default() };
        assert_eq!(how_many_fit(&cpu, &full), 0);
    }

    /// A score as it is before it is normalised.
    fn score(n_members: i64, cost: i64) -> i64 {
        (n_members << COST_BITS) | (MOST_COST - cost)
    }

    #[test]
    fn the_cheapest_placement_gets_all_points_among_those_with_the_most_pods() {
        let normalised = |mut scores: Vec<i64>| {
            let result = PodGroupFragmentation.normalize_placement_scores(&mut scores);
            result.map(|()| scores)
        };
        let mixed = vec![score(4, 20), score(4, 12), score(4, 15), score(3, 1)];
        assert_eq!(normalised(mixed), Ok(vec![0, 100, 62, 0]));
        assert_eq!(normalised(vec![score(2, 7), score(2, 7)]), Ok(vec![100, 100]));
        assert_eq!(normalised(vec![score(1, 0), score(1, MOST_COST)]), Ok(vec![100, 0]));
    }
}
