//! What a plugin says because of the time is not remembered beyond it.

use plimsoll_framework::prelude::*;

use super::lab;
use crate::{Detail, Event, NodeJudge, Observation, Options, Scheduler};

/// Lets no pod pass before this time.
const OPENS: Time = Time::from_millis(10_000);

struct Opening;

impl Plugin for Opening {
    const NAME: &'static str = "Opening";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Opening
    }
}

impl PreFilter for Opening {
    type Pod = ();
    type Node = ();
    type Cluster = Now;
    type State = ();

    fn pre_filter(&self, (): (), now: Time) -> Result<Option<()>, Rejection> {
        match OPENS <= now {
            true => Ok(None),
            false => Err(Rejection::unresolvable("closed")),
        }
    }

    fn filter(&self, (): &(), (): ()) -> Verdict {
        Verdict::Pass
    }

    fn may_err(&self, (): &()) -> bool {
        false
    }
}

#[test]
fn a_pod_that_had_to_wait_for_a_time_is_judged_again_when_it_has_come() {
    let opening = Entry::of::<Opening>().pre_filter().not_at(Point::Filter).done();
    let profile = lab::profile_of(opening, &["Sort", "Binder"]);
    let options = Options { detail: Detail::Outcome, ..Options::default() };
    let mut scheduler = Scheduler::new(vec![profile], options, 0).expect("there is a profile");
    let node = Event::Node(Box::new(Observation::Is(lab::node("a", &[]))));
    scheduler.observe(Time::ZERO, node);
    // Nothing happens meanwhile.
    for (now, n_feasible) in [(Time::ZERO, 0), (OPENS, 1)] {
        scheduler.transaction(now, |all| {
            let feasible = |mut judge: NodeJudge<'_>| judge.verdicts().feasible().count();
            for _ in 0..2 {
                assert_eq!(all.judge(lab::pod("p", &[])).map(feasible), Ok(n_feasible), "{now}");
            }
            let anew = all.judge_from_scratch(lab::pod("p", &[])).map(feasible);
            assert_eq!(anew, Ok(n_feasible), "{now}");
        });
    }
}
