//! Keeps pods off nodes that do not have a label.

use plimsoll::prelude::*;
use serde::Deserialize;

const MISSING: Reason = Reason::Text("node(s) didn't have the label that MyPlugin requires");

/// Rejects every node that does not have the label `args.label`.
pub struct MyPlugin(MyPluginArgs);

/// The args of the plugin in a configuration, under `pluginConfig` of a profile.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct MyPluginArgs {
    /// The key of the label. Without it no node is rejected.
    label: Option<String>,
}

impl Plugin for MyPlugin {
    const NAME: &'static str = "MyPlugin";
    type Args = MyPluginArgs;
    fn new(args: MyPluginArgs, _: &FeatureGates) -> Self {
        MyPlugin(args)
    }
}

impl Filter for MyPlugin {
    /// The part of a pod that it reads: nothing. `plimsoll::framework::parts` has all parts.
    type Pod = ();
    /// The part of a node that it reads. A rejected pod is tried again when this changes.
    type Node = Labels;
    fn filter(&self, (): (), labels: &Labels) -> Verdict {
        match &self.0.label {
            Some(label) if !labels.contains_key(label) => Verdict::unresolvable(MISSING),
            _ => Verdict::Pass,
        }
    }
}

/// The plugin with its extension points.
pub fn entry() -> Entry {
    Entry::of::<MyPlugin>().filter().done()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use plimsoll_testkit::{check, laws, random_scenarios};

    use super::*;

    #[test]
    fn a_node_without_the_label_is_rejected() {
        check(
            entry(),
            r#"
            args {"label": "example.com/tested"}
            node a example.com/tested=yes
            node b
            pod p
            "#,
            &expect![[r"
                p a Success
                p b UnschedulableAndUnresolvable: node(s) didn't have the label that MyPlugin requires
            "]],
        );
    }

    /// Checks the laws of the framework on random clusters.
    #[test]
    fn it_keeps_the_laws_of_the_framework() {
        let args = r#"args {"label": "disk"}"#;
        laws(&entry(), random_scenarios(0..20).map(|scenario| format!("{args}\n{scenario}")));
    }
}
