//! Random simulations with an auditor. `SWARM=A..B` tries other seeds.

use std::fmt::Write as _;
use std::ops::Range;

use plimsoll_sim::swarm::{Course, try_seed};

use crate::profiles::{profiles_of, release_of};

#[test]
fn nothing_that_must_not_be_is_found_in_a_swarm() {
    let mut wrong = String::new();
    let mut whole = Course::default();
    for seed in seeds() {
        let release = release_of(seed);
        let course = try_seed(seed, release, &|| profiles_of(release));
        let course = course.expect("there is one profile");
        whole.add(&course);
        for violation in course.violations.iter().take(3) {
            writeln!(
                wrong,
                "plimsoll simulate --swarm 1 --emulated-version {release} --seed {seed}: {violation}"
            )
                .expect("text can grow");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let few = whole.attempts / 10;
    assert!(few < whole.scheduled, "hardly anything is placed: {whole:?}");
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("SWARM") else { return 0..500 };
    let (from, to) = text.split_once("..").expect("SWARM=FROM..TO");
    from.parse().expect("a seed")..to.parse().expect("a seed")
}
