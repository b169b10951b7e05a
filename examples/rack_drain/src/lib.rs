//! Keeps pods off racks that are being drained: a plugin in a separate crate.

use std::collections::BTreeSet;

use plimsoll::prelude::*;
use serde::Deserialize;

const DRAINED: Reason = Reason::Text("node(s) were in a rack that is being drained");

/// Rejects every node whose label `example.com/rack` is one of `args.racks`.
pub struct RackDrain(BTreeSet<String>);

/// The racks that are being drained.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RackDrainArgs {
    racks: Vec<String>,
}

impl Plugin for RackDrain {
    const NAME: &'static str = "RackDrain";
    type Args = RackDrainArgs;
    fn new(args: RackDrainArgs, _: &FeatureGates) -> Self {
        RackDrain(args.racks.into_iter().collect())
    }

    fn validate(args: &RackDrainArgs, _: &FeatureGates, faults: &mut ArgsFaults) {
        let field = ArgsField::default().key("racks");
        for (index, rack) in args.racks.iter().enumerate() {
            for fault in label_syntax::label_value_faults(rack) {
                faults.invalid(field.index(index), rack, &fault);
            }
        }
    }
}

impl Filter for RackDrain {
    type Pod = (); // reads nothing of the pod: all pods are alike
    type Node = Labels; // asked again only where labels change
    fn filter(&self, (): (), labels: &Labels) -> Verdict {
        match labels.get("example.com/rack") {
            Some(rack) if self.0.contains(rack.as_str()) => Verdict::unresolvable(DRAINED),
            _ => Verdict::Pass,
        }
    }
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<RackDrain>().filter().done()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use plimsoll_testkit::{check, laws, random_scenarios};

    use super::*;

    #[test]
    fn a_drained_rack_is_rejected() {
        check(
            entry(),
            r#"
            args {"racks": ["r1"]}
            node a example.com/rack=r1
            node b example.com/rack=r2
            pod p
            "#,
            &expect![[r"
                p a UnschedulableAndUnresolvable: node(s) were in a rack that is being drained
                p b Success
            "]],
        );
    }

    #[test]
    fn it_keeps_the_laws_of_the_framework() {
        let drained = r#"args {"racks": ["r1"]}
            node drained example.com/rack=r1"#;
        laws(&entry(), random_scenarios(0..20).map(|scenario| format!("{drained}\n{scenario}")));
    }
}
