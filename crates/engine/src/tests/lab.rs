//! A scheduler in virtual time, with a world that does as the script says.

mod extenders;
mod groups;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use plimsoll_api::{
    ClaimRef, Labels, Namespace, Node, PersistentVolume, Pod, PodKey, Resources, Str, Timestamp,
};
use plimsoll_framework::{
    Entry, FeatureGates, Point, Registry, Release, Time, WriteCause, WriteVerb,
};

use super::plugins::{entries, registry};
use crate::metrics::Family;
use crate::{
    Detail, Effect, EffectId, Event, Next, Observation, Options, Outcome, Profile, ProfileSpec,
    Recorder, Scheduler, Write, WriteError,
};

/// What becomes of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WriteFate {
    /// It is done at once.
    #[default]
    Works,
    /// It fails at once.
    Fails,
    /// It is never answered.
    Hangs,
    /// It is done at once, but a pod that must go does not go.
    Lingers,
}

/// A scheduler, its world, and the trace of what happened.
pub(super) struct Lab {
    scheduler: Scheduler,
    now: Time,
    pods: BTreeMap<PodKey, Pod>,
    binds: WriteFate,
    patches: WriteFate,
    evictions: WriteFate,
    hanging: BTreeSet<(EffectId, PodKey)>,
    /// Questions that extenders have not answered, by extender and pod.
    calls: BTreeMap<(Str, Str), EffectId>,
    trace: String,
}

impl Default for Lab {
    fn default() -> Self {
        Lab::new(Options::default())
    }
}

impl Lab {
    /// Five profiles: `lab` with every plugin, `other-lab` with all but the filters, `filters-lab` with nothing
    /// after them, `thorough-lab`, which runs all filters, and `plain-lab` without the filter that reads what pods are called.
    pub(super) fn new(options: Options) -> Self {
        let all = |_| true;
        let no_filters = |point| point != Point::Filter;
        let nothing_after = |point| point != Point::PostFilter;
        let thorough = ProfileSpec { run_all_filters: true, ..spec("thorough-lab", None, all) };
        let mut plain = spec("plain-lab", None, all);
        plain.points.values_mut().for_each(|all| all.retain(|(name, _)| name != "Invited"));
        let specs = [
            spec("lab", None, all),
            spec("other-lab", None, no_filters),
            spec("filters-lab", None, nothing_after),
            thorough,
            plain,
        ];
        let profiles = specs.iter().map(|spec| made(spec, options.release)).collect();
        let options = Options { detail: Detail::Outcome, audit_every: 1, ..options };
        let scheduler = Scheduler::new(profiles, options, 0);
        Lab::of(scheduler.expect("all profiles order the queue alike"))
    }

    /// A lab with this scheduler.
    fn of(scheduler: Scheduler) -> Self {
        Lab {
            scheduler,
            now: Time::ZERO,
            pods: BTreeMap::new(),
            binds: WriteFate::Works,
            patches: WriteFate::Works,
            evictions: WriteFate::Works,
            hanging: BTreeSet::new(),
            calls: BTreeMap::new(),
            trace: String::new(),
        }
    }
}

/// A profile with every plugin at the points that `at` says.
pub(crate) fn profile(
    scheduler_name: &str,
    percentage_of_nodes_to_score: Option<u8>,
    at: impl Fn(Point) -> bool,
) -> Profile {
    made(&spec(scheduler_name, percentage_of_nodes_to_score, at), Release::NEWEST)
}

/// A profile with a plugin at all its points, and with plugins of the lab.
pub(crate) fn profile_of(own: Entry, others: &[&str]) -> Profile {
    let others = entries().into_iter().filter(|one| others.contains(&one.name()));
    let registry = Registry::new(others.chain([own]));
    let spec = spec_of(&registry, "lab", None, |_| true);
    Profile::new(&spec, &registry, &FeatureGates::default()).expect("the plugins make a profile")
}

fn spec(
    scheduler_name: &str,
    percentage_of_nodes_to_score: Option<u8>,
    at: impl Fn(Point) -> bool,
) -> ProfileSpec {
    spec_of(&registry(), scheduler_name, percentage_of_nodes_to_score, at)
}

/// The same with the plugins of a registry.
fn spec_of(
    registry: &Registry,
    scheduler_name: &str,
    percentage_of_nodes_to_score: Option<u8>,
    at: impl Fn(Point) -> bool,
) -> ProfileSpec {
    let mut spec = ProfileSpec {
        scheduler_name: scheduler_name.into(),
        percentage_of_nodes_to_score,
        ..ProfileSpec::default()
    };
    for entry in registry.iter() {
        for &point in entry.points().iter().filter(|&&point| at(point)) {
            spec.points.entry(point).or_default().push((entry.name().to_owned(), 1));
        }
    }
    spec
}

fn made(spec: &ProfileSpec, release: Release) -> Profile {
    let gates = FeatureGates::of(release);
    Profile::new(spec, &registry(), &gates).expect("the plugins make a profile")
}

impl Lab {
    /// Does what a line says, after everything that is due before it.
    ///
    /// `5 pod p cpu=1 prio=2 gate=g on=NODE uid=u version=1 unreadable=WHY leaves=yes nominated=NODE
    /// for=SCHEDULER also=NODE of=GROUP KEY=LABEL...` ·
    /// `5 node a cpu=4 taint=KEY cordoned=yes KEY=LABEL...` · `5 delete pod p` · `5 delete node a` ·
    /// `5 namespace KEY=LABEL...` · `5 disk d [OWNER]` · `5 binds fail|work|hang` · `5 patches ...` ·
    /// `5 evictions ...` · `5 answer p ok|fail` · `5 allow p PLUGIN` · `5 reject p PLUGIN` · `5 wait` ·
    /// `5 extender e ...` · `5 reply e p ...`, as [`extenders`] says · `5 group g ...`, as [`groups`] says
    pub(super) fn act(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at: i64 = words[0].parse().expect("a line begins with a time in seconds");
        self.advance(Time::from_millis(at * 1000));
        match &words[1..] {
            ["pod", name, what @ ..] => {
                let pod = pod(name, what);
                self.pods.insert(pod.key.clone(), pod.clone());
                self.tell(Event::pod(pod));
            }
            ["node", name, what @ ..] => {
                self.tell(Event::Node(Box::new(Observation::Is(node(name, what)))));
            }
            ["delete", "pod", name] => {
                self.pods.remove(&key(name));
                self.tell(Event::pod_gone(key(name)));
            }
            ["delete", "node", name] => {
                self.tell(Event::Node(Box::new(Observation::Gone(Str::from(*name)))));
            }
            ["namespace", what @ ..] => {
                let labels: Labels = what.iter().map(|word| pair(word)).collect();
                let namespace = Namespace { name: "default".into(), labels };
                self.tell(Event::object(namespace));
            }
            ["disk", name, what @ ..] => self.tell(disk(name, what)),
            ["binds", how] => self.binds = manner(how),
            ["patches", how] => self.patches = manner(how),
            ["evictions", how] => self.evictions = manner(how),
            ["answer", name, how] => {
                let found = self.hanging.iter().find(|(_, pod)| *pod == key(name)).cloned();
                let (id, pod) = found.expect("a write of the pod hangs");
                self.hanging.remove(&(id, pod.clone()));
                self.answer(id, &pod, manner(how));
            }
            ["allow", name, plugin] => self.scheduler.allow_waiting_pod(&key(name), plugin),
            ["reject", name, plugin] => {
                self.scheduler.reject_waiting_pod(&key(name), plugin, "not today");
            }
            ["group", name, what @ ..] => self.tell(Event::object(groups::group(name, what))),
            ["extender", name, what @ ..] => self.add_extender(name, what),
            ["reply", extender, name, what @ ..] => self.reply(extender, name, what),
            ["wait"] => {}
            other => panic!("{other:?} is no verb"),
        }
        self.settle();
    }

    /// Shows this, too, what happens.
    pub(super) fn record_to(&mut self, recorder: Box<dyn Recorder>) {
        self.scheduler.record_to(recorder);
    }

    /// All that was counted.
    pub(super) fn metrics(&self) -> Vec<Family> {
        self.scheduler.metrics()
    }

    /// How many decisions were made from memory.
    pub(super) fn audited(&self) -> u64 {
        self.scheduler.audit().audited
    }

    /// What is remembered and differs from what is derived anew.
    pub(super) fn audit_memory(&mut self) -> Vec<String> {
        self.scheduler.audit_memory()
    }

    /// How often what is remembered was derived from all nodes.
    pub(super) fn node_sets_built(&self) -> usize {
        self.scheduler.memo.as_ref().map_or(0, |memo| memo.n_built)
    }

    /// How often all nodes were judged for a ranking.
    pub(super) fn rankings_made(&self) -> usize {
        self.scheduler.memo.as_ref().map_or(0, |memo| memo.n_ranked)
    }

    /// What happened, a line each. Every decision that was made from memory was audited.
    pub(super) fn trace(self) -> String {
        let differences = &self.scheduler.audit().differences;
        assert!(differences.is_empty(), "{differences:#?}");
        self.trace
    }

    fn advance(&mut self, to: Time) {
        assert!(self.now <= to, "time does not go back");
        while let Some(time) = self.settle().filter(|time| *time <= to) {
            self.now = time;
        }
        self.now = to;
    }

    /// Works until nothing is left to do now; when something is due next.
    fn settle(&mut self) -> Option<Time> {
        for _ in 0..1000 {
            let mut effects = Vec::new();
            let next = self.scheduler.step(self.now, &mut effects);
            self.decided();
            // The world answers, so what the scheduler said of the time to come holds no longer.
            let answered = !effects.is_empty();
            for effect in effects {
                self.perform(effect);
            }
            match next {
                _ if answered => {}
                Next::Again => {}
                Next::At(time) => return Some(time),
                Next::Idle => return None,
            }
        }
        panic!("the scheduler never rests at {}", self.now);
    }

    fn decided(&mut self) {
        for decision in self.scheduler.take_decisions() {
            let name = decision.pod.name.clone();
            let attempt = decision.attempt;
            let text = match decision.outcome {
                Outcome::Scheduled { node, .. } => format!("{name} #{attempt} -> {node}"),
                Outcome::Unschedulable { message, .. } => format!("{name} #{attempt} !! {message}"),
                Outcome::Error { message } => format!("{name} #{attempt} error: {message}"),
            };
            self.note(&text);
        }
        self.groups_decided();
    }

    fn perform(&mut self, effect: Effect) {
        let name = effect.pod.key.name.clone();
        match effect.write {
            Write::Bind(binding) => {
                self.note(&format!("bind {name} to {}", binding.node));
                if let Some(pod) = self.pods.get_mut(&effect.pod.key)
                    && self.binds == WriteFate::Works
                {
                    pod.node_name = Some(binding.node);
                }
                self.answer(effect.id, &effect.pod.key, self.binds);
            }
            Write::Object(write) => {
                let what = match &write.verb {
                    WriteVerb::Create(manifest) | WriteVerb::Update(manifest) => {
                        manifest.to_string()
                    }
                    WriteVerb::Patch { merge, .. } => merge.to_string(),
                    WriteVerb::Delete { uid } => uid.to_string(),
                };
                self.note(format!("{} {name} {what}", write.verb.as_str()).trim_end());
                self.answer(effect.id, &effect.pod.key, self.patches);
            }
            Write::Evict(eviction) => {
                self.note(&format!("evict {} for {name}", eviction.victim.key.name));
                self.answer(effect.id, &effect.pod.key, self.evictions);
                if self.evictions == WriteFate::Works {
                    self.pods.remove(&eviction.victim.key);
                    self.tell(Event::pod_gone(eviction.victim.key.clone()));
                }
            }
            Write::Nominate(node) => {
                self.note(&format!("nominate {name} to {}", node.as_deref().unwrap_or("nothing")));
                if let Some(pod) = self.pods.get_mut(&effect.pod.key) {
                    pod.nominated_node = node;
                    let pod = pod.clone();
                    self.tell(Event::pod(pod));
                }
            }
            Write::Extender(call) => self.call(effect.id, &name, &call),
            Write::Record(record) if record.reason == "FailedWrite" => {
                self.note(&format!("{name} at {}: {}", record.action, record.note));
            }
            // Decisions tell the same.
            Write::Condition(_) | Write::GroupCondition(_) | Write::Record(_) => {}
        }
    }

    fn answer(&mut self, id: EffectId, pod: &PodKey, manner: WriteFate) {
        match manner {
            WriteFate::Works | WriteFate::Lingers => self.tell(Event::Done(id, Ok(()))),
            WriteFate::Fails => {
                self.tell(Event::Done(id, Err(WriteError::new(WriteCause::Refused, "refused"))));
            }
            WriteFate::Hangs => {
                self.hanging.insert((id, pod.clone()));
            }
        }
        if let Some(pod) = self.pods.get(pod).filter(|pod| pod.node_name.is_some()).cloned() {
            self.tell(Event::pod(pod));
        }
    }

    fn tell(&mut self, event: Event) {
        self.scheduler.observe(self.now, event);
    }

    fn note(&mut self, text: &str) {
        writeln!(self.trace, "{}s {text}", self.now.millis() / 1000).expect("text can grow");
    }
}

fn manner(word: &str) -> WriteFate {
    match word {
        "work" | "ok" => WriteFate::Works,
        "fail" => WriteFate::Fails,
        "hang" => WriteFate::Hangs,
        "linger" => WriteFate::Lingers,
        other => panic!("{other:?} is no manner"),
    }
}

fn key(name: &str) -> PodKey {
    PodKey::new("default", name)
}

fn pair(word: &str) -> (&str, &str) {
    word.split_once('=').expect("written as KEY=VALUE")
}

fn cpu(value: &str) -> Resources {
    let milli_cpu = 1000 * value.parse::<i64>().expect("whole cores");
    Resources { milli_cpu, ..Resources::default() }
}

pub(crate) fn pod(name: &str, what: &[&str]) -> Pod {
    let mut pod = Pod { key: key(name), ..Pod::default() };
    pod.scheduler_name = "lab".into();
    let mut labels = Vec::new();
    for (key, value) in what.iter().map(|word| pair(word)) {
        match key {
            "cpu" => {
                pod.requests = cpu(value);
                pod.asks.fit = cpu(value);
            }
            "gpu" => {
                pod.asks.fit.scalar.insert("example.com/gpu".into(), 1);
            }
            "prio" => pod.priority = value.parse().expect("a priority is a number"),
            "gate" => pod.scheduling_gates.push(value.into()),
            "nominated" => pod.nominated_node = Some(value.into()),
            "on" => pod.node_name = Some(value.into()),
            "uid" => pod.uid = value.into(),
            "version" => pod.edition.resource_version = value.into(),
            "unreadable" => pod.unreadable = Some(value.into()),
            "leaves" => pod.deletion = Some(Timestamp::default()),
            "for" => pod.scheduler_name = value.into(),
            "of" => pod.scheduling_group = Some(value.into()),
            "also" => pod.annotations = [(key, value)].into_iter().collect(),
            _ => labels.push((key, value)),
        }
    }
    pod.labels = labels.into_iter().collect();
    pod
}

fn disk(name: &str, what: &[&str]) -> Event {
    let claim = match what {
        [] => None,
        [by] => Some(ClaimRef { key: key(by), uid: Str::default() }),
        other => panic!("a disk has one owner, not {other:?}"),
    };
    let volume = PersistentVolume { name: name.into(), claim, ..PersistentVolume::default() };
    Event::object(volume)
}

pub(crate) fn node(name: &str, what: &[&str]) -> Node {
    let mut node = Node { name: name.into(), ..Node::default() };
    let mut labels = Vec::new();
    for (key, value) in what.iter().map(|word| pair(word)) {
        match key {
            "cpu" => node.allocatable = cpu(value),
            "cordoned" => node.unschedulable = true,
            "taint" => node.taints.push(plimsoll_api::Taint {
                key: value.into(),
                value: Str::default(),
                effect: plimsoll_api::Effect::NoSchedule,
            }),
            _ => labels.push((key, value)),
        }
    }
    node.labels = labels.into_iter().collect();
    node
}
