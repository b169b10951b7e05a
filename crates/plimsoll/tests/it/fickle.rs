//! A plugin that is wrong, so that audits find differences. The unit tests have it, too.

use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_api::Labels;
use plimsoll_framework::{Entry, FeatureGates, NoArgs, Plugin, Score};

/// A configuration with this plugin.
pub(crate) const CONFIG: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score: {enabled: [{name: Fickle, weight: 100}]}
";

/// Deliberately wrong: its score of a node depends on how often it was asked, which it hides.
#[derive(Default)]
struct Fickle(AtomicU32);

impl Plugin for Fickle {
    const NAME: &'static str = "Fickle";
    type Args = NoArgs;
    fn new(_: NoArgs, _: &FeatureGates) -> Self {
        Fickle::default()
    }
}

impl Score for Fickle {
    type Pod = ();
    type Node = Labels;
    fn score(&self, (): (), _: &Labels) -> i64 {
        i64::from(self.0.fetch_add(1, Ordering::Relaxed) * 37 % 101)
    }
}

/// The plugin for a registry.
pub(crate) fn entry() -> Entry {
    Entry::of::<Fickle>().score().done()
}
