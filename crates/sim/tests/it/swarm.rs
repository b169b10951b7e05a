//! Random simulations with an auditor. `SWARM=A..B` tries other seeds, `SWARM_GROUPS=A..B` other seeds with groups of pods, and
//! `SWARM_GANGS=A..B` other seeds with gangs of Coscheduling.

use std::fmt::Write as _;
use std::ops::Range;

use plimsoll_api::KindRef;
use plimsoll_config::GivenGates;
use plimsoll_engine::Profile;
use plimsoll_framework::{FeatureGates, Release};
use plimsoll_plugins::coscheduling::CoschedulingGroup;
use plimsoll_sim::swarm::{self, Course, try_seed, try_seed_with_gangs};
use plimsoll_sim::{Extent, GangArgs, GangKind, GangSpec};

use crate::profiles::{
    CONFIGURATIONS, configured, configured_with, profiles_of, profiles_with, release_of,
};

/// The PodGroups of Coscheduling.
const GANGS: GangKind = GangKind {
    kind: KindRef::of::<CoschedulingGroup>(),
    read: |object| {
        let group = object.get::<CoschedulingGroup>()?;
        Some(GangSpec {
            min_member: group.min_member,
            timeout_seconds: group.schedule_timeout_seconds,
            has_min_resources: group.min_resources.is_some(),
        })
    },
};

#[test]
fn nothing_that_must_not_be_is_found_in_a_swarm() {
    audited(seeds(), Extent::Decisions, &profiles_of);
}

#[test]
fn nothing_that_must_not_be_is_found_in_a_swarm_with_groups() {
    let mut wrong = String::new();
    for release in Release::ALL {
        let (mut whole, mut n_seeds) = (Course::default(), 0);
        for seed in seeds_of("SWARM_GROUPS", 0..120).filter(|seed| swarm::has_groups(*seed)) {
            let course = with_groups(release, seed);
            whole.add(&course);
            n_seeds += 1;
            report(&mut wrong, release, seed, &course);
        }
        // Most attempts are those of groups that wait for room.
        assert!(n_seeds / 2 < whole.groups_scheduled, "hardly any group is placed: {whole:?}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Seeds with groups that have found bugs: a question about a group ended what was reserved for it, the sum of what nodes
/// have exceeded 63 bits, nothing woke a pod for which a write of PostFilter had failed, a member whose binding was refused
/// counted as settled while it waited for its next attempt, a member that was tried beside its victim freed the victim's
/// ports when it was taken back, the law did not know that a member that is being deleted holds its group back, a pod that names a
/// claim twice could be bound only if the claim kept the devices of its attempt before, a group counted as settled although
/// its attempt had nominated a member that evicts pods, a transaction did not put back what was assumed of a claim, the laws did not
/// know that a group waits for a pod that is going on the node of one of its members, and that such a pod may be one of a unit; and a
/// group counted as settled although a new nomination to another node made it fit.
const FOUND_WITH_GROUPS: [(Release, u64); 14] = [
    (Release::V1_36, 141),
    (Release::V1_36, 993),
    (Release::V1_37, 759),
    (Release::V1_36, 3015),
    (Release::V1_37, 3015),
    (Release::V1_36, 8_004_714),
    (Release::V1_36, 20_020_659),
    (Release::V1_37, 30_021_717),
    (Release::V1_37, 50_013_027),
    (Release::V1_36, 40_022_211),
    (Release::V1_37, 73_011_690),
    (Release::V1_36, 92_006_460),
    (Release::V1_37, 92_023_794),
    (Release::V1_37, 97_571_139),
];

#[test]
fn what_was_found_once_with_groups_is_not_found_again() {
    for (release, seed) in FOUND_WITH_GROUPS {
        let violations = with_groups(release, seed).violations;
        assert!(violations.is_empty(), "{release} --seed {seed}: {violations:?}");
    }
}

fn with_groups(release: Release, seed: u64) -> Course {
    let gates = on(release, &swarm::group_gates(seed, release));
    let course = try_seed(seed, &gates, &|| profiles_with(&gates), Extent::Decisions);
    course.expect("there is one profile")
}

/// The feature gates of a release with these switched on.
fn on(release: Release, gates: &[&str]) -> FeatureGates {
    let gates: Vec<String> = gates.iter().map(|gate| format!("{gate}=true")).collect();
    GivenGates::parse(release, &gates, &[]).expect("they exist").plugins
}

#[test]
fn nothing_that_must_not_be_is_found_in_a_swarm_with_coscheduling() {
    let (mut wrong, mut whole) = (String::new(), Course::default());
    for seed in seeds_of("SWARM_GANGS", 0..300).filter(|seed| swarm::has_gangs(*seed)) {
        let release = release_of(seed);
        let course = with_gangs(release, seed);
        whole.add(&course);
        report(&mut wrong, release, seed, &course);
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(whole.attempts / 20 < whole.scheduled, "hardly anything is placed: {whole:?}");
}

fn with_gangs(release: Release, seed: u64) -> Course {
    let gates = on(release, &swarm::gang_gates(seed, release));
    let profiles = || configured_with(&GangArgs::of(seed).configuration(), &gates);
    let course = try_seed_with_gangs(seed, &gates, &profiles, GANGS);
    course.expect("there is one profile")
}

/// Seeds with gangs of Coscheduling that have found bugs: a pod of a gang was decided after the wait of one of its siblings was
/// over, and before the others were rejected with that one; what the plugin had said of a pod was remembered beyond the time
/// for which it held.
#[test]
fn what_was_found_once_with_coscheduling_is_not_found_again() {
    let mut wrong = String::new();
    for seed in [73_012_400, 90_000_295] {
        for release in Release::ALL {
            report(&mut wrong, release, seed, &with_gangs(release, seed));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Seeds that have found bugs: pods were not woken when a node was added, when a disk or reserved resources became free,
/// when the smallest domain of a spread constraint lost its node to another label,
/// when a pod with the same volume was nominated, when a nominated pod changed, when its reserved resources were given to
/// a more important one, or when a claim went whose devices were being written; a device was given to two claims of which
/// a pod had named one twice; a pod and the claim controller wrote a reservation in turn without end.
const FOUND: [u64; 37] = [
    584, 1219, 2743, 3546, 3595, 10_228, 10_849, 13_116, 17_309, 19_182, 20_537, 23_891, 26_573,
    30_384, 31_420, 31_481, 32_887, 34_025, 34_178, 37_607, 39_461, 41_234, 79_009, 79_701, 94_426,
    1_048_007, 1_058_161, 1_055_850, 1_050_849, 1_056_757, 1_070_315, 1_070_922, 1_066_072,
    5_050_494, 8_105_996, 53_000_123, 90_021_517,
];

#[test]
fn what_was_found_once_is_not_found_again() {
    for seed in FOUND {
        for release in Release::ALL {
            let gates = GivenGates::of(release).plugins;
            let course = try_seed(seed, &gates, &|| profiles_of(release), Extent::Decisions);
            let violations = course.expect("there is one profile").violations;
            assert!(violations.is_empty(), "{release} --seed {seed}: {violations:?}");
        }
    }
}

/// The auditor does not check the decisions of these profiles, but both engines must make the same
/// ones.
#[test]
fn nothing_that_must_not_be_is_found_with_other_profiles() {
    let Range { start, end } = seeds();
    let share = (end - start).div_ceil(4);
    for (number, configuration) in (1..).zip(CONFIGURATIONS) {
        let first = start + number * share;
        let profiles = |release| configured(configuration, release);
        audited(first..first + share, Extent::Placements, &profiles);
    }
}

/// Runs the simulations of these seeds, each in its release.
fn audited(seeds: Range<u64>, extent: Extent, profiles: &dyn Fn(Release) -> Vec<Profile>) {
    let mut wrong = String::new();
    let mut whole = Course::default();
    for seed in seeds {
        let release = release_of(seed);
        let gates = GivenGates::of(release).plugins;
        let course = try_seed(seed, &gates, &|| profiles(release), extent);
        let course = course.expect("there is one profile");
        whole.add(&course);
        report(&mut wrong, release, seed, &course);
    }
    assert!(wrong.is_empty(), "{wrong}");
    let few = whole.attempts / 20;
    assert!(few < whole.scheduled, "hardly anything is placed: {whole:?}");
}

fn report(wrong: &mut String, release: Release, seed: u64, course: &Course) {
    for violation in course.violations.iter().take(3) {
        let command =
            format!("plimsoll simulate --swarm 1 --emulated-version {release} --seed {seed}");
        writeln!(wrong, "{command}: {violation}").expect("text can grow");
    }
}

fn seeds() -> Range<u64> {
    seeds_of("SWARM", 0..500)
}

fn seeds_of(variable: &str, otherwise: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var(variable) else { return otherwise };
    let (from, to) = text.split_once("..").expect("FROM..TO");
    from.parse().expect("a seed")..to.parse().expect("a seed")
}
