//! Binds the pods of a gang together or not at all: a Permit plugin in a separate crate.

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use plimsoll::framework::events::Object;
use plimsoll::prelude::*;
use serde::Deserialize;

/// The label that names the gang of a pod. Gangs of the same name in two namespaces are two gangs.
pub const GANG: &str = "example.com/gang";

/// The label that says how many pods the gang needs, this one included.
pub const GANG_SIZE: &str = "example.com/gang-size";

const NO_SIZE: Reason =
    Reason::Text("pod has the label example.com/gang and no number in example.com/gang-size");

const MEMBER_FAILED: Reason = Reason::Text("another member of the gang could not be bound");

/// Holds every pod of a gang at Permit until as many members as the gang needs wait there or are on nodes already; then
/// all of them are bound. Training jobs need this: some workers alone can only wait for the rest, and occupy their
/// nodes meanwhile.
///
/// ```yaml
/// metadata:
///   labels:
///     example.com/gang: training
///     example.com/gang-size: "4"
/// ```
///
/// Members on nodes count, so that the replacement of one pod of a running gang is bound at once. Members that are
/// being deleted do not count.
///
/// # When time is up
///
/// Each member waits at Permit for at most `timeoutSeconds`. Then the engine rejects it, and its resources on the node
/// become free. All members that still wait are rejected with it: an incomplete gang would only occupy nodes. The same
/// happens when a member fails later, such as in binding. A rejected member is tried again when another member is
/// placed on a node or leaves one, also by a rejection, and at the latest when the queue flushes pods that have waited
/// for long.
///
/// Two gangs that each hold some of the nodes can block each other; the timeout ends that. A longer timeout only
/// occupies the nodes for longer.
pub struct Gang(GangArgs);

/// How long members wait for each other.
#[derive(Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct GangArgs {
    timeout_seconds: NonZeroU32,
}

impl Default for GangArgs {
    /// One minute.
    fn default() -> Self {
        GangArgs { timeout_seconds: NonZeroU32::new(60).expect("60 is not 0") }
    }
}

impl Plugin for Gang {
    const NAME: &'static str = "Gang";
    type Args = GangArgs;
    fn new(args: GangArgs, _: &FeatureGates) -> Self {
        Gang(args)
    }
}

impl Permit for Gang {
    fn permit(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Permission {
        let waiting = &mut handle.waiting;
        if !at.pod.labels.contains_key(GANG) {
            return Permission::Approve;
        }
        let size = at.pod.labels.get(GANG_SIZE).and_then(|size| size.parse::<NonZeroUsize>().ok());
        let Some(size) = size else {
            return Permission::Deny(Rejection::unresolvable(NO_SIZE));
        };
        if gathered(at, waiting) < size.get() {
            return Permission::Wait(Duration::from_secs(self.0.timeout_seconds.get().into()));
        }
        let held = waiting.iter().filter(|held| are_mates(&held.pod, at.pod));
        let held: Vec<PodKey> = held.map(|held| held.pod.key.clone()).collect();
        for member in &held {
            waiting.allow(member);
        }
        Permission::Approve
    }
}

impl Reserve for Gang {
    type Reservation = ();

    fn applies(&self, pod: &PodInfo) -> bool {
        pod.labels.contains_key(GANG)
    }

    fn reserve(&self, _: &Placement<'_>, _: &mut Handle<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    /// A member cannot be bound: the members that still wait are rejected now, not when their time is up.
    fn unreserve(&self, (): (), at: &Placement<'_>, handle: &mut Handle<'_>) {
        let held = handle.waiting.iter().filter(|held| are_mates(&held.pod, at.pod));
        let held: Vec<PodKey> = held.map(|held| held.pod.key.clone()).collect();
        for member in &held {
            handle.waiting.reject(member, MEMBER_FAILED);
        }
    }
}

impl Requeue for Gang {
    fn events(&self) -> Vec<ClusterEvent> {
        let action = Action::ADD | Action::DELETE | Action::UPDATE_POD_LABEL;
        vec![ClusterEvent::of::<Pod>(action)]
    }

    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let helps = match change.object {
            Object::Assigned { before, after, .. } => {
                before.into_iter().chain(after).any(|other| are_mates(other, pod))
            }
            Object::Itself { before } => before.labels != pod.labels,
            Object::Node { .. } | Object::Other(_) => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

/// How many members of the pod's gang wait or are on nodes, including the pod. A waiting one already counts on its
/// node, so it may be seen twice.
fn gathered(at: &Placement<'_>, waiting: &WaitingPods<'_>) -> usize {
    let nodes = at.view.nodes;
    let on_nodes = nodes.rows().flat_map(|row| nodes.pods_on(row).iter());
    let waiting = waiting.iter().map(|held| &held.pod);
    let pods = on_nodes.chain(waiting).filter(|pod| !pod.is_terminating()).chain([at.pod]);
    let members = pods.filter(|pod| are_mates(pod, at.pod)).map(|pod| &pod.key);
    members.collect::<BTreeSet<_>>().len()
}

fn are_mates(one: &PodInfo, other: &PodInfo) -> bool {
    let gang = one.labels.get(GANG);
    gang.is_some() && gang == other.labels.get(GANG) && one.key.namespace == other.key.namespace
}

/// Registration.
pub fn entry() -> Entry {
    Entry::of::<Gang>().reserve().permit().requeue().done()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use plimsoll_testkit::{Cluster, HandleParts, Scenario};

    use super::*;

    /// Runs Permit for the last pending pod of `scenario` on node `n`, while the pods before it wait there.
    fn check(scenario: &str, expected: &Expect) {
        let scenario = Scenario::parse(scenario).expect("the scenario is right");
        let mut cluster = Cluster::of(&scenario);
        let row = cluster.row("n").expect("the scenarios have a node n");
        for pod in &scenario.pending {
            cluster.nodes.place(row, pod);
        }
        let (pod, held) = scenario.pending.split_last().expect("the scenarios have a pending pod");
        let held = held.iter().map(|pod| WaitingPod {
            pod: pod.clone(),
            node: "n".into(),
            since: Time::ZERO,
            pending: vec![(Gang::NAME, Time::ZERO + Duration::from_mins(1))],
        });
        let held: Vec<WaitingPod> = held.collect();
        let mut parts = HandleParts { waiting: held, ..HandleParts::default() };
        let node = Str::from("n");
        let at = Placement { pod, node: &node, row: Some(row), view: cluster.view() };
        let permission = Gang::new(GangArgs::default(), &FeatureGates::default())
            .permit(&at, &mut parts.handle(Gang::NAME));
        let permission = match permission {
            Permission::Approve => "is bound".to_owned(),
            Permission::Wait(span) => format!("waits for {span:?}"),
            Permission::Deny(why) => format!("is rejected: {why}"),
        };
        let mut out = format!("{} {permission}\n", pod.key);
        for decision in parts.decisions {
            let WaitingDecision::Allow { pod, plugin } = decision else {
                unreachable!("the plugin rejects nobody else");
            };
            out.extend([plugin.as_str(), " allows ", &pod.to_string(), "\n"]);
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn a_pod_without_a_gang_is_bound() {
        check(
            r"
            node n
            pod a example.com/gang=g example.com/gang-size=2
            pod p
            ",
            &expect![[r"
                default/p is bound
            "]],
        );
    }

    #[test]
    fn a_member_waits_for_the_rest() {
        check(
            r"
            node n
            pod a example.com/gang=g example.com/gang-size=3
            pod b example.com/gang=g example.com/gang-size=3
            ",
            &expect![[r"
                default/b waits for 60s
            "]],
        );
    }

    #[test]
    fn the_last_member_allows_all_others() {
        check(
            r"
            node n
            pod a example.com/gang=g example.com/gang-size=3
            pod b example.com/gang=g example.com/gang-size=3
            pod x example.com/gang=other example.com/gang-size=2
            pod c example.com/gang=g example.com/gang-size=3
            ",
            &expect![[r"
                default/c is bound
                Gang allows default/a
                Gang allows default/b
            "]],
        );
    }

    #[test]
    fn a_gang_of_the_same_name_in_another_namespace_is_another_one() {
        check(
            r"
            node n
            pod team/a example.com/gang=g example.com/gang-size=2
            pod b example.com/gang=g example.com/gang-size=2
            ",
            &expect![[r"
                default/b waits for 60s
            "]],
        );
    }

    #[test]
    fn members_on_nodes_count_unless_they_are_being_deleted() {
        check(
            r#"
            node n
            node m
            pod a example.com/gang=g on m
            pod b example.com/gang=g on m {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
            pod c example.com/gang=g example.com/gang-size=3
            "#,
            &expect![[r"
                default/c waits for 60s
            "]],
        );
        check(
            r"
            node n
            node m
            pod a example.com/gang=g on m
            pod b example.com/gang=g on m
            pod c example.com/gang=g example.com/gang-size=3
            ",
            &expect![[r"
                default/c is bound
            "]],
        );
    }

    #[test]
    fn a_member_of_a_gang_of_unknown_size_is_rejected() {
        check(
            r"
            node n
            pod a example.com/gang=g example.com/gang-size=all
            ",
            &expect![[r"
                default/a is rejected: pod has the label example.com/gang and no number in example.com/gang-size
            "]],
        );
    }

    #[test]
    fn a_member_is_tried_again_when_another_comes_or_goes() {
        let scenario = r"
            node n
            pod a example.com/gang=g on n
            pod b on n
            pod c example.com/gang=g
        ";
        let scenario = Scenario::parse(scenario).expect("the scenario is right");
        let cluster = Cluster::of(&scenario);
        let gang = Gang::new(GangArgs::default(), &FeatureGates::default());
        let [mate, stranger] = [&scenario.placed[0], &scenario.placed[1]];
        let hint = |before, after| {
            let event = gang.events()[0];
            let object = Object::Assigned { before, after, row: None };
            gang.hint(&scenario.pending[0], &Change { event, object, view: cluster.view() })
        };
        assert_eq!(hint(None, Some(mate)), Hint::Queue);
        assert_eq!(hint(Some(mate), None), Hint::Queue);
        assert_eq!(hint(Some(stranger), None), Hint::Skip);
    }

    #[test]
    fn a_timeout_of_zero_is_refused() {
        let args = serde::de::value::MapDeserializer::new([("timeoutSeconds", 0_u32)].into_iter());
        let args: Result<GangArgs, serde::de::value::Error> = GangArgs::deserialize(args);
        assert!(args.is_err());
    }
}
