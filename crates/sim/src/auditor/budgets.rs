//! Checks that evictions for others break PodDisruptionBudgets only where a choice says so, and only if it cannot be avoided.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_api::{AnyObject, KindRef, ObjectKey, Pod, PodDisruptionBudget, PodKey};
use plimsoll_engine::Observation;
use plimsoll_framework::Nomination;

use super::ObservedCluster;
use super::decisions::is_helped_by_any_eviction;

/// The budgets that were observed.
#[derive(Debug, Default)]
pub(crate) struct ObservedBudgets(BTreeMap<ObjectKey, PodDisruptionBudget>);

impl ObservedBudgets {
    pub(super) fn observe(&mut self, seen: &Observation<AnyObject, (KindRef, ObjectKey)>) {
        match seen {
            Observation::Is(object) => {
                if let Some(budget) = object.get::<PodDisruptionBudget>() {
                    self.0.insert(budget.key.clone(), budget.clone());
                }
            }
            Observation::Gone((kind, key)) => {
                if kind.is::<PodDisruptionBudget>() {
                    self.0.remove(key);
                }
            }
        }
    }

    /// For each budget, how many of some pods it protects, and how many of these may go.
    fn uses(&self, pods: &[&Pod]) -> impl Iterator<Item = (&PodDisruptionBudget, i64, i64)> {
        self.0.values().map(|budget| {
            let n = pods.iter().filter(|pod| protects(budget, pod)).count();
            let allowed = i64::from(budget.disruptions_allowed).max(0);
            (budget, i64::try_from(n).unwrap_or(i64::MAX), allowed)
        })
    }

    /// Those of some pods that may all go without harm, in whatever order: each of their budgets allows all of them.
    fn harmless(&self, pods: &[&Pod]) -> BTreeSet<PodKey> {
        let strict: Vec<&PodDisruptionBudget> = self
            .uses(pods)
            .filter(|(_, n, allowed)| allowed < n)
            .map(|(budget, ..)| budget)
            .collect();
        let is_harmless = |pod: &&&Pod| !strict.iter().any(|budget| protects(budget, pod));
        pods.iter().filter(is_harmless).map(|pod| pod.key.clone()).collect()
    }
}

/// Whether the eviction of a pod counts for a budget: it does not if it was allowed before. As in
/// FilterPodsWithPDBViolation, a pod without labels has no budget, and neither has a selector that is empty.
fn protects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    budget.key.namespace == pod.key.namespace
        && !pod.labels.is_empty()
        && !budget.selector.is_everything()
        && budget.selector.matches(&pod.labels)
        && !budget.disrupted_pods.contains(&pod.key.name)
}

impl ObservedCluster {
    /// Checks that victims break no more budgets than a choice `says`: without so many of them, the others are allowed by each
    /// budget.
    pub(super) fn are_as_harmful_as_said<'a>(
        &self,
        victims: impl IntoIterator<Item = &'a PodKey>,
        says: i64,
    ) -> Result<(), String> {
        // A pod that is being bound counts as it was when it was placed, whatever has changed since.
        let victim = |key: &PodKey| {
            let chosen = self.chosen.get(key).map(|(pod, _)| pod);
            chosen.or_else(|| self.pods.get(key))
        };
        let victims: Vec<&Pod> = victims.into_iter().filter_map(victim).collect();
        let mut uses = self.budgets.uses(&victims);
        let broken = uses.find(|(_, n, allowed)| allowed.saturating_add(says) < *n);
        match broken {
            None => Ok(()),
            Some((budget, n, allowed)) => Err(format!(
                "{n} of its victims have the budget {}, which allows {allowed}, and it says that {says} break one",
                budget.key
            )),
        }
    }

    /// Checks that budgets are broken only if that cannot be avoided: on no node there is room for the pod once pods have left
    /// that may go without harm.
    pub(super) fn breaks_no_budget_in_vain(
        &self,
        pod: &Pod,
        nomination: &Nomination,
    ) -> Result<(), String> {
        let is_checked = 0 < nomination.broken_budgets
            && !self.are_spared
            && is_helped_by_any_eviction(pod)
            && !self.has_placed_members();
        if !is_checked {
            return Ok(());
        }
        for node in self.nodes.keys() {
            let lower = self.pods_on(node).filter(|other| other.priority < pod.priority);
            let lower: Vec<&Pod> = lower.collect();
            if lower.iter().any(|other| other.is_terminating()) {
                continue;
            }
            let harmless = self.budgets.harmless(&lower);
            if !harmless.is_empty() && self.feasible(pod, node, &harmless).is_ok() {
                return Err(format!("on {node} it need not break a budget"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_api::{Labels, Node, PodTemplate, Resources, Selector, Str};
    use plimsoll_engine::{Decision, Event, GroupDecision, GroupResult, Outcome};
    use plimsoll_framework::Time;

    use super::*;
    use crate::auditor::{Auditor, Extent};

    fn key(pod: &str) -> PodKey {
        PodKey::new("default", pod)
    }

    fn labels(app: &str) -> Labels {
        [("app", app)].into_iter().collect()
    }

    /// A pod that fills a node.
    fn pod(name: &str, node: Option<&str>, priority: i32) -> Pod {
        let requests = Resources { milli_cpu: 1000, ..Resources::default() };
        let template = PodTemplate {
            priority,
            labels: labels(name),
            requests: requests.clone(),
            ..PodTemplate::default()
        };
        let mut pod = Pod::new(key(name), template);
        pod.asks.fit = requests;
        Pod { node_name: node.map(Str::from), ..pod }
    }

    fn budget(app: &str, allowed: i32) -> PodDisruptionBudget {
        PodDisruptionBudget {
            key: ObjectKey::new("default", app),
            selector: Selector::All(vec![plimsoll_api::Requirement::equals("app", app)]),
            disruptions_allowed: allowed,
            disrupted_pods: Vec::new(),
        }
    }

    /// An auditor of the default profile that knows two nodes, each full with a pod of its name, budgets of these pods, and a
    /// pod `p` of higher priority.
    fn auditor(budgets: &[PodDisruptionBudget]) -> Auditor {
        let profile = plimsoll_plugins::default_profile();
        let filters = profile.into_iter().map(|(name, _)| name).collect();
        let known = ObservedCluster { filters, ..ObservedCluster::default() };
        let mut auditor = Auditor { known, extent: Extent::Decisions, ..Auditor::default() };
        for name in ["a", "b"] {
            let allocatable = Resources { milli_cpu: 1000, pods: 3, ..Resources::default() };
            let node = Node { name: name.into(), allocatable, ..Node::default() };
            auditor.observe(&Event::Node(Box::new(Observation::Is(node))));
            auditor.observe(&Event::pod(pod(name, Some(name), 0)));
        }
        for budget in budgets {
            auditor.observe(&Event::object(budget.clone()));
        }
        auditor.observe(&Event::pod(pod("p", None, 5)));
        auditor
    }

    #[test]
    fn a_victim_that_is_being_bound_has_the_labels_with_which_it_was_placed() {
        let mut known = auditor(&[budget("now", 0)]).known;
        let relabelled = Pod { key: key("v"), ..pod("now", None, 0) };
        known.pods.insert(key("v"), relabelled);
        assert!(known.are_as_harmful_as_said(&[key("v")], 0).is_err());
        let placed = Pod { key: key("v"), ..pod("before", None, 0) };
        known.chosen.insert(key("v"), (placed, "a".into()));
        assert_eq!(known.are_as_harmful_as_said(&[key("v")], 0), Ok(()));
    }

    /// What is found if the pod on node `a` is to go, and the choice says so of budgets.
    fn found(budgets: &[PodDisruptionBudget], says: i64) -> String {
        let mut auditor = auditor(budgets);
        let nomination = Nomination {
            node: "a".into(),
            victims: vec![key("a")],
            broken_budgets: says,
            says: "".into(),
        };
        let outcome = Outcome::Unschedulable {
            message: String::new(),
            pre_filter: None,
            nomination: Some(nomination),
        };
        auditor.decided(Time::ZERO, &Decision::of_pod(key("p"), 1, outcome));
        let found: Vec<&str> = auditor.violations().iter().map(|one| one.what.as_str()).collect();
        found.join("; ")
    }

    #[test]
    fn a_budget_is_broken_only_if_the_choice_says_so() {
        assert_eq!(found(&[budget("a", 1)], 0), "");
        assert_eq!(found(&[budget("other", 0)], 0), "");
        let told = found(&[budget("a", 0)], 0);
        let why = "1 of its victims have the budget default/a, which allows 0, and it says that 0 break one";
        assert!(told.contains(why), "{told:?}");
        // Its eviction was allowed before.
        let disrupted = PodDisruptionBudget { disrupted_pods: vec!["a".into()], ..budget("a", 0) };
        assert_eq!(found(&[disrupted], 0), "");
    }

    #[test]
    fn a_budget_is_broken_only_if_no_other_node_can_be_cleared_without_harm() {
        assert_eq!(found(&[budget("a", 0), budget("b", 0)], 1), "");
        let told = found(&[budget("a", 0)], 1);
        assert!(told.ends_with("on b it need not break a budget"), "{told:?}");
    }

    #[test]
    fn a_group_breaks_as_many_budgets_as_it_says() {
        for (says, n) in [(Some(0), 1), (Some(1), 0), (None, 0)] {
            let mut auditor = auditor(&[budget("a", 0)]);
            let decision = GroupDecision {
                victims: vec![key("a"), key("b")],
                broken_budgets: says,
                ..group_decision()
            };
            auditor.decided_group(Time::ZERO, &decision);
            assert_eq!(auditor.violations().len(), n, "{:?}", auditor.violations());
        }
    }

    fn group_decision() -> GroupDecision {
        GroupDecision {
            group: ObjectKey::new("default", "g"),
            is_composite: false,
            attempt: 1,
            result: GroupResult::Preempting,
            message: None,
            placement: None,
            placements: Vec::new(),
            pods: Vec::new(),
            victims: Vec::new(),
            broken_budgets: None,
            condition: None,
            groups: Vec::new(),
        }
    }
}
