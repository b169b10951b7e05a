//! Answers the page about files: a cluster, a journal, or both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use plimsoll_advisor::{Manifests, Reference};
use plimsoll_api::{Kinds, Pod, PodKey};
use plimsoll_config::Configuration;
use plimsoll_engine::{ClusterSnapshot, QueuePlace, QueuedPodInfo, Scheduler};
use plimsoll_framework::pod_groups::group_of;
use plimsoll_framework::{GroupForest, GroupRef, Registry, Time};
use plimsoll_journal::{JournalError, Reader};
use plimsoll_kube::serve::{AdviceError, Advisor, CapacityRequest, OPENAPI};
use plimsoll_sim::{InitialCluster, Simulation};
use plimsoll_ui::{
    Chart, ClusterAndQueue, Failure, KnownDecision, Line, Picture, Question, SeenConfiguration,
    Source, Timeline, Views, WhyGroupQuestion, WhyQuestion,
};
use serde_json::{Value, json};

use super::{Answers, Deciders};
use crate::canary::{Canaries, CanaryChoice, CanaryFlags};
use crate::input;
use crate::options::{self, Setup};
use crate::{args, caveats};

/// At most so many attempts of a pod are shown, and so many pods in a list of the journal.
const MOST_ENTRIES: usize = 200;

/// At most so many hours of a journal are shown: two weeks.
const MOST_HOURS: usize = 14 * 24;

/// How often the page hears of pods that were decided since.
const NEWS: Duration = Duration::from_secs(1);

/// The kinds of objects that could be changed for a pod or a group, besides pods and nodes.
const CHANGED: [&str; 9] = [
    "CSINode",
    "CSIStorageCapacity",
    "CompositePodGroup",
    "PersistentVolumeClaim",
    "PodGroup",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
    "StorageClass",
];

/// A picture is made again after so many times the span that making it took.
const REST: u32 = 20;

/// Answers the page about files.
pub(crate) struct FilesSource {
    answers: Answers,
    configuration: Value,
    cluster: Option<FilesCluster>,
    journal: Option<Mutex<Reader>>,
    views: Views,
    picture: Mutex<Arc<Picture>>,
    version: AtomicU64,
}

/// A cluster that files describe.
struct FilesCluster {
    /// Knows the cluster, and has decided nothing.
    scheduler: Mutex<Scheduler>,
    now: Time,
    snapshot: ClusterSnapshot,
    queue: Vec<QueuedPodInfo>,
    sources: Vec<input::Source>,
    kinds: Kinds,
    /// The rules that let other profiles decide pods, by pod: also of pods on nodes, for questions about these.
    chosen: BTreeMap<PodKey, CanaryChoice>,
    /// The manifests of the pending pods and of those of groups, and of what could be changed for them, once they were asked for.
    manifests: OnceLock<BTreeMap<String, Value>>,
}

impl FilesSource {
    /// Reads the files.
    pub(crate) fn read(
        (args, canary): (&args::Cluster, &CanaryFlags),
        journal: Option<&Path>,
        registry: &Arc<Registry>,
    ) -> Result<Arc<Self>> {
        let sources = input::read(&args.files)?;
        let setup = Setup::choose(args, &sources, registry)?;
        let canaries = Canaries::new(canary, &setup)?;
        let default = {
            let gates = options::given_gates(setup.gates.release(), &args.feature_gates)?;
            Configuration::default_for(&options::catalogue(registry, &gates)).effective
        };
        let written = |configuration| {
            serde_json::to_value(configuration).context("cannot write the configuration as JSON")
        };
        let default = written(&default)?;
        let configuration =
            SeenConfiguration::new(written(&setup.configuration.effective)?, &default);
        let cluster = (!args.files.is_empty()).then(|| {
            let kinds = registry.kinds();
            let cluster = input::load(&sources, setup.config_map.as_ref(), &kinds, &setup.gates)?;
            caveats::before(&cluster);
            let deciders = Deciders::of(&setup, registry);
            FilesCluster::new(cluster, (sources, kinds), deciders, canaries.as_ref())
        });
        let cluster = cluster.transpose()?;
        let journal = journal.map(Reader::open).transpose()?;
        let views = Views {
            cluster: cluster.is_some(),
            history: journal.is_some(),
            journal: journal.is_some(),
            timeline: journal.is_some(),
            configuration: true,
            ..Views::default()
        };
        let picture = picture_of(cluster.as_ref(), BTreeMap::new(), views);
        Ok(Arc::new(FilesSource {
            answers: Answers::new(
                &setup,
                registry.clone(),
                (Vec::new(), canaries),
                setup.options(),
            ),
            configuration: serde_json::to_value(&configuration)
                .context("cannot write the configuration as JSON")?,
            cluster,
            journal: journal.map(Mutex::new),
            views,
            picture: Mutex::new(Arc::new(picture)),
            version: AtomicU64::new(1),
        }))
    }

    /// Decides the pending pods on a thread of its own, each as if it were the next one, so that lists can say why they are
    /// pending. The thread ends with the process.
    pub(crate) fn decide_pending_pods(self: &Arc<Self>) {
        let source = self.clone();
        std::thread::spawn(move || source.decide_all());
    }

    fn decide_all(&self) {
        let Some(cluster) = &self.cluster else { return };
        let ready = cluster.queue.iter().filter(|info| info.place == QueuePlace::Active);
        let mut ready = ready.map(|info| &info.pod.key).peekable();
        let (mut decisions, mut told, mut rest) = (BTreeMap::new(), Instant::now(), NEWS);
        while let Some(key) = ready.next() {
            let decision = lock(&cluster.scheduler).explain(key);
            let known = decision.map(|decision| match decision.outcome.node() {
                Ok(node) => KnownDecision::Fits(node.clone()),
                Err(why) => KnownDecision::Rejected(why.into_owned()),
            });
            decisions.extend(known.map(|known| (key.clone(), known)));
            if rest <= told.elapsed() || ready.peek().is_none() {
                let begin = Instant::now();
                let picture = picture_of(Some(cluster), decisions.clone(), self.views);
                *lock(&self.picture) = Arc::new(picture);
                self.version.fetch_add(1, Ordering::Relaxed);
                told = Instant::now();
                rest = NEWS.max((told - begin).saturating_mul(REST));
            }
            // A question about one pod need not wait for all others.
            std::thread::yield_now();
        }
    }

    fn cluster(&self) -> Result<&FilesCluster, Failure> {
        self.cluster.as_ref().ok_or_else(|| {
            Failure::NotFound("there is no cluster: start `plimsoll serve` with -f FILE".to_owned())
        })
    }

    fn journal(&self) -> Result<MutexGuard<'_, Reader>, Failure> {
        self.journal.as_ref().map(lock).ok_or_else(|| {
            Failure::NotFound(
                "there is no journal: start `plimsoll serve` with --journal FILE".to_owned(),
            )
        })
    }
}

impl FilesCluster {
    fn new(
        mut cluster: InitialCluster,
        (sources, kinds): (Vec<input::Source>, Kinds),
        deciders: Deciders<'_>,
        canaries: Option<&Canaries>,
    ) -> Result<Self> {
        let mut chosen = BTreeMap::new();
        if let Some(canaries) = canaries {
            let choices = cluster.pods.iter();
            let choices = choices.filter_map(|pod| Some((pod.key.clone(), canaries.choice(pod)?)));
            chosen.extend(choices);
            canaries.assign(&mut cluster);
        }
        let simulation = Simulation::new(deciders.scheduler()?, cluster);
        let now = simulation.now();
        let scheduler = simulation.into_scheduler();
        Ok(FilesCluster {
            snapshot: scheduler.snapshot(now),
            queue: scheduler.pending().cloned().collect(),
            scheduler: Mutex::new(scheduler),
            now,
            sources,
            kinds,
            chosen,
            manifests: OnceLock::new(),
        })
    }

    /// The manifest of an object, as the files have it; `None` for those that no change of a pending pod or of a group is about.
    fn manifest(&self, name: &str) -> Option<Value> {
        let manifests = self.manifests.get_or_init(|| {
            let pending = self.queue.iter().map(|info| &info.pod.key);
            // A group is copied with its pods on nodes, too.
            let members = self.snapshot.pods.iter().filter(|pod| pod.scheduling_group.is_some());
            let pods = pending.chain(members.map(|pod| &pod.key));
            let pods: BTreeSet<String> = pods.map(|key| format!("Pod {key}")).collect();
            input::manifests_named(&self.sources, &self.kinds, |name| {
                let kind = name.split(' ').next().unwrap_or_default();
                CHANGED.contains(&kind) || pods.contains(name)
            })
        });
        manifests.get(name).cloned()
    }
}

impl Source for FilesSource {
    fn answer(&self, question: &Question) -> Result<String, Failure> {
        let picture = lock(&self.picture).clone();
        if let Some(answer) = picture.answer(question, &|_| true) {
            return answer;
        }
        if *question == Question::Configuration {
            return Ok(self.configuration.to_string());
        }
        if let Question::Shadow(_) = question {
            let why = "files are not compared with a scheduler: `plimsoll shadow --secure-port PORT` serves its report";
            return Err(Failure::NotFound(why.to_owned()));
        }
        let journal = self.journal()?;
        let answer = match question {
            Question::History(pod) => history(&journal, pod),
            Question::Journal => notable(&journal),
            _ => timeline(&journal).map(|timeline| json!(timeline)),
        };
        answer.map(|answer| answer.to_string()).map_err(|error| Failure::Failed(error.to_string()))
    }

    fn why(&self, question: &WhyQuestion) -> Result<Value, Failure> {
        let cluster = self.cluster()?;
        let WhyQuestion { pod, remedies, nearest, with_text } = question;
        let mut scheduler = lock(&cluster.scheduler);
        if !scheduler.knows_pod(pod) {
            let why = format!(
                "pod {pod} is not known: it is not in the files, another scheduler is to place it, or it has ended"
            );
            return Err(Failure::NotFound(why));
        }
        let manifest = cluster.manifest(&format!("Pod {pod}")).unwrap_or_default();
        let find = |object: &Reference| cluster.manifest(&object.to_string());
        let (about, wanted) = ((pod, &manifest, Manifests::by(&find)), (*remedies, *nearest));
        let choice = cluster.chosen.get(pod);
        let is_placed = scheduler.queued_pod(pod).is_none();
        let answer = if let Some(choice) = choice.filter(|_| is_placed) {
            drop(scheduler);
            let snapshot = cluster.snapshot.clone();
            self.answers.why_by_canary(snapshot, choice, about, wanted, *with_text)
        } else {
            let on = (&mut *scheduler, cluster.now);
            self.answers.why_on(on, about, wanted, (choice, *with_text))
        };
        answer.map_err(|error| Failure::Failed(format!("{error:#}")))
    }

    fn why_group(&self, question: &WhyGroupQuestion) -> Result<Value, Failure> {
        let cluster = self.cluster()?;
        let WhyGroupQuestion { group, remedies, with_text } = question;
        let leaves = {
            let scheduler = lock(&cluster.scheduler);
            let stores = scheduler.view().stores;
            let forest = GroupForest::of(stores, scheduler.group_gates());
            match (stores.groups.get(group), forest.composite(group)) {
                (None, Some(_)) => forest.leaves(&GroupRef::Composite(group.clone())),
                (_, _) => vec![group.clone()],
            }
        };
        let is_member = |pod: &Pod| group_of(pod).is_some_and(|group| leaves.contains(&group));
        let mut members = cluster.snapshot.pods.iter().filter(|pod| is_member(pod));
        let choice = members.next().and_then(|pod| cluster.chosen.get(&pod.key));
        let find = |object: &Reference| cluster.manifest(&object.to_string());
        let snapshot = cluster.snapshot.clone();
        let answer =
            self.answers.why_group_on(snapshot, group, &find, (*remedies, choice, *with_text));
        answer.map_err(failure)
    }

    fn what_if(&self, request: &Value) -> Result<Value, Failure> {
        let snapshot = self.cluster()?.snapshot.clone();
        self.answers.what_if(snapshot, request).map_err(failure)
    }

    fn capacity(&self, request: &Value) -> Result<Value, Failure> {
        let cluster = self.cluster()?;
        let request = CapacityRequest::read(request).map_err(Failure::Wrong)?;
        let find = |object: &Reference| cluster.manifest(&object.to_string());
        let on = (cluster.snapshot.clone(), &find as &dyn Fn(&Reference) -> Option<Value>);
        self.answers.capacity_of(&request, on, &BTreeSet::new()).map_err(failure)
    }

    fn rebalance(&self, request: &Value) -> Result<Value, Failure> {
        let snapshot = self.cluster()?.snapshot.clone();
        self.answers.rebalance(snapshot, request).map_err(failure)
    }

    fn description(&self) -> &'static str {
        OPENAPI
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }
}

fn picture_of(
    cluster: Option<&FilesCluster>,
    decisions: BTreeMap<PodKey, KnownDecision>,
    views: Views,
) -> Picture {
    if let Some(cluster) = cluster {
        return Picture::of(&lock(&cluster.scheduler), cluster.now, decisions, views);
    }
    let nothing = ClusterSnapshot {
        taken: Time::ZERO,
        nodes: Vec::new(),
        pods: Vec::new(),
        nominated: Vec::new(),
        objects: Vec::new(),
    };
    Picture::new(ClusterAndQueue { cluster: nothing, queue: Vec::new() }, decisions, views)
}

/// Attempts by hour.
fn timeline(journal: &Reader) -> Result<Timeline, JournalError> {
    let hours = journal.hours(MOST_HOURS)?;
    #[expect(clippy::cast_precision_loss, reason = "a chart shows three digits")]
    let value = |n: i64| Some(n as f64);
    let plugins = hours.iter().flat_map(|hour| hour.rejected.keys().cloned());
    let plugins: BTreeSet<String> = plugins.collect();
    let rejected = plugins.into_iter().map(|plugin| Line {
        values: hours
            .iter()
            .map(|hour| value(hour.rejected.get(&plugin).copied().unwrap_or(0)))
            .collect(),
        name: plugin,
    });
    let scheduled = Line {
        name: "scheduled".to_owned(),
        values: hours.iter().map(|hour| value(hour.scheduled)).collect(),
    };
    Ok(Timeline {
        at: hours.iter().map(|hour| hour.hour).collect(),
        charts: vec![
            Chart { title: "Attempts that found a node", unit: "an hour", lines: vec![scheduled] },
            Chart {
                title: "Attempts that a plugin rejected",
                unit: "an hour",
                lines: rejected.collect(),
            },
        ],
    })
}

/// The attempts to schedule a pod, and the preemptions that it was part of.
pub(super) fn history(journal: &Reader, pod: &PodKey) -> Result<Value, JournalError> {
    Ok(json!({
        "pod": pod.to_string(),
        "attempts": journal.history(pod, MOST_ENTRIES)?,
        "preemptions": journal.preemptions(Some(pod), MOST_ENTRIES)?,
    }))
}

/// What stands out in a journal.
fn notable(journal: &Reader) -> Result<Value, JournalError> {
    Ok(json!({
        "slowest": journal.slowest(MOST_ENTRIES)?,
        "mostRetried": journal.most_retried(MOST_ENTRIES)?,
        "preemptions": journal.preemptions(None, MOST_ENTRIES)?,
        "lost": journal.lost()?,
    }))
}

fn failure(error: AdviceError) -> Failure {
    match error {
        AdviceError::Unknown(why) => Failure::NotFound(why),
        AdviceError::Wrong(why) => Failure::Wrong(why),
        AdviceError::Failed(why) => Failure::Failed(why),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
