//! Shares equal templates between pods.

use std::sync::Arc;

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use crate::{Pod, PodTemplate};

/// With fewer templates it is not checked whether all of them are still in use.
const FEW: usize = 1 << 10;
/// After this many bytes of new templates, those that no pod uses any more are dropped.
const SWEEP: usize = 64 << 20;

/// The templates of pods, each stored once.
///
/// All pods that are read pass through here. They then take a fraction of the memory, and pods with the
/// same template can be recognized as equal without comparing its fields.
#[derive(Debug)]
pub struct Templates {
    known: HashSet<Arc<PodTemplate>, FxBuildHasher>,
    /// At this number of templates, those without a pod are dropped.
    limit: usize,
    /// How many bytes of templates have been added since then.
    come: usize,
}

impl Default for Templates {
    fn default() -> Self {
        Templates { known: HashSet::default(), limit: FEW, come: 0 }
    }
}

impl Templates {
    /// Replaces the template of `pod` with the shared one, if an equal one is stored.
    pub fn share(&mut self, pod: &mut Pod) {
        if let Some(known) = self.known.get(&pod.template) {
            pod.template = Arc::clone(known);
            return;
        }
        if self.known.len() == self.limit || SWEEP <= self.come {
            self.known.retain(|template| 1 < Arc::strong_count(template));
            self.limit = FEW.max(2 * self.known.len());
            self.come = 0;
        }
        self.come += pod.template.bytes();
        self.known.insert(Arc::clone(&pod.template));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(priority: i32) -> Pod {
        PodTemplate { priority, ..PodTemplate::default() }.into()
    }

    #[test]
    fn pods_with_equal_templates_share_one() {
        let mut templates = Templates::default();
        let [mut one, mut same, mut other] = [pod(1), pod(1), pod(2)];
        for pod in [&mut one, &mut same, &mut other] {
            templates.share(pod);
        }
        assert!(Arc::ptr_eq(&one.template, &same.template));
        assert_eq!(other, pod(2));
    }

    #[test]
    fn a_few_large_templates_are_dropped_as_early_as_many_small_ones() {
        let mut templates = Templates::default();
        for priority in 0..500 {
            let gates = (0..10_000).map(|gate| format!("{priority}/{gate}").into()).collect();
            let template = PodTemplate { scheduling_gates: gates, ..PodTemplate::default() };
            templates.share(&mut template.into());
        }
        let kept: usize = templates.known.iter().map(|template| template.bytes()).sum();
        assert!(kept <= SWEEP + (1 << 20), "{kept}");
    }

    #[test]
    fn templates_without_pods_are_dropped_eventually() {
        let mut templates = Templates::default();
        let mut kept = pod(-1);
        templates.share(&mut kept);
        for priority in 0..100_000 {
            templates.share(&mut pod(priority));
        }
        assert!(templates.known.len() <= FEW);
        let mut again = pod(-1);
        templates.share(&mut again);
        assert!(Arc::ptr_eq(&kept.template, &again.template));
    }
}
