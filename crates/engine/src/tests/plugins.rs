//! Small plugins that do as the labels of a pod say.

use std::time::Duration;

use plimsoll_framework::prelude::*;
use plimsoll_framework::stores::NamespaceStore;
use serde_json::json;

/// Makes a plugin type without args.
macro_rules! plugin {
    ($name:ident) => {
        pub(super) struct $name;
        impl Plugin for $name {
            const NAME: &'static str = stringify!($name);
            type Args = NoArgs;
            fn new(_: NoArgs, _: &FeatureGates) -> Self {
                $name
            }
        }
    };
}

plugin!(Sort);
impl QueueSort for Sort {
    type Key = (i64, i64);
    fn key(&self, pod: &QueuedPod<'_>) -> (i64, i64) {
        (-i64::from(pod.pod.priority), pod.queued.millis())
    }
}

plugin!(Gates);
impl PreEnqueue for Gates {
    type Pod = SchedulingGates;
    type Cluster = ();
    fn pre_enqueue(&self, gates: &[Str], (): ()) -> Gate {
        match gates {
            [] => Gate::Open,
            _ => Gate::Closed(Rejection::unresolvable("gated")),
        }
    }
}

plugin!(Until);
impl PreEnqueue for Until {
    type Pod = Labels;
    type Cluster = Namespaces;
    /// A pod with the label `until` waits until its namespace has a label of that name.
    fn pre_enqueue(&self, pod: &Labels, namespaces: &NamespaceStore) -> Gate {
        match pod.get("until") {
            Some(key) if !namespaces.labels("default").contains_key(key) => {
                Gate::Closed(Rejection::unresolvable("too early"))
            }
            _ => Gate::Open,
        }
    }
}

plugin!(Cpu);
impl Filter for Cpu {
    type Pod = Requests;
    type Node = (Allocatable, Requested);
    fn filter(&self, pod: &Resources, (has, used): (&Allocatable, &Requested)) -> Verdict {
        if pod.milli_cpu <= has.0.milli_cpu - used.0.milli_cpu {
            Verdict::Pass
        } else {
            Verdict::unschedulable("Insufficient cpu")
        }
    }
}

plugin!(Zone);
impl Filter for Zone {
    type Pod = Labels;
    type Node = Labels;
    fn filter(&self, pod: &Labels, node: &Labels) -> Verdict {
        if pod.get("zone").is_none_or(|zone| node.get("zone") == Some(zone)) {
            Verdict::Pass
        } else {
            Verdict::unresolvable("wrong zone")
        }
    }
}

plugin!(Invited);
impl Filter for Invited {
    type Pod = (PodKey, Labels);
    type Node = Labels;
    fn filter(&self, (pod, labels): (&PodKey, &Labels), node: &Labels) -> Verdict {
        if !labels.contains_key("invited") || node.get("guest") == Some(&pod.name) {
            Verdict::Pass
        } else {
            Verdict::unschedulable("not invited")
        }
    }
}

plugin!(Broken);
impl Filter for Broken {
    type Pod = Labels;
    type Node = Labels;
    fn filter(&self, pod: &Labels, node: &Labels) -> Verdict {
        match pod.get("broken") {
            Some(_) if node.contains_key("sound") => Verdict::Pass,
            Some(_) => Verdict::Fail(Rejection::error("cannot judge")),
            None => Verdict::Pass,
        }
    }
}

fn nominates(node: Str, victims: Vec<PodKey>) -> PostFilterAnswer {
    let nomination = Nomination { node, victims, broken_budgets: 0, says: "".into() };
    PostFilterAnswer::Nominated(nomination)
}

plugin!(Oust);
impl PostFilter for Oust {
    fn without_nodes(&self, pod: &PodInfo, _: bool) -> Option<PostFilterAnswer> {
        let says_so = pod.labels.get("oust").is_some();
        (!says_so).then(|| PostFilterAnswer::Unschedulable("".into()))
    }
    /// Evicts every pod of lower priority from the first node where that helps.
    fn post_filter(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> PostFilterAnswer {
        if let Some(answer) = self.without_nodes(pod, true) {
            return answer;
        }
        let could_help = |node: &&NodeRejection| node.rejection.code == Code::Unschedulable;
        for row in rejected.iter().filter(could_help).map(|node| node.row) {
            let mut node = dry_run.node(row);
            if let Ok(candidate) = self.select_victims(pod, &mut node, dry_run.view().stores) {
                let node = dry_run.view().nodes.name_of(row).clone();
                let victims = candidate.victims.to_vec();
                return nominates(node, victims);
            }
        }
        PostFilterAnswer::Hopeless("nobody to oust".into())
    }
    fn candidate_nodes(
        &self,
        pod: &PodInfo,
        rejected: &[NodeRejection],
        dry_run: &DryRun<'_>,
    ) -> Result<Vec<CandidateNode>, PostFilterAnswer> {
        if let Some(answer) = self.without_nodes(pod, true) {
            return Err(answer);
        }
        let could_help = |node: &&NodeRejection| node.rejection.code == Code::Unschedulable;
        let of = |row| {
            let mut node = dry_run.node(row);
            self.select_victims(pod, &mut node, dry_run.view().stores).ok()?;
            let all = dry_run.view().nodes.pods_on(row).iter();
            let victims = all.filter(|other| other.priority < pod.priority).cloned().collect();
            Some(CandidateNode { node: node.name().clone(), victims, broken_budgets: 0 })
        };
        let rows = rejected.iter().filter(could_help).map(|node| node.row);
        let found: Vec<CandidateNode> = rows.filter_map(of).collect();
        match found.as_slice() {
            [] => Err(PostFilterAnswer::Hopeless("nobody to oust".into())),
            _ => Ok(found),
        }
    }
}

impl PostFilterByNode for Oust {
    type Cluster = RefusedEvictions;
    fn without_dry_run(
        &self,
        _: &PodInfo,
        _: Option<(Row, Code)>,
        _: &View<'_>,
    ) -> Option<PostFilterAnswer> {
        None
    }
    fn select_victims(
        &self,
        pod: &PodInfo,
        node: &mut NodeDryRun<'_>,
        stores: &Stores,
    ) -> Result<PreemptionCandidate, Rejection> {
        let lower = node.pods().filter(|other| other.priority < pod.priority);
        let lower = lower.filter(|other| !stores.refused.contains(&other.key));
        let victims: Vec<PodKey> = lower.map(|other| other.key.clone()).collect();
        for victim in &victims {
            node.remove(victim);
        }
        match node.verdict() {
            Verdict::Pass if !victims.is_empty() => {
                Ok(PreemptionCandidate { cost: PreemptionCost::default(), victims: victims.into() })
            }
            Verdict::Pass => Err(Rejection::unresolvable("nobody to oust")),
            Verdict::Fail(why) => Err(why),
        }
    }
    fn choose(
        &self,
        _: &PodInfo,
        nodes: &mut dyn PreemptionCandidates,
    ) -> Option<PostFilterAnswer> {
        let Some((place, _)) = nodes.next(0..nodes.n_places()) else {
            return Some(PostFilterAnswer::Hopeless("nobody to oust".into()));
        };
        let (node, victims) = (nodes.node(place).clone(), nodes.victims(place));
        Some(nominates(node, victims))
    }
}

// Two reservations, to see the order in which they are given back.
/// Makes a filter that narrows the nodes down to those that a label or annotation names, separated by
/// `+`.
macro_rules! narrow {
    ($name:ident, $part:ty, $label:literal) => {
        plugin!($name);
        impl Filter for $name {
            type Pod = $part;
            type Node = Name;
            fn candidates(&self, pod: &Labels) -> Result<Candidates, Rejection> {
                Ok(pod.get($label).map_or(Candidates::All, |names| {
                    Candidates::Only(names.split('+').map(Str::from).collect())
                }))
            }
            fn filter(&self, pod: &Labels, node: &Str) -> Verdict {
                match pod.get($label) {
                    Some(names) if names.split('+').all(|name| name != node) => {
                        Verdict::unresolvable("not named")
                    }
                    _ => Verdict::Pass,
                }
            }
        }
    };
}
narrow!(Only, Labels, "only");
narrow!(Also, Annotations, "also");

plugin!(Refuse);
impl PreFilter for Refuse {
    type Pod = Labels;
    type Node = ();
    type Cluster = ();
    type State = ();
    fn applies(&self, pod: &Labels) -> bool {
        pod.contains_key("refuse")
    }
    fn pre_filter(&self, pod: &Labels, (): ()) -> Result<Option<()>, Rejection> {
        match pod.get("refuse").map(Str::as_str) {
            Some("now") => Err(Rejection::unschedulable("refused for now")),
            Some("always") => Err(Rejection::unresolvable("refused for good")),
            Some("error") => Err(Rejection::error("cannot look")),
            _ => Ok(None),
        }
    }
    fn filter(&self, (): &(), (): ()) -> Verdict {
        Verdict::Pass
    }
}

/// Makes a PostFilter plugin that says what a label tells it to.
macro_rules! help {
    ($name:ident, $label:literal) => {
        plugin!($name);
        impl PostFilter for $name {
            fn without_nodes(&self, pod: &PodInfo, _: bool) -> Option<PostFilterAnswer> {
                Some(match pod.labels.get($label).map(Str::as_str) {
                    Some("error") => PostFilterAnswer::Error("cannot help".into()),
                    Some("stop") => PostFilterAnswer::Stop("nobody can help".into()),
                    Some("judge") => return None,
                    Some(_) => {
                        PostFilterAnswer::Unschedulable(concat!($label, " is no help").into())
                    }
                    None => PostFilterAnswer::Unschedulable("".into()),
                })
            }
            fn post_filter(
                &self,
                pod: &PodInfo,
                rejected: &[NodeRejection],
                dry_run: &DryRun<'_>,
            ) -> PostFilterAnswer {
                self.without_nodes(pod, true).unwrap_or_else(|| {
                    let passes = |node: &&NodeRejection| dry_run.node(node.row).verdict().passes();
                    let n_pass = rejected.iter().filter(passes).count();
                    let judged = format!("{n_pass} of {} pass", rejected.len());
                    PostFilterAnswer::Unschedulable(judged.into())
                })
            }
        }
    };
}
help!(HelpA, "help-a");
help!(HelpB, "help-b");

plugin!(Like);
impl Score for Like {
    type Pod = Labels;
    type Node = Labels;
    fn applies(&self, pod: &Labels) -> bool {
        pod.get("likes").is_some()
    }
    fn error(&self, pod: &Labels) -> Option<String> {
        (pod.get("likes")? == "nonsense").then(|| "cannot be read".to_owned())
    }
    fn score(&self, pod: &Labels, node: &Labels) -> i64 {
        match pod.get("likes").map(Str::as_str) {
            Some("too-much") => 101,
            likes => i64::from(node.get("zone").map(Str::as_str) == likes),
        }
    }
}

plugin!(HoldA);
plugin!(HoldB);

/// What reservations have been given back, for the pod to tell.
macro_rules! hold {
    ($name:ident) => {
        impl Reserve for $name {
            type Reservation = ();
            fn reserve(&self, at: &Placement<'_>, _: &mut Handle<'_>) -> Result<(), Rejection> {
                match at.pod.labels.get("hold").is_some_and(|by| by == Self::NAME) {
                    true => Err(Rejection::unschedulable("reservation refused")),
                    false => Ok(()),
                }
            }
            fn unreserve(&self, (): (), _: &Placement<'_>, handle: &mut Handle<'_>) {
                let shared = &mut *handle.shared;
                let mut order = shared.read::<Vec<&'static str>>().cloned().unwrap_or_default();
                // The reservation made last is given back first.
                assert!(Self::NAME != "HoldA" || order.is_empty() || order == ["HoldB"]);
                order.push(Self::NAME);
                shared.write(order);
            }
        }
    };
}
hold!(HoldA);
hold!(HoldB);

plugin!(Disk);
impl Reserve for Disk {
    type Reservation = Option<Str>;
    fn reserve(
        &self,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<Option<Str>, Rejection> {
        let Some(name) = at.pod.labels.get("disk") else { return Ok(None) };
        let volume =
            at.view.stores.of::<PersistentVolume>().get(name).filter(|one| one.claim.is_none());
        let Some(volume) = volume else { return Err(Rejection::unschedulable("disk taken")) };
        let claim = Some(ClaimRef { key: at.pod.key.clone(), uid: Str::default() });
        handle.assume.is(PersistentVolume { claim, ..PersistentVolume::clone(volume) });
        Ok(Some(name.clone()))
    }
    fn unreserve(&self, held: Option<Str>, _: &Placement<'_>, handle: &mut Handle<'_>) {
        if let Some(name) = held {
            handle.assume.as_seen::<PersistentVolume>(&ObjectKey::new("", name));
        }
    }
}
impl PreBind for Disk {
    type Held = Option<Str>;
    fn pre_bind(&self, _: &Option<Str>, _: &Placement<'_>, _: &mut Handle<'_>) {}
    fn ready(&self, _: &Option<Str>, at: &Placement<'_>, _: &mut Handle<'_>) -> Readiness {
        if at.pod.labels.contains_key("stuck") { Readiness::Waiting } else { Readiness::Ready }
    }
    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }
    fn timed_out(&self, disk: &Option<Str>) -> Rejection {
        Rejection::error(format!("{} was stuck", disk.as_deref().unwrap_or("nothing")))
    }
}
impl Requeue for Disk {
    fn events(&self) -> Vec<ClusterEvent> {
        vec![ClusterEvent::of::<PersistentVolume>(Action::ADD | Action::UPDATE)]
    }
    fn hint(&self, pod: &PodInfo, change: &Change<'_>) -> Hint {
        let after = change.of::<PersistentVolume>().and_then(|of| of.after);
        match after.is_some_and(|volume| pod.labels.get("disk") == Some(&volume.name)) {
            true => Hint::Queue,
            false => Hint::Skip,
        }
    }
}

plugin!(Group);
impl Permit for Group {
    fn permit(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Permission {
        let waiting = &mut handle.waiting;
        match at.pod.labels.get("permit").map(Str::as_str) {
            Some("deny") => Permission::Deny(Rejection::unschedulable("permit denied")),
            Some("wait") => Permission::Wait(Duration::from_secs(20)),
            Some("waver") => {
                let keys: Vec<_> = waiting.iter().map(|one| one.pod.key.clone()).collect();
                for key in keys {
                    waiting.allow(&key);
                    waiting.reject(&key, "thought better of it");
                }
                Permission::Approve
            }
            Some("release") => {
                let keys: Vec<_> = waiting.iter().map(|one| one.pod.key.clone()).collect();
                for key in keys {
                    waiting.allow(&key);
                }
                Permission::Approve
            }
            _ => Permission::Approve,
        }
    }
}

plugin!(Second);
impl Permit for Second {
    fn permit(&self, at: &Placement<'_>, _: &mut Handle<'_>) -> Permission {
        match at.pod.labels.get("second").map(Str::as_str) {
            Some("wait") => Permission::Wait(Duration::from_secs(10)),
            _ => Permission::Approve,
        }
    }
}

plugin!(Prepare);
impl PreBind for Prepare {
    type Held = ();
    fn pre_bind(&self, (): &(), at: &Placement<'_>, handle: &mut Handle<'_>) {
        if at.pod.labels.contains_key("prepare") {
            let merge = json!({"metadata": {"annotations": {"prepared": "yes"}}});
            handle.writes.patch::<Pod>(at.pod.key.clone(), merge);
        }
    }
    fn ready(&self, (): &(), at: &Placement<'_>, _: &mut Handle<'_>) -> Readiness {
        let Some(zone) = at.pod.labels.get("prepare") else { return Readiness::Ready };
        // Ready once the namespace has the label.
        match at.view.stores.of::<Namespace>().labels("default").get(zone) {
            Some(value) if value == "never" => {
                Readiness::Failed(Rejection::unschedulable("will never be ready"))
            }
            Some(_) => Readiness::Ready,
            None if zone == "yes" => Readiness::Ready,
            None => Readiness::Waiting,
        }
    }
    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }
}

plugin!(Attach);
impl Reserve for Attach {
    type Reservation = ();
    fn applies(&self, pod: &PodInfo) -> bool {
        pod.labels.contains_key("attach")
    }
    fn reserve(&self, at: &Placement<'_>, handle: &mut Handle<'_>) -> Result<(), Rejection> {
        handle.writes.create::<Namespace>(at.pod.key.clone(), json!({"at": at.node}));
        Ok(())
    }
    fn unreserve(&self, (): (), at: &Placement<'_>, handle: &mut Handle<'_>) {
        handle.writes.delete::<Namespace>(at.pod.key.clone(), "");
    }
}
impl Answered for Attach {
    fn answered(
        &self,
        write: &ObjectWrite,
        answer: &Result<(), WriteError>,
        at: &Placement<'_>,
        handle: &mut Handle<'_>,
    ) -> Result<(), Rejection> {
        let Err(error) = answer else { return Ok(()) };
        match at.pod.labels.get("attach").map(Str::as_str) {
            Some("anyway") => Ok(()),
            Some("stubborn") => {
                handle.writes.again(write);
                Ok(())
            }
            _ => Err(Rejection::unschedulable(format!("{:?}: {error}", error.cause))),
        }
    }
}

plugin!(Elsewhere);
impl Bind for Elsewhere {
    fn bind(&self, at: &Placement<'_>, _: &mut Handle<'_>) -> Option<Binding> {
        at.pod.labels.get("bind").map(|node| Binding { node: node.clone() })
    }
}

plugin!(Binder);
impl Bind for Binder {
    fn bind(&self, at: &Placement<'_>, _: &mut Handle<'_>) -> Option<Binding> {
        Some(Binding { node: at.node.clone() })
    }
}

plugin!(Notes);
impl PostBind for Notes {
    fn post_bind(&self, at: &Placement<'_>, handle: &mut Handle<'_>) {
        let waiting: Vec<_> = handle.waiting.iter().map(|one| one.pod.key.clone()).collect();
        match at.pod.labels.get("note").map(Str::as_str) {
            None => {}
            Some("release") => {
                for pod in &waiting {
                    handle.waiting.allow_as(Group::NAME, pod);
                }
            }
            Some("reject") => {
                let why = "somebody else was faster";
                for pod in &waiting {
                    handle.waiting.reject_as(Group::NAME, pod, why);
                }
            }
            Some(_) => {
                let merge = json!({"metadata": {"annotations": {"note": "bound"}}});
                handle.writes.patch::<Pod>(at.pod.key.clone(), merge);
            }
        }
    }
}

/// All of them.
pub(super) fn registry() -> Registry {
    Registry::new(entries())
}

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::of::<Sort>().queue_sort().done(),
        Entry::of::<Gates>().pre_enqueue().done(),
        Entry::of::<Until>().pre_enqueue().done(),
        Entry::of::<Cpu>().filter().done(),
        Entry::of::<Zone>().filter().done(),
        Entry::of::<Invited>().filter().done(),
        Entry::of::<Broken>().filter().done(),
        Entry::of::<Oust>().post_filter_by_node().done(),
        Entry::of::<Only>().filter().at(Point::PreFilter).done(),
        Entry::of::<Also>().filter().at(Point::PreFilter).done(),
        Entry::of::<Refuse>().pre_filter().done(),
        Entry::of::<HelpA>().post_filter().done(),
        Entry::of::<HelpB>().post_filter().done(),
        Entry::of::<Like>().score().done(),
        Entry::of::<HoldA>().reserve().done(),
        Entry::of::<HoldB>().reserve().done(),
        Entry::of::<Disk>().reserve_and_pre_bind().requeue().done(),
        Entry::of::<Group>().permit().done(),
        Entry::of::<Second>().permit().done(),
        Entry::of::<Prepare>().pre_bind().done(),
        Entry::of::<Attach>().reserve().answered().done(),
        Entry::of::<Elsewhere>().bind().done(),
        Entry::of::<Binder>().bind().done(),
        Entry::of::<Notes>().post_bind().done(),
    ]
}
