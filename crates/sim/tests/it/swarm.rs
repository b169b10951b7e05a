//! Random simulations with an auditor. `SWARM=A..B` tries other seeds.

use std::fmt::Write as _;
use std::ops::Range;

use plimsoll_sim::swarm::{Course, try_seed};

use crate::profiles::default_profiles;

#[test]
fn nothing_that_must_not_be_is_found_in_a_swarm() {
    let mut wrong = String::new();
    let mut whole = Course::default();
    for seed in seeds() {
        let course = try_seed(seed, &default_profiles).expect("there is one profile");
        whole.add(&course);
        for violation in course.violations.iter().take(3) {
            writeln!(wrong, "plimsoll simulate --swarm 1 --seed {seed}: {violation}")
                .expect("text can grow");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(whole.scheduled * 5 > whole.attempts, "hardly anything is placed: {whole:?}");
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("SWARM") else { return 0..200 };
    let (from, to) = text.split_once("..").expect("SWARM=FROM..TO");
    from.parse().expect("a seed")..to.parse().expect("a seed")
}
