//! All that decisions depend on, as text, so that tests can compare two states.

use std::fmt::Debug;

use crate::scheduler::Scheduler;

impl Scheduler {
    /// All that later decisions depend on and that is not remembered for speed alone, in sorted lines of text: nodes with their
    /// columns and their pods, pods without a node, zones, objects as observed and as assumed, groups, nominations, the queue,
    /// and the random numbers to come. States with different lines differ. The converse holds except for groups: of
    /// these the words are compared, in no order. It is for tests: the text is large, and its form may change.
    pub fn state(&self) -> Vec<String> {
        let mut lines = self.cache.state();
        lines.push(format!("random numbers: {:?}, next start {}", self.rng, self.next_start));
        lines.push(format!("nominations: revision {}", self.nominated.revision()));
        let nominated = self.nominated.iter();
        lines.extend(nominated.map(|(node, pod)| format!("nominated to {node}: {pod:?}")));
        lines.push(format!("highest nominated priority: {:?}", self.nominated.highest()));
        lines.extend(self.names.pods().map(|pod| {
            let expected = self.names.find(&pod.key).and_then(|id| self.expected.get(id));
            format!("known pod {}: {pod:?}, expected on {expected:?}", pod.key)
        }));
        lines.extend(self.queue.iter().map(|info| format!("queued {}: {info:?}", info.pod.key)));
        lines.push(format!("groups: {}", unordered(&self.groups)));
        lines.sort_unstable();
        lines
    }

    /// Compares everything that is remembered with what is derived anew from nodes, pods and objects, and returns what differs.
    /// It is for tests: all is brought up to date first, and all nodes are looked at for each part. Totals of scans are not
    /// compared.
    pub fn audit_memory(&mut self) -> Vec<String> {
        let mut differences = self.prepared_filters.differences(&self.cache, &self.profiles);
        self.refresh_memo();
        if let Some(memo) = &mut self.memo {
            let view = self.cache.view();
            differences.extend(memo.differences(&self.profiles, view, &self.nominated));
        }
        differences
    }
}

/// The words of a value in debug form, sorted: the order of hash maps has no meaning.
pub(crate) fn unordered(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    let mut words: Vec<&str> = text.split([' ', ',', '{', '}', '[', ']', '(', ')']).collect();
    words.sort_unstable();
    words.join(" ").trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use plimsoll_framework::Time;

    use crate::tests::lab;
    use crate::{Event, Observation, Options, Scheduler};

    /// A scheduler that has seen a node and a pod on it.
    fn scheduler(node: &[&str], pod: &[&str]) -> Scheduler {
        let profile = lab::profile("lab", None, |_| true);
        let scheduler = Scheduler::new(vec![profile], Options::default(), 0);
        let mut scheduler = scheduler.expect("there is one profile");
        let node = lab::node("a", node);
        scheduler.observe(Time::ZERO, Event::Node(Box::new(Observation::Is(node))));
        scheduler.observe(Time::ZERO, Event::pod(lab::pod("p", pod)));
        scheduler
    }

    #[test]
    fn states_are_equal_exactly_if_nodes_pods_and_places_are() {
        let state = |node: &[&str], pod: &[&str]| scheduler(node, pod).state();
        let one = state(&["cpu=2"], &["cpu=1", "on=a"]);
        assert_eq!(one, state(&["cpu=2"], &["cpu=1", "on=a"]));
        assert_ne!(one, state(&["cpu=2", "zone=z"], &["cpu=1", "on=a"]));
        assert_ne!(one, state(&["cpu=2"], &["cpu=1", "prio=1", "on=a"]));
        assert_ne!(one, state(&["cpu=2"], &["cpu=1", "on=b"]));
        assert_ne!(one, state(&["cpu=2"], &["cpu=1"]));
    }
}
